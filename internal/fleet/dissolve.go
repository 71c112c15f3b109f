package fleet

import (
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Dissolution is the order by which this fleet goes into another one, for as long as it is pending: until each member has
// obeyed it, and with it left the fleet, or until a recovery takes it back.
type Dissolution struct {
	wire.DissolveOrder
	Raw      []byte // as it is signed and told to members that were away
	Revision uint64 // of the entry
}

// SignDissolve is the order that this fleet, of the given id, goes into the survivor whose leader is named, signed by one of
// its voters.
func SignDissolve(cluster, survivor, leader string, leaderKey identity.PublicKey, endpoint, signer string, key identity.PrivateKey) wire.DissolveOrder {
	o := wire.DissolveOrder{OldCluster: cluster, Survivor: survivor, LeaderID: leader, LeaderKey: leaderKey, LeaderEndpoint: endpoint, Signer: signer}
	o.Signature = key.Sign(o.Message())
	return o
}

// DissolveInto records a signed order.
func DissolveInto(order []byte, by string, at int64) Command {
	return Command{Kind: KindDissolveInto, Order: order, By: by, At: at}
}

// OrderVerdict is what a member makes of a dissolve order.
type OrderVerdict uint8

// Verdicts.
const (
	OrderObeyed OrderVerdict = iota
	OrderOtherCluster
	OrderIntoItself
	OrderSignerUnknown
	OrderLeaderKey
	OrderSignature
)

// OrderRow is one row of the table of checks.
type OrderRow struct {
	Verdict OrderVerdict
	Name    string
	Text    string
	fails   func(cluster string, member func(id string) (Member, bool), o *wire.DissolveOrder) bool
}

// OrderVerdicts is the table of checks in their order: the first that fails is the verdict.
var OrderVerdicts = []OrderRow{
	{OrderOtherCluster, "other-cluster", "it dissolves another fleet", func(cluster string, _ func(string) (Member, bool), o *wire.DissolveOrder) bool {
		return cluster == "" || o.OldCluster != cluster
	}},
	{OrderIntoItself, "into-itself", "the survivor is the fleet itself", func(cluster string, _ func(string) (Member, bool), o *wire.DissolveOrder) bool {
		return o.Survivor == cluster
	}},
	{OrderSignerUnknown, "signer-not-a-voter", "who signed it is no voter of the fleet", func(_ string, member func(string) (Member, bool), o *wire.DissolveOrder) bool {
		m, ok := member(o.Signer)
		return !ok || m.Role != RoleVoter
	}},
	{OrderLeaderKey, "leader-key", "the key of the survivor's leader is none", func(_ string, _ func(string) (Member, bool), o *wire.DissolveOrder) bool {
		return identity.PublicKey(o.LeaderKey).Check() != nil
	}},
	{OrderSignature, "bad-signature", "its signature does not verify under the signer's key", func(_ string, member func(string) (Member, bool), o *wire.DissolveOrder) bool {
		m, _ := member(o.Signer)
		return !identity.Verify(m.Key, o.Message(), o.Signature)
	}},
}

// Row returns the row of a verdict; false for OrderObeyed.
func (o OrderVerdict) Row() (OrderRow, bool) {
	for _, r := range OrderVerdicts {
		if r.Verdict == o {
			return r, true
		}
	}
	return OrderRow{}, false
}

// String returns the verdict's name.
func (o OrderVerdict) String() string {
	if r, ok := o.Row(); ok {
		return r.Name
	}
	return "obeyed"
}

// JudgeOrder says what a member that has applied this state makes of an order, whoever handed it on. The pin is another
// question, which formation asks.
func (v *View) JudgeOrder(o *wire.DissolveOrder) OrderVerdict {
	return JudgeOrder(v.cluster, v.Member, o)
}

// JudgeOrder is View.JudgeOrder for a machine that has no state yet, and knows its fleet's voters from its approval.
func JudgeOrder(cluster string, member func(id string) (Member, bool), o *wire.DissolveOrder) OrderVerdict {
	for _, r := range OrderVerdicts {
		if r.fails(cluster, member, o) {
			return r.Verdict
		}
	}
	return OrderObeyed
}

// Refusal is the name of a verdict that refuses, empty for OrderObeyed: the label of its counter.
func (o OrderVerdict) Refusal() string {
	r, _ := o.Row()
	return r.Name
}

// Dissolving returns the pending order, nil while there is none.
func (v *View) Dissolving() *Dissolution { return v.dissolving }

// readDissolution decodes an order that is kept, nil where it does not read.
func readDissolution(raw []byte, revision uint64) *Dissolution {
	o, err := wire.DecodeDissolveOrder(raw)
	if err != nil {
		return nil
	}
	return &Dissolution{DissolveOrder: o, Raw: raw, Revision: revision}
}

func applyDissolveInto(ch *change) *refusal {
	d := readDissolution(ch.cmd.Order, ch.next.revision)
	if d == nil {
		return refuse("upgrade the leader", "the dissolve order does not read")
	}
	if row, refused := ch.next.JudgeOrder(&d.DissolveOrder).Row(); refused {
		return refuse("pacectl fleet status", "the dissolve order is not obeyed: %s", row.Text)
	}
	ch.next.dissolving = d
	ch.changed |= ChangedDissolving
	ch.audit("dissolve-into", d.LeaderID, d.Survivor+" at "+d.LeaderEndpoint)
	return nil
}

// closed refuses an admission while the fleet dissolves: whoever came in now would be left behind.
func (ch *change) closed() *refusal {
	d := ch.next.dissolving
	if d == nil {
		return nil
	}
	return refuse("do it there: --scheduler="+d.LeaderEndpoint, "this fleet dissolves into the fleet %s, so it admits nobody", clip(d.Survivor))
}
