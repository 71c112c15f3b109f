package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Role is what the fleet wishes a member to be; the leader brings raft's configuration to it.
type Role string

// Roles.
const (
	RoleVoter        Role = "voter"
	RoleLearner      Role = "learner"
	RoleVoterPending Role = "voter-pending" // is being promoted
	RoleLeaving      Role = "leaving"       // is being taken out of consensus, to be forgotten
)

// Roles lists every role, in the order in which counts are shown.
var Roles = []Role{RoleVoter, RoleLearner, RoleVoterPending, RoleLeaving}

// Member is one machine of the roster. What it points to is shared between views: read it, never write it.
type Member struct {
	ID         string             `json:"id"`
	Key        identity.PublicKey `json:"key"`
	Name       string             `json:"name,omitempty"`
	Labels     map[string]string  `json:"labels,omitempty"`
	Role       Role               `json:"role"`
	Platform   string             `json:"platform,omitempty"` // GOOS/GOARCH
	Version    string             `json:"version,omitempty"`
	Format     int                `json:"format,omitempty"` // highest format that it reads; 0 = never said, counts as 1
	Endpoints  wire.Endpoints     `json:"endpoints"`
	Admitted   int64              `json:"admitted,omitempty"`    // Unix seconds
	AdmittedBy string             `json:"admitted_by,omitempty"` // text of the key that signed the admission
	Auto       bool               `json:"auto,omitempty"`        // admitted by the window
	Arrived    bool               `json:"arrived,omitempty"`     // has announced itself since its admission
	OwnWish    bool               `json:"own_wish,omitempty"`    // leaving at its own wish: its key is not revoked
	Provision  Provision          `json:"provision,omitzero"`
}

// Provision is where a member stands with the provisioning queue. It is not part of what learners share.
type Provision struct {
	Stage        string    `json:"stage,omitempty"` // of the last attempt
	LastError    string    `json:"last_error,omitempty"`
	ErrorKind    string    `json:"error_kind,omitempty"` // transient, permanent, unreachable, …
	Attempts     int       `json:"attempts,omitempty"`
	Due          int64     `json:"due,omitempty"`          // Unix seconds; 0 = not waiting
	LastSuccess  int64     `json:"last_success,omitempty"` // Unix seconds
	FirstSeen    int64     `json:"first_seen,omitempty"`   // Unix seconds; 0: not since the last success
	BootID       string    `json:"boot_id,omitempty"`      // 32 hex digits
	BootCounter  uint64    `json:"boot_counter,omitempty"` // its first eight bytes
	Sequence     uint64    `json:"sequence,omitempty"`     // of the last startup event
	ConfigDigest string    `json:"config_digest,omitempty"`
	Component    string    `json:"component,omitempty"`
	Parked       bool      `json:"parked,omitempty"`
	Asked        bool      `json:"asked,omitempty"`    // a person asked for a run, and none was confirmed since
	Outcomes     []Outcome `json:"outcomes,omitempty"` // oldest first, at most MaxOutcomes
}

// Outcome is one finished attempt.
type Outcome struct {
	At     int64  `json:"at"` // Unix seconds
	Stage  string `json:"stage,omitempty"`
	Result string `json:"result,omitempty"` // provisioned, error, deferred, …
	Error  string `json:"error,omitempty"`
}

// IsZero reports whether nothing is recorded.
func (p *Provision) IsZero() bool {
	return p.Stage == "" && p.LastError == "" && p.ErrorKind == "" && p.Attempts == 0 && p.Due == 0 && p.LastSuccess == 0 && p.FirstSeen == 0 &&
		p.BootID == "" && p.BootCounter == 0 && p.Sequence == 0 && p.ConfigDigest == "" && p.Component == "" && !p.Parked && !p.Asked &&
		len(p.Outcomes) == 0
}

// refusal is why a command changed nothing: the same on every machine.
type refusal struct{ text, hint string }

func refuse(hint, format string, args ...any) *refusal {
	return &refusal{text: fmt.Sprintf(format, args...), hint: hint}
}

// textBound is one row of the bounds of a text.
type textBound struct {
	what string
	text string
	max  int
}

func checkTexts(rows ...textBound) *refusal {
	for _, r := range rows {
		switch {
		case len(r.text) > r.max:
			return refuse("shorten it", "the %s has %d bytes, at most %d are kept", r.what, len(r.text), r.max)
		case !wire.ValidText(r.text):
			return refuse("take them out", "the %s holds control characters", r.what)
		}
	}
	return nil
}

func checkLabels(labels map[string]string) *refusal {
	if len(labels) > MaxLabels {
		return refuse("drop some", "%d labels, at most %d are kept", len(labels), MaxLabels)
	}
	total := 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		total += len(key) + len(value)
		if len(key) > MaxLabelKey || !wire.ValidID(key) {
			return refuse("a label's key is 1 to 63 of A-Z a-z 0-9 . _ -", "the label key %q is not valid", clip(key))
		}
		if !wire.ValidText(value) {
			return refuse("take them out", "the value of label %q holds control characters", key)
		}
	}
	if total > MaxLabelBytes {
		return refuse("shorten them", "the labels take %d bytes, at most %d are kept", total, MaxLabelBytes)
	}
	return nil
}

func checkEndpoints(e wire.Endpoints) *refusal {
	for _, r := range []struct{ what, text string }{{"0xFC endpoint", e.FC}, {"consensus endpoint", e.Raft}} {
		switch {
		case r.text == "":
		case len(r.text) > MaxEndpoint:
			return refuse("use the machine's address", "the %s has %d bytes, at most %d are kept", r.what, len(r.text), MaxEndpoint)
		case !wire.ValidEndpoint(r.text):
			return refuse("give it as host:port", "the %s %q is not dialable", r.what, clip(r.text))
		}
	}
	return nil
}

// checkDescription judges everything that a machine says of itself.
func checkDescription(name string, labels map[string]string, platform, version string, format int, e wire.Endpoints) *refusal {
	if r := checkTexts(textBound{"name", name, MaxName}, textBound{"platform", platform, MaxPlatform},
		textBound{"version", version, MaxVersion}); r != nil {
		return r
	}
	if format < 0 {
		return refuse("leave it out, or name a format", "the format %d is negative", format)
	}
	if r := checkLabels(labels); r != nil {
		return r
	}
	return checkEndpoints(e)
}

func checkProvision(p *Provision) *refusal {
	if len(p.Outcomes) > MaxOutcomes {
		return refuse("keep the newest", "%d outcomes, at most %d are kept", len(p.Outcomes), MaxOutcomes)
	}
	if p.Attempts < 0 {
		return refuse("count from 0", "the attempts are negative")
	}
	if r := checkTexts(textBound{"stage", p.Stage, MaxStage}, textBound{"last error", p.LastError, MaxLastError},
		textBound{"kind of error", p.ErrorKind, MaxStage}, textBound{"boot id", p.BootID, MaxDigest / 2},
		textBound{"configuration digest", p.ConfigDigest, MaxDigest}, textBound{"component", p.Component, MaxComponent}); r != nil {
		return r
	}
	for i := range p.Outcomes {
		o := &p.Outcomes[i]
		if r := checkTexts(textBound{"stage of an outcome", o.Stage, MaxStage}, textBound{"result of an outcome", o.Result, MaxStage},
			textBound{"error of an outcome", o.Error, MaxOutcomeError}); r != nil {
			return r
		}
	}
	return nil
}

// fit makes s a text of at most max bytes: what is no text becomes a space, and the end is cut at a character.
func fit(s string, max int) string {
	if !wire.ValidText(s) {
		s = strings.Map(func(r rune) rune {
			if r == utf8.RuneError || !wire.ValidText(string(r)) {
				return ' '
			}
			return r
		}, s)
	}
	if len(s) <= max {
		return s
	}
	const mark = "…"
	cut := max - len(mark)
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + mark
}

// clip keeps a sentence short whatever arrived.
func clip(s string) string { return fit(s, 64) }
