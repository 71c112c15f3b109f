package wire

import (
	"encoding/json"
	"fmt"
)

// Endpoints is where a node is reached.
type Endpoints struct {
	FC   string `json:"fc"`
	Raft string `json:"raft,omitempty"` // voters only
}

// Hello is the request and the answer of Hello.
type Hello struct {
	ID        string    `json:"id"`
	Cluster   string    `json:"cluster"`
	Name      string    `json:"name,omitempty"`
	Platform  string    `json:"platform,omitempty"` // GOOS/GOARCH
	Version   string    `json:"version,omitempty"`
	Wire      []int     `json:"wire"`   // protocol versions that it speaks
	Format    int       `json:"format"` // highest command format that it can read
	Endpoints Endpoints `json:"endpoints"`
	ClockMS   int64     `json:"clock_ms"`           // Unix milliseconds
	Epoch     uint64    `json:"epoch"`              // recovery epoch
	Revision  uint64    `json:"revision,omitempty"` // of the state that is applied; told to members only
	Seen      string    `json:"seen,omitempty"`     // in an answer: the address that the asker's session came from
}

// Announce is the request of Announce: what a member says of itself.
type Announce struct {
	Name         string            `json:"name"`
	Labels       map[string]string `json:"labels,omitempty"`
	Platform     string            `json:"platform"`
	Version      string            `json:"version"`
	Format       int               `json:"format"`
	Endpoints    Endpoints         `json:"endpoints"`
	Component    string            `json:"component,omitempty"`
	BootID       string            `json:"boot_id,omitempty"` // 32 hex digits
	Sequence     uint64            `json:"sequence,omitempty"`
	ConfigDigest string            `json:"config_digest,omitempty"` // hex, or empty
	Wants        bool              `json:"wants,omitempty"`         // wants provisioning
	WantsWhy     string            `json:"wants_why,omitempty"`
	Provisions   bool              `json:"provisions,omitempty"` // it has a helper or a default that it could use, were it to lead
}

// RosterVoter is a voter as a joiner needs it.
type RosterVoter struct {
	ID        string    `json:"id"`
	Key       string    `json:"key"` // key text
	Endpoints Endpoints `json:"endpoints"`
}

// RosterMember is a machine's own record.
type RosterMember struct {
	ID         string    `json:"id"`
	Key        string    `json:"key"` // key text
	Name       string    `json:"name,omitempty"`
	Role       string    `json:"role"`
	Endpoints  Endpoints `json:"endpoints"`
	Admitted   int64     `json:"admitted"` // Unix seconds
	AdmittedBy string    `json:"admitted_by,omitempty"`
}

// Roster is what an approval carries; the answer signs SHA-256 of exactly its bytes.
type Roster struct {
	Cluster  string        `json:"cluster"`
	Created  uint64        `json:"created"` // Unix seconds
	Epoch    uint64        `json:"epoch"`
	Revision uint64        `json:"revision"`
	Voters   []RosterVoter `json:"voters"`
	Self     RosterMember  `json:"self"` // the joiner
}

// FollowRequest is the request of Follow: from where to go on.
type FollowRequest struct {
	Epoch    uint64 `json:"epoch"`
	Revision uint64 `json:"revision"`
	Digest   string `json:"digest,omitempty"` // hex, of the shared part of the state
}

// StartupEventAnswer is the answer of StartupEvent.
type StartupEventAnswer struct {
	Admitted bool   `json:"admitted"`
	Refused  string `json:"refused,omitempty"` // why
}

// QueryAnswer is the answer of Query: does this machine want provisioning.
type QueryAnswer struct {
	ID           string `json:"id"`
	Wants        bool   `json:"wants"`
	Why          string `json:"why,omitempty"`
	Component    string `json:"component,omitempty"`
	BootID       string `json:"boot_id,omitempty"`       // 32 hex digits
	ConfigDigest string `json:"config_digest,omitempty"` // hex
	Busy         bool   `json:"busy,omitempty"`          // a step is running
}

// WorkRequest is the request of Work.
type WorkRequest struct {
	Step  string          `json:"step"`
	Lease []byte          `json:"lease,omitempty"` // EncodeLease; base64 in the document
	Body  json.RawMessage `json:"body,omitempty"`
}

// WorkAnswer is the answer of Work.
type WorkAnswer struct {
	OK        bool            `json:"ok"`
	Error     string          `json:"error,omitempty"`
	Transient bool            `json:"transient,omitempty"` // worth another try
	Body      json.RawMessage `json:"body,omitempty"`
}

// StatusRequest is the request of Status.
type StatusRequest struct {
	What     string `json:"what"`               // node, cluster, conditions, audit, stale, follows, watch; recover, backup, dashboard to this machine's administrators
	Offset   uint64 `json:"offset,omitempty"`   // backup: of the part
	Revision uint64 `json:"revision,omitempty"` // backup: of which state a part behind the first is; agreement: the entry of the log
	ForMS    int64  `json:"for_ms,omitempty"`   // stale: how long a member has been silent at least
	After    uint64 `json:"after,omitempty"`    // watch: the event behind which to tell
}

// ClusterRequest is the request of Cluster.
type ClusterRequest struct {
	Op       string   `json:"op"` // admit, admit-learner, forget, set, transfer, leave
	ID       string   `json:"id,omitempty"`
	Key      string   `json:"key,omitempty"`
	Endpoint string   `json:"endpoint,omitempty"`
	Name     string   `json:"name,omitempty"`
	Value    string   `json:"value,omitempty"`
	Lines    []string `json:"lines,omitempty"` // <id>@<key> each
	Force    bool     `json:"force,omitempty"` // leave: go without the fleet's word
}

// ClusterAnswer is the answer of Cluster.
type ClusterAnswer struct {
	Revision uint64 `json:"revision"`
	Text     string `json:"text,omitempty"`
}

// QueueRequest is the request of Queue.
type QueueRequest struct {
	Op     string `json:"op"` // list, show, history, retry, drop, pause, resume, reprovision, run-helper
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// DecodeDocument reads a JSON document of type T. Members that this version
// does not know are passed over, so that a later version may add some; anything
// after the document is refused. The error names the type.
func DecodeDocument[T any](b []byte) (T, error) {
	var v T
	if err := json.Unmarshal(b, &v); err != nil {
		var zero T
		return zero, fmt.Errorf("wire: %T document: %w", zero, err)
	}
	return v, nil
}
