package fleet

import (
	"fmt"
	"strings"
	"testing"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// mutate runs flip on a table, asks check whether it noticed, and puts the row back.
func mutate[T any](t *testing.T, table []T, flip func(*T), check func() error) {
	t.Helper()
	if err := check(); err != nil {
		t.Fatal(err)
	}
	for i := range table {
		was := table[i]
		flip(&table[i])
		if check() == nil {
			t.Errorf("row %d flipped from %+v: nobody noticed", i, was)
		}
		table[i] = was
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
}

// The cells, written out from "Membership verbs, one table". Columns: no key, the member's own, another, a revoked one,
// another member's. R refused, - nothing to do, p pre-approve, s pre-approve with a seat, P promote, D demote, m record
// the move, k re-key, x remove, X remove and revoke, v leave consensus first, u no longer awaited; . can't be.
var membershipCells = []struct {
	verb    MembershipVerb
	subject Subject
	want    string
}{
	{VerbAdmitLearner, SubjectUnknown, "R.pRR"},
	{VerbAdmitLearner, SubjectAwaited, "-.pRR"},
	{VerbAdmitLearner, SubjectLearner, "--kRR"},
	{VerbAdmitLearner, SubjectPending, "DDkRR"},
	{VerbAdmitLearner, SubjectVoter, "DDkRR"},
	{VerbAdmitLearner, SubjectOnlyVoter, "RRRRR"},
	{VerbAdmitLearner, SubjectLeaving, "RRRRR"},
	{VerbAdmit, SubjectUnknown, "R.sRR"},
	{VerbAdmit, SubjectAwaited, "R.sRR"},
	{VerbAdmit, SubjectLearner, "PPkRR"},
	{VerbAdmit, SubjectPending, "mmkRR"},
	{VerbAdmit, SubjectVoter, "mmkRR"},
	{VerbAdmit, SubjectOnlyVoter, "mmRRR"},
	{VerbAdmit, SubjectLeaving, "RRRRR"},
	{VerbForget, SubjectUnknown, "RRRRR"},
	{VerbForget, SubjectAwaited, "uuuuu"},
	{VerbForget, SubjectLearner, "XXXXX"},
	{VerbForget, SubjectPending, "vvvvv"},
	{VerbForget, SubjectVoter, "vvvvv"},
	{VerbForget, SubjectOnlyVoter, "RRRRR"},
	{VerbForget, SubjectLeaving, "XXXXX"},
	{VerbLeave, SubjectUnknown, "RRRRR"},
	{VerbLeave, SubjectAwaited, "RRRRR"},
	{VerbLeave, SubjectLearner, "xxxxx"},
	{VerbLeave, SubjectPending, "vvvvv"},
	{VerbLeave, SubjectVoter, "vvvvv"},
	{VerbLeave, SubjectOnlyVoter, "RRRRR"},
	{VerbLeave, SubjectLeaving, "xxxxx"},
	// Lines of a list of machines that are to come: no member is changed by one.
	{VerbPreApprove, SubjectUnknown, "..pRR"},
	{VerbPreApprove, SubjectAwaited, "..pRR"},
	{VerbPreApprove, SubjectLearner, ".-RRR"},
	{VerbPreApprove, SubjectPending, ".-RRR"},
	{VerbPreApprove, SubjectVoter, ".-RRR"},
	{VerbPreApprove, SubjectOnlyVoter, ".-RRR"},
	{VerbPreApprove, SubjectLeaving, ".RRRR"},
}

var cellActions = map[byte]MembershipAction{'R': DoRefuse, '-': DoNothing, 'p': DoPreApprove, 's': DoPreApproveSeat, 'P': DoPromote,
	'D': DoDemote, 'm': DoRecordMove, 'k': DoRekey, 'x': DoRemove, 'X': DoRemoveAndRevoke, 'v': DoLeaveVotersFirst, 'u': DoUnapprove}

func checkMembershipRules() error {
	for _, c := range membershipCells {
		for i, k := range []KeyRelation{KeyNone, KeySame, KeyOther, KeyRevoked, KeyForeign} {
			if c.want[i] == '.' {
				continue
			}
			rule := lookupRule(c.verb, c.subject, k)
			if rule == &noRule {
				return fmt.Errorf("verb %d, subject %d, key %d: no row", c.verb, c.subject, k)
			}
			if rule.Do != cellActions[c.want[i]] {
				return fmt.Errorf("verb %d, subject %d, key %d: %d, want %c", c.verb, c.subject, k, rule.Do, c.want[i])
			}
			if !strings.Contains(rule.Text, "%s") || (rule.Do == DoRefuse) != (rule.Hint != "") {
				return fmt.Errorf("verb %d, subject %d, key %d: %q, %q", c.verb, c.subject, k, rule.Text, rule.Hint)
			}
		}
	}
	return nil
}

func TestMembershipRules(t *testing.T) {
	if err := checkMembershipRules(); err != nil {
		t.Fatal(err)
	}
	if len(membershipCells) != 5*7 {
		t.Fatal("a verb or a subject is missing")
	}
}

func TestMutationMembershipRules(t *testing.T) {
	mutate(t, MembershipRules, func(r *MembershipRule) { r.Do = (r.Do + 1) % (DoLeaveVotersFirst + 1) }, checkMembershipRules)
	mutate(t, MembershipRules, func(r *MembershipRule) { r.Verb = 9 }, checkMembershipRules)
}

// TestDecide walks the rules over real states, as verbs do.
func TestDecide(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	must(t, s, admit(2))
	must(t, s, Forget("n-0002", by, 1))
	must(t, s, PreApprove("n-0003", pub(3), false, by, 1))
	several := founded(t)
	for i := 1; i <= 4; i++ {
		must(t, several, admit(i))
	}
	for _, to := range []Role{RoleVoterPending, RoleVoter} {
		must(t, several, SetRole("n-0001", to, by, 1))
	}
	must(t, several, SetRole("n-0002", RoleVoterPending, by, 1))
	must(t, several, SetRole("n-0003", RoleVoterPending, by, 1))
	must(t, several, SetRole("n-0003", RoleLeaving, by, 1))
	must(t, several, SetRole("n-0004", RoleVoterPending, by, 1))
	must(t, several, LeaveVoters("n-0004", true, by, 1))
	k := func(n int) *identity.PublicKey { p := pub(n); return &p }
	for _, c := range []struct {
		name     string
		s        *State
		verb     MembershipVerb
		id       string
		key      *identity.PublicKey
		endpoint string
		do       MembershipAction
		kind     Kind // committed; "" = none
		text     string
	}{
		{"pre-approval", s, VerbAdmitLearner, "n-0009", k(9), "", DoPreApprove, KindPreApprove, "as soon as it asks"},
		{"unknown without a key", s, VerbAdmitLearner, "n-0009", nil, "", DoRefuse, "", "no key"},
		{"revoked", s, VerbAdmitLearner, "n-0009", k(2), "", DoRefuse, "", "never admitted again"},
		{"another's key", s, VerbAdmitLearner, "n-0009", k(1), "", DoRefuse, "", "another member's"},
		{"a learner already", s, VerbAdmitLearner, "n-0001", nil, "", DoNothing, "", "learner already"},
		{"re-key", s, VerbAdmitLearner, "n-0001", k(9), "", DoRekey, KindRekey, "another key"},
		{"demote the only voter", s, VerbAdmitLearner, "n-a", nil, "", DoRefuse, "", "only voter"},
		{"promotion", s, VerbAdmit, "n-0001", nil, "10.0.0.5:6680", DoPromote, KindSetRole, "becomes a voter once it has caught up"},
		{"a seat for an unknown machine", s, VerbAdmit, "n-0009", k(9), "10.0.0.5:6680", DoPreApproveSeat, KindPreApprove, "becomes a voter, as soon as it asks"},
		{"the only voter moves", s, VerbAdmit, "n-a", nil, "10.0.0.5:6680", DoRecordMove, KindMoveEndpoint, "at this endpoint"},
		{"the only voter stays", s, VerbAdmit, "n-a", nil, "10.0.0.1:6680", DoRecordMove, "", "at this endpoint"},
		{"the only voter is re-keyed", s, VerbAdmit, "n-a", k(9), "", DoRefuse, "", "nobody could lead"},
		{"one of several voters is re-keyed", several, VerbAdmit, "n-0001", k(9), "", DoRekey, KindRekey, "is a learner"},
		{"a bad endpoint", s, VerbAdmit, "n-a", nil, "nowhere", DoRefuse, "", "not dialable"},
		{"a bad id", s, VerbForget, "a b", nil, "", DoRefuse, "", "not valid"},
		{"forget a learner", s, VerbForget, "n-0001", nil, "", DoRemoveAndRevoke, KindForget, "revoked"},
		{"forget the awaited", s, VerbForget, "n-0003", nil, "", DoUnapprove, KindUnapprove, "no longer awaited"},
		{"forget the only voter", s, VerbForget, "n-a", nil, "", DoRefuse, "", "can't be forgotten"},
		{"forget nobody", s, VerbForget, "n-0009", nil, "", DoRefuse, "", "no member"},
		{"a learner leaves", s, VerbLeave, "n-0001", nil, "", DoRemove, KindLeave, "has left"},
		{"the last voter leaves", s, VerbLeave, "n-a", nil, "", DoRefuse, "", "last voter"},
		{"forget one of several voters", several, VerbForget, "n-0001", nil, "", DoLeaveVotersFirst, KindSetRole, "out of consensus, then forgotten"},
		{"one of several leaves", several, VerbLeave, "n-0001", nil, "", DoLeaveVotersFirst, KindSetRole, "out of consensus, then leaves"},
		{"demote one of several", several, VerbAdmitLearner, "n-0001", nil, "", DoDemote, KindSetRole, "becomes a learner"},
		{"take a promotion back", several, VerbAdmitLearner, "n-0002", nil, "", DoDemote, KindSetRole, "stays a learner"},
		{"promotion again", several, VerbAdmit, "n-0002", nil, "10.0.0.2:6680", DoRecordMove, KindMoveEndpoint, "is being promoted"},
		{"one of several moves", several, VerbAdmit, "n-0001", k(1), "10.0.0.5:6680", DoRecordMove, KindMoveEndpoint, "at this endpoint"},
		{"forget the leaving", several, VerbForget, "n-0003", nil, "", DoLeaveVotersFirst, "", "already"},
		{"the leaving leaves", several, VerbLeave, "n-0003", nil, "", DoLeaveVotersFirst, "", "already"},
		{"forget one that leaves by itself", several, VerbForget, "n-0004", nil, "", DoLeaveVotersFirst, KindSetRole, "already"},
		{"a voter in a list stays one", several, VerbPreApprove, "n-0001", k(1), "", DoNothing, "", "a member already"},
		{"the only voter in a list stays it", s, VerbPreApprove, "n-a", k(0), "", DoNothing, "", "a member already"},
		{"a learner in a list keeps its key", s, VerbPreApprove, "n-0001", k(9), "", DoRefuse, "", "does not change"},
		{"a machine in a list that is to come", s, VerbPreApprove, "n-0009", k(9), "", DoPreApprove, KindPreApprove, "as soon as it asks"},
		{"admit the leaving", several, VerbAdmit, "n-0003", nil, "", DoRefuse, "", "being forgotten"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := c.s.View().Decide(c.verb, c.id, c.key, c.endpoint, by, 1)
			if d.Do != c.do || d.Commit != (c.kind != "") || d.Command.Kind != c.kind && d.Commit || !strings.Contains(d.Text, c.text) {
				t.Fatalf("got %+v", d)
			}
			if d.Refused() && d.Hint == "" {
				t.Fatalf("%q: no way out is named", d.Text)
			}
			if d.Commit {
				restored, err := Restore(c.s.Snapshot())
				if err != nil {
					t.Fatal(err)
				}
				must(t, restored, d.Command)
			}
		})
	}
	d := s.View().Decide(VerbAdmit, "n-a", nil, "10.0.0.5:6680", by, 1)
	if *d.Command.Endpoints != (wire.Endpoints{FC: "10.0.0.5:6674", Raft: "10.0.0.5:6680"}) {
		t.Fatalf("moved to %+v", d.Command.Endpoints)
	}
}

func TestForgetOfAVoterWaits(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	must(t, s, SetRole("n-0001", RoleVoter, by, 1))
	refused(t, s, Forget("n-0001", by, 1), "taken out of consensus first")
	refused(t, s, Leave("n-0001", by, 1), "taken out of consensus first")
	must(t, s, SetRole("n-0001", RoleLeaving, by, 1))
	refused(t, s, SetRole("n-a", RoleLearner, by, 1), "only voter")
	refused(t, s, SetRole("n-a", "king", by, 1), "does not become")
	must(t, s, Forget("n-0001", by, 1))
}

// roleCells is written out from "Roles against raft's configuration". Columns and rows: learner, pending, voter, leaving.
var roleCells = map[Role]string{RoleLearner: " yyn", RoleVoterPending: "y yy", RoleVoter: "yn y", RoleLeaving: "nnn "}

func checkRoleMoves() error {
	order := []Role{RoleLearner, RoleVoterPending, RoleVoter, RoleLeaving}
	for _, from := range order {
		for i, to := range order {
			if want := roleCells[from][i] == 'y'; from != to && roleMove(from, to) != want {
				return fmt.Errorf("%s → %s: %v", from, to, !want)
			}
		}
	}
	return nil
}

func TestRoleMoves(t *testing.T) {
	if err := checkRoleMoves(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationRoleMoves(t *testing.T) {
	mutate(t, RoleMoves, func(r *RoleMove) { r.Allowed = !r.Allowed }, checkRoleMoves)
}

func checkSettings() error {
	for _, c := range []struct{ name, value, kept string }{ // kept "!" = refused, "" = the default
		{"enrollment.per-source", "4", ""}, {"enrollment.per-source", "1", "1"}, {"enrollment.per-source", "64", "64"},
		{"enrollment.per-source", "0", "!"}, {"enrollment.per-source", "65", "!"}, {"enrollment.per-source", "x", "!"},
		{"enrollment.per-source", "007", "7"}, {"enrollment.per-source", "", ""}, {"enrollment.per-source", "-1", "!"},
		{"enrollment.per-source", "99999999999999999999", "!"},
		{"provision.paused", "true", "true"}, {"provision.paused", "false", ""}, {"provision.paused", "TRUE", "!"}, {"provision.paused", "1", "!"},
		{"provision.profile", `{"provision-workers":"4","provision-helper":"/h <x>"}`, `{"provision-helper":"/h <x>","provision-workers":"4"}`},
		{"provision.profile", `{}`, ""}, {"provision.profile", `null`, "!"}, {"provision.profile", `{"listen":"x"}`, "!"}, {"provision.profile", `{"provision-a":1}`, "!"},
		{"provision.profile", `{"provision-a":"\n"}`, "!"}, {"provision.profile", `{"provision-a":"b"} x`, "!"}, {"provision.profile", `text`, "!"},
		{"provision.profile", `{"provision-a":"` + strings.Repeat("x", 8192-18) + `"}`, `{"provision-a":"` + strings.Repeat("x", 8192-18) + `"}`},
		{"provision.profile", `{"provision-a":"` + strings.Repeat("x", 8192-17) + `"}`, "!"},
		{"pace.colour", "blue", "!"}, {"", "", "!"},
	} {
		err := CheckSetting(c.name, c.value)
		if (err != nil) != (c.kept == "!") {
			return fmt.Errorf("%s=%.60q: %v", c.name, c.value, err)
		}
		if err != nil {
			continue
		}
		if got, _ := lookupSetting(c.name).normal(c.value); got != c.kept {
			return fmt.Errorf("%s=%.60q is kept as %.60q, want %.60q", c.name, c.value, got, c.kept)
		}
	}
	for _, row := range Settings {
		if want := map[string]int{"format.next": 2}[row.Name]; row.Since != max(want, 1) {
			return fmt.Errorf("%s came with format %d", row.Name, row.Since)
		}
	}
	for name, want := range map[string]string{"enrollment.per-source": "4", "provision.paused": "false", "provision.profile": ""} {
		if got, ok := New().View().Setting(name); !ok || got != want {
			return fmt.Errorf("%s is %q when nobody set it", name, got)
		}
	}
	return nil
}

func TestSettings(t *testing.T) {
	if err := checkSettings(); err != nil {
		t.Fatal(err)
	}
	s := founded(t)
	if v := s.View(); v.Established() || v.SettingSet(SettingPerSource) {
		t.Fatal("nothing was set")
	}
	r := must(t, s, Set("enrollment.per-source", "9", by, 1))
	if !r.Changed.Has(ChangedSettings|ChangedEstablished) || s.View().Number(SettingPerSource) != 9 || !s.View().SettingSet(SettingPerSource) {
		t.Fatalf("set: %+v", r)
	}
	must(t, s, Set("enrollment.per-source", "10", by, 1))
	must(t, s, Set("provision.profile", `{"provision-helper":"/h"}`, by, 1))
	if s.View().Profile()["provision-helper"] != "/h" {
		t.Fatal("the profile does not read back")
	}
	must(t, s, Set("enrollment.per-source", "", by, 1))
	if v, ok := s.View().Setting("enrollment.per-source"); v != "4" || !ok || s.View().SettingSet(SettingPerSource) {
		t.Fatalf("an empty value is the default again: %q", v)
	}
	refused(t, s, Set("pace.colour", "blue", by, 1), "no setting")
	refused(t, s, Set("provision.paused", "maybe", by, 1), "neither")
	if _, ok := s.View().Setting("pace.colour"); ok {
		t.Fatal("an unknown setting has a value")
	}
}

func TestMutationSettings(t *testing.T) {
	mutate(t, Settings, func(r *SettingRow) { r.Max-- }, func() error {
		if Settings[1].Max < 0 { // a switch has no bounds
			return fmt.Errorf("bound of a switch")
		}
		return checkSettings()
	})
	mutate(t, Settings, func(r *SettingRow) { r.Name += "x" }, checkSettings)
	mutate(t, Settings, func(r *SettingRow) { r.Default = "true" }, checkSettings)
	mutate(t, Settings, func(r *SettingRow) {
		next := map[SettingKind]SettingKind{SettingNumber: SettingSwitch, SettingSwitch: SettingProfile, SettingProfile: SettingNumber}
		r.Kind = next[r.Kind]
	}, checkSettings)
	mutate(t, Settings[:1], func(r *SettingRow) { r.Min-- }, checkSettings)
	mutate(t, Settings, func(r *SettingRow) { r.Since++ }, checkSettings)
}

// kindSights is written out from "What a learner gets": roster, revocations, settings, and the provisioning record of
// itself; the queue's records of others stay among voters.
var kindSights = map[Kind]Sight{
	"found": SightAll, "admit-learner": SightAll, "forget": SightAll, "leave": SightAll, "set": SightAll, "established": SightAll,
	"dissolve-into": SightAll, "set-role": SightAll, "move-endpoint": SightAll, "re-key": SightAll, "recover": SightAll, "empty": SightAll,
	"announce": SightPart, "provision": SightSubject, "pre-approve": SightVoters, "withdraw-pre-approval": SightVoters, "audit": SightVoters,
}

func checkKinds() error {
	if len(Kinds) != len(kindSights) {
		return fmt.Errorf("%d kinds", len(Kinds))
	}
	for kind, sight := range kindSights {
		row := lookupKind(kind)
		if row == nil || row.Sight != sight || row.Since != 1 || row.apply == nil {
			return fmt.Errorf("kind %q: %+v", kind, row)
		}
	}
	return nil
}

func TestKinds(t *testing.T) {
	if err := checkKinds(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationKinds(t *testing.T) {
	mutate(t, Kinds, func(r *KindRow) { r.Sight = (r.Sight + 1) % 4 }, checkKinds)
	mutate(t, Kinds, func(r *KindRow) { r.Since++ }, checkKinds)
	mutate(t, Kinds, func(r *KindRow) { r.Kind += "x" }, checkKinds)
}
