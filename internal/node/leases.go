package node

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
	"pace-node/internal/target"
	"pace-node/internal/wire"
)

// leasesFile keeps the serials of leases that were used and have not expired, as JSON behind a line with its checksum.
const (
	leasesFile   = "leases.json"
	leasesMagic  = "pace-node-leases"
	leasesFormat = 1
	// leasesRemedy: a serial that was forgotten could be used again until its lease expires.
	leasesRemedy = "put it back from a copy of this machine's state directory, or, once no lease of the last ten minutes matters, move it away and start again"
)

// leaseBook is what a machine remembers of leases: a serial is spent once, and its spending is on disk before the step.
type leaseBook struct {
	dir   string
	point func(string)

	mu      sync.Mutex
	Cluster string               `json:"cluster"`
	Serials map[string]uint64    `json:"serials"` // hex → expiry, Unix seconds
	since   map[string]time.Time // when this process learned of each
	refused map[string]uint64    // by reason
	obeyed  fleet.Obeyed
}

// leasePoints are the crash points of spending a lease.
var leasePoints = prefixed("node.lease.", statedir.WriteSteps)

func openLeases(dir, cluster string, point func(string)) (*leaseBook, error) {
	b := &leaseBook{dir: dir, point: point, refused: map[string]uint64{}}
	path := filepath.Join(dir, leasesFile)
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, statedir.Refusal(path, err, leasesRemedy)
	default:
		body, err := statedir.Unseal(leasesMagic, leasesFormat, raw)
		if err == nil {
			err = json.Unmarshal(body, b)
		}
		if err != nil {
			return nil, statedir.Refusal(path, err, leasesRemedy)
		}
	}
	if b.Cluster != cluster {
		b.reset(cluster)
	}
	if b.Serials == nil {
		b.Serials = map[string]uint64{}
	}
	b.since = make(map[string]time.Time, len(b.Serials))
	for serial := range b.Serials {
		b.since[serial] = time.Now()
	}
	return b, nil
}

// reset forgets another fleet's serials: its leases name its cluster and are refused for that.
func (b *leaseBook) reset(cluster string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.Cluster = cluster
	b.Serials, b.since, b.obeyed = map[string]uint64{}, map[string]time.Time{}, fleet.Obeyed{}
}

// spend judges a lease and, if it is good, spends it durably.
func (b *leaseBook) spend(in fleet.LeaseInput) (fleet.LeaseVerdict, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	in.Seen = func(serial [16]byte) bool {
		_, ok := b.Serials[hex.EncodeToString(serial[:])]
		return ok
	}
	now := time.Now()
	if in.View != nil {
		in.ObeyedTerm = b.obeyed.Term(now, in.View.Cluster(), in.View.Epoch())
	}
	claims, verdict := fleet.JudgeLease(in)
	if verdict != fleet.LeaseOK {
		b.refused[verdict.String()]++
		return verdict, nil
	}
	leader := uint64(max(in.LeaderNow.Unix(), 0))
	for serial, expiry := range b.Serials {
		if expiry < leader-min(leader, uint64(fleet.LeaseSlack/time.Second)) && now.Sub(b.since[serial]) > fleet.LeaseKept {
			delete(b.Serials, serial)
			delete(b.since, serial)
		}
	}
	serial := hex.EncodeToString(claims.Serial[:])
	b.Serials[serial], b.since[serial] = claims.Expiry, now
	raw, err := json.Marshal(b)
	if err == nil {
		err = statedir.WriteFileAtomic(filepath.Join(b.dir, leasesFile), statedir.Seal(leasesMagic, leasesFormat, append(raw, '\n')), 0o600, func(step string) { b.point("node.lease." + step) })
	}
	if err == nil {
		b.obeyed.Begin(now, &claims)
	}
	return verdict, err
}

func (b *leaseBook) counts() map[string]uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[string]uint64, len(b.refused))
	for k, v := range b.refused {
		out[k] = v
	}
	return out
}

// lease signs one step for one machine. It needs leadership.
func (n *Node) lease(id, step string, body []byte) ([]byte, error) {
	v := n.view.Load()
	b := n.serving.Load()
	if v == nil || !b.leads() {
		return nil, n.notLeader("only the leader signs leases")
	}
	term, leads := b.cons.LeadsIn()
	if !leads {
		return nil, n.notLeader("only the leader signs leases")
	}
	claims := wire.LeaseClaims{Version: wire.LeaseVersion, Target: id, Step: step, Digest: sha256.Sum256(body),
		Expiry: uint64(max(time.Now().Add(fleet.LeaseLife).Unix(), 0)), Cluster: v.Cluster(), Epoch: v.Epoch(), Term: term, Signer: n.id}
	n.cfg.Entropy(claims.Serial[:])
	return fleet.SignLease(n.key, claims), nil
}

// Work implements control.Backend: it checks the lease of a step that changes this machine against the roster that is applied
// here, and has the step done. Which steps those are is a column of the table that carries them out. It is judged when its turn
// has come: between the word and the step no other leader's step finds room.
func (n *Node) Work(ctx context.Context, p control.Peer, w wire.WorkRequest) (wire.WorkAnswer, error) {
	if n.pinDisagrees.Load() {
		return wire.WorkAnswer{}, wire.NewError(wire.CodeRefusedByRule, "this machine takes no work: "+pinDisagreesText, "correct --fleet-id on that machine")
	}
	var allow func(context.Context) error
	if row, known := target.LookupStep(w.Step); known && row.Lease {
		allow = func(ctx context.Context) error { return n.spendLease(ctx, p, w) }
	}
	a, err := n.target.WorkUnder(ctx, w.Step, w.Body, allow)
	if err != nil {
		return wire.WorkAnswer{}, err
	}
	if a.Error == target.BusyText {
		return wire.WorkAnswer{}, wire.NewError(wire.CodeBusy, a.Error, "it is asked again when that is done; pacectl node on that machine shows its step")
	}
	return a, nil
}

// spendLease judges the lease that work comes with and, if it is good, spends it.
func (n *Node) spendLease(ctx context.Context, p control.Peer, w wire.WorkRequest) error {
	verdict, err := n.leases.spend(n.leaseInput(p, w))
	if s, ok := p.Session.(*netio.Session); ok && err == nil && verdict == fleet.LeaseExpired && n.hello(ctx, s) == nil {
		in := n.leaseInput(p, w)
		in.LeaderNow = saidClock(s, time.Now()) // it may have been set since it said, here or in a heartbeat, what it shows
		verdict, err = n.leases.spend(in)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w; make room on the disk of that machine", target.ErrNotKept, err)
	case verdict == fleet.LeaseSignerUnknown:
		return wire.NewError(wire.CodeRosterNotApplied, verdict.String(), verdict.Remedy())
	case verdict != fleet.LeaseOK:
		n.log.Warn("lease refused", "step", control.Word(w.Step), "reason", verdict.String())
		return wire.NewError(wire.CodeLeaseRefused, verdict.String(), verdict.Remedy())
	}
	return nil
}

// leaseInput is what a lease is judged by here and now.
func (n *Node) leaseInput(p control.Peer, w wire.WorkRequest) fleet.LeaseInput {
	now, b := time.Now(), n.serving.Load()
	in := fleet.LeaseInput{Raw: w.Lease, View: n.view.Load(), Self: n.id, Step: w.Step, BodyDigest: sha256.Sum256(w.Body), LeaderNow: n.leaderNow(now, b, p)}
	switch {
	case b == nil: // between two modes no roster is applied, and nothing tells the highest term: it is tried again
		in.View = nil
	case b.learner != nil:
		in.Silence, in.HighestTerm = b.learner.Silence(now), b.learner.HighestTerm()
	default: // its leader is the voter that it hears
		in.Silence, in.HighestTerm = b.cons.LastContact(), b.cons.Term()
	}
	return in
}

// leaderNow is the clock of the leader that sends work: as its heartbeats give it where it is followed, else as it said on
// the session that the work comes by. Another voter's clock, or this one's own, may show any time.
func (n *Node) leaderNow(now time.Time, b *body, p control.Peer) time.Time {
	if b != nil && b.learner != nil {
		if m, ok := b.view().ByKey(p.Key); ok && m.ID == b.learner.Status().Following {
			if t, ok := b.learner.LeaderNow(now); ok {
				return t
			}
		}
	}
	if s, ok := p.Session.(*netio.Session); ok {
		return saidClock(s, now)
	}
	return now
}

// saidClock is the clock of a session's peer by its last Hello, this machine's own before one.
func saidClock(s *netio.Session, now time.Time) time.Time {
	_, offset, _ := s.Hello()
	return now.Add(offset)
}

// Query implements control.Backend.
func (n *Node) Query(context.Context, control.Peer) (wire.QueryAnswer, error) {
	a := n.target.Query()
	a.Wants, a.Why = n.wants(a.Wants, a.Why)
	return a, nil
}

// pinDisagreesText is why a machine whose pin does not admit its own fleet takes no work.
const pinDisagreesText = "its --fleet-id does not admit the fleet that it is in"

// wants is whether this machine is to be provisioned: not as long as it would refuse the work.
func (n *Node) wants(wants bool, why string) (bool, string) {
	if n.pinDisagrees.Load() {
		return false, pinDisagreesText
	}
	return wants, why
}

// leaderSilent is for how long no leader was heard, zero on the leader.
func (n *Node) leaderSilent() time.Duration {
	b := n.serving.Load()
	switch {
	case b == nil:
		return 0
	case b.learner != nil:
		return max(b.silent(time.Now()), b.learner.Status().LeaderSilent)
	}
	return b.cons.LastContact()
}

// silent is for how long a learner heard no voter: before the first one, since it began to listen.
func (b *body) silent(now time.Time) time.Duration {
	return min(b.learner.Silence(now), now.Sub(b.began))
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = prefix + name
	}
	return out
}
