package node

import (
	"context"
	"fmt"
	"net"

	"pace-node/internal/control"
	"pace-node/internal/control/page"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// startPage makes the web page of --admin-listen.
func (n *Node) startPage() *page.Page {
	return page.New(page.Config{Backend: n, Leader: n.pageLeader, Credentials: n.credentials, Metrics: n.metrics, Logger: n.log, Entropy: n.cfg.Entropy})
}

// pageLeader asks a verb of the machine that leads, under this machine's key: a voter is an administrator of its fleet.
func (n *Node) pageLeader(ctx context.Context, v wire.Verb, payload []byte) ([]byte, error) {
	l := n.leader()
	if l.id == "" || l.id == n.id {
		return nil, n.notLeading("")
	}
	s := n.hub.ByKey(l.key)
	if s == nil || s.Duplicate() {
		return nil, wire.NewError(wire.CodeBusy, "this machine has no session with the leader", "try again in a few seconds; pacectl fleet status shows the leader")
	}
	return netio.Call(ctx, s, v, payload)
}

// dashboard makes a one-time address of the web page.
func (n *Node) dashboard() (control.Dashboard, error) {
	scheme, addr, why := n.http.PageAt()
	if why != "" {
		return control.Dashboard{}, wire.NewError(wire.CodeRefusedByRule, "the web page is not served: "+why, "pace-node --help tells of --admin-listen, --admin-tls-cert, --admin-tls-key and --admin-token-file; pacectl enroll list does the same on a terminal")
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return control.Dashboard{}, fmt.Errorf("the web page is at no address: %w", err)
	}
	ip := net.ParseIP(host)
	reach := host
	if name := n.credentials.Name(); scheme == "https" && name != "" {
		reach = name
	} else if ip != nil && ip.IsUnspecified() {
		reach = n.hostToDial()
	}
	token, life := n.page.Ticket()
	out := control.Dashboard{V: control.DocumentVersion, URL: scheme + "://" + net.JoinHostPort(reach, port) + "/#token=" + token, LifeMS: life.Milliseconds()}
	if ip != nil && ip.IsLoopback() {
		out.Tunnel = "ssh -N -L " + port + ":" + net.JoinHostPort(host, port) + " " + n.hostToDial()
	}
	return out, nil
}

// hostToDial is what this machine is reached by: where its peers dial it, else its name where that can be typed.
func (n *Node) hostToDial() string {
	if host, _, err := net.SplitHostPort(n.fcEndpoint()); err == nil && !n.cfg.Settings.DiscoveryLoopback {
		return host
	}
	if control.Pasteable(n.cfg.HostName) {
		return n.cfg.HostName
	}
	return "HOST"
}
