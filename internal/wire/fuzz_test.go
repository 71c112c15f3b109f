package wire

import (
	"bytes"
	"errors"
	"testing"
)

// fuzzCodec: what decodes encodes to the same bytes, since the grammar has one
// spelling only; what does not is refused with a sentinel.
func fuzzCodec(f *testing.F, name string) {
	for _, c := range codecs() {
		if c.name != name {
			continue
		}
		f.Add(c.sample)
		f.Add(c.sample[:len(c.sample)/2])
		f.Fuzz(func(t *testing.T, b []byte) {
			before := bytes.Clone(b)
			got, err := c.recode(b)
			if !bytes.Equal(b, before) {
				t.Fatal("the input was changed")
			}
			if err != nil {
				if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrLeaseVersion) {
					t.Fatal(err)
				}
				return
			}
			if !bytes.Equal(got, b) {
				t.Fatalf("%x encodes again as %x", b, got)
			}
		})
		return
	}
	f.Fatalf("no message %q", name)
}

func FuzzSummary(f *testing.F)             { fuzzCodec(f, "summary") }
func FuzzEnrollRequest(f *testing.F)       { fuzzCodec(f, "enroll request") }
func FuzzEnrollAnswer(f *testing.F)        { fuzzCodec(f, "enroll answer") }
func FuzzFleetSummaryRequest(f *testing.F) { fuzzCodec(f, "fleet summary request") }
func FuzzFleetSummaryAnswer(f *testing.F)  { fuzzCodec(f, "fleet summary answer") }
func FuzzStartupEvent(f *testing.F)        { fuzzCodec(f, "startup event") }
func FuzzDissolveOrder(f *testing.F)       { fuzzCodec(f, "dissolve order") }
func FuzzLeaseClaims(f *testing.F)         { fuzzCodec(f, "lease claims") }
func FuzzLease(f *testing.F)               { fuzzCodec(f, "lease") }
func FuzzEnrollControl(f *testing.F)       { fuzzCodec(f, "enroll control") }
func FuzzSnapshotChunk(f *testing.F)       { fuzzCodec(f, "snapshot chunk") }
func FuzzCommandPush(f *testing.F)         { fuzzCodec(f, "command") }
func FuzzHeartbeat(f *testing.F)           { fuzzCodec(f, "heartbeat") }
func FuzzRaftStreamHeader(f *testing.F)    { fuzzCodec(f, "raft stream header") }
func FuzzError(f *testing.F)               { fuzzCodec(f, "error") }

// fuzzDatagram reads whole datagrams: FuzzDatagram any, the others one kind.
func fuzzDatagram(f *testing.F, seeds ...string) {
	vs := vectors(f)
	for _, s := range seeds {
		f.Add(unhex(f, vs[s].Bytes))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, payload, verdict := ParseDatagram(b)
		if verdict != VerdictOK {
			if payload != nil || kind != 0 {
				t.Fatal("a refused datagram has a payload")
			}
			return
		}
		var again []byte
		switch kind {
		case KindBeacon:
			v, err := DecodeBeacon(payload)
			if err != nil {
				return
			}
			checkSummary(t, v.Summary, v.Raw)
			again = EncodeBeacon(v.Raw)
		case KindChallenge:
			v, err := DecodeChallenge(payload)
			if err != nil {
				return
			}
			c, ok := EncodeChallenge(v.Cluster, v.Nonce, len(b))
			if !ok || len(c) != len(b) {
				t.Fatal("a challenge that was read can't be written")
			}
			again = c
		case KindProof:
			v, err := DecodeProof(payload)
			if err != nil {
				return
			}
			checkSummary(t, v.Summary, v.Raw)
			if again = EncodeProof(v.Raw, v.Nonce, v.Key, v.Signature); !bytes.Equal(again, b) {
				t.Fatal("a proof encodes otherwise")
			}
		}
		if len(again) > MaxDatagram {
			return // a beacon with less padding than an honest one has
		}
		if k, p, v := ParseDatagram(again); v != VerdictOK || k != kind || len(p) == 0 {
			t.Fatal("what was encoded again does not parse")
		}
	})
}

func checkSummary(t *testing.T, s Summary, raw []byte) {
	if !bytes.Equal(AppendSummary(nil, &s), raw) {
		t.Fatal("a summary encodes otherwise")
	}
	if uint64(len(s.Members)) > s.Total || len(s.Members) > MaxMembers || !s.State.Valid() || s.Cluster == "" {
		t.Fatal("a summary beyond its bounds")
	}
	for _, e := range []string{s.Leader.Endpoint, s.Pointer.Endpoint, s.RaftEndpoint, s.OwnEndpoint} {
		if e != "" && !ValidEndpoint(e) {
			t.Fatalf("endpoint %q", e)
		}
	}
}

func FuzzDatagram(f *testing.F)  { fuzzDatagram(f, "beacon", "challenge", "proof") }
func FuzzBeacon(f *testing.F)    { fuzzDatagram(f, "beacon") }
func FuzzChallenge(f *testing.F) { fuzzDatagram(f, "challenge") }
func FuzzProof(f *testing.F)     { fuzzDatagram(f, "proof") }

func FuzzRequestHeader(f *testing.F) {
	f.Add([]byte{0xFC, 1, 0x10, 0, 0, 4, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h [RequestHeaderSize]byte
		copy(h[:], b)
		row, n, code := ParseRequestHeader(h)
		if _, known := LookupCode(code); code != 0 && (!known || n != 0) {
			t.Fatal("a refusal that is none", code, n)
		}
		if code == 0 && (n > row.Ceiling || !bytes.Equal(h[:3], AppendRequest(nil, row.Verb, nil)[:3])) {
			t.Fatal("a frame beyond its ceiling", row, n)
		}
	})
}

func FuzzReplyHeader(f *testing.F) {
	f.Add([]byte{1, 0, 0, 4, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		var h [ReplyHeaderSize]byte
		copy(h[:], b)
		if s, n, err := ParseReplyHeader(h); err == nil && (n > MaxAnswer || !s.Valid()) {
			t.Fatal("a frame beyond its ceiling", s, n)
		}
	})
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[31m\u202e")
	f.Fuzz(func(t *testing.T, s string) {
		if p := Printable(s); !ValidText(p) {
			t.Fatalf("%q", p)
		}
		ValidEndpoint(s)
		ValidID(s)
	})
}

// FuzzDocuments reads every JSON document of the endpoint.
func FuzzDocuments(f *testing.F) {
	f.Add([]byte(`{"id":"n","cluster":"c","wire":[1],"endpoints":{"fc":"a:1"},"clock_ms":1}`))
	f.Add([]byte(`{"step":"inventory","lease":"AQI=","body":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, decode := range []func([]byte) error{
			document[Hello], document[Announce], document[Roster], document[FollowRequest], document[StartupEventAnswer],
			document[QueryAnswer], document[WorkRequest], document[WorkAnswer], document[StatusRequest],
			document[ClusterRequest], document[ClusterAnswer], document[QueueRequest],
		} {
			if err := decode(b); err != nil && len(err.Error()) > 4*len(b)+400 {
				t.Fatal("an error longer than its cause")
			}
		}
	})
}

func document[T any](b []byte) error {
	_, err := DecodeDocument[T](b)
	return err
}
