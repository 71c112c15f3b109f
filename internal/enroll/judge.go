package enroll

import (
	"fmt"
	"net/netip"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Request is a decoded Enroll with what the session knows of its sender.
type Request struct {
	wire.EnrollRequest
	Name, Platform, Version string // from Hello
	Source                  netip.Addr
	SessionKey              identity.PublicKey // the TLS key
	Format                  int                // from Hello: the highest command format it can read; 0 means that no Hello was said
}

// Facts are what the leader's node knows at this moment. A nil function knows nothing.
type Facts struct {
	Leads          bool   // this node leads an established or solitary fleet
	PendingAt      string // when this node is pending or a learner: the leader's 0xFC endpoint of the fleet it asked or joined
	Elsewhere      bool   // this node is pending or a learner, also while PendingAt is not known
	LeaderEndpoint string // of the own fleet; empty during an election
	FormatInUse    int
	Revoked        func(key identity.PublicKey) (revision uint64, revoked bool)
	Holds          func(id string, key identity.PublicKey) bool // the applied roster
	PreApproved    func(id string, key identity.PublicKey) bool
	MemberNamed    func(name string) (id string, heard time.Time, ok bool)
	MemberID       func(id string) bool
}

// Judgement is the leader's answer to a request.
type Judgement struct {
	Outcome wire.Outcome // to be signed; 0 with Err
	Err     *wire.Error
	// Admit: commit the admission of Row first, say Committed, then answer approved with the roster. If that can't be, call Failed and
	// answer pending with Challenge.
	Admit        bool
	Auto         bool // by the window
	Challenge    [32]byte
	HasChallenge bool // the pending answer's, and with Admit the one of the answer if it fails
	Row          RowID
	Waits        bool // Row stands in the list: keep the stream open
	Refusal      Refusal
	Revision     uint64 // with RefusalRevoked: at which revision
}

// judging is one request on its way through the order.
type judging struct {
	l       *List
	now     time.Time
	r       *Request
	f       *Facts
	entropy func([]byte)
	id      RowID
	j       Judgement
}

// Step is one step of the leader's order. It returns true when the request is answered.
type Step struct {
	Name string
	run  func(*judging) bool
}

// Order is the leader's order: the first step that answers is the answer.
var Order = []Step{
	{"hello", stepHello},
	{"format", stepFormat},
	{"id", stepID},
	{"endpoint", stepEndpoint},
	{"endpoint-here", stepEndpointHere},
	{"text", stepText},
	{"key", stepKey},
	{"session-key", stepSessionKey},
	{"source", stepSource},
	{"elsewhere", stepElsewhere},
	{"leads", stepLeads},
	{"signature", stepSignature},
	{"revoked", stepRevoked},
	{"member", stepMember},
	{"pre-approved", stepPreApproved},
	{"list", stepList},
}

// Judge answers a request. entropy fills its argument with random bytes.
func (l *List) Judge(now time.Time, r Request, f Facts, entropy func([]byte)) Judgement {
	l.expire(now)
	l.counts[CountRequests]++
	g := &judging{l: l, now: now, r: &r, f: &f, entropy: entropy, id: RowID{r.ID, r.Key}}
	for _, s := range Order {
		if s.run(g) {
			break
		}
	}
	if g.j.Refusal != RefusalNone {
		l.refused[g.j.Refusal]++
	}
	return g.j
}

// refuse answers with an error frame.
func (g *judging) refuse(why Refusal, code wire.ErrorCode, text, hint string) bool {
	g.j.Refusal, g.j.Err = why, wire.NewError(code, text, hint)
	return true
}

func stepHello(g *judging) bool {
	return g.r.Format < 1 && g.refuse(RefusalNoHello, wire.CodeRefusedByRule,
		"Hello comes first: the fleet must know which format this machine reads", "upgrade this machine to the fleet's version")
}

func stepFormat(g *judging) bool {
	return g.r.Format < g.f.FormatInUse && g.refuse(RefusalFormat, wire.CodeNewerFormat,
		fmt.Sprintf("this machine reads formats up to %d and the fleet uses %d", g.r.Format, g.f.FormatInUse),
		"upgrade this machine, then it asks again by itself")
}

func stepID(g *judging) bool {
	return !wire.ValidID(g.r.ID) && g.refuse(RefusalID, wire.CodeMalformed,
		fmt.Sprintf("the id %.80q is not 1 to 64 of A-Z a-z 0-9 . _ -", g.r.ID),
		"start the machine with an id of its own: pace-node --reset-identity")
}

func stepEndpoint(g *judging) bool {
	if len(g.r.Endpoint) > MaxEndpoint {
		return g.refuse(RefusalEndpoint, wire.CodeRefusedByRule,
			fmt.Sprintf("the endpoint %.80q… has %d bytes, and %d are allowed", g.r.Endpoint, len(g.r.Endpoint), MaxEndpoint), "correct --advertise on that machine")
	}
	return !wire.ValidEndpoint(g.r.Endpoint) && g.refuse(RefusalEndpoint, wire.CodeMalformed,
		fmt.Sprintf("the endpoint %.80q is no host:port", g.r.Endpoint), "correct --advertise on that machine")
}

func stepEndpointHere(g *judging) bool {
	if !here(g.r.Endpoint) || g.l.cfg.LoopbackOK && g.r.Source.Unmap().IsLoopback() && loopback(g.r.Endpoint) {
		return false
	}
	return g.refuse(RefusalEndpointHere, wire.CodeRefusedByRule,
		fmt.Sprintf("the machine at %s claims the endpoint %.80q, where every other machine would reach itself", g.r.Source, g.r.Endpoint),
		"correct --advertise on that machine, and leave --discovery-loopback out")
}

func loopback(endpoint string) bool {
	a, err := netip.ParseAddr(hostOf(endpoint))
	return err == nil && a.Unmap().IsLoopback()
}

func stepText(g *judging) bool {
	for _, t := range []struct {
		what, text string
		max        int
	}{{"name", g.r.Name, MaxName}, {"platform", g.r.Platform, MaxPlatform}, {"version", g.r.Version, MaxVersion}} {
		if len(t.text) > t.max {
			return g.refuse(RefusalText, wire.CodeRefusedByRule,
				fmt.Sprintf("the machine's %s has %d bytes, and %d are allowed", t.what, len(t.text), t.max), "correct --name on that machine")
		}
		if !wire.ValidText(t.text) {
			return g.refuse(RefusalText, wire.CodeRefusedByRule,
				fmt.Sprintf("the machine's %s %.80q holds a control character", t.what, t.text), "correct --name on that machine")
		}
	}
	return false
}

func stepKey(g *judging) bool {
	err := g.id.Key.Check()
	return err != nil && g.refuse(RefusalKey, wire.CodeMalformed, err.Error(), "give that machine a key of its own: pace-node --reset-identity")
}

func stepSessionKey(g *judging) bool {
	return g.id.Key != g.r.SessionKey && g.refuse(RefusalSessionKey, wire.CodeKeyMismatch, "", "ask over a session under the key that asks")
}

// stepSource refuses a new row beyond its network's share. Who needs no row is not held up by strangers of its network:
// the key is proven by the session by now.
func stepSource(g *judging) bool {
	l, n := g.l, network(g.r.Source)
	if _, revoked := g.revoked(); revoked || l.rows[g.id] != nil || g.holds() || g.preApproved() ||
		l.cfg.LoopbackOK && g.r.Source.Unmap().IsLoopback() {
		return false
	}
	limit := l.perSource()
	if l.waiting(func(r *row) bool { return r.network == n }) < limit {
		return false
	}
	return g.refuse(RefusalSource, wire.CodeSourceFull,
		fmt.Sprintf("%d machines of %s are waiting already, and that is the most (setting enrollment.per-source)", limit, n),
		"decide on those, or raise it on the leader: pace-node --cluster-set=enrollment.per-source=<n>")
}

func stepElsewhere(g *judging) bool {
	return (g.f.Elsewhere || g.f.PendingAt != "") && g.refuse(RefusalAskedElsewhere, wire.CodeNotLeader, g.f.PendingAt, "ask the fleet that this machine asked")
}

func stepLeads(g *judging) bool {
	return !g.f.Leads && g.refuse(RefusalNotLeader, wire.CodeNotLeader, g.f.LeaderEndpoint, "ask the leader")
}

func stepSignature(g *judging) bool {
	return !identity.Verify(g.id.Key, g.r.Message(), g.r.Signature) && g.refuse(RefusalSignature, wire.CodeBadSignature, "", "")
}

func (g *judging) revoked() (revision uint64, yes bool) {
	if g.f.Revoked == nil {
		return 0, false
	}
	return g.f.Revoked(g.id.Key)
}

func (g *judging) holds() bool { return g.f.Holds != nil && g.f.Holds(g.id.ID, g.id.Key) }
func (g *judging) preApproved() bool {
	return g.f.PreApproved != nil && g.f.PreApproved(g.id.ID, g.id.Key)
}

func stepRevoked(g *judging) bool {
	revision, yes := g.revoked()
	if !yes {
		return false
	}
	g.j.Revision = revision
	g.j.Outcome, g.j.Refusal, g.j.Row = wire.OutcomeRevoked, RefusalRevoked, g.id
	return true
}

func stepMember(g *judging) bool {
	if !g.holds() {
		return false
	}
	if r := g.l.rows[g.id]; r != nil && r.Decision != ApprovedAuto {
		g.l.decide(g.now, r, ApprovedManually)
	}
	g.j.Outcome, g.j.Row = wire.OutcomeApproved, g.id
	return true
}

func stepPreApproved(g *judging) bool {
	if !g.preApproved() {
		return false
	}
	if r := g.l.rows[g.id]; r != nil {
		g.l.decide(g.now, r, ApprovedManually)
	}
	g.entropy(g.j.Challenge[:])
	g.j.Outcome, g.j.Admit, g.j.Row, g.j.HasChallenge = wire.OutcomeApproved, true, g.id, true
	return true
}

func stepList(g *judging) bool {
	l, r := g.l, g.l.rows[g.id]
	if r == nil {
		if l.Waiting() >= MaxRows {
			return g.refuse(RefusalListFull, wire.CodeWaitingListFull,
				fmt.Sprintf("%d machines are waiting already, and that is the most", MaxRows),
				"decide on some of them, or approve this one ahead: pace-node --cluster-admit-learner=<id>@<key>")
		}
		r = g.newRow()
	} else if r.Decision == RejectedByHand {
		r.Attempts++
		g.j.Outcome, g.j.Refusal, g.j.Row = wire.OutcomeRejected, RefusalRejected, g.id
		return true
	} else if g.r.HasChallenge && g.r.Challenge == r.challenge {
		g.refresh(r)
	}
	r.answered = g.now
	g.j.Row, g.j.Waits = g.id, true
	g.j.Challenge, g.j.HasChallenge = r.challenge, true
	if r.Decision == Waiting && l.windowOpen(g.now) && !r.marked() {
		l.auto(g.now, r)
		g.j.Outcome, g.j.Admit, g.j.Auto = wire.OutcomeApproved, true, true
		return true
	}
	g.j.Outcome = wire.OutcomePending // also an approved row whose admission is being committed
	return true
}

func (l *List) windowOpen(now time.Time) bool {
	_, _, ok := l.Window(now)
	return ok
}

// newRow adds a row. The first ask of an unknown row counts whatever challenge it brings: the leader may have restarted.
func (g *judging) newRow() *row {
	r := &row{Row: Row{ID: g.id.ID, Key: g.id.Key, Decision: Waiting}, first: g.now, network: network(g.r.Source)}
	for _, other := range g.l.rows {
		if other.ID == r.ID { // another key, or it would be this row
			other.ConflictRow, r.ConflictRow = true, true
		}
		if other.Key == r.Key && other.Decision == RejectedByHand {
			r.KeyRejected = true // an id is a label; what a person said no to is the machine
		}
	}
	g.l.rows[g.id] = r
	g.refresh(r)
	return r
}

// refresh takes what a request says that answered the row's challenge, and gives it the next one.
func (g *judging) refresh(r *row) {
	r.Name, r.Platform, r.Version, r.Endpoint = g.r.Name, g.r.Platform, g.r.Version, g.r.Endpoint
	r.Source, r.heard = g.r.Source, g.now
	r.Attempts++
	r.EndpointDiffers = disagrees(r.Endpoint, r.Source)
	if g.f.MemberID != nil && g.f.MemberID(r.ID) {
		r.ConflictMember = true
	}
	r.NameOf, r.NameHeard = "", time.Time{}
	if g.f.MemberNamed != nil && r.Name != "" {
		if id, heard, ok := g.f.MemberNamed(r.Name); ok {
			r.NameOf, r.NameHeard = id, heard
		}
	}
	g.entropy(r.challenge[:])
}
