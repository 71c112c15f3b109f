package control

import "pace-node/internal/process"

// AlertDocument is what the program of --alert-exec reads on stdin.
type AlertDocument struct {
	V         int    `json:"v"`
	Condition string `json:"condition"` // its id: docs/conditions.md
	Severity  string `json:"severity"`  // alert, or notice for enrollment-requests-waiting
	Detail    string `json:"detail"`
	Remedy    string `json:"remedy"`    // a line to paste on that machine
	RaisedAt  int64  `json:"raised_at"` // Unix seconds
	NodeID    string `json:"node_id"`   // the machine that says so
	Name      string `json:"name"`      // what people call it
	FleetID   string `json:"fleet_id"`
	Mode      string `json:"mode"` // solitary, pending, learner, voter
	Version   string `json:"version"`
	Platform  string `json:"platform"` // as linux/amd64
}

// Results of one run of the program of --alert-exec: the label of pace_alert_runs_total.
const (
	AlertOK         = "ok"
	AlertFailed     = "failed"      // it ended with another status than 0
	AlertTimeout    = "timeout"     // it was ended
	AlertNotStarted = "not_started" // it is not there, or may not be run
)

// AlertResults lists them.
var AlertResults = []string{AlertOK, AlertFailed, AlertTimeout, AlertNotStarted}

// Input is the document as one line of JSON, safe to paste and to show.
func (d AlertDocument) Input() ([]byte, error) {
	d.Detail = process.Redact(d.Detail)
	return marshal(d)
}

// Environment is the document for programs that read no JSON: PACE_ALERT_CONDITION and its like. Text is escaped: what came
// from another machine runs nothing in a shell.
func (d AlertDocument) Environment() []string {
	return []string{
		"PACE_ALERT_CONDITION=" + d.Condition, "PACE_ALERT_SEVERITY=" + d.Severity, "PACE_ALERT_DETAIL=" + Sentence(process.Redact(d.Detail)),
		"PACE_ALERT_REMEDY=" + d.Remedy, "PACE_ALERT_NODE_ID=" + d.NodeID, "PACE_ALERT_NAME=" + Word(d.Name), "PACE_ALERT_FLEET_ID=" + d.FleetID,
	}
}

// callsFor are the conditions that call a person although they are no alert; again: also when their detail changes.
var callsFor = []struct {
	ID    string
	Again bool
}{
	{"enrollment-requests-waiting", true},
}

// CallsPerson reports whether a person must act on a condition, and is called by --alert-exec: for every alert, and for
// machines that wait. again: also when its detail changes.
func CallsPerson(c ConditionStatus) (calls, again bool) {
	for _, row := range callsFor {
		if row.ID == c.ID {
			return true, row.Again
		}
	}
	return c.Severity == Alert.String(), false
}
