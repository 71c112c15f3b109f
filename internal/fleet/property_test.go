package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

const secret = "the-queue-knows" // in provisioning texts only; no other learner may see it

// commands draws a command's bytes: mostly sound, sometimes refused by rule, malformed, or of a later format.
func drawCommand(t *rapid.T) []byte {
	n := rapid.IntRange(0, 6).Draw(t, "machine")
	id := fmt.Sprintf("n-%04d", n)
	if n == 0 {
		id = "n-a"
	}
	k := pub(rapid.IntRange(0, 8).Draw(t, "key"))
	text := rapid.SampledFrom([]string{"", "x", "Büro", "a\x00b", strings.Repeat("y", 300)}).Draw(t, "text")
	e := wire.Endpoints{FC: rapid.SampledFrom([]string{"", "a:1", "b:2", "bad"}).Draw(t, "fc"), Raft: rapid.SampledFrom([]string{"", "a:3", "b:4"}).Draw(t, "raft")}
	at := rapid.Int64Range(0, 1<<40).Draw(t, "at")
	flag := rapid.Bool().Draw(t, "flag")
	var c Command
	switch rapid.SampledFrom(append([]Kind{"broken", "later", KindAdmitLearner, KindAdmitLearner, KindAnnounce, KindProvision}, kindNames()...)).Draw(t, "kind") {
	case "broken":
		return rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes")
	case "later":
		return []byte(`{"v":2,"kind":"forget","id":"n-0001"}`)
	case KindFound:
		c = Found(testCluster, 1, Member{ID: id, Key: k})
	case KindAdmitLearner:
		c = AdmitLearner(id, k, text, "linux/arm64", "2", e, rapid.IntRange(0, 2).Draw(t, "format"), by, at, flag)
	case KindPreApprove:
		c = PreApprove(id, k, flag, by, at)
	case KindUnapprove:
		c = Unapprove(id, by, at)
	case KindForget:
		c = Forget(id, by, at)
	case KindLeave:
		c = Leave(id, by, at)
	case KindSet:
		c = Set(rapid.SampledFrom([]string{"enrollment.per-source", "provision.paused", "x"}).Draw(t, "setting"),
			rapid.SampledFrom([]string{"", "1", "5", "true"}).Draw(t, "value"), by, at)
	case KindAnnounce:
		a := wire.Announce{Name: text, Labels: map[string]string{"b": "1", "a": "2"}, Platform: "p", Version: "v", Format: 1, Endpoints: e}
		if flag {
			a.Component, a.BootID, a.Sequence = secret, fmt.Sprintf("%016x%016x", rapid.Uint64Range(0, 3).Draw(t, "boot"), 0), uint64(at)
			if text != "" {
				a.BootID = text
			}
		}
		c = Announce(id, a)
	case KindProvision:
		c = ProvisionUpdate(id, Provision{Stage: "configure", LastError: secret, Attempts: 2, Outcomes: make([]Outcome, rapid.IntRange(0, 25).Draw(t, "outcomes"))})
	case KindEstablished:
		c = MarkEstablished(text, by, at)
	case KindSetRole:
		c = SetRole(id, rapid.SampledFrom([]Role{RoleLearner, RoleVoter, RoleVoterPending, RoleLeaving, "x"}).Draw(t, "role"), by, at)
	case KindMoveEndpoint:
		c = MoveEndpoint(id, e, by, at)
	case KindRekey:
		c = Rekey(id, k, by, at)
	case KindRecover:
		c = Recover(id, by, at)
	case KindAudit:
		c = Audit("retry", id, text, by, at)
	case KindDissolveInto:
		o := SignDissolve(testCluster, text, "s", pub(50), "a:1", id, key(n))
		if flag {
			o = goodOrder()
		}
		c = DissolveInto(o.Append(nil), by, at)
	case KindEmpty:
		return EmptyCommand(1)
	}
	return c.Encode()
}

func kindNames() (out []Kind) {
	for _, r := range Kinds {
		out = append(out, r.Kind)
	}
	return out
}

// TestApplyIsDeterministic: the same commands give the same results and the same bytes, whole or interrupted by a
// snapshot; an error changes nothing; what was handed out never changes.
func TestApplyIsDeterministic(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		a, b := founded(t), founded(t)
		type taken struct {
			view *View
			snap []byte
		}
		var out []taken
		for range rapid.IntRange(1, 60).Draw(rt, "commands") {
			cmd := drawCommand(rt)
			was := a.View()
			ra, errA := a.Apply(bytes.Clone(cmd))
			rb, errB := b.Apply(bytes.Clone(cmd))
			if fmt.Sprint(errA) != fmt.Sprint(errB) || !cmp.Equal(ra, rb) {
				rt.Fatalf("%s: %v %+v, %v %+v", cmd, errA, ra, errB, rb)
			}
			if errA != nil {
				if a.View() != was || !errors.Is(errA, ErrMalformed) && !errors.Is(errA, ErrFormatNewer) {
					rt.Fatalf("%s: %v", cmd, errA)
				}
				continue
			}
			if ra.Revision != was.Revision()+1 || a.View().Revision() != ra.Revision || (ra.Err != "") != (ra.Hint != "") {
				rt.Fatalf("%s: %+v after %d", cmd, ra, was.Revision())
			}
			if ra.Err != "" && a.View().Digest() != was.Digest() {
				rt.Fatalf("%s: refused and changed", cmd)
			}
			checkInvariants(rt, a.View())
			if rapid.IntRange(0, 9).Draw(rt, "keep") == 0 {
				out = append(out, taken{a.View(), a.Snapshot()})
				restored, err := Restore(b.Snapshot())
				if err != nil {
					rt.Fatal(err)
				}
				if !bytes.Equal(restored.Snapshot(), b.Snapshot()) {
					rt.Fatal("a snapshot does not come back")
				}
				b = restored
			}
		}
		if !bytes.Equal(a.Snapshot(), b.Snapshot()) || a.View().Digest() != b.View().Digest() {
			rt.Fatal("two states differ")
		}
		for _, k := range out {
			if !bytes.Equal(k.view.Snapshot(), k.snap) {
				rt.Fatal("a view that was handed out changed")
			}
		}
	})
}

func checkInvariants(t *rapid.T, v *View) {
	voters := 0
	for m := range v.Members() {
		if m.Role == RoleVoter {
			voters++
		}
		if _, revoked := v.Revoked(m.Key); revoked {
			t.Fatalf("member %s has a revoked key", m.ID)
		}
		if got, ok := v.ByKey(m.Key); !ok || got.ID != m.ID {
			t.Fatalf("the key of %s finds %q", m.ID, got.ID)
		}
		if _, awaited := v.PreApproved(m.ID, m.Key); awaited {
			t.Fatalf("%s is a member and awaited", m.ID)
		}
	}
	if voters == 0 || len(v.keys) != len(v.members) {
		t.Fatalf("%d voters, %d keys of %d members", voters, len(v.keys), len(v.members))
	}
}

// TestLearnersShareTheDigest: learners that start from a snapshot at any moment and are sent their own variants hold the
// leader's shared part at every revision, and of provisioning only their own.
func TestLearnersShareTheDigest(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		leader := founded(t)
		learners := map[string]*State{}
		for range rapid.IntRange(1, 60).Draw(rt, "commands") {
			if id := rapid.SampledFrom([]string{"n-0001", "n-0002", "nobody", ""}).Draw(rt, "joins"); id != "" && learners[id] == nil {
				snap := leader.SnapshotFor(id)
				checkSecret(rt, leader.View(), id, snap)
				st, err := Restore(snap)
				if err != nil {
					rt.Fatal(err)
				}
				learners[id] = st
			}
			cmd := drawCommand(rt)
			if _, err := leader.Apply(cmd); err != nil {
				continue
			}
			for id, st := range learners {
				variant := leader.ForLearner(cmd, id)
				if c, _ := DecodeCommand(variant); c.ID != id && bytes.Contains(variant, []byte(secret)) {
					rt.Fatalf("%s is sent %s", id, variant)
				}
				if _, err := st.Apply(variant); err != nil {
					rt.Fatalf("%s: %s: %v", id, variant, err)
				}
				if st.View().Revision() != leader.View().Revision() || st.View().Digest() != leader.View().Digest() {
					rt.Fatalf("%s differs after %s (sent %s)", id, cmd, variant)
				}
				own, _ := st.View().Member(id)
				there, _ := leader.View().Member(id)
				if d := cmp.Diff(there, own); d != "" {
					rt.Fatalf("%s does not hold its own record: %s", id, d)
				}
				for m := range st.View().Members() {
					if m.ID != id && !m.Provision.IsZero() {
						rt.Fatalf("%s holds the provisioning of %s", id, m.ID)
					}
				}
			}
		}
	})
}

func checkSecret(t *rapid.T, v *View, id string, snap []byte) {
	if m, ok := v.Member(id); ok && !m.Provision.IsZero() {
		return
	}
	if bytes.Contains(snap, []byte(secret)) {
		t.Fatalf("the snapshot of %s holds what is not its", id)
	}
}

// TestDigestCoversTheSharedPart: each part of it changes the digest, and nothing else does.
func TestDigestCoversTheSharedPart(t *testing.T) {
	base := founded(t)
	must(t, base, admit(1))
	for _, c := range []struct {
		cmd  Command
		want bool
	}{
		{admit(2), true}, {Forget("n-0001", by, 1), true}, {Leave("n-0001", by, 1), true}, {Set("enrollment.per-source", "7", by, 1), true},
		{Rekey("n-0001", pub(5), by, 1), true}, {SetRole("n-0001", RoleVoterPending, by, 1), true}, {Recover("n-a", by, 1), true},
		{MoveEndpoint("n-a", wire.Endpoints{FC: "z:1"}, by, 1), true}, {Announce("n-0001", wire.Announce{Name: "other"}), true},
		{ProvisionUpdate("n-0001", Provision{Stage: "x"}), false}, {PreApprove("n-0009", pub(9), true, by, 1), false},
		{Audit("retry", "", "", by, 1), false}, {MarkEstablished("window", by, 1), false}, {Command{Kind: KindEmpty}, false},
	} {
		s, err := Restore(base.Snapshot())
		if err != nil {
			t.Fatal(err)
		}
		was := s.View().Digest()
		must(t, s, c.cmd)
		if changed := s.View().Digest() != was; changed != c.want {
			t.Errorf("%s: changed the digest: %v", c.cmd.Encode(), changed)
		}
	}
}

func TestRestoreRefuses(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	good := s.Snapshot()
	if _, err := Restore(good); err != nil {
		t.Fatal(err)
	}
	for i := range good {
		for _, b := range [][]byte{good[:i], append(append(bytes.Clone(good[:i]), good[i]^1), good[i+1:]...)} {
			if st, err := Restore(b); err == nil || st != nil {
				t.Fatalf("cut or flipped at %d: taken", i)
			}
		}
	}
	if _, err := Restore(append(good, 0)); !errors.Is(err, ErrSnapshot) {
		t.Fatalf("longer: %v", err)
	}
	if _, err := Restore(make([]byte, MaxSnapshot+1)); !errors.Is(err, ErrSnapshotSize) {
		t.Fatalf("too large: %v", err)
	}
}

func TestRosterForAJoiner(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	r := s.View().Roster("n-0001")
	want := wire.Roster{Cluster: testCluster, Created: testCreated, Revision: 2,
		Voters: []wire.RosterVoter{{ID: "n-a", Key: pub(0).String(), Endpoints: founder().Endpoints}},
		Self: wire.RosterMember{ID: "n-0001", Key: pub(1).String(), Name: "pc-1", Role: "learner", Endpoints: wire.Endpoints{FC: "10.1.0.2:6674"},
			Admitted: testCreated + 1, AdmittedBy: by}}
	if d := cmp.Diff(want, r); d != "" {
		t.Fatal(d)
	}
	if got := s.View().Roster("nobody"); got.Self != (wire.RosterMember{}) {
		t.Fatalf("%+v", got.Self)
	}
	if _, err := identity.ParsePublicKey(r.Self.Key); err != nil {
		t.Fatal(err)
	}
}
