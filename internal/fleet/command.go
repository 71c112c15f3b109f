package fleet

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Kind says what a command does.
type Kind string

// Kinds of command.
const (
	KindFound        Kind = "found"
	KindAdmitLearner Kind = "admit-learner"
	KindPreApprove   Kind = "pre-approve"
	KindUnapprove    Kind = "withdraw-pre-approval"
	KindForget       Kind = "forget"
	KindLeave        Kind = "leave"
	KindSet          Kind = "set"
	KindAnnounce     Kind = "announce"
	KindProvision    Kind = "provision"
	KindEstablished  Kind = "established"
	KindSetRole      Kind = "set-role"
	KindMoveEndpoint Kind = "move-endpoint"
	KindRekey        Kind = "re-key"
	KindRecover      Kind = "recover"
	KindAudit        Kind = "audit"
	KindDissolveInto Kind = "dissolve-into"
	KindEmpty        Kind = "empty"
)

// Sight says who may read a command of a kind.
type Sight uint8

// Sights.
const (
	SightAll     Sight = iota // every member: it changes the shared part
	SightVoters               // voters only: learners get an empty command
	SightSubject              // voters and the member it is about
	SightPart                 // everybody, without the provisioning part unless it is about the reader
)

// KindRow is one row of the table of kinds.
type KindRow struct {
	Kind  Kind
	Since int // the format that brought it; written to members that read it only
	Sight Sight
	apply func(*change) *refusal
}

// Kinds is the table of commands; a kind that is not in it is malformed.
var Kinds = []KindRow{
	{KindFound, 1, SightAll, applyFound},
	{KindAdmitLearner, 1, SightAll, applyAdmit},
	{KindPreApprove, 1, SightVoters, applyPreApprove},
	{KindUnapprove, 1, SightVoters, applyUnapprove},
	{KindForget, 1, SightAll, applyForget},
	{KindLeave, 1, SightAll, applyLeave},
	{KindSet, 1, SightAll, applySet},
	{KindAnnounce, 1, SightPart, applyAnnounce},
	{KindProvision, 1, SightSubject, applyProvision},
	{KindEstablished, 1, SightAll, applyEstablished},
	{KindSetRole, 1, SightAll, applySetRole},
	{KindMoveEndpoint, 1, SightAll, applyMoveEndpoint},
	{KindRekey, 1, SightAll, applyRekey},
	{KindRecover, 1, SightAll, applyRecover},
	{KindAudit, 1, SightVoters, applyAudit},
	{KindDissolveInto, 1, SightAll, applyDissolveInto},
	{KindEmpty, 1, SightAll, applyEmpty},
}

func lookupKind(k Kind) *KindRow {
	for i := range Kinds {
		if Kinds[i].Kind == k {
			return &Kinds[i]
		}
	}
	return nil
}

// Command is one change of the state. The constructors below make them; which fields a kind reads is theirs to know.
type Command struct {
	V    int    `json:"v"`
	Kind Kind   `json:"kind"`
	At   int64  `json:"at,omitempty"` // Unix seconds, the leader's clock; shown, never decided by
	By   string `json:"by,omitempty"` // text of the key that acted

	Cluster  string              `json:"cluster,omitempty"`
	Created  uint64              `json:"created,omitempty"`
	ID       string              `json:"id,omitempty"`
	Key      *identity.PublicKey `json:"key,omitempty"`
	Name     string              `json:"name,omitempty"`
	Labels   map[string]string   `json:"labels,omitempty"`
	Platform string              `json:"platform,omitempty"`
	Version  string              `json:"version,omitempty"`
	Format   int                 `json:"format,omitempty"`

	Endpoints *wire.Endpoints `json:"endpoints,omitempty"`
	Auto      bool            `json:"auto,omitempty"`
	Seat      bool            `json:"seat,omitempty"`
	Role      Role            `json:"role,omitempty"`
	OwnWish   bool            `json:"own_wish,omitempty"`
	Value     string          `json:"value,omitempty"`
	Why       string          `json:"why,omitempty"`
	Boot      *Boot           `json:"boot,omitempty"`
	Provision *Provision      `json:"provision,omitempty"`
	What      string          `json:"what,omitempty"`
	Order     []byte          `json:"order,omitempty"` // as it is signed
}

// Boot is the part of an announcement that belongs to provisioning.
type Boot struct {
	Component    string `json:"component,omitempty"`
	ID           string `json:"id,omitempty"`
	Sequence     uint64 `json:"sequence,omitempty"`
	ConfigDigest string `json:"config_digest,omitempty"`
}

// Found makes the fleet: its first command, and the founder its first voter.
func Found(cluster string, created uint64, m Member) Command {
	e, key := m.Endpoints, m.Key
	return Command{Kind: KindFound, Cluster: cluster, Created: created, ID: m.ID, Key: &key, Name: m.Name, Labels: m.Labels,
		Platform: m.Platform, Version: m.Version, Format: m.Format, Endpoints: &e, At: m.Admitted, By: m.AdmittedBy}
}

// AdmitLearner admits a machine whose key was compared, or that the window admits (auto).
func AdmitLearner(id string, key identity.PublicKey, name, platform, version string, e wire.Endpoints, format int, by string, at int64, auto bool) Command {
	return Command{Kind: KindAdmitLearner, ID: id, Key: &key, Name: fit(name, MaxName), Platform: fit(platform, MaxPlatform),
		Version: fit(version, MaxVersion), Endpoints: &e, Format: format, By: by, At: at, Auto: auto}
}

// PreApprove records a machine that is admitted as soon as it asks; seat says that it is to be a voter then.
func PreApprove(id string, key identity.PublicKey, seat bool, by string, at int64) Command {
	return Command{Kind: KindPreApprove, ID: id, Key: &key, Seat: seat, By: by, At: at}
}

// PreApproveSeat records a machine that is admitted, and promoted, as soon as it asks; raft is where its consensus port is
// reached, empty where the machine's own word decides.
func PreApproveSeat(id string, key identity.PublicKey, raft, by string, at int64) Command {
	c := PreApprove(id, key, true, by, at)
	if raft != "" {
		c.Endpoints = &wire.Endpoints{Raft: raft}
	}
	return c
}

// Unapprove takes back every pre-approval of an id.
func Unapprove(id, by string, at int64) Command {
	return Command{Kind: KindUnapprove, ID: id, By: by, At: at}
}

// Forget removes a member and revokes its key for ever.
func Forget(id, by string, at int64) Command {
	return Command{Kind: KindForget, ID: id, By: by, At: at}
}

// Leave removes a member at its own wish; its key is not revoked.
func Leave(id, by string, at int64) Command {
	return Command{Kind: KindLeave, ID: id, By: by, At: at}
}

// Set gives a setting a value; an empty value is the default again.
func Set(name, value, by string, at int64) Command {
	return Command{Kind: KindSet, Name: name, Value: value, By: by, At: at}
}

// Announce records what a member says of itself.
func Announce(id string, a wire.Announce) Command {
	c := Command{Kind: KindAnnounce, ID: id, Name: a.Name, Labels: a.Labels, Platform: a.Platform, Version: a.Version,
		Format: a.Format, Endpoints: &a.Endpoints}
	if a.Component != "" || a.BootID != "" || a.ConfigDigest != "" {
		c.Boot = &Boot{Component: a.Component, ID: a.BootID, Sequence: a.Sequence, ConfigDigest: a.ConfigDigest}
	}
	return c
}

// ProvisionUpdate records where a member stands with the queue. Texts are cut to their bounds, and of more outcomes than
// are kept the newest stay.
func ProvisionUpdate(id string, p Provision) Command {
	p.Stage, p.ErrorKind, p.Component = fit(p.Stage, MaxStage), fit(p.ErrorKind, MaxStage), fit(p.Component, MaxComponent)
	p.LastError = fit(p.LastError, MaxLastError)
	from := p.Outcomes[max(0, len(p.Outcomes)-MaxOutcomes):]
	p.Outcomes = nil
	for _, o := range from {
		o.Stage, o.Result, o.Error = fit(o.Stage, MaxStage), fit(o.Result, MaxStage), fit(o.Error, MaxOutcomeError)
		p.Outcomes = append(p.Outcomes, o)
	}
	return Command{Kind: KindProvision, ID: id, Provision: &p}
}

// MarkEstablished makes the fleet an established one, for good; why is for the audit.
func MarkEstablished(why, by string, at int64) Command {
	return Command{Kind: KindEstablished, Why: fit(why, MaxDetail), By: by, At: at}
}

// SetRole records the role that a member is wished to have. The reconciler of raft's configuration writes it.
func SetRole(id string, role Role, by string, at int64) Command {
	return Command{Kind: KindSetRole, ID: id, Role: role, By: by, At: at}
}

// Promote wishes a learner to become a voter; what e names is where it is reached from now on, an empty half stays as it is.
func Promote(id string, e wire.Endpoints, by string, at int64) Command {
	c := SetRole(id, RoleVoterPending, by, at)
	if e != (wire.Endpoints{}) {
		c.Endpoints = &e
	}
	return c
}

// LeaveVoters wishes a voter out of consensus, to be removed then: at its own wish, or forgotten with its key revoked.
func LeaveVoters(id string, ownWish bool, by string, at int64) Command {
	c := SetRole(id, RoleLeaving, by, at)
	c.OwnWish = ownWish
	return c
}

// MoveEndpoint records where a member is reached from now on; an empty half stays as it is.
func MoveEndpoint(id string, e wire.Endpoints, by string, at int64) Command {
	return Command{Kind: KindMoveEndpoint, ID: id, Endpoints: &e, By: by, At: at}
}

// Rekey gives a member another key and revokes the one it had.
func Rekey(id string, key identity.PublicKey, by string, at int64) Command {
	return Command{Kind: KindRekey, ID: id, Key: &key, By: by, At: at}
}

// Recover makes one machine the only voter, under the next recovery epoch, and every other voter a learner.
func Recover(id, by string, at int64) Command {
	return Command{Kind: KindRecover, ID: id, By: by, At: at}
}

// Audit records an act that changes nothing else in the state; subject is a member's id or empty.
func Audit(what, subject, detail, by string, at int64) Command {
	return Command{Kind: KindAudit, What: fit(what, MaxStage), ID: subject, Why: fit(detail, MaxDetail), By: by, At: at}
}

// Encode returns the command's bytes, in the oldest format that knows its kind.
func (c Command) Encode() []byte {
	c.V = c.since()
	return c.encode()
}

// since returns the format that a command came with: that of its kind, or of what it sets.
func (c *Command) since() int {
	row := lookupKind(c.Kind)
	if row == nil {
		return Format
	}
	if c.Kind == KindSet {
		if s := lookupSetting(c.Name); s != nil {
			return max(row.Since, s.Since)
		}
	}
	return row.Since
}

func (c Command) encode() []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	// Strings, numbers and maps of strings: encoding them can't fail.
	if err := enc.Encode(c); err != nil {
		return nil
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// EncodeFor is Encode for a fleet that writes the given format (View.WriteFormat). A command that came with a later one
// is ErrFormatHeldBack.
func (c Command) EncodeFor(format int) ([]byte, error) {
	if lookupKind(c.Kind) == nil {
		return nil, fmt.Errorf("kind %q: %w", c.Kind, ErrMalformed)
	}
	if since := c.since(); since > format {
		return nil, fmt.Errorf("%s needs format %d, the fleet writes %d: %w", strings.TrimSpace(string(c.Kind)+" "+c.Name), since, format, ErrFormatHeldBack)
	}
	b := c.Encode()
	if len(b) > MaxCommand {
		return nil, fmt.Errorf("%s takes %d bytes, at most %d go into the log: %w", c.Kind, len(b), MaxCommand, ErrMalformed)
	}
	return b, nil
}

// DecodeCommand reads a command. The format is judged before anything else, since a later one may lay the rest out
// otherwise; a field that this format does not know is malformed, since it would mean a change that others made.
func DecodeCommand(b []byte) (Command, error) {
	if len(b) > MaxCommand {
		return Command{}, fmt.Errorf("%d bytes, at most %d: %w", len(b), MaxCommand, ErrMalformed)
	}
	// Of what a learner follows nearly everything is this: each machine that is provisioned is an entry for every other.
	for i, empty := range emptyCommands {
		if bytes.Equal(b, empty) {
			return Command{V: i + 1, Kind: KindEmpty}, nil
		}
	}
	var c Command
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	err := dec.Decode(&c)
	if err == nil && c.V >= 1 && c.V <= Format && dec.InputOffset() == int64(len(b)) {
		if lookupKind(c.Kind) == nil {
			return Command{}, fmt.Errorf("kind %q: %w", clip(string(c.Kind)), ErrMalformed)
		}
		return c, nil
	}
	// The common case costs one pass; only what it refuses is asked for its format.
	var head struct {
		V int `json:"v"`
	}
	if json.Unmarshal(b, &head) == nil && head.V > Format {
		return Command{}, fmt.Errorf("format %d, this version reads %d: %w", head.V, Format, ErrFormatNewer)
	}
	if err != nil {
		return Command{}, fmt.Errorf("%w: %v", ErrMalformed, err)
	}
	return Command{}, ErrMalformed
}

// EmptyCommand returns a command that only raises the revision, in the format given.
func EmptyCommand(format int) []byte {
	return fmt.Appendf(nil, `{"v":%d,"kind":"empty"}`, format)
}

// emptyCommands are those of the formats that this version reads, as EmptyCommand writes them.
var emptyCommands = func() (all [Format][]byte) {
	for i := range all {
		all[i] = EmptyCommand(i + 1)
	}
	return all
}()

// ForOthers returns what members other than the subject are sent in place of cmd; subject, where not empty, is the one
// member that gets cmd itself. What does not decode is sent to nobody: its place is an empty command.
func ForOthers(cmd []byte) (others []byte, subject string) {
	c, err := DecodeCommand(cmd)
	if err != nil {
		return EmptyCommand(1), ""
	}
	switch lookupKind(c.Kind).Sight {
	case SightAll:
		return cmd, ""
	case SightSubject:
		return EmptyCommand(c.V), c.ID
	case SightPart:
		if c.Boot == nil {
			return cmd, ""
		}
		if c.Boot.check() != nil {
			return EmptyCommand(c.V), c.ID // it is refused, and the rest of it would not be
		}
		part := c
		part.Boot = nil
		return part.encode(), c.ID
	default:
		return EmptyCommand(c.V), ""
	}
}

// bootCounter returns the counter in the first eight bytes of a boot id of 32 hex digits.
func bootCounter(id string) (uint64, bool) {
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != 16 {
		return 0, false
	}
	var n uint64
	for _, v := range b[:8] {
		n = n<<8 | uint64(v)
	}
	return n, true
}
