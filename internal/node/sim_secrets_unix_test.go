//go:build unix

package node

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/control/page"
	"pace-node/internal/wire"
)

// keptLog is a log that keeps every line.
type keptLog struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (k *keptLog) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf.Write(b)
}

func (k *keptLog) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.buf.String()
}

// spellings are the forms in which bytes could get into a log.
func spellings(b []byte) []string {
	return []string{hex.EncodeToString(b), base64.StdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b), fmt.Sprint(b)}
}

// lastSays are the last lines that hold a text.
func lastSays(log, text string, most int) (out []string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			out = append(out, line)
		}
	}
	return out[max(0, len(out)-most):]
}

// opensPage spends a one-time address of the node's page, arms and ends the window in the session that it gives, with wrong
// credentials before and after, and returns what nobody else may read: the token, the cookie and what the page's header carries.
func opensPage(t *testing.T, n *Node) []string {
	t.Helper()
	p := n.startPage()
	defer p.Close()
	token, _ := p.Ticket()
	spare, _ := p.Ticket()
	var cookie *http.Cookie
	header := "new"
	ask := func(status int, path, body string) []byte {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1:6690/api/v1/"+path, strings.NewReader(body))
		r = r.WithContext(control.WithReach(r.Context(), control.Reach{Loopback: true}))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(page.HeaderName, header)
		if cookie != nil {
			r.AddCookie(cookie)
		}
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code != status {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		for _, c := range w.Result().Cookies() {
			cookie = c
		}
		return w.Body.Bytes()
	}
	var session page.SessionDocument
	if err := json.Unmarshal(ask(http.StatusOK, "session", `{"token":"`+token+`"}`), &session); err != nil || session.Secret == "" || cookie == nil {
		t.Fatalf("%+v, %v", session, err)
	}
	out := []string{token, spare, cookie.Value, session.Secret}
	ask(http.StatusUnauthorized, "waiting/window", `{"minutes":"1","token":"`+spare+`"}`)
	header = session.Secret
	for _, minutes := range []string{"1", "0"} {
		ask(http.StatusOK, "waiting/window", `{"minutes":"`+minutes+`"}`)
	}
	ask(http.StatusUnauthorized, "session", `{"token":"`+token+`"}`)
	ask(http.StatusBadRequest, "waiting/approve", `{"id":"`+spare+`","key":"`+session.Secret+`"`)
	return out
}

// TestSimNoSecretIsLogged: machines join and are provisioned by a helper that answers well, that answers half a document,
// that answers keys which do not fit, and that says a key on stderr; a browser opens the page. At level debug, and in every status
// that an operator is shown, there is no private key, no value of an answer, nothing of a default, and nothing that opens the page.
func TestSimNoSecretIsLogged(t *testing.T) {
	dir := t.TempDir()
	helper := filepath.Join(dir, "helper")
	const pem = `-----BEGIN PRIVATE KEY-----\nTUlJc2VjcmV0LXBlbQ\n-----END PRIVATE KEY-----\n`
	answer := `{"configuration":{"password":"secret-value","plugin.x":"secret-value"},"msg":"m","server_claims":{"c":"secret-claim"},
"action_policies":{"p.policy":"secret-policy"},"pace":{"files":{"token":{"text":"secret-file","mode":"0600"}}}`
	write := func(body string) {
		if err := os.WriteFile(helper, []byte("#!/bin/sh\ncat >/dev/null\n"+body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	bodies := []string{
		"cat <<'E'\n" + answer + "\nE",
		"cat <<'E'\n" + answer + `,"key":"` + pem + "\"}trailing\nE",
		"cat <<'E'\n" + answer + `,"key":"` + pem + `","certificate":"` + pem + "\"}\nE",
		"printf -- '" + pem + "' >&2; exit 1",
	}
	write(bodies[0])
	given := filepath.Join(dir, "default.json")
	if err := os.WriteFile(given, []byte(`{"configuration":{"a":"secret-default"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	simulate(t, 250, func(t *testing.T, s *sim) {
		log := &keptLog{}
		debug := func(c *Config) {
			c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			c.Settings.AlertExec = "/bin/cat"
		}
		a := s.boot(0, debug, func(c *Config) { c.Settings.Provision.Helper = helper })
		time.Sleep(2 * time.Second)
		b, d := s.boot(1, debug), s.boot(2, debug, func(c *Config) { c.Settings.Provision.Default = given })
		s.joined(a, b)
		s.joined(a, d)
		s.promote(a, d)
		s.must(os.WriteFile(given, []byte(`secret-default {"configuration":`), 0o600))
		var shown bytes.Buffer
		look := func() {
			for _, n := range s.nodes {
				for _, what := range []string{"node", "cluster", "conditions", "audit"} {
					doc, err := n.Status(context.Background(), local, wire.StatusRequest{What: what})
					s.must(err)
					shown.Write(doc)
				}
			}
			for _, r := range []wire.QueueRequest{{Op: "list"}, {Op: "show", ID: b.id}} {
				doc, err := a.Queue(context.Background(), local, r)
				s.must(err)
				out, err := json.Marshal(doc)
				s.must(err)
				shown.Write(out)
			}
		}
		for i, body := range append(bodies, "cat <<'E'\n"+answer+"}\nE") {
			write(body)
			_, err := a.Queue(context.Background(), local, wire.QueueRequest{Op: "reprovision", ID: b.id})
			if err != nil && i == 0 {
				s.must(err)
			}
			_, _ = a.Queue(context.Background(), local, wire.QueueRequest{Op: "retry", ID: b.id})
			time.Sleep(2 * time.Minute)
			look()
		}
		if !provisioned(b, a) {
			t.Fatalf("it is not provisioned; the last lines that say why:\n%s", strings.Join(lastSays(log.String(), "machine was not provisioned", 3), "\n"))
		}
		s.must(os.WriteFile(given, []byte(`{"configuration":{"a":"secret-default"}}`), 0o600))
		s.halt(2)
		s.boot(2)
		look()
		browser := opensPage(t, a)
		look()

		secrets := []string{"secret-", "TUlJc2VjcmV0LXBlbQ", base64.StdEncoding.EncodeToString([]byte("secret-value")), "PRIVATE KEY-----\\n"}
		secrets = append(secrets, browser...)
		for i, n := range s.nodes {
			seed := n.key.Seed()
			secrets = append(secrets, spellings(seed[:])...)
			secrets = append(secrets, spellings(n.key.Ed25519())...)
			for name, text := range s.tree(i) {
				if strings.HasSuffix(name, "/node-key") {
					secrets = append(secrets, strings.Fields(string(text))...)
				}
			}
		}
		text := log.String() + shown.String()
		if !strings.Contains(text, "level=DEBUG") || !strings.Contains(text, "machine was not provisioned") || !strings.Contains(text, "withheld") {
			t.Fatal("the log does not hold what it is looked at for")
		}
		for _, secret := range secrets {
			if at := strings.Index(text, secret); len(secret) > 6 && at >= 0 {
				t.Errorf("%q is said: %s", secret, text[max(0, at-300):min(len(text), at+len(secret)+60)])
			}
		}
	})
}
