package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// codec is one message of the field grammar: recode decodes and encodes again,
// sample is a good one.
type codec struct {
	name   string
	recode func([]byte) ([]byte, error)
	sample []byte
}

// recoder joins a decoder with its encoder.
func recoder[T any](decode func([]byte) (T, error), encode func(*T) []byte) func([]byte) ([]byte, error) {
	return func(b []byte) ([]byte, error) {
		v, err := decode(b)
		if err != nil {
			return nil, err
		}
		return encode(&v), nil
	}
}

var (
	sampleRequest   = EnrollRequest{ID: "n-7", Endpoint: "pc-7:6674", Role: RoleLearner, Key: [32]byte{1}, Nonce: [32]byte{2}, Challenge: [32]byte{3}, HasChallenge: true, Signature: [64]byte{4}}
	sampleApproved  = EnrollAnswer{Outcome: OutcomeApproved, Roster: []byte("{}"), Signer: [32]byte{5}, Signature: [64]byte{6}}
	sampleEvent     = StartupEvent{Cluster: "c", Node: "n", Component: "provision_mode_server", BootID: [16]byte{7}, Sequence: 8, At: 9, AgeMS: 10, Version: "1.0.0", Signature: [64]byte{11}}
	sampleOrder     = DissolveOrder{OldCluster: "old", Survivor: "new", LeaderID: "n-1", LeaderKey: [32]byte{12}, LeaderEndpoint: "a:6674", Signer: "n-2", Signature: [64]byte{13}}
	sampleClaims    = LeaseClaims{Version: LeaseVersion, Serial: [16]byte{14}, Target: "n-3", Step: "configure", Digest: [32]byte{15}, Expiry: 16, Cluster: "c", Epoch: 17, Term: 18, Signer: "n-1"}
	sampleControl   = EnrollControl{Op: ControlApprove, Argument: AppendControlMember(nil, "n-7", [32]byte{19})}
	sampleChunk     = SnapshotChunk{Epoch: 20, Revision: 21, Index: 1, Count: 2, Digest: [32]byte{22}, Bytes: []byte("snapshot")}
	sampleCommand   = CommandPush{Epoch: 23, Prev: 24, Revision: 25, Bytes: []byte("command")}
	sampleHeartbeat = Heartbeat{Epoch: 26, Cluster: "c", Term: 27, LeaderID: "n-1", LeaderEndpoint: "a:6674", Revision: 28, WallMS: 29, SilentMS: 30}
	sampleRaft      = RaftStreamHeader{Cluster: "c", Source: "n-1", Target: "n-2", Epoch: 31}
	sampleError     = Error{Code: CodeRefusedByRule, Text: "text", Hint: "hint"}
	sampleSummary   = Summary{Cluster: "c", State: StateEstablished, Node: "n", Members: []string{"n", "m"}, Total: 2, Leader: Leader{ID: "n", Endpoint: "a:6674", HasKey: true}}
)

func codecs() []codec {
	raw := AppendSummary(nil, &sampleSummary)
	return []codec{
		{"summary", recoder(DecodeSummary, func(s *Summary) []byte { return AppendSummary(nil, s) }), raw},
		{"enroll request", recoder(DecodeEnrollRequest, func(v *EnrollRequest) []byte { return v.Append(nil) }), sampleRequest.Append(nil)},
		{"enroll answer", recoder(DecodeEnrollAnswer, func(v *EnrollAnswer) []byte { return v.Append(nil) }), sampleApproved.Append(nil)},
		{"fleet summary request", recoder(DecodeFleetSummaryRequest, func(v *FleetSummaryRequest) []byte { return v.Append(nil) }), (&FleetSummaryRequest{Nonce: [32]byte{1}}).Append(nil)},
		{"fleet summary answer", recoder(DecodeFleetSummaryAnswer, func(v *FleetSummaryAnswer) []byte { return v.Append(nil) }), (&FleetSummaryAnswer{Raw: raw}).Append(nil)},
		{"startup event", recoder(DecodeStartupEvent, func(v *StartupEvent) []byte { return v.Append(nil) }), sampleEvent.Append(nil)},
		{"dissolve order", recoder(DecodeDissolveOrder, func(v *DissolveOrder) []byte { return v.Append(nil) }), sampleOrder.Append(nil)},
		{"lease claims", recoder(DecodeLeaseClaims, func(v *LeaseClaims) []byte { return v.Append(nil) }), sampleClaims.Append(nil)},
		{"lease", recoder(DecodeLease, func(v *Lease) []byte { return EncodeLease(&v.Claims, v.Signature) }), EncodeLease(&sampleClaims, [64]byte{1})},
		{"enroll control", recoder(DecodeEnrollControl, func(v *EnrollControl) []byte { return v.Append(nil) }), sampleControl.Append(nil)},
		{"snapshot chunk", recoder(DecodeSnapshotChunk, func(v *SnapshotChunk) []byte { return v.Append(nil) }), sampleChunk.Append(nil)},
		{"command", recoder(DecodeCommandPush, func(v *CommandPush) []byte { return v.Append(nil) }), sampleCommand.Append(nil)},
		{"heartbeat", recoder(DecodeHeartbeat, func(v *Heartbeat) []byte { return v.Append(nil) }), sampleHeartbeat.Append(nil)},
		{"raft stream header", recoder(DecodeRaftStreamHeader, func(v *RaftStreamHeader) []byte { return v.Append(nil) }), sampleRaft.Append(nil)},
		{"error", recoder(DecodeError, func(v **Error) []byte { return (*v).Append(nil) }), sampleError.Append(nil)},
	}
}

// TestCodecs: each sample comes back byte for byte; cut anywhere, or with a byte
// more, it is malformed.
func TestCodecs(t *testing.T) {
	for _, c := range codecs() {
		got, err := c.recode(c.sample)
		if err != nil || !bytes.Equal(got, c.sample) {
			t.Errorf("%s: %v\n%x, want\n%x", c.name, err, got, c.sample)
		}
		for n := range c.sample {
			if _, err := c.recode(c.sample[:n:n]); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s cut to %d bytes: %v", c.name, n, err)
			}
		}
		if _, err := c.recode(append(bytes.Clone(c.sample), 0)); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s with a byte more: %v", c.name, err)
		}
	}
}

// TestFieldOrder: the payload's fields by hand, in the order of the pages.
func TestFieldOrder(t *testing.T) {
	u64 := func(v byte) []byte { return []byte{0, 0, 0, 0, 0, 0, 0, v} }
	u32 := func(v byte) []byte { return []byte{0, 0, 0, v} }
	pad := func(n int, v byte) []byte { return append([]byte{v}, make([]byte, n-1)...) }
	s := func(v string) []byte { return []byte(v) }
	claims := [][]byte{{1}, pad(16, 14), s("n-3"), s("configure"), pad(32, 15), u64(16), s("c"), u64(17), u64(18), s("n-1")}
	join := func(fields [][]byte) (b []byte) {
		for _, f := range fields {
			b = AppendField(b, f)
		}
		return b
	}
	signedRequest := [][]byte{s("n-7"), s("pc-7:6674"), {3}, pad(32, 1), pad(32, 2), pad(32, 3)}
	signedEvent := [][]byte{s("c"), s("n"), s("provision_mode_server"), pad(16, 7), u64(8), u64(9), u64(10), s("1.0.0")}
	signedOrder := [][]byte{s("old"), s("new"), s("n-1"), pad(32, 12), s("a:6674"), s("n-2")}
	with := func(fields [][]byte, more ...[]byte) [][]byte { return append(append([][]byte{}, fields...), more...) }
	for _, c := range []struct {
		name   string
		got    []byte
		fields [][]byte
	}{
		{"enroll request", sampleRequest.Append(nil), with(signedRequest, pad(64, 4))},
		{"enroll request, signed", sampleRequest.Message().Bytes(), with([][]byte{s("fastcache-enroll-request-v1")}, signedRequest...)},
		{"enroll answer", sampleApproved.Append(nil), [][]byte{{2}, s("{}"), nil, pad(32, 5), pad(64, 6)}},
		{"startup event", sampleEvent.Append(nil), with(signedEvent, pad(64, 11))},
		{"startup event, signed", sampleEvent.Message().Bytes(), with([][]byte{s("pace-startup-event-v1")}, signedEvent...)},
		{"dissolve order", sampleOrder.Append(nil), with(signedOrder, pad(64, 13))},
		{"dissolve order, signed", sampleOrder.Message().Bytes(), with([][]byte{s("pace-dissolve-order-v1")}, signedOrder...)},
		{"lease", EncodeLease(&sampleClaims, [64]byte{9}), [][]byte{join(claims), pad(64, 9)}},
		{"lease, signed", sampleClaims.Message().Bytes(), [][]byte{s("pace-lease-v1"), join(claims)}},
		{"enroll control", sampleControl.Append(nil), [][]byte{{9}, append(s("n-7"), pad(32, 19)...)}},
		{"snapshot chunk", sampleChunk.Append(nil), [][]byte{{1}, u64(20), u64(21), u32(1), u32(2), pad(32, 22), s("snapshot")}},
		{"command", sampleCommand.Append(nil), [][]byte{{2}, u64(23), u64(24), u64(25), s("command")}},
		{"heartbeat", sampleHeartbeat.Append(nil), [][]byte{{3}, u64(26), s("c"), u64(27), s("n-1"), s("a:6674"), u64(28), u64(29), u64(30)}},
		{"raft stream header", sampleRaft.Append(nil), [][]byte{s("c"), s("n-1"), s("n-2"), u64(31)}},
		{"error", sampleError.Append(nil), [][]byte{{14}, s("text"), s("hint")}},
	} {
		if want := join(c.fields); !bytes.Equal(c.got, want) {
			t.Errorf("%s:\n%x, want\n%x", c.name, c.got, want)
		}
	}
}

// TestMessageBounds: each text at its bound, and one beyond it.
func TestMessageBounds(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	e := func(n int) string { return x(n-5) + ":6674" }
	for _, c := range []struct {
		name   string
		accept func(string) error
		ok     []string
		no     []string
	}{
		{"request id", func(s string) error {
			v := sampleRequest
			v.ID = s
			_, err := DecodeEnrollRequest(v.Append(nil))
			return err
		},
			[]string{x(1), x(64), "not an id"}, []string{"", x(65), "\xff"}},
		{"request endpoint", func(s string) error {
			v := sampleRequest
			v.Endpoint = s
			_, err := DecodeEnrollRequest(v.Append(nil))
			return err
		},
			[]string{e(1024), "judged by the leader"}, []string{"", e(1025), "\xff"}},
		{"event cluster", func(s string) error {
			v := sampleEvent
			v.Cluster = s
			_, err := DecodeStartupEvent(v.Append(nil))
			return err
		},
			[]string{x(1), x(64)}, []string{"", x(65), "\xff"}},
		{"event node", func(s string) error {
			v := sampleEvent
			v.Node = s
			_, err := DecodeStartupEvent(v.Append(nil))
			return err
		},
			[]string{x(1), x(64)}, []string{"", x(65), "\xff"}},
		{"event component", func(s string) error {
			v := sampleEvent
			v.Component = s
			_, err := DecodeStartupEvent(v.Append(nil))
			return err
		},
			[]string{x(1), x(64)}, []string{"", x(65), "\xff"}},
		{"event version", func(s string) error {
			v := sampleEvent
			v.Version = s
			_, err := DecodeStartupEvent(v.Append(nil))
			return err
		},
			[]string{"", x(128)}, []string{x(129), "\xff"}},
		{"order endpoint", func(s string) error {
			v := sampleOrder
			v.LeaderEndpoint = s
			_, err := DecodeDissolveOrder(v.Append(nil))
			return err
		},
			[]string{e(6), e(1024)}, []string{"", "a:0", ":1", e(1025)}},
		{"order leader", func(s string) error {
			v := sampleOrder
			v.LeaderID = s
			_, err := DecodeDissolveOrder(v.Append(nil))
			return err
		},
			[]string{x(64)}, []string{"", x(65), "\xff"}},
		{"order survivor", func(s string) error {
			v := sampleOrder
			v.Survivor = s
			_, err := DecodeDissolveOrder(v.Append(nil))
			return err
		},
			[]string{x(64)}, []string{"", x(65), "\xff"}},
		{"lease target", func(s string) error {
			v := sampleClaims
			v.Target = s
			_, err := DecodeLease(EncodeLease(&v, [64]byte{}))
			return err
		},
			[]string{x(64)}, []string{"", x(65), "\xff"}},
		{"lease step", func(s string) error {
			v := sampleClaims
			v.Step = s
			_, err := DecodeLease(EncodeLease(&v, [64]byte{}))
			return err
		},
			[]string{x(64)}, []string{"", x(65), "\xff"}},
		{"heartbeat cluster", func(s string) error {
			v := sampleHeartbeat
			v.Cluster = s
			_, err := DecodeHeartbeat(v.Append(nil))
			return err
		},
			[]string{x(64)}, []string{"", x(65), "\xff"}},
		{"heartbeat leader", func(s string) error {
			v := sampleHeartbeat
			v.LeaderID = s
			_, err := DecodeHeartbeat(v.Append(nil))
			return err
		},
			[]string{"", x(64)}, []string{x(65), "\xff"}},
		{"heartbeat endpoint", func(s string) error {
			v := sampleHeartbeat
			v.LeaderEndpoint = s
			_, err := DecodeHeartbeat(v.Append(nil))
			return err
		},
			[]string{"", e(1024)}, []string{"a:0", e(1025)}},
		{"raft source", func(s string) error {
			v := sampleRaft
			v.Source = s
			_, err := DecodeRaftStreamHeader(v.Append(nil))
			return err
		},
			[]string{x(64)}, []string{"", x(65), "\xff"}},
	} {
		for _, s := range c.ok {
			if err := c.accept(s); err != nil {
				t.Errorf("%s of %d bytes (%.20q): %v", c.name, len(s), s, err)
			}
		}
		for _, s := range c.no {
			if err := c.accept(s); !errors.Is(err, ErrMalformed) {
				t.Errorf("%s of %d bytes (%.20q): %v", c.name, len(s), s, err)
			}
		}
	}
	for role := range 256 {
		v := sampleRequest
		v.Role = uint8(role)
		if _, err := DecodeEnrollRequest(v.Append(nil)); (err == nil) != (role == 3) {
			t.Errorf("role %d: %v", role, err)
		}
	}
	for _, c := range []struct {
		index, count uint32
		ok           bool
	}{{0, 1, true}, {0, 0, false}, {1, 1, false}, {2, 1, false}, {4095, 4096, true}, {0, 4097, false}, {0, 1<<32 - 1, false}} {
		v := sampleChunk
		v.Index, v.Count = c.index, c.count
		if _, err := DecodeSnapshotChunk(v.Append(nil)); (err == nil) != c.ok {
			t.Errorf("chunk %d of %d: %v", c.index, c.count, err)
		}
	}
	// The kind of a push is part of it: none decodes as another.
	for name, err := range map[string]error{
		"command as snapshot":  second(DecodeSnapshotChunk(sampleCommand.Append(nil))),
		"snapshot as command":  second(DecodeCommandPush(AppendField(AppendU64(AppendU64(AppendU64(AppendU8(nil, 1), 0), 0), 0), nil))),
		"command as heartbeat": second(DecodeHeartbeat(append(AppendU8(nil, 2), sampleHeartbeat.Append(nil)[5:]...))),
	} {
		if !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The longest push fits its frame exactly.
	chunk := SnapshotChunk{Count: 1, Bytes: make([]byte, SnapshotChunkSize)}
	command := CommandPush{Bytes: make([]byte, MaxCommand)}
	if a, b := len(chunk.Append(nil)), len(command.Append(nil)); a != MaxAnswer || b != MaxAnswer {
		t.Errorf("longest chunk %d and command %d bytes, want %d", a, b, MaxAnswer)
	}
	raft := RaftStreamHeader{Cluster: x(64), Source: x(64), Target: x(64)}
	if n := len(raft.Append(nil)); n != MaxRaftStreamHeader {
		t.Errorf("longest raft stream header %d bytes, want %d", n, MaxRaftStreamHeader)
	}
	long := sampleClaims
	long.Target, long.Step, long.Cluster, long.Signer = x(64), x(64), x(64), x(64)
	if n := len(long.Append(nil)); n != maxLeaseClaims {
		t.Errorf("longest claims %d bytes, want %d", n, maxLeaseClaims)
	}
}

func second[T any](_ T, err error) error { return err }

func TestLeaseVersion(t *testing.T) {
	for v := range 256 {
		c := sampleClaims
		c.Version = uint8(v)
		_, err := DecodeLease(EncodeLease(&c, [64]byte{}))
		if v == 1 && err != nil || v != 1 && !errors.Is(err, ErrLeaseVersion) {
			t.Errorf("lease version %d: %v", v, err)
		}
	}
	// Another version may lay out the rest otherwise: the version is what is said.
	if _, err := DecodeLeaseClaims(append(AppendU8(nil, 2), "later"...)); !errors.Is(err, ErrLeaseVersion) {
		t.Errorf("a later lease: %v", err)
	}
}

func TestMessagesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := func(n string) string { return genText(1, MaxID).Draw(t, n) }
		u := func(n string) uint64 { return rapid.Uint64().Draw(t, n) }
		key, nonce, sig := gen32().Draw(t, "key"), gen32().Draw(t, "nonce"), gen64().Draw(t, "sig")
		request := EnrollRequest{ID: id("id"), Endpoint: genEndpoint().Draw(t, "endpoint"), Role: RoleLearner, Key: key, Nonce: nonce, Signature: sig}
		if request.HasChallenge = rapid.Bool().Draw(t, "has"); request.HasChallenge {
			request.Challenge = gen32().Draw(t, "challenge")
		}
		answer := EnrollAnswer{Outcome: Outcome(rapid.IntRange(1, 4).Draw(t, "outcome")), Signer: key, Signature: sig}
		if answer.Outcome == OutcomeApproved {
			answer.Roster = rapid.SliceOf(rapid.Byte()).Draw(t, "roster")
		}
		if answer.Outcome == OutcomePending {
			answer.Challenge, answer.HasChallenge = nonce, true
		}
		claims := LeaseClaims{Version: 1, Serial: [16]byte(key[:16]), Target: id("target"), Step: id("step"), Digest: nonce, Expiry: u("expiry"),
			Cluster: id("cluster"), Epoch: u("epoch"), Term: u("term"), Signer: id("signer")}
		event := StartupEvent{Cluster: id("c"), Node: id("n"), Component: id("comp"), BootID: [16]byte(key[:16]), Sequence: u("seq"), At: u("at"), AgeMS: u("age"), Version: genText(0, 64).Draw(t, "v"), Signature: sig}
		order := DissolveOrder{OldCluster: id("old"), Survivor: id("surv"), LeaderID: id("lead"), LeaderKey: key, LeaderEndpoint: genEndpoint().Draw(t, "le"), Signer: id("by"), Signature: sig}
		count := rapid.Uint32Range(1, MaxSnapshotChunks).Draw(t, "count")
		chunk := SnapshotChunk{Epoch: u("e"), Revision: u("r"), Count: count, Index: rapid.Uint32Range(0, count-1).Draw(t, "index"), Digest: key, Bytes: rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")}
		command := CommandPush{Epoch: u("e2"), Prev: u("p"), Revision: u("r2"), Bytes: chunk.Bytes}
		beat := Heartbeat{Epoch: u("e3"), Cluster: id("c3"), Term: u("t3"), LeaderID: genText(0, 64).Draw(t, "l3"), LeaderEndpoint: genMaybeEndpoint().Draw(t, "le3"), Revision: u("r3"), WallMS: u("w"), SilentMS: u("s")}
		raft := RaftStreamHeader{Cluster: id("rc"), Source: id("rs"), Target: id("rt"), Epoch: u("re")}
		fail := Error{Code: ErrorCode(rapid.IntRange(1, 255).Draw(t, "code")), Text: genText(0, MaxErrorText).Draw(t, "text"), Hint: genText(0, MaxErrorHint).Draw(t, "hint")}

		same := func(name string, want, got any, err error) {
			if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || d != "" {
				t.Fatalf("%s: %v\n%s", name, err, d)
			}
		}
		r, err := DecodeEnrollRequest(request.Append(nil))
		same("request", request, r, err)
		a, err := DecodeEnrollAnswer(answer.Append(nil))
		same("answer", answer, a, err)
		l, err := DecodeLease(EncodeLease(&claims, sig))
		same("lease", Lease{Claims: claims, Raw: claims.Append(nil), Signature: sig}, l, err)
		ev, err := DecodeStartupEvent(event.Append(nil))
		same("event", event, ev, err)
		o, err := DecodeDissolveOrder(order.Append(nil))
		same("order", order, o, err)
		ch, err := DecodeSnapshotChunk(chunk.Append(nil))
		same("chunk", chunk, ch, err)
		co, err := DecodeCommandPush(command.Append(nil))
		same("command", command, co, err)
		hb, err := DecodeHeartbeat(beat.Append(nil))
		same("heartbeat", beat, hb, err)
		rh, err := DecodeRaftStreamHeader(raft.Append(nil))
		same("raft header", raft, rh, err)
		e, err := DecodeError(fail.Append(nil))
		same("error", &fail, e, err)
		carried, err := DecodeError(NewDissolvedError(&order).Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		inside, err := carried.Order()
		same("carried order", order, inside, err)
	})
}

// TestMessageSeparation: the signed bytes of no construction are those of
// another, nor of another value of the same.
func TestMessageSeparation(t *testing.T) {
	seen := map[string]string{}
	add := func(name string, m Message) {
		k := string(m.Bytes())
		if earlier, ok := seen[k]; ok || m.IsZero() {
			t.Errorf("%s signs the same as %s", name, earlier)
		}
		seen[k] = name
	}
	var a, b [32]byte
	b[0] = 1
	for i, c := range []string{"", "x"} {
		for j, k := range [][32]byte{a, b} {
			n := fmt.Sprint(i, j)
			add("proof "+n, DiscoveryProofMessage(c, a, []byte(c), k))
			add("proof by nonce "+n, DiscoveryProofMessage(c, b, nil, k))
			add("fleet summary "+n, FleetSummaryMessage(k, []byte(c), a))
			add("answer "+n, (&EnrollAnswer{Outcome: 1, Challenge: b, HasChallenge: true}).Message(k, c, a, ""))
			add("answer for a cluster "+n, (&EnrollAnswer{Outcome: 1}).Message(a, "", k, "c"+c))
			add("answer outcome "+n, (&EnrollAnswer{Outcome: Outcome(2 + i), Roster: []byte(c)}).Message(k, "z", a, ""))
			add("request "+n, (&EnrollRequest{ID: c, Key: k}).Message())
			add("request by challenge "+n, (&EnrollRequest{ID: c, Challenge: k, HasChallenge: true}).Message())
			add("event "+n, (&StartupEvent{Cluster: c, Sequence: uint64(j)}).Message())
			add("order "+n, (&DissolveOrder{Survivor: c, LeaderKey: k}).Message())
			add("lease "+n, (&LeaseClaims{Target: c, Digest: k}).Message())
		}
	}
	// What is handed out is a copy: the label of a message can't be overwritten.
	m := sampleClaims.Message()
	copied := m.Bytes()
	clear(copied)
	if bytes.Equal(copied, m.Bytes()) || m.Purpose() != PurposeLease {
		t.Error("a caller changed the bytes of a message")
	}
	if z := (Message{}); !z.IsZero() || z.Bytes() != nil || z.Purpose() != 0 {
		t.Error("the zero message is something")
	}
}

func TestControlArguments(t *testing.T) {
	key := [32]byte{0xee}
	if id, k, ok := ControlMember(AppendControlMember(nil, "n-7", key)); !ok || id != "n-7" || k != key {
		t.Errorf("member: %q %x %v", id, k, ok)
	}
	if id, _, has, ok := ControlTarget([]byte("n-7")); !ok || has || id != "n-7" {
		t.Errorf("target by id: %q %v %v", id, has, ok)
	}
	if id, k, has, ok := ControlTarget(AppendControlMember(nil, "n-7", key)); !ok || !has || id != "n-7" || k != key {
		t.Errorf("target by id and key: %q %v %v", id, has, ok)
	}
	for s, want := range map[string]uint64{"0": 0, "1800": 1800, "86400": 86400, "9999999999": 9999999999} {
		if n, ok := WindowSeconds([]byte(s)); !ok || n != want {
			t.Errorf("window %q: %d %v", s, n, ok)
		}
	}
}
