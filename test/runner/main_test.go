package main

import (
	"strings"
	"testing"
)

// TestReport: what is printed and counted of go test's events.
func TestReport(t *testing.T) {
	cases := []struct {
		name           string
		events         string
		passed, failed int
		skips          int
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
		{name: "a skip is kept with its reason", skips: 1, hasNot: []string{"needs root"}, events: `
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: needs root\n"}
{"Action":"skip","Package":"p","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"p","Elapsed":1.5}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			passed, failed, skips, err := report(strings.NewReader(strings.TrimSpace(c.events)), &out)
			if err != nil || passed != c.passed || failed != c.failed || len(skips) != c.skips {
				t.Errorf("%d passed, %d failed, %v skipped, %v", passed, failed, skips, err)
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
			if c.skips == 1 && (skips[0] != skip{"p.TestA", "needs root"}) {
				t.Errorf("%+v", skips[0])
			}
		})
	}
}
