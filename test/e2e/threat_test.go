//go:build e2e

package e2e

import (
	"bytes"
	be "encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

const (
	unknownKey = "pace_discovery_proofs_refused_unknown_key_total"
	revokedKey = "pace_discovery_proofs_refused_revoked_key_total"
	expired    = "pace_discovery_proofs_refused_expired_total"
	version    = "pace_discovery_datagrams_refused_version_total"
	overBound  = "pace_discovery_beacons_over_bound_total"
	foreign    = "pace_discovery_foreign_fleets"
)

// cookieLife is how long a challenge can be answered, by the wire's table of bounds.
const cookieLife = 30 * time.Second

// heardAll keeps every discovery datagram of a segment without switches: what each host sends reaches each other one.
type heardAll struct {
	t     *testing.T
	fd    int
	own   netip.Addr
	seen  []captured
	ended chan struct{}
}

type captured struct {
	from, to netip.AddrPort
	b        []byte
}

// listens makes the segment a hub, and keeps what is sent on it from now on.
func (h *host) listens(t *testing.T) *heardAll {
	t.Helper()
	sh(t, "ip", "-n", h.lan.name, "link", "set", "br0", "type", "bridge", "ageing_time", "0")
	x := &heardAll{t: t, own: h.addr, ended: make(chan struct{})}
	all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8 // in network order
	var err error
	h.in(func() {
		var card *net.Interface
		if card, err = net.InterfaceByName("eth0"); err != nil {
			return
		}
		if x.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all)); err != nil {
			return
		}
		err = unix.Bind(x.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: card.Index})
		if err == nil {
			err = unix.SetsockoptPacketMreq(x.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &unix.PacketMreq{Ifindex: int32(card.Index), Type: unix.PACKET_MR_PROMISC})
		}
		if err == nil {
			err = unix.SetsockoptTimeval(x.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// take returns what was sent since, without what this host sent itself.
func (x *heardAll) take() []captured {
	for {
		b := make([]byte, 2048)
		n, _, err := unix.Recvfrom(x.fd, b, 0)
		if err != nil {
			out := x.seen
			x.seen = nil
			return out
		}
		const ether, ip, udp = 14, 20, 8
		if b = b[:n]; n < ether+ip+udp || be.BigEndian.Uint16(b[12:]) != unix.ETH_P_IP || b[ether+9] != unix.IPPROTO_UDP || b[ether] != 0x45 {
			continue
		}
		addr := func(at int) netip.Addr { return netip.AddrFrom4([4]byte(b[ether+at : ether+at+4])) }
		port := func(at int) uint16 { return be.BigEndian.Uint16(b[ether+ip+at:]) }
		c := captured{netip.AddrPortFrom(addr(12), port(0)), netip.AddrPortFrom(addr(16), port(2)), b[ether+ip+udp:]}
		if c.from.Addr() != x.own && len(c.b) > 0 && c.b[0] == wire.Magic {
			x.seen = append(x.seen, c)
		}
	}
}

func kindOf(b []byte) wire.Kind {
	kind, _, verdict := wire.ParseDatagram(b)
	if verdict != wire.VerdictOK {
		return 0
	}
	return kind
}

// answering is where a node answers discovery.
func (n *node) answering() netip.AddrPort {
	n.t.Helper()
	_, after, ok := strings.Cut(n.log.String(), "discovery-answers=0.0.0.0:")
	if !ok {
		n.t.Fatalf("%s does not say where it answers", n.name)
	}
	return netip.MustParseAddrPort(n.host.addr.String() + ":" + strings.Fields(after)[0])
}

func (n *node) listening() netip.AddrPort { return netip.AddrPortFrom(n.host.addr, 6681) }

// speaksFor is a sound summary of a member of a fleet, as somebody else would write it.
func (m *hostile) speaksFor(cluster, id string) []byte {
	m.t.Helper()
	raw, ok := wire.FitSummary(&wire.Summary{Cluster: cluster, State: wire.StateEstablished, Created: uint64(time.Now().Unix()), Node: id, OwnEndpoint: m.host.addr.String() + ":6674", Members: []string{id}, Total: 1})
	if !ok {
		m.t.Fatal("the summary does not fit")
	}
	return raw
}

// challenged sends a beacon to a node until it is challenged: a budget may be used up for a moment.
func (m *hostile) challenged(n *node, summary []byte) wire.Challenge {
	m.t.Helper()
	var c wire.Challenge
	until(m.t, n.name+" challenges", func() (bool, string) {
		m.replies("what was before", m.conn, 1<<20, 0)
		beacon := wire.EncodeBeacon(summary)
		if _, err := m.conn.WriteToUDPAddrPort(beacon, n.listening()); err != nil {
			m.t.Fatal(err)
		}
		b := make([]byte, 2048)
		m.conn.SetReadDeadline(time.Now().Add(time.Second))
		size, err := m.conn.Read(b)
		if err != nil {
			m.late += len(beacon)
			return false, err.Error()
		}
		if size > len(beacon) {
			m.t.Errorf("a beacon of %d bytes draws %d bytes", len(beacon), size)
		}
		_, payload, _ := wire.ParseDatagram(b[:size])
		c, err = wire.DecodeChallenge(payload)
		return err == nil, fmt.Sprint(err)
	})
	return c
}

func proofBy(key identity.PrivateKey, c wire.Challenge, raw []byte) []byte {
	return wire.EncodeProof(raw, c.Nonce, key.Public(), key.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, raw, key.Public())))
}

// proves goes through the whole exchange under a key, and waits until it is counted.
func (m *hostile) proves(n *node, key identity.PrivateKey, summary []byte, counter string) {
	m.t.Helper()
	c := m.challenged(n, summary)
	m.draws("a proof", m.conn, n, n.answering(), proofBy(key, c, summary), counter, 1)
}

// TestThreats: the first table of the threat model, row by row, against real processes over real sockets.
func TestThreats(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 7)
	mallory := l.hosts[2]
	ear := mallory.listens(t)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", metered)
	b.follows(a)
	a.shows("birch authenticated", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
	b.shows("alder authenticated", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
	m := mallory.hostile(t)
	id, key, cluster := b.id(), b.key(), a.standing().cluster
	unmoved := func(t *testing.T, f func()) {
		look := func() (both [2]standing) {
			both = [2]standing{a.standing(), b.standing()}
			both[0].revision, both[1].revision = 0, 0 // the operator's own words here are audited
			return both
		}
		before := look()
		f()
		if after := look(); after != before {
			t.Errorf("before %+v\nafter  %+v", before, after)
		}
	}

	run := func(row string, f func(t *testing.T)) {
		t.Run(row, func(t *testing.T) {
			m.t, a.t, b.t, ear.t = t, t, t, t
			f(t)
		})
		m.t, a.t, b.t, ear.t = t, t, t, t
	}

	run("Listen to the segment", func(t *testing.T) {
		unmoved(t, func() {
			heard := ear.take()
			kinds := map[wire.Kind]int{}
			proofs := 0
			for _, c := range heard {
				kinds[kindOf(c.b)]++
				for _, k := range []identity.PrivateKey{key, a.key()} {
					if seed := k.Seed(); bytes.Contains(c.b, seed[:]) {
						t.Error("a private key is on the segment")
					}
				}
			}
			if kinds[wire.KindBeacon] == 0 || kinds[wire.KindChallenge] == 0 || kinds[wire.KindProof] == 0 {
				t.Fatalf("heard %v", kinds)
			}
			// Said again by another, and in its first sender's name.
			series := []string{notIssued, replayed, expired}
			sum := func(n *node) (s float64) {
				m := n.metrics()
				for _, name := range series {
					s += m.of(t, name)
				}
				return s
			}
			before, verifiedBefore := sum(a), a.metrics().of(t, verified)
			for _, c := range heard {
				switch kindOf(c.b) {
				case wire.KindBeacon:
					m.conn.WriteToUDPAddrPort(c.b, a.listening())
				case wire.KindProof:
					m.conn.WriteToUDPAddrPort(c.b, a.answering())
					proofs++
					if c.from.Addr() == a.host.addr {
						continue // no system takes a datagram from itself off its network
					}
					if err := m.spoof(c.from.Addr(), a.answering(), c.b); err != nil {
						t.Fatal(err)
					}
					proofs++
				}
			}
			until(t, "every recorded proof is counted as refused", func() (bool, string) {
				got := sum(a) - before
				return got >= float64(proofs), fmt.Sprint(got, " of ", proofs) // more: a busy machine's own that came late
			})
			// What is verified meanwhile are the two's own.
			if got := a.metrics().of(t, verified) - verifiedBefore; got > 4 {
				t.Errorf("%v proofs were verified", got)
			}
			if d, err := a.waiting(); err != nil || len(d.Rows) != 1 { // birch's own, which was approved
				t.Errorf("%v: %+v", err, d.Rows)
			}
		})
	})

	run("Send arbitrary datagrams", func(t *testing.T) {
		unmoved(t, func() {
			m.proves(a, m.key, m.speaksFor(cluster, "mallory"), unknownKey)
			// The line names the key, and the command to paste: whole, so that nothing is left to be found out.
			admit := fmt.Sprintf(`to-admit="pace-node --cluster-admit=mallory=%s:6680@%s"`, mallory.addr, m.key.Public())
			if line := lineWith(a.log.String(), "a machine that nobody admitted", "key="+m.key.Public().String()); !strings.Contains(line, " "+admit) || !strings.Contains(line, "from="+mallory.addr.String()+":") {
				t.Errorf("the log says %q, want %s", line, admit)
			}
			small, _ := wire.EncodeChallenge("x", [32]byte{1}, 90)
			claims := datagram(wire.KindBeacon, nil)
			be.BigEndian.PutUint32(claims[3:], 1<<31)
			for _, c := range []struct {
				what    string
				to      netip.AddrPort
				b       []byte
				counted string
			}{
				{"one byte", a.listening(), []byte{wire.Magic}, malformed},
				{"another magic", a.listening(), append([]byte{0xFC}, datagram(wire.KindBeacon)[1:]...), malformed},
				{"another version", a.listening(), append([]byte{wire.Magic, 2}, datagram(wire.KindBeacon)[2:]...), version},
				{"another kind", a.listening(), datagram(9), malformed},
				{"a claim of 2 GiB", a.listening(), claims, malformed},
				{"a challenge at the listener", a.listening(), small, malformed},
				{"a beacon at the answering socket", a.answering(), wire.EncodeBeacon(m.summary(1)), malformed},
				{"noise", a.answering(), bytes.Repeat([]byte{0xFD, 3, 3}, 400), malformed},
				{"a challenge smaller than its proof", a.answering(), small, withheld},
			} {
				if got := m.draws(c.what, m.conn, a, c.to, c.b, c.counted, 1); len(got) != 0 {
					t.Errorf("%s draws %d replies", c.what, len(got))
				}
			}
		})
	})

	run("Replay a captured proof", func(t *testing.T) {
		unmoved(t, func() {
			own := m.summary(20)
			proof := proofBy(m.key, m.challenged(a, own), own)
			m.draws("from another address", m.alt, a, a.answering(), proof, notIssued, 1)
			m.draws("the proof", m.conn, a, a.answering(), proof, verified, 1)
			m.draws("the proof again", m.conn, a, a.answering(), proof, replayed, 1)
			m.draws("at another machine", m.conn, b, b.answering(), proof, notIssued, 1)
			// And late: once its cookie has expired, also one that was never used.
			never := m.summary(21)
			late := proofBy(m.key, m.challenged(a, never), never)
			issued := time.Now()
			until(t, "both have expired", func() (bool, string) {
				was := a.metrics().of(t, expired)
				m.draws("late", m.conn, a, a.answering(), proof, "pace_discovery_challenges_sent_total", 0)
				now := a.metrics().of(t, expired)
				return now > was, fmt.Sprint(now)
			})
			time.Sleep(time.Until(issued.Add(cookieLife))) // the second was issued later, and by then at the latest
			m.draws("a first proof, late", m.conn, a, a.answering(), late, expired, 1)
		})
	})

	run("Capture a proof and re-aim it at another endpoint", func(t *testing.T) {
		unmoved(t, func() {
			ear.take()
			var p wire.Proof
			until(t, "birch proves itself to alder", func() (bool, string) {
				for _, c := range ear.take() {
					if kindOf(c.b) == wire.KindProof && c.from.Addr() == b.host.addr && c.to.Addr() == a.host.addr {
						_, payload, _ := wire.ParseDatagram(c.b)
						var err error
						p, err = wire.DecodeProof(payload)
						return err == nil, fmt.Sprint(err)
					}
				}
				return false, ""
			})
			s := p.Summary
			s.OwnEndpoint, s.RaftEndpoint = mallory.addr.String()+":6674", mallory.addr.String()+":6680"
			raw, _ := wire.FitSummary(&s)
			aimed := wire.EncodeProof(raw, p.Nonce, p.Key, p.Signature)
			before := a.metrics().of(t, notIssued)
			if err := m.spoof(b.host.addr, a.answering(), aimed); err != nil {
				t.Fatal(err)
			}
			until(t, "it is counted as never asked for", func() (bool, string) {
				got := a.metrics().of(t, notIssued)
				return got >= before+1, fmt.Sprint(got)
			})
			// In its own name, with a challenge of its own: birch's signature is of another summary.
			c := m.challenged(a, raw)
			m.draws("a signature of another summary", m.conn, a, a.answering(), wire.EncodeProof(raw, c.Nonce, p.Key, p.Signature), forged, 1)
			a.shows("birch where it was", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
		})
	})

	run("Claim a known member's id", func(t *testing.T) {
		unmoved(t, func() {
			m.proves(a, m.key, m.speaksFor(cluster, id), unknownKey)
			thief := mallory.client(t, m.key)
			if ans, code := thief.enroll(a.endpoint(), wire.EnrollRequest{ID: id, Endpoint: mallory.addr.String() + ":6674", Nonce: [32]byte{1}}); code != 0 || ans.Outcome != wire.OutcomePending {
				t.Errorf("it is told %s, %s", code, ans.Outcome)
			}
			wants(t, a.must("--enroll-list"), "key "+m.key.Public().String(), "KEY-CONFLICT")
			a.must("--enroll-reject=" + id + "@" + m.key.Public().String())
			a.shows("birch authenticated", func(d nodeDoc) bool { return d.Peers.Authenticated == 1 })
		})
	})

	run("Obtain a shared cluster key", func(t *testing.T) {
		unmoved(t, func() {
			// There is none: all that birch knows but its private key proves nothing, nor does another member's.
			for _, signer := range []identity.PrivateKey{m.key, a.key()} {
				raw := m.speaksFor(cluster, id)
				c := m.challenged(a, raw)
				sig := signer.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, raw, key.Public()))
				m.draws("birch's key with another's signature", m.conn, a, a.answering(), wire.EncodeProof(raw, c.Nonce, key.Public(), sig), forged, 1)
			}
		})
	})

	run("Mint a fleet of its own on the segment", func(t *testing.T) {
		unmoved(t, func() {
			// A whole node of mallory's, which says that it is established; it is younger here, and that does not matter.
			minted := l.hosts[3].start(t, "minted", metered)
			minted.must("--enroll-auto-approve=1h")
			other := minted.standing().cluster
			until(t, "the established fleet says so", func() (bool, string) {
				out, err := a.pacectl("node")
				return err == nil && strings.Contains(out, "foreign-fleet-visible") && strings.Contains(out, other), out
			})
			// A solitary machine that hears it may ask to join it, here one that hears no other; a typed seed outranks it.
			l.hosts[4].nft(fmt.Sprintf("table inet only { chain in { type filter hook input priority 0; ip saddr { %s, %s } drop; }; }", a.host.addr, b.host.addr))
			c := l.hosts[4].start(t, "cedar")
			c.inMode("learner", minted)
			d := l.hosts[5].start(t, "dogwood", "--fleet-seed="+a.endpoint())
			seeded, k := d.asks(a)
			a.must("--enroll-reject=" + seeded + "@" + k)
			minted.stop()
			c.stop()
			d.stop()
		})
	})

	run("Obtain one member's identity key", func(t *testing.T) {
		e := l.hosts[6].joined(t, a, "elm")
		e.follows(a)
		b.kill()
		// Its address can be moved by a proof.
		before := a.standing()
		m.proves(a, key, m.speaksFor(cluster, id), verified)
		if after := a.standing(); after != before {
			t.Errorf("a proof changed the fleet: before %+v\nafter  %+v", before, after)
		}
		// That ends with the key, which nothing has to change for on any other machine.
		a.must("--cluster-forget=" + id)
		until(t, "a proof under the revoked key is refused", func() (bool, string) {
			was := a.metrics().of(t, revokedKey)
			raw := m.speaksFor(cluster, id)
			m.conn.WriteToUDPAddrPort(wire.EncodeBeacon(raw), a.listening())
			buf := make([]byte, 2048)
			m.conn.SetReadDeadline(time.Now().Add(time.Second))
			size, err := m.conn.Read(buf)
			if err != nil {
				return false, err.Error() // proven a moment ago: it is not asked again for a minute
			}
			_, payload, _ := wire.ParseDatagram(buf[:size])
			c, err := wire.DecodeChallenge(payload)
			if err != nil {
				return false, err.Error()
			}
			m.draws("a proof under a revoked key", m.conn, a, a.answering(), proofBy(key, c, raw), revokedKey, 1)
			now := a.metrics().of(t, revokedKey)
			return now == was+1, fmt.Sprint(now)
		})
		line := lineWith(a.log.String(), "proof under a revoked key, which is never admitted again", "key="+key.Public().String())
		wants(t, line, "from="+mallory.addr.String()+":", "pace-node --reset-identity")
		if strings.Contains(line, "cluster-admit") {
			t.Errorf("a revoked key is given a way in: %s", line)
		}
		thief := mallory.client(t, key)
		if ans, code := thief.enroll(a.endpoint(), wire.EnrollRequest{ID: "another-id", Endpoint: mallory.addr.String() + ":6674", Nonce: [32]byte{2}}); code != 0 || ans.Outcome != wire.OutcomeRevoked {
			t.Errorf("under another id it is told %s, %s", code, ans.Outcome)
		}
		e.follows(a)
	})
}
