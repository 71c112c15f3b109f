package netio

import (
	"testing"
	"time"
)

// The pages' numbers, written out by hand: a constant that moves away from them is seen here, whatever other tests wait for.
func TestNumbersOfThePages(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"sessions outside the roster", MaxStrangers, 64},
		{"of one source network", MaxStrangersPerSource, 4},
		{"kept for FleetSummary", KeptForFleetSummary, 8},
		{"a place that another wants", int64(StrangerGrace), int64(3 * time.Second)},
		{"a place of a network that holds more", int64(StrangerTurn), int64(250 * time.Millisecond)},
		{"sessions of one key", MaxSessionsPerKey, 8},
		{"sessions of one member", MaxSessionsPerMember, 32},
		{"a handshake", int64(HandshakeWithin), int64(5 * time.Second)},
		{"a first request", int64(FirstRequestWithin), int64(5 * time.Second)},
		{"bytes of it", FirstRequestCeiling, 4096},
		{"closed after the last answer", int64(CloseAfterAnswer), int64(10 * time.Second)},
		{"the older session's answer to a ping", int64(DuplicatePing), int64(2 * time.Second)},
		{"keep-alive", int64(keepAlive), int64(10 * time.Second)},
		{"a kind of log line", int64(noiseEvery), int64(time.Minute)},
		{"one source, of IPv4", sourceBitsIPv4, 32},
		{"one source, of IPv6", sourceBitsIPv6, 64},
		{"a dial that has failed", int64(raftTryWithin), int64(3 * time.Second)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}
