package control

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// typedArgs are arguments that each verb takes, so that it gets as far as whoever it asks. A verb of neither table takes none.
var typedArgs = map[string][]string{
	"fleet leave": {cluster1}, "fleet recover": {cluster1}, "fleet accept": {testKey}, "fleet backup": {"file"}, "fleet restore": {"file"},
	"enroll approve": {idA + "@" + testKey}, "enroll reject": {idA}, "enroll window": {"15m"}, "enroll preapprove": {idB + "@" + otherKey},
	"member admit": {idB + "=10.1.0.9:6680"}, "member demote": {idA}, "member show": {idA}, "member forget": {idA}, "fleet set": {"enrollment.total=64"},
	"queue show": {idA}, "queue history": {idA}, "queue retry": {idA}, "queue drop": {idA}, "queue reprovision": {idA}, "queue run-helper": {idA},
	"release key": {"file"}, "release new": {"file", "1.2.3", "linux-amd64=file"}, "release sign": {"file", "1.2.3"}, "release verify": {"file", "1.2.3"},
	"completion": {"bash"},
}

var typedArg = map[string]string{
	"enroll-approve": idA + "@" + testKey, "enroll-reject": idA, "enroll-auto-approve": "15m", "cluster-admit": idB + "=10.1.0.9:6680",
	"cluster-admit-learner": idB + "@" + otherKey, "cluster-forget": idA, "cluster-set": "enrollment.total=64",
}

// unasked are the verbs that ask no node: what they need is of this machine.
var unasked = []string{"identity", "fleet restore", "release key", "release new", "release sign", "release verify", "completion", "doctor",
	"print-identity", "reset-identity", "print-surfaces", "install-service", "uninstall-service", "apply-upgrade", "run-hooks"}

// TestEveryVerbAnswersInJSON walks the table of verbs, by both names: with nobody there, refused by a node, by another machine
// that is away, and with a word too many. Each time stdout is exactly one JSON value with reason, remedy and the status that
// the program ends with, the remedy names a command that there is, and notices are elsewhere.
func TestEveryVerbAnswersInJSON(t *testing.T) {
	refused := func(code wire.ErrorCode) nodes {
		n := leaderNode()
		n.fail = wire.NewError(code, "no, for a reason", "")
		return nodes{"": n}
	}
	seen := 0
	check := func(name string, fleet nodes, call config.VerbCall, cfg config.Config, exit int) {
		t.Helper()
		seen++
		cfg.JSON = true
		got, out, errs := fleet.run(t, call, cfg, "")
		if got != exit {
			t.Errorf("%s: status %d, want %d: %s%s", name, got, exit, out, errs)
			return
		}
		doc := wantOneJSON(t, out)
		if exit == config.ExitOK {
			return
		}
		e, _ := doc["error"].(map[string]any)
		remedy, _ := e["remedy"].(string)
		if e["reason"] == "" || e["code"] == "" || e["exit"] != float64(exit) || remedy == "" {
			t.Errorf("%s: %v", name, e)
		}
		if err := namesCommands(remedy); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for line := range strings.Lines(errs) {
			if !strings.HasPrefix(line, "note: ") && !strings.HasPrefix(line, "fleet ") && !strings.HasPrefix(line, "voter ") && !strings.HasPrefix(line, "members: ") {
				t.Errorf("%s: stderr %q", name, line)
			}
		}
	}
	for _, v := range verbs {
		var calls []config.VerbCall
		if v.words != "" {
			calls = append(calls, words(append(strings.Fields(v.words), typedArgs[v.words]...)...))
		}
		if v.flag != "" {
			calls = append(calls, flag1(v.flag, typedArg[v.flag]))
		}
		for _, call := range calls {
			name := v.flag
			if call.Name == config.ToolVerb {
				name = v.words
			}
			if call.Name == config.ToolVerb {
				many := words(append(strings.Fields(v.words), slices.Repeat([]string{"more"}, max(v.most, 0)+1)...)...)
				if v.most >= 0 {
					check(name+" with a word too many", nodes{}, many, config.Config{}, config.ExitUsage)
				}
				if v.least > 0 {
					check(name+" with a word too few", nodes{}, words(strings.Fields(v.words)...), config.Config{}, config.ExitUsage)
				}
			}
			if slices.Contains(unasked, name) || name == "fleet backup" {
				continue // they are judged by this machine
			}
			check(name+" with nobody there", nodes{}, call, config.Config{}, config.ExitNobody)
			check(name+", refused", refused(wire.CodeRefusedByRule), call, config.Config{}, config.ExitRefused)
			check(name+", too early", refused(wire.CodeBusy), call, config.Config{}, config.ExitNobody)
			check(name+", of another version", refused(wire.CodeUnknownVerb), call, config.Config{}, config.ExitFailed)
			if slices.Contains([]string{"fleet leave", "fleet recover", "fleet accept", "dashboard"}, name) {
				check(name+" at another machine", nodes{}, call, config.Config{Scheduler: "10.1.0.9:6674"}, config.ExitUsage)
				continue
			}
			check(name+" of a machine that is away", nodes{}, call, config.Config{Scheduler: "10.1.0.9:6674"}, config.ExitNobody)
		}
	}
	if seen < 200 {
		t.Errorf("%d cases only: this test walks another table", seen)
	}
}

// namesCommands: a remedy names a command, and each that it names is one that the program takes.
func namesCommands(remedy string) error {
	if !commandIn.MatchString(remedy) {
		return fmt.Errorf("the remedy names no command: %q", remedy)
	}
	for _, tool := range []string{"pacectl ", "pace-node "} {
		for rest := remedy; ; {
			at := strings.Index(rest, tool)
			if at < 0 {
				break
			}
			rest = rest[at+len(tool):]
			var argv []string
			for _, w := range strings.Fields(rest) {
				plain := strings.TrimRight(w, ",;:.?")
				known := strings.HasPrefix(plain, "--")
				for _, v := range verbs {
					known = known || tool == "pacectl " && slices.Contains(strings.Fields(v.words), plain)
				}
				if known = known || plain == "help"; !known || len(argv) == 3 {
					break
				}
				argv = append(argv, plain)
			}
			if len(argv) == 0 {
				return fmt.Errorf("%q names %s and no word of it", remedy, tool)
			}
			if tool == "pacectl " && argv[0] == "help" {
				if _, err := ToolHelp(argv[1:]); err != nil {
					return fmt.Errorf("%q: %w", remedy, err)
				}
				continue
			}
			for n := len(argv); n > 0; n-- { // words of the sentence may look like words of ours
				err := understood(append([]string{strings.TrimSpace(tool)}, argv[:n]...), true)
				if err == nil {
					break
				}
				if n == 1 {
					return fmt.Errorf("%q: %w", remedy, err)
				}
			}
		}
	}
	return nil
}

// TestEveryFailureNamesTheNextCommand walks the errors that end a verb.
func TestEveryFailureNamesTheNextCommand(t *testing.T) {
	all := []error{
		&NobodyError{Where: "x", Err: fs.ErrNotExist}, &NobodyError{Where: "x", Err: fs.ErrPermission}, &NobodyError{Where: "x", Err: ErrSocketOwner},
		&NobodyError{Where: "x", Err: ErrNotSocket}, &NobodyError{Where: "x", Err: errors.New("connection refused")}, errors.New("disk full"), fs.ErrPermission,
		&config.UsageError{What: "w", Remedy: "give it once"}, &config.RefusedError{Where: "the file", Why: "no"}, &inUse{},
		unknownMachine("web9", "the fleet", "pacectl member list", []Machine{{ID: idA, Name: "web1"}}),
		usageFailure("a duration such as 15m", "no duration"),
	}
	for _, row := range wire.Codes {
		for _, text := range []string{"", "10.0.0.1:6674", "a sentence of the node"} {
			for _, hint := range []string{"", "come again later", "pacectl fleet status names them"} {
				all = append(all, wire.NewError(row.Code, text, hint))
			}
		}
	}
	calls := []config.VerbCall{words("enroll", "window", "soon"), words("nod"), words("member", "frget"), words(), flag1("enroll-list", ""), {}}
	for _, err := range all {
		for _, socket := range []bool{true, false} {
			for _, call := range calls {
				f := failureOf(err, socket)
				if err := namesCommands(nextCommand(f, call)); err != nil {
					t.Errorf("%v after %v: %v", f.Code, call.Words, err)
				}
			}
		}
	}
	f := usageFailure("a duration such as 15m", "no duration")
	if got := nextCommand(f, words("enroll", "window", "soon")); got != "a duration such as 15m. pacectl help enroll window shows how it is typed" {
		t.Errorf("%q", got)
	}
}

func TestMutationNexts(t *testing.T) {
	for i, was := range Nexts {
		if was.Code == codeUsage {
			continue // its command is the help of what was typed
		}
		Nexts[i].Command = "look at it"
		code := was.Code
		if code == "" {
			code = codeFailed
		}
		if namesCommands(nextCommand(&Failure{Code: code, Remedy: "r"}, config.VerbCall{})) == nil {
			t.Errorf("%q flipped, and nobody noticed", was.Code)
		}
		Nexts[i] = was
	}
}

// checkHelps holds the help's table against the verbs: a row each, whose examples the program takes.
func checkHelps() error {
	for _, v := range verbs {
		if v.words == "" {
			continue
		}
		rows := 0
		for _, h := range Helps {
			if h.Words != v.words {
				continue
			}
			rows++
			if len(h.Examples) == 0 {
				return fmt.Errorf("%s has no example", v.words)
			}
			for _, e := range h.Examples {
				e, _, _ = strings.Cut(e, " | ")
				e, _, _ = strings.Cut(e, " > ")
				if !strings.HasPrefix(e, "pacectl "+v.words) {
					return fmt.Errorf("%s has an example of something else: %s", v.words, e)
				}
				if err := understood(strings.Fields(e), false); err != nil {
					return fmt.Errorf("%s: %w", e, err)
				}
			}
		}
		if rows != 1 {
			return fmt.Errorf("%s has %d rows", v.words, rows)
		}
	}
	return nil
}

func TestHelps(t *testing.T) {
	if err := checkHelps(); err != nil {
		t.Fatal(err)
	}
	for _, v := range verbs {
		if v.words == "" {
			continue
		}
		page, err := ToolHelp(strings.Fields(v.words))
		if err != nil || !strings.Contains(page, "pacectl "+v.synopsis()+"\n") || !strings.Contains(page, "Examples\n  pacectl "+v.words) {
			t.Errorf("pacectl help %s: %v\n%s", v.words, err, page)
		}
		for line := range strings.Lines(page) {
			if len(line) > 160 {
				t.Errorf("pacectl help %s has a line of %d", v.words, len(line))
			}
		}
	}
	if page, err := ToolHelp([]string{"member"}); err != nil || !strings.Contains(page, "pacectl member forget") || strings.Contains(page, "pacectl queue") {
		t.Errorf("of a group: %v\n%s", err, page)
	}
	page, err := ToolHelp([]string{"fleet", "set"})
	for _, row := range fleet.Settings {
		if err != nil || !strings.Contains(page, row.Name+":") {
			t.Errorf("pacectl help fleet set does not name %s: %v\n%s", row.Name, err, page)
		}
	}
	page, err = ToolHelp(nil)
	for _, e := range config.ToolExits() {
		if err != nil || !strings.Contains(page, fmt.Sprintf("\n  %d", e.Code)) || e.Code == config.ExitAgain {
			t.Errorf("pacectl help and status %d: %v", e.Code, err)
		}
	}
	for words, want := range map[string]string{"membr": "did you mean: pacectl member?", "member frget": "did you mean: pacectl member forget?"} {
		_, err := ToolHelp(strings.Fields(words))
		if f := (*Failure)(nil); !errors.As(err, &f) || f.Remedy != want || f.Exit != config.ExitUsage {
			t.Errorf("help %s: %+v", words, err)
		}
	}
}

func TestMutationHelps(t *testing.T) {
	for i, was := range Helps {
		for _, flip := range []func(*HelpRow){
			func(h *HelpRow) { h.Words += "x" },
			func(h *HelpRow) { h.Examples = nil },
			func(h *HelpRow) {
				h.Examples = []string{strings.Replace(h.Examples[0], "pacectl "+h.Words, "pacectl "+h.Words+" --nonsense", 1)}
			},
			func(h *HelpRow) { h.Examples = []string{"pacectl nonsense"} },
		} {
			flip(&Helps[i])
			if checkHelps() == nil {
				t.Errorf("%s flipped, and nobody noticed", was.Words)
			}
			Helps[i] = was
		}
	}
}

// TestEveryWordIsSuggested: each word and each flag with one letter left out, doubled or swapped is still understood as itself,
// or as another that is as near.
func TestEveryWordIsSuggested(t *testing.T) {
	mistype := func(w string) []string {
		if len(w) < 4 {
			return nil
		}
		at := len(w) / 2
		return []string{w[:at] + w[at+1:], w[:at] + w[at:at+1] + w[at:], w[:at-1] + w[at:at+1] + w[at-1:at] + w[at+1:], w + "x"}
	}
	for _, first := range firstWords() {
		for _, wrong := range mistype(first) {
			if slices.Contains(firstWords(), wrong) {
				continue
			}
			if _, _, err := findWords([]string{wrong}); err == nil || !strings.Contains(err.(*Failure).Remedy, "pacectl "+first) {
				t.Errorf("%s: %v", wrong, err)
			}
		}
		for _, second := range secondWords(first) {
			for _, wrong := range mistype(second) {
				if slices.Contains(secondWords(first), wrong) {
					continue
				}
				if _, _, err := findWords([]string{first, wrong}); err == nil || !strings.Contains(err.(*Failure).Remedy, "did you mean: pacectl "+first+" ") {
					t.Errorf("%s %s: %v", first, wrong, err)
				}
			}
		}
	}
	for _, flag := range toolFlags() {
		name := strings.TrimSuffix(strings.TrimPrefix(flag, "--"), "=")
		for _, wrong := range mistype(name) {
			_, _, err := config.ParseTool([]string{"node", "--" + wrong}, nil, nil, nil)
			if err == nil || !strings.Contains(err.Error(), "did you mean --"+name) {
				t.Errorf("--%s: %v", wrong, err)
			}
		}
	}
}

// TestAuditFilters: by age, by number, by machine; what is left out is counted.
func TestAuditFilters(t *testing.T) {
	now := time.Now().Unix()
	n := leaderNode()
	n.status["audit"] = AuditList{View: View{Mode: "voter"}, Entries: []AuditEntry{
		{At: now - 90_000, By: testKey, Did: "approve", What: idB, Subject: idB, Revision: 1},
		{At: now - 600, By: otherKey, Did: "set", What: "x=y", Revision: 2},
		{At: now - 300, By: testKey, Did: "forget", What: "gone1", Subject: "gone1", Revision: 3},
	}}
	for _, c := range []struct {
		args  []string
		flags map[string]string
		want  string
		exit  int
	}{
		{nil, nil, "approve set forget", 0},
		{nil, map[string]string{"since": "24h"}, "set forget", 0},
		{nil, map[string]string{"since": "24h", "limit": "1"}, "forget", 0},
		{nil, map[string]string{"limit": "9"}, "approve set forget", 0},
		{[]string{"gone1"}, nil, "forget", 0},        // no member any more
		{[]string{"web1"}, nil, "approve forget", 0}, // at it
		{[]string{"nobody here"}, nil, "", 4},
	} {
		call := words(append([]string{"audit"}, c.args...)...)
		call.Flags = c.flags
		exit, out, errs := nodes{"": n}.run(t, call, config.Config{JSON: true}, "")
		if exit != c.exit {
			t.Errorf("%v %v: %d %s%s", c.args, c.flags, exit, out, errs)
			continue
		}
		if exit != 0 {
			continue
		}
		d, err := wire.DecodeDocument[AuditList]([]byte(out))
		var did []string
		for _, e := range d.Entries {
			did = append(did, e.Did)
		}
		if err != nil || strings.Join(did, " ") != c.want || d.LeftOut != 3-len(did) {
			t.Errorf("%v %v: %v, %d left out, %v", c.args, c.flags, did, d.LeftOut, err)
		}
	}
	// A mistyped name has those proposed that it may mean, members and machines of the record alike.
	for word, want := range map[string]string{"wbe1": "did you mean web1 [" + idA + "]?", "Wbe 1": "did you mean web1 [" + idA + "]?", "gnoe1": "did you mean gone1?"} {
		exit, _, errs := nodes{"": n}.run(t, words("audit", word), config.Config{}, "")
		if exit != config.ExitRefused || !strings.Contains(errs, want) {
			t.Errorf("audit %s: %d %s, want %q", word, exit, errs, want)
		}
	}
}

// TestCompletionOfMachines: names that are one member's and ids, and nothing that a shell would run.
func TestCompletionOfMachines(t *testing.T) {
	n := leaderNode()
	s := exampleCluster()
	s.Members = []MemberStatus{{ID: idA, Name: "web1"}, {ID: idB, Name: "twin"}, {ID: idC, Name: "Twin"}, {ID: "d", Name: "$(touch pwned)"}, {ID: "e", Name: "--help"}}
	n.status["cluster"] = s
	exit, out, errs := nodes{"": n}.run(t, words("completion", "machines"), config.Config{}, "")
	if want := strings.Join([]string{"web1", idA, idB, idC, "d", "e"}, "\n") + "\n"; exit != 0 || out != want {
		t.Errorf("%d %q %s, want %q", exit, out, errs, want)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		exit, out, errs := nodes{}.run(t, words("completion", shell), config.Config{}, "")
		if exit != 0 || errs != "" {
			t.Errorf("%s: %d %s", shell, exit, errs)
		}
		for _, first := range firstWords() {
			if !strings.Contains(out, first) {
				t.Errorf("%s does not know %s", shell, first)
			}
			for _, second := range secondWords(first) {
				if !strings.Contains(out, second) {
					t.Errorf("%s does not know %s %s", shell, first, second)
				}
			}
		}
		for _, f := range toolFlags() {
			name := strings.TrimSuffix(strings.TrimPrefix(f, "--"), "=")
			if !strings.Contains(out, "--"+name) && !strings.Contains(out, "-l "+name) {
				t.Errorf("%s does not know --%s", shell, name)
			}
		}
		if !strings.Contains(out, "completion machines") {
			t.Errorf("%s does not ask for the machines", shell)
		}
	}
	if exit, _, errs := (nodes{}).run(t, words("completion", "bsh"), config.Config{}, ""); exit != 2 || !strings.Contains(errs, "pacectl completion bash") {
		t.Errorf("%d %s", exit, errs)
	}
}

// TestBusyIsToldAtATerminal: what takes more than a second is told on stderr and taken away again, at a terminal only.
func TestBusyIsToldAtATerminal(t *testing.T) {
	for _, terminal := range []bool{true, false} {
		out := &collector{}
		r := &runner{stderr: out, deps: RunDeps{Terminal: func() bool { return terminal }}}
		r.busy("quick")()
		if out.text() != "" {
			t.Errorf("told of what was quick: %q", out.text())
		}
	}
	// What takes long is told after a second and each second on, and taken away at its end; to nobody in a script.
	for _, terminal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			out := &collector{}
			r := &runner{stderr: out, deps: RunDeps{Terminal: func() bool { return terminal }}}
			done := r.busy("asking alder")
			time.Sleep(900 * time.Millisecond)
			synctest.Wait()
			if out.text() != "" {
				t.Errorf("told within the first second: %q", out.text())
			}
			time.Sleep(1600 * time.Millisecond)
			synctest.Wait()
			told := strings.Count(out.text(), "asking alder")
			if terminal && told != 2 || !terminal && told != 0 {
				t.Errorf("terminal %v: told %d times in 2.5 s: %q", terminal, told, out.text())
			}
			shown := len(out.text())
			done()
			if terminal && (len(out.text()) == shown || strings.Contains(out.text()[shown:], "asking")) {
				t.Errorf("it is left there: %q", out.text()[shown:])
			}
		})
	}
}
