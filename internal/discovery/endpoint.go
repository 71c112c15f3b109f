package discovery

import (
	"net/netip"
	"strings"

	"pace-node/internal/wire"
)

// reach says who can dial an endpoint.
type reach uint8

const (
	reachAnybody  reach = iota
	reachLoopback       // this machine only
	reachNobody         // wildcard, multicast, or a number that some resolvers read as one of those
)

var reachWhy = [...]string{
	reachAnybody:  "",
	reachLoopback: "is a loopback address, which other machines cannot dial",
	reachNobody:   "is no address that another machine can dial",
}

// reachOf judges a host:port that the wire accepted; empty is anybody's.
func reachOf(endpoint string) reach {
	colon := strings.LastIndexByte(endpoint, ':')
	if colon < 0 {
		return reachAnybody
	}
	host := strings.TrimSuffix(strings.TrimPrefix(endpoint[:colon], "["), "]")
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap()
		switch {
		case a.IsLoopback():
			return reachLoopback
		case a.IsUnspecified(), a.IsMulticast(), a == limitedBroadcast:
			return reachNobody
		}
		return reachAnybody
	}
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case last == "localhost", last == "localdomain" && strings.HasPrefix(name, "localhost"):
		return reachLoopback
	case last == "" || last[0] >= '0' && last[0] <= '9' && strings.Trim(last, "0123456789abcdefx") == "":
		// "127.1", "0x7f000001", "0": older resolvers read these as addresses, and
		// no host name ends in a number.
		return reachNobody
	}
	return reachAnybody
}

var limitedBroadcast = netip.AddrFrom4([4]byte{255, 255, 255, 255})

// loopbackBroadcast is where nodes on one machine beacon to.
var loopbackBroadcast = netip.AddrFrom4([4]byte{127, 255, 255, 255})

// dialables are the endpoints of a summary that somebody dials.
func dialables(s *wire.Summary) [4]struct{ what, endpoint string } {
	return [4]struct{ what, endpoint string }{
		{"own 0xFC endpoint", s.OwnEndpoint},
		{"consensus endpoint", s.RaftEndpoint},
		{"leader's endpoint", s.Leader.Endpoint},
		{"endpoint of the leader that was asked", s.Pointer.Endpoint},
	}
}

// withholds returns why a summary of this node's own is not announced, empty if
// it may be.
func withholds(s *wire.Summary, loopback bool) string {
	for _, d := range dialables(s) {
		r := reachOf(d.endpoint)
		if r == reachAnybody || r == reachLoopback && loopback {
			continue
		}
		remedy := "; set --advertise=<host>[:<port>] to an address of this machine on the segment"
		if r == reachLoopback {
			remedy += ", or --discovery-loopback for several nodes on one machine"
		}
		return d.what + " " + wire.Printable(d.endpoint) + " " + reachWhy[r] + remedy
	}
	return ""
}

// believable reports whether the endpoints of a summary can be those of a
// machine elsewhere; a loopback one only comes from this machine.
func believable(s *wire.Summary, from netip.Addr, loopback bool) bool {
	for _, d := range dialables(s) {
		if r := reachOf(d.endpoint); r == reachNobody || r == reachLoopback && !(loopback && from.IsLoopback()) {
			return false
		}
	}
	return true
}

// consensusPort is what a machine whose summary names no consensus endpoint (a
// learner, a newcomer) would listen on unless told otherwise.
const consensusPort = "6680"

// admitLine is the flag that would admit a proven speaker, ready to paste; empty
// if its id or host does not belong on a command line.
func admitLine(s *wire.Summary, key string, from netip.Addr) string {
	endpoint := s.RaftEndpoint
	if endpoint == "" {
		if colon := strings.LastIndexByte(s.OwnEndpoint, ':'); colon > 0 {
			endpoint = s.OwnEndpoint[:colon] + ":" + consensusPort
		} else {
			endpoint = netip.AddrPortFrom(from, 0).String()
			endpoint = strings.TrimSuffix(endpoint, "0") + consensusPort
		}
	}
	if !wire.ValidID(s.Node) || !pasteable(endpoint) {
		return ""
	}
	return "--cluster-admit=" + s.Node + "=" + endpoint + "@" + key
}

func pasteable(endpoint string) bool {
	for i := 0; i < len(endpoint); i++ {
		c := endpoint[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']') {
			return false
		}
	}
	return endpoint != ""
}
