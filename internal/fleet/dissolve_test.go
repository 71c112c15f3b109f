package fleet

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pace-node/internal/wire"
)

const survivorCluster = "c0ffee00000000000000000000000009"

func goodOrder() wire.DissolveOrder {
	return SignDissolve(testCluster, survivorCluster, "s-lead", pub(50), "10.9.0.1:6674", "n-a", key(0))
}

func dissolve(o wire.DissolveOrder) Command { return DissolveInto(o.Append(nil), by, testCreated) }

// The order of the checks, written out: what is dissolved, into what, by whom, under which key, signed.
var orderChecks = []struct {
	verdict OrderVerdict
	name    string
}{
	{OrderOtherCluster, "other-cluster"},
	{OrderIntoItself, "into-itself"},
	{OrderSignerUnknown, "signer-not-a-voter"},
	{OrderLeaderKey, "leader-key"},
	{OrderSignature, "bad-signature"},
}

// orderWith makes an order that fails exactly the named checks in a fleet that has n-a as its voter and n-0001 as learner.
func orderWith(bad func(OrderVerdict) bool) (*View, wire.DissolveOrder) {
	s := New()
	for _, c := range []Command{Found(testCluster, testCreated, founder()), admit(1)} {
		if r, err := s.Apply(c.Encode()); err != nil || r.Err != "" {
			panic(fmt.Sprint(err, r.Err))
		}
	}
	old, survivor, leader, signer, signs := testCluster, survivorCluster, pub(50), "n-a", key(0)
	if bad(OrderOtherCluster) {
		old = "c0ffee00000000000000000000000005"
	}
	if bad(OrderIntoItself) {
		survivor = testCluster
	}
	if bad(OrderSignerUnknown) {
		signer, signs = "n-0001", key(1) // a learner
	}
	if bad(OrderLeaderKey) {
		leader = [32]byte{}
	}
	o := SignDissolve(old, survivor, "s-lead", leader, "10.9.0.1:6674", signer, signs)
	if bad(OrderSignature) {
		o.Signature[7]++
	}
	return s.View(), o
}

func checkOrders() error {
	judge := func(name string, want OrderVerdict, bad func(OrderVerdict) bool) error {
		v, o := orderWith(bad)
		if got := v.JudgeOrder(&o); got != want {
			return fmt.Errorf("%s: %s, want %s", name, got, want)
		}
		return nil
	}
	if err := judge("good", OrderObeyed, func(OrderVerdict) bool { return false }); err != nil {
		return err
	}
	for i, row := range orderChecks {
		later := func(x OrderVerdict) bool {
			return slices.ContainsFunc(orderChecks[i:], func(r struct {
				verdict OrderVerdict
				name    string
			}) bool {
				return r.verdict == x
			})
		}
		if err := judge(row.name+" and all later ones", row.verdict, later); err != nil {
			return err
		}
		if err := judge(row.name+" alone", row.verdict, func(x OrderVerdict) bool { return x == row.verdict }); err != nil {
			return err
		}
		if row.verdict.String() != row.name {
			return fmt.Errorf("%s is named %s", row.name, row.verdict)
		}
	}
	if OrderObeyed.String() != "obeyed" || len(OrderVerdicts) != len(orderChecks) {
		return fmt.Errorf("the tables have another length")
	}
	return nil
}

func TestOrderChecks(t *testing.T) {
	if err := checkOrders(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationOrderVerdicts(t *testing.T) {
	mutate(t, OrderVerdicts, func(r *OrderRow) {
		r.fails = func(string, func(string) (Member, bool), *wire.DissolveOrder) bool { return false }
	}, checkOrders)
	mutate(t, OrderVerdicts, func(r *OrderRow) {
		r.fails = func(string, func(string) (Member, bool), *wire.DissolveOrder) bool { return true }
	}, checkOrders)
	mutate(t, OrderVerdicts, func(r *OrderRow) { r.Verdict++ }, checkOrders)
	mutate(t, OrderVerdicts, func(r *OrderRow) { r.Name += "x" }, checkOrders)
	for i := 1; i < len(OrderVerdicts); i++ {
		OrderVerdicts[i-1], OrderVerdicts[i] = OrderVerdicts[i], OrderVerdicts[i-1]
		if checkOrders() == nil {
			t.Errorf("checks %d and %d swapped: nobody noticed", i-1, i)
		}
		OrderVerdicts[i-1], OrderVerdicts[i] = OrderVerdicts[i], OrderVerdicts[i-1]
	}
}

// TestDissolving: a signed order is kept for everybody until the fleet is recovered; meanwhile nobody is admitted, and
// the refusal names the survivor and where to ask.
func TestDissolving(t *testing.T) {
	s := founded(t)
	must(t, s, admit(1))
	for _, bad := range orderChecks {
		_, o := orderWith(func(x OrderVerdict) bool { return x == bad.verdict })
		refused(t, s, dissolve(o), "not obeyed")
	}
	refused(t, s, DissolveInto(nil, by, 1), "does not read")
	if s.View().Dissolving() != nil {
		t.Fatal("a refused order is pending")
	}
	o := goodOrder()
	r := must(t, s, dissolve(o))
	d := s.View().Dissolving()
	if d == nil || d.DissolveOrder != o || !bytes.Equal(d.Raw, o.Append(nil)) || d.Revision != r.Revision || !r.Changed.Has(ChangedDissolving) {
		t.Fatalf("%+v", d)
	}
	for _, c := range []Command{admit(2), PreApprove("n-0003", pub(3), false, by, 1), admit(1)} {
		got := refused(t, s, c, survivorCluster)
		if got.Hint != "do it there: --scheduler=10.9.0.1:6674" {
			t.Errorf("hint %q", got.Hint)
		}
	}
	must(t, s, Announce("n-0001", wire.Announce{Name: "still here"}))

	// A learner that comes late gets it with its snapshot.
	for name, snapshot := range map[string][]byte{"whole": s.Snapshot(), "a learner's": s.SnapshotFor("n-0001")} {
		again, err := Restore(snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if got := again.View().Dissolving(); got == nil || got.DissolveOrder != o || got.Revision != d.Revision {
			t.Errorf("%s snapshot: %+v", name, got)
		}
	}
	// A later order takes its place: the survivor's leader may have moved.
	other := SignDissolve(testCluster, survivorCluster, "s-next", pub(51), "10.9.0.2:6674", "n-a", key(0))
	must(t, s, dissolve(other))
	if got := s.View().Dissolving(); got.LeaderID != "s-next" {
		t.Errorf("%+v", got)
	}
	must(t, s, Recover("n-a", by, 1))
	if s.View().Dissolving() != nil {
		t.Error("a recovered fleet still dissolves")
	}
	must(t, s, admit(2))
}

// TestOrderInASnapshotIsChecked: a snapshot whose order does not read, or dissolves another fleet, is none.
func TestOrderInASnapshotIsChecked(t *testing.T) {
	s := founded(t)
	must(t, s, dissolve(goodOrder()))
	good := s.View().dissolving
	for name, edit := range map[string]func(*Dissolution){
		"cut":              func(d *Dissolution) { d.Raw = d.Raw[:len(d.Raw)-1] },
		"of another fleet": func(d *Dissolution) { o := d.DissolveOrder; o.OldCluster = survivorCluster; d.Raw = o.Append(nil) },
		"of the future":    func(d *Dissolution) { d.Revision = s.View().Revision() + 1 },
	} {
		bad := *good
		bad.Raw = bytes.Clone(good.Raw)
		edit(&bad)
		v := *s.View()
		v.dissolving = &bad
		if _, err := Restore(v.Snapshot()); err == nil {
			t.Errorf("%s: restored", name)
		}
	}
}
