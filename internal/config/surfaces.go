package config

import (
	"net/netip"
	"strconv"
	"strings"
)

// Scopes of a surface: who can reach it when no firewall stands in between.
const (
	ScopeLoopback = "loopback" // this machine alone
	ScopeSegment  = "segment"  // the machines of its segments
	ScopeNetwork  = "network"  // whoever can route to it
)

// Names of surfaces, as --print-surfaces and the firewall's rules spell them.
const (
	SurfaceNode   = "node"
	SurfaceRaft   = "raft"
	SurfaceBeacon = "discovery-beacon"
	SurfaceReply  = "discovery-reply"
	SurfaceAdmin  = "admin"
)

// Surface is one endpoint that a node binds.
type Surface struct {
	Name  string
	Proto string // tcp, udp
	Port  uint16 // 0 = chosen by the kernel
	Bind  string // an address of this machine, or "*" for every one
	Scope string // one of the scopes
}

// PortText is the port as rules and --print-surfaces write it: a number, or any.
func (s Surface) PortText() string {
	if s.Port == 0 {
		return "any"
	}
	return strconv.Itoa(int(s.Port))
}

// Beyond reports that another machine can reach it.
func (s Surface) Beyond() bool { return s.Scope != ScopeLoopback }

// surfaceRow is one surface: where its address stands, and who could reach it were it bound to every address.
type surfaceRow struct {
	Name    string
	Proto   string
	Scope   string
	Address func(c *Config) string // host:port; "" = it is off
}

// surfaceRows is the table, in the order in which surfaces are printed. The consensus endpoint is in it whatever the node
// is at the time: a later promotion opens it.
var surfaceRows = []surfaceRow{
	{SurfaceNode, "tcp", ScopeNetwork, func(c *Config) string { return c.Listen }},
	{SurfaceRaft, "tcp", ScopeNetwork, func(c *Config) string { return c.ListenRaft }},
	{SurfaceBeacon, "udp", ScopeSegment, func(c *Config) string { return c.Discovery }},
	{SurfaceReply, "udp", ScopeSegment, replyAddress},
	{SurfaceAdmin, "tcp", ScopeNetwork, func(c *Config) string { return c.AdminListen }},
}

// replyAddress is that of the answering socket, which is bound to the addresses that beacons are heard on.
func replyAddress(c *Config) string {
	if c.Discovery == "" {
		return ""
	}
	host, _, _ := strings.Cut(c.Discovery, ":")
	return host + ":" + strconv.Itoa(int(c.DiscoveryReplyPort))
}

// Surfaces lists what a node of this configuration binds, the administrators' socket left out.
func (c *Config) Surfaces() []Surface {
	var out []Surface
	for _, row := range surfaceRows {
		address := row.Address(c)
		if address == "" {
			continue
		}
		host, port, err := hostPort(address)
		if err != nil {
			continue // parsing has refused it
		}
		s := Surface{Name: row.Name, Proto: row.Proto, Port: port, Bind: host, Scope: row.Scope}
		switch {
		case every(host):
			s.Bind = "*"
		case onLoopback(host):
			s.Scope = ScopeLoopback
		}
		if row.Scope == ScopeSegment && c.DiscoveryLoopback {
			s.Scope = ScopeLoopback // it hears and answers this machine only
		}
		out = append(out, s)
	}
	return out
}

func onLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && addr.Unmap().IsLoopback()
}
