package control

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wantConditions are those of the operator's page that this node raises, with the
// severities that the page gives some of.
var wantConditions = map[string]string{
	"foreign-fleet-visible": "", "enrollment-window-open": "", "enrollment-requests-waiting": "", "own-key-revoked": "", "single-voter-fleet": "notice",
	"discovery-no-interface": "", "admin-endpoint-off": "", "wire-version-seen": "", "identity-cloned": "", "identity-clash": "", "provisioning-paused": "",
	"provisioning-helper-missing": "", "provisioning-failing": "", "clock-skewed": "", "alert-exec-failing": "warning", "pin-disagrees": "", "consensus-leader-silent": "", "consensus-store-unwritable": "",
	"fleet-split-healing": "alert", "fleet-recovered-elsewhere": "alert", "fleet-unreachable": "", "fleet-format-newer": "", "mixed-node-versions": "", "formation-move-refused": "", "state-dir-lost": "alert", "fleet-state-differs": "alert", "peers-never-authenticated": "", "state-dir-nearly-full": "", "two-voter-fleet": "warning", "promotion-stalled": "",
}

func TestConditionTable(t *testing.T) {
	if err := checkConditions(); err != nil {
		t.Fatal(err)
	}
}

func TestRemedy(t *testing.T) {
	row := ConditionRow{Remedy: "pace-node --cluster-admit={id}={endpoint}"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "pace-node --cluster-admit=ID=ENDPOINT"},
		{[]string{"web1"}, "pace-node --cluster-admit=web1=ENDPOINT"},
		{[]string{"web1", "10.1.0.2:6680@" + testKey}, "pace-node --cluster-admit=web1=10.1.0.2:6680@" + testKey},
		{[]string{"$(touch pwned)", "h:1"}, `pace-node --cluster-admit=ID=h:1 # ID is \x24\x28touch\x20pwned\x29, which cannot be pasted`},
		{[]string{"--help", "h:1"}, `pace-node --cluster-admit=ID=h:1 # ID is --help, which cannot be pasted`},
		{[]string{"{endpoint}", "h:1"}, `pace-node --cluster-admit=ID=h:1 # ID is \x7bendpoint\x7d, which cannot be pasted`},
	} {
		if got := Remedy(row, c.args...); got != c.want {
			t.Errorf("%q → %s, want %s", c.args, got, c.want)
		}
	}
	accept := ConditionRow{Remedy: "pacectl fleet accept {key}"}
	for key, want := range map[string]string{
		"-" + testKey[1:]: "pacectl fleet accept -" + testKey[1:],
		"--help":          "pacectl fleet accept KEY # KEY is --help, which cannot be pasted",
	} {
		if got := Remedy(accept, key); got != want {
			t.Errorf("%q → %s, want %s", key, got, want)
		}
	}
}

// TestBoardLogsOnce: one line when a condition is raised, one when it is cleared,
// and a changed detail once a minute.
func TestBoardLogsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		b := NewBoard(slog.New(slog.NewTextHandler(&log, nil)))
		lines := func() int { return strings.Count(log.String(), "\n") }
		b.Clear("single-voter-fleet")
		for range 5 {
			b.Raise("single-voter-fleet", "2 members", idA, "10.1.0.2:6680")
		}
		if lines() != 1 || !strings.Contains(log.String(), "condition raised") || !strings.Contains(log.String(), "cluster-admit="+idA+"=10.1.0.2:6680") {
			t.Fatalf("raised:\n%s", log.String())
		}
		b.Raise("single-voter-fleet", "3 members", idA, "10.1.0.2:6680")
		if lines() != 1 {
			t.Fatalf("a change within the minute:\n%s", log.String())
		}
		time.Sleep(sayEvery)
		b.Raise("single-voter-fleet", "4 members", idA, "10.1.0.2:6680")
		if lines() != 2 || !strings.Contains(log.String(), "condition changed") {
			t.Fatalf("a change:\n%s", log.String())
		}
		if l := b.List(); len(l) != 1 || l[0].Detail != "4 members" || l[0].SinceMS != sayEvery.Milliseconds() {
			t.Errorf("%+v", l)
		}
		b.Clear("single-voter-fleet")
		b.Clear("single-voter-fleet")
		if lines() != 3 || !strings.Contains(log.String(), "condition cleared") || len(b.List()) != 0 || b.Raised("single-voter-fleet") {
			t.Fatalf("cleared:\n%s", log.String())
		}
		b.Raise("single-voter-fleet", "again")
		if lines() != 4 {
			t.Fatalf("raised again:\n%s", log.String())
		}
		b.Raise("no-such-condition", "x")
		if lines() != 5 || len(b.List()) != 1 {
			t.Errorf("a condition without a row:\n%s", log.String())
		}
		b.Set(false, "single-voter-fleet", "")
		b.Set(true, "own-key-revoked", "$(touch pwned)\n")
		if strings.Contains(log.String(), "$(") || len(b.List()) != 1 {
			t.Errorf("hostile detail:\n%s", log.String())
		}
	})
}

// TestBoardThatFlaps: whatever raises and clears a condition in turns, the log has two lines a minute of it, says how many
// changes they stand for, and ends with how it stands. The board itself is never late.
func TestBoardThatFlaps(t *testing.T) {
	for _, ends := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			b := NewBoard(slog.New(slog.NewTextHandler(&log, nil)))
			const minutes, changes = 10, 6000
			for i := range changes {
				b.Set(i%2 == 0, "mixed-node-versions", "web1 holds the format back")
				b.Set(true, "single-voter-fleet", "another is none of its business")
				if b.Raised("mixed-node-versions") != (i%2 == 0) {
					t.Fatal("the board is late")
				}
				if i%10 == 0 {
					b.Say()
				}
				time.Sleep(minutes * time.Minute / changes)
			}
			b.Set(ends, "mixed-node-versions", "web1 holds the format back")
			time.Sleep(sayEvery)
			b.Say()
			b.Say()
			var of []string
			stands := 0
			for line := range strings.Lines(log.String()) {
				if !strings.Contains(line, "mixed-node-versions") {
					continue
				}
				of = append(of, line)
				n := 1
				if _, after, ok := strings.Cut(line, "stands-for="); ok {
					fmt.Sscan(after, &n)
				}
				stands += n
			}
			if len(of) < minutes || len(of) > 2*(minutes+2) {
				t.Errorf("%d lines in %d minutes:\n%s", len(of), minutes, strings.Join(of, ""))
			}
			want := changes
			if ends {
				want++
			}
			if last := of[len(of)-1]; stands != want || strings.Contains(last, "condition raised") != ends {
				t.Errorf("the lines stand for %d of %d changes, and the last is %s", stands, want, last)
			}
		})
	}
}

func TestBoardOrder(t *testing.T) {
	b := NewBoard(nil)
	for _, id := range []string{"mixed-node-versions", "foreign-fleet-visible", "identity-cloned", "single-voter-fleet", "own-key-revoked"} {
		b.Raise(id, "")
	}
	var got []string
	for _, c := range b.List() {
		got = append(got, c.Severity+" "+c.ID)
	}
	want := "alert own-key-revoked,alert identity-cloned,warning foreign-fleet-visible,notice single-voter-fleet,notice mixed-node-versions"
	if strings.Join(got, ",") != want {
		t.Errorf("got %v", got)
	}
}

func TestBoardFromManyGoroutines(t *testing.T) {
	b := NewBoard(nil)
	m := NewMetrics(b, nil)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for i := range 200 {
				b.Set(i%2 == 0, Conditions[i%len(Conditions)].ID, "x")
				b.List()
				m.Add("pace_requests_total", 1, "Hello")
			}
		})
	}
	wait.Wait()
	if m.own[seriesKey("pace_requests_total", []string{"Hello"})] != 1600 {
		t.Error("lost counts")
	}
}
