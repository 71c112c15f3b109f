package node

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// leaseLab is a fleet of one whose leader signs leases for itself.
type leaseLab struct {
	t    *testing.T
	key  identity.PrivateKey
	view *fleet.View
}

const leaseFleet = "c0ffee00000000000000000000000001"

func newLeaseLab(t *testing.T) *leaseLab {
	t.Helper()
	key := identity.NewPrivateKey([32]byte{1})
	state := fleet.New()
	b, err := fleet.Found(leaseFleet, 1_800_000_000, fleet.Member{ID: "a", Key: key.Public(), Role: fleet.RoleVoter, Format: fleet.Format}).EncodeFor(fleet.Format)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := state.Apply(b); err != nil {
		t.Fatal(err)
	}
	return &leaseLab{t: t, key: key, view: state.View()}
}

// input is a lease of the serial that was signed at a time of the leader's clock, and is judged at another.
func (l *leaseLab) input(serial byte, signed, judged time.Time) fleet.LeaseInput {
	return l.inputIn(1, serial, signed, judged)
}

// inputIn is that of a leader of another term, of which no heartbeat told.
func (l *leaseLab) inputIn(term uint64, serial byte, signed, judged time.Time) fleet.LeaseInput {
	claims := wire.LeaseClaims{Version: wire.LeaseVersion, Serial: [16]byte{serial}, Target: "a", Step: "restart", Digest: sha256.Sum256(nil),
		Expiry: uint64(max(signed.Add(fleet.LeaseLife).Unix(), 0)), Cluster: leaseFleet, Term: term, Signer: "a"}
	return fleet.LeaseInput{Raw: fleet.SignLease(l.key, claims), View: l.view, Self: "a", Step: "restart", BodyDigest: sha256.Sum256(nil), LeaderNow: judged, HighestTerm: 1}
}

func (l *leaseLab) spends(b *leaseBook, in fleet.LeaseInput, want fleet.LeaseVerdict, what string) {
	l.t.Helper()
	before := b.counts()[want.String()]
	got, err := b.spend(in)
	if err != nil || got != want {
		l.t.Errorf("%s: %s, %v; want %s", what, got, err, want)
	}
	if after := b.counts()[want.String()]; want != fleet.LeaseOK && after != before+1 {
		l.t.Errorf("%s: %s is counted %d times", what, want, after-before)
	}
}

func quietPoint(string) {}

// TestSpentLeasesThatDoNotRead: the file of spent leases cut short at each byte, with each byte changed, or of a later format
// refuses the start by name with a remedy, and is left as it is.
func TestSpentLeasesThatDoNotRead(t *testing.T) {
	dir, lab, now := t.TempDir(), newLeaseLab(t), time.Unix(1_800_000_000, 0)
	path := filepath.Join(dir, leasesFile)
	book, err := openLeases(dir, leaseFleet, quietPoint)
	if err != nil {
		t.Fatal(err)
	}
	lab.spends(book, lab.input(1, now, now), fleet.LeaseOK, "a first lease")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again, err := openLeases(dir, leaseFleet, quietPoint)
	if err != nil || !maps.Equal(again.Serials, book.Serials) {
		t.Fatalf("read again: %v, %v", again, err)
	}
	lab.spends(again, lab.input(1, now, now), fleet.LeaseReplayed, "the same lease after a start")

	refuses := func(what string, b []byte, kind error) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := openLeases(dir, leaseFleet, quietPoint)
		if !errors.Is(err, kind) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "; ") {
			t.Errorf("%s: %v", what, err)
		}
		if left, _ := os.ReadFile(path); !bytes.Equal(left, b) {
			t.Errorf("%s: the file was changed", what)
		}
	}
	for i := range whole {
		refuses("cut short", whole[:i], statedir.ErrDamaged)
		for bit := range 8 {
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1 << bit
			kind := statedir.ErrDamaged
			if d := bytes.IndexByte(whole, ' ') + 1; i == d && flipped[i] > '1' && flipped[i] <= '9' {
				kind = statedir.ErrNewerFormat // which is refused just the same
			}
			refuses("flipped", flipped, kind)
		}
	}
	refuses("longer", append(bytes.Clone(whole), '\n'), statedir.ErrDamaged)
	refuses("of a later format", bytes.Replace(whole, []byte(leasesMagic+" 1 "), []byte(leasesMagic+" 2 "), 1), statedir.ErrNewerFormat)
}

// TestLeasesAcrossClockJumps: a serial is spent once, whatever the leader's clock does in between, and is forgotten in the end.
func TestLeasesAcrossClockJumps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, lab := t.TempDir(), newLeaseLab(t)
		book, err := openLeases(dir, leaseFleet, quietPoint)
		if err != nil {
			t.Fatal(err)
		}
		serial := byte(0)
		for _, base := range []time.Time{time.Unix(1_800_000_000, 0), time.Unix(20, 0), time.Unix(1<<33, 0)} {
			for _, jump := range []time.Duration{0, 3 * time.Hour, -3 * time.Hour, 30 * 24 * time.Hour, math.MaxInt64} {
				serial++
				first := lab.input(serial, base, base)
				lab.spends(book, first, fleet.LeaseOK, "a lease")
				serial++ // the clock jumps, and other leases are spent under it
				there := base.Add(jump)
				if there.Unix() < 0 {
					there = time.Unix(0, 0)
				}
				lab.spends(book, lab.input(serial, there, there), fleet.LeaseOK, "a lease after the clock jumped")
				// And back again, within the life of the first.
				time.Sleep(fleet.LeaseLife - time.Second)
				first.LeaderNow = base.Add(fleet.LeaseLife - time.Second)
				lab.spends(book, first, fleet.LeaseReplayed, "the first lease again, when the clock is right again")
				if book, err = openLeases(dir, leaseFleet, quietPoint); err != nil {
					t.Fatal(err)
				}
				lab.spends(book, first, fleet.LeaseReplayed, "the first lease again, after a start")
				first.LeaderNow = base.Add(fleet.LeaseLife + fleet.LeaseSlack + time.Second)
				lab.spends(book, first, fleet.LeaseExpired, "the first lease once it has expired")
			}
		}
		if len(book.Serials) != int(serial) {
			t.Errorf("%d serials are kept of %d", len(book.Serials), serial)
		}
		// Once they have expired by the clock and by elapsed time, they go.
		time.Sleep(fleet.LeaseKept + time.Second)
		far := time.Unix(1<<40, 0)
		lab.spends(book, lab.input(255, far, far), fleet.LeaseOK, "a last one")
		if len(book.Serials) != 1 || len(book.since) != 1 {
			t.Errorf("%d serials are kept", len(book.Serials))
		}
	})
}

// TestLeaseEndsWithItsTerm: once a step of a later leader was begun, one of an earlier is refused, though no heartbeat has told of
// the later one; for as long as a lease can be good, and in that fleet only. A lease that could not be spent is not obeyed.
func TestLeaseEndsWithItsTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, lab, now := t.TempDir(), newLeaseLab(t), time.Unix(1_800_000_000, 0)
		book, err := openLeases(dir, leaseFleet, quietPoint)
		if err != nil {
			t.Fatal(err)
		}
		lab.spends(book, lab.inputIn(4, 1, now, now), fleet.LeaseOK, "of term 4")
		lab.spends(book, lab.inputIn(5, 2, now, now), fleet.LeaseOK, "of term 5")
		lab.spends(book, lab.inputIn(4, 3, now, now), fleet.LeaseOldTerm, "of term 4 after one of term 5")
		lab.spends(book, lab.inputIn(5, 4, now, now), fleet.LeaseOK, "of term 5 again")

		book.dir = filepath.Join(dir, "gone")
		if _, err := book.spend(lab.inputIn(9, 5, now, now)); err == nil {
			t.Error("it is spent where nothing can be written")
		}
		book.dir = dir
		lab.spends(book, lab.inputIn(6, 6, now, now), fleet.LeaseOK, "of term 6 after one of term 9 that was not spent")

		time.Sleep(fleet.LeaseKept + time.Second) // whoever's key said term 6 says no more
		later := now.Add(fleet.LeaseKept)
		lab.spends(book, lab.inputIn(3, 7, later, later), fleet.LeaseOK, "of term 3, when no lease from before can be good")
		book.reset("c0ffee00000000000000000000000002")
		book.reset(leaseFleet)
		lab.spends(book, lab.inputIn(2, 8, later, later), fleet.LeaseOK, "of term 2, after a change of fleets and back")
	})
}
