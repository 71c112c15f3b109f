package upgrade

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// what is beside the program in each state.
var (
	settled    = map[string]string{"pace-node": newBytes, "pace-node.previous": oldBytes}
	rolledBack = func(starts string) map[string]string {
		return map[string]string{"pace-node": oldBytes, ".pace-node.upgrade": "rolled_back " + starts}
	}
)

func (r *rig) wants(what string, want map[string]string) {
	r.t.Helper()
	if d := cmp.Diff(want, r.files()); d != "" {
		r.t.Errorf("%s: %s", what, d)
	}
}

func TestNothingToWatch(t *testing.T) {
	r := newRig(t)
	if g := r.begin(nil); g != nil {
		t.Error("a guard without an upgrade")
	}
	var none *Guard
	none.Served()
	none.Settle()
	if none.End(3) != 3 {
		t.Error("a guard that is none changed a status")
	}
	r.upgraded()
	for _, args := range [][]string{{"pacectl"}, {"pace-node", "--version"}, {"pace-node", "--check-arguments", "--state-dir=/x"}, {"pace-node", "--state-dir=/x", "-h"},
		{"pace-node", "--state-dir=/other"}, {"pace-node"}} {
		if g := r.begin(func(w *Watch) { w.Args = args }); g != nil {
			t.Errorf("%q is watched", args)
		}
	}
	r.wants("verbs and another process' starts are not counted", map[string]string{"pace-node": newBytes, "pace-node.previous": oldBytes, ".pace-node.upgrade": "swapped 0"})
}

// TestServesAndSettles: it serves in time, goes on for its time, and is good.
func TestServesAndSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.upgraded()
		g := r.begin(nil)
		time.Sleep(ServeWithin - time.Second)
		g.Served()
		g.Served()
		time.Sleep(SettleAfter - time.Second)
		synctest.Wait()
		r.wants("it serves", map[string]string{"pace-node": newBytes, "pace-node.previous": oldBytes, ".pace-node.upgrade": "swapped 1"})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.wants("it served for its time", settled)
		if code := g.End(1); code != 1 || len(r.ended()) != 0 {
			t.Errorf("status %d, ended %v", code, r.ended())
		}
		r.wants("it ended", settled)
	})
}

func TestCleanEndOfWhatServesSettles(t *testing.T) {
	r := newRig(t)
	r.upgraded()
	g := r.begin(nil)
	g.Served()
	if code := g.End(0); code != 0 {
		t.Error(code)
	}
	r.wants("a clean end", settled)
}

// TestHangs: not serving within its time brings the old program back, and ends the process for its manager.
func TestHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.upgraded()
		g := r.begin(nil)
		time.Sleep(ServeWithin - time.Second)
		synctest.Wait()
		if len(r.ended()) != 0 {
			t.Fatal("too soon")
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !cmp.Equal(r.ended(), []int{again}) {
			t.Errorf("ended with %v", r.ended())
		}
		r.wants("it hangs", rolledBack("1"))
		g.Served() // too late
		r.wants("too late", rolledBack("1"))
		if back, ok := r.upgrader(nil).RolledBack(); !ok || back.Version != "2.0" || !strings.Contains(back.Why, "within 1m0s") || back.At.IsZero() {
			t.Errorf("%+v", back)
		}
		if !strings.Contains(r.stderr.String(), "the upgrade from 1.0 to 2.0 is rolled back") {
			t.Errorf("it said %q", r.stderr)
		}
	})
}

// TestEndsOverAndOver: three starts, and the fourth brings the old program back.
func TestEndsOverAndOver(t *testing.T) {
	for _, served := range []bool{false, true} {
		r := newRig(t)
		r.upgraded()
		for n := range 3 {
			g := r.begin(nil)
			if g == nil {
				t.Fatalf("start %d is not watched", n+1)
			}
			if served {
				g.Served()
			}
			if code := g.End(1); code != 1 {
				t.Errorf("start %d ends with %d", n+1, code)
			}
		}
		var told error
		if g := r.begin(func(w *Watch) { w.Refuse = func(err error, code int) { told = err } }); g != nil {
			t.Error("a fourth start is watched")
		}
		if !cmp.Equal(r.ended(), []int{again}) || told == nil || !strings.Contains(told.Error(), "started 3 times") {
			t.Errorf("ended with %v, told %v", r.ended(), told)
		}
		r.wants("four starts", rolledBack("3"))
		// The old program starts, and nothing is watched; the note stays for the fleet.
		if g := r.begin(nil); g != nil || len(r.ended()) != 1 {
			t.Error("the old program is watched")
		}
		r.wants("the old program", rolledBack("3"))
	}
}

// TestEndsThatNoManagerMends: with 0 and 78 it would stay down.
func TestEndsThatNoManagerMends(t *testing.T) {
	for code, why := range map[int]string{0: "before it served", 78: "refused its configuration"} {
		r := newRig(t)
		r.upgraded()
		if got := r.begin(nil).End(code); got != again {
			t.Errorf("%d becomes %d", code, got)
		}
		r.wants(why, rolledBack("1"))
		if back, _ := r.upgrader(nil).RolledBack(); !strings.Contains(back.Why, why) {
			t.Errorf("%+v", back)
		}
	}
}

// TestRolledBackIsNotTakenAgain, unless a person asks, or the program is another one.
func TestRolledBackIsNotTakenAgain(t *testing.T) {
	r := newRig(t)
	r.upgraded()
	r.begin(nil).End(78)
	_, err := r.upgrader(nil).Upgrade(t.Context(), r.body())
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrRolledBack) || !e.Permanent() || !strings.Contains(err.Error(), "refused its configuration") {
		t.Fatal(err)
	}
	r.wants("refused", rolledBack("1"))
	body := r.body()
	body.Again = true
	if _, err := r.upgrader(nil).Upgrade(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	r.begin(nil).End(78)
	r.publish("2.1", "mended")
	r.say["--version"] = answer{0, "pace-node 2.1 linux/amd64", nil}
	body = r.body()
	body.Version = "2.1"
	if _, err := r.upgrader(nil).Upgrade(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	if _, ok := r.upgrader(nil).RolledBack(); ok {
		t.Error("it is still said to be rolled back")
	}
}

// TestUpgradeOfWhatIsWatched: the next upgrade settles this one first.
func TestUpgradeOfWhatIsWatched(t *testing.T) {
	r := newRig(t)
	r.upgraded()
	g := r.begin(nil)
	g.Served()
	r.publish("3.0", "three")
	r.say["--version"] = answer{0, "pace-node 3.0 linux/amd64", nil}
	body := r.body()
	body.Version = "3.0"
	if _, err := r.upgrader(func(c *Config) { c.Version, c.Guard = "2.0", g }).Upgrade(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	if code := g.End(again); code != again {
		t.Error(code)
	}
	r.wants("the third", map[string]string{"pace-node": "three", "pace-node.previous": newBytes, ".pace-node.upgrade": "swapped 0"})
}

// TestSomebodyElsesProgram: what a person or a package put there is left alone.
func TestSomebodyElsesProgram(t *testing.T) {
	r := newRig(t)
	r.upgraded()
	if err := os.Remove(r.program); err != nil {
		t.Fatal(err)
	}
	r.write(r.program, "a third one")
	if g := r.begin(nil); g != nil {
		t.Error("it is watched")
	}
	r.wants("a third program", map[string]string{"pace-node": "a third one", "pace-node.previous": oldBytes})
}

// TestNoWayBack: without the old program the new one goes on, and says so.
func TestNoWayBack(t *testing.T) {
	r := newRig(t)
	r.upgraded()
	if err := os.Remove(filepath.Join(r.dir, "pace-node.previous")); err != nil {
		t.Fatal(err)
	}
	if code := r.begin(nil).End(78); code != 78 || len(r.ended()) != 0 {
		t.Errorf("%d, %v", code, r.ended())
	}
	if !strings.Contains(r.stderr.String(), "cannot be") || !strings.Contains(r.stderr.String(), r.program) {
		t.Errorf("it said %q", r.stderr)
	}
}

// TestTornIntent is passed over, and said.
func TestTornIntent(t *testing.T) {
	r := newRig(t)
	r.upgraded()
	r.write(filepath.Join(r.dir, ".pace-node.upgrade"), "pace-node-upgrade 1 00\n{}")
	if g := r.begin(nil); g != nil {
		t.Error("it is watched")
	}
	if !strings.Contains(r.stderr.String(), "does not read") {
		t.Errorf("it said %q", r.stderr)
	}
}

func FuzzIntent(f *testing.F) {
	f.Add([]byte("pace-node-upgrade 1 00\n{}"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := parseIntent(b)
		if err == nil && (!digestText(in.Old) || !digestText(in.New)) {
			t.Errorf("%+v", in)
		}
	})
}
