package fleet

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// The order of the checks and the reasons, written out from "Leases".
var leaseOrder = []struct {
	verdict LeaseVerdict
	name    string
	retry   bool
}{
	{LeaseMalformed, "malformed", false},
	{LeaseSignerUnknown, "roster_not_applied", true},
	{LeaseNotVoter, "not_voter", false},
	{LeaseSignature, "signature", false},
	{LeaseWrongCluster, "wrong_cluster", false},
	{LeaseWrongEpoch, "wrong_epoch", false},
	{LeaseWrongTarget, "wrong_target", false},
	{LeaseWrongStep, "wrong_step", false},
	{LeaseWrongDigest, "wrong_digest", false},
	{LeaseExpired, "expired", false},
	{LeaseReplayed, "replayed", false},
	{LeaseOldTerm, "old_term", false},
	{LeaseSilent, "no_voter_heard", true},
}

var leaseNow = time.Unix(testCreated+5000, 0)

// leaseWith makes an input that fails exactly the named checks.
func leaseWith(v *View, bad func(LeaseVerdict) bool) LeaseInput {
	body := sha256.Sum256([]byte("body"))
	c := wire.LeaseClaims{Version: 1, Serial: [16]byte{1}, Target: "n-0001", Step: "configure", Digest: body, Expiry: uint64(leaseNow.Add(LeaseLife).Unix()),
		Cluster: testCluster, Epoch: 0, Term: 7, Signer: "n-a"}
	signer := key(0)
	in := LeaseInput{View: v, Self: "n-0001", Step: "configure", BodyDigest: body, LeaderNow: leaseNow, HighestTerm: 7,
		Seen: func([16]byte) bool { return bad(LeaseReplayed) }}
	if bad(LeaseNotVoter) {
		c.Signer, signer = "n-0001", key(1)
	}
	if bad(LeaseSignerUnknown) {
		c.Signer = "n-0777"
	}
	if bad(LeaseSignature) {
		signer = key(9)
	}
	if bad(LeaseWrongCluster) {
		c.Cluster = "c0ffee00000000000000000000000002"
	}
	if bad(LeaseWrongEpoch) {
		c.Epoch = 1
	}
	if bad(LeaseWrongTarget) {
		c.Target = "n-0002"
	}
	if bad(LeaseWrongStep) {
		c.Step = "restart"
	}
	if bad(LeaseWrongDigest) {
		c.Digest[0]++
	}
	if bad(LeaseExpired) {
		c.Expiry = uint64(leaseNow.Unix()) - 301
	}
	if bad(LeaseOldTerm) {
		c.Term = 6
	}
	if bad(LeaseSilent) {
		in.Silence = 65 * time.Minute
	}
	in.Raw = SignLease(signer, c)
	if bad(LeaseMalformed) {
		in.Raw = in.Raw[:len(in.Raw)-1]
	}
	return in
}

func leaseView(t testing.TB) *View {
	s := founded(t)
	must(t, s, admit(1))
	must(t, s, admit(2))
	return s.View()
}

func checkLeases(v *View) error {
	judge := func(name string, want LeaseVerdict, bad func(LeaseVerdict) bool) error {
		if _, got := JudgeLease(leaseWith(v, bad)); got != want {
			return fmt.Errorf("%s: %s, want %s", name, got, want)
		}
		return nil
	}
	if err := judge("good", LeaseOK, func(LeaseVerdict) bool { return false }); err != nil {
		return err
	}
	for i, row := range leaseOrder {
		later := func(x LeaseVerdict) bool {
			return slices.ContainsFunc(leaseOrder[i:], func(r struct {
				verdict LeaseVerdict
				name    string
				retry   bool
			}) bool {
				return r.verdict == x
			})
		}
		if err := judge(row.name+" and all later ones", row.verdict, later); err != nil {
			return err
		}
		if err := judge(row.name+" alone", row.verdict, func(x LeaseVerdict) bool { return x == row.verdict }); err != nil {
			return err
		}
		if row.verdict.String() != row.name || row.verdict.Retry() != row.retry || row.verdict.Remedy() == "" {
			return fmt.Errorf("%s is named %s, retry %v", row.name, row.verdict, row.verdict.Retry())
		}
	}
	if LeaseOK.String() != "ok" || LeaseOK.Retry() || LeaseOK.Remedy() != "" || len(LeaseVerdicts) != len(leaseOrder) || len(leaseChecks) != len(leaseOrder) {
		return fmt.Errorf("the tables have another length")
	}
	return nil
}

func TestLeaseOrder(t *testing.T) {
	if err := checkLeases(leaseView(t)); err != nil {
		t.Fatal(err)
	}
}

func TestMutationLeaseChecks(t *testing.T) {
	v := leaseView(t)
	check := func() error { return checkLeases(v) }
	mutate(t, leaseChecks, func(c *leaseCheck) { c.fails = func(*leaseFacts) bool { return false } }, check)
	mutate(t, leaseChecks, func(c *leaseCheck) { c.fails = func(*leaseFacts) bool { return true } }, check)
	mutate(t, leaseChecks, func(c *leaseCheck) { c.verdict++ }, check)
	mutate(t, LeaseVerdicts, func(r *LeaseRow) { r.Retry = !r.Retry }, check)
	mutate(t, LeaseVerdicts, func(r *LeaseRow) { r.Name += "x" }, check)
	mutate(t, LeaseVerdicts, func(r *LeaseRow) { r.Remedy = "" }, check)
	for i := 1; i < len(leaseChecks); i++ {
		leaseChecks[i-1], leaseChecks[i] = leaseChecks[i], leaseChecks[i-1]
		if check() == nil {
			t.Errorf("checks %d and %d swapped: nobody noticed", i-1, i)
		}
		leaseChecks[i-1], leaseChecks[i] = leaseChecks[i], leaseChecks[i-1]
	}
}

func TestLeaseEdges(t *testing.T) {
	v := leaseView(t)
	good := func(LeaseVerdict) bool { return false }
	with := func(edit func(*LeaseInput)) LeaseVerdict {
		in := leaseWith(v, good)
		edit(&in)
		_, got := JudgeLease(in)
		return got
	}
	end := leaseNow.Add(LeaseLife)
	for _, c := range []struct {
		name string
		edit func(*LeaseInput)
		want LeaseVerdict
	}{
		{"at the end of the slack", func(in *LeaseInput) { in.LeaderNow = end.Add(300 * time.Second) }, LeaseOK},
		{"a second later", func(in *LeaseInput) { in.LeaderNow = end.Add(301 * time.Second) }, LeaseExpired},
		{"a clock before 1970", func(in *LeaseInput) { in.LeaderNow = time.Unix(-5, 0) }, LeaseOK},
		{"just not silent", func(in *LeaseInput) { in.Silence = 65*time.Minute - 1 }, LeaseOK},
		{"a higher term was seen", func(in *LeaseInput) { in.HighestTerm = 8 }, LeaseOldTerm},
		{"a later term than seen", func(in *LeaseInput) { in.HighestTerm = 0 }, LeaseOK},
		{"nothing kept of serials", func(in *LeaseInput) { in.Seen = nil }, LeaseOK},
		{"no state applied", func(in *LeaseInput) { in.View = nil }, LeaseSignerUnknown},
		{"empty", func(in *LeaseInput) { in.Raw = nil }, LeaseMalformed},
	} {
		if got := with(c.edit); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if leaseExpired(math.MaxUint64, leaseNow) || !leaseExpired(0, leaseNow) {
		t.Error("the ends of the range")
	}
	for _, role := range []Role{RoleVoterPending, RoleLeaving} {
		s := founded(t)
		must(t, s, admit(1))
		must(t, s, SetRole("n-0001", RoleVoterPending, by, 1))
		if role == RoleLeaving {
			must(t, s, SetRole("n-0001", RoleLeaving, by, 1))
		}
		in := leaseWith(s.View(), func(x LeaseVerdict) bool { return x == LeaseNotVoter })
		if _, got := JudgeLease(in); got != LeaseNotVoter {
			t.Errorf("signed by a %s: %s", role, got)
		}
	}
}

// TestObeyed: which term of a lease that was obeyed counts, and for how long.
func TestObeyed(t *testing.T) {
	now := time.Now()
	claims := func(term uint64) *wire.LeaseClaims {
		return &wire.LeaseClaims{Cluster: testCluster, Epoch: 1, Term: term}
	}
	var o Obeyed
	if o.Term(now, testCluster, 1) != 0 || o.Term(now, "", 0) != 0 {
		t.Error("one that obeyed nobody remembers a term")
	}
	o.Begin(now, claims(7))
	o.Begin(now.Add(time.Minute), claims(6)) // refused before it comes this far
	for _, c := range []struct {
		name    string
		after   time.Duration
		cluster string
		epoch   uint64
		want    uint64
	}{
		{"at once", 0, testCluster, 1, 7},
		{"as long as a lease from before it can be good", LeaseLife + 2*LeaseSlack, testCluster, 1, 7},
		{"and no longer", LeaseLife + 2*LeaseSlack + 1, testCluster, 1, 0},
		{"in another epoch", 0, testCluster, 2, 0},
		{"in another fleet", 0, "c0ffee00000000000000000000000002", 1, 0},
	} {
		if got := o.Term(now.Add(c.after), c.cluster, c.epoch); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	o.Begin(now.Add(time.Hour), claims(3)) // whoever said 7 has been forgotten by then
	if got := o.Term(now.Add(time.Hour), testCluster, 1); got != 3 {
		t.Errorf("after it lapsed: %d, want 3", got)
	}
}

// TestLeaseOfAnObeyedTerm: a lease of an earlier term than that of the leader which was obeyed is refused where no heartbeat has
// told of it yet; one of that term and of a later one is good.
func TestLeaseOfAnObeyedTerm(t *testing.T) {
	v := leaseView(t)
	for obeyed, want := range map[uint64]LeaseVerdict{0: LeaseOK, 6: LeaseOK, 7: LeaseOK, 8: LeaseOldTerm} {
		in := leaseWith(v, func(LeaseVerdict) bool { return false })
		in.HighestTerm, in.ObeyedTerm = 5, obeyed
		if _, got := JudgeLease(in); got != want {
			t.Errorf("one of term 7 after one of term %d: %s, want %s", obeyed, got, want)
		}
	}
}
