package target

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/wire"
)

// gate holds a step at a point until it is opened.
type gate struct {
	point   string
	arrived chan struct{}
	opened  chan struct{}
	once    sync.Once
}

func newGate(point string) *gate {
	return &gate{point: point, arrived: make(chan struct{}), opened: make(chan struct{})}
}

func (g *gate) at(p string) {
	if p == g.point {
		g.once.Do(func() { close(g.arrived); <-g.opened })
	}
}

// TestBusy: while a step runs, every other one is answered busy, and a query says so.
func TestBusy(t *testing.T) {
	g := newGate("target.stage.check.before")
	cfg := config(folder(t))
	cfg.Point = g.at
	tg := open(t, cfg)
	done := make(chan wire.WorkAnswer)
	go func() { done <- tg.Work(context.Background(), wire.StepConfigure, encode(t, body("one"))) }()
	<-g.arrived
	if q := tg.Query(); !q.Busy || !q.Wants {
		t.Errorf("%+v", q)
	}
	for i, s := range Steps {
		a := tg.Work(context.Background(), s.Step, encode(t, body("two")))
		if a.OK || !a.Transient || a.Error != BusyText || tg.Refusals()[ReasonBusy] != uint64(i+1) {
			t.Errorf("%s: %+v", s.Step, a)
		}
	}
	close(g.opened)
	if a := <-done; !a.OK {
		t.Error(a.Error)
	}
	if tg.Query().Busy {
		t.Error("busy with nothing")
	}
}

// TestBoundary ends a step in each way at each side of its boundary: before the swap everything is as before, after it
// the step completes.
func TestBoundary(t *testing.T) {
	before := []string{"target.settle.after", "target.stage.create.after", "target.stage.file.after", "target.stage.sync.after", "target.stage.check.after"}
	past := []string{"target.intent.write.before", "target.swap.discard.before", "target.swap.previous.before", "target.swap.current.before", "target.swap.sync.after"}
	for _, c := range []struct {
		name   string
		end    func(tg *Target, cancel func())
		reason Reason
	}{
		{"stream ends", func(_ *Target, cancel func()) { cancel() }, ReasonCancelled},
		{"fleet changes", func(tg *Target, _ func()) { tg.ChangeFleet(clusterB) }, ReasonChangedFleet},
		{"node stops", func(tg *Target, _ func()) { go tg.Close(); untilClosed(tg) }, ReasonClosed},
	} {
		for i, point := range append(before, past...) {
			t.Run(c.name+" "+point, func(t *testing.T) {
				t.Parallel()
				dir := folder(t)
				cfg := config(dir)
				var act func()
				cfg.Point = func(p string) {
					if p == point && act != nil {
						act()
						act = nil
					}
				}
				tg := provisioned(t, cfg, "zero")
				configureUnasked(t, tg, "one")
				if err := tg.Flush(); err != nil {
					t.Fatal(err)
				}
				was := tree(t, dir)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				act = func() { c.end(tg, cancel) }
				a := tg.Work(ctx, wire.StepConfigure, encode(t, body("two")))
				act = nil
				if i < len(before) {
					if a.OK || !a.Transient || tg.Refusals()[c.reason] != 1 {
						t.Errorf("%+v", a)
					}
					if err := tg.Flush(); err != nil && err != ErrClosed {
						t.Error(err)
					}
					now := tree(t, dir)
					delete(was, stateFile) // another fleet is a new demand, which the record keeps
					delete(now, stateFile)
					if d := cmp.Diff(was, now); d != "" {
						t.Error(d)
					}
					return
				}
				if !a.OK {
					t.Fatalf("past the boundary it does not complete: %s", a.Error)
				}
				if d := cmp.Diff(below(was, currentDir), below(tree(t, dir), previousDir)); d != "" {
					t.Error(d)
				}
				if want, _ := tg.Wants(); !want || tg.Component() != wire.ComponentProvision {
					t.Error("it takes what was not confirmed for provisioned")
				}
			})
		}
	}
}

func untilClosed(tg *Target) {
	for {
		tg.mu.Lock()
		closed := tg.closed
		tg.mu.Unlock()
		if closed {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func configureUnasked(t *testing.T, tg *Target, mark string) {
	t.Helper()
	restart(t, tg, configure(t, tg, body(mark)))
	tg.Confirmed(tg.Digest())
}

// TestEverythingAtOnce lets everything that a node calls run at the same time. One step runs at a time, each that says it
// succeeded did, and what is on disk at the end is whole.
func TestEverythingAtOnce(t *testing.T) {
	dir := folder(t)
	cfg := config(dir)
	var inside sync.Mutex
	cfg.Facts = func() map[string]any {
		if !inside.TryLock() {
			t.Error("two steps at once")
			return nil
		}
		defer inside.Unlock()
		return map[string]any{"x": 1}
	}
	var tg *Target
	cfg.Restarted = func() { tg.Query() }
	tg = open(t, cfg)
	var wg sync.WaitGroup
	ends := time.Now().Add(700 * time.Millisecond)
	loop := func(f func(i int)) {
		wg.Go(func() {
			for i := 0; time.Now().Before(ends); i++ {
				f(i)
			}
		})
	}
	ctx := context.Background()
	for n := range 2 {
		loop(func(i int) {
			b := body(fmt.Sprint(n, i%3))
			if i%2 == 0 {
				b.Cluster = clusterB
			}
			tg.Work(ctx, wire.StepConfigure, encode(t, b))
		})
	}
	loop(func(i int) {
		tg.Work(ctx, wire.StepRestart, encode(t, wire.RestartBody{Digest: tg.Digest()}))
		tg.Work(ctx, wire.StepInventory, nil)
	})
	loop(func(int) { tg.Confirmed(tg.Digest()) })
	loop(func(i int) { time.Sleep(10 * time.Millisecond); tg.ChangeFleet([]string{clusterA, clusterB}[i%2]) })
	loop(func(i int) {
		time.Sleep(7 * time.Millisecond)
		tg.Reprovision("x")
		if err := tg.Flush(); err != nil {
			t.Error(err)
		}
	})
	loop(func(int) {
		time.Sleep(time.Millisecond)
		q := tg.Query()
		if q.Component == wire.ComponentServer && q.ConfigDigest == "" {
			t.Errorf("serves what is not there: %+v", q)
		}
		tg.Wants()
		tg.NextSequence()
		tg.Refusals()
	})
	wg.Wait()
	if err := tg.Close(); err != nil {
		t.Fatal(err)
	}
	tg.mu.Lock()
	cur := tg.current
	tg.mu.Unlock()
	disk := load(tg.store.path(currentDir))
	if d := cmp.Diff(cur.manifest, disk.manifest); d != "" || cur.damage != disk.damage {
		t.Errorf("what it holds and what is on disk differ: %s", d)
	}
	if s, err := readState(dir); err != nil || s != tg.state {
		t.Errorf("on disk %+v (%v), held %+v", s, err, tg.state)
	}
}

// TestNeverWaitsForADisk: what the event loop calls returns while the disk stands still.
func TestNeverWaitsForADisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate("target.state.sync.before")
		step := newGate("target.stage.file.before")
		cfg := config(folder(t))
		cfg.Point = func(p string) { g.at(p); step.at(p) }
		tg := open(t, cfg)
		<-g.arrived // the keeper stands in the first write
		done := make(chan wire.WorkAnswer)
		go func() { done <- tg.Work(context.Background(), wire.StepConfigure, encode(t, body("one"))) }()
		<-step.arrived
		tg.Reprovision("x")
		tg.Confirmed(tg.Digest())
		tg.ChangeFleet(clusterB)
		tg.Wants()
		tg.Query()
		close(g.opened)
		close(step.opened)
		if a := <-done; a.OK {
			t.Error("a step went on into another fleet")
		}
	})
}

// TestFlushWaitsForTheKeeper: an opened folder is being written for a moment, and once Flush has returned it is not.
func TestFlushWaitsForTheKeeper(t *testing.T) {
	unfinished := func(all map[string]string) (names []string) {
		for name := range all {
			if name != "." && name != stateFile {
				names = append(names, name)
			}
		}
		return names
	}
	reached, goOn := make(chan struct{}), make(chan struct{})
	cfg := config(folder(t))
	cfg.Point = func(p string) {
		if p == "target.state.rename.before" {
			close(reached) // a new folder's record is written once
			<-goOn
		}
	}
	tg := open(t, cfg)
	<-reached
	if left := unfinished(tree(t, cfg.Dir)); len(left) != 1 {
		t.Errorf("while the record is written: %q", left)
	}
	go close(goOn)
	if left := unfinished(atRest(t, tg)); len(left) != 0 {
		t.Errorf("%q is left", left)
	}
}

// TestWorkUnder: while it is asked whether a step may be done no other one begins; what is not allowed changes and counts nothing.
func TestWorkUnder(t *testing.T) {
	dir := folder(t)
	tg := open(t, config(dir))
	asked, answer := make(chan struct{}), make(chan error)
	allow := func(context.Context) error { close(asked); return <-answer }
	type ended struct {
		a   wire.WorkAnswer
		err error
	}
	done := make(chan ended)
	work := func() {
		a, err := tg.WorkUnder(context.Background(), wire.StepConfigure, encode(t, body("one")), allow)
		done <- ended{a, err}
	}
	go work()
	<-asked
	if a := tg.Work(context.Background(), wire.StepConfigure, encode(t, body("two"))); a.Error != BusyText || !tg.Query().Busy {
		t.Errorf("another one meanwhile: %+v", a)
	}
	refusal := errors.New("of an old term")
	answer <- refusal
	if e := <-done; e.err != refusal || tg.Digest() != "" || tg.Query().Busy || tg.begun != 0 {
		t.Errorf("%+v, and it runs %q after %d steps", e, tg.Digest(), tg.begun)
	}
	for reason, n := range tg.Refusals() {
		if n != 0 && reason != ReasonBusy {
			t.Errorf("%s is counted", reason)
		}
	}

	asked = make(chan struct{})
	go work()
	<-asked
	answer <- nil
	if e := <-done; e.err != nil || !e.a.OK || tg.Digest() == "" {
		t.Errorf("an allowed one: %+v", e)
	}

	asked = make(chan struct{})
	go work()
	<-asked
	tg.ChangeFleet(clusterB) // while it is asked
	answer <- nil
	if e := <-done; e.err != nil || e.a.OK {
		t.Errorf("one whose machine changed fleets meanwhile: %+v", e)
	}

	kept := tg.Refusals()[ReasonStorage]
	full := func(context.Context) error { return fmt.Errorf("%w: no space left on device", ErrNotKept) }
	a, err := tg.WorkUnder(context.Background(), wire.StepConfigure, encode(t, body("one")), full)
	if err != nil || a.OK || !a.Transient || !strings.Contains(a.Error, "no space left") || tg.Refusals()[ReasonStorage] != kept+1 {
		t.Errorf("a permission that a full disk does not keep is worth another try: %+v %v", a, err)
	}

	if _, err := tg.WorkUnder(context.Background(), "juggle", nil, func(context.Context) error { t.Error("it is asked for a step that nobody knows"); return nil }); err != nil {
		t.Error(err)
	}
}
