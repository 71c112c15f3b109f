package target

import (
	"errors"
	"strconv"
	"unicode/utf8"
)

// Reason is why a step was refused or did not end well. It is the label that refusals are counted under.
type Reason string

// The reasons.
const (
	ReasonUnknownStep   Reason = "unknown_step"
	ReasonClosed        Reason = "closed"
	ReasonBusy          Reason = "busy"
	ReasonTooLarge      Reason = "too_large"
	ReasonNotUTF8       Reason = "not_utf8"
	ReasonNotJSON       Reason = "not_json"
	ReasonWrongType     Reason = "wrong_type"
	ReasonOtherCluster  Reason = "other_cluster"
	ReasonEmpty         Reason = "empty_configuration"
	ReasonSettingName   Reason = "setting_name"
	ReasonTooMany       Reason = "too_many"
	ReasonTooLong       Reason = "too_long"
	ReasonCertificate   Reason = "certificate"
	ReasonCA            Reason = "ca"
	ReasonKey           Reason = "key"
	ReasonPair          Reason = "key_and_certificate"
	ReasonPolicyName    Reason = "policy_name"
	ReasonFileName      Reason = "file_name"
	ReasonFileMode      Reason = "file_mode"
	ReasonNameClash     Reason = "name_clash"
	ReasonCancelled     Reason = "cancelled"
	ReasonChangedFleet  Reason = "changed_fleet"
	ReasonStorage       Reason = "storage"
	ReasonNothing       Reason = "nothing_configured"
	ReasonDamaged       Reason = "damaged"
	ReasonOtherDigest   Reason = "other_digest"
	ReasonFacts         Reason = "facts"
	ReasonCannotDoSo    Reason = "not_possible_here"
	ReasonNotUpgraded   Reason = "not_upgraded"    // worth another try
	ReasonNoUpgrade     Reason = "upgrade_refused" // not until somebody mends it
	ReasonHook          Reason = "hook"            // a hook did not end well
	ReasonHookRefused   Reason = "hook_refused"    // a hook that others than the administrator could change
	ReasonHookUnit      Reason = "hooks_not_enabled"
	ReasonStaleConfirm  Reason = "confirm_older_demand" // a confirmation of what was configured before the last demand
	ReasonOtherConfirm  Reason = "confirm_other_digest"
	ReasonForeignConfig Reason = "confirm_other_fleet"
)

// ReasonRow is one row of Reasons.
type ReasonRow struct {
	Reason    Reason
	Transient bool // the same request may succeed later
}

// Reasons is the table of refusals. What is wrong in the body stays wrong; what lies in the moment or in this machine is
// worth another try.
var Reasons = []ReasonRow{
	{ReasonUnknownStep, false},
	{ReasonClosed, true},
	{ReasonBusy, true},
	{ReasonTooLarge, false},
	{ReasonNotUTF8, false},
	{ReasonNotJSON, false},
	{ReasonWrongType, false},
	{ReasonOtherCluster, true},
	{ReasonEmpty, false},
	{ReasonSettingName, false},
	{ReasonTooMany, false},
	{ReasonTooLong, false},
	{ReasonCertificate, false},
	{ReasonCA, false},
	{ReasonKey, false},
	{ReasonPair, false},
	{ReasonPolicyName, false},
	{ReasonFileName, false},
	{ReasonFileMode, false},
	{ReasonNameClash, false},
	{ReasonCancelled, true},
	{ReasonChangedFleet, true},
	{ReasonStorage, true},
	{ReasonNothing, true},
	{ReasonDamaged, true},
	{ReasonOtherDigest, true},
	{ReasonFacts, true},
	{ReasonCannotDoSo, false},
	{ReasonNotUpgraded, true},
	{ReasonNoUpgrade, false},
	{ReasonHook, true},
	{ReasonHookRefused, true},
	{ReasonHookUnit, true},
	{ReasonStaleConfirm, true},
	{ReasonOtherConfirm, true},
	{ReasonForeignConfig, true},
}

// transient reports whether the same request may succeed later.
func transient(r Reason) bool {
	for i := range Reasons {
		if Reasons[i].Reason == r {
			return Reasons[i].Transient
		}
	}
	return false
}

// refusal is a step that was refused or failed: the reason that is counted, and the sentence that the operator reads.
type refusal struct {
	reason Reason
	text   string
}

func (r *refusal) Error() string { return r.text }

func refuse(r Reason, text string) *refusal { return &refusal{r, text} }

// What a caller may ask about an error of this package with errors.Is.
var (
	// ErrConfig: Open was given something that it cannot work with.
	ErrConfig = errors.New("target: not a usable configuration of the target")
	// ErrFolder: the folder cannot be used.
	ErrFolder = errors.New("target: the folder of the provisioned configuration cannot be used")
	// ErrNotKept is what a permission is refused with that could not be written down: the disk is full, and may not be later.
	ErrNotKept = errors.New("the lease could not be recorded as spent")
	// ErrClosed: the target was closed.
	ErrClosed = errors.New("target: this node is stopping")
	// errChangedFleet ends a step at its boundary.
	errChangedFleet = errors.New("target: this machine changed fleet")
)

// BusyText is the error of a step that another one keeps waiting. A node that wants to say so on the wire compares an
// answer's Error with it.
const BusyText = "another step is running on this machine; try again when it has ended"

// shown quotes a name that came from elsewhere, shortened.
func shown(s string) string {
	more := ""
	if len(s) > MaxShown {
		n := MaxShown
		for n > MaxShown-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		s, more = s[:n], "…"
	}
	return strconv.Quote(s) + more
}
