package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// key returns the private key of a small number, the same on every run.
func key(n int) identity.PrivateKey {
	return identity.NewPrivateKey([32]byte{byte(n), byte(n >> 8), 7})
}

func pub(n int) identity.PublicKey { return key(n).Public() }

var by = pub(0).String()

const (
	testCluster = "c0ffee00000000000000000000000001"
	testCreated = 1790000000
)

func founder() Member {
	return Member{ID: "n-a", Key: pub(0), Name: "office-a", Role: RoleVoter, Platform: "linux/amd64", Version: "1.0.0", Format: 1,
		Endpoints: wire.Endpoints{FC: "10.0.0.1:6674", Raft: "10.0.0.1:6680"}, Admitted: testCreated, AdmittedBy: by}
}

func founded(t testing.TB) *State {
	t.Helper()
	s := New()
	must(t, s, Found(testCluster, testCreated, founder()))
	return s
}

// must applies a command that is to be carried out.
func must(t testing.TB, s *State, c Command) Result {
	t.Helper()
	r, err := s.Apply(c.Encode())
	if err != nil || r.Err != "" {
		t.Fatalf("%s: %v, %q", c.Encode(), err, r.Err)
	}
	return r
}

// refused applies a command that a rule is to refuse, and checks that nothing but the revision changed.
func refused(t testing.TB, s *State, c Command, text string) Result {
	t.Helper()
	was := s.View()
	r, err := s.Apply(c.Encode())
	if err != nil || !strings.Contains(r.Err, text) || r.Hint == "" {
		t.Fatalf("%s: %v, %q (%q), want a refusal with %q and a hint", c.Encode(), err, r.Err, r.Hint, text)
	}
	if r.Revision != was.Revision()+1 || s.View().Revision() != r.Revision || r.Changed != 0 || r.Forgot != "" {
		t.Fatalf("a refused command gave %+v after revision %d", r, was.Revision())
	}
	if s.View().Digest() != was.Digest() {
		t.Fatalf("a refused command changed the state")
	}
	return r
}

func admit(n int) Command {
	return AdmitLearner(fmt.Sprintf("n-%04d", n), pub(n), fmt.Sprintf("pc-%d", n), "linux/amd64", "1.0.0",
		wire.Endpoints{FC: fmt.Sprintf("10.1.%d.%d:6674", n/250, n%250+1)}, 1, by, testCreated+int64(n), false)
}

func TestFounding(t *testing.T) {
	s := New()
	refused(t, s, Forget("x", by, 1), "no fleet is founded")
	must(t, s, Found(testCluster, testCreated, founder()))
	refused(t, s, Found("other", 1, founder()), "founded already")
	v := s.View()
	m, ok := v.Member("n-a")
	if !ok || m.Role != RoleVoter || v.Cluster() != testCluster || v.Created() != testCreated || v.Epoch() != 0 || v.Revision() != 3 || v.Established() {
		t.Fatalf("founded: %+v %+v", v, m)
	}
}

func TestAdmissionAndRevocation(t *testing.T) {
	s := founded(t)
	r := must(t, s, admit(1))
	if !r.Changed.Has(ChangedRoster | ChangedEstablished | ChangedAudit) {
		t.Fatalf("admission changed %b", r.Changed)
	}
	v := s.View()
	m, ok := v.ByKey(pub(1))
	if !ok || m.ID != "n-0001" || m.Role != RoleLearner || m.Arrived || m.AdmittedBy != by || !v.Holds("n-0001", pub(1)) || !v.Established() {
		t.Fatalf("admitted: %+v", m)
	}
	must(t, s, admit(1)) // asked twice
	same := admit(2)
	same.Key = admit(1).Key
	refused(t, s, same, "is that of member n-0001")

	fr := must(t, s, Forget("n-0001", by, 5))
	if fr.Forgot != "n-0001" || !fr.Changed.Has(ChangedRoster|ChangedRevocations) {
		t.Fatalf("forget: %+v", fr)
	}
	if rev, ok := s.View().Revoked(pub(1)); !ok || rev != fr.Revision {
		t.Fatalf("revoked at %d, %v", rev, ok)
	}
	refused(t, s, admit(1), "never admitted again")
	other := admit(7)
	other.Key = admit(1).Key
	refused(t, s, other, "never admitted again")
	refused(t, s, PreApprove("n-0009", pub(1), false, by, 1), "never admitted again")
	refused(t, s, Forget("n-a", by, 5), "only voter")
	refused(t, s, Leave("n-a", by, 5), "last voter")
	refused(t, s, Forget("nobody", by, 5), "no member")
}

func TestLeaveKeepsTheKey(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	if r := must(t, s, Leave("n-0001", by, 2)); r.Forgot != "n-0001" || r.Changed.Has(ChangedRevocations) {
		t.Fatalf("leave: %+v", r)
	}
	must(t, s, admit(1))
}

// TestWhatEstablishes: each of the four that make a fleet an established one, and that taking it back does not undo it.
func TestWhatEstablishes(t *testing.T) {
	for name, c := range map[string][2]Command{
		"another machine": {admit(1), Forget("n-0001", by, 1)},
		"a pre-approval":  {PreApprove("n-0003", pub(3), false, by, 1), Unapprove("n-0003", by, 1)},
		"a seat ahead":    {PreApproveSeat("n-0003", pub(3), "10.0.0.3:6680", by, 1), Unapprove("n-0003", by, 1)},
		"a setting":       {Set(SettingPerSource, "9", by, 1), Set(SettingPerSource, "", by, 1)},
		"an armed window": {MarkEstablished("window of 1m0s", by, 1), Audit("window", "", "off", by, 1)},
	} {
		s := founded(t)
		if s.View().Established() {
			t.Fatal("a fleet of one is established from the start")
		}
		if r := must(t, s, c[0]); !s.View().Established() || !r.Changed.Has(ChangedEstablished) {
			t.Errorf("%s does not establish the fleet", name)
		}
		must(t, s, c[1])
		restored, err := Restore(s.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		if !s.View().Established() || !restored.View().Established() {
			t.Errorf("%s is taken back, and the fleet is no longer established", name)
		}
	}
	for name, c := range map[string]Command{
		"what a machine says of itself": Announce("n-a", wire.Announce{Platform: "linux/amd64"}),
		"an act of the audit":           Audit("retry", "", "", by, 1),
	} {
		if s := founded(t); must(t, s, c).Changed.Has(ChangedEstablished) || s.View().Established() {
			t.Errorf("%s establishes the fleet", name)
		}
	}
}

func TestRekey(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	must(t, s, Rekey("n-0001", pub(2), by, 9))
	v := s.View()
	if _, ok := v.ByKey(pub(1)); ok {
		t.Fatal("the old key still finds the member")
	}
	if m, ok := v.ByKey(pub(2)); !ok || m.ID != "n-0001" {
		t.Fatalf("re-keyed: %+v", m)
	}
	if _, ok := v.Revoked(pub(1)); !ok {
		t.Fatal("the old key is not revoked")
	}
	refused(t, s, Rekey("n-0001", pub(1), by, 9), "never admitted again")
	refused(t, s, Rekey("n-0001", pub(0), by, 9), "is that of member n-a")

	// The same by an approval by hand of a machine that was set up again; the window may not do it.
	again := admit(1)
	k := pub(3)
	again.Key, again.Auto = &k, true
	refused(t, s, again, "under another key")
	again.Auto = false
	must(t, s, again)
	if m, _ := s.View().Member("n-0001"); m.Key != k {
		t.Fatal("the approval did not change the key")
	}
	founder := admit(1)
	founder.ID, founder.Key = "n-a", admit(8).Key
	refused(t, s, founder, "is that of a voter")
}

func TestPreApproval(t *testing.T) {
	s := founded(t)
	r := must(t, s, PreApprove("n-0001", pub(1), true, by, 1))
	if !r.Changed.Has(ChangedPreApproved|ChangedEstablished) || !s.View().Established() {
		t.Fatalf("pre-approval: %b", r.Changed)
	}
	if seat, ok := s.View().PreApproved("n-0001", pub(1)); !seat || !ok {
		t.Fatal("not awaited")
	}
	if _, ok := s.View().PreApproved("n-0001", pub(2)); ok || s.View().PreApprovedKey(pub(2)) || !s.View().PreApprovedKey(pub(1)) {
		t.Fatal("awaited under another key")
	}
	must(t, s, admit(1))
	if _, ok := s.View().PreApproved("n-0001", pub(1)); ok {
		t.Fatal("awaited though it came")
	}
	refused(t, s, PreApprove("n-0001", pub(4), false, by, 1), "member already")
	must(t, s, PreApprove("n-0002", pub(2), false, by, 1))
	must(t, s, Unapprove("n-0002", by, 1))
	refused(t, s, Unapprove("n-0002", by, 1), "no machine is awaited")
}

func TestRecover(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	must(t, s, admit(2))
	must(t, s, SetRole("n-0001", RoleVoterPending, by, 1))
	must(t, s, SetRole("n-0001", RoleVoter, by, 1))
	must(t, s, Recover("n-0002", by, 2))
	v := s.View()
	if v.Epoch() != 1 || len(v.Voters()) != 1 || v.Voters()[0].ID != "n-0002" || v.CountRole(RoleLearner) != 2 {
		t.Fatalf("recovered: epoch %d, voters %+v", v.Epoch(), v.Voters())
	}
	refused(t, s, Recover("nobody", by, 2), "no member")
	if ComparePosition(1, 5, 0, 900) <= 0 || ComparePosition(1, 5, 1, 6) >= 0 || ComparePosition(1, 5, 1, 5) != 0 {
		t.Fatal("positions compare by epoch, then by revision")
	}
}

func TestAnnouncedEndpoints(t *testing.T) {
	for _, c := range []struct {
		name      string
		role      Role
		was, said wire.Endpoints
		want      wire.Endpoints
	}{
		{"a learner moves", RoleLearner, wire.Endpoints{FC: "a:1"}, wire.Endpoints{FC: "b:2", Raft: "b:3"}, wire.Endpoints{FC: "b:2", Raft: "b:3"}},
		{"a learner that says none", RoleLearner, wire.Endpoints{FC: "a:1", Raft: "a:2"}, wire.Endpoints{}, wire.Endpoints{FC: "a:1"}},
		{"a voter that shares a host moves", RoleVoter, wire.Endpoints{FC: "a:1", Raft: "a:2"}, wire.Endpoints{FC: "b:1", Raft: "b:2"}, wire.Endpoints{FC: "b:1", Raft: "b:2"}},
		{"a voter of two hosts stays", RoleVoter, wire.Endpoints{FC: "a:1", Raft: "x:2"}, wire.Endpoints{FC: "b:1", Raft: "b:2"}, wire.Endpoints{FC: "a:1", Raft: "x:2"}},
		{"a voter that says two hosts stays", RoleVoter, wire.Endpoints{FC: "a:1", Raft: "a:2"}, wire.Endpoints{FC: "b:1", Raft: "x:2"}, wire.Endpoints{FC: "a:1", Raft: "a:2"}},
		{"a voter that says no consensus stays", RoleVoter, wire.Endpoints{FC: "a:1", Raft: "a:2"}, wire.Endpoints{FC: "b:1"}, wire.Endpoints{FC: "a:1", Raft: "a:2"}},
		{"IPv6 hosts", RoleVoter, wire.Endpoints{FC: "[fd00::1]:1", Raft: "[fd00::1]:2"}, wire.Endpoints{FC: "[fd00::2]:1", Raft: "[fd00::2]:2"}, wire.Endpoints{FC: "[fd00::2]:1", Raft: "[fd00::2]:2"}},
	} {
		if got := movedByItself(&Member{Role: c.role, Endpoints: c.was}, c.said); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestAnnounceRecordsBoot(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	boot := func(counter, seq int) wire.Announce {
		return wire.Announce{Name: "pc-1", Platform: "linux/amd64", Version: "1.0.1", Format: 1, Endpoints: wire.Endpoints{FC: "10.1.0.2:6674"},
			Component: "server", BootID: fmt.Sprintf("%016x%016x", counter, 99), Sequence: uint64(seq), ConfigDigest: strings.Repeat("ab", 32)}
	}
	r := must(t, s, Announce("n-0001", boot(3, 1)))
	if !r.Changed.Has(ChangedRoster | ChangedProvision) {
		t.Fatalf("changed %b", r.Changed)
	}
	m, _ := s.View().Member("n-0001")
	if !m.Arrived || m.Provision.BootCounter != 3 || m.Provision.Component != "server" || m.Version != "1.0.1" {
		t.Fatalf("announced: %+v", m)
	}
	if r := must(t, s, Announce("n-0001", boot(3, 2))); r.Changed.Has(ChangedRoster) {
		t.Fatal("an announcement that says the same changed the roster")
	}
	// The queue wrote from a view of before that boot: the boot stays.
	must(t, s, ProvisionUpdate("n-0001", Provision{Stage: "configure", BootID: fmt.Sprintf("%032x", 1), Sequence: 9, Component: "old"}))
	m, _ = s.View().Member("n-0001")
	if m.Provision.BootCounter != 3 || m.Provision.Sequence != 2 || m.Provision.Component != "server" || m.Provision.Stage != "configure" {
		t.Fatalf("after the queue's write: %+v", m.Provision)
	}
	// A run that failed knows nothing of what the machine runs: what it announced stays.
	must(t, s, ProvisionUpdate("n-0001", Provision{Stage: "helper", BootID: fmt.Sprintf("%032x", 3), Sequence: 2, Attempts: 1}))
	if after, _ := s.View().Member("n-0001"); after.Provision.Component != "server" || after.Provision.ConfigDigest != m.Provision.ConfigDigest || after.Provision.Attempts != 1 {
		t.Fatalf("after a failed run: %+v", after.Provision)
	}
	bad := boot(3, 3)
	bad.BootID = "zz"
	refused(t, s, Announce("n-0001", bad), "boot id")
	refused(t, s, Announce("nobody", boot(1, 1)), "no member")
}

func TestDescriptionBounds(t *testing.T) {
	labels := func(n, size int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprintf("k%02d", i)] = strings.Repeat("v", size)
		}
		return m
	}
	for _, c := range []struct {
		name string
		edit func(*wire.Announce)
		want string
	}{
		{"long name", func(a *wire.Announce) { a.Name = strings.Repeat("x", MaxName+1) }, "the name has 256 bytes"},
		{"name with escape", func(a *wire.Announce) { a.Name = "a\x1b[2J" }, "control characters"},
		{"long platform", func(a *wire.Announce) { a.Platform = strings.Repeat("x", MaxPlatform+1) }, "platform"},
		{"long version", func(a *wire.Announce) { a.Version = strings.Repeat("x", MaxVersion+1) }, "version"},
		{"many labels", func(a *wire.Announce) { a.Labels = labels(MaxLabels+1, 1) }, "33 labels"},
		{"large labels", func(a *wire.Announce) { a.Labels = labels(4, 300) }, "labels take"},
		{"label key", func(a *wire.Announce) { a.Labels = map[string]string{"a b": "1"} }, "label key"},
		{"label value", func(a *wire.Announce) { a.Labels = map[string]string{"a": "\n"} }, "value of label"},
		{"endpoint", func(a *wire.Announce) { a.Endpoints.FC = "nowhere" }, "not dialable"},
		{"long endpoint", func(a *wire.Announce) { a.Endpoints.Raft = strings.Repeat("x", MaxEndpoint) + ":1" }, "consensus endpoint has"},
		{"format", func(a *wire.Announce) { a.Format = -1 }, "negative"},
		{"component", func(a *wire.Announce) { a.Component = strings.Repeat("x", MaxComponent+1) }, "component"},
		{"configuration digest", func(a *wire.Announce) { a.ConfigDigest = strings.Repeat("x", MaxDigest+1) }, "configuration digest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := founded(t)
			a := wire.Announce{Name: "ok", Endpoints: wire.Endpoints{FC: "10.0.0.1:6674"}}
			c.edit(&a)
			refused(t, s, Announce("n-a", a), c.want)
		})
	}
}

func TestAuditRing(t *testing.T) {
	s := founded(t)
	var kept []AuditEntry
	var early *View
	for i := range 3 * MaxAudit {
		must(t, s, Audit("retry", "n-a", fmt.Sprint(i), by, int64(i)))
		if i == MaxAudit+7 {
			early, kept = s.View(), append([]AuditEntry(nil), s.View().Audit()...)
		}
	}
	a := s.View().Audit()
	if len(a) != MaxAudit || a[0].Detail != fmt.Sprint(2*MaxAudit) || a[MaxAudit-1].Detail != fmt.Sprint(3*MaxAudit-1) {
		t.Fatalf("%d entries from %q to %q", len(a), a[0].Detail, a[len(a)-1].Detail)
	}
	if fmt.Sprint(early.Audit()) != fmt.Sprint(kept) {
		t.Fatal("an earlier view changed")
	}
	refused(t, s, Audit("", "", "", by, 0), "no act")
}

// TestTry: what would be refused is told without an entry, and neither the view nor what its owner appends later is touched.
func TestTry(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	for i := range 20 { // so that the audit's array has room behind the view's end
		must(t, s, Audit("retry", "", fmt.Sprint(i), by, 0))
	}
	v, before := s.View(), s.Snapshot()
	same := admit(2)
	key := pub(1)
	same.Key = &key
	if r := v.Try(same); r.Err == "" || r.Hint == "" {
		t.Fatalf("another member's key: %+v", r)
	}
	if r := v.Try(admit(2)); r.Err != "" || r.Revision != v.Revision()+1 {
		t.Fatalf("a machine that could be admitted: %+v", r)
	}
	if r := v.Try(Command{V: 1, Kind: "later"}); r.Err == "" {
		t.Fatal("a kind that is none would be carried out")
	}
	if s.View() != v || !bytes.Equal(before, s.Snapshot()) {
		t.Fatal("a trial changed the state")
	}
	must(t, s, Audit("retry", "", "the owner's", by, 0))
	v.Try(Audit("retry", "", "a trial's", by, 0))
	if a := s.View().Audit(); a[len(a)-1].Detail != "the owner's" {
		t.Fatalf("a trial wrote into the audit: %+v", a[len(a)-1])
	}
}

func TestFormatIsGated(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	before := s.Snapshot()
	for _, b := range []string{`{"v":2,"kind":"forget","id":"n-0001"}`, `{"kind":{"later":"layout"},"v":99}`} {
		if _, err := s.Apply([]byte(b)); !errors.Is(err, ErrFormatNewer) {
			t.Fatalf("%s: %v", b, err)
		}
	}
	for _, b := range []string{``, `{`, `[]`, `{"v":0,"kind":"empty"}`, `{"v":1,"kind":"later"}`, `{"v":1,"kind":"empty","new":1}`, `{"v":1,"kind":"empty"} `,
		`{"v":1,"kind":"forget","id":5}`, `{"v":1,"kind":"empty","key":"short"}`, `{"v":1,"kind":"empty","why":"` + strings.Repeat("x", MaxCommand) + `"}`} {
		if _, err := s.Apply([]byte(b)); !errors.Is(err, ErrMalformed) {
			t.Fatalf("%.40s: %v", b, err)
		}
	}
	if !bytes.Equal(before, s.Snapshot()) {
		t.Fatal("a command that was refused unread changed the state")
	}
	later := bytes.Clone(before)
	later[len(snapshotMagic)+3] = 2
	if _, err := Restore(later); !errors.Is(err, ErrFormatNewer) {
		t.Fatalf("a later snapshot: %v", err)
	}
}

func TestWriteFormatFollowsTheOldestMember(t *testing.T) {
	s := founded(t)
	for i, format := range []int{3, 2, 3} {
		c := admit(i + 1)
		c.Format = format
		must(t, s, c)
	}
	v := s.View()
	m := *v.members[0]
	m.Format = 4
	v.members[0] = &m // the founder n-a is last by id; this one is n-0001
	if got := v.writeFormat(5); got != 1 {
		t.Fatalf("with the founder at 1: %d", got)
	}
	if got := v.holderBack(5); got != "n-a" {
		t.Fatalf("held back by %q", got)
	}
	f := *v.record("n-a")
	f.Format = 4
	at, _ := v.find("n-a")
	v.members[at] = &f
	if v.writeFormat(5) != 2 || v.holderBack(5) != "n-0002" || v.writeFormat(1) != 1 {
		t.Fatalf("oldest at 2: writes %d, held back by %q", v.writeFormat(5), v.holderBack(5))
	}
	alone := founded(t).View()
	if alone.WriteFormat() != 1 || alone.HolderBack() != "" {
		t.Fatal("a fleet of one format is held back by nobody")
	}
}

func TestCommandWaitsForTheOldest(t *testing.T) {
	row := lookupKind(KindAudit)
	row.Since = 2
	defer func() { row.Since = 1 }()
	c := Audit("retry", "", "", by, 1)
	if _, err := c.EncodeFor(1); !errors.Is(err, ErrFormatHeldBack) {
		t.Fatalf("format 1: %v", err)
	}
	b, err := c.EncodeFor(2)
	if err != nil || !bytes.Contains(b, []byte(`"v":2`)) {
		t.Fatalf("format 2: %s, %v", b, err)
	}
	if b, _ := Forget("x", by, 1).EncodeFor(2); !bytes.Contains(b, []byte(`"v":1`)) {
		t.Fatalf("an old kind is written as it was: %s", b)
	}
}

func TestJoinerMustReadTheFormatInUse(t *testing.T) {
	s := founded(t)
	next := *s.cur
	next.format = 2
	s.cur = &next
	refused(t, s, admit(1), "reads format 1, this fleet uses 2")
}

// TestSnapshotFits adds up the worst case: with every list full and every text at its bound, a snapshot fits.
func TestSnapshotFits(t *testing.T) {
	worst := func(n int) string { return strings.Repeat(`"`, n) } // escaped to twice its length
	e := strings.Repeat("h", MaxEndpoint-6) + ":65535"
	m := Member{ID: worst(wire.MaxID), Name: worst(MaxName), Role: RoleVoterPending, Platform: worst(MaxPlatform), Version: worst(MaxVersion),
		Format: 1 << 40, Endpoints: wire.Endpoints{FC: e, Raft: e}, Admitted: 1 << 40, AdmittedBy: worst(43), Auto: true, Arrived: true,
		Labels: map[string]string{}, Provision: Provision{Stage: worst(MaxStage), LastError: worst(MaxLastError), ErrorKind: worst(MaxStage),
			Attempts: 1 << 40, Due: 1 << 40, LastSuccess: 1 << 40, BootID: worst(MaxDigest / 2), BootCounter: 1 << 63, Sequence: 1 << 63,
			ConfigDigest: worst(MaxDigest), Component: worst(MaxComponent), Parked: true}}
	for i := range MaxLabels {
		m.Labels[fmt.Sprintf("%02d", i)] = worst(MaxLabelBytes/MaxLabels - 2)
	}
	for range MaxOutcomes {
		m.Provision.Outcomes = append(m.Provision.Outcomes, Outcome{At: 1 << 40, Stage: worst(MaxStage), Result: worst(MaxStage), Error: worst(MaxOutcomeError)})
	}
	size := func(v any) int {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return len(b) + 1
	}
	total := MaxMembers*size(m) + MaxRevoked*size(Revocation{Revision: 1 << 63}) +
		MaxPreApproved*size(PreApproval{ID: worst(64), Seat: true, By: worst(43), At: 1 << 40}) +
		MaxAudit*size(AuditEntry{Revision: 1 << 63, At: 1 << 40, By: worst(43), What: worst(MaxStage), Subject: worst(64), Detail: worst(MaxDetail)}) +
		3*2*Settings[2].Max + 1024
	if total > MaxSnapshot {
		t.Fatalf("the worst snapshot takes %d bytes, %d are allowed (a member %d)", total, MaxSnapshot, size(m))
	}
	bare := m
	bare.Provision = Provision{}
	learner := (MaxMembers-1)*size(bare) + size(m) + MaxRevoked*size(Revocation{Revision: 1 << 63}) + 3*2*Settings[2].Max + 1024
	if learner > MaxLearnerSnapshot {
		t.Fatalf("a learner's worst snapshot takes %d bytes, %d are allowed (a member %d)", learner, MaxLearnerSnapshot, size(bare))
	}
	t.Logf("a learner's: %d of %d bytes; a member %d", learner, MaxLearnerSnapshot, size(bare))
	t.Logf("worst snapshot: %d of %d bytes; a member %d", total, MaxSnapshot, size(m))
}

// TestSpelling pins the bytes of format 1: they are in logs on disks, and a change of them is a new format.
func TestSpelling(t *testing.T) {
	k := pub(1).String()
	for _, c := range []struct {
		cmd  Command
		want string
	}{
		{admit(1), `{"v":1,"kind":"admit-learner","at":1790000001,"by":"` + by + `","id":"n-0001","key":"` + k + `","name":"pc-1","platform":"linux/amd64","version":"1.0.0","format":1,"endpoints":{"fc":"10.1.0.2:6674"}}`},
		{PreApprove("n-0001", pub(1), true, by, 5), `{"v":1,"kind":"pre-approve","at":5,"by":"` + by + `","id":"n-0001","key":"` + k + `","seat":true}`},
		{Forget("n-0001", by, 5), `{"v":1,"kind":"forget","at":5,"by":"` + by + `","id":"n-0001"}`},
		{Set("provision.paused", "true", by, 5), `{"v":1,"kind":"set","at":5,"by":"` + by + `","name":"provision.paused","value":"true"}`},
		{SetRole("n-0001", RoleVoterPending, by, 5), `{"v":1,"kind":"set-role","at":5,"by":"` + by + `","id":"n-0001","role":"voter-pending"}`},
		{ProvisionUpdate("n-0001", Provision{Stage: "configure", Attempts: 2, Parked: true}), `{"v":1,"kind":"provision","id":"n-0001","provision":{"stage":"configure","attempts":2,"parked":true}}`},
		{Announce("n-0001", wire.Announce{Name: "<b>", Component: "server", Sequence: 3}), `{"v":1,"kind":"announce","id":"n-0001","name":"<b>","endpoints":{"fc":""},"boot":{"component":"server","sequence":3}}`},
		{Audit("retry", "n-0001", "why", by, 5), `{"v":1,"kind":"audit","at":5,"by":"` + by + `","id":"n-0001","why":"why","what":"retry"}`},
	} {
		if got := string(c.cmd.Encode()); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		back, err := DecodeCommand([]byte(c.want))
		if err != nil || string(back.Encode()) != c.want {
			t.Errorf("%s does not come back: %v", c.want, err)
		}
	}
	if got := string(EmptyCommand(1)); got != `{"v":1,"kind":"empty"}` {
		t.Error(got)
	}
}
