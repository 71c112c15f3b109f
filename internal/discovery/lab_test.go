package discovery

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// epochStart is the zero of every test's clock.
var epochStart = time.Date(2026, 11, 30, 8, 0, 0, 0, time.UTC)

// entropyOf returns a deterministic stream.
func entropyOf(seed string) func([]byte) {
	n := uint64(0)
	return func(b []byte) {
		for i := 0; i < len(b); i += sha256.Size {
			n++
			sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(seed), n))
			copy(b[i:], sum[:])
		}
	}
}

// keyOf returns the identity key of a name.
func keyOf(name string) identity.PrivateKey {
	return identity.NewPrivateKey(sha256.Sum256([]byte(name)))
}

// roster is a roster that tests write.
type roster struct {
	keys    map[string]identity.PublicKey
	revoked map[identity.PublicKey]bool
	asked   int
}

func newRoster(ids ...string) *roster {
	r := &roster{map[string]identity.PublicKey{}, map[identity.PublicKey]bool{}, 0}
	for _, id := range ids {
		r.keys[id] = keyOf(id).Public()
	}
	return r
}

func (r *roster) verdict(id string, key identity.PublicKey) RosterVerdict {
	r.asked++
	held, ok := r.keys[id]
	switch {
	case r.revoked[key]:
		return RosterRevoked
	case !ok:
		return RosterUnknown
	case held == key:
		return RosterHolds
	}
	return RosterOtherKey
}

// rig is one exchange and the world around it.
type rig struct {
	*Exchange
	key    identity.PrivateKey
	addr   netip.AddrPort // of its answering socket
	roster *roster
	own    map[netip.Addr]bool
	events []Event
	now    time.Time
}

func summaryOf(cluster, node string, host netip.Addr) wire.Summary {
	fc := netip.AddrPortFrom(host, 6674).String()
	return wire.Summary{
		Cluster: cluster, State: wire.StateEstablished, Created: 1_790_000_000,
		Leader: wire.Leader{ID: node, Endpoint: fc, Key: keyOf(node).Public(), HasKey: true},
		Node:   node, RaftEndpoint: netip.AddrPortFrom(host, 6680).String(),
		Members: []string{node}, Total: 1, OwnEndpoint: fc,
	}
}

func newRig(node, cluster, addr string, r *roster) *rig {
	g := &rig{key: keyOf(node), addr: netip.MustParseAddrPort(addr), roster: r, own: map[netip.Addr]bool{}, now: epochStart}
	g.own[g.addr.Addr()] = true
	if r == nil {
		g.roster = newRoster()
	}
	g.Exchange = New(g.config(node), epochStart, Self{summaryOf(cluster, node, g.addr.Addr())})
	return g
}

func (g *rig) config(seed string) Config {
	return Config{
		Entropy: entropyOf(seed), Roster: g.roster.verdict, Key: g.key,
		OwnAddress: func(a netip.Addr) bool { return g.own[a] },
	}
}

func (g *rig) station() *Station {
	return &Station{Exchange: g.Exchange, Answering: g.addr, Listener: netip.AddrPortFrom(g.addr.Addr(), 6681),
		OnEvent: func(_ time.Time, e Event) { g.events = append(g.events, e) }}
}

// take keeps the events of an output and copies its datagrams out.
func (g *rig) take(o Output) []Datagram {
	g.events = append(g.events, o.Events...)
	return slices.Clone(o.Send)
}

// hear hands over a beacon at the rig's own time.
func (g *rig) hear(from netip.AddrPort, beacon []byte) []Datagram {
	return g.take(g.Handle(g.now, SocketListener, from, g.addr.Addr(), beacon))
}

func (g *rig) get(from netip.AddrPort, datagram []byte) []Datagram {
	return g.take(g.Handle(g.now, SocketAnswering, from, g.addr.Addr(), datagram))
}

func (g *rig) seen(kind EventKind) (out []Event) {
	for _, e := range g.events {
		if e.Kind == kind {
			out = append(out, e)
		}
	}
	return out
}

// voice is a machine that speaks the wire by hand: honest, broken or hostile.
type voice struct {
	key  identity.PrivateKey
	addr netip.AddrPort
	sum  wire.Summary
}

func newVoice(cluster, node, key, addr string) *voice {
	a := netip.MustParseAddrPort(addr)
	return &voice{keyOf(key), a, summaryOf(cluster, node, a.Addr())}
}

func (v *voice) raw() []byte    { return wire.AppendSummary(nil, &v.sum) }
func (v *voice) beacon() []byte { return wire.EncodeBeacon(v.raw()) }

// answer makes the proof of a challenge as v's own key signs it.
func (v *voice) answer(t testing.TB, challenge []byte) []byte {
	t.Helper()
	return v.answerAs(t, challenge, v.key, v.key.Public())
}

func (v *voice) answerAs(t testing.TB, challenge []byte, signer identity.PrivateKey, claimed identity.PublicKey) []byte {
	t.Helper()
	c := decodeChallenge(t, challenge)
	raw := v.raw()
	sig := signer.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, raw, claimed))
	return wire.EncodeProof(raw, c.Nonce, claimed, sig)
}

func decodeChallenge(t testing.TB, b []byte) wire.Challenge {
	t.Helper()
	kind, payload, verdict := wire.ParseDatagram(b)
	if kind != wire.KindChallenge || verdict != wire.VerdictOK {
		t.Fatalf("not a challenge: %x", b)
	}
	c, err := wire.DecodeChallenge(payload)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// challenged hands v's beacon to g and returns the challenge, nil if there is none.
func (g *rig) challenged(v *voice) []byte {
	sent := g.hear(v.addr, v.beacon())
	if len(sent) == 0 {
		return nil
	}
	return sent[0].Bytes
}

// prove walks v through the exchange.
func (g *rig) prove(t testing.TB, v *voice) {
	t.Helper()
	c := g.challenged(v)
	if c == nil {
		t.Fatalf("no challenge for %s at %v", v.sum.Node, g.now.Sub(epochStart))
	}
	before := g.Count(CountProofsVerified)
	g.get(v.addr, v.answer(t, c))
	if g.Count(CountProofsVerified) != before+1 {
		t.Fatalf("the proof of %s was refused", v.sum.Node)
	}
}

func (g *rig) authenticated() (ids []string) {
	for _, p := range g.Exchange.Authenticated(g.now) {
		ids = append(ids, p.ID)
	}
	return ids
}

func (g *rig) after(d time.Duration) { g.now = g.now.Add(d) }

// hostN returns the n-th of many distinct IPv4 addresses in 10.0.0.0/8.
func hostN(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

func from(n int) netip.AddrPort { return netip.AddrPortFrom(hostN(n), 40000) }

// counts returns every counter that is not zero, by its metric.
func (g *rig) nonZero() map[string]uint64 {
	out := map[string]uint64{}
	for _, r := range Counters() {
		if n := g.Count(r.Counter); n > 0 {
			out[r.Metric] = n
		}
	}
	return out
}

func wantEqual[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s: got %v, want %v", what, got, want)
	}
	return nil
}
