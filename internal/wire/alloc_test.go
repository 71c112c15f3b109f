package wire

import (
	"bytes"
	"strings"
	"testing"
)

// junk is what a hostile sender tries, by the message that it is fed to.
func junk(tb testing.TB) map[string][]byte {
	vs := vectors(tb)
	tail := func(b []byte, i int, v byte) []byte { c := bytes.Clone(b); c[i] = v; return c }
	summary := unhex(tb, vs["summary"].Bytes)
	claims4G := []byte{0xff, 0xff, 0xff, 0xff, 1, 2, 3}
	few := AppendSummary(nil, &Summary{Cluster: "c", State: StateSolitary, Members: []string{"a", "b"}, Total: 1})
	members := AppendText(nil, strings.Repeat("m", 64))
	return map[string][]byte{
		"nothing":                        nil,
		"zeros":                          make([]byte, 512),
		"all ones":                       bytes.Repeat([]byte{0xff}, 512),
		"claims 4 GiB":                   claims4G,
		"a beacon's payload, cut":        unhex(tb, vs["beacon"].Bytes)[HeaderSize:200],
		"a proof's payload, cut":         unhex(tb, vs["proof"].Bytes)[HeaderSize:290],
		"a proof with a byte more":       append(unhex(tb, vs["proof"].Bytes)[HeaderSize:], 0),
		"a bad summary in a beacon":      unhex(tb, vs["beacon"].Bytes[2*HeaderSize:])[:20],
		"a state that is none":           tail(summary, 16, 9),
		"a total below the number":       few,
		"a member twice":                 summaryWith(7, append(bytes.Clone(members), members...)),
		"eleven members":                 summaryWith(7, bytes.Repeat(AppendText(nil, "a"), 11)),
		"members that claim 4 GiB":       summaryWith(7, claims4G),
		"an endpoint with a long host":   summaryWith(9, []byte(strings.Repeat("h", 300)+"\x1b:6674")),
		"an endpoint without port":       summaryWith(9, []byte(strings.Repeat("h", 300))),
		"an endpoint beyond ASCII":       summaryWith(9, []byte(strings.Repeat("ü", 300)+"\x00:6674")),
		"a node id that is not UTF-8":    summaryWith(5, bytes.Repeat([]byte{0xc3}, 60)),
		"a key of 31 bytes":              summaryWith(10, make([]byte, 31)),
		"a text, then nothing":           AppendText(nil, strings.Repeat("c", 64)),
		"an id, an endpoint, then wrong": append(AppendText(AppendText(nil, strings.Repeat("c", 64)), strings.Repeat("e", 200)), 1),
	}
}

// TestRefusalAllocatesNothing: refusing costs no memory, whatever is sent.
func TestRefusalAllocatesNothing(t *testing.T) {
	for name, b := range junk(t) {
		for _, c := range codecs() {
			if _, err := c.recode(b); err == nil {
				t.Errorf("%s was accepted as %s", name, c.name)
				continue
			}
			if n := testing.AllocsPerRun(20, func() { _, _ = c.recode(b) }); n != 0 {
				t.Errorf("refusing %s as %s: %v allocations", name, c.name, n)
			}
		}
		for kind, decode := range map[string]func() error{
			"beacon":    func() error { _, err := DecodeBeacon(b); return err },
			"challenge": func() error { _, err := DecodeChallenge(b); return err },
			"proof":     func() error { _, err := DecodeProof(b); return err },
			"push":      func() error { _, err := ReadPushKind(b); return err },
		} {
			if decode() == nil {
				t.Errorf("%s was accepted as %s", name, kind)
				continue
			}
			if n := testing.AllocsPerRun(20, func() { _ = decode() }); n != 0 {
				t.Errorf("refusing %s as %s: %v allocations", name, kind, n)
			}
		}
	}
	vs := vectors(t)
	for _, b := range [][]byte{nil, {0xFD}, {0xFD, 2, 1}, make([]byte, 1500), unhex(t, vs["beacon"].Bytes), unhex(t, vs["proof"].Bytes), {0xFD, 3, 1, 0xff, 0xff, 0xff, 0xff}} {
		if n := testing.AllocsPerRun(20, func() { ParseDatagram(b) }); n != 0 {
			t.Errorf("ParseDatagram of %d bytes: %v allocations", len(b), n)
		}
	}
	h := requestHeader(0xFC, 1, 0x10, 1<<31)
	if n := testing.AllocsPerRun(20, func() { ParseRequestHeader(h) }); n != 0 {
		t.Errorf("ParseRequestHeader: %v allocations", n)
	}
}

// TestDecodeAllocations: what is accepted allocates for its texts and no more,
// though it claims more than it brings.
func TestDecodeAllocations(t *testing.T) {
	_, payload, _ := ParseDatagram(unhex(t, vectors(t)["beacon"].Bytes))
	// cluster, leader, leader endpoint, node, own endpoint, the list and its two.
	if n := testing.AllocsPerRun(20, func() { _, _ = DecodeBeacon(payload) }); n > 8 {
		t.Errorf("a beacon costs %v allocations", n)
	}
	chunk := sampleChunk
	chunk.Count = MaxSnapshotChunks
	b := chunk.Append(nil)
	if n := testing.AllocsPerRun(20, func() { _, _ = DecodeSnapshotChunk(b) }); n != 0 {
		t.Errorf("a chunk of many costs %v allocations", n)
	}
}

func BenchmarkRefuseJunk(b *testing.B) {
	in := make([]byte, 1200)
	in[0], in[1], in[2] = Magic, DatagramVersion, 7
	b.ReportAllocs()
	for b.Loop() {
		ParseDatagram(in)
	}
}

func BenchmarkRefuseBadBeacon(b *testing.B) {
	_, payload, _ := ParseDatagram(unhex(b, vectors(b)["beacon"].Bytes))
	payload[20] = 9 // the state
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeBeacon(payload); err == nil {
			b.Fatal("accepted")
		}
	}
}

func BenchmarkDecodeBeacon(b *testing.B) {
	w := worstSummary()
	raw, _ := FitSummary(&w)
	_, payload, _ := ParseDatagram(EncodeBeacon(raw))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeBeacon(payload); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncodeBeacon(b *testing.B) {
	w := worstSummary()
	b.ReportAllocs()
	for b.Loop() {
		raw, _ := FitSummary(&w)
		EncodeBeacon(raw)
	}
}
