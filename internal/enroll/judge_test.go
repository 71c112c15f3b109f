package enroll

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// keyPairs keeps what was made: making a key costs more than most tests.
var keyPairs sync.Map

func privateOf(n int) identity.PrivateKey {
	if k, ok := keyPairs.Load(n); ok {
		return k.(identity.PrivateKey)
	}
	var seed [32]byte
	seed[0], seed[1], seed[2] = byte(n), byte(n>>8), 9
	k := identity.NewPrivateKey(seed)
	keyPairs.Store(n, k)
	return k
}

func keyOf(n int) identity.PublicKey { return privateOf(n).Public() }

// entropy is a counter: each challenge differs, and a test can run again.
func entropy() func([]byte) {
	n := byte(0)
	return func(b []byte) {
		n++
		for i := range b {
			b[i] = n
		}
	}
}

func hostOfNode(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 1, byte(n >> 8), byte(n)}) }

// request is a sound request of machine n, signed at the end by sign.
func request(n int) Request {
	return Request{EnrollRequest: wire.EnrollRequest{ID: fmt.Sprintf("n-%d", n), Endpoint: hostOfNode(n).String() + ":6674", Role: wire.RoleLearner,
		Key: keyOf(n), Nonce: [32]byte{1, 2, 3}}, Name: fmt.Sprintf("pc-%d", n), Platform: "linux/amd64", Version: "1.0.0", Source: hostOfNode(n),
		SessionKey: keyOf(n), Format: 1}
}

func sign(r Request, n int) Request {
	r.Signature = privateOf(n).Sign(r.Message())
	return r
}

func sound(n int) Request { return sign(request(n), n) }

// leads are the facts of a leader that knows nobody.
func leads() Facts { return Facts{Leads: true, FormatInUse: 1} }

type desk struct {
	t   *testing.T
	l   *List
	now time.Time
	f   Facts
	rnd func([]byte)
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	now := time.Now()
	return &desk{t: t, l: NewList(ListConfig{}, now), now: now, f: leads(), rnd: entropy()}
}

func (d *desk) judge(r Request) Judgement {
	d.t.Helper()
	return d.l.Judge(d.now, r, d.f, d.rnd)
}

func (d *desk) pending(r Request) Judgement {
	d.t.Helper()
	j := d.judge(r)
	if j.Outcome != wire.OutcomePending || j.Err != nil || j.Admit || !j.HasChallenge || !j.Waits {
		d.t.Fatalf("not put on the list: %+v", j)
	}
	return j
}

// answering is the next request of machine n: it answers the row's challenge.
func answering(n int, j Judgement) Request {
	r := request(n)
	r.Challenge, r.HasChallenge = j.Challenge, true
	return sign(r, n)
}

// fault is one thing that is wrong with a request, or one thing that the leader knows of it, in the leader's order.
type fault struct {
	name string
	do   func(*Request, *Facts, *List)
	want want
}

type want struct {
	outcome wire.Outcome
	code    wire.ErrorCode
	refusal Refusal
	admit   bool
}

func fills(l *List, source netip.Addr, n, from int) {
	for i := range n {
		r := request(from + i)
		r.Source = source
		l.rows[RowID{r.ID, r.Key}] = &row{Row: Row{ID: r.ID, Key: r.Key, Decision: Waiting}, network: network(source), heard: time.Now(), first: time.Now()}
	}
}

// faults are the page's checks, in its order.
func faults() []fault {
	return []fault{
		{"no Hello", func(r *Request, _ *Facts, _ *List) { r.Format = 0 }, want{0, wire.CodeRefusedByRule, RefusalNoHello, false}},
		{"older format", func(_ *Request, f *Facts, _ *List) { f.FormatInUse = 2 }, want{0, wire.CodeNewerFormat, RefusalFormat, false}},
		{"id", func(r *Request, _ *Facts, _ *List) { r.ID = "a b" }, want{0, wire.CodeMalformed, RefusalID, false}},
		{"endpoint", func(r *Request, _ *Facts, _ *List) { r.Endpoint = "127.0.0.1:0" }, want{0, wire.CodeMalformed, RefusalEndpoint, false}},
		{"endpoint here", func(r *Request, _ *Facts, _ *List) {
			if r.Endpoint != "127.0.0.1:0" {
				r.Endpoint = "127.0.0.1:6674"
			}
		}, want{0, wire.CodeRefusedByRule, RefusalEndpointHere, false}},
		{"name", func(r *Request, _ *Facts, _ *List) { r.Name = "a\x1b[2Jb" }, want{0, wire.CodeRefusedByRule, RefusalText, false}},
		{"key", func(r *Request, _ *Facts, _ *List) { r.Key = [32]byte{} }, want{0, wire.CodeMalformed, RefusalKey, false}},
		{"session key", func(r *Request, _ *Facts, _ *List) { r.SessionKey = keyOf(77) }, want{0, wire.CodeKeyMismatch, RefusalSessionKey, false}},
		{"source", func(r *Request, _ *Facts, l *List) { fills(l, r.Source, 4, 200) }, want{0, wire.CodeSourceFull, RefusalSource, false}},
		{"pending itself", func(_ *Request, f *Facts, _ *List) { f.PendingAt = "asked:6674" }, want{0, wire.CodeNotLeader, RefusalAskedElsewhere, false}},
		{"follower", func(_ *Request, f *Facts, _ *List) { f.Leads, f.LeaderEndpoint = false, "leader:6674" }, want{0, wire.CodeNotLeader, RefusalNotLeader, false}},
		{"signature", func(r *Request, _ *Facts, _ *List) { r.Signature[0] ^= 1 }, want{0, wire.CodeBadSignature, RefusalSignature, false}},
		{"revoked", func(_ *Request, f *Facts, _ *List) {
			f.Revoked = func(identity.PublicKey) (uint64, bool) { return 41, true }
		}, want{wire.OutcomeRevoked, 0, RefusalRevoked, false}},
		{"member", func(_ *Request, f *Facts, _ *List) {
			f.Holds = func(string, identity.PublicKey) bool { return true }
		}, want{wire.OutcomeApproved, 0, RefusalNone, false}},
		{"pre-approved", func(_ *Request, f *Facts, _ *List) {
			f.PreApproved = func(string, identity.PublicKey) bool { return true }
		}, want{wire.OutcomeApproved, 0, RefusalNone, true}},
		{"list full", func(_ *Request, _ *Facts, l *List) {
			for i := range MaxRows {
				fills(l, hostOfNode(3000+i), 1, 3000+i)
			}
		}, want{0, wire.CodeWaitingListFull, RefusalListFull, false}},
	}
}

// known is what a machine must not be for its source to be over its share: who is known needs no row.
var known = []string{"revoked", "member", "pre-approved"}

// checkOrder lets each check fail together with all the later ones: the earlier one is the answer.
func checkOrder() error {
	all := faults()
	at := func(name string) int { return slices.IndexFunc(all, func(f fault) bool { return f.name == name }) }
	for i, first := range all {
		for _, alone := range []bool{false, true} {
			now := time.Now()
			l := NewList(ListConfig{}, now)
			r, f := sound(1), leads()
			for k := i; k < len(all); k++ {
				if alone && k > i {
					break
				}
				if i > at("source") || !slices.Contains(known, all[k].name) {
					all[k].do(&r, &f, l)
				}
			}
			if alone && first.name != "signature" { // sign what was changed, so that only this fault is there
				r = sign(r, 1)
			}
			j := l.Judge(now, r, f, entropy())
			got := want{j.Outcome, 0, j.Refusal, j.Admit}
			if j.Err != nil {
				got.code = j.Err.Code
			}
			if got != first.want {
				return fmt.Errorf("%s (alone %v): %+v, want %+v", first.name, alone, got, first.want)
			}
			if first.want.refusal != RefusalNone && l.Refused(first.want.refusal) != 1 {
				return fmt.Errorf("%s: not counted as %v", first.name, first.want.refusal)
			}
			if (j.Err != nil) != (j.Outcome == 0) || j.Err != nil && j.Waits {
				return fmt.Errorf("%s: %+v", first.name, j)
			}
		}
	}
	return nil
}

func TestLeadersOrder(t *testing.T) {
	if err := checkOrder(); err != nil {
		t.Fatal(err)
	}
	if len(Order) != len(faults()) {
		t.Fatalf("%d steps, %d faults", len(Order), len(faults()))
	}
	d := newDesk(t)
	d.pending(sound(1))
}

// Each step left out, and each two neighbours changed, must be noticed.
func TestMutationOrder(t *testing.T) {
	original := append([]Step(nil), Order...)
	defer func() { Order = original }()
	try := func(name string, table []Step) {
		Order = table
		defer func() { Order = original }()
		failed := func() (failed bool) {
			defer func() { failed = failed || recover() != nil }()
			return checkOrder() != nil
		}()
		if !failed {
			t.Errorf("%s: nothing failed", name)
		}
	}
	for i := range original {
		try("without "+original[i].Name, append(append([]Step(nil), original[:i]...), original[i+1:]...))
		if i+1 < len(original) {
			swapped := append([]Step(nil), original...)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			try(original[i+1].Name+" before "+original[i].Name, swapped)
		}
	}
}

func TestRefusalsSayWhatAndWhere(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		name   string
		change func(*Request)
		texts  []string
	}{
		{"loopback: claimed endpoint and source", func(r *Request) { r.Endpoint = "127.0.0.1:6674" }, []string{`"127.0.0.1:6674"`, "10.1.0.1", "--advertise"}},
		{"wildcard", func(r *Request) { r.Endpoint = "0.0.0.0:6674" }, []string{`"0.0.0.0:6674"`, "10.1.0.1"}},
		{"IPv6 wildcard", func(r *Request) { r.Endpoint = "[::]:6674" }, []string{`"[::]:6674"`}},
		{"mapped loopback", func(r *Request) { r.Endpoint = "[::ffff:127.0.0.1]:6674" }, []string{"would reach itself"}},
		{"localhost", func(r *Request) { r.Endpoint = "localhost:6674" }, []string{"would reach itself"}},
		{"name", func(r *Request) { r.Name = "a\nb" }, []string{"name", `\n`}},
		{"platform", func(r *Request) { r.Platform = "x\x00" }, []string{"platform", `\x00`}},
		{"version", func(r *Request) { r.Version = "\u202e1" }, []string{"version"}},
		{"long name", func(r *Request) { r.Name = strings.Repeat("x", 300) }, []string{"300 bytes", "255"}},
		{"long version", func(r *Request) { r.Version = strings.Repeat("1", 65) }, []string{"65 bytes", "64"}},
		{"long endpoint", func(r *Request) { r.Endpoint = strings.Repeat("x", 257) + ":6674" }, []string{"262 bytes", "261", "--advertise"}},
		{"id", func(r *Request) { r.ID = "$(touch pwned)" }, []string{`"$(touch pwned)"`}},
	} {
		r := request(1)
		c.change(&r)
		j := d.judge(sign(r, 1))
		if j.Err == nil {
			t.Errorf("%s: taken", c.name)
			continue
		}
		for _, text := range c.texts {
			if !strings.Contains(j.Err.Text+"; "+j.Err.Hint, text) {
				t.Errorf("%s: %q / %q does not name %q", c.name, j.Err.Text, j.Err.Hint, text)
			}
		}
	}
	if n := len(d.l.Rows(d.now)); n != 0 {
		t.Fatalf("%d rows", n)
	}
}

func TestElsewhereWithoutAKnownLeader(t *testing.T) {
	d := newDesk(t)
	d.f = Facts{Elsewhere: true, Leads: true, FormatInUse: 1}
	if j := d.judge(sound(1)); j.Err == nil || j.Err.Code != wire.CodeNotLeader || j.Err.Text != "" {
		t.Fatalf("%+v", j)
	}
	d.f = Facts{PendingAt: "asked:6674", FormatInUse: 1}
	if j := d.judge(sound(1)); j.Err.Text != "asked:6674" {
		t.Fatalf("%+v", j.Err)
	}
	d.f = Facts{LeaderEndpoint: "leader:6674", FormatInUse: 1}
	if j := d.judge(sound(1)); j.Err.Text != "leader:6674" {
		t.Fatalf("%+v", j.Err)
	}
}

func TestRevokedSaysTheRevision(t *testing.T) {
	d := newDesk(t)
	d.f.Revoked = func(k identity.PublicKey) (uint64, bool) { return 41, k == keyOf(1) }
	if j := d.judge(sound(1)); j.Outcome != wire.OutcomeRevoked || j.Revision != 41 || j.Waits || j.HasChallenge {
		t.Fatalf("%+v", j)
	}
	if j := d.pending(sound(2)); j.Revision != 0 {
		t.Fatalf("%+v", j)
	}
}

func TestLoopbackDemo(t *testing.T) {
	now := time.Now()
	l := NewList(ListConfig{LoopbackOK: true}, now)
	local := netip.MustParseAddr("127.0.0.1")
	for n := 1; n <= 10; n++ { // the bounds by source do not apply, the total does
		r := request(n)
		r.Endpoint, r.Source = fmt.Sprintf("127.0.0.1:%d", 7000+n), local
		if j := l.Judge(now, sign(r, n), leads(), entropy()); j.Outcome != wire.OutcomePending {
			t.Fatalf("%d: %+v", n, j.Err)
		}
	}
	r := request(11)
	r.Endpoint = "127.0.0.1:7011" // from elsewhere
	if j := l.Judge(now, sign(r, 11), leads(), entropy()); j.Refusal != RefusalEndpointHere {
		t.Fatalf("%+v", j)
	}
	r.Endpoint, r.Source = "0.0.0.0:7011", local
	if j := l.Judge(now, sign(r, 11), leads(), entropy()); j.Refusal != RefusalEndpointHere {
		t.Fatalf("the wildcard: %+v", j)
	}
	for n := 12; n < 200; n++ {
		r := request(n)
		r.Endpoint, r.Source = fmt.Sprintf("127.0.0.1:%d", 7000+n), local
		l.Judge(now, sign(r, n), leads(), entropy())
	}
	if l.Waiting() != MaxRows {
		t.Fatalf("%d rows", l.Waiting())
	}
}

// checkRefusals: each refusal's reason, in the order of the checks.
func checkRefusals() error {
	want := []string{"no-hello", "format", "id", "endpoint", "endpoint-here", "text", "key", "session-key", "source", "asked-elsewhere", "not-leader", "signature", "revoked", "rejected", "list-full"}
	if len(Refusals) != int(refusals)-1 || len(Refusals) != len(want) {
		return fmt.Errorf("%d rows for %d refusals", len(Refusals), refusals-1)
	}
	for i, r := range Refusals {
		if int(r.Refusal) != i+1 || r.Reason != want[i] || r.Refusal.String() != r.Reason || r.About == "" {
			return fmt.Errorf("row %d: %+v", i, r)
		}
	}
	return nil
}

// checkCounters: each counter's series, in order.
func checkCounters() error {
	want := []string{"requests", "approvals_manual", "approvals_auto", "rejections", "requests_expired", "requests_cleared"}
	if len(Counters) != int(counters) || len(Counters) != len(want) {
		return fmt.Errorf("%d rows for %d counters", len(Counters), counters)
	}
	for i, r := range Counters {
		if int(r.Counter) != i || r.Metric != "pace_enrollment_"+want[i]+"_total" || r.Help == "" {
			return fmt.Errorf("row %d: %+v", i, r)
		}
	}
	return nil
}

func TestMutationCounters(t *testing.T) {
	for i := range Counters {
		for name, flip := range map[string]func(*CounterRow){
			"the counter": func(r *CounterRow) { r.Counter = (r.Counter + 1) % counters },
			"the series":  func(r *CounterRow) { r.Metric += "x" },
			"the help":    func(r *CounterRow) { r.Help = "" },
		} {
			was := Counters[i]
			flip(&Counters[i])
			if checkCounters() == nil {
				t.Errorf("row %d, %s flipped: nobody noticed", i, name)
			}
			Counters[i] = was
		}
	}
}

func TestMutationRefusals(t *testing.T) {
	for i := range Refusals {
		for name, flip := range map[string]func(*RefusalRow){
			"the refusal": func(r *RefusalRow) { r.Refusal = (r.Refusal + 1) % refusals },
			"the reason":  func(r *RefusalRow) { r.Reason += "x" },
			"its words":   func(r *RefusalRow) { r.About = "" },
		} {
			was := Refusals[i]
			flip(&Refusals[i])
			if checkRefusals() == nil {
				t.Errorf("row %d, %s flipped: nobody noticed", i, name)
			}
			Refusals[i] = was
		}
	}
}

func TestTablesAreNamed(t *testing.T) {
	if err := checkRefusals(); err != nil {
		t.Error(err)
	}
	if err := checkCounters(); err != nil {
		t.Error(err)
	}
	for d, name := range map[Decision]string{Waiting: "waiting", ApprovedManually: "approved", ApprovedAuto: "auto", RejectedByHand: "rejected", 0: "unknown", 9: "unknown"} {
		if d.String() != name {
			t.Errorf("%d prints %q", d, d)
		}
	}
	if RefusalNone.String() != "none" {
		t.Error("no refusal has a reason")
	}
}
