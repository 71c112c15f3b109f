package page

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// stream is a page that listens, inside a bubble of virtual time.
type stream struct {
	in     *bufio.Scanner
	cancel func()
	ended  chan struct{}
}

type got struct {
	id, name string
	event    event
}

// pipeWriter is a ResponseWriter whose bytes are read elsewhere.
type pipeWriter struct {
	*io.PipeWriter
	header http.Header
	mu     sync.Mutex
	status int
}

func (w *pipeWriter) Header() http.Header { return w.header }
func (w *pipeWriter) WriteHeader(s int)   { w.mu.Lock(); w.status = s; w.mu.Unlock() }
func (w *pipeWriter) Flush()              {}

func listen(p *Page, last string, reach control.Reach, change ...func(*http.Request)) *stream {
	ctx, cancel := context.WithCancel(context.Background())
	in, out := io.Pipe()
	w := &pipeWriter{PipeWriter: out, header: http.Header{}}
	r := httptest.NewRequest(http.MethodGet, "/api/v1/events", nil).WithContext(control.WithReach(ctx, reach))
	r.Host = "localhost:6690"
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	for _, c := range change {
		c(r)
	}
	s := &stream{in: bufio.NewScanner(in), ended: make(chan struct{})}
	s.in.Buffer(nil, 16<<20)
	go func() {
		defer close(s.ended)
		defer out.Close()
		p.ServeHTTP(w, r)
	}()
	s.cancel = func() { cancel(); in.Close(); <-s.ended }
	return s
}

// next is the next event that is no beat; of an ended stream an empty one.
func (s *stream) next(t *testing.T) got {
	t.Helper()
	for {
		if g := s.any(t); g.name != "beat" {
			return g
		}
	}
}

func (s *stream) any(t *testing.T) (g got) {
	t.Helper()
	for s.in.Scan() {
		line := s.in.Text()
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "id":
			g.id = value
		case name == "event":
			g.name = value
		case name == "data":
			if err := json.Unmarshal([]byte(value), &g.event); err != nil {
				t.Fatalf("%v: %s", err, value)
			}
		case line == "" && g.name != "":
			return g
		}
	}
	return g
}

func (g got) doc(name string) *Change {
	for i := range g.event.Docs {
		if g.event.Docs[i].Doc == name {
			return &g.event.Docs[i]
		}
	}
	return nil
}

var here = control.Reach{Loopback: true}

func fleetOf(n int) control.ClusterStatus {
	s := control.ClusterStatus{V: 1, Cluster: "c", View: control.View{Leads: true, Revision: 1}}
	for i := range n {
		zero := int64(0)
		s.Members = append(s.Members, control.MemberStatus{ID: fmt.Sprintf("%032d", i), Name: fmt.Sprint("m", i), Role: "learner", HeardMS: &zero})
	}
	return s
}

// TestStream: the whole at first, then what changed and nothing else, and a beat where nothing does.
func TestStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{fleet: fleetOf(3)}
		p := New(Config{Backend: f, Entropy: counting()})
		s := listen(p, "", here)
		first := s.next(t)
		if first.name != "state" || len(first.event.Docs) != len(documents) || len(first.doc("fleet").Rows) != 3 {
			t.Fatalf("%+v", first)
		}
		if beat := s.any(t); beat.name != "beat" {
			t.Fatalf("%+v", beat)
		}
		f.set(func(f *fakeNode) { f.fleet.Members[1].Role = "voter" })
		changed := s.next(t)
		c := changed.doc("fleet")
		if changed.name != "change" || len(changed.event.Docs) != 1 || c.Head != nil || len(c.Rows) != 1 || c.Rows[0].Key != fmt.Sprintf("%032d", 1) {
			t.Fatalf("%+v", changed)
		}
		f.set(func(f *fakeNode) { f.fleet.Members = f.fleet.Members[:2]; f.fleet.View.Revision = 2 })
		gone := s.next(t)
		if c := gone.doc("fleet"); c.Head == nil || len(c.Rows) != 0 || len(c.Gone) != 1 || c.Gone[0] != fmt.Sprintf("%032d", 2) {
			t.Fatalf("%+v", c)
		}

		// Whoever comes back gets what it has not seen, and nothing where it has seen all.
		back := listen(p, changed.id, here)
		if g := back.next(t); g.name != "change" || g.id != gone.id {
			t.Errorf("%+v", g)
		}
		still := listen(p, gone.id, here)
		if g := still.any(t); g.name != "beat" {
			t.Errorf("%+v", g)
		}
		// Whoever saw another node's, or another time's, gets the whole.
		for _, id := range []string{"5-1", "x", "-1--1", strings.Split(gone.id, "-")[0] + "-99"} {
			other := listen(p, id, here)
			if g := other.next(t); g.name != "state" {
				t.Errorf("%s: %+v", id, g)
			}
			other.cancel()
		}
		for _, s := range []*stream{back, still, s} {
			s.cancel()
		}
		p.Close()
	})
}

// TestNobodyLooksNobodyAsks: with no stream the node is left alone, and all streams together ask once a second.
func TestNobodyLooksNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{fleet: fleetOf(1)}
		p := New(Config{Backend: f, Entropy: counting()})
		asked := func() (n int) {
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, a := range f.asked {
				if a == "read cluster" {
					n++
				}
			}
			return n
		}
		time.Sleep(time.Minute)
		if n := asked(); n != 0 {
			t.Errorf("asked %d times for nobody", n)
		}
		var all []*stream
		for range 5 {
			s := listen(p, "", here)
			s.next(t)
			all = append(all, s)
			go func() { // it takes what comes
				for s.in.Scan() {
				}
			}()
		}
		before := asked()
		time.Sleep(time.Minute)
		if n := asked() - before; n < 59 || n > 61 {
			t.Errorf("asked %d times in a minute", n)
		}
		for _, s := range all {
			s.cancel()
		}
		synctest.Wait()
		before = asked()
		time.Sleep(time.Minute)
		if n := asked() - before; n != 0 {
			t.Errorf("asked %d times for nobody", n)
		}
		p.Close()
	})
}

// TestStreamsAreBounded: one more is refused in words, and there is room again once one has gone. Who only reads cannot take
// the room of who opened the page.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Backend: &fakeNode{}, Entropy: counting(), Metrics: control.NewMetrics(nil, nil)})
		var all []*stream
		for range 24 {
			s := listen(p, "", here)
			s.next(t)
			all = append(all, s)
		}
		cookie, _ := p.sessions.begin(time.Now())
		opened := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName(r), Value: cookie}) }
		b := onLoopback(&browser{p: p})
		wantRefused(t, b.ask(http.MethodGet, "/api/v1/events", ""), http.StatusServiceUnavailable, "streams")
		for range 8 {
			s := listen(p, "", here, opened)
			if g := s.next(t); g.name != "state" {
				t.Fatalf("who opened the page is sent %+v", g)
			}
			all = append(all, s)
		}
		wantRefused(t, b.ask(http.MethodGet, "/api/v1/events", "", opened), http.StatusServiceUnavailable, "streams")
		w := b.ask(http.MethodGet, "/api/v1/events", "")
		wantRefused(t, w, http.StatusServiceUnavailable, "streams")
		if w.Header().Get("Retry-After") == "" {
			t.Error("it does not say when to come again")
		}
		all[0].cancel()
		again := listen(p, "", here)
		if g := again.next(t); g.name != "state" {
			t.Errorf("%+v", g)
		}
		again.cancel()
		for _, s := range all[1:] {
			s.cancel()
		}
		p.Close()
	})
}

// TestStopEndsStreams: a node that stops waits for no page.
func TestStopEndsStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Backend: &fakeNode{}, Entropy: counting()})
		s := listen(p, "", here)
		s.next(t)
		p.Close()
		<-s.ended
		s.cancel()
	})
}

// TestStreamEndsWithTheSession: beyond loopback a stream is read for as long as its session lasts.
func TestStreamEndsWithTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{Backend: &fakeNode{}, Entropy: counting()})
		cookie, _ := p.sessions.begin(time.Now())
		s := listen(p, "", beyond, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "pace_6690", Value: cookie}) })
		s.next(t)
		p.sessions.end(cookie)
		for g := s.any(t); g.name != ""; g = s.any(t) {
		}
		<-s.ended
		s.cancel()
		p.Close()
	})
}

// TestSlowPageGetsTheWhole: what a page did not take is not kept for ever; it gets the whole instead.
func TestSlowPageGetsTheWhole(t *testing.T) {
	l := newLive(nil)
	l.streams = 1
	run := l.run
	for i := range 3 * keptMost {
		l.publish(run, []byte(fmt.Sprint("whole ", i)), []byte("change"))
	}
	if len(l.kept) != keptMost {
		t.Errorf("%d are kept", len(l.kept))
	}
	if name, events, _, _, _ := l.since(run, 1); name != "state" || len(events) != 1 {
		t.Errorf("%s %d", name, len(events))
	}
	if name, events, _, n, _ := l.since(run, l.tick-3); name != "change" || len(events) != 3 || n != l.tick {
		t.Errorf("%s %d", name, len(events))
	}
	big := make([]byte, keptBytes)
	l.publish(run, []byte("v"), big)
	l.publish(run, []byte("w"), big)
	if len(l.kept) != 1 || l.bytes != keptBytes {
		t.Errorf("%d changes of %d bytes are kept", len(l.kept), l.bytes)
	}
	l.publish(run-1, []byte("of a poller that was stopped"), []byte("x"))
	if string(l.state) != "w" {
		t.Errorf("%s", l.state)
	}
}

// TestWhatCannotBeHadIsSaid: a document that the leader alone has is missing in words, beside the others.
func TestWhatCannotBeHadIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{fleet: fleetOf(1), away: wire.NewError(wire.CodeNotLeader, "", "the waiting list is on the leader")}
		p := New(Config{Backend: f, Entropy: counting()})
		s := listen(p, "", here)
		g := s.next(t)
		e, _ := g.doc("waiting").Head["error"].(map[string]any)
		if e["code"] != "not-leader" || e["reason"] == "" || e["remedy"] == "" || len(g.doc("fleet").Rows) != 1 {
			t.Errorf("%+v", g.doc("waiting"))
		}
		f.set(func(f *fakeNode) { f.away = nil; f.waiting = control.EnrollList{V: 1, Cluster: "c"} })
		if c := s.next(t).doc("waiting"); c == nil || c.Head["error"] != nil {
			t.Errorf("%+v", c)
		}
		s.cancel()
		p.Close()
	})
}

// TestLeaderIsAsked: what is not here is asked of the leader, and its refusal is the answer.
func TestLeaderIsAsked(t *testing.T) {
	f := &fakeNode{away: wire.NewError(wire.CodeNotLeader, "10.1.0.9:6674", ""), fail: wire.NewError(wire.CodeNotLeader, "10.1.0.9:6674", "")}
	var asked []wire.Verb
	refuse := false
	p := newPage(t, f, func(c *Config) {
		c.Leader = func(_ context.Context, v wire.Verb, payload []byte) ([]byte, error) {
			asked = append(asked, v)
			if refuse {
				return nil, wire.NewError(wire.CodeRefusedByRule, "the waiting list is not for a learner", "run it on a voter")
			}
			if c, err := wire.DecodeEnrollControl(payload); err != nil {
				return nil, err
			} else if c.Op == wire.ControlList {
				return json.Marshal(control.EnrollList{V: 1, Cluster: "of the leader"})
			}
			return json.Marshal(control.Done{Said: "the leader did it"})
		}
	})
	b := signedIn(t, p)
	if d := read[control.EnrollList](t, b.ask(http.MethodGet, "/api/v1/waiting", "")); d.Cluster != "of the leader" {
		t.Errorf("%+v", d)
	}
	body := `{"id":"` + idA + `","key":"` + keyA + `"}`
	if d := read[control.Done](t, b.ask(http.MethodPost, "/api/v1/waiting/approve", body)); d.Said != "the leader did it" {
		t.Errorf("%+v", d)
	}
	refuse = true
	wantRefused(t, b.ask(http.MethodPost, "/api/v1/waiting/approve", body), http.StatusConflict, "refused-by-rule")
	if said := b.ask(http.MethodGet, "/api/v1/waiting", "").Body.String(); !strings.Contains(said, "not for a learner") || !strings.Contains(said, "the leader is at 10.1.0.9:6674") {
		t.Errorf("whom to ask is not said: %s", said)
	}
	if len(asked) != 4 {
		t.Errorf("asked %v", asked)
	}
	f.set(func(f *fakeNode) { f.fail = errors.New("disk full") })
	wantRefused(t, b.ask(http.MethodPost, "/api/v1/waiting/approve", body), http.StatusConflict, "failed")
}
