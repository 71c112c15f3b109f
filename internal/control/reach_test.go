package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

// TestTypedFlagsAreInEveryCommand: whoever typed --state-dir or --scheduler is given commands that reach the same node, as
// text and as JSON; what the environment says is not repeated.
func TestTypedFlagsAreInEveryCommand(t *testing.T) {
	const dir, at = "/srv/x", "10.1.0.9:6674"
	typed := func(o config.Origin) map[string]config.Origin {
		return map[string]config.Origin{"state-dir": o, "scheduler": o}
	}
	n := leaderNode()
	n.list = EnrollList{Rows: []EnrollRow{{Decision: DecisionWaiting, ID: idB, Key: otherKey}, {Decision: DecisionApproved, ID: idC, Key: testKey}}}
	s := exampleCluster()
	s.Members = []MemberStatus{{ID: idA, Role: "voter", Key: testKey}, {ID: idB, Name: "web2", Role: "learner", Key: otherKey}}
	s.Members[1].Endpoints.FC = "10.1.0.3:6674"
	s.Conditions = []ConditionStatus{{ID: "x", Severity: "notice", Remedy: "pacectl queue resume"}, {ID: "y", Severity: "alert", Remedy: "pace-node --reset-identity"}}
	n.status["cluster"] = s
	n.status["watch"] = WatchStatus{Waiting: n.list.Rows, Members: s.Members, Conditions: s.Conditions}
	const approve, admit = "pace-node --enroll-approve=" + idB + "@" + otherKey, "pace-node --cluster-admit=" + idB + "=10.1.0.3:6680@" + otherKey
	for _, c := range []struct {
		call     config.VerbCall
		commands []string // as they are where nothing was typed
	}{
		{words("enroll", "list"), []string{approve}},
		{flag1("enroll-list", ""), []string{approve}},
		{words("fleet", "status"), []string{admit, "pacectl queue resume"}},
		{words("member", "list"), []string{admit}},
		{words("member", "show", "web2"), []string{admit}},
		{words("watch"), []string{approve, admit, "pacectl queue resume"}},
	} {
		for _, asJSON := range []bool{true, false} {
			if !asJSON && c.call.Words != nil && c.call.Words[0] == "watch" {
				continue // the live one: TestWatchShowsWhatWasTyped
			}
			for name, w := range map[string]struct {
				cfg  config.Config
				want string
			}{
				"nothing":         {config.Config{}, ""},
				"environment":     {config.Config{StateDir: dir, Typed: typed(config.OriginEnv)}, ""},
				"state directory": {config.Config{StateDir: dir, Typed: map[string]config.Origin{"state-dir": config.OriginFlag}}, " --state-dir=" + dir},
				"another machine": {config.Config{Scheduler: at, Typed: map[string]config.Origin{"scheduler": config.OriginFlag}}, " --scheduler=" + at},
				"both":            {config.Config{StateDir: dir, Scheduler: at, Typed: typed(config.OriginFlag)}, " --scheduler=" + at + " --state-dir=" + dir},
			} {
				w.cfg.JSON = asJSON
				exit, out, errs := nodes{"": n, at: n}.run(t, c.call, w.cfg, "")
				if exit != 0 {
					t.Fatalf("%v %s: %d %s", c.call, name, exit, errs)
				}
				for _, command := range c.commands {
					end := "\n"
					if asJSON {
						end = `"`
					}
					if !strings.Contains(out, command+w.want+end) {
						t.Errorf("%v, typed %s: no %q in\n%s", c.call, name, command+w.want, out)
					}
				}
				// What only that machine itself can do is not sent to it.
				if w.cfg.Scheduler != "" && strings.Contains(out, "--reset-identity --s") {
					t.Errorf("%v, typed %s: %s", c.call, name, out)
				}
			}
		}
	}
}

// checkHeres: the verbs that are about the machine that they are typed on, as operations.md lists verbs; written out by hand.
func checkHeres() error {
	want := map[string]bool{ // true: refused where the environment names another machine, too
		"identity": false, "print-identity": false, "reset-identity": false, "print-surfaces": false, "install-service": false, "uninstall-service": false,
		"apply-upgrade": false, "run-hooks": false, "fleet leave": true, "fleet recover": true, "fleet accept": true, "fleet backup": true, "fleet restore": true,
		"dashboard": true, "doctor": false, "release key": false, "release new": false, "release sign": false, "release verify": false,
	}
	if len(Heres) != len(want) {
		return fmt.Errorf("%d rows, want %d", len(Heres), len(want))
	}
	for _, row := range Heres {
		if asks, ok := want[row.Verb]; !ok || asks != row.Asks || row.Instead == "" {
			return fmt.Errorf("%s", row.Verb)
		}
		if !slices.ContainsFunc(verbs, func(v verb) bool { return v.words == row.Verb || v.flag == row.Verb }) {
			return fmt.Errorf("%s is no verb", row.Verb)
		}
		if err := namesCommands(nextCommand(usageFailure(row.Instead, "r"), words(strings.Fields(row.Verb)...))); err != nil {
			return err
		}
	}
	return nil
}

func TestMutationHeres(t *testing.T) {
	if err := checkHeres(); err != nil {
		t.Fatal(err)
	}
	for i, was := range Heres {
		for _, flip := range []func(*HereRow){func(r *HereRow) { r.Asks = !r.Asks }, func(r *HereRow) { r.Verb += "x" }, func(r *HereRow) { r.Instead = "" }} {
			flip(&Heres[i])
			if checkHeres() == nil {
				t.Errorf("%s flipped, and nobody noticed", was.Verb)
			}
			Heres[i] = was
		}
	}
}

// TestSchedulerIsObeyedOrRefused walks the table of verbs: a machine that is named is asked, or the verb says that it cannot
// be and does nothing.
func TestSchedulerIsObeyedOrRefused(t *testing.T) {
	const at = "10.1.0.9:6674"
	for _, v := range verbs {
		var calls []config.VerbCall
		if v.words != "" {
			calls = append(calls, words(append(strings.Fields(v.words), typedArgs[v.words]...)...))
		}
		if v.flag != "" {
			calls = append(calls, flag1(v.flag, typedArg[v.flag]))
		}
		for _, call := range calls {
			if v.words == "completion" {
				continue // a script of this program; its machines are asked for there
			}
			typed := append([]string(nil), call.Words...)
			if call.Name != config.ToolVerb {
				typed = []string{call.Name}
			}
			row := hereOf(typed)
			cfg := config.Config{Scheduler: at, Typed: map[string]config.Origin{"scheduler": config.OriginFlag}}
			exit, _, errs := nodes{}.run(t, call, cfg, "")
			if want := map[bool]int{true: config.ExitUsage, false: config.ExitNobody}[row != nil]; exit != want {
				t.Errorf("%v: %d, want %d: %s", typed, exit, want, errs)
			}
			if !strings.Contains(errs, at) {
				t.Errorf("%v does not say which machine: %s", typed, errs)
			}
			// Named by the environment, it is refused where it may have been meant, and passed over elsewhere.
			cfg.Typed["scheduler"] = config.OriginEnv
			if exit, _, errs = (nodes{}).run(t, call, cfg, ""); row != nil && strings.Contains(errs, "is about the machine that it is typed on") != row.Asks {
				t.Errorf("%v, by the environment: %d %s", typed, exit, errs)
			}
		}
	}
}

// TestWordsThatPeopleTypeInstead: what there is not and people mean something by is answered with that.
func TestWordsThatPeopleTypeInstead(t *testing.T) {
	for typed, want := range map[string]string{
		"member promote":      "pacectl member admit ID=HOST:PORT makes a member a voter; pacectl fleet status prints the line for each",
		"member promote web1": "pacectl member admit ID=HOST:PORT makes a member a voter; pacectl fleet status prints the line for each",
		"member approve":      "pacectl enroll approve ID@KEY admits a machine that waits; pacectl enroll list prints the line for each",
		"approve":             "did you mean: pacectl enroll approve?",
		"pause":               "did you mean: pacectl queue pause?",
		"show web1":           "did you mean: pacectl member show or pacectl queue show?",
		"status":              "did you mean: pacectl fleet status?",
		"members":             "did you mean: pacectl member list?",
		"nodes":               "did you mean: pacectl member list?",
		"member remove web1":  "pacectl member forget MACHINE removes a member and revokes its key for ever", // which is nearer to demote
		"enroll window":       "pacectl enroll window DURATION or off",
		"node web1":           "pacectl node; of one machine: pacectl member show MACHINE",
		"queue list web1":     "pacectl queue list; of one machine: pacectl queue show MACHINE",
		"fleet status web1":   "pacectl fleet status; of one machine: pacectl member show MACHINE",
		"member list web1":    "pacectl member list; of one machine: pacectl member show MACHINE",
		"enroll clear web1":   "pacectl enroll clear",
		"completion":          "pacectl completion bash or zsh or fish or powershell",
		"enrol list":          "did you mean: pacectl enroll?",
		"member demtoe":       "did you mean: pacectl member demote?",
	} {
		_, _, err := findWords(strings.Fields(typed))
		if f, ok := err.(*Failure); !ok || f.Remedy != want || f.Exit != config.ExitUsage {
			t.Errorf("%s: %+v, want %s", typed, err, want)
		}
	}
}

// checkMeants: every row is of words that there are not, and names ones that there are.
func checkMeants() error {
	if len(Meants) < 40 {
		return fmt.Errorf("%d rows", len(Meants))
	}
	seen := map[string]bool{}
	for _, row := range Meants {
		typed := strings.Fields(row.Typed)
		_, _, err := findWords(typed)
		f, ok := err.(*Failure)
		if !ok || seen[row.Typed] || len(typed) > 2 {
			return fmt.Errorf("%s: %v", row.Typed, err)
		}
		seen[row.Typed] = true
		if err := namesCommands(nextCommand(f, words(typed...))); err != nil {
			return err
		}
		if err := understood(strings.Fields("pacectl "+row.Words), false); err != nil {
			return fmt.Errorf("%s: %w", row.Words, err)
		}
	}
	return nil
}

func TestMutationMeants(t *testing.T) {
	if err := checkMeants(); err != nil {
		t.Fatal(err)
	}
	for i, was := range Meants {
		for _, flip := range []func(*MeantRow){func(r *MeantRow) { r.Words = "nonsense" }, func(r *MeantRow) { r.Typed = "node" }, func(r *MeantRow) { r.Typed = Meants[(i+1)%len(Meants)].Typed }} {
			flip(&Meants[i])
			if checkMeants() == nil {
				t.Errorf("%s flipped, and nobody noticed", was.Typed)
			}
			Meants[i] = was
		}
	}
}

// checkSeats: which consensus endpoints cannot be right, each by the first reason.
func checkSeats() error {
	member := func(id, role, fc, raft string) (m MemberStatus) {
		m.ID, m.Role, m.Endpoints.FC, m.Endpoints.Raft = id, role, fc, raft
		return m
	}
	spread := []MemberStatus{member(idA, "voter", "10.1.0.1:6674", "10.1.0.1:6680"), member(idB, "learner", "10.1.0.2:6674", ""), member(idC, "voter", "[fd00::3]:6674", "[fd00::3]:6680")}
	alone := []MemberStatus{member(idA, "voter", "127.0.0.1:6674", "127.0.0.1:6680"), member(idB, "learner", "127.0.0.1:7674", "")}
	for _, c := range []struct {
		endpoint string
		members  []MemberStatus
		why      string // "": it may be right
	}{
		{"10.1.0.2:6680", spread, ""}, {"10.1.0.2:7000", spread, ""}, {"web2.example:6680", spread, ""}, {"[fd00::2]:6680", spread, ""},
		{"127.0.0.1:7680", alone, ""}, {"localhost:7680", alone, ""},
		{"0.0.0.0:6680", spread, "every address"}, {"[::]:6680", spread, "every address"},
		{"224.0.0.1:6680", spread, "many machines"}, {"255.255.255.255:6680", spread, "many machines"}, {"[ff02::1]:6680", spread, "many machines"},
		{"127.0.0.1:6680", spread, "is that to itself"}, {"localhost:6680", spread, "is that to itself"}, {"[::1]:6680", spread, "is that to itself"}, {"[::ffff:127.0.0.1]:6680", spread, "is that to itself"},
		{"10.1.0.2:6674", spread, "another port than the consensus endpoint, of " + idB}, {"127.0.0.1:7674", alone, "another port than the consensus endpoint, of " + idB},
		{"10.1.0.1:6680", spread, "of another machine already, " + idA}, {"[fd00::3]:6680", spread, "of another machine already, " + idC},
	} {
		err := judgeSeat(idB, c.endpoint, c.members)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			return fmt.Errorf("%s: %v, want %q", c.endpoint, err, c.why)
		}
		if err == nil {
			continue
		}
		f := err.(*Failure)
		if err := namesCommands(f.Remedy); err != nil || f.Exit != config.ExitUsage || !strings.Contains(f.Remedy, "pacectl member admit "+idB+"="+hostOf(c.members[1].Endpoints.FC)+":6680") {
			return fmt.Errorf("%s: %+v %w", c.endpoint, f, err)
		}
	}
	// A voter that moved is recorded where it was, too.
	if err := judgeSeat(idA, "10.1.0.1:6680", spread); err != nil {
		return err
	}
	return nil
}

func TestMutationSeats(t *testing.T) {
	if err := checkSeats(); err != nil {
		t.Fatal(err)
	}
	for i, was := range Seats {
		for _, flip := range []func(*SeatRow){func(r *SeatRow) { r.Bad = func(*seat) bool { return false } }, func(r *SeatRow) { r.Why = "no" }} {
			flip(&Seats[i])
			if checkSeats() == nil {
				t.Errorf("%s flipped, and nobody noticed", was.Name)
			}
			Seats[i] = was
		}
	}
}

// TestAdmitRefusesWhatCannotBe: nothing is sent where the endpoint cannot be right, under both names of the verb.
func TestAdmitRefusesWhatCannotBe(t *testing.T) {
	n := leaderNode()
	s := exampleCluster()
	s.Members = []MemberStatus{{ID: idA, Name: "web1", Role: "voter"}, {ID: idB, Name: "web2", Role: "learner"}}
	s.Members[1].Endpoints.FC = "10.1.0.3:6674"
	n.status["cluster"] = s
	for _, call := range []config.VerbCall{words("member", "admit", "web2=10.1.0.3:6674"), flag1("cluster-admit", idB+"=10.1.0.3:6674"), flag1("cluster-admit", idB+"=0.0.0.0:6680@"+otherKey)} {
		exit, _, errs := nodes{"": n}.run(t, call, config.Config{}, "")
		if exit != config.ExitUsage || len(n.clusters) != 0 || !strings.Contains(errs, "cannot be where "+idB+" serves consensus") || !strings.Contains(errs, "pacectl member admit "+idB+"=10.1.0.3:6680") {
			t.Errorf("%v: %d %s", call, exit, errs)
		}
	}
}

// TestSettingThatThereIsNot: the known ones are named, and the nearest.
func TestSettingThatThereIsNot(t *testing.T) {
	for name, near := range map[string]string{"enrolment.per-source": "enrollment.per-source", "paused": "provision.paused", "colour": ""} {
		s := exampleCluster()
		s.Settings = []Setting{{Name: "enrollment.per-source", Value: "4"}, {Name: "provision.paused", Value: "false"}}
		err := settingFailure(unknownSettingFrame(), name, s.Settings)
		f, ok := err.(*Failure)
		if !ok || !strings.Contains(f.Remedy, "pacectl fleet set NAME=VALUE takes enrollment.per-source, provision.paused") || strings.Contains(f.Remedy, "did you mean") != (near != "") || !strings.Contains(f.Remedy, near) {
			t.Errorf("%s: %+v", name, err)
			continue
		}
		if f.Exit != config.ExitRefused {
			t.Errorf("%s: %d", name, f.Exit)
		}
	}
	if err := settingFailure(unknownSettingFrame(), "provision.paused", []Setting{{Name: "provision.paused"}}); err.Error() != unknownSettingFrame().Error() {
		t.Errorf("a value that is refused: %v", err)
	}
}

// TestDurationsOfEveryWord: one reader for all of them; what is none is said with what is one.
func TestDurationsOfEveryWord(t *testing.T) {
	for typed, want := range map[string]int{"15m": 0, "15min": 0, "0.5d": 0, "off": 0, "-5m": 2, "0": 2, "soon": 2, "15": 2} {
		cfg, call, err := config.ParseTool([]string{"enroll", "window", typed}, nil, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", typed, err)
		}
		n := leaderNode()
		exit, _, errs := nodes{"": n}.run(t, call, cfg, "")
		if exit != want || exit != 0 && (!strings.Contains(errs, typed) || !strings.Contains(errs, "pacectl enroll window 15m, at most 24h")) {
			t.Errorf("%s: %d %s", typed, exit, errs)
		}
	}
	for flag, words := range map[string][]string{"--since": {"audit"}, "--stale-for": {"member", "stale"}} {
		for typed, good := range map[string]bool{"30d": true, "720h": true, "1d12h": true, "-5m": false, "5": false, "soon": false} {
			_, _, err := config.ParseTool(append(append([]string(nil), words...), flag+"="+typed), nil, nil, nil)
			if (err == nil) != good || err != nil && (!strings.Contains(err.Error(), "720h") && !strings.Contains(err.Error(), "30d")) {
				t.Errorf("%s=%s: %v", flag, typed, err)
			}
		}
	}
}

// TestWhatAPersonTypedIsLeftAsItIs: an operator's own words, and what is quoted of another program, are escaped where they
// could run and are otherwise what they were; only our own sentences are put into words that need no escaping.
func TestWhatAPersonTypedIsLeftAsItIs(t *testing.T) {
	const typed = `new rack <b>; (see wiki)`
	const shown = `new rack \x3cb\x3e\x3b \x28see wiki\x29`
	e := Event{Kind: EventFleet, What: "pause", Detail: typed}
	d := AuditList{Entries: []AuditEntry{{At: 1, By: testKey, Did: "pause", What: typed}}}
	var l lines
	e.line(&l)
	for name, got := range map[string]string{"audit": d.Text(), "watch": l.String(), "quoted": Sentence(`the helper says "` + typed + `"; (try <id> again)`)} {
		if !strings.Contains(got, shown) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for in, want := range map[string]string{
		`it says "<b>"; see (<id>)`:     `it says "\x3cb\x3e", see [ID]`,
		`it says "a\"<b>" <b>`:          `it says "a\x5c"\x3cb\x3e" B`,
		`"unfinished <b>; (x)`:          `"unfinished B, [x]`,
		`"one" and <two> and "<three>"`: `"one" and TWO and "\x3cthree\x3e"`,
	} {
		if got := Sentence(in); got != want {
			t.Errorf("%s → %s, want %s", in, got, want)
		}
	}
}

func unknownSettingFrame() error {
	return wire.NewError(wire.CodeRefusedByRule, `there is no setting "x"`, "one of enrollment.per-source")
}
