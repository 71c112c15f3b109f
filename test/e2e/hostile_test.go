//go:build e2e

package e2e

import (
	be "encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// hostile is a machine of our own making on the segment: it sends any datagram, from any address.
type hostile struct {
	t    *testing.T
	host *host
	conn *net.UDPConn // its own address
	alt  *net.UDPConn // its second one
	raw  int          // IP headers of its own writing
	key  identity.PrivateKey
	late int // bytes of beacons that were not answered in time, and may be yet
}

func (h *host) hostile(t *testing.T) *hostile {
	t.Helper()
	m := &hostile{t: t, host: h, key: newKey(66)}
	h.ip("addr", "add", "10.1.0.99/16", "dev", "eth0")
	var errs [3]error
	h.in(func() {
		m.conn, errs[0] = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(h.addr, 0)))
		m.alt, errs[1] = net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("10.1.0.99:0")))
		m.raw, errs[2] = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { m.conn.Close(); m.alt.Close(); unix.Close(m.raw) })
	return m
}

// summary is a sound one of a fleet of one that is nobody's.
func (m *hostile) summary(n int) []byte {
	m.t.Helper()
	id := fmt.Sprintf("%032x", n+1)
	endpoint := m.host.addr.String() + ":6674"
	raw, ok := wire.FitSummary(&wire.Summary{Cluster: id, State: wire.StateSolitary, Created: uint64(time.Now().Unix()), Node: id, OwnEndpoint: endpoint, RaftEndpoint: m.host.addr.String() + ":6680",
		Leader: wire.Leader{ID: id, Endpoint: endpoint, Key: m.key.Public(), HasKey: true}, Members: []string{id}, Total: 1})
	if !ok {
		m.t.Fatal("the summary does not fit")
	}
	return raw
}

func datagram(kind wire.Kind, fields ...[]byte) []byte {
	b := []byte{wire.Magic, wire.DatagramVersion, byte(kind), 0, 0, 0, 0}
	for _, f := range fields {
		b = wire.AppendField(b, f)
	}
	be.BigEndian.PutUint32(b[3:], uint32(len(b)-wire.HeaderSize))
	return b
}

// spoof sends a datagram with a source address that is not this machine's.
func (m *hostile) spoof(from netip.Addr, to netip.AddrPort, payload []byte) error {
	const ip, udp = 20, 8
	b := make([]byte, ip+udp, ip+udp+len(payload))
	b[0], b[8], b[9] = 0x45, 64, unix.IPPROTO_UDP
	be.BigEndian.PutUint16(b[2:], uint16(ip+udp+len(payload)))
	src, dst := from.As4(), to.Addr().As4()
	copy(b[12:], src[:])
	copy(b[16:], dst[:])
	be.BigEndian.PutUint16(b[ip:], 40000)
	be.BigEndian.PutUint16(b[ip+2:], to.Port())
	be.BigEndian.PutUint16(b[ip+4:], uint16(udp+len(payload)))
	return unix.Sendto(m.raw, append(b, payload...), 0, &unix.SockaddrInet4{Addr: dst})
}

// draws sends one datagram, waits until the victim has counted it, and returns what came back: together never more bytes
// than were sent.
func (m *hostile) draws(what string, from *net.UDPConn, victim *node, to netip.AddrPort, b []byte, counter string, by float64) [][]byte {
	m.t.Helper()
	m.counts(what, from, victim, to, b, counter, by)
	return m.replies(what, from, len(b), 0)
}

// answered is draws of what must be answered. The counter may be another's doing, so the answer itself is waited for.
func (m *hostile) answered(what string, from *net.UDPConn, victim *node, to netip.AddrPort, b []byte, counter string) [][]byte {
	m.t.Helper()
	m.counts(what, from, victim, to, b, counter, 1)
	return m.replies(what, from, len(b), 1)
}

func (m *hostile) counts(what string, from *net.UDPConn, victim *node, to netip.AddrPort, b []byte, counter string, by float64) {
	m.t.Helper()
	before := victim.metrics().of(m.t, counter)
	if _, err := from.WriteToUDPAddrPort(b, to); err != nil {
		m.t.Fatal(err)
	}
	until(m.t, what+" is counted in "+counter, func() (bool, string) {
		m := victim.metrics()
		return m[counter] >= before+by, fmt.Sprint(m[counter], ", ", before, " before")
	})
}

// replies takes what has arrived; the victim's loop had sent it before it told its numbers. least datagrams are waited for.
func (m *hostile) replies(what string, on *net.UDPConn, most, least int) (out [][]byte) {
	m.t.Helper()
	total := 0
	for {
		b := make([]byte, 2048)
		wait := 100 * time.Millisecond
		if len(out) < least {
			wait = patience
		}
		on.SetReadDeadline(time.Now().Add(wait))
		n, err := on.Read(b)
		if err != nil {
			break
		}
		if m.late > 0 && kindOf(b[:n]) == wire.KindChallenge { // of a beacon that was sent again meanwhile
			m.late -= n
			continue
		}
		total += n
		out = append(out, b[:n])
	}
	if total > most {
		m.t.Errorf("%s of %d bytes draws %d bytes", what, most, total)
	}
	return out
}

func (m *hostile) proof(c wire.Challenge, raw []byte) []byte {
	key := m.key.Public()
	return wire.EncodeProof(raw, c.Nonce, key, m.key.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, raw, key)))
}

const (
	heard     = "pace_discovery_beacons_heard_total"
	malformed = "pace_discovery_datagrams_malformed_total"
	verified  = "pace_discovery_proofs_verified_total"
	forged    = "pace_discovery_proofs_refused_forged_total"
	replayed  = "pace_discovery_proofs_refused_replayed_total"
	exhausted = "pace_discovery_proofs_refused_exhausted_total"
	notIssued = "pace_discovery_proofs_refused_not_issued_total"
	withheld  = "pace_discovery_replies_withheld_total"
	challenge = "pace_discovery_challenges_sent_total"
)

func TestHostilePeerChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 4)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	b.follows(a)
	a.shows("birch authenticated", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
	m := l.hosts[2].hostile(t)
	answering := func(n *node) netip.AddrPort {
		port := strings.Fields(strings.SplitAfter(n.log.String(), "discovery-answers=0.0.0.0:")[1])[0]
		return netip.MustParseAddrPort(n.host.addr.String() + ":" + port)
	}
	listens, answers := netip.AddrPortFrom(a.host.addr, 6681), answering(a)
	a.host.nft(fmt.Sprintf(`table inet seen { counter into {}; counter out {};
		chain i { type filter hook input priority -300; udp dport { 6681, %[1]d } counter name into; }
		chain o { type filter hook output priority 0; udp sport %[1]d udp dport != 6681 counter name out; }; }`, answers.Port()))
	before, memory, lines := a.standing(), a.memory(), strings.Count(a.log.String(), "\n")
	own := m.summary(1)

	// Beacons that are too small for what they ask.
	m.draws("an unpadded beacon", m.conn, a, listens, datagram(wire.KindBeacon, own, nil), heard, 1)
	if got := m.draws("a beacon without its padding field", m.conn, a, listens, datagram(wire.KindBeacon, own), malformed, 1); len(got) != 0 {
		t.Errorf("it draws %d replies", len(got))
	}
	tiny := wire.AppendSummary(nil, &wire.Summary{Cluster: "x", State: wire.StateSolitary, Total: 1})
	if got := m.draws("the least of beacons", m.conn, a, listens, datagram(wire.KindBeacon, tiny, nil), withheld, 1); len(got) != 0 {
		t.Errorf("it draws %d replies", len(got))
	}

	// Challenges smaller than the proof that they ask for.
	c, ok := wire.EncodeChallenge("x", [32]byte{1}, 100)
	if !ok {
		t.Fatal("no challenge of 100 bytes")
	}
	if got := m.draws("a small challenge", m.conn, a, answers, c, withheld, 1); len(got) != 0 {
		t.Errorf("it draws %d replies", len(got))
	}
	// A sound one is answered, by a proof of the very size at most.
	c, _ = wire.EncodeChallenge("x", [32]byte{1}, wire.MaxDatagram)
	word := m.answered("a sound challenge", m.conn, a, answers, c, "pace_discovery_proofs_sent_total")
	if len(word) != 1 {
		t.Fatalf("%d proofs", len(word))
	}
	smaller, _ := wire.EncodeChallenge("x", [32]byte{1}, len(word[0])-1)
	if got := m.draws("a challenge one byte too small", m.conn, a, answers, smaller, withheld, 1); len(got) != 0 {
		t.Errorf("it draws %d replies", len(got))
	}

	// Forged proofs: two use the challenge up, and the true one comes too late then.
	ch := m.challenged(a, own)
	lie := wire.EncodeProof(own, ch.Nonce, m.key.Public(), [64]byte{1})
	m.draws("a forged proof", m.conn, a, answers, lie, forged, 1)
	m.draws("a second one", m.conn, a, answers, lie, forged, 1)
	m.draws("the true proof after two forged ones", m.conn, a, answers, m.proof(ch, own), exhausted, 1)
	m.draws("a proof for which nobody asked", m.conn, a, answers, m.proof(wire.Challenge{Cluster: before.cluster, Nonce: [32]byte{9}}, own), notIssued, 1)

	// Re-aimed ones: to another machine, from another address, of another summary, and another machine's.
	ch = m.challenged(a, own)
	good := m.proof(ch, own)
	m.draws("a proof for alder, to birch", m.conn, b, answering(b), good, notIssued, 1)
	m.draws("a proof from another address", m.alt, a, answers, good, notIssued, 1)
	other := m.summary(2)
	m.draws("a proof of another summary", m.conn, a, answers, m.proof(ch, other), notIssued, 1)
	mine, _ := wire.EncodeChallenge("x", ch.Nonce, wire.MaxDatagram)
	theirs := m.answered("a challenge to birch under alder's nonce", m.conn, b, answering(b), mine, "pace_discovery_proofs_sent_total")
	if len(theirs) != 1 {
		t.Fatalf("%d proofs of birch", len(theirs))
	}
	m.draws("birch's proof for another, to alder", m.conn, a, answers, theirs[0], notIssued, 1)
	// The true one is taken once, and its repetition is not.
	m.draws("a true proof", m.conn, a, answers, good, verified, 1)
	m.draws("the same again", m.conn, a, answers, good, replayed, 1)
	if after := a.standing(); after != before {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}

	// Beacons from a thousand addresses that are somebody else's. Those on the segment are few: the kernel's table of
	// neighbours is one for all namespaces, and other tests live in it.
	met := a.host.counters("seen")
	was := a.metrics().of(t, heard)
	until(t, "a thousand beacons from spoofed addresses are counted", func() (bool, string) {
		for i := range 1000 {
			from := netip.AddrFrom4([4]byte{172, 16, byte(i / 250), byte(i%250 + 1)})
			if i%20 == 0 {
				from = netip.AddrFrom4([4]byte{10, 1, 200, byte(i/20 + 1)})
			}
			if err := m.spoof(from, listens, wire.EncodeBeacon(m.summary(100+i))); err != nil {
				t.Fatal(err)
			}
		}
		got := a.metrics().of(t, heard) - was
		return got >= 1000, fmt.Sprint(got) // what comes faster than it is read is dropped: then it is sent again
	})
	spoofed := a.host.counters("seen")
	if in, out := spoofed["into"].Bytes-met["into"].Bytes, spoofed["out"].Bytes-met["out"].Bytes; out > in || in == 0 {
		t.Errorf("%d bytes of beacons drew %d bytes", in, out)
	} else {
		t.Logf("spoofed beacons: %d bytes in, %d out", in, out)
	}

	// Junk as fast as one core sends, while an honest machine comes.
	ends := time.Now().Add(5 * time.Second)
	d := l.hosts[3].newNode(t, "dogwood", metered)
	d.start()
	sent := m.junk(ends, listens, answers)
	d.ready()
	beacons := 0.0 // that it had sent when it was last seen unproven
	until(t, "dogwood is proven", func() (bool, string) {
		m := d.metrics()
		if m.of(t, verified) >= 1 {
			return true, ""
		}
		beacons = m.of(t, "pace_discovery_beacons_sent_total")
		return false, fmt.Sprintf("%v beacons", beacons)
	})
	if beacons > 5 {
		t.Errorf("an honest machine was proven after %v beacons, and is to be within five, which are 75 s", beacons)
	}
	id, _ := d.asks(a)
	t.Logf("%d datagrams of junk in 5 s; an honest machine was proven after %v beacons", sent, beacons)
	end := a.host.counters("seen")
	if in, out := end["into"].Bytes-met["into"].Bytes, end["out"].Bytes-met["out"].Bytes; out > in {
		t.Errorf("%d bytes drew %d bytes", in, out)
	}
	if after := a.standing(); after != before {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	a.shows("birch still authenticated", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
	if s, err := a.status(); err != nil || s.has("identity-cloned") {
		t.Errorf("%v: junk raised %v", err, s.Conditions)
	}
	a.holds(memory, 32)
	if got := strings.Count(a.log.String(), "\n") - lines; got > 60 {
		t.Errorf("%d lines of log", got)
	}
	// And the honest machine joins.
	a.must("--enroll-approve=" + id + "@" + d.key().Public().String())
	d.inMode("learner", a)
}

// junk sends for 5 s what a hostile machine can think of, and returns how much that was.
func (m *hostile) junk(ends time.Time, targets ...netip.AddrPort) (sent int) {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 1400)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	beacon := wire.EncodeBeacon(m.summary(3))
	proof := m.proof(wire.Challenge{Cluster: "x", Nonce: [32]byte{7}}, m.summary(3))
	small, _ := wire.EncodeChallenge("x", [32]byte{1}, 90)
	claims := datagram(wire.KindBeacon, nil)
	be.BigEndian.PutUint32(claims[3:], 1<<31)
	kinds := [][]byte{noise, noise[:1], noise[:64], {wire.Magic, wire.DatagramVersion, 1, 0, 0, 0, 0}, {wire.Magic, 9, 1, 0, 0, 0, 0}, beacon, proof, small, claims}
	for time.Now().Before(ends) {
		for range 256 {
			b := kinds[sent%len(kinds)]
			to := targets[sent/len(kinds)%len(targets)]
			if sent%8 == 0 {
				m.spoof(netip.AddrFrom4([4]byte{172, 16, byte(sent >> 11), byte(sent >> 3)}), to, b)
			} else {
				m.conn.WriteToUDPAddrPort(b, to)
			}
			sent++
		}
	}
	return sent
}

// memory is what the process holds, in bytes.
func (n *node) memory() int {
	n.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", n.cmd.Process.Pid))
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.Atoi(strings.Fields(v)[0])
			if err != nil {
				n.t.Fatal(err)
			}
			return kib << 10
		}
	}
	n.t.Fatal("no VmRSS")
	return 0
}
