package node

import (
	"context"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/discovery"
	"pace-node/internal/formation"
)

// seen is what the node has seen of its network, for who asks what is wrong.
func (n *Node) seen(ctx context.Context) (control.NodeFacts, error) {
	out := control.NodeFacts{V: control.DocumentVersion, Heard: []control.HeardFrom{}, Foreign: []control.ForeignFleet{}, Sessions: []control.SessionFacts{}}
	for _, s := range n.hub.Sessions() {
		h, offset, ok := s.Hello()
		if !ok {
			continue
		}
		f := control.SessionFacts{ID: h.ID, Address: s.RemoteAddr().Addr().Unmap().String(), Inbound: s.Inbound(), ClockAheadMS: offset.Milliseconds()}
		if !s.Inbound() {
			f.Seen = h.Seen
		}
		out.Sessions = append(out.Sessions, f)
	}
	err := n.ask(ctx, func(now time.Time) {
		if n.port == nil {
			return
		}
		x := n.exchange
		out.BeaconsSent, out.BeaconsHeard = x.Count(discovery.CountBeaconsSent), x.Count(discovery.CountBeaconsHeard)
		out.ChallengesSent, out.ProofsSent, out.ProofsVerified = x.Count(discovery.CountChallengesSent), x.Count(discovery.CountProofsSent), x.Count(discovery.CountProofsVerified)
		out.OtherVersions = x.Count(discovery.CountDatagramsRefusedVersion)
		out.AtListener, out.AtAnswering = n.arrived[discovery.SocketListener], n.arrived[discovery.SocketAnswering]
		for _, h := range x.Heard(now) {
			out.Heard = append(out.Heard, control.HeardFrom{Address: h.From.String(), HeardMS: now.Sub(h.LastBeacon).Milliseconds(), Proven: h.Proven})
		}
		for _, f := range x.Foreign(now) {
			out.Foreign = append(out.Foreign, control.ForeignFleet{Cluster: f.Summary.Cluster, State: f.Summary.State.String(), Address: f.From.Addr().String(), Admitted: n.pin.Admits(f.Summary.Cluster, f.Key)})
		}
		out.PinRefusals = n.form.Count(formation.CountPinRefusals)
	})
	return out, err
}
