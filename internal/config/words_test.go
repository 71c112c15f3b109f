package config

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// wantWordFlags: which words take which flag, and whether it has a value.
var wantWordFlags = map[string]struct {
	words []string
	value bool
}{
	"dry-run":         {[]string{"queue run-helper"}, false},
	"force":           {[]string{"fleet leave"}, false},
	"yes":             {[]string{"fleet leave", "fleet recover", "fleet accept", "fleet restore", "member forget"}, true},
	"passphrase-file": {[]string{"fleet backup", "fleet restore", "release key", "release sign"}, true},
	"key":             {[]string{"release sign", "release verify"}, true},
	"stale-for":       {[]string{"member stale", "member forget"}, true},
	"since":           {[]string{"audit"}, true},
	"limit":           {[]string{"audit"}, true},
}

func checkWordFlags() error {
	if len(WordFlags) != len(wantWordFlags) {
		return fmt.Errorf("%d flags of words, want %d", len(WordFlags), len(wantWordFlags))
	}
	for i := range WordFlags {
		f := &WordFlags[i]
		want, ok := wantWordFlags[f.Name]
		if !ok || want.value != (f.Metavar != "") || len(f.Of) != len(want.words) {
			return fmt.Errorf("--%s: %+v, want %+v", f.Name, *f, want)
		}
		for _, w := range want.words {
			if !f.Takes(strings.Fields(w)) || !f.Takes(append(strings.Fields(w), "x")) {
				return fmt.Errorf("--%s is not taken by %q", f.Name, w)
			}
		}
		if f.Takes([]string{"node"}) || f.Takes(nil) {
			return fmt.Errorf("--%s is taken by any words", f.Name)
		}
	}
	return nil
}

func TestWordFlags(t *testing.T) {
	if err := checkWordFlags(); err != nil {
		t.Fatal(err)
	}
	_, call, err := sources{tool: true, args: []string{"fleet", "leave", "--yes=" + fleA, "--force"}}.parse()
	if err != nil || call.Flags["yes"] != fleA || call.Flags["force"] != "true" || len(call.Words) != 2 {
		t.Errorf("%v %+v", err, call)
	}
	for _, args := range [][]string{
		{"fleet", "status", "--force"}, {"member", "list", "--yes=" + fleA}, {"member", "stale", "--stale-for=1s"}, {"member", "forget", "--stale-for=soon"}, {"--yes=" + fleA}, {"fleet", "leave", "--force=no"},
		{"fleet", "leave", "--yes=a b"}, {"fleet", "leave", "--yes=" + fleA, "--yes=" + fleA}, {"fleet", "leave", "--yes"},
		{"audit", "--limit=0"}, {"audit", "--limit=some"}, {"audit", "--since=1s"}, {"audit", "--since=-24h"}, {"node", "--limit=2"},
	} {
		var usage *UsageError
		if _, _, err := (sources{tool: true, args: args}).parse(); !errors.As(err, &usage) || usage.Remedy == "" {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
	if _, _, err := (sources{args: []string{"--force"}}).parse(); err == nil {
		t.Error("pace-node takes a flag of pacectl's words")
	}
}

func TestMutationWordFlags(t *testing.T) {
	for i := range WordFlags {
		for name, change := range map[string]func(f *WordFlag){
			"name": func(f *WordFlag) { f.Name += "x" },
			"value": func(f *WordFlag) {
				f.Metavar += map[bool]string{true: "X", false: ""}[f.Metavar == ""]
				f.Of = f.Of[:0]
			},
			"words": func(f *WordFlag) { f.Of = [][]string{{"node"}} },
		} {
			old := WordFlags[i]
			change(&WordFlags[i])
			if checkWordFlags() == nil {
				t.Errorf("--%s: its %s changed and nothing failed", old.Name, name)
			}
			WordFlags[i] = old
		}
	}
}
