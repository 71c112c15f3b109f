package fleet

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"pace-node/internal/wire"
)

func FuzzApply(f *testing.F) {
	for _, c := range []Command{admit(1), Forget("n-a", by, 1), Set("provision.paused", "true", by, 1), Announce("n-a", wire.Announce{Name: "x", BootID: "00"}),
		ProvisionUpdate("n-a", Provision{Stage: "x"}), SetRole("n-a", RoleLearner, by, 1), Rekey("n-a", pub(1), by, 1), Recover("n-a", by, 1), PreApprove("x", pub(3), true, by, 1), dissolve(goodOrder())} {
		f.Add(c.Encode())
	}
	f.Add([]byte(`{"v":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := founded(t)
		was := s.View()
		r, err := s.Apply(b)
		if err != nil {
			if s.View() != was || !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrFormatNewer) {
				t.Fatalf("%q: %v", b, err)
			}
			return
		}
		if r.Revision != was.Revision()+1 || s.View().CountRole(RoleVoter) < 1 {
			t.Fatalf("%q: %+v", b, r)
		}
		back, err := Restore(s.Snapshot())
		if err != nil || !bytes.Equal(back.Snapshot(), s.Snapshot()) {
			t.Fatalf("%q: the snapshot after it does not come back: %v", b, err)
		}
		learner, err := Restore(func() []byte { s := founded(t); return s.SnapshotFor("x") }())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := learner.Apply(s.ForLearner(b, "x")); err != nil || learner.View().Digest() != s.View().Digest() {
			t.Fatalf("%q: a learner differs: %v", b, err)
		}
	})
}

func FuzzRestore(f *testing.F) {
	s := founded(f)
	f.Add(s.Snapshot())
	must(f, s, admit(1))
	must(f, s, Set("enrollment.per-source", "9", by, 1))
	f.Add(s.Snapshot())
	f.Add(s.SnapshotFor("n-0001"))
	must(f, s, dissolve(goodOrder()))
	f.Add(s.Snapshot())
	f.Fuzz(func(t *testing.T, b []byte) {
		st, err := Restore(b)
		if err != nil {
			if !errors.Is(err, ErrSnapshot) && !errors.Is(err, ErrSnapshotSize) && !errors.Is(err, ErrFormatNewer) {
				t.Fatal(err)
			}
			return
		}
		if _, err := Restore(st.Snapshot()); err != nil {
			t.Fatalf("what was read does not write: %v", err)
		}
	})
}

// FuzzRestoreBody puts a sound head before any body, so that the body's own checks are reached.
func FuzzRestoreBody(f *testing.F) {
	s := founded(f)
	must(f, s, admit(1))
	f.Add(s.Snapshot()[snapshotHead:])
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		st, err := Restore(fillHead(append(make([]byte, snapshotHead), body...), 1))
		if err != nil {
			return
		}
		if _, err := Restore(st.Snapshot()); err != nil {
			t.Fatalf("%q: what was read does not write: %v", body, err)
		}
		if _, err := st.Apply(admit(3).Encode()); err != nil {
			t.Fatal(err)
		}
	})
}

func FuzzJudgeLease(f *testing.F) {
	v := leaseView(f)
	good := leaseWith(v, func(LeaseVerdict) bool { return false })
	f.Add(good.Raw)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		in := good
		in.Raw = b
		if _, verdict := JudgeLease(in); verdict == LeaseOK && !bytes.Equal(b, good.Raw) {
			t.Fatalf("forged: %x", b)
		}
	})
}

// thousand returns a fleet of 1,000 members, each announced.
func thousand(tb testing.TB) *State {
	s := founded(tb)
	for i := 1; i < 1000; i++ {
		must(tb, s, admit(i))
		must(tb, s, Announce(fmt.Sprintf("n-%04d", i), wire.Announce{Name: fmt.Sprintf("pc-%d", i), Labels: map[string]string{"room": "12"},
			Platform: "linux/amd64", Version: "1.0.0", Format: 1, Endpoints: wire.Endpoints{FC: "10.1.0.1:6674"}}))
	}
	return s
}

func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name string
		cmd  func(i int) Command
	}{
		{"announce", func(i int) Command {
			return Announce(fmt.Sprintf("n-%04d", 1+i%999), wire.Announce{Name: "x", Version: fmt.Sprint(i), Format: 1})
		}},
		{"provision", func(i int) Command {
			return ProvisionUpdate(fmt.Sprintf("n-%04d", 1+i%999), Provision{Stage: "configure", Attempts: i})
		}},
		{"audit", func(i int) Command { return Audit("retry", "n-0001", "", by, int64(i)) }},
		{"empty", func(int) Command { return Command{Kind: KindEmpty} }},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := thousand(b)
			var cmds [1024][]byte
			for i := range cmds {
				cmds[i] = c.cmd(i).Encode()
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := s.Apply(cmds[i%len(cmds)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("admit-and-forget", func(b *testing.B) {
		s := thousand(b)
		c, l := admit(2000).Encode(), Leave("n-2000", by, 1).Encode()
		b.ReportAllocs()
		for b.Loop() {
			for _, cmd := range [][]byte{c, l} {
				if r, err := s.Apply(cmd); err != nil || r.Err != "" {
					b.Fatal(err, r)
				}
			}
		}
	})
}

func BenchmarkView(b *testing.B) {
	s := thousand(b)
	run := func(name string, f func(v *View)) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				f(s.View())
			}
		})
	}
	run("view", func(*View) {})
	run("digest", func(v *View) { v.Digest() })
	run("member", func(v *View) { v.Member("n-0500") })
	k := founder().Key
	run("by-key", func(v *View) { v.ByKey(k) })
	run("members", func(v *View) {
		for range v.Members() {
		}
	})
	run("snapshot", func(v *View) { v.Snapshot() })
	snap := s.Snapshot()
	run("restore", func(*View) {
		if _, err := Restore(snap); err != nil {
			b.Fatal(err)
		}
	})
}
