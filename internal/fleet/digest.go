package fleet

import (
	"crypto/sha256"
	"maps"
	"slices"

	"pace-node/internal/wire"
)

// sharedHash is the hash of what every member holds of one: all but its provisioning.
func sharedHash(m *Member) [32]byte {
	b := make([]byte, 0, 512)
	b = wire.AppendText(b, m.ID)
	b = wire.AppendField(b, m.Key[:])
	b = wire.AppendText(b, m.Name)
	b = wire.AppendU32(b, uint32(len(m.Labels)))
	for _, key := range slices.Sorted(maps.Keys(m.Labels)) {
		b = wire.AppendText(b, key)
		b = wire.AppendText(b, m.Labels[key])
	}
	b = wire.AppendText(b, string(m.Role))
	b = wire.AppendText(b, m.Platform)
	b = wire.AppendText(b, m.Version)
	b = wire.AppendU64(b, uint64(m.Format))
	b = wire.AppendText(b, m.Endpoints.FC)
	b = wire.AppendText(b, m.Endpoints.Raft)
	b = wire.AppendU64(b, uint64(m.Admitted))
	b = wire.AppendText(b, m.AdmittedBy)
	b = wire.AppendU8(b, flags(m.Auto, m.Arrived, m.OwnWish))
	return sha256.Sum256(b)
}

func flags(bits ...bool) (b uint8) {
	for i, on := range bits {
		if on {
			b |= 1 << i
		}
	}
	return b
}

// Digest returns the SHA-256 of the shared part: cluster, epoch, roster, revocations and settings. It is the same on a
// leader and on each learner at one revision. The members' hashes are kept with them, so that it costs one hash over 32
// bytes a member; a caller that asks often keeps it beside the view.
func (v *View) Digest() (d [32]byte) {
	h := sha256.New()
	b := make([]byte, 0, 4096)
	b = wire.AppendText(b, v.cluster)
	b = wire.AppendU64(b, v.epoch)
	b = wire.AppendU32(b, uint32(len(v.members)))
	flush := func(limit int) {
		if len(b) >= limit {
			h.Write(b)
			b = b[:0]
		}
	}
	const batch = 2048
	for _, r := range v.members {
		b = append(b, r.shared[:]...)
		flush(batch)
	}
	b = wire.AppendU32(b, uint32(len(v.revoked)))
	for i := range v.revoked {
		b = append(b, v.revoked[i].Key[:]...)
		b = wire.AppendU64(b, v.revoked[i].Revision)
		flush(batch)
	}
	b = wire.AppendU32(b, uint32(len(v.settings)))
	for i := range v.settings {
		b = wire.AppendText(b, v.settings[i].Name)
		b = wire.AppendText(b, v.settings[i].Value)
		flush(batch)
	}
	flush(0)
	h.Sum(d[:0])
	return d
}
