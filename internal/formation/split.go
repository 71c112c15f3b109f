package formation

import (
	"slices"
	"time"

	"pace-node/internal/identity"
)

// meet takes the proven word of another established fleet, and what of it shows a split. Of a fleet's speakers only some
// show one: what they showed stands for a while when another speaks.
func (m *Machine) meet(now time.Time, f Fleet) {
	if f.Evidence == NoSplit && m.onceAsked(f.Cluster) {
		f.Evidence = SplitByHand
	}
	at, witness, key := now, f.Speaker, f.SpeakerKey
	if old := m.foreign[f.Cluster]; old != nil && now.Sub(old.EvidenceAt) < ForeignClearAfter && weight(old.Evidence) > weight(f.Evidence) {
		f.Evidence, at, witness, key = old.Evidence, old.EvidenceAt, old.Witness, old.WitnessKey
	}
	why := WhyNeitherYields
	switch {
	case f.Evidence == SplitByHand:
		why = WhySplitByHand
	case f.Evidence == SplitHealsByItself && m.classify(f) == TieBreakYield:
		why = WhySplitYields
	case f.Evidence == SplitHealsByItself:
		why = WhySplitStays
	}
	m.raise(now, f, why, identity.PublicKey{})
	if v := m.foreign[f.Cluster]; v != nil {
		v.EvidenceAt, v.Witness, v.WitnessKey = at, witness, key
	}
}

func weight(e Evidence) int {
	return slices.Index([]Evidence{NoSplit, SplitByHand, SplitHealsByItself}, e)
}

// onceAsked reports whether this machine remembers that it asked a fleet.
func (m *Machine) onceAsked(cluster string) bool {
	_, rejected := m.rejections[cluster]
	_, gaveUp := m.abandoned[cluster]
	return rejected || gaveUp || m.revoked[cluster]
}

// Split returns the fleet that the own one is to dissolve into: a voter's key was proven there a moment ago, the tie-break
// decided against the own fleet, who leads there is known, and the pin admits an order of this machine's. Of several it is
// the one that would be asked first.
func (m *Machine) Split(now time.Time) (VisibleFleet, bool) {
	var best *VisibleFleet
	for _, f := range m.foreign {
		switch {
		case f.Why != WhySplitYields || now.Sub(f.EvidenceAt) >= ProofFresh || m.classify(f.Fleet) != TieBreakYield:
		case f.Leader.ID == "" || f.Leader.Endpoint == "" || !f.Leader.HasKey || !m.ObeysDissolve(f.Cluster, m.own.Key):
		case best == nil || rank(f.Fleet, best.Fleet) < 0:
			best = f
		}
	}
	if best == nil {
		return VisibleFleet{}, false
	}
	return *best, true
}

// dissolved reports whether a fleet is the one that an order dissolved: whoever is still there was not told, and is told by
// this machine. A person may send it back by a typed seed.
func (m *Machine) dissolved(s *sighting) bool {
	return s.Cluster == m.own.OldCluster && s.Cluster != "" && s.Origin != OriginSeed
}

// split reports whether a fleet is shown for a sign of a split.
func (w Why) split() bool { return w == WhySplitYields || w == WhySplitStays || w == WhySplitByHand }

// forgetSplits drops what concerned the fleet that was left.
func (m *Machine) forgetSplits(now time.Time) {
	for _, f := range m.Foreign(now) {
		if f.Why.split() {
			m.dropForeign(f.Cluster)
		}
	}
}
