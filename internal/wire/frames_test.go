package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestRequestFrame(t *testing.T) {
	b := AppendRequest([]byte("before"), VerbHello, []byte("{}"))
	want := append([]byte("before"), 0xFC, 1, 0x13, 0, 0, 0, 2, '{', '}')
	if !bytes.Equal(b, want) {
		t.Errorf("request %x, want %x", b, want)
	}
	// In the order of the checks, each input failing one and all later ones.
	for _, c := range []struct {
		name string
		h    [RequestHeaderSize]byte
		want ErrorCode
	}{
		{"magic, version, verb and length wrong", requestHeader(0xFD, 9, 0x20, 1<<32-1), CodeMalformed},
		{"version, verb and length wrong", requestHeader(0xFC, 9, 0x20, 1<<32-1), CodeUnsupportedVersion},
		{"version 0", requestHeader(0xFC, 0, 0x13, 0), CodeUnsupportedVersion},
		{"version 2", requestHeader(0xFC, 2, 0x13, 0), CodeUnsupportedVersion},
		{"verb and length wrong", requestHeader(0xFC, 1, 0x20, 1<<32-1), CodeUnknownVerb},
		{"length wrong", requestHeader(0xFC, 1, 0x13, 4097), CodeTooLarge},
		{"all well", requestHeader(0xFC, 1, 0x13, 4096), 0},
	} {
		if _, _, code := ParseRequestHeader(c.h); code != c.want {
			t.Errorf("%s: code %d, want %d", c.name, code, c.want)
		}
	}
}

func TestReplyFrame(t *testing.T) {
	if b, want := AppendReply(nil, StatusPush, []byte("x")), []byte{4, 0, 0, 0, 1, 'x'}; !bytes.Equal(b, want) {
		t.Errorf("reply %x, want %x", b, want)
	}
	for s := range 256 {
		got, n, err := ParseReplyHeader([ReplyHeaderSize]byte{byte(s), 0, 0, 0, 7})
		ok := s == 1 || s == 2 || s == 4
		if ok != (err == nil) || ok && (got != Status(s) || n != 7) || !ok && !errors.Is(err, ErrMalformed) {
			t.Errorf("status %d: %v %d %v", s, got, n, err)
		}
	}
	for h, want := range map[[ReplyHeaderSize]byte]error{
		{1, 0, 0x10, 0, 0}:          nil,
		{1, 0, 0x10, 0, 1}:          ErrTooLarge,
		{4, 0xff, 0xff, 0xff, 0xff}: ErrTooLarge,
		{9, 0xff, 0xff, 0xff, 0xff}: ErrMalformed,
	} {
		if _, _, err := ParseReplyHeader(h); !errors.Is(err, want) {
			t.Errorf("%x: %v, want %v", h, err, want)
		}
	}
}

func TestAccessNames(t *testing.T) {
	for a, want := range map[Access]string{AccessAnybody: "anybody", AccessMember: "roster member", AccessLeader: "leader", AccessAdministrator: "administrator", 9: "nobody"} {
		if a.String() != want {
			t.Errorf("access %d is %q", a, a)
		}
	}
	if Verb(0x20).String() != "unknown" {
		t.Error("an unknown verb has a name")
	}
}

func TestErrorText(t *testing.T) {
	for _, c := range []struct {
		e    *Error
		want string
	}{
		{NewError(CodeBusy, "", ""), "this node is busy with another change; try again in a few seconds"},
		{NewError(CodeRefusedByRule, "the only voter", "promote another first"), "the only voter; promote another first"},
		{NewError(CodeNotLeader, "", ""), "not-leader; try again in a few seconds; pacectl fleet status shows the leader"},
		{NewError(CodeNotLeader, "a:6674", ""), "not the leader, which is at a:6674; try again in a few seconds; pacectl fleet status shows the leader"},
		{NewError(CodeRefusedByRule, "evil\x1b[31m\n", "h\x00"), `evil\x1b[31m\n; h\x00`},
		{&Error{Code: 99}, "error-99"},
		{NewDissolvedError(&sampleOrder), "this fleet was dissolved into another; nothing to do: machines of the old fleet go there by themselves; pacectl node shows it"},
	} {
		var err error = c.e
		if err.Error() != c.want {
			t.Errorf("%q, want %q", err, c.want)
		}
	}
	// Codes 0 and texts beyond their bound are malformed; what we send is cut.
	if _, err := DecodeError((&Error{}).Append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("code 0: %v", err)
	}
	long := &Error{Code: 1, Text: strings.Repeat("ü", MaxErrorText), Hint: "x" + strings.Repeat("ü", MaxErrorHint)}
	got, err := DecodeError(long.Append(nil))
	if err != nil || len(got.Text) != MaxErrorText || len(got.Hint) != MaxErrorHint-1 || !utf8.ValidString(got.Hint) {
		t.Errorf("cut to %d and %d: %v", len(got.Text), len(got.Hint), err)
	}
	if got, err := DecodeError((&Error{Code: 1, Text: "\xff"}).Append(nil)); err != nil || got.Text != `\xff` {
		t.Errorf("%v, %v", got, err)
	}
	over := AppendText(AppendText(AppendU8(nil, 1), strings.Repeat("x", MaxErrorText+1)), "")
	if _, err := DecodeError(over); !errors.Is(err, ErrMalformed) {
		t.Errorf("a text too long: %v", err)
	}
}

func TestDissolvedError(t *testing.T) {
	longest := DissolveOrder{OldCluster: strings.Repeat("o", 64), Survivor: strings.Repeat("s", 64), LeaderID: strings.Repeat("l", 64),
		LeaderEndpoint: strings.Repeat("e", 1019) + ":6674", Signer: strings.Repeat("g", 64)}
	for _, want := range []DissolveOrder{sampleOrder, longest} {
		e, err := DecodeError(NewDissolvedError(&want).Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Order(); err != nil || got != want {
			t.Errorf("%v\n%s", err, cmp.Diff(want, got))
		}
	}
	good := NewDissolvedError(&sampleOrder).Text
	for name, e := range map[string]*Error{
		"another code":        {Code: CodeBusy, Text: good},
		"no text":             {Code: CodeDissolved},
		"not base64url":       {Code: CodeDissolved, Text: "***"},
		"not an order":        {Code: CodeDissolved, Text: "AAAA"},
		"an order cut by one": {Code: CodeDissolved, Text: good[:len(good)-4]},
	} {
		if _, err := e.Order(); !errors.Is(err, ErrNoOrder) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDocumentNames writes out the members of each document: another node reads
// them by these names.
func TestDocumentNames(t *testing.T) {
	where := Endpoints{FC: "a:6674", Raft: "a:6680"}
	for _, c := range []struct {
		v    any
		want string
	}{
		{Endpoints{FC: "a:6674"}, `{"fc":"a:6674"}`},
		{Hello{ID: "n", Cluster: "c", Name: "pc", Platform: "linux/amd64", Version: "1.0.0", Wire: []int{1}, Format: 2, Endpoints: where, ClockMS: 3, Epoch: 4},
			`{"id":"n","cluster":"c","name":"pc","platform":"linux/amd64","version":"1.0.0","wire":[1],"format":2,"endpoints":{"fc":"a:6674","raft":"a:6680"},"clock_ms":3,"epoch":4}`},
		{Announce{Name: "pc", Labels: map[string]string{"room": "7"}, Platform: "linux/amd64", Version: "1.0.0", Format: 1, Endpoints: where, Component: "server", BootID: "77", Sequence: 1, ConfigDigest: "ab", Wants: true, WantsWhy: "new"},
			`{"name":"pc","labels":{"room":"7"},"platform":"linux/amd64","version":"1.0.0","format":1,"endpoints":{"fc":"a:6674","raft":"a:6680"},"component":"server","boot_id":"77","sequence":1,"config_digest":"ab","wants":true,"wants_why":"new"}`},
		{Announce{Name: "pc", Endpoints: Endpoints{FC: "a:6674"}}, `{"name":"pc","platform":"","version":"","format":0,"endpoints":{"fc":"a:6674"}}`},
		{Roster{Cluster: "c", Created: 1, Epoch: 2, Revision: 3, Voters: []RosterVoter{{ID: "v", Key: "k", Endpoints: where}},
			Self: RosterMember{ID: "n", Key: "k2", Name: "pc", Role: "learner", Endpoints: Endpoints{FC: "b:6674"}, Admitted: 4, AdmittedBy: "k"}},
			`{"cluster":"c","created":1,"epoch":2,"revision":3,"voters":[{"id":"v","key":"k","endpoints":{"fc":"a:6674","raft":"a:6680"}}],"self":{"id":"n","key":"k2","name":"pc","role":"learner","endpoints":{"fc":"b:6674"},"admitted":4,"admitted_by":"k"}}`},
		{FollowRequest{Epoch: 1, Revision: 2, Digest: "ab"}, `{"epoch":1,"revision":2,"digest":"ab"}`},
		{StartupEventAnswer{Admitted: true}, `{"admitted":true}`},
		{StartupEventAnswer{Refused: "paused"}, `{"admitted":false,"refused":"paused"}`},
		{QueryAnswer{ID: "n", Wants: true, Why: "new", Component: "server", BootID: "77", ConfigDigest: "ab", Busy: true}, `{"id":"n","wants":true,"why":"new","component":"server","boot_id":"77","config_digest":"ab","busy":true}`},
		{WorkRequest{Step: "inventory", Lease: []byte{1, 2}, Body: json.RawMessage(`{"a":1}`)}, `{"step":"inventory","lease":"AQI=","body":{"a":1}}`},
		{WorkRequest{Step: "inventory"}, `{"step":"inventory"}`},
		{WorkAnswer{OK: true, Error: "e", Transient: true, Body: json.RawMessage(`[]`)}, `{"ok":true,"error":"e","transient":true,"body":[]}`},
		{StatusRequest{What: "node"}, `{"what":"node"}`},
		{ClusterRequest{Op: "set", ID: "n", Key: "k", Endpoint: "a:1", Name: "provision.paused", Value: "true", Lines: []string{"l"}}, `{"op":"set","id":"n","key":"k","endpoint":"a:1","name":"provision.paused","value":"true","lines":["l"]}`},
		{ClusterAnswer{Revision: 1, Text: "t"}, `{"revision":1,"text":"t"}`},
		{QueueRequest{Op: "drop", ID: "n", Reason: "r"}, `{"op":"drop","id":"n","reason":"r"}`},
	} {
		b, err := json.Marshal(c.v)
		if err != nil || string(b) != c.want {
			t.Errorf("%T: %v\n%s, want\n%s", c.v, err, b, c.want)
		}
	}
}

func TestDecodeDocument(t *testing.T) {
	got, err := DecodeDocument[StatusRequest]([]byte(`{"what":"node","later":[1]}`))
	if err != nil || got.What != "node" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, bad := range []string{"", "{", `{"what":1}`, `{"what":"node"} {}`, "[]"} {
		got, err := DecodeDocument[StatusRequest]([]byte(bad))
		if err == nil || got != (StatusRequest{}) || !strings.Contains(err.Error(), "StatusRequest") {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}
