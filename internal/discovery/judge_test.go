package discovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// judged is a proof on its way to the judge, and the levers that make it fail.
type judged struct {
	g     *rig
	v     *voice
	proof wire.Proof
	place int
	epoch *epoch
	from  netip.AddrPort
}

func newJudged() (*judged, error) {
	g := newRig("n-a", "c-office", "10.1.0.1:50001", newRoster("n-b"))
	v := newVoice("c-office", "n-b", "n-b", "10.1.0.2:50002")
	sent := g.hear(v.addr, v.beacon())
	if len(sent) != 1 {
		return nil, errors.New("no challenge")
	}
	_, payload, _ := wire.ParseDatagram(sent[0].Bytes)
	c, err := wire.DecodeChallenge(payload)
	if err != nil {
		return nil, err
	}
	raw := v.raw()
	sig := v.key.Sign(wire.DiscoveryProofMessage(c.Cluster, c.Nonce, raw, v.key.Public()))
	j := &judged{g: g, v: v, from: v.addr, proof: wire.Proof{Summary: v.sum, Raw: raw, Nonce: c.Nonce, Key: v.key.Public(), Signature: sig}}
	j.epoch, j.place = g.cookies.find(0)
	return j, nil
}

// The seven checks in the order of the wire, each with what breaks it alone.
var judgeBreakers = []struct {
	check  string
	want   Outcome
	break_ func(*judged)
}{
	{"serial known", OutcomeNotIssued, func(j *judged) { binary.BigEndian.PutUint64(j.proof.Nonce[:], 99) }},
	{"HMAC equal", OutcomeNotIssued, func(j *judged) { j.proof.Nonce[31] ^= 1 }},
	{"within its window", OutcomeExpired, func(j *judged) { j.g.after(30*time.Second + 1) }},
	{"not spent", OutcomeReplayed, func(j *judged) { j.epoch.set(j.place, cookieSpent) }},
	{"not exhausted", OutcomeExhausted, func(j *judged) {
		if j.epoch.state(j.place) != cookieSpent { // two bits hold one or the other
			j.epoch.set(j.place, cookieExhausted)
		}
	}},
	{"proof-check budget", OutcomeUnchecked, func(j *judged) {
		for j.g.afford(j.g.now, workCheck, j.from) {
		}
	}},
	{"signature", OutcomeForged, func(j *judged) { j.proof.Signature[0] ^= 1 }},
}

// checkJudgeOrder breaks each check together with all later ones (those first,
// so that what they need still holds) and wants the earlier one's outcome.
func checkJudgeOrder() (err error) {
	defer func() {
		if r := recover(); r != nil { // a check before what it needs
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	for i, row := range judgeBreakers {
		j, err := newJudged()
		if err != nil {
			return err
		}
		// Two pairs do not show their order in what is answered: the first two
		// checks both say "not issued", and two bits cannot be spent and exhausted.
		if judgeOrder[i].check != row.check {
			return fmt.Errorf("check %d is %q, want %q", i, judgeOrder[i].check, row.check)
		}
		for k := i + 1; k < len(judgeBreakers); k++ {
			if judgeBreakers[k].check != "within its window" { // the clock moves last: it refills budgets
				judgeBreakers[k].break_(j)
			}
		}
		if i < 2 {
			judgeBreakers[2].break_(j)
			judgeBreakers[5].break_(j) // empty again after the clock moved
		}
		row.break_(j)
		if row.check == "within its window" {
			judgeBreakers[5].break_(j)
		}
		if got := j.g.judge(j.g.now, j.from, &j.proof); got != row.want {
			return fmt.Errorf("%s broken with all later ones: %v, want %v", row.check, got, row.want)
		}
	}
	j, err := newJudged()
	if err != nil {
		return err
	}
	if got := j.g.judge(j.g.now, j.from, &j.proof); got != OutcomeProven {
		return fmt.Errorf("nothing broken: %v", got)
	}
	return nil
}

func TestJudgeOrder(t *testing.T) {
	if err := checkJudgeOrder(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationJudgeOrder(t *testing.T) {
	for i := range judgeOrder {
		saved := judgeOrder[i]
		judgeOrder[i].failure = (saved.failure + 1) % outcomes
		if checkJudgeOrder() == nil {
			t.Errorf("%q: another outcome goes unnoticed", saved.check)
		}
		judgeOrder[i] = saved
		judgeOrder[i].passes = func(*Exchange, *trial) bool { return true }
		if checkJudgeOrder() == nil {
			t.Errorf("%q: leaving the check out goes unnoticed", saved.check)
		}
		judgeOrder[i] = saved
		if i+1 < len(judgeOrder) {
			judgeOrder[i], judgeOrder[i+1] = judgeOrder[i+1], judgeOrder[i]
			if checkJudgeOrder() == nil {
				t.Errorf("%q after %q goes unnoticed", judgeOrder[i+1].check, judgeOrder[i].check)
			}
			judgeOrder[i], judgeOrder[i+1] = judgeOrder[i+1], judgeOrder[i]
		}
	}
	if err := checkJudgeOrder(); err != nil {
		t.Fatalf("not restored: %v", err)
	}
}

// checkAfterForgery: two failed signatures exhaust a challenge, one does not,
// and none spends it.
func checkAfterForgery() error {
	for _, row := range []struct{ before, want cookieState }{
		{0, 1}, {1, 2}, {2, 2}, {3, 3},
	} {
		if got := afterForgery[row.before]; got != row.want {
			return fmt.Errorf("a forgery makes %d of %d, want %d", got, row.before, row.want)
		}
	}
	return nil
}

func TestAfterForgery(t *testing.T) {
	if err := checkAfterForgery(); err != nil {
		t.Fatal(err)
	}
	j, err := newJudged()
	if err != nil {
		t.Fatal(err)
	}
	honest := j.proof.Signature
	for i, row := range []struct {
		forge bool
		want  Outcome
	}{{true, OutcomeForged}, {false, OutcomeProven}, {false, OutcomeReplayed}} {
		j.proof.Signature = honest
		if row.forge {
			j.proof.Signature[5] ^= 1
		}
		if got := j.g.judge(j.g.now, j.from, &j.proof); got != row.want {
			t.Errorf("proof %d: %v, want %v: a forgery must not destroy the honest answer", i, got, row.want)
		}
	}
	j, _ = newJudged()
	for i, want := range []Outcome{OutcomeForged, OutcomeForged, OutcomeExhausted} {
		j.proof.Signature[5] = honest[5] ^ byte(i+1)
		if got := j.g.judge(j.g.now, j.from, &j.proof); got != want {
			t.Errorf("forgery %d: %v, want %v", i, got, want)
		}
	}
}

func TestMutationAfterForgery(t *testing.T) {
	for i := range afterForgery {
		saved := afterForgery[i]
		afterForgery[i] = (saved + 1) % 4
		if checkAfterForgery() == nil {
			t.Errorf("row %d flipped goes unnoticed", i)
		}
		afterForgery[i] = saved
	}
}

// TestCookieBindings: a proof that differs from the beacon in anything the cookie
// binds answers no challenge of this node, although its signature is sound.
func TestCookieBindings(t *testing.T) {
	for _, row := range []struct {
		what   string
		change func(*judged)
		want   Outcome
	}{
		{"nothing", func(*judged) {}, OutcomeProven},
		{"another port of the host", func(j *judged) { j.from = netip.AddrPortFrom(j.from.Addr(), 9) }, OutcomeProven},
		{"what the cookie does not bind, signed", func(j *judged) { j.v.sum.Total = 7 }, OutcomeProven},
		{"another host", func(j *judged) { j.from = netip.MustParseAddrPort("10.1.0.66:50002") }, OutcomeNotIssued},
		{"another cluster", func(j *judged) { j.v.sum.Cluster = "c-other" }, OutcomeNotIssued},
		{"another node", func(j *judged) { j.v.sum.Node = "n-c" }, OutcomeNotIssued},
		{"another consensus endpoint", func(j *judged) { j.v.sum.RaftEndpoint = "10.1.0.66:6680" }, OutcomeNotIssued},
		{"this node's own cluster changed", func(j *judged) { j.g.SetSelf(j.g.now, Self{summaryOf("c-new", "n-a", j.g.addr.Addr())}) }, OutcomeNotIssued},
	} {
		j, err := newJudged()
		if err != nil {
			t.Fatal(err)
		}
		row.change(j)
		j.proof.Summary, j.proof.Raw = j.v.sum, j.v.raw()
		j.proof.Signature = j.v.key.Sign(wire.DiscoveryProofMessage("c-office", j.proof.Nonce, j.proof.Raw, j.proof.Key))
		if got := j.g.judge(j.g.now, j.from, &j.proof); got != row.want {
			t.Errorf("%s: %v, want %v", row.what, got, row.want)
		}
	}
}

// TestSignatureCovers: each thing a proof signs, changed after signing, is a forgery.
func TestSignatureCovers(t *testing.T) {
	other := keyOf("other").Public()
	for _, row := range []struct {
		what   string
		change func(*wire.Proof)
	}{
		{"the summary", func(p *wire.Proof) { p.Raw[len(p.Raw)-1] ^= 1 }},
		{"the key", func(p *wire.Proof) { p.Key = other }},
		{"a key of small order", func(p *wire.Proof) { p.Key = [32]byte{1}; p.Signature = [64]byte{1} }},
		{"the signature", func(p *wire.Proof) { p.Signature[63] ^= 0x10 }},
	} {
		j, err := newJudged()
		if err != nil {
			t.Fatal(err)
		}
		row.change(&j.proof)
		if got := j.g.judge(j.g.now, j.from, &j.proof); got != OutcomeForged {
			t.Errorf("%s: %v, want forged", row.what, got)
		}
	}
}

// TestOutcomesAreCountedApart drives each outcome through Handle.
func TestOutcomesAreCountedApart(t *testing.T) {
	for _, row := range []struct {
		want   string
		change func(*judged)
	}{
		{"pace_discovery_proofs_verified_total", func(*judged) {}},
		{"pace_discovery_proofs_refused_not_issued_total", judgeBreakers[1].break_},
		{"pace_discovery_proofs_refused_expired_total", judgeBreakers[2].break_},
		{"pace_discovery_proofs_refused_replayed_total", judgeBreakers[3].break_},
		{"pace_discovery_proofs_refused_exhausted_total", judgeBreakers[4].break_},
		{"pace_discovery_proofs_refused_forged_total", judgeBreakers[6].break_},
	} {
		j, err := newJudged()
		if err != nil {
			t.Fatal(err)
		}
		row.change(j)
		j.g.get(j.from, wire.EncodeProof(j.proof.Raw, j.proof.Nonce, j.proof.Key, j.proof.Signature))
		got := j.g.nonZero()
		delete(got, "pace_discovery_beacons_heard_total")
		delete(got, "pace_discovery_challenges_sent_total")
		if len(got) != 1 || got[row.want] != 1 {
			t.Errorf("want %s = 1 alone, got %v", row.want, got)
		}
		logged := 0
		if row.want == "pace_discovery_proofs_refused_forged_total" {
			logged = 1
		}
		if n := len(j.g.seen(EventForged)); n != logged {
			t.Errorf("%s: %d lines of a forgery, want %d", row.want, n, logged)
		}
		if logged == 1 {
			e := j.g.seen(EventForged)[0]
			if e.ID != "" || e.Key != (identity.PublicKey{}) || e.Summary.Node != "" || e.From != j.from {
				t.Errorf("before a signature verifies only the source is told: %+v", e)
			}
		}
	}
}
