package control

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

func TestFeed(t *testing.T) {
	var none *Feed
	none.Add(Event{})
	if events, next, missed := none.After(3); events == nil || len(events) != 0 || next != 0 || missed != 0 {
		t.Error("a feed that is none told something")
	}
	f := NewFeed()
	for i := 1; i <= 3*feedKept; i++ {
		f.Add(Event{Kind: EventRun, What: fmt.Sprint(i), Detail: strings.Repeat("x", 2*feedDetail)})
	}
	const last = 3 * feedKept
	for _, c := range []struct {
		after           uint64
		told, first, no uint64
	}{
		{last, 0, 0, 0},
		{last - 1, 1, last, 0},
		{last - feedTold, feedTold, last - feedTold + 1, 0},
		{last - feedTold - 1, feedTold, last - feedTold + 1, 1},
		{0, feedTold, last - feedTold + 1, last - feedTold},
		{last + 7, feedTold, last - feedTold + 1, last - feedTold}, // of an earlier process
	} {
		events, next, missed := f.After(c.after)
		if uint64(len(events)) != c.told || next != last || missed != c.no || c.told > 0 && events[0].Seq != c.first {
			t.Errorf("behind %d: %d events, next %d, missed %d", c.after, len(events), next, missed)
		}
		for i, e := range events {
			if e.What != fmt.Sprint(e.Seq) || e.Seq != events[0].Seq+uint64(i) || len(e.Detail) > feedDetail || e.At == 0 {
				t.Errorf("event %d is %+v", e.Seq, e)
			}
		}
	}
}

func TestBoardTellsTheFeed(t *testing.T) {
	b, f := NewBoard(nil), NewFeed()
	b.Feed(f)
	b.Raise("clock-skewed", "by a lot")
	for range 20 { // a condition that comes and goes is told once a minute
		b.Clear("clock-skewed")
		b.Raise("clock-skewed", "by a lot")
	}
	events, _, _ := f.After(0)
	if len(events) != 2 || events[0].What != "raised" || events[0].Severity != "warning" || events[0].Detail != "clock-skewed: by a lot" || events[1].What != "cleared" {
		t.Errorf("%+v", events)
	}
}

// watching is a fleet as a node shows it.
func watching(boot string, events ...Event) WatchStatus {
	heard, never := int64(0), int64(400_000)
	d := WatchStatus{
		Boot: boot, Node: Machine{ID: idA, Name: "alder"}, Cluster: idB, Leader: &Machine{ID: idA, Name: "alder"},
		View:       View{Mode: "voter", Leads: true, Revision: 42, VotersHeard: 1, VotersTotal: 3},
		Roles:      map[string]int{"voter": 3, "learner": 2},
		Members:    []MemberStatus{{ID: idB, Name: "birch", Role: "learner", HeardMS: &never, Provisioning: "failing: no disk", Endpoints: wire.Endpoints{FC: "10.0.0.2:6674"}}, {ID: idA, Name: "alder", Role: "voter", HeardMS: &heard, Self: true, Version: "1.2.3"}},
		Waiting:    []EnrollRow{{Decision: DecisionWaiting, ID: idB, Key: otherKey, Name: "cedar", Source: "10.0.0.3", AgeMS: 3000}},
		Queue:      WatchQueue{States: map[string]int{"running": 1, "backing off": 1}, Entries: []QueueEntry{{ID: idB, Name: "birch", State: "backing off", Stage: "configure", Attempt: 3, LastError: "no disk"}}},
		Conditions: []ConditionStatus{{ID: "enrollment-requests-waiting", Severity: "notice", Detail: "1 machine waits", Remedy: "pace-node --enroll-list", SinceMS: 5000}},
		Events:     events,
	}
	for _, e := range events {
		d.Next = max(d.Next, e.Seq)
	}
	return d
}

func kinds(events []Event) string {
	var s []string
	for _, e := range events {
		s = append(s, e.Kind+"/"+e.What)
	}
	return strings.Join(s, " ")
}

// TestWatchedTakes: what is told once is not told again, whoever answers.
func TestWatchedTakes(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	admit := Event{Seq: 1, At: at.Unix(), Kind: EventFleet, What: "admit", Revision: 7}
	run := Event{Seq: 2, At: at.Unix(), Kind: EventRun, What: "begun"}
	later := Event{Seq: 3, At: at.Unix() + 9, Kind: EventRun, What: "provisioned"}
	var w watched
	step := func(name, want string, fresh []Event) {
		t.Helper()
		if got := kinds(fresh); got != want {
			t.Errorf("%s: told %q, want %q", name, got, want)
		}
	}
	fresh, _ := w.take(at, watching("one", admit, run))
	step("the first picture", "fleet/admit run/begun", fresh)
	if w.after != 2 {
		t.Errorf("asks behind %d", w.after)
	}
	d := watching("one")
	d.Next = 2
	fresh, _ = w.take(at.Add(time.Second), d)
	step("nothing happened", "", fresh)

	step("silence", "watch/silent", w.fails(at.Add(2*time.Second), &Failure{Reason: "gone"}))
	step("silence goes on", "", w.fails(at.Add(3*time.Second), &Failure{Reason: "gone"}))
	if w.after != 2 || !w.seen {
		t.Error("silence took the picture away")
	}
	// The node was restarted: its events are numbered anew, so they are asked for from the first.
	fresh, again := w.take(at.Add(8*time.Second), watching("two", later))
	if !again || len(fresh) != 0 || w.after != 0 {
		t.Errorf("again %v, %v, behind %d", again, fresh, w.after)
	}
	fresh, again = w.take(at.Add(8*time.Second), watching("two", admit, run, later))
	if again {
		t.Error("asks for ever")
	}
	// What the state says was told; what is older than the last picture too.
	step("after the restart", "watch/answers watch/looks run/provisioned", fresh)
	if len(w.events) != 6 {
		t.Errorf("a screen shows %s", kinds(w.events))
	}
	d = watching("two", Event{Seq: 900, Kind: EventRun, What: "begun", At: at.Unix() + 20})
	d.Missed = 700
	fresh, _ = w.take(at.Add(20*time.Second), d)
	step("more than is kept", "watch/missed run/begun", fresh)
}

func pictureText(rows []row) string {
	var s []string
	for _, r := range rows {
		s = append(s, r.text)
	}
	return strings.Join(s, "\n")
}

// TestPicture: everything is on it in 80 columns and 24 rows, and in less something of everything.
func TestPicture(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	var w watched
	w.take(at, watching("one", Event{Seq: 1, At: at.Unix(), Kind: EventStartup, What: "heard", ID: idB, Name: "birch", Detail: "component provision_mode_server, admitted"}))
	p := pictureText(picture(&w, at, 80, 24))
	for _, want := range []string{"leader alder", "revision 42", "voters 1 of 3 heard", "enrollment-requests-waiting", "remedy pace-node --enroll-list", "1 machine waits", "cedar", "key " + otherKey,
		"QUEUE running  1 running, 1 backing off", "backing-off birch", "no disk", "MEMBERS 3 voters, 2 learners", "heard 6m40s", "startup   heard", "component provision_mode_server"} {
		if !strings.Contains(p, want) {
			t.Errorf("the picture has no %q:\n%s", want, p)
		}
	}
	w.fails(at.Add(30*time.Second), &Failure{Reason: "this machine's node does not answer: no such file"})
	if p := pictureText(picture(&w, at.Add(30*time.Second), 80, 24)); !strings.Contains(p, "SILENT since 30s: this is what was so then: this machine's node does not answer") || !strings.Contains(p, "cedar") {
		t.Errorf("silence:\n%s", p)
	}
	for rows := leastRows; rows < 60; rows++ {
		got := picture(&w, at, 80, rows)
		if len(got) > rows {
			t.Errorf("%d rows on a terminal of %d", len(got), rows)
		}
	}
}

// TestRemediesStandWhole: on 80 columns and 24 rows a line to paste is there to its last letter, though it is longer, and in
// one piece: the terminal wraps it by itself. What has no room is left out whole and counted.
func TestRemediesStandWhole(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	d := watching("one")
	admit := "pace-node --cluster-admit=" + idB + "=10.1.0.3:6680 --scheduler=alder.example.net:6674 --state-dir=/srv/pace-node/of-the-second-floor"
	d.Conditions = []ConditionStatus{{ID: "two-voter-fleet", Severity: "warning", Detail: "2 voters", Remedy: admit}, {ID: "single-voter-fleet", Severity: "notice", Detail: "1 voter", Remedy: "pace-node --cluster-admit=" + idB + "=10.1.0.3:6680"}}
	for i := range WatchMost {
		d.Members = append(d.Members, MemberStatus{ID: fmt.Sprintf("%032x", i)})
		d.Waiting = append(d.Waiting, EnrollRow{ID: fmt.Sprintf("%032x", i), Key: testKey})
		d.Queue.Entries = append(d.Queue.Entries, QueueEntry{ID: fmt.Sprintf("%032x", i), State: "waiting"})
	}
	var w watched
	w.take(at, d)
	for columns := leastColumns; columns < 200; columns++ {
		for _, rows := range []int{leastRows, 24, 40} {
			out := &collector{}
			s := &screen{out: out, term: &Terminal{Redraw: true, Colour: true, Size: func() (int, int) { return columns, rows }}}
			if err := s.draw(&w, at); err != nil {
				t.Fatal(err)
			}
			remedies := 0
			for line := range strings.SplitSeq(out.text(), "\r\n") {
				line = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(line, toHome), clearAll), clearEnd)
				if !strings.Contains(line, "  remedy ") {
					continue
				}
				if remedies++; strings.TrimPrefix(line, "  remedy ") != d.Conditions[remedies-1].Remedy {
					t.Fatalf("%d columns: %q", columns, line)
				}
			}
			if got := picture(&w, at, columns, rows); len(got) > rows {
				t.Errorf("%d rows on a terminal of %d", len(got), rows)
			}
			if columns >= 80 && rows >= 24 && remedies == 0 {
				t.Errorf("%dx%d has no remedy:\n%s", columns, rows, out.text())
			}
			if shown := strings.Contains(out.text(), "more)"); columns >= 80 && rows >= 24 && remedies < 2 && !shown {
				t.Errorf("%dx%d leaves out %d and does not say so", columns, rows, 2-remedies)
			}
		}
	}
}

// TestPictureOfThousands: the parts share the rows, and what has no room is counted.
func TestPictureOfThousands(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	d := watching("one")
	d.Members, d.Waiting, d.Queue.Entries, d.Conditions = nil, nil, nil, nil
	for i := range WatchMost {
		d.Members = append(d.Members, MemberStatus{ID: fmt.Sprintf("%032x", i), Name: fmt.Sprint("m", i), Role: "learner"})
		d.Waiting = append(d.Waiting, EnrollRow{ID: fmt.Sprintf("%032x", i), Name: fmt.Sprint("w", i), Key: testKey})
		d.Queue.Entries = append(d.Queue.Entries, QueueEntry{ID: fmt.Sprintf("%032x", i), Name: fmt.Sprint("q", i), State: "waiting"})
	}
	d.Roles = map[string]int{"learner": 5000}
	for i := range feedTold {
		d.Events = append(d.Events, Event{Seq: uint64(i + 1), Kind: EventRun, What: fmt.Sprint("e", i), At: at.Unix()})
	}
	var w watched
	w.take(at, d)
	p := picture(&w, at, 80, 40)
	text := pictureText(p)
	if len(p) != 40 || !strings.Contains(text, "MEMBERS 5000 learners  (100 of them here)") || !strings.Contains(text, " more)") || !strings.Contains(text, fmt.Sprint("e", feedTold-1)) {
		t.Errorf("%d rows:\n%s", len(p), text)
	}
	for _, want := range []string{"m0", "w0", "q0"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s", want)
		}
	}
}

// TestPictureOfHostileText: names, errors and labels of other machines end no line, move no cursor and run nothing.
func TestPictureOfHostileText(t *testing.T) {
	evil := "\x1b[2J\x1b]0;owned\a\r\n$(touch x)`'\";|&\u202e\u200b漢字漢字漢字漢字漢字漢字漢字漢字漢字"
	heard := int64(1)
	d := watching(evil, Event{Seq: 1, Kind: evil, What: evil, ID: evil, Name: evil, Detail: evil, Severity: evil})
	d.Node, d.Leader, d.Cluster, d.Partial = Machine{ID: evil, Name: evil}, &Machine{Name: evil}, evil, evil
	d.Members = []MemberStatus{{ID: evil, Name: evil, Role: evil, Platform: evil, Version: evil, Provisioning: evil, Endpoints: wire.Endpoints{FC: evil, Raft: evil}, HeardMS: &heard}}
	d.Waiting = []EnrollRow{{ID: evil, Name: evil, Key: evil, Source: evil}}
	d.Queue = WatchQueue{Paused: true, Why: evil, Entries: []QueueEntry{{ID: evil, Name: evil, State: evil, Stage: evil, LastError: evil}}}
	d.Conditions = []ConditionStatus{{ID: evil, Severity: evil, Detail: evil, Remedy: evil}}
	d.View.Mode, d.View.Leads = evil, false
	var w watched
	fresh, _ := w.take(time.Unix(1, 0), d)
	w.fails(time.Unix(2, 0), &Failure{Reason: evil})
	var l lines
	for i := range fresh {
		fresh[i].line(&l)
	}
	text := l.String() + pictureText(picture(&w, time.Unix(3, 0), 80, 40))
	for _, bad := range []string{"\x1b", "\a", "\r", "$(", "`", "\u202e", "\u200b", ";", "|", "&"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q stands in what is shown", bad)
		}
	}
	for i, r := range picture(&w, time.Unix(3, 0), 80, 40) {
		if strings.ContainsAny(r.text, "\n\t") {
			t.Errorf("row %d is more than one: %q", i, r.text)
		}
		if got := width(cutTo(r.text, 79)); got > 79 {
			t.Errorf("row %d takes %d columns", i, got)
		}
	}
}

func TestColumns(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"short", 9, "short"}, {"exactly", 7, "exactly"}, {"longer", 5, "long~"}, {"漢字漢字", 8, "漢字漢字"}, {"漢字漢字", 7, "漢字漢~"}, {"漢字漢字", 6, "漢字~"}, {"e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301"}, {"e\u0301e\u0301e\u0301", 2, "e\u0301~"},
	} {
		if got := cutTo(c.text, c.most); got != c.want || width(got) > c.most {
			t.Errorf("%q in %d: %q of %d", c.text, c.most, got, width(got))
		}
	}
	if got := columnsOf(column{"a", 4}, column{"漢字漢", 4}, column{"end", 0}); got != "a    漢~  end" {
		t.Errorf("%q", got)
	}
}

// collector keeps what a verb writes, each write by itself.
type collector struct {
	mu     sync.Mutex
	writes []string
}

func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes = append(c.writes, string(p))
	return len(p), nil
}

func (c *collector) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.writes, "")
}

// TestWatchDraws: a picture over the last one, the terminal as it was at the end, colour where it is wanted only.
func TestWatchDraws(t *testing.T) {
	for _, colour := range []bool{false, true} {
		out := &collector{}
		s := &screen{out: out, term: &Terminal{Redraw: true, Colour: colour, Size: func() (int, int) { return 80, 24 }}}
		var w watched
		w.take(time.Unix(1, 0), watching("one"))
		if s.begin() != nil || s.draw(&w, time.Unix(1, 0)) != nil || s.draw(&w, time.Unix(2, 0)) != nil {
			t.Fatal("not drawn")
		}
		s.end()
		if len(out.writes) != 4 || out.writes[0] != toOther+toHome+clearAll || out.writes[3] != toFirst || !strings.HasPrefix(out.writes[1], toHome) || !strings.HasSuffix(out.writes[1], clearAll) {
			t.Errorf("%q", out.writes)
		}
		if got := strings.Contains(out.text(), "\x1b[1m") || strings.Contains(out.text(), "\x1b[36m"); got != colour {
			t.Errorf("colour %v, wanted %v", got, colour)
		}
		if strings.Count(out.writes[1], "\r\n") >= 24 {
			t.Error("more rows than the terminal has")
		}
	}
}

// TestWatchGoesOn: a verb that is typed at a node tells what happens there, also after the node was away, and ends when it is
// interrupted. The times are virtual.
func TestWatchGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, feed := leaderNode(), NewFeed()
		feed.Add(Event{Kind: EventNode, What: "serves"})
		var away sync.Mutex
		boot, gone := "one", false
		f.statusOf = func(r wire.StatusRequest) (any, error) {
			away.Lock()
			defer away.Unlock()
			if gone {
				return nil, wire.NewError(wire.CodeBusy, "it is starting", "")
			}
			d := WatchStatus{Boot: boot, Node: Machine{ID: idA}}
			d.Events, d.Next, d.Missed = feed.After(r.After)
			return d, nil
		}
		set := func(f func()) { away.Lock(); defer away.Unlock(); f() }
		ctx, interrupt := contextWithCancel(t)
		out, errs := &collector{}, &collector{}
		done := make(chan int, 1)
		server := NewServer(ServerConfig{Backend: f})
		defer server.Close()
		go func() {
			done <- Run(ctx, words("watch"), config.Config{Scheduler: "10.1.0.1:6674"}, out, errs, dialOnly(server))
		}()
		time.Sleep(1500 * time.Millisecond)
		feed.Add(Event{Kind: EventStartup, What: "heard", ID: idB, Name: "birch"})
		time.Sleep(time.Second)
		set(func() { gone = true })
		time.Sleep(5 * time.Second)
		set(func() {
			gone, boot = false, "two"
			feed = NewFeed()
			feed.Add(Event{Kind: EventRun, What: "begun", Name: "birch"})
		})
		time.Sleep(3 * time.Second)
		interrupt()
		if exit := <-done; exit != config.ExitOK {
			t.Errorf("exit status %d: %s", exit, errs.text())
		}
		at := 0
		for _, want := range []string{"node serves", "startup heard " + idB + " birch", "watch silent " + idA, "it is starting", "watch answers", "run begun - birch"} {
			i := strings.Index(out.text()[at:], want)
			if i < 0 {
				t.Fatalf("no %q from %d on in:\n%s", want, at, out.text())
			}
			at += i
		}
		if n := strings.Count(out.text(), "\n"); n != 6 {
			t.Errorf("%d lines:\n%s", n, out.text())
		}
	})
}

// TestWatchOnce: with --json it is one picture; where nobody answers it does not wait for anybody.
func TestWatchOnce(t *testing.T) {
	f := leaderNode()
	f.status["watch"] = watching("one", Event{Seq: 1, Kind: EventRun, What: "begun"})
	exit, out, errs := nodes{"": f}.run(t, words("watch"), config.Config{JSON: true}, "")
	if exit != 0 || errs != "" || wantOneJSON(t, out)["boot"] != "one" {
		t.Errorf("%d %s %s", exit, out, errs)
	}
	if exit, out, errs := (nodes{}).run(t, words("watch"), config.Config{}, ""); exit != config.ExitNobody || out != "" || !strings.Contains(errs, "remedy:") {
		t.Errorf("%d %q %q", exit, out, errs)
	}
}
