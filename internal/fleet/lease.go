package fleet

import (
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Times of leases.
const (
	// LeaseLife is how long a lease is good for: longer than any step, and than a leader's change.
	LeaseLife = 10 * time.Minute
	// LeaseSlack is how far the leader's clock and what a machine knows of it may be apart.
	LeaseSlack = 300 * time.Second
	// LeaseSilence is after how long without any voter a machine refuses all work: what it holds of the roster, and so of
	// who may lead, is an hour old then, five minutes of slack included.
	LeaseSilence = 65 * time.Minute
	// LeaseKept is for how long a machine remembers what it did under a lease, whatever any clock says: the leader's may jump
	// ahead, and back again while the lease is still good.
	LeaseKept = LeaseLife + 2*LeaseSlack
)

// Obeyed is what a machine remembers of the leader whose step it began last: a lease ends with its leader's term, also before a
// heartbeat has told of the next one. The term is that leader's own word, which any voter's key could say of any term, so that
// it counts only for as long as a lease from before it can be good.
type Obeyed struct {
	cluster     string
	epoch, term uint64
	at          time.Time
}

// Begin notes that a step of a lease is begun now; now is elapsed time of this machine.
func (o *Obeyed) Begin(now time.Time, c *wire.LeaseClaims) {
	if c.Term >= o.Term(now, c.Cluster, c.Epoch) {
		*o = Obeyed{c.Cluster, c.Epoch, c.Term, now}
	}
}

// Term returns the term of the leader that was obeyed last in a cluster and recovery epoch; 0: none that counts.
func (o *Obeyed) Term(now time.Time, cluster string, epoch uint64) uint64 {
	if o.cluster != cluster || o.epoch != epoch || now.Sub(o.at) > LeaseKept {
		return 0
	}
	return o.term
}

// LeaseVerdict says whether a lease is good, or the first check that it failed.
type LeaseVerdict uint8

// Verdicts, in the order of the checks.
const (
	LeaseOK            LeaseVerdict = iota
	LeaseMalformed                  // bytes that are no lease, or one of another format
	LeaseSignerUnknown              // the roster that names the signer is not applied yet: try again
	LeaseNotVoter                   // the signer is a member and no voter
	LeaseSignature                  // not signed by the key that the roster holds for the signer
	LeaseWrongCluster
	LeaseWrongEpoch // of another recovery epoch
	LeaseWrongTarget
	LeaseWrongStep
	LeaseWrongDigest // of another body
	LeaseExpired
	LeaseReplayed
	LeaseOldTerm // of a leader that was followed by another
	LeaseSilent  // no voter heard for LeaseSilence
)

// LeaseRow is one row of the table of verdicts.
type LeaseRow struct {
	Verdict LeaseVerdict
	Name    string // reason label of pace_leases_refused_total, and what error 12 says
	Retry   bool   // the same lease may be good in a moment
	Remedy  string // what mends it, for whoever reads why the leader could not work
}

// LeaseVerdicts names every refusal, in the order of the checks.
var LeaseVerdicts = []LeaseRow{
	{LeaseMalformed, "malformed", false, "bring the leader and that machine to one version"},
	{LeaseSignerUnknown, "roster_not_applied", true, "it is asked again in a moment; if it lasts, pacectl node on that machine shows whether it follows its fleet"},
	{LeaseNotVoter, "not_voter", false, "it is asked again by the voter that leads; pacectl fleet status shows who that is"},
	{LeaseSignature, "signature", false, "compare the leader's key on both machines: pacectl fleet status shows it"},
	{LeaseWrongCluster, "wrong_cluster", false, "that machine is in another fleet: pacectl node there shows which"},
	{LeaseWrongEpoch, "wrong_epoch", false, "that machine is in another recovery epoch: pacectl node there shows which key to accept"},
	{LeaseWrongTarget, "wrong_target", false, "the machine at that address is another one: pacectl node there shows its id"},
	{LeaseWrongStep, "wrong_step", false, "it is asked again with a lease of its own; bring the leader and that machine to one version"},
	{LeaseWrongDigest, "wrong_digest", false, "it is asked again with a lease of its own; bring the leader and that machine to one version"},
	{LeaseExpired, "expired", false, "compare the clocks of the leader and of that machine: clock-skewed in pacectl fleet status names those that differ"},
	{LeaseReplayed, "replayed", false, "it is asked again with a lease of its own"},
	{LeaseOldTerm, "old_term", false, "it is asked again by the voter that leads now; pacectl fleet status shows who that is"},
	{LeaseSilent, "no_voter_heard", true, "that machine hears no voter: pacectl doctor there shows why"},
}

// String returns the verdict's name, "ok" for a good lease.
func (v LeaseVerdict) String() string {
	for i := range LeaseVerdicts {
		if LeaseVerdicts[i].Verdict == v {
			return LeaseVerdicts[i].Name
		}
	}
	return "ok"
}

// Remedy is what mends a refusal, empty for a good lease.
func (v LeaseVerdict) Remedy() string {
	for i := range LeaseVerdicts {
		if LeaseVerdicts[i].Verdict == v {
			return LeaseVerdicts[i].Remedy
		}
	}
	return ""
}

// Retry reports whether the same lease may be good in a moment.
func (v LeaseVerdict) Retry() bool {
	for i := range LeaseVerdicts {
		if LeaseVerdicts[i].Verdict == v {
			return LeaseVerdicts[i].Retry
		}
	}
	return false
}

// LeaseInput is what a lease is judged by.
type LeaseInput struct {
	Raw        []byte // wire's lease
	View       *View  // the applied state
	Self       string // this machine's id
	Step       string // the step that is asked for
	BodyDigest [32]byte
	LeaderNow  time.Time     // the leader's clock, as the session's heartbeat gives it
	Silence    time.Duration // since any voter was heard
	Seen       func(serial [16]byte) bool
	// HighestTerm is the highest term that a followed heartbeat confirmed in this cluster and recovery epoch.
	HighestTerm uint64
	// ObeyedTerm is the term of the leader whose step was begun here last, by Obeyed.
	ObeyedTerm uint64
}

// leaseFacts is the input with what the checks before have found.
type leaseFacts struct {
	in     *LeaseInput
	lease  wire.Lease
	bad    bool // the bytes are no lease
	signer *record
}

type leaseCheck struct {
	verdict LeaseVerdict
	fails   func(*leaseFacts) bool
}

// leaseChecks is the order of the checks; the first that fails is the verdict.
var leaseChecks = []leaseCheck{
	{LeaseMalformed, func(f *leaseFacts) bool { return f.bad }},
	{LeaseSignerUnknown, func(f *leaseFacts) bool { return f.signer == nil }},
	{LeaseNotVoter, func(f *leaseFacts) bool { return f.signer == nil || f.signer.Role != RoleVoter }},
	{LeaseSignature, func(f *leaseFacts) bool {
		return f.signer == nil || !identity.Verify(f.signer.Key, f.lease.Claims.Message(), f.lease.Signature)
	}},
	{LeaseWrongCluster, func(f *leaseFacts) bool { return f.lease.Claims.Cluster != f.in.View.Cluster() }},
	{LeaseWrongEpoch, func(f *leaseFacts) bool { return f.lease.Claims.Epoch != f.in.View.Epoch() }},
	{LeaseWrongTarget, func(f *leaseFacts) bool { return f.lease.Claims.Target != f.in.Self }},
	{LeaseWrongStep, func(f *leaseFacts) bool { return f.lease.Claims.Step != f.in.Step }},
	{LeaseWrongDigest, func(f *leaseFacts) bool { return f.lease.Claims.Digest != f.in.BodyDigest }},
	{LeaseExpired, func(f *leaseFacts) bool { return leaseExpired(f.lease.Claims.Expiry, f.in.LeaderNow) }},
	{LeaseReplayed, func(f *leaseFacts) bool { return f.in.Seen != nil && f.in.Seen(f.lease.Claims.Serial) }},
	{LeaseOldTerm, func(f *leaseFacts) bool { return f.lease.Claims.Term < max(f.in.HighestTerm, f.in.ObeyedTerm) }},
	{LeaseSilent, func(f *leaseFacts) bool { return f.in.Silence >= LeaseSilence }},
}

// leaseExpired compares in seconds: the claim is a peer's number and may be any.
func leaseExpired(expiry uint64, now time.Time) bool {
	at := now.Unix() - int64(LeaseSlack/time.Second)
	return at > 0 && uint64(at) > expiry
}

// JudgeLease checks a lease against the applied state, in the order of LeaseVerdicts. The claims are those of the lease
// wherever its bytes read, also of a refused one.
func JudgeLease(in LeaseInput) (wire.LeaseClaims, LeaseVerdict) {
	if in.View == nil {
		in.View = New().View()
	}
	f := leaseFacts{in: &in}
	lease, err := wire.DecodeLease(in.Raw)
	if err != nil {
		f.bad = true
	} else {
		f.lease = lease
		f.signer = in.View.record(lease.Claims.Signer)
	}
	for i := range leaseChecks {
		if leaseChecks[i].fails(&f) {
			return f.lease.Claims, leaseChecks[i].verdict
		}
	}
	return f.lease.Claims, LeaseOK
}

// SignLease returns the lease of these claims, signed by the leader's key.
func SignLease(key identity.PrivateKey, claims wire.LeaseClaims) []byte {
	return wire.EncodeLease(&claims, key.Sign(claims.Message()))
}
