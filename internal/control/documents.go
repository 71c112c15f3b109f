package control

import (
	"encoding/json"

	"pace-node/internal/wire"
)

// DocumentVersion is "v" of every document that a verb prints. It is raised when
// a member changes its meaning or goes; a new member does not raise it.
const DocumentVersion = 1

// Printable is a document that a verb prints: as JSON with --json, else as Text.
type Printable interface {
	// Text returns what a person reads, whole lines. Everything in it that came
	// from another machine is escaped.
	Text() string
}

// Every time span in a document is elapsed milliseconds, every date Unix seconds;
// both are plain numbers, so that any tool reads them. Text of other machines is
// raw in JSON, where encoding keeps it harmless.

// Identity is what --print-identity prints.
type Identity struct {
	V         int    `json:"v"`
	NodeID    string `json:"node_id"`
	PublicKey string `json:"public_key"` // key text
	// Host is what the node advertises, without a port; RaftPort is --listen-raft's.
	Host     string `json:"host"`
	RaftPort int    `json:"raft_port"`
	// ClusterAdmit is filled in when the document is printed.
	ClusterAdmit string `json:"cluster_admit"`
}

// Surfaces is what --print-surfaces prints: what a node of this machine's settings binds.
type Surfaces struct {
	V        int          `json:"v"`
	Surfaces []SurfaceRow `json:"surfaces"`
	StateDir string       `json:"state_dir"`
	Seeds    []string     `json:"seeds"`
	Pin      string       `json:"pin,omitempty"`
}

// SurfaceRow is one endpoint.
type SurfaceRow struct {
	Name  string `json:"name"`           // node, raft, discovery-beacon, discovery-reply, admin, admin-socket
	Proto string `json:"proto"`          // tcp, udp, unix, pipe
	Port  int    `json:"port,omitempty"` // left out: chosen by the kernel, or none
	Bind  string `json:"bind"`           // an address, * for every one, or a path
	Scope string `json:"scope"`          // loopback, segment, network
}

// ServiceChange is what --install-service and --uninstall-service print.
type ServiceChange struct {
	V        int      `json:"v"`
	Service  string   `json:"service"`
	Changed  []string `json:"changed"` // a sentence each; empty = nothing was to be done
	Notes    []string `json:"notes"`
	StateDir string   `json:"state_dir"`
	Settings string   `json:"settings"` // a file, or a key of the registry
}

// Window is the auto-approve window.
type Window struct {
	Armed   bool  `json:"armed"`
	LeftMS  int64 `json:"left_ms,omitempty"`
	ArmedAt int64 `json:"armed_at,omitempty"` // Unix seconds
}

// Decisions of an enrollment row.
const (
	DecisionWaiting  = "waiting"
	DecisionApproved = "approved"
	DecisionAuto     = "auto-approved"
	DecisionRejected = "rejected"
)

// FounderState is what a backup holds of the fleet.
type FounderState struct {
	Cluster  string
	Epoch    uint64
	Revision uint64
	Members  int
	State    []byte
}

// Restoring is what a backup holds, as its reader tells before anything is changed.
type Restoring struct {
	Cluster  string
	Name, ID string
	Epoch    uint64 // that the restore would begin
	Revision uint64
	Members  int
	At       int64 // Unix seconds; when it was written
	Version  string
}

// EnrollList is the answer of EnrollControl list.
type EnrollList struct {
	V       int         `json:"v"`
	Cluster string      `json:"cluster"`
	Window  Window      `json:"window"`
	Rows    []EnrollRow `json:"rows"`
}

// EnrollRow is one machine that asked.
type EnrollRow struct {
	Decision string `json:"decision"` // waiting, approved, auto-approved, rejected
	ID       string `json:"id"`
	Key      string `json:"key"` // key text
	Name     string `json:"name,omitempty"`
	Platform string `json:"platform,omitempty"`
	Version  string `json:"version,omitempty"`
	Endpoint string `json:"endpoint"` // 0xFC endpoint as claimed
	Source   string `json:"source"`   // address that the ask came from
	AgeMS    int64  `json:"age_ms"`   // since the first ask
	HeardMS  int64  `json:"heard_ms"` // since the last
	Attempts uint64 `json:"attempts"`
	// AddressDiffers: claimed endpoint and source disagree.
	AddressDiffers bool `json:"address_differs,omitempty"`
	// KeyConflict: another row, or a member, has this id under another key.
	KeyConflict bool `json:"key_conflict,omitempty"`
	// KeyRejected: a person rejected this key under another id; the window does not admit it.
	KeyRejected bool `json:"key_rejected,omitempty"`
	// NameOf is the member that has the same name.
	NameOf *NameClash `json:"name_of,omitempty"`
	// ArmedAt says when the window that admitted this row was armed, Unix seconds.
	ArmedAt int64 `json:"armed_at,omitempty"`
	// Approve is the command that would admit it; filled in when the document is
	// printed, empty when decided or when it cannot be pasted.
	Approve string `json:"approve,omitempty"`
}

// NameClash names a member whose name a waiting machine has too.
type NameClash struct {
	ID      string `json:"id"`
	HeardMS *int64 `json:"heard_ms"` // null: never heard
}

// Done is the answer of a verb that changes something: a sentence of what was
// done, and the fleet's revision where the state changed.
type Done struct {
	V        int    `json:"v"`
	Said     string `json:"text"`
	Revision uint64 `json:"revision,omitempty"`
}

// Machine names a machine in a document.
type Machine struct {
	ID       string `json:"id"`
	Name     string `json:"name,omitempty"`
	Endpoint string `json:"endpoint,omitempty"` // 0xFC
}

// View says how old the picture is that a document shows.
type View struct {
	Mode     string `json:"mode"` // solitary, pending, learner, voter
	Leads    bool   `json:"leads"`
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	AsOfMS   int64  `json:"as_of_ms"` // age of the picture; 0 where this node leads
	// LeaderSilentMS is for how long no leader was heard; 0 while one is heard.
	LeaderSilentMS int64 `json:"leader_silent_ms"`
	VotersHeard    int   `json:"voters_heard"` // this node counts itself
	VotersTotal    int   `json:"voters_total"`
}

// MemberStatus is one member.
type MemberStatus struct {
	ID           string            `json:"id"`
	Key          string            `json:"key"`
	Name         string            `json:"name,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Role         string            `json:"role"` // voter, learner, voter-pending, leaving
	Platform     string            `json:"platform,omitempty"`
	Version      string            `json:"version,omitempty"`
	Provisioning string            `json:"provisioning,omitempty"`
	Endpoints    wire.Endpoints    `json:"endpoints"`
	HeardMS      *int64            `json:"heard_ms"`           // null: not heard since this node started
	Self         bool              `json:"self,omitempty"`     // the node that answers
	Arrived      bool              `json:"arrived"`            // it has said Hello since its admission
	Admitted     int64             `json:"admitted,omitempty"` // Unix seconds
	AdmittedBy   string            `json:"admitted_by,omitempty"`
	AdmittedMS   int64             `json:"admitted_ms,omitempty"` // elapsed since then, where this node knows it
	// RaftPort is where a learner would open its consensus endpoint; 0 = 6680.
	RaftPort int `json:"raft_port,omitempty"`
	// Admit is the command that would make a learner a voter; filled in when the
	// document is printed.
	Admit string `json:"admit,omitempty"`
}

// Setting is a setting of the fleet.
type Setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default bool   `json:"default,omitempty"` // nobody has set it
}

// ClusterStatus is the answer of Status "cluster".
type ClusterStatus struct {
	V          int               `json:"v"`
	Cluster    string            `json:"cluster"`
	Created    uint64            `json:"created"`        // Unix seconds
	AgeMS      int64             `json:"age_ms"`         // by this node's clock; 0 if the clock is before it
	Leader     *Machine          `json:"leader"`         // null during an election
	View       View              `json:"view"`           //
	Members    []MemberStatus    `json:"members"`        // by id
	PreApprove []PreApproved     `json:"pre_approved"`   //
	Settings   []Setting         `json:"settings"`       //
	Conditions []ConditionStatus `json:"conditions"`     // raised ones, worst first
	Said       string            `json:"said,omitempty"` // one more sentence of the node
}

// PreApproved is a machine that may join without being asked about.
type PreApproved struct {
	ID   string `json:"id"`
	Key  string `json:"key"`
	Seat bool   `json:"seat,omitempty"` // as a voter
}

// ConditionStatus is a raised condition.
type ConditionStatus struct {
	ID       string `json:"id"`
	Severity string `json:"severity"` // notice, warning, alert
	Detail   string `json:"detail"`
	Remedy   string `json:"remedy"`
	SinceMS  int64  `json:"since_ms"`
}

// RecoverPreview is the answer of Status "recover", to this machine's own administrators: what a recovery would do here.
type RecoverPreview struct {
	V       int            `json:"v"`
	Cluster string         `json:"cluster"`
	Epoch   uint64         `json:"epoch"` // the recovery epoch that it would begin
	View    View           `json:"view"`
	Voters  []RecoverVoter `json:"voters"`  // the others
	Members int            `json:"members"` // of the fleet, this machine included
	Lost    []string       `json:"lost"`    // what it may lose, a sentence each
}

// BackupPart is the answer of Status "backup", to this machine's own administrators: a part of the fleet's state.
type BackupPart struct {
	V        int    `json:"v"`
	Cluster  string `json:"cluster"`
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	Members  int    `json:"members"`
	Total    uint64 `json:"total"` // bytes of the whole
	Offset   uint64 `json:"offset"`
	Bytes    []byte `json:"bytes"` // base64
}

// RecoverVoter is another voter of a fleet that is to be recovered.
type RecoverVoter struct {
	Machine Machine `json:"machine"`
	HeardMS *int64  `json:"heard_ms"` // null: not heard since this node started
}

// InterfaceStatus is one network interface that discovery used or passed over.
type InterfaceStatus struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"` // with its prefix length
	Used    bool   `json:"used"`
	Why     string `json:"why,omitempty"` // it was passed over
}

// DiscoveryStatus is the state of discovery.
type DiscoveryStatus struct {
	On         bool              `json:"on"`
	Listener   string            `json:"listener,omitempty"`
	Answering  string            `json:"answering,omitempty"`
	Interfaces []InterfaceStatus `json:"interfaces"`
	Said       string            `json:"said,omitempty"` // why it is off
}

// NodeStatus is the answer of Status "node".
type NodeStatus struct {
	V         int       `json:"v"`
	Version   string    `json:"version"`
	Mode      string    `json:"mode"`
	NodeID    string    `json:"node_id"`
	Name      string    `json:"name"`
	PublicKey string    `json:"public_key"`
	FleetID   string    `json:"fleet_id"`  // the pin to paste: <cluster-id>@<key>[,<key>…]; "" while no voter is known
	FleetPin  string    `json:"fleet_pin"` // the pin that is set, "" if none
	Leader    *Machine  `json:"leader"`    // null while none is heard
	View      View      `json:"view"`
	Voters    int       `json:"voters"`
	Learners  int       `json:"learners"`
	Window    Window    `json:"auto_approve"`
	Asks      *Asking   `json:"asks,omitempty"` // while pending
	Endpoints Endpoints `json:"endpoints"`

	Discovery  DiscoveryStatus   `json:"discovery"`
	Peers      PeersStatus       `json:"peers"`
	Seeds      []SeedStatus      `json:"seeds,omitempty"`
	UptimeMS   int64             `json:"uptime_ms"`
	StateDir   string            `json:"state_dir"`
	Conditions []ConditionStatus `json:"conditions"`
}

// NodeFacts is the answer of Status "doctor", to this machine's own administrators: what the node has seen of its network.
type NodeFacts struct {
	V              int            `json:"v"`
	BeaconsSent    uint64         `json:"beacons_sent"`
	BeaconsHeard   uint64         `json:"beacons_heard"`
	ChallengesSent uint64         `json:"challenges_sent"`
	ProofsSent     uint64         `json:"proofs_sent"`
	ProofsVerified uint64         `json:"proofs_verified"`
	OtherVersions  uint64         `json:"other_versions"` // datagrams of another version of the wire
	AtListener     uint64         `json:"at_listener"`    // datagrams that came to the shared port, its own among them
	AtAnswering    uint64         `json:"at_answering"`   // that came to the answering port
	Heard          []HeardFrom    `json:"heard"`          // by address
	Foreign        []ForeignFleet `json:"foreign_fleets"` // proven ones, by id
	Sessions       []SessionFacts `json:"sessions"`       // that said Hello
	PinRefusals    uint64         `json:"pin_refusals"`   // ways into a fleet that the pin refused
}

// HeardFrom is an address that beacons of other machines come from.
type HeardFrom struct {
	Address string `json:"address"`
	HeardMS int64  `json:"heard_ms"` // since the last one
	Proven  bool   `json:"proven"`   // something from there was proven within 90 s
}

// ForeignFleet is another fleet that was proven on the segment.
type ForeignFleet struct {
	Cluster  string `json:"cluster"`
	State    string `json:"state"`    // solitary, established, pending
	Address  string `json:"address"`  // that it was heard from last
	Admitted bool   `json:"admitted"` // no pin is set, or it admits this fleet
}

// SessionFacts is a session as this node sees it.
type SessionFacts struct {
	ID           string `json:"id"` // as it was said in Hello
	Address      string `json:"address"`
	Inbound      bool   `json:"inbound"`
	ClockAheadMS int64  `json:"clock_ahead_ms"` // by how much the other clock is ahead; negative: behind
	Seen         string `json:"seen,omitempty"` // of an outbound one: the address that the other end says it came from
}

// Asking is the fleet that a pending node asks.
type Asking struct {
	Cluster  string `json:"cluster"`
	Leader   string `json:"leader,omitempty"`
	Endpoint string `json:"endpoint"`
	Outcome  string `json:"outcome,omitempty"` // of the last signed answer
	AskedMS  int64  `json:"asked_ms"`          // since it went pending
	HeardMS  *int64 `json:"heard_ms"`          // since the last signed answer
}

// SeedStatus is one seed and what became of it.
type SeedStatus struct {
	Endpoint string `json:"endpoint"`
	Origin   string `json:"origin"`
	Said     string `json:"said,omitempty"`
}

// Endpoints is where this node serves.
type Endpoints struct {
	Advertised string `json:"advertised"` // 0xFC, as told to peers; "" while withheld
	Listen     string `json:"listen"`
	Raft       string `json:"raft,omitempty"` // "" while no consensus port is open
	Admin      string `json:"admin,omitempty"`
}

// PeersStatus counts what discovery and sessions know.
type PeersStatus struct {
	Heard         int `json:"heard"`         // by beacon
	Authenticated int `json:"authenticated"` // proven under a roster key
	ForeignFleets int `json:"foreign_fleets"`
	// ForeignClear: none is reported, and a beacon period has passed since the start, so that none is there to be heard.
	ForeignClear bool `json:"foreign_clear"`
	Sessions     int  `json:"sessions"`
}

// ConditionList is the answer of Status "conditions".
type ConditionList struct {
	V          int               `json:"v"`
	View       View              `json:"view"`
	Conditions []ConditionStatus `json:"conditions"`
}

// WatchMost is how many machines of each kind a WatchStatus holds: a screen shows fewer, and a fleet may have thousands.
const WatchMost = 100

// WatchStatus is the answer of Status "watch": what a person who looks on wants to see, and what happened behind the event
// that the request names. A voter that does not lead answers with what its leader says, where it can.
type WatchStatus struct {
	V          int               `json:"v"`
	Boot       string            `json:"boot"` // of the process that answers: events of another one are numbered anew
	Node       Machine           `json:"node"` // that answers
	Cluster    string            `json:"cluster"`
	Leader     *Machine          `json:"leader"` // null while none is heard
	View       View              `json:"view"`
	Roles      map[string]int    `json:"roles"`   // how many members have which role
	Members    []MemberStatus    `json:"members"` // at most 100: those in trouble first, then voters, then the others by id
	Window     Window            `json:"auto_approve"`
	Waiting    []EnrollRow       `json:"waiting"` // undecided ones
	Queue      WatchQueue        `json:"queue"`
	Conditions []ConditionStatus `json:"conditions"`
	Events     []Event           `json:"events"` // oldest first, at most 200
	Next       uint64            `json:"next"`   // the event to ask behind next
	Missed     uint64            `json:"missed"` // events before these that are not told any more
	// Partial says what is left out, and why; empty where nothing is.
	Partial string `json:"partial,omitempty"`
}

// WatchQueue is the provisioning queue of a WatchStatus.
type WatchQueue struct {
	Paused  bool           `json:"paused"`
	Why     string         `json:"why,omitempty"` // it is paused
	States  map[string]int `json:"states"`        // how many machines are in which state
	Entries []QueueEntry   `json:"entries"`       // at most 100, in the order of QueueStates
}

// AuditEntry is one entry of the fleet's audit ring.
type AuditEntry struct {
	At       int64  `json:"at"` // Unix seconds, the leader's clock
	By       string `json:"by"` // key text, or what acted
	Did      string `json:"did"`
	What     string `json:"what"`
	Revision uint64 `json:"revision"`
	// Subject is the id of the machine that it was done to, ByName and Name are what that machine and the one it was done
	// at are called now; each is left out where there is none.
	Subject string `json:"subject,omitempty"`
	ByName  string `json:"by_name,omitempty"`
	Name    string `json:"name,omitempty"`
}

// AuditList is the answer of Status "audit", oldest first.
type AuditList struct {
	V       int          `json:"v"`
	View    View         `json:"view"`
	Entries []AuditEntry `json:"entries"`
	LeftOut int          `json:"left_out,omitempty"` // entries that were not asked for
	Note    string       `json:"note,omitempty"`     // why this machine holds none, and whom to ask
}

// QueueEntry is one machine in the provisioning queue.
type QueueEntry struct {
	ID            string `json:"id"`
	Name          string `json:"name,omitempty"`
	State         string `json:"state"`           // one of QueueStates
	Stage         string `json:"stage,omitempty"` // of a running machine the one that it is at, else that of its last run
	Attempt       int    `json:"attempt"`         // finished runs since the last confirmation
	LastError     string `json:"last_error,omitempty"`
	DueMS         *int64 `json:"due_ms"`          // null: not waiting for a time; negative: overdue
	LastSuccessMS *int64 `json:"last_success_ms"` // elapsed; null: never
	Again         bool   `json:"again,omitempty"` // it runs, and once more afterwards
}

// QueueStates are the states of a queue entry, in the order of the list. A machine of the state none is in no list: it never
// asked, or is done with.
var QueueStates = []string{"running", "waiting", "held", "deferred", "backing off", "parked", "unconfirmed", "confirmed", "none"}

// QueueList is the answer of Queue list.
type QueueList struct {
	V       int          `json:"v"`
	View    View         `json:"view"`
	Paused  bool         `json:"paused"`
	Why     string       `json:"why,omitempty"`       // it is paused
	By      *QueuePause  `json:"paused_by,omitempty"` // the operator who paused it, as long as the audit holds that
	Entries []QueueEntry `json:"entries"`
	Note    string       `json:"note,omitempty"` // what this list leaves out, and whom to ask
}

// QueuePause is an operator's word that paused the queue.
type QueuePause struct {
	By     string `json:"by"` // key text: names may change hands
	ByName string `json:"by_name,omitempty"`
	At     int64  `json:"at"`               // Unix seconds, the leader's clock
	Reason string `json:"reason,omitempty"` // as it was typed
}

// QueueOutcome is one past run of a machine.
type QueueOutcome struct {
	At      int64  `json:"at"` // Unix seconds
	Outcome string `json:"outcome"`
	Stage   string `json:"stage,omitempty"`
	Error   string `json:"error,omitempty"`
	TookMS  int64  `json:"took_ms,omitempty"`
}

// QueueShow is the answer of Queue show and of Queue history.
type QueueShow struct {
	V         int             `json:"v"`
	View      View            `json:"view"`
	Entry     QueueEntry      `json:"entry"`
	Component string          `json:"component,omitempty"`
	BootID    string          `json:"boot_id,omitempty"`
	Digest    string          `json:"config_digest,omitempty"`
	Wants     string          `json:"wants,omitempty"` // on the machine itself: why it wants provisioning
	Outcomes  []QueueOutcome  `json:"outcomes"`        // oldest first, at most 20
	Helper    json.RawMessage `json:"helper,omitempty"`
}

// HelperRun is the answer of Queue run-helper: what the helper was given and
// what it said; nothing was configured.
type HelperRun struct {
	V      int             `json:"v"`
	Input  json.RawMessage `json:"input"`
	Output json.RawMessage `json:"output"`
	TookMS int64           `json:"took_ms"`
}

// MemberShow is what `pacectl member show` prints.
type MemberShow struct {
	V      int          `json:"v"`
	View   View         `json:"view"`
	Member MemberStatus `json:"member"`
}

// StaleList is the answer of Status "stale", of the leader: the members that were silent for long.
type StaleList struct {
	V          int           `json:"v"`
	View       View          `json:"view"`
	Cluster    string        `json:"cluster"`
	ForMS      int64         `json:"for_ms"`      // silent for at least so long
	ListenedMS int64         `json:"listened_ms"` // for how long this leader has listened; longer silence it cannot know
	Members    []StaleMember `json:"members"`     // by id
}

// StaleMember is a member that was silent for long.
type StaleMember struct {
	ID           string `json:"id"`
	Name         string `json:"name,omitempty"`
	Role         string `json:"role"` // voter, learner, voter-pending, leaving
	Key          string `json:"key"`
	SilentMS     int64  `json:"silent_ms"`               // at least
	NeverArrived bool   `json:"never_arrived,omitempty"` // it has not said Hello since its admission
}

// FollowList is the answer of Status "follows": who follows whom, as far as is known. It is what the web page draws.
type FollowList struct {
	V     int          `json:"v"`
	View  View         `json:"view"`
	Links []FollowLink `json:"links"` // by id; a machine that follows nobody, or of which nobody said so, is in none
}

// FollowLink is one machine and the voter whose log it follows; a voter follows the leader.
type FollowLink struct {
	ID      string `json:"id"`
	Follows string `json:"follows"`
}

// MemberList is what `pacectl member list` prints.
type MemberList struct {
	V       int            `json:"v"`
	View    View           `json:"view"`
	Members []MemberStatus `json:"members"`
}
