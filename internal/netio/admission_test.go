package netio

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// keyed is the n-th key; keys below 1000 are strangers, from 1000 on they are known.
func keyed(n int) identity.PublicKey { return identity.PublicKey{byte(n), byte(n >> 8)} }

func numbered(k identity.PublicKey) int { return int(k[0]) | int(k[1])<<8 }

var admissionStart = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

type admissionStep struct {
	do    string // connect, ask (Hello), summary, large (a Hello beyond 4 KiB), answered, gone, sweep, due
	n     int    // session and key
	from  string // of connect
	after time.Duration
	want  string // the refusal, or of due the closed sessions
}

// many connects the sessions first..last, each from its own source.
func many(first, last int, do string) (out []admissionStep) {
	for n := first; n <= last; n++ {
		out = append(out, admissionStep{do: do, n: n, from: fmt.Sprintf("10.0.%d.%d", n/250, 1+n%250), want: "none"})
	}
	return out
}

func steps(parts ...[]admissionStep) (out []admissionStep) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// admissionCases are written from "Admission" of the 0xFC endpoint: 64 strangers, 4 a source network, 8 kept for
// FleetSummary, first request within 5 s and at most 4 KiB, closed 10 s after the last answer.
var admissionCases = []struct {
	name     string
	loopback bool
	steps    []admissionStep
}{
	{name: "four a source, the fifth is refused, and a known key is not", steps: []admissionStep{
		{do: "connect", n: 1, from: "10.1.0.1", want: "none"}, {do: "connect", n: 2, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 3, from: "10.1.0.1", want: "none"}, {do: "connect", n: 4, from: "::ffff:10.1.0.1", want: "none"},
		{do: "connect", n: 5, from: "10.1.0.1", want: "source-full"}, {do: "connect", n: 1001, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 6, from: "10.1.0.2", want: "none"},
		{do: "gone", n: 2}, {do: "connect", n: 5, from: "10.1.0.1", want: "none"},
	}},
	{name: "an IPv6 source is a /64", steps: []admissionStep{
		{do: "connect", n: 1, from: "fd00:1::1", want: "none"}, {do: "connect", n: 2, from: "fd00:1::2", want: "none"},
		{do: "connect", n: 3, from: "fd00:1::3", want: "none"}, {do: "connect", n: 4, from: "fd00:1::4", want: "none"},
		{do: "connect", n: 5, from: "fd00:1::ffff:0:0:5", want: "source-full"}, {do: "connect", n: 6, from: "fd00:1:0:1::1", want: "none"},
	}},
	{name: "loopback sources are not bounded with --discovery-loopback", loopback: true, steps: []admissionStep{
		{do: "connect", n: 1, from: "127.0.0.1", want: "none"}, {do: "connect", n: 2, from: "127.0.0.1", want: "none"},
		{do: "connect", n: 3, from: "127.0.0.1", want: "none"}, {do: "connect", n: 4, from: "127.0.0.1", want: "none"},
		{do: "connect", n: 5, from: "127.0.0.1", want: "none"},
		{do: "connect", n: 6, from: "10.1.0.1", want: "none"}, {do: "connect", n: 7, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 8, from: "10.1.0.1", want: "none"}, {do: "connect", n: 9, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 10, from: "10.1.0.1", want: "source-full"},
	}},
	{name: "loopback sources are bounded without", steps: []admissionStep{
		{do: "connect", n: 1, from: "127.0.0.1", want: "none"}, {do: "connect", n: 2, from: "127.0.0.1", want: "none"},
		{do: "connect", n: 3, from: "127.0.0.1", want: "none"}, {do: "connect", n: 4, from: "127.0.0.1", want: "none"},
		{do: "connect", n: 5, from: "127.0.0.1", want: "source-full"},
	}},
	{name: "64 in all, known ones beside them", steps: steps(many(1, 64, "connect"), []admissionStep{
		{do: "connect", n: 65, from: "10.9.0.1", want: "strangers-full"}, {do: "connect", n: 1001, from: "10.9.0.1", want: "none"},
		{do: "gone", n: 7}, {do: "connect", n: 65, from: "10.9.0.1", want: "none"},
	})},
	{name: "64 in all for loopback too", loopback: true, steps: steps(many(1, 64, "connect"), []admissionStep{
		{do: "connect", n: 65, from: "127.0.0.1", want: "strangers-full"},
	})},
	{name: "the source is asked before the total", steps: steps(many(1, 60, "connect"), []admissionStep{
		{do: "connect", n: 61, from: "10.9.0.1", want: "none"}, {do: "connect", n: 62, from: "10.9.0.1", want: "none"},
		{do: "connect", n: 63, from: "10.9.0.1", want: "none"}, {do: "connect", n: 64, from: "10.9.0.1", want: "none"},
		{do: "connect", n: 65, from: "10.9.0.1", want: "source-full"}, {do: "connect", n: 65, from: "10.9.0.2", want: "strangers-full"},
	})},
	{name: "eight places are kept for FleetSummary", steps: steps(many(1, 64, "connect"), many(1, 56, "ask"), []admissionStep{
		{do: "ask", n: 57, want: "summary-reserve"}, {do: "summary", n: 58, want: "none"}, {do: "summary", n: 64, want: "none"},
		{do: "gone", n: 1}, {do: "ask", n: 59, want: "none"}, {do: "ask", n: 60, want: "summary-reserve"},
	})},
	{name: "a summary's session that goes on to ask leaves the kept places", steps: steps(many(1, 57, "connect"), many(1, 56, "ask"), []admissionStep{
		{do: "summary", n: 57, want: "none"}, {do: "ask", n: 57, want: "summary-reserve"}, {do: "gone", n: 3}, {do: "ask", n: 57, want: "none"},
	})},
	{name: "the first request is at most 4 KiB, a later one is the verb's", steps: []admissionStep{
		{do: "connect", n: 1, from: "10.1.0.1", want: "none"}, {do: "large", n: 1, want: "first-request-too-large"},
		{do: "ask", n: 1, want: "none"}, {do: "large", n: 1, want: "none"},
	}},
	{name: "the size is asked before the places", steps: steps(many(1, 64, "connect"), many(1, 56, "ask"), []admissionStep{
		{do: "large", n: 57, want: "first-request-too-large"},
	})},
	{name: "the first request within 5 s", steps: []admissionStep{
		{do: "connect", n: 1, from: "10.1.0.1", want: "none"}, {do: "due", after: 4999 * time.Millisecond, want: ""},
		{do: "due", after: time.Millisecond, want: "1 first-request-late"}, {do: "due", after: time.Hour, want: ""},
	}},
	{name: "10 s after the last answer", steps: []admissionStep{
		{do: "connect", n: 1, from: "10.1.0.1", want: "none"}, {do: "ask", n: 1, after: 4 * time.Second, want: "none"},
		{do: "answered", n: 1, after: 8 * time.Second}, {do: "due", after: 9 * time.Second, want: ""},
		{do: "ask", n: 1, want: "none"}, {do: "answered", n: 1}, {do: "due", after: 9999 * time.Millisecond, want: ""},
		{do: "due", after: time.Millisecond, want: "1 none"},
	}},
	{name: "two requests at once are both awaited", steps: []admissionStep{
		{do: "connect", n: 1, from: "10.1.0.1", want: "none"}, {do: "ask", n: 1, want: "none"}, {do: "ask", n: 1, want: "none"},
		{do: "answered", n: 1}, {do: "due", after: 11 * time.Second, want: ""}, {do: "answered", n: 1},
		{do: "due", after: 10 * time.Second, want: "1 none"},
	}},
	{name: "an answer within 30 s", steps: []admissionStep{
		{do: "connect", n: 1, from: "10.1.0.1", want: "none"}, {do: "ask", n: 1, want: "none"},
		{do: "due", after: 29999 * time.Millisecond, want: ""}, {do: "due", after: time.Millisecond, want: "1 answer-late"},
	}},
	{name: "who gets a row leaves the bounds, and comes back when it runs out", steps: []admissionStep{
		{do: "connect", n: 500, from: "10.1.0.1", want: "none"}, {do: "ask", n: 500, want: "none"}, {do: "answered", n: 500},
		{do: "known", n: 500}, {do: "due", after: time.Hour, want: ""}, {do: "sweep", n: 500, from: "10.1.0.1"},
		{do: "due", after: time.Hour, want: ""}, {do: "unknown", n: 500}, {do: "sweep", n: 500, from: "10.1.0.1"},
		{do: "due", after: 9 * time.Second, want: ""}, {do: "due", after: time.Second, want: "500 none"},
	}},
	{name: "a row makes room for a newcomer at once", steps: []admissionStep{
		{do: "connect", n: 500, from: "10.1.0.1", want: "none"}, {do: "connect", n: 2, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 3, from: "10.1.0.1", want: "none"}, {do: "connect", n: 4, from: "10.1.0.1", want: "none"},
		{do: "known", n: 500}, {do: "connect", n: 5, from: "10.1.0.1", want: "none"}, {do: "connect", n: 6, from: "10.1.0.1", want: "source-full"},
	}},
	{name: "a row makes room for an asker at once", steps: steps(many(444, 500, "connect"), many(444, 499, "ask"), []admissionStep{
		{do: "known", n: 450}, {do: "ask", n: 500, want: "none"},
	})},
	{name: "a session becomes known between two requests", steps: []admissionStep{
		{do: "connect", n: 500, from: "10.1.0.1", want: "none"}, {do: "known", n: 500}, {do: "large", n: 500, want: "none"},
		{do: "due", after: time.Hour, want: ""},
	}},
	{name: "who has been here for three seconds gives way in its network", steps: []admissionStep{
		{do: "connect", n: 1, from: "10.1.0.1", want: "none"}, {do: "connect", n: 2, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 3, from: "10.1.0.1", want: "none"}, {do: "connect", n: 4, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 5, from: "10.1.0.1", after: 2999 * time.Millisecond, want: "source-full"},
		{do: "connect", n: 5, from: "10.1.0.1", after: time.Millisecond, want: "none"}, {do: "ask", n: 1, want: "source-full"},
		{do: "due", want: "1 source-full"}, {do: "due", want: ""}, {do: "connect", n: 6, from: "10.1.0.1", want: "none"}, {do: "due", want: "2 source-full"},
		{do: "connect", n: 7, from: "10.1.0.1", want: "none"}, {do: "connect", n: 8, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 9, from: "10.1.0.1", want: "source-full"},
	}},
	{name: "who has been here for three seconds gives way of all, whatever it says meanwhile", steps: steps(many(1, 64, "connect"), many(1, 56, "ask"), []admissionStep{
		{do: "answered", n: 1, after: 2999 * time.Millisecond}, {do: "connect", n: 65, from: "10.9.0.1", want: "strangers-full"},
		{do: "connect", n: 65, from: "10.9.0.1", after: time.Millisecond, want: "none"}, {do: "sweep", n: 1, from: "10.0.0.2"}, {do: "due", want: "1 strangers-full"},
	})},
	{name: "who has been here for three seconds gives way of those that ask", steps: steps(many(1, 57, "connect"), many(1, 56, "ask"), []admissionStep{
		{do: "ask", n: 57, after: 2999 * time.Millisecond, want: "summary-reserve"}, {do: "ask", n: 57, after: time.Millisecond, want: "none"},
		{do: "due", want: "1 summary-reserve"},
	})},
	{name: "a network that holds two more gives way after a quarter of a second", steps: steps(many(1, 62, "connect"), []admissionStep{
		{do: "connect", n: 63, from: "10.9.0.1", want: "none"}, {do: "connect", n: 64, from: "10.9.0.1", want: "none"},
		{do: "connect", n: 65, from: "10.9.0.2", after: 249 * time.Millisecond, want: "strangers-full"},
		{do: "connect", n: 65, from: "10.9.0.2", after: time.Millisecond, want: "none"}, {do: "due", want: "63 strangers-full"},
		{do: "connect", n: 66, from: "10.9.0.3", after: time.Second, want: "strangers-full"},
	})},
	{name: "a network that holds two more askers gives way to another's", steps: steps(many(1, 54, "connect"), many(1, 54, "ask"), []admissionStep{
		{do: "connect", n: 55, from: "10.9.0.1", want: "none"}, {do: "ask", n: 55, want: "none"}, {do: "connect", n: 56, from: "10.9.0.1", want: "none"},
		{do: "ask", n: 56, want: "none"}, {do: "connect", n: 57, from: "10.9.0.2", want: "none"},
		{do: "ask", n: 57, after: 249 * time.Millisecond, want: "summary-reserve"}, {do: "ask", n: 57, after: time.Millisecond, want: "none"},
		{do: "due", want: "55 summary-reserve"},
	})},
	{name: "who got a row gives way to nobody, also after it was to", steps: []admissionStep{
		{do: "connect", n: 500, from: "10.1.0.1", want: "none"}, {do: "connect", n: 501, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 502, from: "10.1.0.1", want: "none"}, {do: "connect", n: 503, from: "10.1.0.1", want: "none"},
		{do: "connect", n: 504, from: "10.1.0.1", after: 3 * time.Second, want: "none"}, {do: "known", n: 500}, {do: "ask", n: 500, want: "none"}, {do: "due", want: ""},
		{do: "known", n: 501}, {do: "connect", n: 505, from: "10.1.0.1", want: "none"}, {do: "connect", n: 506, from: "10.1.0.1", want: "none"}, {do: "due", want: "502 source-full"},
	}},
	{name: "requests of known keys and of nobody are not judged", steps: []admissionStep{
		{do: "large", n: 1001, want: "none"}, {do: "answered", n: 1001}, {do: "due", after: time.Hour, want: ""},
	}},
}

func checkAdmission() error {
	for _, c := range admissionCases {
		rows := map[int]bool{}
		a := NewAdmission(AdmissionFacts{Known: func(k identity.PublicKey) bool { return numbered(k) >= 1000 || rows[numbered(k)] }}, c.loopback)
		now := admissionStart
		for i, s := range c.steps {
			now = now.Add(s.after)
			got := ""
			switch s.do {
			case "connect":
				got = a.Connect(now, uint64(s.n), keyed(s.n), netip.MustParseAddr(s.from)).String()
			case "ask":
				got = a.Request(now, uint64(s.n), wire.VerbHello, 200).String()
			case "summary":
				got = a.Request(now, uint64(s.n), wire.VerbFleetSummary, 36).String()
			case "large":
				got = a.Request(now, uint64(s.n), wire.VerbWork, 4097).String()
			case "answered":
				a.Answered(now, uint64(s.n))
			case "gone":
				a.Gone(uint64(s.n))
			case "known", "unknown":
				rows[s.n] = s.do == "known"
			case "sweep":
				a.Sweep(now, uint64(s.n), keyed(s.n), netip.MustParseAddr(s.from))
			case "due":
				for _, e := range a.Due(now) {
					got += fmt.Sprintf("%d %s", e.ID, e.Refusal)
				}
			default:
				return fmt.Errorf("no step %q", s.do)
			}
			if got != s.want {
				return fmt.Errorf("%s, step %d (%s %d): %q, want %q", c.name, i, s.do, s.n, got, s.want)
			}
		}
	}
	return nil
}

func TestAdmission(t *testing.T) {
	if err := checkAdmission(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationAdmission(t *testing.T) {
	for name, change := range map[string]func(*admissionBound){
		"one more":    func(r *admissionBound) { r.Bound++ },
		"one less":    func(r *admissionBound) { r.Bound-- },
		"reason":      func(r *admissionBound) { r.Refusal = RefuseFlood },
		"stage":       func(r *admissionBound) { r.Stage = 1 - r.Stage },
		"scope":       func(r *admissionBound) { r.Scope = (r.Scope + 1) % 3 },
		"loopback":    func(r *admissionBound) { r.SparesLoopback = !r.SparesLoopback },
		"no summary":  func(r *admissionBound) { r.SparesSummary = !r.SparesSummary },
		"longer":      func(r *admissionBound) { r.Grace += time.Millisecond },
		"shorter":     func(r *admissionBound) { r.Grace -= time.Millisecond },
		"turn later":  func(r *admissionBound) { r.Turn += time.Millisecond },
		"turn sooner": func(r *admissionBound) { r.Turn -= time.Millisecond },
	} {
		t.Run(name, func(t *testing.T) {
			table := admissionBounds
			if name == "loopback" {
				table = table[:2] // by its scope and stage the third counts no source
			}
			if strings.HasPrefix(name, "turn") {
				table = table[1:] // the first counts one network
			}
			if name == "no summary" {
				table = table[2:] // nothing was asked when the others are
			}
			mutate(t, table, change, checkAdmission)
		})
	}
	mutate(t, admissionWaits, func(r *admissionWait) { r.Within += time.Millisecond }, checkAdmission)
	mutate(t, admissionWaits, func(r *admissionWait) { r.Within -= time.Millisecond }, checkAdmission)
	mutate(t, admissionWaits, func(r *admissionWait) { r.Refusal = RefuseFlood }, checkAdmission)
	admissionBounds[0], admissionBounds[1] = admissionBounds[1], admissionBounds[0]
	if checkAdmission() == nil {
		t.Error("the order of the bounds can be changed unnoticed")
	}
	admissionBounds[0], admissionBounds[1] = admissionBounds[1], admissionBounds[0]
}

// TestAdmissionNext: the next deadline is never later than the first session that is due.
func TestAdmissionNext(t *testing.T) {
	a := NewAdmission(AdmissionFacts{}, false)
	if _, ok := a.Next(); ok {
		t.Error("a deadline without anybody")
	}
	a.Connect(admissionStart, 1, keyed(1), netip.MustParseAddr("10.0.0.1"))
	a.Connect(admissionStart.Add(time.Second), 2, keyed(2), netip.MustParseAddr("10.0.0.2"))
	if at, ok := a.Next(); !ok || !at.Equal(admissionStart.Add(5*time.Second)) {
		t.Errorf("%s %v", at, ok)
	}
	if got := a.Due(admissionStart.Add(5 * time.Second)); len(got) != 1 || got[0].ID != 1 {
		t.Errorf("%v", got)
	}
	if at, ok := a.Next(); !ok || !at.Equal(admissionStart.Add(6*time.Second)) {
		t.Errorf("%s %v", at, ok)
	}
}

// TestAdmissionProperty: whatever comes, no bound is passed, and every stranger has a deadline.
func TestAdmissionProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := map[int]bool{}
		a := NewAdmission(AdmissionFacts{Known: func(k identity.PublicKey) bool { return rows[numbered(k)] }}, rapid.Bool().Draw(t, "loopback"))
		now, id := admissionStart, uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"connect": func(t *rapid.T) {
				id++
				host := rapid.SampledFrom([]string{"10.0.0.1", "10.0.0.2", "127.0.0.1", "fd00::1"}).Draw(t, "from")
				if rapid.Bool().Draw(t, "elsewhere") {
					host = fmt.Sprintf("10.1.%d.%d", id/250, id%250)
				}
				a.Connect(now, id, keyed(int(id%900)), netip.MustParseAddr(host))
			},
			"request": func(t *rapid.T) {
				verb := rapid.SampledFrom([]wire.Verb{wire.VerbHello, wire.VerbFleetSummary, wire.VerbEnroll}).Draw(t, "verb")
				a.Request(now, rapid.Uint64Range(1, max(id, 1)).Draw(t, "session"), verb, rapid.Uint32Range(0, 5000).Draw(t, "length"))
			},
			"answer": func(t *rapid.T) { a.Answered(now, rapid.Uint64Range(1, max(id, 1)).Draw(t, "session")) },
			"row":    func(t *rapid.T) { rows[rapid.IntRange(1, 900).Draw(t, "key")] = rapid.Bool().Draw(t, "known") },
			"time": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 12000).Draw(t, "ms")) * time.Millisecond)
				for _, e := range a.Due(now) {
					if a.open[e.ID] != nil {
						t.Fatalf("%d is due and stays", e.ID)
					}
				}
			},
			"": func(t *rapid.T) {
				sources, askers := map[netip.Prefix]int{}, 0
				for _, s := range a.open {
					if s.asker {
						askers++
					}
					if sources[s.source]++; sources[s.source] > MaxStrangersPerSource && !(a.loopback && s.source.Addr().IsLoopback()) {
						t.Fatalf("%d sessions of %s", sources[s.source], s.source)
					}
				}
				if len(a.open) > MaxStrangers || askers > MaxStrangers-KeptForFleetSummary {
					t.Fatalf("%d sessions, %d of them askers", len(a.open), askers)
				}
				if at, ok := a.Next(); ok && at.After(now.Add(AnswerWithin)) {
					t.Fatalf("a deadline %s away", at.Sub(now))
				}
			},
		})
	})
}

func TestRefusalTable(t *testing.T) {
	seen := map[string]bool{}
	for r := RefusalNone + 1; r < refusals; r++ {
		row := r.Row()
		if row.Label == "none" || row.Text == "" || seen[row.Label] {
			t.Errorf("refusal %d: %+v", r, row)
		}
		seen[row.Label] = true
		if e := r.Answer(); e.Code == 0 || e.Text != row.Text {
			t.Errorf("refusal %d answers %+v", r, e)
		}
	}
	if len(Refusals) != int(refusals)-1 {
		t.Errorf("%d rows for %d refusals", len(Refusals), refusals-1)
	}
	var c refusalCounts
	c.add(refusals)
	if c.get(refusals) != 0 || RefusalNone.String() != "none" {
		t.Error("a refusal that is none is counted or named")
	}
}
