package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// TestParseDatagramOrder has inputs that fail one check and all later ones.
func TestParseDatagramOrder(t *testing.T) {
	long := appendHeader(nil, KindBeacon, MaxDatagram+1-HeaderSize)
	long = append(long, make([]byte, MaxDatagram+1-HeaderSize)...)
	for _, c := range []struct {
		name string
		b    []byte
		want Verdict
	}{
		{"empty", nil, VerdictMalformed},
		{"one byte", []byte{0xFD}, VerdictMalformed},
		{"magic, version, kind and length wrong", []byte{0xFC, 2, 9, 0, 0, 0, 9}, VerdictMalformed},
		{"version, kind and length wrong", []byte{0xFD, 2, 9, 0, 0, 0, 9}, VerdictVersion},
		{"version wrong, nothing more", []byte{0xFD, 1}, VerdictVersion},
		{"version 4", []byte{0xFD, 4, 1, 0, 0, 0, 0}, VerdictVersion},
		{"header cut", []byte{0xFD, 3, 1, 0, 0, 0}, VerdictMalformed},
		{"kind and length wrong", []byte{0xFD, 3, 9, 0, 0, 0, 9}, VerdictMalformed},
		{"kind 0", []byte{0xFD, 3, 0, 0, 0, 0, 0}, VerdictMalformed},
		{"length above", []byte{0xFD, 3, 1, 0, 0, 0, 1}, VerdictMalformed},
		{"length below", []byte{0xFD, 3, 1, 0, 0, 0, 0, 0}, VerdictMalformed},
		{"length 4 GiB", []byte{0xFD, 3, 1, 0xff, 0xff, 0xff, 0xff}, VerdictMalformed},
		{"longer than any datagram", long, VerdictMalformed},
		{"no payload", []byte{0xFD, 3, 1, 0, 0, 0, 0}, VerdictOK},
		{"longest", append(appendHeader(nil, KindProof, MaxDatagram-HeaderSize), make([]byte, MaxDatagram-HeaderSize)...), VerdictOK},
	} {
		_, payload, got := ParseDatagram(c.b)
		if got != c.want {
			t.Errorf("%s: verdict %d, want %d", c.name, got, c.want)
		}
		if got == VerdictOK && len(payload) != len(c.b)-HeaderSize || got != VerdictOK && payload != nil {
			t.Errorf("%s: payload of %d bytes", c.name, len(payload))
		}
	}
}

// TestPayloadFields: each kind is an exact number of fields of exact widths.
func TestPayloadFields(t *testing.T) {
	raw, n32, n64 := summaryWith(-1, nil), make([]byte, 32), make([]byte, 64)
	join := func(fields ...[]byte) (b []byte) {
		for _, f := range fields {
			b = AppendField(b, f)
		}
		return b
	}
	beacon := func(b []byte) error { _, err := DecodeBeacon(b); return err }
	challenge := func(b []byte) error { _, err := DecodeChallenge(b); return err }
	proof := func(b []byte) error { _, err := DecodeProof(b); return err }
	for _, c := range []struct {
		name    string
		decode  func([]byte) error
		payload []byte
		ok      bool
	}{
		{"beacon", beacon, join(raw, make([]byte, 136)), true},
		{"beacon with empty padding", beacon, join(raw, nil), true},
		{"beacon with padding that is not zero", beacon, join(raw, []byte("xyz")), true},
		{"beacon without padding", beacon, join(raw), false},
		{"beacon with a third field", beacon, join(raw, nil, nil), false},
		{"beacon with a bad summary", beacon, join(raw[:len(raw)-1], nil), false},
		{"beacon with no summary", beacon, join(nil, nil), false},
		{"challenge", challenge, join([]byte("c"), n32, nil), true},
		{"challenge with padding that is not zero", challenge, join([]byte("c"), n32, []byte{1}), true},
		{"challenge without padding", challenge, join([]byte("c"), n32), false},
		{"challenge of no cluster", challenge, join(nil, n32, nil), false},
		{"challenge of a 64-byte cluster", challenge, join(bytes.Repeat([]byte("c"), 64), n32, nil), true},
		{"challenge of a 65-byte cluster", challenge, join(bytes.Repeat([]byte("c"), 65), n32, nil), false},
		{"challenge of a cluster not UTF-8", challenge, join([]byte{0xff}, n32, nil), false},
		{"challenge with a short nonce", challenge, join([]byte("c"), n32[:31], nil), false},
		{"challenge with a long nonce", challenge, join([]byte("c"), append(n32, 0), nil), false},
		{"challenge with a fourth field", challenge, join([]byte("c"), n32, nil, nil), false},
		{"proof", proof, join(raw, n32, n32, n64), true},
		{"proof with a short nonce", proof, join(raw, n32[:31], n32, n64), false},
		{"proof with a short key", proof, join(raw, n32, n32[:31], n64), false},
		{"proof with a short signature", proof, join(raw, n32, n32, n64[:63]), false},
		{"proof with a long signature", proof, join(raw, n32, n32, append(n64, 0)), false},
		{"proof with padding", proof, join(raw, n32, n32, n64, nil), false},
		{"proof without signature", proof, join(raw, n32, n32), false},
		{"proof with a bad summary", proof, join(raw[1:], n32, n32, n64), false},
		{"nothing", proof, nil, false},
	} {
		if err := c.decode(c.payload); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestSummaryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genSummary(MaxMembers).Draw(t, "summary")
		got, err := DecodeSummary(AppendSummary(nil, &want))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		if got.State == StatePending && got.Leader != (Leader{}) || got.State != StatePending && got.Pointer != (Leader{}) {
			t.Fatal("a pointer was taken for a leader, or a leader for a pointer")
		}
	})
}

// TestNoAmplification: whatever the summary, the beacon, a challenge that
// answers it and the proof that answers the challenge have one length.
func TestNoAmplification(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genSummary(14).Draw(t, "summary")
		raw, ok := FitSummary(&s)
		if !ok {
			t.Fatal("a summary of honest size was withheld")
		}
		beacon := EncodeBeacon(raw)
		cluster := genText(1, MaxID).Draw(t, "challenger")
		nonce := gen32().Draw(t, "nonce")
		challenge, ok := EncodeChallenge(cluster, nonce, len(beacon))
		if !ok {
			t.Fatalf("no challenge fits a beacon of %d bytes", len(beacon))
		}
		key, sig := gen32().Draw(t, "key"), gen64().Draw(t, "sig")
		proof := EncodeProof(raw, nonce, key, sig)
		if len(beacon) != len(challenge) || len(challenge) != len(proof) || len(proof) != ProofSize(len(raw)) || len(proof) != 151+len(raw) || len(proof) > MaxDatagram {
			t.Fatalf("beacon %d, challenge %d, proof %d bytes, summary %d", len(beacon), len(challenge), len(proof), len(raw))
		}

		kind, payload, verdict := ParseDatagram(beacon)
		b, err := DecodeBeacon(payload)
		if verdict != VerdictOK || kind != KindBeacon || err != nil || !bytes.Equal(b.Raw, raw) {
			t.Fatal(verdict, kind, err)
		}
		// The cut to ten and the drop take members from the end and nothing else.
		want := s
		want.Members = s.Members[:len(b.Summary.Members)]
		if d := cmp.Diff(want, b.Summary, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		kind, payload, verdict = ParseDatagram(challenge)
		c, err := DecodeChallenge(payload)
		if verdict != VerdictOK || kind != KindChallenge || err != nil || c != (Challenge{Cluster: cluster, Nonce: nonce}) {
			t.Fatal(verdict, kind, err, c)
		}
		kind, payload, verdict = ParseDatagram(proof)
		p, err := DecodeProof(payload)
		if verdict != VerdictOK || kind != KindProof || err != nil || !bytes.Equal(p.Raw, raw) || p.Nonce != nonce || p.Key != key || p.Signature != sig {
			t.Fatal(verdict, kind, err)
		}
	})
}

func TestEncodeChallengeSize(t *testing.T) {
	const bare = 7 + 4 + 7 + 4 + 32 + 4 // of "prod-eu", with empty padding
	for size, want := range map[int]bool{-1: false, 0: false, bare - 1: false, bare: true, bare + 1: true, 1232: true, 1233: false} {
		b, ok := EncodeChallenge("prod-eu", [32]byte{}, size)
		if ok != want || ok && len(b) != size || !ok && b != nil {
			t.Errorf("size %d: %d bytes, ok %v", size, len(b), ok)
		}
	}
}

// TestFitSummary: members go from the end until the proof fits; what does not
// fit at all, or what no reader would accept, is withheld.
func TestFitSummary(t *testing.T) {
	wide := worstSummary()
	wide.OwnEndpoint = strings.Repeat("o", 200) + ":6674"
	raw, ok := FitSummary(&wide)
	got, err := DecodeSummary(raw)
	if !ok || err != nil || ProofSize(len(raw)) > MaxDatagram {
		t.Fatal(ok, err, len(raw))
	}
	// 1179 − 21 + 205 = 1363 bytes; each member dropped is 68: two bring it to 1227.
	if len(got.Members) != 8 || got.Members[7] != wide.Members[7] || got.Total != 1000 || ProofSize(len(raw)) != 1227 {
		t.Errorf("%d members, total %d, proof of %d bytes", len(got.Members), got.Total, ProofSize(len(raw)))
	}
	if len(wide.Members) != MaxMembers {
		t.Error("the caller's members were cut")
	}

	many := worstSummary()
	many.Members = append(many.Members, "eleventh")
	if raw, ok = FitSummary(&many); !ok || ProofSize(len(raw)) != 1179 {
		t.Errorf("eleven members: ok %v, %d bytes", ok, ProofSize(len(raw)))
	}

	for name, change := range map[string]func(*Summary){
		"an endpoint that leaves no room": func(s *Summary) { s.OwnEndpoint = strings.Repeat("o", 1000) + ":6674" },
		"three long endpoints": func(s *Summary) {
			s.OwnEndpoint, s.RaftEndpoint = strings.Repeat("o", 400)+":1", strings.Repeat("r", 400)+":1"
		},
		"no cluster":                       func(s *Summary) { s.Cluster = "" },
		"a state that is none":             func(s *Summary) { s.State = 9 },
		"an endpoint that nobody can dial": func(s *Summary) { s.OwnEndpoint = ":6674" },
		"a member twice":                   func(s *Summary) { s.Members[1] = s.Members[0] },
		"a total below the number listed":  func(s *Summary) { s.Total = 9 },
		"a leader id beyond its bound":     func(s *Summary) { s.Leader.ID += "x" },
		"a member id beyond its bound":     func(s *Summary) { s.Members[0] += "x" },
		"a node id that is not UTF-8":      func(s *Summary) { s.Node = "\xff" },
	} {
		s := worstSummary()
		change(&s)
		if raw, ok := FitSummary(&s); ok || raw != nil {
			t.Errorf("%s: sent", name)
		}
	}
}
