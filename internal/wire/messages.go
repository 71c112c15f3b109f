package wire

// RoleLearner is the only role that a joiner may ask for: voting stays an
// operator's decision.
const RoleLearner uint8 = 3

// EnrollRequest is the payload of Enroll. The signature is by Key.
type EnrollRequest struct {
	ID           string // 1..64 bytes; ValidID is for the leader to ask, in its order
	Endpoint     string // the joiner's own 0xFC endpoint, 1..1024 bytes
	Role         uint8  // RoleLearner
	Key, Nonce   [32]byte
	Challenge    [32]byte // the leader's, when it gave one
	HasChallenge bool
	Signature    [64]byte
}

func (r *EnrollRequest) appendSigned(dst []byte) []byte {
	dst = AppendText(dst, r.ID)
	dst = AppendText(dst, r.Endpoint)
	dst = AppendU8(dst, r.Role)
	dst = AppendField(dst, r.Key[:])
	dst = AppendField(dst, r.Nonce[:])
	return appendOptional32(dst, &r.Challenge, r.HasChallenge)
}

// Append appends the seven fields.
func (r *EnrollRequest) Append(dst []byte) []byte {
	return AppendField(r.appendSigned(dst), r.Signature[:])
}

// DecodeEnrollRequest reads the payload of Enroll: size and shape only.
func DecodeEnrollRequest(b []byte) (EnrollRequest, error) {
	f := ReadFields(b)
	id := f.text(1, MaxID)
	endpoint := f.text(1, MaxEndpoint)
	r := EnrollRequest{Role: f.U8(), Key: f.Key(), Nonce: f.Nonce()}
	r.Challenge, r.HasChallenge = f.Optional32()
	r.Signature = f.Signature()
	if r.Role != RoleLearner {
		f.Reject()
	}
	if err := f.End(); err != nil {
		return EnrollRequest{}, err
	}
	r.ID, r.Endpoint = string(id), string(endpoint)
	return r, nil
}

// Outcome is what the leader says of an ask.
type Outcome uint8

// Outcomes, by their byte.
const (
	OutcomePending  Outcome = 1 // waits for a person; carries the next challenge
	OutcomeApproved Outcome = 2 // carries the roster
	OutcomeRejected Outcome = 3
	OutcomeRevoked  Outcome = 4 // this key is never admitted again
)

// OutcomeRow is one row of the table of outcomes: its name, and what an answer
// of it may carry.
type OutcomeRow struct {
	Outcome           Outcome
	Name              string
	Roster, Challenge bool
}

// Outcomes is the table of outcomes; a byte that is not in it is malformed.
var Outcomes = []OutcomeRow{
	{OutcomePending, "pending", false, true},
	{OutcomeApproved, "approved", true, false},
	{OutcomeRejected, "rejected", false, false},
	{OutcomeRevoked, "revoked", false, false},
}

func (o Outcome) row() *OutcomeRow {
	for i := range Outcomes {
		if Outcomes[i].Outcome == o {
			return &Outcomes[i]
		}
	}
	return nil
}

// String returns the name of the outcome, "unknown" for any other byte.
func (o Outcome) String() string {
	if r := o.row(); r != nil {
		return r.Name
	}
	return "unknown"
}

// EnrollAnswer is an answer to Enroll, the first one and each push after it.
type EnrollAnswer struct {
	Outcome      Outcome
	Roster       []byte // JSON of Roster, only with OutcomeApproved; an alias of the input when decoded
	Challenge    [32]byte
	HasChallenge bool // only with OutcomePending
	Signer       [32]byte
	Signature    [64]byte
}

// Append appends the five fields.
func (a *EnrollAnswer) Append(dst []byte) []byte {
	dst = AppendU8(dst, uint8(a.Outcome))
	dst = AppendField(dst, a.Roster)
	dst = appendOptional32(dst, &a.Challenge, a.HasChallenge)
	dst = AppendField(dst, a.Signer[:])
	return AppendField(dst, a.Signature[:])
}

// DecodeEnrollAnswer reads an answer to Enroll. Roster bytes with an outcome
// other than approved, or a challenge with one other than pending, are malformed.
func DecodeEnrollAnswer(b []byte) (EnrollAnswer, error) {
	f := ReadFields(b)
	a := EnrollAnswer{Outcome: Outcome(f.U8()), Roster: f.Bytes(0, MaxAnswer)}
	a.Challenge, a.HasChallenge = f.Optional32()
	a.Signer, a.Signature = f.Key(), f.Signature()
	row := a.Outcome.row()
	if row == nil || len(a.Roster) > 0 && !row.Roster || a.HasChallenge && !row.Challenge {
		f.Reject()
	}
	if err := f.End(); err != nil {
		return EnrollAnswer{}, err
	}
	return a, nil
}

// FleetSummaryRequest is the payload of FleetSummary.
type FleetSummaryRequest struct {
	Nonce [32]byte // fresh for each ask
}

// Append appends the one field.
func (r *FleetSummaryRequest) Append(dst []byte) []byte { return AppendField(dst, r.Nonce[:]) }

// DecodeFleetSummaryRequest reads the payload of FleetSummary.
func DecodeFleetSummaryRequest(b []byte) (FleetSummaryRequest, error) {
	f := ReadFields(b)
	r := FleetSummaryRequest{Nonce: f.Nonce()}
	if err := f.End(); err != nil {
		return FleetSummaryRequest{}, err
	}
	return r, nil
}

// FleetSummaryAnswer is the signed summary over TCP. Nothing in it is believed
// before the signature over the asker's nonce verifies.
type FleetSummaryAnswer struct {
	Summary   Summary
	Raw       []byte // the summary's bytes; what Append writes; an alias of the input when decoded
	Key       [32]byte
	Signature [64]byte
}

// Append appends the three fields; the summary is Raw.
func (a *FleetSummaryAnswer) Append(dst []byte) []byte {
	dst = AppendField(dst, a.Raw)
	dst = AppendField(dst, a.Key[:])
	return AppendField(dst, a.Signature[:])
}

// DecodeFleetSummaryAnswer reads the answer to FleetSummary.
func DecodeFleetSummaryAnswer(b []byte) (FleetSummaryAnswer, error) {
	f := ReadFields(b)
	a := FleetSummaryAnswer{Raw: f.Bytes(0, fleetSummaryAnswerCeiling), Key: f.Key(), Signature: f.Signature()}
	if err := f.End(); err != nil {
		return FleetSummaryAnswer{}, err
	}
	var err error
	if a.Summary, err = DecodeSummary(a.Raw); err != nil {
		return FleetSummaryAnswer{}, err
	}
	return a, nil
}

// StartupEvent says that a component of a node started.
type StartupEvent struct {
	Cluster, Node string   // 1..64 bytes each
	Component     string   // 1..64 bytes
	BootID        [16]byte // u64 boot counter of the state directory, 8 random bytes
	Sequence      uint64   // counts the events of one boot
	At            uint64   // Unix seconds on the node's clock
	AgeMS         uint64   // milliseconds since it happened, when it was sent
	Version       string   // of the program, 0..128 bytes
	Signature     [64]byte
}

func (e *StartupEvent) appendSigned(dst []byte) []byte {
	dst = AppendText(dst, e.Cluster)
	dst = AppendText(dst, e.Node)
	dst = AppendText(dst, e.Component)
	dst = AppendField(dst, e.BootID[:])
	dst = AppendU64(dst, e.Sequence)
	dst = AppendU64(dst, e.At)
	dst = AppendU64(dst, e.AgeMS)
	return AppendText(dst, e.Version)
}

// Append appends the eight signed fields, then the signature.
func (e *StartupEvent) Append(dst []byte) []byte {
	return AppendField(e.appendSigned(dst), e.Signature[:])
}

// DecodeStartupEvent reads the payload of StartupEvent.
func DecodeStartupEvent(b []byte) (StartupEvent, error) {
	f := ReadFields(b)
	cluster, node, component := f.text(1, MaxID), f.text(1, MaxID), f.text(1, MaxID)
	e := StartupEvent{BootID: f.bytes16(), Sequence: f.U64(), At: f.U64(), AgeMS: f.U64()}
	version := f.text(0, MaxVersionText)
	e.Signature = f.Signature()
	if err := f.End(); err != nil {
		return StartupEvent{}, err
	}
	e.Cluster, e.Node, e.Component, e.Version = string(cluster), string(node), string(component), string(version)
	return e, nil
}

// DissolveOrder tells the members of a fleet that it dissolves into another.
type DissolveOrder struct {
	OldCluster, Survivor string // cluster ids, 1..64 bytes each
	LeaderID             string // of the survivor, 1..64 bytes
	LeaderKey            [32]byte
	LeaderEndpoint       string // the survivor leader's 0xFC endpoint
	Signer               string // node id, 1..64 bytes
	Signature            [64]byte
}

func (d *DissolveOrder) appendSigned(dst []byte) []byte {
	dst = AppendText(dst, d.OldCluster)
	dst = AppendText(dst, d.Survivor)
	dst = AppendText(dst, d.LeaderID)
	dst = AppendField(dst, d.LeaderKey[:])
	dst = AppendText(dst, d.LeaderEndpoint)
	return AppendText(dst, d.Signer)
}

// Append appends the six signed fields, then the signature.
func (d *DissolveOrder) Append(dst []byte) []byte {
	return AppendField(d.appendSigned(dst), d.Signature[:])
}

// DecodeDissolveOrder reads a dissolve order.
func DecodeDissolveOrder(b []byte) (DissolveOrder, error) {
	f := ReadFields(b)
	old, survivor, leader := f.text(1, MaxID), f.text(1, MaxID), f.text(1, MaxID)
	d := DissolveOrder{LeaderKey: f.Key()}
	endpoint := f.endpoint()
	signer := f.text(1, MaxID)
	d.Signature = f.Signature()
	if len(endpoint) == 0 {
		f.Reject()
	}
	if err := f.End(); err != nil {
		return DissolveOrder{}, err
	}
	d.OldCluster, d.Survivor, d.LeaderID = string(old), string(survivor), string(leader)
	d.LeaderEndpoint, d.Signer = string(endpoint), string(signer)
	return d, nil
}
