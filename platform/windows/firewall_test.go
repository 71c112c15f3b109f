package windows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pace-node/internal/config"
	"pace-node/internal/host"
)

func surfacesOf(t *testing.T, args ...string) []config.Surface {
	t.Helper()
	c, _, err := config.Parse(args, func(string) (string, bool) { return "", false }, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Surfaces()
}

// TestRules writes out the four rules, and each argument of theirs.
func TestRules(t *testing.T) {
	const program = `C:\Program Files\Pace\pace-node.exe`
	line := func(protocol, port, from, description string) []string {
		return []string{"dir=in", "action=allow", `program=C:\Program Files\Pace\pace-node.exe`, "service=PaceNode", "protocol=" + protocol, "localport=" + port,
			"remoteip=" + from, "profile=any", "enable=yes", "description=pace-node: PaceNode, " + description}
	}
	want := []rule{
		{"PaceNode node tcp/6674", line("tcp", "6674", "any", "node (network)")}, {"PaceNode raft tcp/6680", line("tcp", "6680", "any", "raft (network)")},
		{"PaceNode discovery-beacon udp/6681", line("udp", "6681", "any", "discovery-beacon (segment)")}, {"PaceNode discovery-reply udp/any", line("udp", "any", "any", "discovery-reply (segment)")},
	}
	if d := cmp.Diff(want, rulesOf("PaceNode", program, surfacesOf(t), nil)); d != "" {
		t.Error(d)
	}
	want[3] = rule{"PaceNode discovery-reply udp/6682", line("udp", "6682", "any", "discovery-reply (segment)")} // pinned: no rule for any port is left
	if d := cmp.Diff(want, rulesOf("PaceNode", program, surfacesOf(t, "--discovery-reply-port=6682"), nil)); d != "" {
		t.Error(d)
	}
	got := rulesOf("Corp", program, surfacesOf(t, "--listen=127.0.0.1:1", "--discovery=", "--admin-listen=:9"), []string{"10.0.0.0/8", "fd00::1/128"})
	var names []string
	for _, r := range got {
		names = append(names, r.Name)
		if !slices.Contains(r.Args, "remoteip=10.0.0.0/8,fd00::1/128") || !slices.Contains(r.Args, "service=Corp") {
			t.Errorf("%q", r.Args)
		}
	}
	if d := cmp.Diff([]string{"Corp raft tcp/6680", "Corp admin tcp/9"}, names); d != "" {
		t.Error(d)
	}
}

func TestNetshArguments(t *testing.T) {
	r := rule{"a b", []string{"dir=in", "x=y z"}}
	for want, got := range map[string][]string{
		"advfirewall|firewall|add|rule|name=a b (new)|dir=in|x=y z": addArgs(r.Name+newMark, r), "advfirewall|firewall|delete|rule|name=a b": deleteArgs(r.Name),
		"advfirewall|firewall|show|rule|name=a b": showArgs(r.Name),
	} {
		if strings.Join(got, "|") != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if recordName(recordOf(r)) != "a b" {
		t.Error(recordOf(r))
	}
}

// wall is a firewall that does as netsh does: it adds a second rule of a name, and deletes all of one.
type wall struct {
	rules  []string // name|arguments
	fail   func(args []string) bool
	broken func(args []string) error
	calls  int
}

func (w *wall) run(_ context.Context, args ...string) (host.Result, error) {
	w.calls++
	if w.broken != nil {
		if err := w.broken(args); err != nil {
			return host.Result{}, err
		}
	}
	if w.fail != nil && w.fail(args) {
		return host.Result{Code: 1, Out: "Der Dienst antwortet nicht."}, nil
	}
	name := strings.TrimPrefix(args[4], "name=")
	if args[2] == "add" {
		w.rules = append(w.rules, strings.Join(append([]string{name}, args[5:]...), "|"))
		return host.Result{Out: "Ok."}, nil
	}
	is := func(r string) bool { return recordName(r) == name }
	if !slices.ContainsFunc(w.rules, is) {
		return host.Result{Code: 1}, nil
	}
	if args[2] == "delete" {
		w.rules = slices.DeleteFunc(w.rules, is)
	}
	return host.Result{}, nil
}

func records(rules []rule) (out []string) {
	for _, r := range rules {
		out = append(out, recordOf(r))
	}
	return out
}

func apply(t *testing.T, w *wall, want []rule, held []string) ([]string, host.Outcome) {
	t.Helper()
	var o host.Outcome
	remember, err := applyRules(t.Context(), w.run, want, held, &o)
	if err != nil {
		t.Fatal(err)
	}
	return remember, o
}

func TestApplyRules(t *testing.T) {
	w := &wall{rules: []string{"Other|dir=in"}}
	first := rulesOf("PaceNode", `C:\p.exe`, surfacesOf(t), nil)
	held, o := apply(t, w, first, nil)
	if d := cmp.Diff(append([]string{"Other|dir=in"}, records(first)...), w.rules); d != "" || len(o.Did) != 4 || len(o.Notes) != 0 {
		t.Errorf("%+v\n%s", o, d)
	}
	// Applied twice it changes nothing.
	w.calls = 0
	again, o := apply(t, w, first, held)
	if d := cmp.Diff(held, again); d != "" || len(w.rules) != 5 || len(o.Did) != 0 || w.calls != 4 {
		t.Errorf("%+v, %d calls\n%s", o, w.calls, d)
	}
	// Where nothing is remembered, there is no second rule of a name either.
	if _, o = apply(t, w, first, nil); len(w.rules) != 5 || len(o.Did) != 4 {
		t.Errorf("%+v\n%q", o, w.rules)
	}
	// A rule that somebody deleted comes back.
	w.rules = w.rules[:4]
	if _, o = apply(t, w, first, held); len(w.rules) != 5 || len(o.Did) != 1 {
		t.Errorf("%+v\n%q", o, w.rules)
	}
	// Another port, another place: the old names go.
	second := rulesOf("PaceNode", `C:\p.exe`, surfacesOf(t, "--listen=:7000", "--discovery-reply-port=6682"), []string{"10.0.0.0/8"})
	held, o = apply(t, w, second, held)
	if d := cmp.Diff(append([]string{"Other|dir=in"}, records(second)...), w.rules); d != "" || len(o.Did) != 6 {
		t.Errorf("%+v\n%s", o, d)
	}
	// Uninstalled: ours go, and nobody else's.
	held, o = apply(t, w, nil, held)
	if len(w.rules) != 1 || len(held) != 0 || len(o.Did) != 4 {
		t.Errorf("%+v\n%q", o, w.rules)
	}
}

// TestRuleThatCannotBeAddedLeavesTheOld also where netsh fails in the midst.
func TestRuleThatCannotBeAddedLeavesTheOld(t *testing.T) {
	w := &wall{}
	old := rulesOf("PaceNode", `C:\old.exe`, surfacesOf(t), nil)
	held, _ := apply(t, w, old, nil)
	w.fail = func(args []string) bool { return args[2] == "add" && strings.Contains(args[4], "raft") }
	next := rulesOf("PaceNode", `C:\new.exe`, surfacesOf(t), nil)
	held, o := apply(t, w, next, held)
	for i, r := range next {
		if i == 1 {
			r = old[1]
		}
		if !slices.Contains(w.rules, recordOf(r)) || !slices.Contains(held, recordOf(r)) {
			t.Errorf("%s is missing in %q", r.Name, w.rules)
		}
	}
	if len(w.rules) != 4 || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "PaceNode raft tcp/6680") {
		t.Errorf("%+v\n%q", o, w.rules)
	}
	// Taken under the name it was tried by, and then not: it stays under that one, and goes with the rest.
	tries := 0
	w.fail = func(args []string) bool {
		if args[2] == "add" {
			tries++
		}
		return args[2] == "add" && tries == 2
	}
	held, o = apply(t, w, next, held)
	if len(w.rules) != 4 || !slices.ContainsFunc(w.rules, func(r string) bool { return recordName(r) == "PaceNode raft tcp/6680 (new)" }) || len(o.Notes) != 1 {
		t.Errorf("%+v\n%q", o, w.rules)
	}
	w.fail = nil
	if held, _ = apply(t, w, nil, held); len(w.rules) != 0 || len(held) != 0 {
		t.Errorf("%q, %q", w.rules, held)
	}
}

// TestRulesUnderAnyFailure: whatever netsh does not do, each surface that had a rule has one, and what was made is
// remembered, so that it can go later.
func TestRulesUnderAnyFailure(t *testing.T) {
	old, next := rulesOf("P", `C:\o.exe`, surfacesOf(t), nil), rulesOf("P", `C:\n.exe`, surfacesOf(t, "--admin-listen=:9"), nil)
	rapid.Check(t, func(rt *rapid.T) {
		w := &wall{}
		held, _ := apply(t, w, old, nil)
		breaks := rapid.Bool().Draw(rt, "netsh itself cannot be run")
		adds := rapid.Bool().Draw(rt, "only adding fails")
		fails := rapid.SliceOfN(rapid.Bool(), 40, 40).Draw(rt, "fails")
		n := 0
		failing := func() bool { n++; return n < len(fails) && fails[n] }
		if breaks {
			w.broken = func([]string) error {
				if failing() {
					return errors.New("no such file")
				}
				return nil
			}
		} else {
			w.fail = func(args []string) bool { return (!adds || args[2] == "add") && failing() }
		}
		var o host.Outcome
		held, err := applyRules(t.Context(), w.run, next, held, &o)
		if err != nil && !breaks {
			rt.Fatal(err)
		}
		for _, r := range old {
			if !slices.ContainsFunc(w.rules, func(have string) bool { return strings.TrimSuffix(recordName(have), newMark) == r.Name }) {
				rt.Errorf("no rule of %q in %q", r.Name, w.rules)
			}
		}
		w.broken, w.fail = nil, nil
		if held, err = applyRules(t.Context(), w.run, nil, held, &o); err != nil || len(held) != 0 {
			rt.Error(held, err)
		}
		if (adds || breaks) && len(w.rules) != 0 {
			rt.Errorf("left: %q", w.rules)
		}
	})
}

func TestMutationRules(t *testing.T) {
	// Each argument of a rule is one that a firewall without it would open wider, or not at all.
	r := rulesOf("PaceNode", `C:\p.exe`, surfacesOf(t), nil)[0]
	for _, want := range []string{"dir=in", "action=allow", `program=C:\p.exe`, "service=PaceNode", "protocol=tcp", "localport=6674", "remoteip=any", "profile=any", "enable=yes"} {
		if !slices.Contains(r.Args, want) {
			t.Errorf("%q lacks %s", r.Args, want)
		}
	}
	if len(r.Args) != 10 || fmt.Sprint(groupOf("x")) != "pace-node: x" {
		t.Errorf("%q", r.Args)
	}
}
