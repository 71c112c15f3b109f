package control

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/config"
)

// certificate writes one for a name and returns its files.
func certificate(t *testing.T, dir, name string) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	kb, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: kb}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func tokenFile(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

const goodToken = "kPq3vX9zR7mL2wN8tB4c"

// TestCredentialsRefuseTheStart: what was typed and does not read is named, with the flag.
func TestCredentialsRefuseTheStart(t *testing.T) {
	dir := t.TempDir()
	_, key := certificate(t, dir, "alder.corp.test")
	for _, c := range []struct {
		name string
		cfg  config.Config
		flag string
		says string
	}{
		{"no certificate", config.Config{AdminTLSCert: filepath.Join(dir, "none"), AdminTLSKey: key}, "--admin-tls-cert", "no such file"},
		{"the key for a certificate", config.Config{AdminTLSCert: key, AdminTLSKey: key}, "--admin-tls-cert", ""},
		{"no token", config.Config{AdminTokenFile: filepath.Join(dir, "none")}, "--admin-token-file", "no such file"},
		{"a short token", config.Config{AdminTokenFile: tokenFile(t, "nineteen-characters\n", 0o600)}, "--admin-token-file", "19 bytes can be guessed"},
		{"an empty token", config.Config{AdminTokenFile: tokenFile(t, "\n", 0o600)}, "--admin-token-file", "0 bytes"},
		{"two words", config.Config{AdminTokenFile: tokenFile(t, goodToken+" "+goodToken, 0o600)}, "--admin-token-file", "one word"},
		{"two lines", config.Config{AdminTokenFile: tokenFile(t, goodToken+"\n"+goodToken+"\n", 0o600)}, "--admin-token-file", "one line"},
		{"a long token", config.Config{AdminTokenFile: tokenFile(t, strings.Repeat("x", 600), 0o600)}, "--admin-token-file", "at most 512"},
		{"everybody's token", config.Config{AdminTokenFile: tokenFile(t, goodToken, 0o644)}, "--admin-token-file", "chmod 640"},
	} {
		if runtime.GOOS == "windows" && strings.Contains(c.says, "no such file") {
			c.says = ""
		}
		if runtime.GOOS == "windows" && strings.Contains(c.says, "chmod") {
			continue // Windows has no such modes
		}
		_, err := OpenCredentials(c.cfg, nil)
		var refused *config.RefusedError
		if !errors.As(err, &refused) || refused.Key != c.flag || refused.Remedy == "" || !strings.Contains(refused.Why, c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && strings.Contains(err.Error(), goodToken) {
			t.Errorf("%s: the token is said: %v", c.name, err)
		}
	}
	none, err := OpenCredentials(config.Config{}, nil)
	if err != nil || none.HasToken() || none.Opens("") || none.TLS() != nil || none.Name() != "" {
		t.Errorf("%v %+v", err, none)
	}
	var nobody *Credentials
	if nobody.HasToken() || nobody.Opens("") || nobody.TLS() != nil || nobody.Name() != "" {
		t.Error("a nil one opens something")
	}
}

// TestCredentialsAreReadAgain: a certificate that is renewed, and a token that is changed, need no restart; what does not read
// leaves what was.
func TestCredentialsAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		cert, key := certificate(t, dir, "alder.corp.test")
		token := tokenFile(t, goodToken+"\n", 0o600)
		var said strings.Builder
		c, err := OpenCredentials(config.Config{AdminTLSCert: cert, AdminTLSKey: key, AdminTokenFile: token}, slog.New(slog.NewTextHandler(&said, nil)))
		if err != nil {
			t.Fatal(err)
		}
		name := func() string {
			p, err := c.TLS().GetCertificate(nil)
			if err != nil || p.Leaf == nil {
				t.Fatal(err)
			}
			return p.Leaf.DNSNames[0]
		}
		if name() != "alder.corp.test" || c.Name() != "alder.corp.test" || !c.Opens(goodToken) || c.Opens(goodToken+"\n") || c.Opens("") {
			t.Fatal("as written")
		}
		other := strings.ToLower(goodToken) + "-other"
		certificate(t, dir, "birch.corp.test")
		if err := os.WriteFile(token, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		// A file system whose times are coarse shows no change within one tick of them.
		if err := os.Chtimes(cert, time.Time{}, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(credentialEvery)
		if name() != "birch.corp.test" || c.Opens(goodToken) || !c.Opens(other) {
			t.Error("not read again")
		}
		if err := os.WriteFile(token, []byte("short"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(cert, []byte("half a cert"), 0o600); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			time.Sleep(credentialEvery)
			if name() != "birch.corp.test" || !c.Opens(other) || c.Opens("short") {
				t.Error("what does not read took the place of what did")
			}
		}
		if n := strings.Count(said.String(), "cannot be read again"); n != 1 {
			t.Errorf("said %d times: %s", n, said.String())
		}
		if strings.Contains(said.String(), other) || strings.Contains(said.String(), goodToken) {
			t.Errorf("the token is logged: %s", said.String())
		}
	})
}

// TestPlainAndTLSOnOnePort: metrics stay plain where a certificate is given, and the page is served over TLS.
func TestPlainAndTLSOnOnePort(t *testing.T) {
	cert, key := certificate(t, t.TempDir(), "localhost")
	creds, err := OpenCredentials(config.Config{AdminTLSCert: cert, AdminTLSKey: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := StartHTTP(HTTPConfig{Addr: "127.0.0.1:0", Metrics: NewMetrics(nil, nil), Health: healthy, Page: stubPage{}, TLS: creds.TLS(), Token: true})
	defer h.Close()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	get := func(url string) (int, string) {
		r, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	for _, scheme := range []string{"http", "https"} {
		if code, _ := get(scheme + "://" + h.Addr() + "/metrics"); code != 200 {
			t.Errorf("%s: %d", scheme, code)
		}
		want := fmt.Sprintf("GET {Loopback:true TLS:%v}", scheme == "https")
		if _, body := get(scheme + "://" + h.Addr() + "/"); body != want {
			t.Errorf("%s: %s", scheme, body)
		}
	}
	// Beyond loopback, as far as the rules see.
	h.mu.Lock()
	h.local = false
	h.mu.Unlock()
	if code, body := get("http://" + h.Addr() + "/"); code != http.StatusNotFound || !strings.Contains(body, "https") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := get("https://" + h.Addr() + "/"); code != 200 || body != "GET {Loopback:false TLS:true}" {
		t.Errorf("%d %s", code, body)
	}
	if code, _ := get("http://" + h.Addr() + "/metrics"); code != 200 {
		t.Errorf("metrics: %d", code)
	}
	// A connection that says nothing, and one that speaks neither, keep nobody out, and end with the node.
	quiet, err := net.Dial("tcp", h.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer quiet.Close()
	if code, _ := get("http://" + h.Addr() + "/healthz"); code != 200 {
		t.Errorf("health: %d", code)
	}
}

// fakeConn is one end of a connection that notes its end.
type fakeConn struct {
	net.Conn
	from   net.Addr
	closed bool
}

func (c *fakeConn) Close() error         { c.closed = true; return nil }
func (c *fakeConn) RemoteAddr() net.Addr { return c.from }

// TestDoor: the bound holds, who asks nothing makes room, who is being answered does not, and no other machine takes all of it.
func TestDoor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := 0
		d := newDoor(func() { refused++ })
		at := func(ip string) *fakeConn { return &fakeConn{from: &net.TCPAddr{IP: net.ParseIP(ip), Port: 1}} }
		var all []*fakeConn
		for i := range doorMost {
			c := at("127.0.0.1")
			if !d.enter(c) {
				t.Fatalf("the %dth is refused", i)
			}
			all = append(all, c)
			time.Sleep(time.Millisecond)
		}
		if d.enter(at("127.0.0.1")) || refused != 1 {
			t.Error("one more has room though nobody was silent for long")
		}
		time.Sleep(doorGrace)
		d.does(all[0], doorLasts)
		if !d.enter(at("127.0.0.1")) || all[0].closed || !all[1].closed {
			t.Error("the one that was silent for longest did not make room")
		}
		for _, c := range all {
			d.does(c, doorLasts)
		}
		time.Sleep(doorGrace)
		if !d.enter(at("127.0.0.1")) { // in the place of the one that came last and asked nothing
			t.Error("no room")
		}
		if d.enter(at("127.0.0.1")) {
			t.Error("it took the place of one that is being answered")
		}
		d.state(all[5], http.StateIdle)
		time.Sleep(doorGrace)
		if !d.enter(at("127.0.0.1")) {
			t.Error("nobody made room")
		}
		d.does(all[6], doorTakes)
		time.Sleep(doorTaking)
		d.state(all[7], http.StateActive) // half a request
		time.Sleep(doorGrace)
		for _, gone := range []int{7, 6} {
			for c := range d.conns { // those that entered meanwhile
				if s := d.conns[c]; s.does == doorAsks && c != all[7] {
					s.does = doorLasts
				}
			}
			if all[gone].closed || !d.enter(at("127.0.0.1")) || !all[gone].closed {
				t.Errorf("half a request goes first, then an answer that is not taken: not the %dth", gone)
			}
		}
		for _, c := range all {
			d.state(c, http.StateClosed)
		}

		d = newDoor(func() { refused++ })
		refused = 0
		var theirs []*fakeConn
		for range doorFrom {
			c := at("10.1.0.9")
			d.enter(c)
			d.does(c, doorLasts)
			theirs = append(theirs, c)
		}
		if d.enter(at("10.1.0.9")) || refused != 1 {
			t.Error("one machine has more than its share")
		}
		if !d.enter(at("10.1.0.8")) || !d.enter(at("127.0.0.1")) {
			t.Error("another machine is kept out")
		}
		d.state(theirs[3], http.StateClosed)
		if !d.enter(at("10.1.0.9")) {
			t.Error("it has no room though one of its own is gone")
		}
	})
}

// TestSlowRequestsEnd: a request of which a byte comes now and then is ended, and its connection with it.
func TestSlowRequestsEnd(t *testing.T) {
	h := StartHTTP(HTTPConfig{Addr: "127.0.0.1:0", Metrics: NewMetrics(nil, nil), Health: healthy, Page: stubPage{}})
	defer h.Close()
	c, err := net.Dial("tcp", h.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX: "+strings.Repeat("x", 2*httpHeaderMost)); err != nil && !errors.Is(err, io.EOF) {
		t.Log("it was ended while it was written: ", err)
		return
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err == nil && !strings.Contains(line, "431") {
		t.Errorf("%q", line)
	}
}

// TestHalfRequestsKeepNobodyOut: whoever holds every place with a request that does not come whole, or with an answer that is
// refused before its body came, makes room for a browser; a request that is served, and a stream, keep their places.
func TestHalfRequestsKeepNobodyOut(t *testing.T) {
	served, end := make(chan struct{}), make(chan struct{})
	gate := newDoor(func() {})
	server := &http.Server{ConnState: gate.state, ConnContext: gate.context, Handler: asked(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			Lasts(r.Context())
		}
		if r.URL.Path != "/" {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				served <- struct{}{}
				<-end
			}
		}
	}))}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(&bounded{l, gate}) }()
	defer func() { close(end); server.Close(); <-ended }()
	ask := func(text string) net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, text); err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, text := range []string{
		"GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST /change HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
	} {
		ask(text)
		<-served
	}
	kinds := []string{"GET / HTTP/1.1\r\nHost: a\r\nX: ", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{", "POST /change HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n{", ""}
	for i := range doorMost - 2 {
		ask(kinds[i%len(kinds)])
	}
	deadline := time.Now().Add(time.Minute)
	for {
		c := ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		c.SetReadDeadline(deadline)
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			r.Body.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("half requests keep a browser out")
		}
		c.Close()
		<-time.After(doorGrace / 10)
	}
	lasting := 0
	gate.mu.Lock()
	for _, s := range gate.conns {
		if s.does == doorLasts {
			lasting++
		}
	}
	gate.mu.Unlock()
	if lasting != 2 {
		t.Errorf("%d of 2 that last are there", lasting)
	}
}
