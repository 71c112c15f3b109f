package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/discovery"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

const (
	// maxElsewhere bounds how many machines that speak for this fleet elsewhere are remembered: who made more keys than that
	// would only hide the first ones.
	maxElsewhere = 16
	// greetEvery is how often the leader of a recovered fleet dials members that have not come to it, one at a time.
	greetEvery = time.Second
	// greetAgain is the least time between two dials of one member, or of one machine that speaks for this fleet elsewhere.
	greetAgain = 30 * time.Second
	// ledTwiceAfter is for how long a member that is no voter here must say that it leads before it is believed that two do:
	// longer than an entry takes to everybody. It is proven anew once a minute.
	ledTwiceAfter = 30 * time.Second
	// acceptTimeout bounds the verb.
	acceptTimeout = 30 * time.Second
)

// errOtherEpoch ends what would cross recovery epochs.
var errOtherEpoch = errors.New("it is in another recovery epoch of this fleet: pacectl node says which key would be accepted")

// errOthersWord ends what would take another fleet's word for this one's.
var errOthersWord = errors.New("it is a machine of another fleet by now")

// ourWord reports whether what a session's peer says is this fleet's word, in this recovery epoch; nil is yes. A machine
// that went to another fleet keeps its key, and what that fleet revoked or does not know says nothing here.
func (n *Node) ourWord(ctx context.Context, s *netio.Session) error {
	if n.otherEpoch(s) {
		return errOtherEpoch
	}
	b := n.serving.Load()
	if h, _, said := s.Hello(); b == nil || !said || h.Cluster == b.cluster {
		return nil
	}
	if err := n.hello(ctx, s); err != nil { // what it said when the session began may be over
		return err
	}
	if h, _, _ := s.Hello(); h.Cluster != b.cluster {
		return errOthersWord
	}
	return nil
}

// otherEpoch reports whether a session's peer is in another recovery epoch of this machine's fleet.
func (n *Node) otherEpoch(s *netio.Session) bool {
	h, _, said := s.Hello()
	b := n.serving.Load()
	return said && b != nil && h.Cluster == b.cluster && h.Epoch != b.recoveryEpoch()
}

// elsewhere is a machine that speaks for this machine's own fleet, and is not one of its voters here.
type elsewhere struct {
	id       string
	endpoint string // 0xFC; empty while none is known
	epoch    uint64 // recovery epoch that it is in
	member   bool   // the roster here holds its key
	// leads: it is a member here that is no voter, and it proved that it leads this fleet; since then it said so.
	leads bool
	since time.Time
	same  bool // its last Hello said that it is in this machine's epoch
	at    time.Time
}

// heardElsewhere is told of each Hello of a peer, in either direction: the recovery epoch that it is in. The loop's.
func (n *Node) heardElsewhere(now time.Time, key identity.PublicKey, h wire.Hello, endpoint string) {
	b := n.body
	if b == nil || h.Cluster != b.cluster || !n.inFleet() {
		return
	}
	v := b.view()
	if _, revoked := v.Revoked(key); revoked {
		return
	}
	m, member := v.ByKey(key)
	if e, known := n.elsewheres[key]; known && e.leads {
		e.same = h.Epoch == b.recoveryEpoch()
		n.elsewheres[key] = e
	}
	if !member || h.Epoch <= b.recoveryEpoch() {
		return // a stranger's word about epochs is nobody's; that it speaks for this fleet is told by its proof
	}
	e := elsewhere{id: m.ID, endpoint: h.Endpoints.FC, epoch: h.Epoch, member: true, at: now}
	if e.endpoint == "" {
		e.endpoint = endpoint
	}
	n.rememberElsewhere(now, key, e)
}

func inFleet(m formation.Mode) bool { return m == formation.Learner || m == formation.Voter }

// inFleet reports whether this machine is a member of a fleet of several. A founder's body stays the one that it had when it
// was alone. The loop's.
func (n *Node) inFleet() bool { return inFleet(n.form.Own().Mode) }

func (n *Node) rememberElsewhere(now time.Time, key identity.PublicKey, e elsewhere) {
	if _, known := n.elsewheres[key]; !known && len(n.elsewheres) >= maxElsewhere {
		return
	}
	n.elsewheres[key] = e
	n.showElsewhere(now)
}

// strangeVoter is told of a proof of the own cluster under a key that the roster does not hold. Only who announces a
// consensus port claims to be a voter.
func (n *Node) strangeVoter(now time.Time, e discovery.Event) {
	b := n.body
	if b == nil || !n.inFleet() || e.Summary.RaftEndpoint == "" {
		return
	}
	n.rememberElsewhere(now, e.Key, elsewhere{id: e.ID, endpoint: e.Summary.OwnEndpoint, at: now})
}

// leadsElsewhere is told of a proof of a member. One that leads this fleet, while none of its voters is heard here, is asked
// in which recovery epoch it is: a datagram does not say.
func (n *Node) leadsElsewhere(now time.Time, e discovery.Event) {
	b := n.body
	if b == nil || !n.inFleet() || e.Summary.Leader.ID != e.ID || e.ID == n.leader().id || now.Sub(n.askedEpoch[e.Key]) < greetAgain {
		return
	}
	m, ok := b.view().ByKey(e.Key)
	if !ok || m.Role == fleet.RoleVoter && n.hub.ByKey(e.Key) != nil {
		return
	}
	if m.Role != fleet.RoleVoter && e.Summary.RaftEndpoint != "" {
		// All voters that are known here may have given way to others meanwhile: to these it is as to strangers. Or two
		// machines lead the fleet in one epoch.
		said := elsewhere{id: m.ID, endpoint: e.Summary.OwnEndpoint, leads: true, since: now, at: now}
		if old := n.elsewheres[e.Key]; old.leads {
			said.since, said.same = old.since, old.same
		}
		n.rememberElsewhere(now, e.Key, said)
	}
	n.askedEpoch[e.Key] = now
	n.effect(func(ctx context.Context) { n.greet(ctx, e.Summary.OwnEndpoint, e.Key) })
}

// greet says Hello to a machine at an endpoint, and hears what it answers.
func (n *Node) greet(ctx context.Context, endpoint string, key identity.PublicKey) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	s, err := n.hub.Connect(ctx, endpoint, key, n.hello)
	if err != nil {
		n.log.Debug("a member was not greeted", "endpoint", control.Word(endpoint), "error", err.Error())
		return
	}
	if h, _, said := s.Hello(); said { // on a session that there was already too
		n.post(func(now time.Time) { n.heardElsewhere(now, key, h, endpoint) })
	}
}

// greetMembers has the leader of a fleet that was recovered go to members that have not come to it: those that followed
// another voter know nothing of it otherwise. The loop's, at each beat.
func (n *Node) greetMembers(now time.Time) {
	b := n.body
	if !b.leads() || b.recoveryEpoch() == 0 || now.Sub(n.greeted1) < greetEvery {
		return
	}
	for m := range b.view().Members() {
		if m.ID == n.id || m.Endpoints.FC == "" || n.hub.ByKey(m.Key) != nil || now.Sub(n.askedEpoch[m.Key]) < greetAgain {
			continue
		}
		n.askedEpoch[m.Key], n.greeted1 = now, now
		n.effect(func(ctx context.Context) { n.greet(ctx, m.Endpoints.FC, m.Key) })
		return
	}
}

// ledTwice reports whether a member that is no voter here leads this fleet in the very epoch in which this machine hears a leader
// of its own: the fleet was recovered on two machines, or an old backup of it was restored beside a recovery. It must have
// said so for a while: who has just been made a voter and chosen may be ahead of what is applied here. The loop's.
func (n *Node) ledTwice(now time.Time, key identity.PublicKey) bool {
	e := n.elsewheres[key]
	if n.body == nil || !e.leads || !e.same || e.at.Sub(e.since) < ledTwiceAfter || n.leaderSilent() >= leaderSilence {
		return false
	}
	// Where no voter was heard since this body began, all that it knows may have given way to others.
	if l := n.body.learner; l != nil && l.Silence(now) >= leaderSilence {
		return false
	}
	if c := n.body.cons; c != nil {
		if _, heard := c.Heard(); !heard {
			return false
		}
	}
	m, member := n.body.view().ByKey(key)
	return member && m.Role == fleet.RoleLearner && m.ID != n.leader().id
}

// showElsewhere raises what was heard of this fleet elsewhere, and forgets what was not heard again.
func (n *Node) showElsewhere(now time.Time) {
	b := n.body
	if b == nil {
		return
	}
	v := b.view()
	var recovered []identity.PublicKey
	for key, e := range n.elsewheres {
		m, member := v.ByKey(key)
		_, revoked := v.Revoked(key)
		switch {
		case now.Sub(e.at) > seenFor, revoked, !n.inFleet(), e.member && (!member || e.epoch <= b.recoveryEpoch()), !e.member && member && m.Role == fleet.RoleVoter:
			delete(n.elsewheres, key)
		case e.member, n.ledTwice(now, key):
			recovered = append(recovered, key)
		}
	}
	for key, at := range n.askedEpoch {
		if now.Sub(at) > 2*greetAgain {
			delete(n.askedEpoch, key)
		}
	}
	slices.SortFunc(recovered, func(a, b identity.PublicKey) int { return strings.Compare(a.String(), b.String()) })
	var said []string
	var args []string
	for _, key := range recovered {
		e := n.elsewheres[key]
		what := fmt.Sprintf("speaks for this fleet in recovery epoch %d, and this machine is in %d", e.epoch, b.recoveryEpoch())
		if !e.member {
			what = fmt.Sprintf("leads this fleet too, in the same recovery epoch %d: it was recovered twice, or an old backup was restored beside a recovery, and the two states go apart", b.recoveryEpoch())
		}
		said = append(said, fmt.Sprintf("%s (key %s, at %s) %s", control.Word(e.id), key, control.Word(e.endpoint), what))
		if args == nil {
			args = []string{key.String(), e.id}
		}
	}
	n.board.Set(len(said) > 0, "fleet-recovered-elsewhere", strings.Join(said, "; "), args...)
}

// recoveredAlready says which members have recovered this fleet and speak for it: to recover it here too makes two of it. It
// refuses nothing, since a member may lie. The loop's.
func (n *Node) recoveredAlready() (said []string) {
	for _, key := range slices.SortedFunc(maps.Keys(n.elsewheres), func(a, b identity.PublicKey) int { return strings.Compare(a.String(), b.String()) }) {
		if e := n.elsewheres[key]; e.member && n.body != nil && e.epoch > n.body.recoveryEpoch() {
			said = append(said, fmt.Sprintf("that this is one fleet: %s speaks for it in recovery epoch %d already, and is heard; to follow that machine instead: pacectl fleet accept %s", control.Word(e.id), e.epoch, key))
		}
	}
	return said
}

// strangers are the keys that speak for this fleet and that its roster does not hold as a voter's, with where they were met.
// The loop's.
func (n *Node) strangers() (keys []identity.PublicKey, said string) {
	for key, e := range n.elsewheres {
		if !e.member {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b identity.PublicKey) int { return strings.Compare(a.String(), b.String()) })
	var all []string
	for _, key := range keys {
		all = append(all, key.String()+" at "+control.Word(n.elsewheres[key].endpoint))
	}
	return keys, strings.Join(all, ", ")
}

// acceptOf is everything that is known of whom an operator accepts, and of this machine at that moment.
type acceptOf struct {
	key       identity.PublicKey
	endpoints []string
	cluster   string
	epoch     uint64
	revision  uint64
	own       bool // the key is this machine's
	voter     bool // it is a voter of this machine's own state
	silent    bool // no voter of it is heard
	twice     bool // it leads this very epoch beside a leader that is heard here
}

// accept has this machine follow the voter of another recovery epoch, at its operator's word.
func (n *Node) accept(ctx context.Context, r wire.ClusterRequest) (wire.ClusterAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, acceptTimeout)
	defer cancel()
	of, err := n.acceptable(ctx, r)
	if err != nil {
		return wire.ClusterAnswer{}, err
	}
	roster, raw, err := n.fetchRoster(ctx, of)
	if err != nil {
		return wire.ClusterAnswer{}, err
	}
	var refused *wire.Error
	if err := n.ask(ctx, func(now time.Time) {
		b := n.body
		if b == nil || n.inMove {
			refused = wire.NewError(wire.CodeBusy, "this machine is changing its place in a fleet", "try again in a few seconds")
			return
		}
		epoch, revision := b.position()
		// Of two states that went apart in one epoch neither is the newer: whoever types this says which one goes on.
		if twin := of.twice && roster.Epoch == epoch; b.cluster != of.cluster || !twin && fleet.ComparePosition(roster.Epoch, roster.Revision, epoch, revision) <= 0 {
			refused = wire.NewError(wire.CodeRefusedByRule, fmt.Sprintf("that machine's state is at revision %d of recovery epoch %d, and this one's at %d of %d: the older one accepts the newer", roster.Revision, roster.Epoch, revision, epoch),
				"type pacectl fleet accept there, with the key that pacectl node prints here; or go without this machine's state: pacectl fleet leave --force, and let it ask to join")
			return
		}
		n.log.Warn("another recovery epoch is accepted", "key", of.key.String(), "epoch", roster.Epoch, "revision", roster.Revision)
		n.step(now, formation.Event{Kind: formation.EvTrigger, Trigger: formation.EpochAccepted, Roster: raw, From: of.key})
	}); err != nil {
		return wire.ClusterAnswer{}, err
	}
	if refused != nil {
		return wire.ClusterAnswer{}, refused
	}
	done := func(o formation.Own) bool {
		return o.Mode == formation.Learner && n.body != nil && n.body.learner != nil && n.body.recoveryEpoch() == roster.Epoch && !n.rec.PutAway && n.acceptedBy() == of.key
	}
	if err := n.until(ctx, done); err != nil {
		return wire.ClusterAnswer{}, wire.NewError(wire.CodeBusy, fmt.Sprintf("it is recorded and not finished within %s (%v); it goes on by itself", acceptTimeout, err), "pacectl node shows what stands in its way")
	}
	return wire.ClusterAnswer{Revision: roster.Revision, Text: fmt.Sprintf("this machine follows %s, in recovery epoch %d of fleet %s; what it held before is in its archive", of.key, roster.Epoch, of.cluster)}, nil
}

// acceptedBy is the key that signed this machine's last admission. The loop's.
func (n *Node) acceptedBy() identity.PublicKey { return n.form.Own().AdmittedBy }

// acceptable judges what can be judged before anybody is dialled.
func (n *Node) acceptable(ctx context.Context, r wire.ClusterRequest) (acceptOf, error) {
	refuse := func(text, hint string) (acceptOf, error) {
		return acceptOf{}, wire.NewError(wire.CodeRefusedByRule, text, hint)
	}
	key, err := identity.ParsePublicKey(r.Key)
	if err != nil {
		return refuse(err.Error(), "give the key that pacectl node prints on the machine that recovered the fleet")
	}
	of := acceptOf{key: key}
	var mode formation.Mode
	var revoked uint64
	var gone, disagrees bool
	if err := n.ask(ctx, func(now time.Time) {
		b, own := n.body, n.form.Own()
		mode = own.Mode
		if b == nil || !inFleet(mode) {
			return
		}
		v := b.view()
		of.cluster = b.cluster
		of.epoch, of.revision = b.position()
		of.own, of.silent, of.twice = key == n.key.Public(), n.leaderSilent() >= leaderSilence, n.ledTwice(now, key)
		revoked, gone = v.Revoked(key)
		if disagrees = !n.pin.Admits(b.cluster, key); disagrees { // formation refuses it too, and counts that
			n.step(now, formation.Event{Kind: formation.EvTrigger, Trigger: formation.EpochAccepted, From: key})
		}
		of.endpoints = append(of.endpoints, r.Endpoint, n.elsewheres[key].endpoint)
		if m, ok := v.ByKey(key); ok {
			of.voter = m.Role == fleet.RoleVoter
			fc, _, _ := n.exchange.Lookup(m.ID)
			of.endpoints = append(of.endpoints, fc, m.Endpoints.FC)
		}
	}); err != nil {
		return acceptOf{}, err
	}
	of.endpoints = slices.DeleteFunc(of.endpoints, func(e string) bool { return e == "" })
	if r.Endpoint != "" {
		of.endpoints = of.endpoints[:1]
	}
	switch {
	case !inFleet(mode):
		return refuse("this machine is a fleet of its own: it asks to join another by itself, or by --fleet-seed", "pacectl node shows what it asks")
	case of.own:
		return refuse("that is this machine's own key", "type it on the other machines")
	case gone:
		return refuse(fmt.Sprintf("that key was revoked here at revision %d: its machine was forgotten", revoked), "a machine that was forgotten begins anew there: pace-node --reset-identity")
	case disagrees:
		return refuse("--fleet-id does not name that key, and following it would be a way into a fleet", "add it to the pin on this machine: "+key.String())
	case len(of.endpoints) == 0:
		return refuse("where the machine of that key is, is not known here", "say it: pacectl fleet accept "+key.String()+" HOST:6674")
	}
	return of, nil
}

// fetchRoster has the machine of the key approve this one. A session that was there already may be ending just then, as that
// machine ends those of a key that it revoked: where one gave no answer, a new one is asked.
func (n *Node) fetchRoster(ctx context.Context, of acceptOf) (wire.Roster, []byte, error) {
	roster, raw, mute, err := n.rosterOf(ctx, of)
	if mute == nil || ctx.Err() != nil {
		return roster, raw, err
	}
	mute.Close(err)
	roster, raw, _, err = n.rosterOf(ctx, of)
	return roster, raw, err
}

// rosterOf asks once: an approval is signed, holds the roster to follow by, and is given at once to whom its state holds.
// mute is the session that gave no answer, if that is why it failed.
func (n *Node) rosterOf(ctx context.Context, of acceptOf) (roster wire.Roster, raw []byte, mute *netio.Session, err error) {
	var none wire.Roster
	refuse := func(text, hint string) (wire.Roster, []byte, *netio.Session, error) {
		return none, nil, nil, wire.NewError(wire.CodeRefusedByRule, text, hint)
	}
	silent := func(s *netio.Session, err error) (wire.Roster, []byte, *netio.Session, error) {
		if errors.As(err, new(*wire.Error)) {
			s = nil // it did answer
		}
		return none, nil, s, notTaken(err, "look at it there: pacectl node")
	}
	var s *netio.Session
	for _, endpoint := range of.endpoints {
		// Not a session of its own: two of one member look like a copied machine.
		if s, err = n.hub.Connect(ctx, endpoint, of.key, n.hello); err == nil {
			break
		}
	}
	if err != nil {
		return none, nil, nil, wire.NewError(wire.CodeBusy, "the machine of that key does not answer: "+err.Error(), "look at it there: pacectl node; or say where it is: pacectl fleet accept "+of.key.String()+" HOST:PORT")
	}
	h, _, said := s.Hello()
	if !said {
		if err := n.hello(ctx, s); err != nil {
			return silent(s, err)
		}
		h, _, _ = s.Hello()
	}
	switch {
	case h.Cluster != of.cluster:
		return refuse("that machine is in fleet "+control.Word(h.Cluster)+", and this one is in "+of.cluster, "to move this machine there: pacectl fleet leave, then let it ask to join")
	case h.Epoch < of.epoch:
		return refuse(fmt.Sprintf("that machine is in recovery epoch %d, and this one in %d: the older one accepts the newer", h.Epoch, of.epoch), "type pacectl fleet accept there, with the key that pacectl node prints here")
	case h.Epoch == of.epoch && !of.twice && (of.voter || !of.silent):
		return refuse(fmt.Sprintf("that machine is in recovery epoch %d as this one is, so there is nothing to accept", h.Epoch), "pacectl fleet status shows whom this machine follows")
	}
	var nonce [32]byte
	n.cfg.Entropy(nonce[:])
	ask := enroll.NewAsk([]identity.PublicKey{of.key}, of.cluster, n.id, n.key.Public(), n.fcEndpoint(), nonce)
	req := ask.Request(n.key)
	first, _, done, err := netio.Subscribe(ctx, s, wire.VerbEnroll, req.Append(nil))
	if e := (*wire.Error)(nil); errors.As(err, &e) && e.Code == wire.CodeNotLeader {
		return refuse("that machine does not lead the fleet, and only its leader is accepted", "pacectl fleet status there shows who leads; accept that one's key")
	}
	if err != nil {
		return silent(s, err)
	}
	defer done()
	ans, err := wire.DecodeEnrollAnswer(first)
	if err != nil {
		return none, nil, nil, notTaken(err, "bring both machines to one version")
	}
	outcome, err := ask.Answer(ans)
	switch {
	case err != nil:
		return none, nil, nil, notTaken(err, "compare the key with what pacectl node prints there")
	case outcome == wire.OutcomeRevoked:
		return refuse("that fleet has forgotten this machine: its key is revoked there", "pacectl fleet leave --force, then pace-node --reset-identity, and let it ask to join anew")
	case outcome != wire.OutcomeApproved:
		return refuse("that fleet's state does not hold this machine, which was admitted after what was recovered", "pacectl fleet leave --force, and let it ask to join again")
	}
	roster, err = enroll.CheckRoster(ans.Roster, of.cluster, n.id, n.key.Public())
	if err != nil {
		return none, nil, nil, notTaken(err, "bring both machines to one version; pacectl fleet status there shows what it has of this one")
	}
	return roster, json.RawMessage(ans.Roster), nil, nil
}

// notTaken is why the word of the machine that was to be accepted could not be had: its own refusal, or what went wrong on
// the way, with what to do about it.
func notTaken(err error, hint string) error {
	var refused *wire.Error
	if errors.As(err, &refused) {
		return refused
	}
	return wire.NewError(wire.CodeBusy, "the machine of that key gave no word that counts: "+err.Error(), hint)
}
