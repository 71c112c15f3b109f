package discovery

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// One test a row of the threat model's first table: what an attacker on the
// segment can do, and what comes of it.

func fleetOfTwo() (*rig, *voice) {
	return newRig("n-a", "c-office", "10.1.0.1:50001", newRoster("n-a", "n-b")),
		newVoice("c-office", "n-b", "n-b", "10.1.0.2:50002")
}

var mallory = netip.MustParseAddrPort("10.1.0.66:6666")

// Listen to the segment: what was heard admits nobody, said again from elsewhere
// or from the same host.
func TestThreatListenToTheSegment(t *testing.T) {
	a := newRig("n-a", "c-office", "10.1.0.1:50001", newRoster("n-a", "n-b"))
	b := newRig("n-b", "c-office", "10.1.0.2:50002", newRoster("n-a", "n-b"))
	var heard []Parcel
	stations := []*Station{a.station(), b.station()}
	var in []Parcel
	now := epochStart
	for range 20 {
		now = now.Add(100 * time.Millisecond)
		in = PumpOnce(now, stations, in)
		heard = append(heard, in...)
	}
	a.now, b.now = now, now
	if len(a.authenticated()) != 1 || len(b.authenticated()) != 1 {
		t.Fatal("the two did not find each other")
	}
	fresh := newRig("n-c", "c-office", "10.1.0.3:50003", newRoster("n-a", "n-b"))
	for _, p := range heard {
		for _, source := range []netip.AddrPort{mallory, p.From} {
			fresh.hear(source, p.Bytes)
			fresh.get(source, p.Bytes)
		}
	}
	if got := fresh.authenticated(); len(got) != 0 {
		t.Errorf("a recording authenticated %v", got)
	}
	if fresh.Count(CountProofsVerified) != 0 {
		t.Error("a recorded proof verified")
	}
	for _, p := range heard { // public names, keys, endpoints; never a seed
		if seed := a.key.Seed(); bytes.Contains(p.Bytes, seed[:]) {
			t.Error("a private key on the wire")
		}
	}
}

// Send arbitrary datagrams: it provokes a challenge and answers under its own
// key, which is reported and never desired; no table grows without bound, no
// log floods, no reply is larger than what provoked it.
func TestThreatSendArbitraryDatagrams(t *testing.T) {
	g, _ := fleetOfTwo()
	v := newVoice("c-office", "n-z", "mallory", "10.1.0.66:6666")
	g.prove(t, v)
	if got := g.authenticated(); len(got) != 0 {
		t.Errorf("an unrostered key is authenticated: %v", got)
	}
	e := g.seen(EventUnknownKey)
	if len(e) != 1 || e[0].Key != v.key.Public() || e[0].From != v.addr || !strings.HasSuffix(e[0].Admit, "@"+v.key.Public().String()) {
		t.Errorf("reported as %+v", e)
	}
	// A minute of other keys: one line, which says how many it stands for.
	for i := range 20 {
		g.after(3 * time.Second)
		v := newVoice("c-office", "n-z", "mallory"+string(rune('a'+i)), "10.1.0.66:6666")
		v.sum.Total = uint64(i + 2)
		g.prove(t, v)
	}
	if e := g.seen(EventUnknownKey); len(e) != 2 || e[0].Count+e[1].Count != 21 {
		t.Errorf("%d lines in a minute: %+v", len(e), e)
	}
	if got := g.Count(CountRefusedUnknownKey); got != 21 {
		t.Errorf("%d counted, want every one of 21", got)
	}
}

// Replay a captured proof: its cookie is spent, or was another address's.
func TestThreatReplayACapturedProof(t *testing.T) {
	g, b := fleetOfTwo()
	proof := b.answer(t, g.challenged(b))
	g.get(mallory, proof)
	if g.Count(CountRefusedNotIssued) != 1 {
		t.Error("a proof from another address was not refused as never asked for")
	}
	g.get(b.addr, proof)
	if len(g.authenticated()) != 1 {
		t.Fatal("the early replay destroyed the honest answer")
	}
	for _, source := range []netip.AddrPort{b.addr, netip.AddrPortFrom(b.addr.Addr(), 1)} {
		g.get(source, proof)
	}
	if g.Count(CountRefusedReplayed) != 2 || g.Count(CountProofsVerified) != 1 {
		t.Errorf("replays: %v", g.nonZero())
	}
	g.after(31 * time.Second)
	g.get(b.addr, proof)
	if g.Count(CountRefusedExpired) != 1 {
		t.Errorf("a late replay: %v", g.nonZero())
	}
	if len(g.seen(EventForged)) != 0 || g.Count(CountRefusedForged) != 0 {
		t.Error("replayed and expired are no forgeries")
	}
}

// Capture a proof and re-aim it at another endpoint: the endpoint is signed.
func TestThreatReAimACapturedProof(t *testing.T) {
	g, b := fleetOfTwo()
	proof := b.answer(t, g.challenged(b))
	_, payload, _ := wire.ParseDatagram(proof)
	p, err := wire.DecodeProof(payload)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Summary
	s.OwnEndpoint = "10.1.0.66:6674"
	g.get(b.addr, wire.EncodeProof(wire.AppendSummary(nil, &s), p.Nonce, p.Key, p.Signature))
	if g.Count(CountRefusedForged) != 1 || len(g.authenticated()) != 0 {
		t.Errorf("re-aimed: %v", g.nonZero())
	}
	g.get(b.addr, proof)
	if fc, raft, ok := g.Lookup("n-b"); !ok || fc != "10.1.0.2:6674" || raft != "10.1.0.2:6680" {
		t.Errorf("after the honest proof: %q %q %v", fc, raft, ok)
	}
}

// Claim a known member's id: an unknown key, and the member stays what it was.
func TestThreatClaimAKnownMembersID(t *testing.T) {
	for _, order := range []string{"member first", "attacker first"} {
		g, b := fleetOfTwo()
		v := newVoice("c-office", "n-b", "mallory", "10.1.0.66:6666")
		if order == "member first" {
			g.prove(t, b)
			g.prove(t, v)
		} else {
			g.prove(t, v)
			g.prove(t, b)
		}
		if fc, _, ok := g.Lookup("n-b"); !ok || fc != "10.1.0.2:6674" {
			t.Errorf("%s: n-b is at %q, %v", order, fc, ok)
		}
		e := g.seen(EventUnknownKey)
		if len(e) != 1 || e[0].ID != "n-b" || e[0].Key != v.key.Public() {
			t.Errorf("%s: reported as %+v", order, e)
		}
		// Its unproven beacons take nothing away either.
		v.sum.OwnEndpoint = "10.1.0.67:6674"
		g.hear(v.addr, v.beacon())
		if got := g.authenticated(); len(got) != 1 {
			t.Errorf("%s: a beacon from elsewhere took the member's status", order)
		}
	}
}

// Obtain a shared cluster key: there is none. All that a member knows but its
// own private key proves nothing.
func TestThreatThereIsNoSharedKey(t *testing.T) {
	g, b := fleetOfTwo()
	c := g.challenged(b)
	g.get(b.addr, b.answerAs(t, c, keyOf("mallory"), b.key.Public())) // names the roster's key
	g.get(b.addr, b.answerAs(t, c, keyOf("n-a"), b.key.Public()))     // another member signs
	if g.Count(CountRefusedForged) != 2 || len(g.authenticated()) != 0 {
		t.Errorf("%v", g.nonZero())
	}
}

// Obtain one member's identity key: that member's address can be moved by a
// proof, which ends when the key is revoked, on this machine alone.
func TestThreatStolenMemberKey(t *testing.T) {
	g, b := fleetOfTwo()
	g.prove(t, b)
	thief := newVoice("c-office", "n-b", "n-b", "10.1.0.66:6666")
	g.prove(t, thief)
	if fc, _, ok := g.Lookup("n-b"); !ok || fc != "10.1.0.66:6674" {
		t.Errorf("moved to %q, %v", fc, ok)
	}
	g.roster.revoked[b.key.Public()] = true
	if _, _, ok := g.Lookup("n-b"); ok || len(g.authenticated()) != 0 {
		t.Error("the proof taken before the revocation is still handed on")
	}
	if p := g.Peers(g.now); len(p) != 1 || p[0].Verdict != RosterRevoked || p[0].Authenticated {
		t.Errorf("listed as %+v", p)
	}
	g.after(61 * time.Second)
	g.prove(t, thief)
	e := g.seen(EventRevokedKey)
	if len(e) != 1 || e[0].Admit != "" || !strings.Contains(e[0].Reason, "never admitted again") || g.Count(CountRefusedRevokedKey) != 1 {
		t.Errorf("reported as %+v, %v", e, g.nonZero())
	}
}

// Mint a fleet of its own on the segment: it is proven and handed to formation,
// whose table decides; this roster is not asked, and no peer is made of it.
func TestThreatMintAFleet(t *testing.T) {
	g, _ := fleetOfTwo()
	v := newVoice("c-mallory", "n-b", "mallory", "10.1.0.66:6666")
	v.sum.Created = 0
	asked := g.roster.asked
	g.prove(t, v)
	e := g.seen(EventForeignProven)
	if len(e) != 1 || e[0].Summary.Cluster != "c-mallory" || e[0].Key != v.key.Public() || !bytes.Equal(e[0].Raw, v.raw()) || !e[0].First {
		t.Errorf("handed on as %+v", e)
	}
	if g.roster.asked != asked {
		t.Error("the own roster was asked about another cluster's key")
	}
	if len(g.Peers(g.now)) != 0 || len(g.authenticated()) != 0 {
		t.Error("a foreign speaker is in the own directory")
	}
}
