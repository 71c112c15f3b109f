//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// metered makes a node serve its metrics inside its namespace.
const metered = "--admin-listen=127.0.0.1:6690"

// ip runs ip inside the host's namespace.
func (h *host) ip(args ...string) {
	h.lan.t.Helper()
	sh(h.lan.t, append([]string{"ip", "-n", h.ns}, args...)...)
}

// nft loads a ruleset into the host.
func (h *host) nft(rules string) {
	h.lan.t.Helper()
	cmd := exec.Command("ip", "netns", "exec", h.ns, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		h.lan.t.Fatalf("nft: %v\n%s", err, out)
	}
}

// counted by nft.
type traffic struct{ Packets, Bytes int }

// counters reads the named nft counters of a table.
func (h *host) counters(table string) map[string]traffic {
	h.lan.t.Helper()
	out := sh(h.lan.t, "ip", "netns", "exec", h.ns, "nft", "-j", "list", "counters", "table", "inet", table)
	var doc struct {
		Rows []struct {
			Counter *struct {
				Name string
				traffic
			}
		} `json:"nftables"`
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		h.lan.t.Fatal(err)
	}
	got := map[string]traffic{}
	for _, r := range doc.Rows {
		if r.Counter != nil {
			got[r.Counter.Name] = r.Counter.traffic
		}
	}
	return got
}

// get fetches a page of the node's metrics endpoint, from inside its namespace.
func (n *node) get(path string) (status int, body string, err error) {
	addr := "127.0.0.1:6690"
	for _, a := range n.args {
		if v, ok := strings.CutPrefix(a, "--admin-listen="); ok {
			addr = v
		}
	}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DialContext: n.host.dial, DisableKeepAlives: true}}
	resp, err := client.Get("http://" + addr + path)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

// series are the metrics of one moment, by name with labels as the text format writes them.
type series map[string]float64

// metrics reads /metrics; the node must have been started with metered.
func (n *node) metrics() series {
	n.t.Helper()
	status, body, err := n.get("/metrics")
	if err != nil || status != http.StatusOK {
		n.t.Fatalf("%s: /metrics: %d, %v", n.name, status, err)
	}
	out := series{}
	for sc := bufio.NewScanner(strings.NewReader(body)); sc.Scan(); {
		line := sc.Text()
		at := strings.LastIndexByte(line, ' ')
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			out[line[:at]] = v
		}
	}
	return out
}

// of returns one series, which must be there: every series is present from the start.
func (s series) of(t *testing.T, name string) float64 {
	t.Helper()
	v, ok := s[name]
	if !ok {
		near := slices.DeleteFunc(slices.Sorted(maps.Keys(s)), func(k string) bool { return !strings.HasPrefix(k, strings.Split(name, "{")[0]) })
		t.Fatalf("/metrics has no %s; it has %q", name, near)
	}
	return v
}

func refusedRequests(code wire.ErrorCode) string {
	return fmt.Sprintf("pace_requests_refused_total{reason=%q}", code.String())
}

func refusedSessions(reason netio.Refusal) string {
	return fmt.Sprintf("pace_sessions_refused_total{reason=%q}", reason.String())
}

// id is the node's id, as it prints it.
func (n *node) id() string {
	n.t.Helper()
	r, _, err := statedir.Peek(n.state())
	if err != nil {
		n.t.Fatal(err)
	}
	return r.NodeID
}

// key is the node's own key, out of its state directory.
func (n *node) key() identity.PrivateKey {
	n.t.Helper()
	_, k, err := statedir.PeekKey(n.state(), statedir.Options{})
	if err != nil {
		n.t.Fatal(err)
	}
	return k
}

// endpoint is where the node's 0xFC endpoint is, by its flags.
func (n *node) endpoint() string {
	port := "6674"
	for _, a := range n.args {
		if v, ok := strings.CutPrefix(a, "--listen=:"); ok {
			port = v
		}
	}
	return net.JoinHostPort(n.host.addr.String(), port)
}

// follows waits until the node shows the same members as the leader, at its revision.
func (n *node) follows(leader *node) {
	n.t.Helper()
	until(n.t, n.name+" has what "+leader.name+" has", func() (bool, string) {
		want, err := leader.cluster()
		if err != nil {
			return false, err.Error()
		}
		got, err := n.cluster()
		if err != nil {
			return false, err.Error()
		}
		state := fmt.Sprintf("revision %d of %d", got.View.Revision, want.View.Revision)
		return got.Cluster == want.Cluster && got.View.Revision == want.View.Revision && got.roster() == want.roster(), state
	})
}

// roster is who is in the fleet, as text to compare.
func (d clusterDoc) roster() string {
	var b strings.Builder
	for _, m := range d.Members {
		fmt.Fprintln(&b, m.ID, m.Key, m.Name, m.Role)
	}
	return b.String()
}

// has reports whether a condition is raised.
func (d nodeDoc) has(condition string) bool {
	for _, c := range d.Conditions {
		if c.ID == condition {
			return true
		}
	}
	return false
}

// shows waits until the node's status is as wished.
func (n *node) shows(what string, as func(nodeDoc) bool) (last nodeDoc) {
	n.t.Helper()
	until(n.t, n.name+" shows "+what, func() (bool, string) {
		d, err := n.status()
		if err != nil {
			return false, err.Error()
		}
		last = d
		return as(d), fmt.Sprintf("%+v", d)
	})
	return last
}

// join starts a machine, compares its key, approves it, and waits until it follows the leader.
func (h *host) joined(t *testing.T, leader *node, name string, args ...string) *node {
	t.Helper()
	n := h.start(t, name, args...)
	n.approve(leader)
	n.inMode("learner", leader)
	n.arrived(leader)
	return n
}

// ends waits until a process that was started has ended, and returns its exit status.
func (n *node) ends() int {
	n.t.Helper()
	select {
	case <-n.done:
	case <-time.After(patience):
		n.t.Fatalf("%s still runs\n%s", n.name, n.log)
	}
	return n.cmd.ProcessState.ExitCode()
}

// archived are the stores that the node put away, as paths below archive/.
func (n *node) archived() []string {
	got, _ := filepath.Glob(filepath.Join(n.state(), statedir.ArchiveDir, "*", "*"))
	for i := range got {
		got[i], _ = filepath.Rel(filepath.Join(n.state(), statedir.ArchiveDir), got[i])
	}
	return got
}

// openFiles counts the node's file descriptors and threads.
func (n *node) openFiles() (files, threads int) {
	n.t.Helper()
	for dir, count := range map[string]*int{"fd": &files, "task": &threads} {
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", n.cmd.Process.Pid, dir))
		if err != nil {
			n.t.Fatal(err)
		}
		*count = len(all)
	}
	return files, threads
}

// newKey is the key of nobody who was ever admitted.
func newKey(b byte) identity.PrivateKey {
	return identity.NewPrivateKey([32]byte{'e', '2', 'e', b})
}

// client is a machine of our own making: it speaks the protocol under any key, from inside a host.
type client struct {
	t   *testing.T
	hub *netio.Hub
	key identity.PrivateKey
}

func (h *host) client(t *testing.T, key identity.PrivateKey) *client {
	c := &client{t: t, key: key}
	c.hub = netio.NewHub(netio.HubConfig{Key: key, Handler: deaf{}, Dialer: h.dial})
	t.Cleanup(c.hub.Close)
	return c
}

// clientFrom is a client at one of the host's other addresses.
func (h *host) clientFrom(t *testing.T, key identity.PrivateKey, from netip.Addr) *client {
	c := &client{t: t, key: key}
	dial := func(ctx context.Context, _, addr string) (conn net.Conn, err error) {
		h.in(func() {
			conn, err = (&net.Dialer{Timeout: 5 * time.Second, LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))}).DialContext(ctx, "tcp4", addr)
		})
		return conn, err
	}
	c.hub = netio.NewHub(netio.HubConfig{Key: key, Handler: deaf{}, Dialer: dial})
	t.Cleanup(c.hub.Close)
	return c
}

// deaf serves nothing.
type deaf struct{}

func (deaf) ServeStream(context.Context, *netio.Session, net.Conn) {}
func (deaf) SessionOpened(*netio.Session)                          {}
func (deaf) SessionClosed(*netio.Session, error)                   {}

// session opens one, waiting out the bound of four a source, and closes it with the test.
func (c *client) session(endpoint string) *netio.Session {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	s, err := c.hub.Dial(ctx, endpoint, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { s.Close(nil) })
	return s
}

// asks sends one request on a session of its own and returns the answer and the code of the refusal, 0 for none.
func (c *client) asks(endpoint string, verb wire.Verb, payload []byte) ([]byte, wire.ErrorCode) {
	c.t.Helper()
	s := c.session(endpoint)
	defer s.Close(nil)
	return c.asksOn(s, verb, payload)
}

func (c *client) asksOn(s *netio.Session, verb wire.Verb, payload []byte) ([]byte, wire.ErrorCode) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	b, err := netio.Call(ctx, s, verb, payload)
	return b, codeOf(c.t, err)
}

// greeted opens a session and says Hello on it.
func (c *client) greeted(endpoint string, h wire.Hello) *netio.Session {
	c.t.Helper()
	s := c.session(endpoint)
	h.Wire, h.Format, h.ClockMS = []int{wire.ProtocolVersion}, 1, time.Now().UnixMilli()
	b, err := json.Marshal(h)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, code := c.asksOn(s, wire.VerbHello, b); code != 0 {
		c.t.Fatalf("Hello: %s", code)
	}
	return s
}

// codeOf is the code of a refusal, 0 for none; any other failure ends the test.
func codeOf(t *testing.T, err error) wire.ErrorCode {
	t.Helper()
	var e *wire.Error
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	}
	t.Fatal(err)
	return 0
}

// enroll says Hello, signs an ask under the client's key and returns the first answer and the code of its refusal.
func (c *client) enroll(endpoint string, r wire.EnrollRequest) (wire.EnrollAnswer, wire.ErrorCode) {
	c.t.Helper()
	r.Role, r.Key = wire.RoleLearner, c.key.Public()
	r.Signature = c.key.Sign(r.Message())
	s := c.greeted(endpoint, wire.Hello{ID: r.ID, Name: "of our own making"})
	defer s.Close(nil)
	b, code := c.asksOn(s, wire.VerbEnroll, r.Append(nil))
	if code != 0 {
		return wire.EnrollAnswer{}, code
	}
	a, err := wire.DecodeEnrollAnswer(b)
	if err != nil {
		c.t.Fatal(err)
	}
	return a, 0
}
