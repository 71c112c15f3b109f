package wire

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func vectorSummary(tb testing.TB, v vector) Summary {
	s := Summary{
		Cluster: v.Cluster, State: SummaryState(v.State), Created: v.Created, Node: v.Node,
		RaftEndpoint: v.RaftEndpoint, Members: v.Members, Total: v.Total, OwnEndpoint: v.OwnEndpoint,
		Leader: Leader{ID: v.Leader, Endpoint: v.LeaderEndpoint},
	}
	if v.LeaderKey != "" {
		s.Leader.Key, s.Leader.HasKey = hex32(tb, v.LeaderKey), true
	}
	return s
}

func TestVectorSummaries(t *testing.T) {
	vs := vectors(t)
	for _, name := range []string{"summary", "smallest summary"} {
		v := vs[name]
		want, raw := vectorSummary(t, v), unhex(t, v.Bytes)
		if got := AppendSummary(nil, &want); !bytes.Equal(got, raw) {
			t.Errorf("%s encodes as\n%x, want\n%x", name, got, raw)
		}
		got, err := DecodeSummary(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s decodes otherwise (-want +got):\n%s", name, d)
		}
		if v.ProofSize != 0 && ProofSize(len(raw)) != v.ProofSize {
			t.Errorf("%s: proof size %d, want %d", name, ProofSize(len(raw)), v.ProofSize)
		}
	}
	w := worstSummary()
	raw, ok := FitSummary(&w)
	if !ok || ProofSize(len(raw)) != vs["worst case"].ProofSize || vs["worst case"].ProofSize != 1179 {
		t.Errorf("worst case: ok %v, proof size %d, want 1179", ok, ProofSize(len(raw)))
	}
}

func TestVectorDatagrams(t *testing.T) {
	vs := vectors(t)
	raw := unhex(t, vs["summary"].Bytes)
	nonce := hex32(t, vs["challenge"].Nonce)
	keyA := hex32(t, vs["keys"].PublicA)
	sig := hex64(t, vs["proof"].Signature)

	challenge, ok := EncodeChallenge(vs["challenge"].Challenger, nonce, vs["beacon"].Length)
	if !ok {
		t.Fatal("the challenge does not fit its beacon")
	}
	for name, got := range map[string][]byte{
		"beacon":    EncodeBeacon(raw),
		"challenge": challenge,
		"proof":     EncodeProof(raw, nonce, keyA, sig),
	} {
		want := unhex(t, vs[name].Bytes)
		if !bytes.Equal(got, want) || len(got) != vs[name].Length {
			t.Errorf("%s encodes as\n%x, want\n%x", name, got, want)
		}
		kind, _, verdict := ParseDatagram(want)
		if verdict != VerdictOK || kind.String() != name {
			t.Errorf("%s parses as %v, verdict %d", name, kind, verdict)
		}
	}

	summary := vectorSummary(t, vs["summary"])
	_, payload, _ := ParseDatagram(unhex(t, vs["beacon"].Bytes))
	b, err := DecodeBeacon(payload)
	if d := cmp.Diff(Beacon{Summary: summary, Raw: raw}, b); err != nil || d != "" {
		t.Errorf("beacon: %v\n%s", err, d)
	}
	_, payload, _ = ParseDatagram(unhex(t, vs["challenge"].Bytes))
	c, err := DecodeChallenge(payload)
	if d := cmp.Diff(Challenge{Cluster: "prod-eu", Nonce: nonce}, c); err != nil || d != "" {
		t.Errorf("challenge: %v\n%s", err, d)
	}
	_, payload, _ = ParseDatagram(unhex(t, vs["proof"].Bytes))
	p, err := DecodeProof(payload)
	if d := cmp.Diff(Proof{Summary: summary, Raw: raw, Nonce: nonce, Key: keyA, Signature: sig}, p); err != nil || d != "" {
		t.Errorf("proof: %v\n%s", err, d)
	}
}

// TestVectorMessages builds each signed message of the vectors and compares
// bytes and signature.
func TestVectorMessages(t *testing.T) {
	vs := vectors(t)
	keys := map[string][32]byte{"A": hex32(t, vs["keys"].PublicA), "B": hex32(t, vs["keys"].PublicB)}
	nonce, raw := hex32(t, vs["proof"].Nonce), unhex(t, vs["summary"].Bytes)

	v := vs["enrollment request"]
	request := EnrollRequest{ID: v.Node, Endpoint: v.Endpoint, Role: v.Role, Key: keys["A"], Nonce: hex32(t, v.Nonce), Signature: hex64(t, v.Signature)}
	answer := func(name string) (EnrollAnswer, Message) {
		v := vs[name]
		a := EnrollAnswer{Outcome: Outcome(v.Outcome), Roster: unhex(t, v.Roster), Signer: keys[v.By], Signature: hex64(t, v.Signature)}
		if v.Challenge != "" {
			a.Challenge, a.HasChallenge = hex32(t, v.Challenge), true
		}
		return a, a.Message(hex32(t, v.Nonce), v.Node, keys[v.Key], v.Cluster)
	}
	approved, approvedMessage := answer("enrollment answer approved")
	pending, pendingMessage := answer("enrollment answer pending")
	v = vs["startup event"]
	event := StartupEvent{
		Cluster: v.Cluster, Node: v.Node, Component: v.Component, BootID: [16]byte(unhex(t, v.BootID)),
		Sequence: v.Sequence, At: v.At, AgeMS: v.AgeMs, Version: v.Version, Signature: hex64(t, v.Signature),
	}
	for _, c := range []struct {
		name    string
		purpose Purpose
		m       Message
	}{
		{"proof", PurposeDiscoveryProof, DiscoveryProofMessage(vs["proof"].Challenger, nonce, raw, keys["A"])},
		{"fleet summary over TCP", PurposeFleetSummary, FleetSummaryMessage(nonce, raw, keys["A"])},
		{"enrollment request", PurposeEnrollRequest, request.Message()},
		{"enrollment answer approved", PurposeEnrollAnswer, approvedMessage},
		{"enrollment answer pending", PurposeEnrollAnswer, pendingMessage},
		{"startup event", PurposeStartupEvent, event.Message()},
	} {
		v := vs[c.name]
		if v.Message == "" {
			t.Fatalf("no vector %q", c.name)
		}
		if c.m.Purpose() != c.purpose || hex.EncodeToString(c.m.Bytes()) != v.Message {
			t.Errorf("%s: message\n%x, want\n%s", c.name, c.m.Bytes(), v.Message)
		}
		key := keys[v.By]
		if !ed25519.Verify(key[:], c.m.Bytes(), unhex(t, v.Signature)) {
			t.Errorf("%s: the vector's signature does not verify", c.name)
		}
	}

	// Their payloads come back whole.
	if got, err := DecodeEnrollRequest(request.Append(nil)); err != nil || got != request {
		t.Errorf("enrollment request: %+v, %v", got, err)
	}
	for _, a := range []EnrollAnswer{approved, pending} {
		if got, err := DecodeEnrollAnswer(a.Append(nil)); err != nil || cmp.Diff(a, got) != "" {
			t.Errorf("enrollment answer: %v\n%s", err, cmp.Diff(a, got))
		}
	}
	if got, err := DecodeStartupEvent(event.Append(nil)); err != nil || got != event {
		t.Errorf("startup event: %+v, %v", got, err)
	}
}

func TestVectorCookie(t *testing.T) {
	v := vectors(t)["cookie"]
	for serial, want := range map[uint64]string{0: v.Serial0, 7: v.Serial7} {
		mac := hmac.New(sha256.New, unhex(t, v.EpochKey))
		mac.Write(CookieFields(serial, v.Challenger, v.TargetCluster, v.TargetNode, v.TargetRaftEndpoint, v.Host))
		cookie := append(binary.BigEndian.AppendUint64(nil, serial), mac.Sum(nil)[:24]...)
		if hex.EncodeToString(cookie) != want {
			t.Errorf("serial %d: cookie %x, want %s", serial, cookie, want)
		}
	}
}
