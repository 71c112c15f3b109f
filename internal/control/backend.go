package control

import (
	"context"
	"encoding/json"

	"pace-node/internal/wire"
)

// Backend is the node behind the verbs. Each call is made on the stream's own
// goroutine; it may be made by many at once. ctx ends when the asker's stream
// ends or the server stops, and an answer is worthless after that.
//
// An error that is a *wire.Error is answered as it is; a context's error becomes
// busy, any other one refused-by-rule with its text. Text that another machine
// chose may stand in any document raw: it is escaped where it is printed.
type Backend interface {
	// Access says who the key of p is by the applied roster, asked again at
	// every request: AccessAnybody outside the roster, AccessMember for a
	// learner, AccessAdministrator for a voter, AccessLeader for the voter that
	// a heartbeat names as leader. A revoked key is an error of code revoked whose
	// text says at which revision. It is never asked about the socket.
	Access(p Peer) (wire.Access, *wire.Error)

	// Hello is kept with the session, and answered with this node's own.
	Hello(ctx context.Context, p Peer, h wire.Hello) (wire.Hello, error)
	// Enroll judges an ask. wait, if not nil, keeps the stream open until it
	// returns; it must return once ctx has ended. push sends a later answer; what
	// is pushed before Enroll has returned follows the first answer.
	Enroll(ctx context.Context, p Peer, r wire.EnrollRequest, push func(wire.EnrollAnswer) error) (first wire.EnrollAnswer, wait func() error, err error)
	// EnrollControl answers list with the JSON of EnrollList, every other
	// operation with the JSON of Done.
	EnrollControl(ctx context.Context, p Peer, c wire.EnrollControl) ([]byte, error)
	// Follow judges a Follow; its error is the answer. serve then pushes encoded
	// wire push payloads until ctx or the following ends; an error before its
	// first push is the answer as well, one after it ends the stream as an error
	// frame. It is called with a shallow stack, where nothing else is kept: a
	// voter holds one for each learner.
	Follow(ctx context.Context, p Peer, r wire.FollowRequest) (serve func(push func(...[]byte) error) error, err error)
	Announce(ctx context.Context, p Peer, a wire.Announce) error
	StartupEvent(ctx context.Context, p Peer, e wire.StartupEvent) (wire.StartupEventAnswer, error)
	Query(ctx context.Context, p Peer) (wire.QueryAnswer, error)
	Work(ctx context.Context, p Peer, w wire.WorkRequest) (wire.WorkAnswer, error)
	// Status answers "node" with NodeStatus, "cluster" with ClusterStatus,
	// "conditions" with ConditionList, "audit" with AuditList, each as JSON.
	Status(ctx context.Context, p Peer, r wire.StatusRequest) (json.RawMessage, error)
	// Cluster answers in words as well: Text is the sentence that a person reads.
	Cluster(ctx context.Context, p Peer, r wire.ClusterRequest) (wire.ClusterAnswer, error)
	// Queue answers list with QueueList, show and history with QueueShow,
	// run-helper with HelperRun, retry, drop, pause, resume and reprovision with
	// Done, each as JSON. A verb that had no effect is an error that says why, or
	// a Done whose text says "nothing to do".
	Queue(ctx context.Context, p Peer, r wire.QueueRequest) (json.RawMessage, error)
	FleetSummary(ctx context.Context, p Peer, nonce [32]byte) (wire.FleetSummaryAnswer, error)
}

// EncodeDocument is the JSON of a document as Backend returns it.
func EncodeDocument(v any) ([]byte, error) { return json.Marshal(v) }
