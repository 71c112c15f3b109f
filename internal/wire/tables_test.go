package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

// verbsWanted is the table of verbs as the page of the 0xFC endpoint gives it.
var verbsWanted = []struct {
	verb     byte
	name     string
	access   Access
	ceiling  uint32
	streams  bool
	once     bool
	answer   uint32
	memberOp string
}{
	{0x10, "Enroll", AccessAnybody, 1024, true, false, 1048576, ""},
	{0x11, "EnrollControl", AccessAdministrator, 65536, false, false, 1048576, ""},
	{0x12, "Follow", AccessMember, 65536, true, false, 1048576, ""},
	{0x13, "Hello", AccessAnybody, 4096, false, false, 1048576, ""},
	{0x14, "Announce", AccessMember, 16384, false, false, 1048576, ""},
	{0x15, "StartupEvent", AccessMember, 4096, false, false, 1048576, ""},
	{0x16, "Query", AccessLeader, 4096, false, false, 1048576, ""},
	{0x17, "Work", AccessLeader, 4194304, false, false, 1048576, ""},
	{0x18, "Status", AccessMember, 65536, false, false, 1048576, ""},
	{0x19, "Cluster", AccessAdministrator, 65536, false, false, 1048576, "leave"},
	{0x1A, "Queue", AccessAdministrator, 65536, false, false, 1048576, ""},
	{0x1F, "FleetSummary", AccessAnybody, 64, false, true, 65536, ""},
}

func requestHeader(magic, version, verb byte, n uint32) (h [RequestHeaderSize]byte) {
	h[0], h[1], h[2] = magic, version, verb
	binary.BigEndian.PutUint32(h[3:], n)
	return h
}

func checkVerbs() error {
	known := map[byte]bool{}
	for _, w := range verbsWanted {
		known[w.verb] = true
		r, ok := LookupVerb(Verb(w.verb))
		if !ok || r.Verb != Verb(w.verb) || r.Name != w.name || Verb(w.verb).String() != w.name || r.Access != w.access ||
			r.Streams != w.streams || r.OncePerConnection != w.once || r.AnswerCeiling != w.answer || r.MemberOp != w.memberOp {
			return fmt.Errorf("verb %#x: %+v, want %+v", w.verb, r, w)
		}
		for n, want := range map[uint32]ErrorCode{0: 0, w.ceiling: 0, w.ceiling + 1: 4, 1<<32 - 1: 4} {
			_, length, code := ParseRequestHeader(requestHeader(0xFC, 1, w.verb, n))
			if code != want || code == 0 && length != n {
				return fmt.Errorf("verb %s with %d bytes: length %d, code %d, want code %d", w.name, n, length, code, want)
			}
		}
	}
	for v := range 256 {
		if _, _, code := ParseRequestHeader(requestHeader(0xFC, 1, byte(v), 0)); (code == 2) == known[byte(v)] {
			return fmt.Errorf("verb %#x: code %d", v, code)
		}
	}
	if len(Verbs) != len(verbsWanted) {
		return fmt.Errorf("%d verbs, want %d", len(Verbs), len(verbsWanted))
	}
	return nil
}

func TestVerbs(t *testing.T) {
	if err := checkVerbs(); err != nil {
		t.Error(err)
	}
}

func TestMutationVerbs(t *testing.T) {
	mutate(t, Verbs, checkVerbs, map[string]func(*VerbRow){
		"verb":         func(r *VerbRow) { r.Verb ^= 0x80 },
		"name":         func(r *VerbRow) { r.Name += "x" },
		"access":       func(r *VerbRow) { r.Access = (r.Access + 1) % 4 },
		"ceiling up":   func(r *VerbRow) { r.Ceiling++ },
		"ceiling down": func(r *VerbRow) { r.Ceiling-- },
		"streams":      func(r *VerbRow) { r.Streams = !r.Streams },
		"once":         func(r *VerbRow) { r.OncePerConnection = !r.OncePerConnection },
		"answer":       func(r *VerbRow) { r.AnswerCeiling++ },
		"member op":    func(r *VerbRow) { r.MemberOp += "x" },
	})
}

// codesWanted is the list of error codes of the 0xFC endpoint.
var codesWanted = []struct {
	number byte
	code   ErrorCode
	name   string
	text   bool // NewError has a text of its own
	retry  bool
}{
	{1, CodeUnsupportedVersion, "unsupported-version", true, false},
	{2, CodeUnknownVerb, "unknown-verb", true, false},
	{3, CodeMalformed, "malformed", true, false},
	{4, CodeTooLarge, "too-large", true, false},
	{5, CodeNotLeader, "not-leader", false, true},
	{6, CodeNotMember, "not-a-member", true, false},
	{7, CodeRevoked, "revoked", false, false},
	{8, CodeWaitingListFull, "waiting-list-full", true, true},
	{9, CodeSourceFull, "source-full", true, true},
	{10, CodeKeyMismatch, "key-mismatch", true, false},
	{11, CodeBadSignature, "bad-signature", true, false},
	{12, CodeLeaseRefused, "lease-refused", true, false},
	{13, CodeRosterNotApplied, "roster-not-applied", true, true},
	{14, CodeRefusedByRule, "refused-by-rule", true, false},
	{15, CodeBusy, "busy", true, true},
	{16, CodeBehind, "behind", true, false},
	{17, CodeNewerFormat, "newer-format", true, false},
	{18, CodeDissolved, "dissolved", false, false},
}

func checkCodes() error {
	for _, w := range codesWanted {
		r, ok := LookupCode(ErrorCode(w.number))
		if !ok || w.code != ErrorCode(w.number) || r.Code != w.code || r.Name != w.name || w.code.String() != w.name ||
			r.Retry != w.retry || (NewError(w.code, "", "").Text != "") != w.text || r.Hint == "" || NewError(w.code, "x", "").Hint != r.Hint {
			return fmt.Errorf("code %d: %+v, want %+v", w.number, r, w)
		}
	}
	if len(Codes) != len(codesWanted) || ErrorCode(19).String() != "error-19" {
		return fmt.Errorf("%d codes, want %d", len(Codes), len(codesWanted))
	}
	return nil
}

func TestCodes(t *testing.T) {
	if err := checkCodes(); err != nil {
		t.Error(err)
	}
}

func TestMutationCodes(t *testing.T) {
	mutate(t, Codes, checkCodes, map[string]func(*CodeRow){
		"code":  func(r *CodeRow) { r.Code += 100 },
		"name":  func(r *CodeRow) { r.Name += "x" },
		"retry": func(r *CodeRow) { r.Retry = !r.Retry },
		"hint":  func(r *CodeRow) { r.Hint = "" },
		"text": func(r *CodeRow) {
			if r.Text == "" {
				r.Text = "x"
			} else {
				r.Text = ""
			}
		},
	})
}

// checkLabels compares the first field of what each constructor makes with the
// labels of the discovery wire's page.
func checkLabels() error {
	wanted := []struct {
		purpose Purpose
		label   string
		first   []byte
	}{
		{PurposeDiscoveryProof, "fastcache-discovery-proof-v3", DiscoveryProofMessage("c", [32]byte{}, nil, [32]byte{}).Bytes()},
		{PurposeFleetSummary, "fastcache-fleet-summary-v1", FleetSummaryMessage([32]byte{}, nil, [32]byte{}).Bytes()},
		{PurposeEnrollRequest, "fastcache-enroll-request-v1", (&EnrollRequest{}).Message().Bytes()},
		{PurposeEnrollAnswer, "fastcache-enroll-admission-v1", (&EnrollAnswer{}).Message([32]byte{}, "", [32]byte{}, "").Bytes()},
		{PurposeStartupEvent, "pace-startup-event-v1", (&StartupEvent{}).Message().Bytes()},
		{PurposeDissolveOrder, "pace-dissolve-order-v1", (&DissolveOrder{}).Message().Bytes()},
		{PurposeLease, "pace-lease-v1", (&LeaseClaims{}).Message().Bytes()},
		{PurposeDiscoveryCookie, "fastcache-discovery-cookie-v2", CookieFields(0, "", "", "", "", "")},
	}
	for i, w := range wanted {
		f := ReadFields(w.first)
		if label := f.Text(0, 100); w.purpose != Purpose(i+1) || label != w.label || w.purpose.String() != w.label {
			return fmt.Errorf("purpose %d: label %q, want %q", w.purpose, label, w.label)
		}
	}
	seen := map[string]bool{}
	for _, r := range Labels {
		if seen[r.Label] || r.About == "" {
			return fmt.Errorf("label %q is used twice or says nothing", r.Label)
		}
		seen[r.Label] = true
	}
	if len(Labels) != len(wanted) || Purpose(0).Label() != "" || Purpose(200).Label() != "" {
		return fmt.Errorf("%d labels, want %d", len(Labels), len(wanted))
	}
	return nil
}

func TestLabels(t *testing.T) {
	if err := checkLabels(); err != nil {
		t.Error(err)
	}
}

func TestMutationLabels(t *testing.T) {
	mutate(t, Labels, checkLabels, map[string]func(*LabelRow){
		"purpose": func(r *LabelRow) { r.Purpose += 100 },
		"label":   func(r *LabelRow) { r.Label += "x" },
		"reused":  func(r *LabelRow) { r.Label = Labels[(int(r.Purpose))%len(Labels)].Label },
		"about":   func(r *LabelRow) { r.About = "" },
	})
}

func checkKinds() error {
	wanted := map[byte]string{1: "beacon", 2: "challenge", 3: "proof"}
	for k := range 256 {
		got, _, verdict := ParseDatagram([]byte{0xFD, 3, byte(k), 0, 0, 0, 0})
		name, ok := wanted[byte(k)]
		if ok != (verdict == VerdictOK) || ok && (got != Kind(k) || got.String() != name) || !ok && Kind(k).String() != "unknown" {
			return fmt.Errorf("kind %d: %v, verdict %d", k, got, verdict)
		}
	}
	return nil
}

func checkOutcomes() error {
	wanted := map[byte]struct {
		name              string
		roster, challenge bool
	}{1: {"pending", false, true}, 2: {"approved", true, false}, 3: {"rejected", false, false}, 4: {"revoked", false, false}}
	for o := range 256 {
		w, ok := wanted[byte(o)]
		for _, c := range []struct {
			roster    []byte
			challenge bool
			want      bool
		}{{nil, false, ok}, {[]byte("{}"), false, ok && w.roster}, {nil, true, ok && w.challenge}, {[]byte("{}"), true, false}} {
			a := EnrollAnswer{Outcome: Outcome(o), Roster: c.roster, HasChallenge: c.challenge}
			if _, err := DecodeEnrollAnswer(a.Append(nil)); (err == nil) != c.want {
				return fmt.Errorf("outcome %d, roster %q, challenge %v: %v", o, c.roster, c.challenge, err)
			}
		}
		if ok && Outcome(o).String() != w.name || !ok && Outcome(o).String() != "unknown" {
			return fmt.Errorf("outcome %d is called %s", o, Outcome(o))
		}
	}
	return nil
}

func checkControlOps() error {
	key := [32]byte{0xff}
	member := string(AppendControlMember(nil, "n-1", key))
	long := strings.Repeat("a", MaxID)
	arguments := []string{"", "1800", "9999999999", "99999999999", "18 0", "n-1", long, long + "a", "a b", member,
		string(AppendControlMember(nil, long, key)), string(AppendControlMember(nil, long+"a", key)), string(key[:]), "-1"}
	wanted := map[byte]struct{ name, accepted string }{
		//                 empty 1800 1e10 1e11 "18 0" n-1 64 65 "a b" member long-member too-long key -1
		3: {"list", "y............."},
		5: {"reject", ".yyy.yy..yy..y"}, // digits and "-1" are letters of an id
		6: {"window", ".yy..........."},
		7: {"window off", "y............."},
		8: {"clear", "y............."},
		9: {"approve", ".........yy..."},
	}
	for op := range 256 {
		w, ok := wanted[byte(op)]
		for i, a := range arguments {
			c := EnrollControl{Op: ControlOp(op), Argument: []byte(a)}
			_, err := DecodeEnrollControl(c.Append(nil))
			if (err == nil) != (ok && w.accepted[i] == 'y') {
				return fmt.Errorf("operation %d with %q: %v", op, a, err)
			}
		}
		if ok && ControlOp(op).String() != w.name || !ok && ControlOp(op).String() != "unknown" {
			return fmt.Errorf("operation %d is called %s", op, ControlOp(op))
		}
	}
	return nil
}

func checkPushKinds() error {
	wanted := map[byte]string{1: "snapshot", 2: "command", 3: "heartbeat"}
	for k := range 256 {
		got, err := ReadPushKind(AppendU8(nil, byte(k)))
		name, ok := wanted[byte(k)]
		if ok != (err == nil) || ok && (got != PushKind(k) || got.String() != name) || !ok && PushKind(k).String() != "unknown" {
			return fmt.Errorf("push kind %d: %v, %v", k, got, err)
		}
	}
	return nil
}

func checkSummaryStates() error {
	wanted := map[byte]string{1: "solitary", 2: "established", 3: "pending"}
	for b := range 256 {
		s := Summary{Cluster: "c", State: SummaryState(b)}
		_, err := DecodeSummary(AppendSummary(nil, &s))
		name, ok := wanted[byte(b)]
		if ok != (err == nil) || ok && s.State.String() != name || !ok && s.State.String() != "unknown" {
			return fmt.Errorf("state %d (%s): %v", b, s.State, err)
		}
	}
	return nil
}

func TestSmallTables(t *testing.T) {
	for name, check := range map[string]func() error{
		"kinds": checkKinds, "outcomes": checkOutcomes, "control": checkControlOps,
		"push kinds": checkPushKinds, "states": checkSummaryStates,
	} {
		if err := check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMutationKinds(t *testing.T) {
	mutate(t, Kinds, checkKinds, map[string]func(*KindRow){
		"kind": func(r *KindRow) { r.Kind += 100 }, "name": func(r *KindRow) { r.Name += "x" }})
}

func TestMutationOutcomes(t *testing.T) {
	mutate(t, Outcomes, checkOutcomes, map[string]func(*OutcomeRow){
		"outcome": func(r *OutcomeRow) { r.Outcome += 100 }, "name": func(r *OutcomeRow) { r.Name += "x" },
		"roster": func(r *OutcomeRow) { r.Roster = !r.Roster }, "challenge": func(r *OutcomeRow) { r.Challenge = !r.Challenge }})
}

func TestMutationControlOps(t *testing.T) {
	mutate(t, ControlOps, checkControlOps, map[string]func(*ControlRow){
		"op": func(r *ControlRow) { r.Op += 100 }, "name": func(r *ControlRow) { r.Name += "x" },
		"argument":      func(r *ControlRow) { r.argument = (r.argument + 1) % 4 },
		"argument by 2": func(r *ControlRow) { r.argument = (r.argument + 2) % 4 }})
}

func TestMutationPushKinds(t *testing.T) {
	mutate(t, PushKinds, checkPushKinds, map[string]func(*PushKindRow){
		"kind": func(r *PushKindRow) { r.Kind += 100 }, "name": func(r *PushKindRow) { r.Name += "x" }})
}

func TestMutationSummaryStates(t *testing.T) {
	mutate(t, SummaryStates, checkSummaryStates, map[string]func(*SummaryStateRow){
		"state": func(r *SummaryStateRow) { r.State += 100 }, "name": func(r *SummaryStateRow) { r.Name += "x" }})
}

// summaryWith returns a good summary's bytes with field i replaced by value.
func summaryWith(i int, value []byte) []byte {
	fields := [][]byte{
		[]byte("c"), {2}, make([]byte, 8), []byte("n-a"), []byte("a:1"), []byte("n-b"), []byte("b:1"),
		nil, {0, 0, 0, 0, 0, 0, 0, 10}, []byte("c:1"), nil,
	}
	if i >= 0 {
		fields[i] = value
	}
	var b []byte
	for _, f := range fields {
		b = AppendField(b, f)
	}
	return b
}

// checkSummaryBounds walks the bounds of the eleven fields.
func checkSummaryBounds() error {
	text := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	endpoint := func(n int) []byte { return append(text(n-5), ":6674"...) }
	members := func(n, size int) []byte {
		var b []byte
		for i := range n {
			b = AppendText(b, fmt.Sprintf("%0*d", size, i))
		}
		return b
	}
	type row struct {
		field int
		value []byte
		ok    bool
	}
	rows := []row{{-1, nil, true},
		{0, nil, false}, {0, text(1), true}, {0, text(64), true}, {0, text(65), false}, {0, []byte{0xff}, false},
		{1, nil, false}, {1, []byte{1}, true}, {1, []byte{2}, true}, {1, []byte{3}, true}, {1, []byte{0}, false}, {1, []byte{4}, false}, {1, []byte{2, 0}, false},
		{2, text(7), false}, {2, text(8), true}, {2, text(9), false},
		{3, nil, true}, {3, text(64), true}, {3, text(65), false}, {3, []byte{0xff}, false},
		{5, nil, true}, {5, text(64), true}, {5, text(65), false}, {5, []byte{0xff}, false},
		{7, members(10, 64), true}, {7, members(10, 1), true}, {7, members(11, 2), false}, {7, members(10, 65), false},
		{7, AppendField(nil, nil), false}, {7, AppendField(nil, []byte{0xff}), false}, {7, []byte{0}, false},
		{7, AppendText(AppendText(nil, "a"), "a"), false}, {7, AppendText(AppendText(nil, "a"), "b"), true},
		{7, []byte{0xff, 0xff, 0xff, 0xff}, false}, {7, append(members(2, 1), 0), false},
		{8, text(7), false}, {8, text(8), true}, {8, text(9), false},
		{10, nil, true}, {10, text(1), false}, {10, text(31), false}, {10, text(32), true}, {10, text(33), false},
	}
	for _, field := range []int{4, 6, 9} {
		rows = append(rows, row{field, nil, true}, row{field, endpoint(1024), true}, row{field, endpoint(1025), false},
			row{field, []byte("host"), false}, row{field, []byte("host:0"), false}, row{field, []byte("host:65536"), false}, row{field, []byte(":6674"), false}, row{field, []byte("\xff:6674"), false})
	}
	for _, r := range rows {
		if _, err := DecodeSummary(summaryWith(r.field, r.value)); (err == nil) != r.ok {
			return fmt.Errorf("field %d = %.40q (%d bytes): %v, want ok %v", r.field, r.value, len(r.value), err, r.ok)
		}
	}
	// Total against the number listed: below, equal, above.
	for total, ok := range map[uint64]bool{1: false, 2: true, 3: true} {
		s := Summary{Cluster: "c", State: StateSolitary, Members: []string{"a", "b"}, Total: total}
		if _, err := DecodeSummary(AppendSummary(nil, &s)); (err == nil) != ok {
			return fmt.Errorf("2 members listed, total %d: %v", total, err)
		}
	}
	for name, b := range map[string][]byte{"ten fields": summaryWith(-1, nil)[:len(summaryWith(-1, nil))-4], "twelve fields": AppendField(summaryWith(-1, nil), nil), "nothing": nil} {
		if _, err := DecodeSummary(b); err == nil {
			return fmt.Errorf("%s: accepted", name)
		}
	}
	return nil
}

func TestSummaryBounds(t *testing.T) {
	if err := checkSummaryBounds(); err != nil {
		t.Error(err)
	}
}

func TestMutationSummaryBounds(t *testing.T) {
	// Some upper limits have a second guard, so raising them by one changes
	// nothing; they are set to 0 instead. More than ten members are refused by
	// their count, a key of 33 bytes by being neither empty nor 32, and the
	// predicate of an endpoint knows its longest itself.
	second := func(b *summaryBound) bool {
		return b == &summaryBounds[7] || b.content == contentKey || b.content == contentEndpoint
	}
	mutate(t, summaryBounds[:], checkSummaryBounds, map[string]func(*summaryBound){
		"min up":   func(b *summaryBound) { b.min++ },
		"min down": func(b *summaryBound) { b.min-- },
		"max up": func(b *summaryBound) {
			if second(b) {
				b.max = 0
				return
			}
			b.max++
		},
		"max down": func(b *summaryBound) { b.max-- },
		"content": func(b *summaryBound) {
			switch b.content {
			case contentAny:
				b.content = contentEndpoint
			default:
				b.content = contentAny
			}
		},
	})
}
