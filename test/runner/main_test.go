package main

import (
	"slices"
	"strings"
	"testing"
)

// TestRest: after the race detector's runtime ended a package, its tests that had ended are not run again, nor is any other package.
func TestRest(t *testing.T) {
	got := rest([]string{"-race", "-timeout", "30m", "./internal/node", "./..."}, "pace-node/internal/node", []string{"TestA", "TestB"})
	if want := []string{"-race", "-timeout", "30m", "-skip", "^(TestA|TestB)$", "pace-node/internal/node"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if got := rest([]string{"-race", "./..."}, "p", nil); !slices.Equal(got, []string{"-race", "p"}) {
		t.Errorf("none had ended: %q", got)
	}
}

// TestReport: what is printed and counted of go test's events.
func TestReport(t *testing.T) {
	cases := []struct {
		name           string
		events         string
		passed, failed int
		skips          int
		died           []string // tests that had ended
		has, hasNot    []string
	}{
		{name: "what passes is a line a package", passed: 1, hasNot: []string{"quiet"}, has: []string{"ok   p (1.5s)"}, events: `
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"pass","Package":"p","Elapsed":1.5}`},
		{name: "what fails is printed whole", failed: 1, has: []string{"a_test.go:1: wrong", "FAIL p"}, events: `
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: wrong\n"}
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p","Elapsed":1.5}`},
		{name: "a process that dies under a test says why", passed: 1, has: []string{"TestB of p had not ended:", "SIGSEGV: segmentation violation", "FAIL p"}, hasNot: []string{"quiet"}, events: `
{"Action":"output","Package":"p","Test":"TestA","Output":"quiet\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestB","Output":"SIGSEGV: segmentation violation\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.5s\n"}
{"Action":"fail","Package":"p","Elapsed":1.5}`},
		{name: "a check of the race detector's runtime", passed: 1, died: []string{"TestA"}, events: `
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestB","Output":"ThreadSanitizer: CHECK failed: tsan_rtl.cpp:94 \"((part)) == ((part1))\" (0x7f1a851e0000, 0x7f1a85320000) (tid=15144)\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.5s\n"}
{"Action":"fail","Package":"p","Elapsed":1.5}`},
		{name: "a fault in the race detector's runtime", passed: 2, died: []string{"TestA"}, events: `
{"Action":"pass","Package":"p","Test":"TestA/sub","Elapsed":1}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestB","Output":"SIGSEGV: segmentation violation\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"PC=0x41ca09 m=14 sigcode=1 addr=0x0\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"goroutine 0 gp=0xc00107a1e0 m=14 mp=0xc00087f008 [idle, synctest bubble 254]:\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.5s\n"}
{"Action":"fail","Package":"p","Elapsed":1.5}`},
		{name: "a fault there whose stack Go cannot read", passed: 1, died: []string{"TestA"}, events: `
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestB","Output":"runtime: g 86: unexpected return pc for runtime.sigpanic called from 0x7f7157ffddc8\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"fatal error: unsafe.Slice: len out of range\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.5s\n"}
{"Action":"fail","Package":"p","Elapsed":1.5}`},
		{name: "the same after a failure is that failure's", failed: 1, events: `
{"Action":"fail","Package":"p","Test":"TestA","Elapsed":1}
{"Action":"output","Package":"p","Test":"TestB","Output":"ThreadSanitizer: CHECK failed: tsan_rtl.cpp:94\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.5s\n"}
{"Action":"fail","Package":"p","Elapsed":1.5}`},
		{name: "a panic is no fault of the race detector", failed: 1, events: `
{"Action":"output","Package":"p","Test":"TestB","Output":"panic: runtime error: invalid memory address or nil pointer dereference\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"[signal SIGSEGV: segmentation violation code=0x1 addr=0x68 pc=0xbb3eb9]\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"goroutine 271380 [running, synctest bubble 92]:\n"}
{"Action":"fail","Package":"p","Test":"TestB","Elapsed":1}
{"Action":"output","Package":"p","Output":"FAIL\tp\t1.5s\n"}
{"Action":"fail","Package":"p","Elapsed":1.5}`},
		{name: "a skip is kept with its reason", skips: 1, hasNot: []string{"needs root"}, events: `
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: needs root\n"}
{"Action":"skip","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":1.5}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			all, err := report(strings.NewReader(strings.TrimSpace(c.events)), &out)
			if err != nil || all.passed != c.passed || all.failed != c.failed || len(all.skips) != c.skips {
				t.Errorf("%+v %v", all, err)
			}
			if ended, dead := all.died["p"]; dead != (c.died != nil) || !slices.Equal(ended, c.died) {
				t.Errorf("died: %v %v", ended, dead)
			}
			for _, s := range c.has {
				if !strings.Contains(out.String(), s) {
					t.Errorf("%q is not in\n%s", s, &out)
				}
			}
			for _, s := range c.hasNot {
				if strings.Contains(out.String(), s) {
					t.Errorf("%q is in\n%s", s, &out)
				}
			}
			if c.skips == 1 && (all.skips[0] != skip{"p.TestA", "needs root"}) {
				t.Errorf("%+v", all.skips[0])
			}
		})
	}
}
