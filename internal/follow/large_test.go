package follow

import (
	"errors"
	"strings"
	"testing"

	"pace-node/internal/fleet"
	"pace-node/internal/wire"
)

// TestSnapshotBeyondItsBoundIsNotSent: the page bounds a snapshot to 64 MiB in all. The sender says so, and sends none of it.
func TestSnapshotBeyondItsBoundIsNotSent(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		ok   bool
	}{{"at its bound", 64 << 20, true}, {"a byte beyond it", 64<<20 + 1, false}} {
		t.Run(c.name, func(t *testing.T) {
			state := fleet.New()
			for _, command := range []fleet.Command{fleet.Found(testCluster, 1790000000, founder()), admit(1)} {
				if _, err := state.Apply(command.Encode()); err != nil {
					t.Fatal(err)
				}
			}
			v := newVoter(t, voterID(0), state)
			v.src.cfg.SnapshotFor = func(string) (uint64, []byte) { return v.view().Revision(), make([]byte, c.size) }
			v.src.cfg.Since = func(uint64, uint64) ([]Entry, bool) { return nil, false }
			f, err := v.src.Begin(self, wire.FollowRequest{})
			if err != nil {
				t.Fatal(err)
			}
			chunks, stop := 0, errors.New("enough")
			err = f.Run(t.Context(), func(parts ...[]byte) error {
				for _, p := range parts {
					if kind, _ := wire.ReadPushKind(p); kind == wire.PushSnapshot {
						chunks++
					}
				}
				if chunks > 0 {
					return stop
				}
				return nil
			})
			var e *wire.Error
			if c.ok && !errors.Is(err, stop) || !c.ok && (!errors.As(err, &e) || e.Code != wire.CodeTooLarge || e.Hint == "" || !strings.Contains(e.Text, "67108865") || chunks > 0) {
				t.Errorf("%v, after %d chunks", err, chunks)
			}
		})
	}
}
