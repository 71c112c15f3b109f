package provision

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/wire"
)

// TestTheSameFailureIsSaidOnceAMinute: a machine is tried again after five seconds, and then after ten; what stays the same is
// one line of the log a minute, what changes is said at once, and so is each machine's own.
func TestTheSameFailureIsSaidOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		f := newFleetWith(t, Config{Workers: 2, Default: trivial}, func(d *Deps) {
			d.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo}))
		})
		defer f.close()
		said := func(id, why string) (n int) {
			f.sync(func(time.Time) {
				for line := range strings.Lines(log.String()) {
					if strings.Contains(line, `msg="machine was not provisioned"`) && strings.Contains(line, " id="+id+" ") && strings.Contains(line, why) {
						n++
					}
				}
			})
			return n
		}
		fails := func(why string) func(m *machine) {
			return func(m *machine) {
				m.refuse["configure"] = wire.WorkAnswer{Error: why, Transient: true}
			}
		}
		f.add("a", fails("no space left"))
		f.add("b", fails("no space left"))
		f.p.Lead(true)
		time.Sleep(50 * time.Second) // tried at once, after 5 s, 15 s, 35 s
		synctest.Wait()
		if e := f.state("a"); e.Attempt != 4 {
			t.Fatalf("%+v", e)
		}
		for _, id := range []string{"a", "b"} {
			if n := said(id, "no space left"); n != 1 {
				t.Errorf("%s: said %d times in 50 s", id, n)
			}
		}
		f.with("a", fails("read-only file system"))
		time.Sleep(30 * time.Second) // tried after 75 s
		synctest.Wait()
		if said("a", "read-only file system") != 1 || said("a", "no space left") != 1 || said("b", "no space left") != 2 {
			t.Errorf("after 80 s:\n%s", log.String())
		}
		// A person's word begins anew: what was dropped is news when it fails again.
		if _, err := f.p.Drop(context.Background(), "b"); err != nil {
			t.Fatal(err)
		}
		if _, err := f.p.Reprovision(context.Background(), "b"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := said("b", "no space left"); n != 3 {
			t.Errorf("after it was dropped: said %d times", n)
		}
		f.p.Lead(false)
		f.sync(func(time.Time) {
			if len(f.p.said) != 0 {
				t.Errorf("%d are kept without leadership", len(f.p.said))
			}
		})
	})
}
