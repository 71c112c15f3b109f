package node

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"pace-node/internal/enroll"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// origins are the words of statedir.Target.Origin.
var origins = []formation.Origin{formation.OriginSeed, formation.OriginRemembered, formation.OriginSRV, formation.OriginBeacon}

// ownOf is what the record says, in formation's words.
func ownOf(rec statedir.Record, key identity.PublicKey) (formation.Own, error) {
	mode, ok := formation.ParseMode(rec.Mode)
	if !ok {
		return formation.Own{}, fmt.Errorf("the formation record has the mode %q, which this version does not know", rec.Mode)
	}
	own := formation.Own{Mode: mode, Cluster: rec.Cluster, Created: rec.Created, Established: rec.Established, NodeID: rec.NodeID, Key: key, OldCluster: rec.OldCluster}
	if rec.Joined != nil {
		by, err := identity.ParsePublicKey(rec.Joined.Signer)
		if err != nil {
			return own, fmt.Errorf("the formation record names a signer that is no key: %w", err)
		}
		own.AdmittedBy = by
	}
	if rec.Target != nil {
		t, err := targetOf(*rec.Target)
		if err != nil {
			return own, err
		}
		own.Target = &t
	}
	return own, nil
}

func targetOf(t statedir.Target) (formation.Target, error) {
	out := formation.Target{Cluster: t.Cluster, Created: t.Created, State: wire.SummaryState(t.State), LeaderID: t.LeaderID, Endpoint: t.Endpoint, Fallback: t.Fallback, Origin: formation.OriginBeacon}
	for _, o := range origins {
		if o.String() == t.Origin {
			out.Origin = o
		}
	}
	for _, text := range t.Keys {
		key, err := identity.ParsePublicKey(text)
		if err != nil {
			return out, fmt.Errorf("the formation record names a target's key that is none: %w", err)
		}
		out.Keys = append(out.Keys, key)
	}
	return out, nil
}

func targetRecord(t *formation.Target) *statedir.Target {
	if t == nil {
		return nil
	}
	out := &statedir.Target{Cluster: t.Cluster, Created: t.Created, State: uint8(t.State), LeaderID: t.LeaderID, Endpoint: t.Endpoint, Fallback: t.Fallback, Origin: t.Origin.String()}
	for _, k := range t.Keys {
		out.Keys = append(out.Keys, k.String())
	}
	return out
}

func sameTarget(a, b *statedir.Target) bool {
	return a != nil && b != nil && a.Cluster == b.Cluster && a.Created == b.Created && a.State == b.State && a.LeaderID == b.LeaderID &&
		a.Endpoint == b.Endpoint && a.Fallback == b.Fallback && a.Origin == b.Origin && slices.Equal(a.Keys, b.Keys)
}

// recordAfter is the record as a move leaves it. It is written before anything else of the move is done.
func (n *Node) recordAfter(now time.Time, a formation.Action) (statedir.Record, error) {
	rec := n.rec
	rec.Mode = a.Transition.To.String()
	rec.Target = nil
	rec.Leaving = rec.Leaving && (a.Transition.To == formation.Learner || a.Transition.To == formation.Voter) && a.Transition.Effect == formation.EffectAdoptSeat
	if a.Transition.To == formation.Pending {
		rec.Target = targetRecord(a.Target)
	}
	rec.Rejections = n.rejections(now)
	// Among these is the fleet that has just forgotten this machine: asked again it could only say so.
	for _, c := range n.form.Revoked() {
		if !slices.Contains(rec.RevokedIn, c) {
			rec.RevokedIn = append(slices.Clone(rec.RevokedIn), c)
		}
	}
	switch a.Transition.Effect {
	case formation.EffectNone, formation.EffectRecordTarget, formation.EffectClearTarget, formation.EffectRememberRejection:
		if a.Transition.To == formation.Voter {
			rec.Established = true
		}
	case formation.EffectDissolve:
		if n.rec.Target == nil {
			return rec, fmt.Errorf("an approval came and no fleet was asked")
		}
		roster, err := enroll.CheckRoster(a.Roster, n.rec.Target.Cluster, n.id, n.key.Public())
		if err != nil {
			return rec, err
		}
		rec.Cluster, rec.Created, rec.Established = roster.Cluster, roster.Created, true
		if rec.OldCluster == rec.Cluster { // an operator sent it back: the order is not obeyed any more
			rec.Order, rec.OldCluster = nil, ""
		}
		rec.Joined = &statedir.Joined{Signer: n.admittedBy.String(), Roster: json.RawMessage(a.Roster), At: now.Unix()}
		rec.Remembered = n.rememberedIn(roster)
	case formation.EffectArchiveEpoch:
		rec = n.recoveryRecord(rec, a.Transition.From)
	case formation.EffectArchive:
		roster, err := enroll.CheckRoster(a.Roster, n.rec.Cluster, n.id, n.key.Public())
		if err != nil {
			return rec, err
		}
		rec.PutAway, rec.Established = true, true
		rec.Joined = &statedir.Joined{Signer: a.From.String(), Roster: json.RawMessage(a.Roster), At: now.Unix()}
		rec.Remembered = n.rememberedIn(roster)
	case formation.EffectAdoptSeat:
		rec.Established = true
		if a.Transition.To == formation.Learner {
			if n.body == nil || n.body.roster == nil {
				return rec, fmt.Errorf("this voter becomes a learner and knows no roster to follow by")
			}
			roster, err := json.Marshal(n.body.roster)
			if err != nil {
				return rec, err
			}
			signer := n.key.Public().String() // a founder admitted itself
			if rec.Joined != nil {
				signer = rec.Joined.Signer
			}
			rec.Joined = &statedir.Joined{Signer: signer, Roster: roster, At: now.Unix()}
		}
	case formation.EffectMintNew, formation.EffectMintAndAsk:
		if a.Transition.Effect == formation.EffectMintAndAsk {
			if err := n.keepOrder(&rec); err != nil {
				return rec, err
			}
		}
		var random [16]byte
		n.cfg.Entropy(random[:])
		rec.Cluster, rec.Created = identity.NewID(random), statedir.FoundingTime(now)
		rec.Established, rec.Joined, rec.Remembered = false, nil, nil
		if a.Transition.Effect == formation.EffectMintAndAsk { // nobody said no: it is on its way, and may need to find it again
			asked := []string{a.Target.Endpoint}
			rec.Remembered = rememberedOf(append(asked, n.rec.Remembered...), make([]string, 1+len(n.rec.Remembered)))
		}
		rec.Recovery, rec.PutAway = nil, false
	default:
		return rec, fmt.Errorf("a move from %s on %s is not made by this version", a.Transition.From, a.Transition.On)
	}
	return rec, nil
}

// rememberedIn are the endpoints to remember of a roster's voters.
func (n *Node) rememberedIn(roster wire.Roster) []string {
	var keys []identity.PublicKey
	var said []string
	for _, v := range roster.Voters {
		if key, err := identity.ParsePublicKey(v.Key); err == nil {
			keys, said = append(keys, key), append(said, v.Endpoints.FC)
		}
	}
	return rememberedOf(n.voterDials.keep(keys), said)
}

func (n *Node) rejections(now time.Time) []statedir.Rejection {
	var out []statedir.Rejection
	for _, r := range n.form.Rejections(now) {
		out = append(out, statedir.Rejection{Cluster: r.Cluster, At: now.Unix(), LeftSeconds: int64(r.Left / time.Second)})
	}
	return out
}
