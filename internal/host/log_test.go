package host

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSeverityOf(t *testing.T) {
	for level, want := range map[slog.Level]Severity{
		slog.LevelDebug - 4: SeverityDebug, slog.LevelDebug: SeverityDebug, slog.LevelInfo: SeverityInfo, slog.LevelInfo + 1: SeverityInfo, slog.LevelWarn: SeverityWarning,
		slog.LevelError: SeverityError, slog.LevelError + 4: SeverityError,
	} {
		if got := SeverityOf(level); got != want {
			t.Errorf("%s: %d, want %d", level, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	var got []string
	say := func(s Severity, line string) error {
		got = append(got, fmt.Sprint(s, " ", line))
		return nil
	}
	log := slog.New(NewLines(slog.LevelInfo, "text", say)).With("node", "a b")
	log.Debug("not said")
	log.Info("one", "time", 1)
	log.WithGroup("g").Error("two", "level", 2, "text", "x\ny")
	slog.New(NewLines(slog.LevelDebug, "json", say)).Debug("three", "n", 3)
	want := []string{`1 msg=one node="a b" time=1`, `3 msg=two node="a b" g.level=2 g.text="x\ny"`, `0 {"msg":"three","n":3}`}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestLinesFromManyGoroutines(t *testing.T) {
	seen := map[string]int{}
	log := slog.New(NewLines(slog.LevelInfo, "text", func(_ Severity, line string) error {
		seen[line]++ // one at a time
		return nil
	}))
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				log.With("n", i).Info("said")
			}
		})
	}
	all.Wait()
	for line, n := range seen {
		if n != 100 || !strings.HasPrefix(line, "msg=said n=") {
			t.Errorf("%q %d times", line, n)
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d lines", len(seen))
	}
}

// TestQueue: a log that hangs holds nobody up; what is lost is told.
func TestQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		hang := make(chan struct{})
		q := NewQueue(2, func(s Severity, line string) error {
			<-hang
			got = append(got, fmt.Sprint(s, line))
			return nil
		})
		for _, line := range []string{"a", "b", "c", "d", "e"} {
			if err := q.Say(SeverityInfo, line); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if q.Close(time.Second) {
			t.Error("a log that hangs was written")
		}
		close(hang)
		if !q.Close(time.Second) {
			t.Error("it was not")
		}
		if err := q.Say(SeverityInfo, "late"); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff([]string{"1a", "1b", "1c"}, got); d != "" {
			t.Error(d)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		var got []string
		go1 := make(chan struct{})
		q := NewQueue(2, func(_ Severity, line string) error {
			<-go1
			got = append(got, line)
			return nil
		})
		for range 5 {
			q.Say(SeverityError, "x")
			synctest.Wait()
		}
		close(go1)
		synctest.Wait()
		q.Say(SeverityInfo, "y")
		q.Close(time.Second)
		if d := cmp.Diff([]string{"x", "x", "x", `msg="lines of the log were lost" lines=2`, "y"}, got); d != "" {
			t.Error(d)
		}
	})
}
