package enroll

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

const cluster = "c-office"

func nonceOf(b byte) (n [32]byte) {
	for i := range n {
		n[i] = b
	}
	return n
}

// answerTo is the leader's signed answer to a request.
func answerTo(r wire.EnrollRequest, o wire.Outcome, signer int, in string) wire.EnrollAnswer {
	a := wire.EnrollAnswer{Outcome: o, Signer: keyOf(signer)}
	switch o {
	case wire.OutcomeApproved:
		a.Roster = []byte(`{"roster":true}`)
	case wire.OutcomePending:
		a.Challenge, a.HasChallenge = nonceOf(44), true
	}
	return resign(a, r, signer, in)
}

func resign(a wire.EnrollAnswer, r wire.EnrollRequest, signer int, in string) wire.EnrollAnswer {
	a.Signature = privateOf(signer).Sign(a.Message(r.Nonce, r.ID, r.Key, in))
	return a
}

func TestAskVerifiesAnswers(t *testing.T) {
	const leader, stranger = 50, 66
	for _, c := range []struct {
		name   string
		change func(a *wire.EnrollAnswer, r wire.EnrollRequest)
		want   error
	}{
		{"sound", func(*wire.EnrollAnswer, wire.EnrollRequest) {}, nil},
		{"unsigned", func(a *wire.EnrollAnswer, _ wire.EnrollRequest) { a.Signature = [64]byte{} }, ErrSignature},
		{"no signer", func(a *wire.EnrollAnswer, _ wire.EnrollRequest) { a.Signer = [32]byte{} }, ErrSigner},
		{"another signer", func(a *wire.EnrollAnswer, r wire.EnrollRequest) {
			a.Signer = keyOf(stranger)
			*a = resign(*a, r, stranger, cluster)
		}, ErrSigner},
		{"another's signature under the leader's name", func(a *wire.EnrollAnswer, r wire.EnrollRequest) { *a = resign(*a, r, stranger, cluster) }, ErrSignature},
		{"another nonce", func(a *wire.EnrollAnswer, r wire.EnrollRequest) {
			r.Nonce = nonceOf(9)
			*a = resign(*a, r, leader, cluster)
		}, ErrSignature},
		{"another id", func(a *wire.EnrollAnswer, r wire.EnrollRequest) { r.ID = "n-2"; *a = resign(*a, r, leader, cluster) }, ErrSignature},
		{"another key", func(a *wire.EnrollAnswer, r wire.EnrollRequest) {
			r.Key = keyOf(2)
			*a = resign(*a, r, leader, cluster)
		}, ErrSignature},
		{"another cluster", func(a *wire.EnrollAnswer, r wire.EnrollRequest) { *a = resign(*a, r, leader, "c-home") }, ErrSignature},
		{"one bit of the signature", func(a *wire.EnrollAnswer, _ wire.EnrollRequest) { a.Signature[63] ^= 1 }, ErrSignature},
		{"an unknown outcome", func(a *wire.EnrollAnswer, r wire.EnrollRequest) { a.Outcome = 9; *a = resign(*a, r, leader, cluster) }, ErrShape},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, o := range []wire.Outcome{wire.OutcomePending, wire.OutcomeApproved, wire.OutcomeRejected, wire.OutcomeRevoked} {
				ask := NewAsk([]identity.PublicKey{keyOf(49), keyOf(leader)}, cluster, "n-1", keyOf(1), "pc-1:6674", nonceOf(7))
				r := ask.Request(privateOf(1))
				a := answerTo(r, o, leader, cluster)
				c.change(&a, r)
				got, err := ask.Answer(a)
				if !errors.Is(err, c.want) || err == nil && got != o || err != nil && got != 0 {
					t.Fatalf("%v: %v, %v", o, got, err)
				}
				if c.want != nil && ask.Request(privateOf(1)).HasChallenge {
					t.Fatal("the challenge of an unproven answer was taken")
				}
			}
		})
	}
}

func TestAskNoticesATamperedAnswer(t *testing.T) {
	ask := NewAsk([]identity.PublicKey{keyOf(50)}, cluster, "n-1", keyOf(1), "pc-1:6674", nonceOf(7))
	r := ask.Request(privateOf(1))
	for name, change := range map[string]func(*wire.EnrollAnswer){
		"roster":               func(a *wire.EnrollAnswer) { a.Roster = []byte(`{"roster":TRUE}`) },
		"roster longer":        func(a *wire.EnrollAnswer) { a.Roster = append(a.Roster, ' ') },
		"no roster":            func(a *wire.EnrollAnswer) { a.Roster = nil },
		"pending for approved": func(a *wire.EnrollAnswer) { a.Outcome, a.Roster = wire.OutcomePending, nil },
		"challenge beside it":  func(a *wire.EnrollAnswer) { a.HasChallenge = true },
		"rejected with roster": func(a *wire.EnrollAnswer) { a.Outcome = wire.OutcomeRejected },
	} {
		a := answerTo(r, wire.OutcomeApproved, 50, cluster)
		change(&a)
		if o, err := ask.Answer(a); err == nil {
			t.Errorf("%s: %v", name, o)
		}
	}
	a := answerTo(r, wire.OutcomePending, 50, cluster)
	a.Challenge[0] ^= 1
	if _, err := ask.Answer(a); !errors.Is(err, ErrSignature) {
		t.Errorf("challenge: %v", err)
	}
	// A signature with a roster where none may be: shape is judged before anything.
	a = answerTo(r, wire.OutcomeRejected, 50, cluster)
	a.Roster = []byte("x")
	if _, err := ask.Answer(resign(a, r, 50, cluster)); !errors.Is(err, ErrShape) {
		t.Errorf("rejected with a roster: %v", err)
	}
}

func TestAskCarriesTheChallengeOn(t *testing.T) {
	ask := NewAsk([]identity.PublicKey{keyOf(50)}, cluster, "n-1", keyOf(1), "pc-1:6674", nonceOf(7))
	r := ask.Request(privateOf(1))
	if r.HasChallenge || r.Role != wire.RoleLearner || !identity.Verify(keyOf(1), r.Message(), r.Signature) {
		t.Fatalf("%+v", r)
	}
	if _, err := ask.Answer(answerTo(r, wire.OutcomePending, 50, cluster)); err != nil {
		t.Fatal(err)
	}
	again := ask.Again(nonceOf(8), "moved:6674")
	next := again.Request(privateOf(1))
	if !next.HasChallenge || next.Challenge != nonceOf(44) || next.Nonce != nonceOf(8) || next.Endpoint != "moved:6674" || !identity.Verify(keyOf(1), next.Message(), next.Signature) {
		t.Fatalf("%+v", next)
	}
	if _, err := again.Answer(answerTo(r, wire.OutcomeApproved, 50, cluster)); !errors.Is(err, ErrSignature) {
		t.Fatal("an answer to the ask before counts:", err)
	}
	if _, err := again.Answer(answerTo(next, wire.OutcomeApproved, 50, cluster)); err != nil {
		t.Fatal(err)
	}
}

func TestAskSignersAndRedirects(t *testing.T) {
	ask := NewAsk([]identity.PublicKey{keyOf(50)}, cluster, "n-1", keyOf(1), "pc-1:6674", nonceOf(7))
	r := ask.Request(privateOf(1))
	if _, err := ask.Answer(answerTo(r, wire.OutcomeApproved, 51, cluster)); !errors.Is(err, ErrSigner) {
		t.Fatal(err)
	}
	if err := ask.AcceptSigner(keyOf(51)); err != nil {
		t.Fatal(err)
	}
	if _, err := ask.Answer(answerTo(r, wire.OutcomeApproved, 51, cluster)); err != nil {
		t.Fatal(err)
	}
	if err := ask.AcceptSigner(identity.PublicKey{}); !errors.Is(err, identity.ErrSmallOrder) {
		t.Fatal("a key of small order is accepted:", err)
	}
	for n := 52; n < 66; n++ {
		if err := ask.AcceptSigner(keyOf(n)); err != nil {
			t.Fatal(n, err)
		}
	}
	if err := ask.AcceptSigner(keyOf(99)); err != nil || len(ask.signers) != MaxSigners {
		t.Fatal(len(ask.signers), err)
	}
	if _, err := ask.Answer(answerTo(r, wire.OutcomeApproved, 50, cluster)); !errors.Is(err, ErrSigner) {
		t.Fatal("the oldest did not give way:", err)
	}
	if err := ask.AcceptSigner(keyOf(51)); err != nil {
		t.Fatal("one that is there already:", err)
	}
	for _, bad := range []string{"", "nowhere", "a:0", "a b:1"} {
		if err := ask.Redirect(bad); !errors.Is(err, ErrRedirectTo) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for range MaxRedirects {
		if err := ask.Redirect("b:6674"); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask.Redirect("b:6674"); !errors.Is(err, ErrRedirects) {
		t.Fatal(err)
	}
	if err := ask.Again(nonceOf(8), "10.0.0.9:6674").Redirect("b:6674"); err != nil {
		t.Fatal("the next ask starts with redirects used up:", err)
	}
}

func TestCheckRoster(t *testing.T) {
	self := wire.RosterMember{ID: "n-1", Key: keyOf(1).String(), Role: "learner"}
	voter := wire.RosterVoter{ID: "n-50", Key: keyOf(50).String(), Endpoints: wire.Endpoints{FC: "a:6674", Raft: "a:6680"}}
	good := wire.Roster{Cluster: cluster, Created: 5, Revision: 3, Voters: []wire.RosterVoter{voter}, Self: self}
	for _, c := range []struct {
		name   string
		change func(*wire.Roster)
		want   error
	}{
		{"sound", func(*wire.Roster) {}, nil},
		{"another cluster", func(r *wire.Roster) { r.Cluster = "c-home" }, ErrRosterOther},
		{"another id", func(r *wire.Roster) { r.Self.ID = "n-2" }, ErrRosterMyself},
		{"another key", func(r *wire.Roster) { r.Self.Key = keyOf(2).String() }, ErrRosterMyself},
		{"no voter", func(r *wire.Roster) { r.Voters = nil }, ErrRoster},
		{"a voter without a key", func(r *wire.Roster) { r.Voters[0].Key = "" }, ErrRoster},
	} {
		r := good
		r.Voters = append([]wire.RosterVoter(nil), good.Voters...)
		c.change(&r)
		raw, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		got, err := CheckRoster(raw, cluster, "n-1", keyOf(1))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil && !cmp.Equal(got, good) {
			t.Error(cmp.Diff(good, got))
		}
	}
	for _, raw := range []string{"", "{", "[]", "null x"} {
		if _, err := CheckRoster([]byte(raw), cluster, "n-1", keyOf(1)); !errors.Is(err, ErrRoster) {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

func FuzzCheckRoster(f *testing.F) {
	f.Add([]byte(`{"cluster":"c-office","self":{"id":"n-1"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if r, err := CheckRoster(raw, cluster, "n-1", keyOf(1)); err == nil && (r.Cluster != cluster || r.Self.ID != "n-1") {
			t.Fatal("another roster was taken")
		}
	})
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The published vectors of enrollment: the joiner's request and the leader's two answers, letter for letter.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("testdata/enrollment.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []struct {
		Name, Node, Endpoint, Nonce, Challenge, Message, Signature, Cluster, Roster, SeedA, SeedB string
		Outcome                                                                                   wire.Outcome
	}
	if err := json.Unmarshal(raw, &vectors); err != nil {
		t.Fatal(err)
	}
	var a, b identity.PrivateKey
	seen := 0
	for _, v := range vectors {
		switch v.Name {
		case "keys":
			a, b = identity.NewPrivateKey([32]byte(unhex(t, v.SeedA))), identity.NewPrivateKey([32]byte(unhex(t, v.SeedB)))
			continue
		case "enrollment request":
			ask := NewAsk(nil, "c-office", v.Node, a.Public(), v.Endpoint, [32]byte(unhex(t, v.Nonce)))
			r := ask.Request(a)
			if hex.EncodeToString(r.Message().Bytes()) != v.Message || hex.EncodeToString(r.Signature[:]) != v.Signature {
				t.Errorf("%s differs", v.Name)
			}
		case "enrollment answer approved", "enrollment answer pending":
			ask := NewAsk([]identity.PublicKey{b.Public()}, v.Cluster, v.Node, a.Public(), "pc-7:6674", [32]byte(unhex(t, v.Nonce)))
			ans := wire.EnrollAnswer{Outcome: v.Outcome, Roster: unhex(t, v.Roster), Signer: b.Public(), Signature: [64]byte(unhex(t, v.Signature))}
			if v.Challenge != "" {
				ans.Challenge, ans.HasChallenge = [32]byte(unhex(t, v.Challenge)), true
			}
			if got, err := ask.Answer(ans); err != nil || got != v.Outcome {
				t.Errorf("%s: %v, %v", v.Name, got, err)
			}
			ans.Signature[0] ^= 1
			if _, err := ask.Answer(ans); err == nil {
				t.Errorf("%s: a forgery is taken", v.Name)
			}
		default:
			continue
		}
		seen++
	}
	if seen != 3 {
		t.Fatalf("%d vectors", seen)
	}
}
