//go:build e2e

package e2e

import (
	"bufio"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// pageClient asks a node's web page as a browser does, from a host.
type pageClient struct {
	t      *testing.T
	http   *http.Client
	base   string // http://127.0.0.1:6690
	cookie *http.Cookie
	secret string
}

func (h *host) pageClient(t *testing.T, base string) *pageClient {
	c := &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{DialContext: h.dial, DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	return &pageClient{t: t, http: c, base: base}
}

func (c *pageClient) request(method, path, body string, header ...string) (status int, answer string) {
	c.t.Helper()
	r, err := http.NewRequest(method, c.base+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.cookie != nil {
		r.AddCookie(c.cookie)
	}
	if c.secret != "" {
		r.Header.Set("X-Pace-Session", c.secret)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := c.http.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	for _, k := range resp.Cookies() {
		c.cookie = k
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// older waits until a fleet that begins from now on is the younger one, so that its machine is the one that yields.
func (n *node) older() {
	n.t.Helper()
	var d struct{ Created int64 }
	if err := json.Unmarshal([]byte(n.must("--cluster-status", "--json")), &d); err != nil || d.Created == 0 {
		n.t.Fatalf("%s: when was its fleet created? %v", n.name, err)
	}
	until(n.t, n.name+"'s fleet is older than a second", func() (bool, string) { return time.Now().Unix() > d.Created, "" })
}

// oneTime is the token of an address that pacectl dashboard prints.
func (n *node) oneTime() (address, token string) {
	n.t.Helper()
	out, err := n.pacectl("dashboard")
	if err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	address, _, _ = strings.Cut(out, "\n")
	_, token, ok := strings.Cut(address, "/#token=")
	if !ok {
		n.t.Fatalf("pacectl dashboard prints %q", out)
	}
	return address, token
}

// opens takes a one-time token for a session.
func (c *pageClient) opens(token string) {
	c.t.Helper()
	c.secret = "new"
	status, body := c.request(http.MethodPost, "/api/v1/session", `{"token":"`+token+`"}`)
	var d struct{ Secret string }
	if err := json.Unmarshal([]byte(body), &d); err != nil || status != http.StatusOK || d.Secret == "" {
		c.t.Fatalf("%d %s", status, body)
	}
	c.secret = d.Secret
}

// approves approves whoever waits under a name from the page of another machine than the leader perhaps.
func (c *pageClient) approves(name string) {
	c.t.Helper()
	until(c.t, name+" is approved from the page", func() (bool, string) {
		_, body := c.request(http.MethodGet, "/api/v1/waiting", "")
		var list struct {
			Rows []struct{ ID, Key, Name, Decision string }
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			c.t.Fatal(err)
		}
		for _, r := range list.Rows {
			if r.Name == name && r.Decision == "waiting" {
				status, body := c.request(http.MethodPost, "/api/v1/waiting/approve", fmt.Sprintf(`{"id":%q,"key":%q}`, r.ID, r.Key))
				return status == http.StatusOK, body
			}
		}
		return false, body
	})
}

// TestPageOnLoopbackIsPrivate: no name but this machine's, no other site, no GET and no token in an address does anything.
func TestPageOnLoopbackIsPrivate(t *testing.T) { // field case P42
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered, "--log-level=debug")
	a.older()
	b := l.hosts[1].start(t, "birch")
	id, key := b.asks(a)
	const loopback = "http://127.0.0.1:6690"
	anybody := l.hosts[0].pageClient(t, loopback)
	_, token := a.oneTime()
	opened := l.hosts[0].pageClient(t, loopback)
	opened.opens(token)
	approve := fmt.Sprintf(`{"id":%q,"key":%q}`, id, key)

	for _, path := range []string{"/", "/page.js", "/metrics", "/healthz", "/api/v1/fleet", "/api/v1/waiting", "/api/v1/events", "/api/v1/session"} {
		for _, header := range [][]string{{"Host", "evil.example:6690"}, {"Origin", "http://evil.example"}} {
			if status, _ := opened.request(http.MethodGet, path, "", header...); status != http.StatusForbidden {
				t.Errorf("%s under %v: %d", path, header, status)
			}
		}
	}
	for _, header := range [][]string{{"Host", "evil.example:6690"}, {"Origin", "http://evil.example"}, {"Origin", "http://127.0.0.1:6691"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}} {
		if status, _ := opened.request(http.MethodPost, "/api/v1/waiting/approve", approve, header...); status != http.StatusForbidden {
			t.Errorf("a change under %v: %d", header, status)
		}
	}
	for _, host := range []string{"localhost:6690", "[::1]:6690", "127.0.0.1:6690", "alder:6690"} {
		if status, _ := anybody.request(http.MethodGet, "/api/v1/fleet", "", "Host", host); status != http.StatusOK {
			t.Errorf("under %s: %d", host, status)
		}
	}
	// Neither a GET, nor a token or a cookie's text in an address, nor the cookie without the header.
	_, second := a.oneTime()
	for _, query := range []string{"?id=" + id + "&key=" + key, "?token=" + second, "?" + opened.cookie.Name + "=" + opened.cookie.Value} {
		if status, _ := opened.request(http.MethodGet, "/api/v1/waiting/approve"+query, ""); status != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", query, status)
		}
		if status, _ := anybody.request(http.MethodPost, "/api/v1/waiting/approve"+query, approve, "X-Pace-Session", "new"); status != http.StatusUnauthorized {
			t.Errorf("POST %s: %d", query, status)
		}
	}
	cookieOnly := &pageClient{t: t, http: opened.http, base: loopback, cookie: opened.cookie}
	if status, _ := cookieOnly.request(http.MethodPost, "/api/v1/waiting/approve", approve); status != http.StatusForbidden {
		t.Errorf("the cookie alone: %d", status)
	}
	if status, _ := anybody.request(http.MethodPost, "/api/v1/session", `{"token":"`+token+`"}`, "X-Pace-Session", "new"); status != http.StatusUnauthorized {
		t.Errorf("an address that was used: %d", status)
	}
	if d, err := b.status(); err != nil || d.Mode != "pending" {
		t.Errorf("birch is %s: %v", d.Mode, err)
	}
	m := a.metrics()
	for reason, least := range map[string]float64{"host": 9, "origin": 12, "method": 3, "session": 3, "header": 1, "token": 1} {
		if n := m.of(t, fmt.Sprintf("pace_admin_requests_refused_total{reason=%q}", reason)); n < least {
			t.Errorf("%v counted as %s, of at least %v", n, reason, least)
		}
	}
	for name, secret := range map[string]string{"the one-time token": token, "another": second, "the cookie": opened.cookie.Value, "the header": opened.secret} {
		if strings.Contains(a.log.String(), secret) {
			t.Errorf("%s is in the log", name)
		}
	}
	// Whoever opened the address may, and the node says who did it.
	opened.approves("birch")
	b.inMode("learner", a)
	if _, body := opened.request(http.MethodGet, "/api/v1/audit", ""); !strings.Contains(body, id) {
		t.Errorf("the audit does not name birch: %s", body)
	}
	// Names that only look like this machine's, headers of any size, and a session of an earlier process.
	for _, host := range []string{"evil.example.", "127.0.0.1.evil.example:6690", "localhost.evil.example", "alder.evil.example:6690"} {
		if status, _ := opened.request(http.MethodGet, "/api/v1/fleet", "", "Host", host); status != http.StatusForbidden {
			t.Errorf("under %s: %d", host, status)
		}
	}
	if status, _ := opened.request(http.MethodGet, "/", "", "X-Large", strings.Repeat("x", 32<<10)); status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 32 KiB: %d", status)
	}
	a.stop()
	a.start()
	a.ready()
	until(t, "the page is served again", func() (bool, string) {
		_, err := a.pacectl("dashboard")
		return err == nil, fmt.Sprint(err)
	})
	if status, _ := opened.request(http.MethodPost, "/api/v1/queue/pause", `{}`); status != http.StatusUnauthorized {
		t.Errorf("a session of an earlier process: %d", status)
	}
}

// TestPageIsLive: a machine that asks, is approved and follows is seen on the stream of events, each as it comes.
func TestPageIsLive(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	c := l.hosts[0].pageClient(t, "http://127.0.0.1:6690")
	c.http.Timeout = 0
	resp, err := c.http.Get(c.base + "/api/v1/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := make(chan string, 1024)
	go func() {
		defer close(lines)
		in := bufio.NewScanner(resp.Body)
		in.Buffer(nil, 4<<20)
		for in.Scan() {
			lines <- in.Text()
		}
	}()
	limit := time.After(patience)
	var came []string // one event may show several things at once
	shows := func(words []string) bool {
		return slices.ContainsFunc(came, func(line string) bool {
			return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
		})
	}
	sees := func(what string, words ...string) {
		t.Helper()
		for !shows(words) {
			select {
			case line, ok := <-lines:
				if !ok {
					t.Fatalf("the stream ended before %s", what)
				}
				came = append(came, line)
			case <-limit:
				t.Fatalf("the stream does not show %s", what)
			}
		}
	}
	sees("the fleet", `"doc":"fleet"`, a.id())
	a.older()
	b := l.hosts[1].start(t, "birch")
	id, _ := b.asks(a)
	sees("that birch waits", `"doc":"waiting"`, id)
	b.approve(a)
	sees("that birch is a member", `"doc":"fleet"`, id, `"role":"learner"`)
	sees("whom birch follows", `"doc":"follows"`, `"follows":"`+a.id()+`"`)
	a.stop()
	for range lines { // it ends with the node
	}
}

// TestPageBeyondLoopback: another machine gets metrics in plain text, and the page over TLS under the token only.
func TestPageBeyondLoopback(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 2)
	h, far := l.hosts[0], l.hosts[1]
	everywhere := "--admin-listen=0.0.0.0:6690"
	a := h.start(t, "alder", everywhere)
	address := h.addr.String() + ":6690"
	plain := far.pageClient(t, "http://"+address)
	for _, path := range []string{"/", "/page.js", "/api/v1/fleet", "/api/v1/session"} {
		if status, body := plain.request(http.MethodGet, path, ""); status != http.StatusNotFound || !strings.Contains(body, "--admin-token-file") {
			t.Errorf("%s without a certificate: %d %s", path, status, body)
		}
	}
	if status, _ := plain.request(http.MethodGet, "/metrics", ""); status != http.StatusOK {
		t.Errorf("metrics: %d", status)
	}
	if line := lineWith(a.log.String(), "web page not served", "--admin-token-file"); line == "" {
		t.Error("no line says that the page is not served")
	}
	if out, err := a.pacectl("dashboard"); err == nil || !strings.Contains(out, "--admin-tls-cert") {
		t.Errorf("pacectl dashboard: %v %s", err, out)
	}
	a.stop()

	dir := t.TempDir()
	cert, key, token := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "token")
	writeCertificate(t, h, cert, key)
	const secret = "jW5xQ8vN2kT7mB4sL9dF"
	if err := os.WriteFile(token, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a = h.start(t, "alder2", everywhere, "--admin-tls-cert="+cert, "--admin-tls-key="+key, "--admin-token-file="+token, "--log-level=debug")
	if status, _ := plain.request(http.MethodGet, "/metrics", ""); status != http.StatusOK {
		t.Errorf("metrics beside a certificate: %d", status)
	}
	if status, body := plain.request(http.MethodGet, "/api/v1/fleet", "", "Authorization", "Bearer "+secret); status != http.StatusNotFound || !strings.Contains(body, "https") {
		t.Errorf("plain: %d %s", status, body)
	}
	secure := far.pageClient(t, "https://"+address)
	if status, body := secure.request(http.MethodGet, "/", ""); status != http.StatusOK || !strings.Contains(body, "<title>pace-node") {
		t.Errorf("the page itself: %d", status)
	}
	for _, path := range []string{"/api/v1/fleet", "/api/v1/waiting", "/api/v1/events", "/api/v1/audit"} {
		if status, _ := secure.request(http.MethodGet, path, ""); status != http.StatusUnauthorized {
			t.Errorf("%s by nobody: %d", path, status)
		}
	}
	if status, _ := secure.request(http.MethodGet, "/api/v1/fleet", "", "Authorization", "Bearer wrong-wrong-wrong-wrong"); status != http.StatusUnauthorized {
		t.Errorf("under a wrong token: %d", status)
	}
	if status, body := secure.request(http.MethodGet, "/api/v1/fleet", "", "Authorization", "Bearer "+secret); status != http.StatusOK || !strings.Contains(body, a.id()) {
		t.Errorf("under the token: %d %s", status, body)
	}
	if status, body := secure.request(http.MethodPost, "/api/v1/waiting/window", `{"minutes":"5"}`, "Authorization", "Bearer "+secret); status != http.StatusOK {
		t.Errorf("a change under the token: %d %s", status, body)
	}
	secure.opens(secret) // typed into the page
	if !secure.cookie.Secure || !strings.HasPrefix(secure.cookie.Name, "__Host-") {
		t.Errorf("cookie %v", secure.cookie)
	}
	if status, _ := secure.request(http.MethodGet, "/api/v1/fleet", ""); status != http.StatusOK {
		t.Errorf("under the session: %d", status)
	}
	if shown, _ := a.oneTime(); !strings.HasPrefix(shown, "https://"+address+"/#token=") {
		t.Errorf("pacectl dashboard prints %s", shown)
	}
	if strings.Contains(a.log.String(), secret) {
		t.Error("the token is in the log")
	}
}

// TestPageOfAVoterThatFollows: any voter's page shows the leader's list, and what is done there the leader does.
func TestPageOfAVoterThatFollows(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder")
	a.older()
	b := l.hosts[1].joined(t, a, "birch", metered)
	c := l.hosts[2].joined(t, a, "cedar", metered)
	b.promoted(a)
	d := l.hosts[3].start(t, "dogwood")
	d.asks(a)
	page := l.hosts[1].pageClient(t, "http://127.0.0.1:6690")
	_, token := b.oneTime()
	page.opens(token)
	page.approves("dogwood")
	d.inMode("learner", a)
	until(t, "birch knows who follows whom", func() (bool, string) {
		_, body := page.request(http.MethodGet, "/api/v1/follows", "")
		return strings.Contains(body, `{"id":"`+b.id()+`","follows":"`+a.id()+`"}`) && strings.Contains(body, `{"id":"`+d.id()+`","follows":`), body
	})
	// A learner's page reads, and is told by the leader that a learner changes nothing.
	learner := l.hosts[2].pageClient(t, "http://127.0.0.1:6690")
	_, token = c.oneTime()
	learner.opens(token)
	if status, body := learner.request(http.MethodGet, "/api/v1/fleet", ""); status != http.StatusOK || !strings.Contains(body, d.id()) {
		t.Errorf("%d %s", status, body)
	}
	for _, path := range []string{"/api/v1/members/forget", "/api/v1/queue/retry"} {
		if status, body := learner.request(http.MethodPost, path, `{"id":"`+d.id()+`"}`); status != http.StatusConflict || !strings.Contains(body, "refused-by-rule") || !strings.Contains(body, "voter") {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// writeCertificate writes a certificate for a host's address, and its key.
func writeCertificate(t *testing.T, h *host, cert, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IP(h.addr.AsSlice())}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
