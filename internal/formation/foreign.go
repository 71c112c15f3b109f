package formation

import (
	"slices"
	"strings"
	"time"

	"pace-node/internal/identity"
)

// VisibleFleet is a fleet that is reported as visible.
type VisibleFleet struct {
	Fleet
	Why       Why
	PinKey    identity.PublicKey
	LastProof time.Time
	// EvidenceAt is when the sign of a split that Fleet holds was last proven.
	EvidenceAt time.Time
	// Witness is the speaker who showed it, under WitnessKey.
	Witness    string
	WitnessKey identity.PublicKey
}

// raise reports a fleet; the action comes once, and again when what is said of it changes.
func (m *Machine) raise(now time.Time, f Fleet, why Why, pinKey identity.PublicKey) {
	old, ok := m.foreign[f.Cluster]
	if !ok && len(m.foreign) >= MaxForeign {
		m.count(CountFleetsOverBound)
		if (m.pin == nil || m.pin.Cluster != f.Cluster) && !(why == WhySplitYields || why == WhySplitStays) {
			return
		}
		// Whoever claims the pinned fleet, or holds a voter's key, is shown, however many others there are: the stalest of
		// them gives way.
		first := slices.MinFunc(m.Foreign(now), func(a, b VisibleFleet) int { return a.LastProof.Compare(b.LastProof) })
		m.dropForeign(first.Cluster)
	}
	m.foreign[f.Cluster] = &VisibleFleet{Fleet: f, Why: why, PinKey: pinKey, LastProof: now}
	if !ok || old.Why != why || old.PinKey != pinKey {
		m.act(Action{Kind: ActForeignVisible, Fleet: f, Why: why, PinKey: pinKey})
	}
}

func (m *Machine) dropForeign(cluster string) {
	f := m.foreign[cluster].Fleet
	delete(m.foreign, cluster)
	m.act(Action{Kind: ActForeignClear, Fleet: f})
}

func (m *Machine) clearForeign(now time.Time) {
	for _, f := range m.Foreign(now) {
		if now.Sub(f.LastProof) >= ForeignClearAfter {
			m.dropForeign(f.Cluster)
		}
	}
}

// Foreign returns the fleets that are reported as visible, by cluster id.
func (m *Machine) Foreign(time.Time) []VisibleFleet {
	out := make([]VisibleFleet, 0, len(m.foreign))
	for _, f := range m.foreign {
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b VisibleFleet) int { return strings.Compare(a.Cluster, b.Cluster) })
	return out
}

// ForeignClear reports whether it may be said that no foreign fleet is visible: none is, and a beacon period has passed.
func (m *Machine) ForeignClear(now time.Time) bool {
	return len(m.foreign) == 0 && now.Sub(m.started) >= ForeignQuiet
}
