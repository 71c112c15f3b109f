package page

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/control"
)

// TestOneTimeAddress: the token of pacectl dashboard opens the page once, within its life, for the browser that used it.
func TestOneTimeAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNode{}
		p := New(Config{Backend: f, Entropy: counting()})
		defer p.Close()
		b := &browser{p: p, reach: control.Reach{Loopback: true}, secret: NewSession}
		token, life := p.Ticket()
		if life != 5*time.Minute || len(token) != 43 {
			t.Fatalf("%s %q", life, token)
		}
		w := b.ask(http.MethodPost, "/api/v1/session", `{"token":"`+token+`"}`)
		c := w.Result().Cookies()
		if w.Code != 200 || len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Path != "/" || c[0].Domain != "" || c[0].Name != "pace_6690" || c[0].Secure {
			t.Fatalf("%d %s %+v", w.Code, w.Body, c)
		}
		wantRefused(t, b.ask(http.MethodPost, "/api/v1/session", `{"token":"`+token+`"}`), http.StatusUnauthorized, "token")
		late, _ := p.Ticket()
		time.Sleep(TicketLife)
		wantRefused(t, b.ask(http.MethodPost, "/api/v1/session", `{"token":"`+late+`"}`), http.StatusUnauthorized, "token")
		wantRefused(t, b.ask(http.MethodPost, "/api/v1/session", `{"token":""}`), http.StatusUnauthorized, "token")

		b.cookie, b.secret = c[0], read[SessionDocument](t, w).Secret
		if w := b.ask(http.MethodPost, "/api/v1/queue/pause", `{}`); w.Code != 200 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
		time.Sleep(SessionLife - TicketLife)
		wantRefused(t, b.ask(http.MethodPost, "/api/v1/queue/pause", `{}`), http.StatusUnauthorized, "session")
	})
}

// counting is entropy that differs at every call.
func counting() func([]byte) {
	n := byte(0)
	return func(b []byte) {
		n++
		for i := range b {
			b[i] = n
		}
	}
}

// TestTokenInAddressIsNone: what stands in a query is neither a ticket nor a session (P42).
func TestTokenInAddressIsNone(t *testing.T) {
	f := &fakeNode{}
	p := newPage(t, f)
	b := signedIn(t, p)
	token, _ := p.Ticket()
	stranger := &browser{p: p, reach: control.Reach{Loopback: true}, secret: NewSession}
	for _, query := range []string{"?token=" + token, "?session=" + b.secret, "?" + b.cookie.Name + "=" + b.cookie.Value} {
		wantRefused(t, stranger.ask(http.MethodPost, "/api/v1/queue/pause"+query, `{}`), http.StatusUnauthorized, "session")
		wantRefused(t, stranger.ask(http.MethodPost, "/api/v1/session"+query, `{}`), http.StatusUnauthorized, "token")
	}
	if got := f.changes(); len(got) != 0 {
		t.Errorf("done: %q", got)
	}
	if !p.sessions.spend(time.Now(), token) {
		t.Error("the ticket was spent by a query")
	}
}

// TestCookieAloneChangesNothing: a cookie goes to every port of a machine, so that another program there may hold it.
func TestCookieAloneChangesNothing(t *testing.T) {
	f := &fakeNode{}
	p := newPage(t, f)
	b, other := signedIn(t, p), signedIn(t, p)
	b.secret = ""
	wantRefused(t, b.ask(http.MethodPost, "/api/v1/queue/pause", `{}`), http.StatusForbidden, "header")
	for _, secret := range []string{NewSession, "x", other.secret, b.cookie.Value} {
		b.secret = secret
		wantRefused(t, b.ask(http.MethodPost, "/api/v1/queue/pause", `{}`), http.StatusUnauthorized, "session")
	}
	d := read[SessionDocument](t, b.ask(http.MethodGet, "/api/v1/session", ""))
	if d.Changes || d.Secret != "" {
		t.Errorf("the cookie alone got %+v", d)
	}
	b.ask(http.MethodDelete, "/api/v1/session", "")
	if read, _, _ := p.sessions.look(time.Now(), b.cookie.Value, ""); !read {
		t.Error("the cookie alone ended a session")
	}
	if got := f.changes(); len(got) != 0 {
		t.Errorf("done: %q", got)
	}
}

func TestLeaving(t *testing.T) {
	p := newPage(t, &fakeNode{})
	b := signedIn(t, p)
	if w := b.ask(http.MethodDelete, "/api/v1/session", ""); w.Code != 200 || w.Result().Cookies()[0].MaxAge >= 0 {
		t.Errorf("%d %v", w.Code, w.Result().Cookies())
	}
	wantRefused(t, b.ask(http.MethodPost, "/api/v1/queue/pause", `{}`), http.StatusUnauthorized, "session")
}

// TestNumbersOfSessions: the oldest makes room.
func TestNumbersOfSessions(t *testing.T) {
	s := newSessions(counting())
	now := time.Unix(1_800_000_000, 0)
	first := s.ticket(now)
	for i := range ticketsMost {
		s.ticket(now.Add(time.Duration(i+1) * time.Second))
	}
	if len(s.tickets) != ticketsMost || s.spend(now, first) {
		t.Errorf("%d tickets", len(s.tickets))
	}
	cookie, header := s.begin(now)
	for i := range sessionsMost {
		s.begin(now.Add(time.Duration(i+1) * time.Second))
	}
	if read, change, _ := s.look(now, cookie, header); len(s.open) != sessionsMost || read || change {
		t.Errorf("%d sessions, %v %v", len(s.open), read, change)
	}
	for i := range sourcesMost + 10 {
		s.wrong(now.Add(time.Duration(i)*time.Millisecond), strings.Repeat("x", i))
	}
	if len(s.tries) != sourcesMost {
		t.Errorf("%d sources", len(s.tries))
	}
}
