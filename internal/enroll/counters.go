package enroll

// Counter names what the list counts.
type Counter uint8

// Counters.
const (
	CountRequests Counter = iota
	CountApprovalsManual
	CountApprovalsAuto
	CountRejections
	CountRequestsExpired
	CountRequestsCleared
	counters
)

// CounterRow is one row of the table of counters.
type CounterRow struct {
	Counter      Counter
	Metric, Help string
}

// Counters is the table of counters; refusals are counted by reason beside them, as RefusedMetric.
var Counters = []CounterRow{
	{CountRequests, "pace_enrollment_requests_total", "requests to enroll that were judged"},
	{CountApprovalsManual, "pace_enrollment_approvals_manual_total", "machines that a person approved, ahead or while they waited"},
	{CountApprovalsAuto, "pace_enrollment_approvals_auto_total", "machines that the auto-approve window admitted"},
	{CountRejections, "pace_enrollment_rejections_total", "rows that a person rejected"},
	{CountRequestsExpired, "pace_enrollment_requests_expired_total", "rows that were not heard for ten minutes"},
	{CountRequestsCleared, "pace_enrollment_requests_cleared_total", "waiting rows that a person cleared"},
}

// RefusedMetric is the series of refused requests; its one label is the reason.
const RefusedMetric = "pace_enrollment_requests_refused_total"

// Refusal is why a request was refused. It is a value with a metric label, and no error: anybody may ask anything.
type Refusal uint8

// Refusals, in the order of the checks. The zero value is none.
const (
	RefusalNone Refusal = iota
	RefusalNoHello
	RefusalFormat
	RefusalID
	RefusalEndpoint
	RefusalEndpointHere
	RefusalText
	RefusalKey
	RefusalSessionKey
	RefusalSource
	RefusalAskedElsewhere
	RefusalNotLeader
	RefusalSignature
	RefusalRevoked
	RefusalRejected
	RefusalListFull
	refusals
)

// RefusalRow is one row of the table of refusals.
type RefusalRow struct {
	Refusal Refusal
	Reason  string // label of the metric
	About   string
}

// Refusals is the table of refusals.
var Refusals = []RefusalRow{
	{RefusalNoHello, "no-hello", "the session has not said Hello"},
	{RefusalFormat, "format", "the version could not read the fleet's format"},
	{RefusalID, "id", "the id is not [A-Za-z0-9._-]{1,64}"},
	{RefusalEndpoint, "endpoint", "the claimed endpoint is no host:port"},
	{RefusalEndpointHere, "endpoint-here", "the claimed endpoint is loopback or the wildcard"},
	{RefusalText, "text", "name, platform or version holds a control character or is too long"},
	{RefusalKey, "key", "the key is not canonical, or of small order"},
	{RefusalSessionKey, "session-key", "the key is not the session's"},
	{RefusalSource, "source", "the source network holds its share of rows"},
	{RefusalAskedElsewhere, "asked-elsewhere", "this node is pending or a learner itself"},
	{RefusalNotLeader, "not-leader", "this node does not lead its fleet"},
	{RefusalSignature, "signature", "the signature does not verify"},
	{RefusalRevoked, "revoked", "the key is revoked"},
	{RefusalRejected, "rejected", "a person rejected this id and key"},
	{RefusalListFull, "list-full", "64 machines are waiting"},
}

// String returns the reason, "none" for any other value.
func (r Refusal) String() string {
	for _, row := range Refusals {
		if row.Refusal == r {
			return row.Reason
		}
	}
	return "none"
}
