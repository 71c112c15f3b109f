package page

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// actionCells: what the node is asked for by each action.
var actionCells = []struct{ path, body, asks string }{
	{"waiting/approve", `{"id":"` + idA + `","key":"` + keyA + `"}`, "approve "},
	{"waiting/reject", `{"id":"` + idA + `","key":"` + keyA + `"}`, "reject "},
	{"waiting/window", `{"minutes":"15"}`, "window 900"},
	{"waiting/window", `{"minutes":"0"}`, "window off "},
	{"queue/retry", `{"id":"` + idA + `"}`, "queue retry " + idA},
	{"queue/drop", `{"id":"` + idA + `"}`, "queue drop " + idA},
	{"queue/reprovision", `{"id":"` + idA + `"}`, "queue reprovision " + idA},
	{"queue/pause", `{}`, "queue pause "},
	{"queue/resume", `{}`, "queue resume "},
	{"members/promote", `{"id":"` + idA + `"}`, "cluster admit " + idA + " 10.1.0.2:6680"},
	{"members/demote", `{"id":"` + idA + `"}`, "cluster admit-learner " + idA + " "},
	{"members/forget", `{"id":"` + idA + `"}`, "cluster forget " + idA + " "},
}

func aFleet() control.ClusterStatus {
	return control.ClusterStatus{V: 1, Members: []control.MemberStatus{{ID: idA, Role: "learner", Endpoints: wire.Endpoints{FC: "10.1.0.2:6674"}}, {ID: "unheard", Role: "learner"}}}
}

func checkActions(t *testing.T) error {
	done := map[string]bool{}
	for _, c := range actionCells {
		f := &fakeNode{fleet: aFleet()}
		p := newPage(t, f)
		b := signedIn(t, p)
		w := b.ask(http.MethodPost, "/api/v1/"+c.path, c.body)
		asked := f.changes()
		if w.Code != 200 || len(asked) != 1 || !strings.HasPrefix(asked[0], c.asks) {
			return fmt.Errorf("%s: %d %s, asked %q", c.path, w.Code, w.Body, asked)
		}
		done[c.path] = true
		for _, missing := range []string{`"id"`, `"key"`, `"minutes"`} {
			if strings.Contains(c.body, missing) {
				w := b.ask(http.MethodPost, "/api/v1/"+c.path, strings.Replace(c.body, missing, `"x"`, 1))
				if w.Code != http.StatusBadRequest || len(f.changes()) != 1 {
					return fmt.Errorf("%s without %s: %d %s", c.path, missing, w.Code, w.Body)
				}
			}
		}
	}
	for _, a := range Actions {
		if !done[a.Path] {
			return fmt.Errorf("%s has no cell", a.Path)
		}
	}
	return nil
}

func TestActions(t *testing.T) {
	if err := checkActions(t); err != nil {
		t.Fatal(err)
	}
}

func TestMutationActions(t *testing.T) {
	defer func() { routes = allRoutes() }()
	for i := range Actions {
		was := Actions[i]
		Actions[i].Do = Actions[(i+1)%len(Actions)].Do
		routes = allRoutes()
		if checkActions(t) == nil {
			t.Errorf("%s doing what the next one does goes unseen", was.Path)
		}
		Actions[i] = was
		if was.Takes != nil {
			Actions[i].Takes = nil
			routes = allRoutes()
			if checkActions(t) == nil {
				t.Errorf("%s taking anything goes unseen", was.Path)
			}
			Actions[i] = was
		}
	}
}

// TestWhatCannotBeMeant: refused in words before the node is asked.
func TestWhatCannotBeMeant(t *testing.T) {
	f := &fakeNode{fleet: aFleet()}
	p := newPage(t, f)
	b := signedIn(t, p)
	for _, c := range []struct{ path, body string }{
		{"waiting/approve", `{"id":"` + idA + `","key":"short"}`},
		{"waiting/approve", `{"id":"<img src=x>","key":"` + keyA + `"}`},
		{"waiting/window", `{"minutes":"-1"}`},
		{"waiting/window", `{"minutes":"1441"}`},
		{"waiting/window", `{"minutes":"a while"}`},
		{"members/promote", `{"id":"nobody"}`},
		{"members/promote", `{"id":"unheard"}`},
	} {
		wantRefused(t, b.ask(http.MethodPost, "/api/v1/"+c.path, c.body), http.StatusConflict, "refused-by-rule")
	}
	if got := f.changes(); len(got) != 0 {
		t.Errorf("asked %q", got)
	}
}

// TestNoGetChanges: P42. Every path is got, under a session too, and the node is asked for nothing but documents.
func TestNoGetChanges(t *testing.T) {
	f := &fakeNode{fleet: aFleet()}
	p := newPage(t, f)
	b := signedIn(t, p)
	for _, r := range routes {
		if r.Path == "/api/v1/events" {
			continue // TestStream
		}
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			b.ask(method, r.Path+"?id="+idA+"&key="+keyA, "", withHeader)
		}
	}
	if got := f.changes(); len(got) != 0 {
		t.Errorf("asked %q", got)
	}
	if read, change, _ := p.sessions.look(time.Now(), b.cookie.Value, b.secret); !read || !change {
		t.Error("the session was ended by a GET")
	}
}

// TestChangesAreBounded: one more at once is refused, and done once there is room.
func TestChangesAreBounded(t *testing.T) {
	f := &fakeNode{hold: make(chan struct{})}
	p := newPage(t, f)
	b := signedIn(t, p)
	var wait sync.WaitGroup
	for range actionsMost {
		p.actions <- struct{}{}
	}
	wantRefused(t, b.ask(http.MethodPost, pause, `{}`), http.StatusServiceUnavailable, "actions")
	<-p.actions
	close(f.hold)
	wait.Go(func() {
		if w := b.ask(http.MethodPost, pause, `{}`); w.Code != 200 {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
	wait.Wait()
}
