package discovery

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Socket is one of the two sockets of a node.
type Socket uint8

// The two sockets.
const (
	SocketListener  Socket = iota // hears beacons, on the port that all share; never sends
	SocketAnswering               // sends everything; receives challenges and proofs
	sockets
)

// accepts is the table of what arrives where; any other kind is malformed there.
var accepts = [sockets][]wire.Kind{
	SocketListener:  {wire.KindBeacon},
	SocketAnswering: {wire.KindChallenge, wire.KindProof},
}

// RosterVerdict is what the own cluster's applied roster says of an id and a key.
type RosterVerdict uint8

// Verdicts of the roster.
const (
	RosterUnknown RosterVerdict = iota
	RosterHolds
	RosterRevoked  // the key was revoked
	RosterOtherKey // the id is held under another key
	rosterVerdicts
)

// Config is what an exchange asks of its surroundings. None of the functions
// may call back into the exchange.
type Config struct {
	// Loopback (--discovery-loopback): loopback endpoints from loopback sources
	// are accepted, and the bounds of one source do not apply to 127.0.0.0/8;
	// the totals do.
	Loopback bool
	// Entropy fills b with random bytes that nobody can guess. Required.
	Entropy func(b []byte)
	// Roster is the applied roster of this node's own cluster, asked each time.
	// With a zero key it says RosterOtherKey for an id that the roster holds.
	// Nil: an empty roster.
	Roster func(id string, key identity.PublicKey) RosterVerdict
	// OwnAddress reports whether a is an address of this machine. Nil: none is.
	OwnAddress func(a netip.Addr) bool
	// Broadcast reports whether a is a broadcast address of a network of this
	// machine: nothing is ever sent to one in answer to a datagram that claims to
	// come from it. Nil: only the limited broadcast is.
	Broadcast func(a netip.Addr) bool
	// Key is this node's identity key.
	Key identity.PrivateKey
}

// Self is what this node says of itself; the exchange encodes it, and cuts the
// member list until it fits. A Summary without a cluster id announces nothing.
type Self struct{ Summary wire.Summary }

// Datagram is one datagram to send from the answering socket.
type Datagram struct {
	To netip.AddrPort
	// Local is the source address to send from, so that a proof leaves from where
	// the beacon did: the cookie binds it. Invalid: the kernel chooses.
	Local netip.Addr
	Bytes []byte
}

// Output is what a call wants done. The slices are used again by the next call,
// and Beacon is read-only; what they point to otherwise is the caller's.
type Output struct {
	Beacon []byte // to every eligible interface, or nil
	Send   []Datagram
	Events []Event
}

// Exchange is the state of discovery at one node.
type Exchange struct {
	cfg    Config
	public identity.PublicKey

	self     wire.Summary
	raw      []byte // nil: nothing to announce
	beacon   []byte
	withheld string // why raw is nil, if there is something to say

	cookies     cookies
	budgets     [workKinds]budget
	provenHosts map[netip.Addr]time.Time
	provenKeys  map[identity.PublicKey]time.Time
	recall      recall
	dir         directory
	proven      foreignTable
	unproven    foreignTable
	retained    map[string]bool

	latest    time.Time
	beaconAt  time.Time
	extra     bool      // beaconAt was brought forward
	lastExtra time.Time // zero: never
	sweepAt   time.Time

	cloneAsked time.Time // zero: never
	cloneNonce [32]byte  // of the last challenge to a node under the own id

	counts  [counterKinds]uint64
	dampers [eventKinds]damper
	out     Output
}

// New returns an exchange whose first beacon is due within 250 ms.
func New(cfg Config, now time.Time, self Self) *Exchange {
	if cfg.Roster == nil {
		cfg.Roster = func(string, identity.PublicKey) RosterVerdict { return RosterUnknown }
	}
	if cfg.OwnAddress == nil {
		cfg.OwnAddress = func(netip.Addr) bool { return false }
	}
	if cfg.Broadcast == nil {
		cfg.Broadcast = func(netip.Addr) bool { return false }
	}
	x := &Exchange{
		cfg: cfg, public: cfg.Key.Public(),
		cookies:     cookies{entropy: cfg.Entropy},
		recall:      recall{entropy: cfg.Entropy, turned: now},
		provenHosts: map[netip.Addr]time.Time{},
		provenKeys:  map[identity.PublicKey]time.Time{},
		dir:         directory{map[string]*peer{}, map[strangerKey]*peer{}},
		proven:      foreignTable{boundForeignProven, map[string]*fleet{}},
		unproven:    foreignTable{boundForeignUnproven, map[string]*fleet{}},
		retained:    map[string]bool{},
		latest:      now,
	}
	for w := range x.budgets {
		x.budgets[w].shared = fullBucket(now, budgets[w].sharedSize, budgets[w].sharedEvery)
	}
	x.beaconAt = now.Add(x.random(boundStartDelay.duration()))
	x.sweepAt = now.Add(boundSweep.duration())
	x.SetSelf(now, self)
	return x
}

// SetSelf replaces what this node says of itself. Who hears a changed summary
// challenges it at the next beacon; none is sent for the change alone.
func (x *Exchange) SetSelf(_ time.Time, self Self) {
	x.self, x.raw, x.beacon, x.withheld = self.Summary, nil, nil, ""
	if x.self.Cluster == "" {
		return
	}
	if x.withheld = withholds(&x.self, x.cfg.Loopback); x.withheld != "" {
		return
	}
	raw, ok := wire.FitSummary(&x.self)
	if !ok {
		x.withheld = "the summary does not fit a datagram, or holds what no reader accepts; use shorter ids and an --advertise of at most 253 characters"
		return
	}
	x.raw, x.beacon = raw, wire.EncodeBeacon(raw)
}

// random returns a duration of 0 to most, both included.
func (x *Exchange) random(most time.Duration) time.Duration {
	var b [8]byte
	x.cfg.Entropy(b[:])
	return time.Duration(binary.LittleEndian.Uint64(b[:]) % uint64(most+1))
}

func (x *Exchange) begin(now time.Time) {
	x.latest = now
	clear(x.out.Send) // so that no datagram is kept alive by the array
	clear(x.out.Events)
	x.out.Beacon, x.out.Send, x.out.Events = nil, x.out.Send[:0], x.out.Events[:0]
}

// Tick does what time asks for: the beacon, forgetting, lines held back.
func (x *Exchange) Tick(now time.Time) Output {
	x.begin(now)
	if !now.Before(x.beaconAt) {
		x.speak(now)
	}
	if !now.Before(x.sweepAt) {
		x.sweep(now)
	}
	x.sayHeld(now)
	return x.out
}

// Next returns when Tick wants to be called.
func (x *Exchange) Next(time.Time) time.Time {
	return earliest(earliest(x.beaconAt, x.sweepAt), x.nextHeld())
}

func (x *Exchange) speak(now time.Time) {
	if x.extra {
		x.extra, x.lastExtra = false, now
	}
	period := boundBeaconPeriod.duration()
	jitter := period * time.Duration(boundBeaconJitter.count()) / 100
	x.beaconAt = now.Add(period - jitter + x.random(2*jitter))
	switch {
	case x.beacon != nil:
		x.tally(CountBeaconsSent)
		x.out.Beacon = x.beacon
	case x.withheld != "":
		x.say(now, Event{Kind: EventSummaryWithheld, Reason: x.withheld})
	}
}

// bringForward makes the next beacon due within 250 ms, or that much after the
// gap since the last one that was brought forward.
func (x *Exchange) bringForward(now time.Time) {
	at := now
	if !x.lastExtra.IsZero() {
		if free := x.lastExtra.Add(boundForwardGap.duration()); free.After(at) {
			at = free
		}
	}
	if at = at.Add(x.random(boundForwardDelay.duration())); at.Before(x.beaconAt) {
		x.beaconAt, x.extra = at, true
	}
}

func (x *Exchange) sweep(now time.Time) {
	x.sweepAt = now.Add(boundSweep.duration())
	x.forgetPeers(now)
	x.proven.forget(now)
	x.unproven.forget(now)
	for a, at := range x.provenHosts {
		if !within(now, at, boundProven) {
			delete(x.provenHosts, a)
		}
	}
	for k, at := range x.provenKeys {
		if !within(now, at, boundProven) {
			delete(x.provenKeys, k)
		}
	}
}

// Handle takes one datagram as it arrived. local is its destination address, or
// an address of the interface it came by, so that an answer leaves from it; it
// may be invalid. The bytes are not kept. Refusing junk allocates nothing.
func (x *Exchange) Handle(now time.Time, on Socket, from netip.AddrPort, local netip.Addr, datagram []byte) Output {
	x.begin(now)
	from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
	kind, payload, verdict := wire.ParseDatagram(datagram)
	switch {
	case verdict == wire.VerdictVersion:
		x.tally(CountDatagramsRefusedVersion)
		x.say(now, Event{Kind: EventVersionSeen, From: from, Version: datagram[1]})
		return x.out
	case verdict != wire.VerdictOK, !x.isSpeaker(from), !arrives(kind, on):
		x.tally(CountDatagramsMalformed)
		return x.out
	}
	ok := false
	switch kind {
	case wire.KindBeacon:
		ok = x.handleBeacon(now, from, x.sourceFor(local), payload, len(datagram))
	case wire.KindChallenge:
		ok = x.handleChallenge(now, from, x.sourceFor(local), payload, len(datagram))
	case wire.KindProof:
		ok = x.handleProof(now, from, payload)
	}
	if !ok {
		x.tally(CountDatagramsMalformed)
	}
	return x.out
}

func arrives(k wire.Kind, on Socket) bool {
	if on >= sockets {
		return false
	}
	for _, a := range accepts[on] {
		if a == k {
			return true
		}
	}
	return false
}

// isSpeaker reports whether one node can have sent from there: an answer to a
// broadcast address would be answered by a whole segment.
func (x *Exchange) isSpeaker(from netip.AddrPort) bool {
	a := from.Addr()
	return a.IsValid() && from.Port() != 0 && !a.IsUnspecified() && !x.isGroup(a)
}

func (x *Exchange) isGroup(a netip.Addr) bool {
	return a.IsMulticast() || a == limitedBroadcast || a == loopbackBroadcast || x.cfg.Broadcast(a)
}

// sourceFor returns the address an answer leaves from. A beacon may have come to
// a broadcast address, which no socket can send from.
func (x *Exchange) sourceFor(local netip.Addr) netip.Addr {
	local = local.Unmap()
	if !local.IsValid() || local.IsUnspecified() || x.isGroup(local) {
		return netip.Addr{}
	}
	return local
}

// handleBeacon returns false for a malformed one, as the next two do.
func (x *Exchange) handleBeacon(now time.Time, from netip.AddrPort, local netip.Addr, payload []byte, size int) bool {
	b, err := wire.DecodeBeacon(payload)
	if err != nil || !believable(&b.Summary, from.Addr(), x.cfg.Loopback) {
		return false
	}
	s := &b.Summary
	own := s.Cluster == x.self.Cluster
	if s.Node == x.self.Node && s.Node != "" && x.cfg.OwnAddress(from.Addr()) {
		return true // this node hears itself
	}
	x.tally(CountBeaconsHeard)
	c := claim{from, *s, sha256.Sum256(b.Raw)}
	if own && s.Node == x.self.Node {
		x.challengeClone(now, &c, local, size)
		return true
	}
	challenge := false
	if own {
		challenge = x.hearOwn(now, c)
	} else {
		challenge = x.hearForeign(now, c)
	}
	if challenge {
		x.challenge(now, &c, local, size)
	}
	return true
}

// challengeClone asks a machine elsewhere that speaks under this node's id for
// its key, once a minute.
func (x *Exchange) challengeClone(now time.Time, c *claim, local netip.Addr, size int) {
	if within(now, x.cloneAsked, boundCloneChallenge) {
		return
	}
	if nonce, sent := x.challenge(now, c, local, size); sent {
		x.cloneAsked, x.cloneNonce = now, nonce
	}
}

// challengeSize is the size of a challenge without padding: the header, three
// field headers, the cluster id and the nonce.
func challengeSize(cluster string) int { return wire.HeaderSize + 3*4 + len(cluster) + 32 }

func (x *Exchange) challenge(now time.Time, c *claim, local netip.Addr, size int) (nonce [32]byte, sent bool) {
	if x.self.Cluster == "" || challengeSize(x.self.Cluster) > size {
		x.tally(CountRepliesWithheld)
		return nonce, false
	}
	if !x.afford(now, workChallenge, c.from) {
		return nonce, false
	}
	t := target{x.self.Cluster, c.summary.Cluster, c.summary.Node, c.summary.RaftEndpoint, c.from.Addr()}
	nonce = x.cookies.issue(now, &t)
	b, ok := wire.EncodeChallenge(x.self.Cluster, nonce, size)
	if !ok {
		x.tally(CountRepliesWithheld)
		return nonce, false
	}
	x.tally(CountChallengesSent)
	x.out.Send = append(x.out.Send, Datagram{To: c.from, Local: local, Bytes: b})
	return nonce, true
}

// handleChallenge answers a challenge of any cluster: what it signs is what the
// beacon shouts.
func (x *Exchange) handleChallenge(now time.Time, from netip.AddrPort, local netip.Addr, payload []byte, size int) bool {
	c, err := wire.DecodeChallenge(payload)
	if err != nil {
		return false
	}
	if !x.cloneAsked.IsZero() && c.Nonce == x.cloneNonce {
		// This node's own question came back to it: what it took for a copy is
		// itself, under an address that it does not know yet.
		return true
	}
	if x.raw == nil || wire.ProofSize(len(x.raw)) > size {
		x.tally(CountRepliesWithheld)
		return true
	}
	if !x.afford(now, workAnswer, from) {
		return true
	}
	sig := x.cfg.Key.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, x.raw, x.public))
	x.tally(CountProofsSent)
	x.out.Send = append(x.out.Send, Datagram{To: from, Local: local, Bytes: wire.EncodeProof(x.raw, c.Nonce, x.public, sig)})
	return true
}

func (x *Exchange) handleProof(now time.Time, from netip.AddrPort, payload []byte) bool {
	p, err := wire.DecodeProof(payload)
	if err != nil || !believable(&p.Summary, from.Addr(), x.cfg.Loopback) {
		return false
	}
	switch x.judge(now, from, &p) {
	case OutcomeProven:
	case OutcomeForged:
		x.say(now, Event{Kind: EventForged, From: from})
		return true
	default:
		return true
	}
	x.provenHost(now, sourceOf(from.Addr()))
	key := identity.PublicKey(p.Key)
	c := claim{from, p.Summary, sha256.Sum256(p.Raw)}
	if key == x.public {
		if !x.cfg.OwnAddress(from.Addr()) {
			x.say(now, Event{Kind: EventSelfCloned, Summary: p.Summary, Key: key, From: from, ID: p.Summary.Node,
				Reason: "another machine holds a copy of this node's identity; on the copy run pace-node --reset-identity"})
		}
		return true
	}
	first := false
	if p.Summary.Cluster == x.self.Cluster {
		first = x.proofOwn(now, c, p.Raw, key)
	} else {
		first = x.proofForeign(now, c, p.Raw, key)
	}
	if newcomer := x.provenKey(now, key); first && newcomer {
		x.bringForward(now)
	}
	return true
}
