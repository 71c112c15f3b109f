//go:build formatnext

package fleet

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"pace-node/internal/wire"
)

// TestNextFormat: what came with the next format is written once every member reads it, and not before; until then
// snapshots too are written so that the oldest member takes them over.
func TestNextFormat(t *testing.T) {
	s := New()
	m := Member{ID: "n-a", Key: pub(0), Role: RoleVoter, Format: 2, Endpoints: wire.Endpoints{FC: "10.0.0.1:6674"}, Admitted: 1, AdmittedBy: by}
	must(t, s, Found("c-office", 1_790_000_000, m))
	older := admit(1)
	older.Format = 1
	must(t, s, older)
	next := Set(SettingNext, "true", by, 1)
	if _, err := next.EncodeFor(s.View().WriteFormat()); !errors.Is(err, ErrFormatHeldBack) || !strings.Contains(err.Error(), SettingNext) {
		t.Fatalf("a member reads format 1: %v", err)
	}
	if s.View().HolderBack() != "n-0001" {
		t.Fatalf("held back by %q", s.View().HolderBack())
	}
	headOf := func() uint32 { return binary.BigEndian.Uint32(s.Snapshot()[len(snapshotMagic):]) }
	if headOf() != 1 {
		t.Fatalf("a snapshot of format %d, which the member of format 1 does not read", headOf())
	}
	must(t, s, Announce("n-0001", wire.Announce{Name: "birch", Format: 2}))
	b, err := next.EncodeFor(s.View().WriteFormat())
	if err != nil || !strings.Contains(string(b), `"v":2`) {
		t.Fatalf("%s %v", b, err)
	}
	if _, err := s.Apply(b); err != nil || !s.View().Switch(SettingNext) || s.View().FormatInUse() != 2 || headOf() != 2 {
		t.Fatalf("%v, in use %d, snapshot of %d", err, s.View().FormatInUse(), headOf())
	}
	if _, err := Restore(s.Snapshot()); err != nil {
		t.Fatal(err)
	}
}
