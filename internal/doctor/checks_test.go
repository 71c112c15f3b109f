package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// healthy are the facts of a machine on which nothing is wrong: every check is well on it.
func healthy() Facts {
	return Facts{
		OS:    "linux",
		Node:  &Node{Mode: "voter", Name: "alder", Version: "1.0.0"},
		State: State{Path: "/var/lib/pace-node", Free: 1 << 30, Size: 4 << 30},
	}
}

// cell is one row of what is expected: what is wrong on a machine that is healthy else, and what is then found.
type cell struct {
	what    string
	change  func(f *Facts)
	check   string
	verdict Verdict
	says    string // part of the detail
	remedy  string // part of the remedy
}

func raise(id, severity string) func(f *Facts) {
	return func(f *Facts) {
		f.Node.Conditions = append(f.Node.Conditions, Condition{ID: id, Severity: severity, Detail: "as it is", Remedy: "mend it"})
	}
}

var cells = []cell{
	{"the service is stopped", func(f *Facts) {
		f.Node, f.Silent = nil, Silent{Service: "pace-node", Start: "sudo systemctl start pace-node", Err: "no socket"}
	}, "node", Problem, "does not run", "sudo systemctl start pace-node"},
	{"the service runs and is silent", func(f *Facts) {
		f.Node, f.Silent = nil, Silent{Service: "pace-node", Running: true, Log: "journalctl -u pace-node", Err: "no socket"}
	}, "node", Problem, "does not answer", "journalctl -u pace-node"},
	{"no service and no node", func(f *Facts) { f.Node, f.Silent = nil, Silent{Err: "no socket"} }, "node", Problem, "no service", "--install-service"},
	{"the node does not talk to this account", func(f *Facts) { f.Node, f.Silent = nil, Silent{Forbidden: true, Err: "permission denied"} }, "node", Unknown, "this account", "sudo pacectl doctor"},
	{"the state directory is another's", func(f *Facts) { f.State.Refused, f.State.Remedy = "it belongs to user 7", "chown -R 0 /s" }, "state-directory", Problem, "user 7", "chown"},
	{"the state directory cannot be looked at", func(f *Facts) { f.State.Unknown = "permission denied" }, "state-directory", Unknown, "permission denied", "sudo pacectl doctor"},
	{"the state directory is gone", raise("state-dir-lost", "alert"), "state-directory", Problem, "as it is", "mend it"},
	{"a move cannot be written", raise("formation-move-refused", "alert"), "state-directory", Problem, "as it is", "mend it"},
	{"the disk is nearly full", func(f *Facts) { f.State.Free, f.State.Low = 12<<20, true }, "disk", Problem, "12 MiB of 4096 MiB", "df -h {folder}"},
	{"the node says that the disk is nearly full", raise("state-dir-nearly-full", "warning"), "disk", Warning, "as it is", "mend it"},
	{"the store cannot be written", raise("consensus-store-unwritable", "alert"), "disk", Problem, "as it is", "mend it"},
	{"the system does not tell of the disk", func(f *Facts) { f.State.Size = 0 }, "disk", Unknown, "does not tell", ""},
	{"a port is taken", func(f *Facts) {
		f.Node, f.Ports = nil, []Port{{Surface: "node", Proto: "tcp", Number: 6674, Flag: "listen", Taken: true, Holder: "nc, process 7"}}
	}, "ports", Problem, "tcp port 6674 (node, --listen) is taken by nc, process 7", "ss -ltnp"},
	{"a port is taken by nobody knows whom", func(f *Facts) {
		f.Node, f.Ports = nil, []Port{{Surface: "discovery-reply", Proto: "udp", Number: 6682, Flag: "discovery-reply-port", Taken: true}}
	}, "ports", Problem, "udp port 6682", "ss -lunp"},
	{"an address cannot be bound", func(f *Facts) {
		f.Node, f.Ports = nil, []Port{{Surface: "node", Proto: "tcp", Number: 6674, Flag: "listen", Err: "cannot assign requested address"}}
	}, "ports", Problem, "cannot assign", "--listen"},
	{"the admin endpoint is off", raise("admin-endpoint-off", "warning"), "ports", Warning, "as it is", "mend it"},
}

func checkCells() error {
	f := healthy()
	for _, x := range Examine(&f) {
		if x.Verdict != OK {
			return fmt.Errorf("on a healthy machine: %s is %s: %s", x.Check, x.Verdict, x.Detail)
		}
	}
	for _, c := range cells {
		f := healthy()
		c.change(&f)
		got := Examine(&f)
		at := slices.IndexFunc(got, func(x Finding) bool {
			return x.Check == c.check && x.Verdict == c.verdict && strings.Contains(x.Detail, c.says) && strings.Contains(x.Remedy, c.remedy) && (c.remedy == "") == (x.Remedy == "")
		})
		if at < 0 {
			return fmt.Errorf("%s: no %s of %s that says %q and %q in %+v", c.what, c.verdict, c.check, c.says, c.remedy, got)
		}
		for _, x := range got {
			if x.Verdict > Notice && x.Check != c.check && x.Check != "node" {
				return fmt.Errorf("%s: %s is %s too: %s", c.what, x.Check, x.Verdict, x.Detail)
			}
		}
	}
	return nil
}

func TestChecks(t *testing.T) {
	if err := checkCells(); err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, c := range cells {
		tried[c.check] = true
	}
	for _, c := range Checks {
		if !tried[c.Name] {
			t.Errorf("no cell is about %s", c.Name)
		}
		if c.Looks == "" {
			t.Errorf("%s does not say what it looks at", c.Name)
		}
	}
}

// TestMutationChecks flips each row.
func TestMutationChecks(t *testing.T) {
	flips := map[string]func(c *Check){
		"the name":  func(c *Check) { c.Name += "x" },
		"the judge": func(c *Check) { c.Judge = func(*Facts) []Finding { return []Finding{well("")} } },
	}
	for i := range Checks {
		for name, flip := range flips {
			was := Checks[i]
			flip(&Checks[i])
			if checkCells() == nil {
				t.Errorf("%s: %s flipped, and nobody noticed", was.Name, name)
			}
			Checks[i] = was
		}
		for j := range Checks[i].Conditions {
			was := Checks[i].Conditions[j]
			Checks[i].Conditions[j] += "x"
			if checkCells() == nil {
				t.Errorf("%s: the condition %s is not its, and nobody noticed", Checks[i].Name, was)
			}
			Checks[i].Conditions[j] = was
		}
	}
}

// checkWords holds the small tables against cells written out by hand.
func checkWords() error {
	for severity, want := range map[string]Verdict{"notice": Notice, "warning": Warning, "alert": Problem, "?": Unknown} {
		if got := verdictOf(Condition{ID: "x", Severity: severity}); got != want {
			return fmt.Errorf("%s: %s", severity, got)
		}
	}
	for id, want := range map[string]Verdict{"peers-never-authenticated": Problem, "discovery-no-interface": Problem, "wire-version-seen": Warning, "clock-skewed": Notice} {
		if got := verdictOf(Condition{ID: id, Severity: "notice"}); got != want {
			return fmt.Errorf("%s: %s", id, got)
		}
	}
	for os, want := range map[string][2]string{"linux": {"ss -ltnp", "ss -lunp"}, "darwin": {"-iTCP", "-iUDP"}, "windows": {"TCP", "UDP"}, "plan9": {"", ""}} {
		for i, proto := range []string{"tcp", "udp"} {
			if got := showHolder(os, proto); !strings.Contains(got, want[i]) || want[i] == "" && got != "" {
				return fmt.Errorf("%s %s: %q", os, proto, got)
			}
		}
	}
	return nil
}

func TestMutationWords(t *testing.T) {
	if err := checkWords(); err != nil {
		t.Fatal(err)
	}
	flipped := func(what string) {
		t.Helper()
		if checkWords() == nil {
			t.Errorf("%s flipped, and nobody noticed", what)
		}
	}
	for i := range severities {
		was := severities[i]
		severities[i].Verdict++
		flipped(was.Severity)
		severities[i] = was
	}
	for i := range worse {
		was := worse[i]
		worse[i].Verdict = OK
		flipped(was.Condition)
		worse[i] = was
	}
	for i := range holders {
		was := holders[i]
		holders[i].TCP, holders[i].UDP = was.UDP, was.TCP
		flipped(was.OS)
		holders[i] = was
	}
}

// TestOrder: the worst first, the table's order among equals, and a check says once what a condition says as well.
func TestOrder(t *testing.T) {
	f := healthy()
	raise("admin-endpoint-off", "warning")(&f)
	raise("state-dir-nearly-full", "warning")(&f)
	f.State.Low = true
	var got []string
	for _, x := range Examine(&f) {
		got = append(got, x.Verdict.String()+" "+x.Check)
	}
	if got, want := strings.Join(got, ", "), "problem disk, warning disk, warning ports, ok node, ok state-directory"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	f.Node.Conditions[1].Severity = "alert"
	if n := len(Examine(&f)); n != 4 {
		t.Errorf("%d findings: what a condition says is said again", n)
	}
	if Worst(nil) != OK {
		t.Error("nothing is bad")
	}
	for _, v := range Verdicts() {
		if v.String() == "?" {
			t.Errorf("verdict %d has no word", v)
		}
	}
	if len(Verdicts()) != int(verdictCount) || verdictCount.String() != "?" {
		t.Error("not every verdict is listed")
	}
}
