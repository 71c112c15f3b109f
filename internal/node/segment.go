package node

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/discovery"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// maxListed is how many members a summary lists: ten fit one datagram in the worst case.
const maxListed = 10

// datagram hands one datagram to discovery and carries out what comes back.
func (n *Node) datagram(now time.Time, d netio.Received) {
	on := discovery.SocketListener
	if d.Answering {
		on = discovery.SocketAnswering
	}
	n.arrived[on]++
	n.exchanged(now, n.exchange.Handle(now, on, d.From, d.Local, d.Bytes))
}

func (n *Node) exchanged(now time.Time, out discovery.Output) {
	if out.Beacon != nil {
		n.port.Beacon(out.Beacon) // what could not be sent is said there, once a minute
	}
	for _, d := range out.Send {
		if err := n.port.Send(d.To, d.Local, d.Bytes); err != nil {
			n.noise.say(now, "datagram not sent", "to", d.To.String(), "error", err.Error())
		}
	}
	for _, e := range out.Events {
		n.heard(now, e)
	}
}

// heard acts upon what discovery reports. Nothing that a datagram claimed is printed before its signature was verified.
func (n *Node) heard(now time.Time, e discovery.Event) {
	switch e.Kind {
	case discovery.EventForeignProven:
		f := formation.FleetOf(&e.Summary, e.Key, formation.OriginBeacon, e.From)
		f.Evidence = n.evidenceOf(f.Speaker, e.Key)
		n.step(now, formation.Event{Kind: formation.EvProven, Fleet: f})
	case discovery.EventPeerProven:
		n.leadsElsewhere(now, e)
		if e.First {
			n.log.Debug("peer authenticated", "id", control.Word(e.ID), "from", e.From.String())
		}
	case discovery.EventPeerLost:
		n.log.Debug("peer not heard for 90 s", "id", control.Word(e.ID))
	case discovery.EventUnknownKey:
		n.strangeVoter(now, e)
		admit := ""
		if e.Admit != "" { // an id or a host that cannot be pasted has no line
			admit = "pace-node " + e.Admit
		}
		n.log.Warn("proof under a key that the roster does not hold: a machine that nobody admitted", "id", control.Word(e.ID), "from", e.From.String(),
			"key", e.Key.String(), "reason", e.Reason, "stands-for", e.Count, "to-admit", admit)
	case discovery.EventRevokedKey:
		n.log.Warn("proof under a revoked key, which is never admitted again", "id", control.Word(e.ID), "from", e.From.String(), "key", e.Key.String(), "reason", e.Reason, "stands-for", e.Count)
	case discovery.EventVersionSeen:
		n.log.Warn("datagram of another version of the discovery wire; upgrade the segment's nodes together", "from", e.From.String(), "version", e.Version, "stands-for", e.Count)
		n.versionSeen = now
		n.board.Raise("wire-version-seen", e.From.Addr().String()+" speaks another version of the discovery wire")
	case discovery.EventSelfCloned, discovery.EventPeerCloned:
		n.cloned(now, e.ID, clonedDetail(e))
	case discovery.EventSummaryWithheld:
		n.log.Warn("this machine announces nothing", "reason", e.Reason, "stands-for", e.Count)
	default:
		n.log.Info("discovery", "what", e.Kind.String(), "from", e.From.String(), "stands-for", e.Count)
	}
}

// clonedDetail says of a key that two machines hold where the other one speaks, and what the exchange knows of it.
func clonedDetail(e discovery.Event) string {
	return "the key of " + control.Word(e.ID) + " is proven from two places, the last time from " + e.From.String() + ": " + control.Sentence(e.Reason)
}

// summary is what this node says of its fleet. While it is pending the leader slots point at the fleet that was asked.
func (n *Node) summary() wire.Summary {
	own, v := n.form.Own(), n.view.Load()
	s := wire.Summary{Cluster: own.Cluster, State: own.State(), Created: own.Created, Node: n.id, OwnEndpoint: n.endpoint(n.fcPort)}
	if n.body != nil && n.body.cons != nil {
		s.RaftEndpoint = n.endpoint(n.body.raftPort)
	}
	if own.Target != nil && s.State == wire.StatePending {
		s.Pointer = wire.Leader{ID: own.Target.LeaderID, Endpoint: own.Target.Endpoint}
		if len(own.Target.Keys) > 0 {
			s.Pointer.Key, s.Pointer.HasKey = own.Target.Keys[0], true
		}
	} else if lead := n.leader(); lead.id != "" {
		s.Leader = wire.Leader{ID: lead.id, Endpoint: lead.endpoint}
		if !lead.key.IsZero() {
			s.Leader.Key, s.Leader.HasKey = lead.key, true
		}
	}
	if v != nil && v.Cluster() == own.Cluster {
		s.Members, s.Total = n.listed(v)
	}
	if s.Total == 0 {
		s.Members, s.Total = []string{n.id}, 1
	}
	return s
}

// listed is who a summary names: members lately seen speaking for another fleet, then voters, then learners, by id.
func (n *Node) listed(v *fleet.View) (ids []string, total uint64) {
	seen := map[string]bool{}
	add := func(id string) {
		if len(ids) < maxListed && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	for _, sp := range n.exchange.ForeignSpeakers(time.Now()) {
		if m, ok := v.Member(sp.Node); ok && m.Key == sp.Key {
			add(m.ID)
		}
	}
	for _, m := range v.Voters() {
		add(m.ID)
	}
	for m := range v.Members() {
		if len(ids) == maxListed {
			break
		}
		add(m.ID)
	}
	return ids, uint64(v.Len())
}

// roster answers discovery's question from the applied state.
func (n *Node) roster(id string, key identity.PublicKey) discovery.RosterVerdict {
	v := n.view.Load()
	if v == nil {
		return discovery.RosterUnknown
	}
	if _, revoked := v.Revoked(key); revoked {
		return discovery.RosterRevoked
	}
	m, ok := v.Member(id)
	if b := n.serving.Load(); !ok && b != nil && b.learner != nil {
		// Before its first snapshot a learner knows the voters that its approval named.
		for _, seed := range b.learner.Voters() {
			if seed.ID == id {
				m, ok = seed, true
			}
		}
	}
	switch {
	case !ok:
		return discovery.RosterUnknown
	case m.Key == key:
		return discovery.RosterHolds
	}
	return discovery.RosterOtherKey
}

// refreshSelf tells discovery what this node says of itself now, where it has changed.
func (n *Node) refreshSelf(now time.Time) {
	// Each machine that is provisioned is another state for every other, of which nothing is said on the segment.
	if s, old := n.summary(), n.self.Load(); old == nil || !sameSummary(*old, s) {
		n.self.Store(&s)
		n.exchange.SetSelf(now, discovery.Self{Summary: s})
	}
	var kept []string
	if own := n.form.Own(); own.Target != nil {
		kept = append(kept, own.Target.Cluster)
	}
	if n.pin != nil {
		kept = append(kept, n.pin.Cluster)
	}
	n.exchange.SetRetained(kept)
}

func sameSummary(a, b wire.Summary) bool {
	return a.Cluster == b.Cluster && a.State == b.State && a.Created == b.Created && a.Leader == b.Leader && a.Pointer == b.Pointer && a.Node == b.Node &&
		a.RaftEndpoint == b.RaftEndpoint && slices.Equal(a.Members, b.Members) && a.Total == b.Total && a.OwnEndpoint == b.OwnEndpoint
}

// readdress follows the machine's addresses: interfaces are listed again, off the loop, and what is advertised moves with
// the route.
func (n *Node) readdress(now time.Time) {
	n.relisted, n.relistAt = now, time.Time{}
	n.effect(func(context.Context) {
		changed := n.port != nil && n.port.Relist()
		addr, ok := n.cfg.Network.Address(n.port)
		if !ok {
			addr = netip.Addr{}
		}
		n.post(func(now time.Time) {
			if changed {
				n.sayInterfaces()
			}
			if n.cfg.Settings.Advertise == "" {
				n.moveTo(now, addr)
			}
		})
	})
}

// linksChanged has the interfaces listed again soon; many changes come at once.
func (n *Node) linksChanged(now time.Time) {
	if n.relistAt.IsZero() {
		n.relistAt = later(now.Add(linkSettle), n.relisted.Add(linkPause))
	}
}

// moveTo advertises another address from now on.
func (n *Node) moveTo(now time.Time, addr netip.Addr) {
	if addr == n.address {
		return
	}
	if n.address.IsValid() || !addr.IsValid() {
		n.log.Info("this machine's address moved", "from", n.address.String(), "to", addr.String())
	}
	n.address = addr
	n.addressText.Store(&addr)
	n.refreshSelf(now)
	n.announce(now)
}

// ownAddress reports whether a is an address of this machine alone.
func (n *Node) ownAddress(a netip.Addr) bool {
	if n.cfg.Settings.DiscoveryLoopback && a.IsLoopback() {
		return false // several nodes share it
	}
	for _, c := range n.choices {
		if c.Addr.Addr() == a {
			return true
		}
	}
	return false
}

// broadcast reports whether a is a broadcast address of a network of this machine: no answer is ever sent to one.
func (n *Node) broadcast(a netip.Addr) bool {
	if n.port == nil {
		return false
	}
	for _, c := range n.choices {
		if c.Broadcast == a {
			return true
		}
	}
	return false
}

// interfacesSaid bounds the interfaces that have a line of their own at the start: a host of containers has hundreds.
const interfacesSaid = 32

// sayInterfaces says at the start which interfaces discovery beacons on, and why each other one was passed over; later only
// which one is used that was not. What else changes is one line of netio's, once a minute.
func (n *Node) sayInterfaces() {
	if n.port == nil {
		n.board.Set(n.discoveryOff != "", "discovery-no-interface", "discovery is off until the next start: "+n.discoveryOff)
		return
	}
	before := n.choices
	n.choices = n.port.Interfaces()
	used, said := 0, 0
	for _, c := range n.choices {
		if c.Used {
			used++
			if !slices.ContainsFunc(before, func(o netio.InterfaceChoice) bool { return o.Used && o.Name == c.Name && o.Addr == c.Addr }) {
				n.log.Info("interface used for discovery", "interface", c.Name, "address", c.Addr.String(), "broadcast", c.Broadcast.String())
			}
			continue
		}
		if said++; len(before) > 0 || said > interfacesSaid {
			continue
		}
		address := "none"
		if c.Addr.IsValid() {
			address = c.Addr.String()
		}
		n.log.Info("interface passed over", "interface", c.Name, "address", address, "why", c.Why)
	}
	if len(before) == 0 && said > interfacesSaid {
		n.log.Info("more interfaces passed over", "more", said-interfacesSaid)
	}
	n.board.Set(used == 0, "discovery-no-interface", "no interface can carry a beacon, which needs IPv4 and broadcast: "+passedOver(n.choices))
}

// passedOver is why no interface is used, reason by reason, with some of the names each.
func passedOver(choices []netio.InterfaceChoice) string {
	const named = 4
	var reasons []string
	names := map[string][]string{}
	for _, c := range choices {
		if c.Used {
			continue
		}
		if names[c.Why] == nil {
			reasons = append(reasons, c.Why)
		}
		if !slices.Contains(names[c.Why], c.Name) { // two addresses are often passed over for one reason
			names[c.Why] = append(names[c.Why], c.Name)
		}
	}
	for i, why := range reasons {
		list, more := names[why], ""
		if len(list) > named {
			list, more = list[:named], fmt.Sprintf(" and %d more", len(list)-named)
		}
		reasons[i] = strings.Join(list, ", ") + more + ": " + why
	}
	return strings.Join(reasons, "; ")
}
