package target

import "pace-node/internal/wire"

// Mode is when a machine wants to be provisioned.
type Mode string

// The modes.
const (
	ModeAuto   Mode = "auto"   // once in a fleet, and when its configuration is missing or damaged
	ModeAlways Mode = "always" // at each boot too
	ModeNever  Mode = "never"
)

// Modes lists them.
var Modes = []Mode{ModeAuto, ModeAlways, ModeNever}

// Reasons that a machine gives for wanting provisioning.
const (
	WhyFirstBoot    = "first boot in this fleet"
	WhyReprovision  = "reprovision" // followed by ": " and the operator's reason, if there is one
	WhyMissing      = "provisioned configuration missing"
	WhyDamaged      = "provisioned configuration damaged" // followed by ": " and what
	WhyUnconfirmed  = "configuration not confirmed"
	WhyAlways       = wire.WantsAlways
	WhyRecordUnread = "the record of what was provisioned does not read"
	whyNever        = "--provision-mode=never"
)

// facts is what the table of wants looks at.
type facts struct {
	mode      Mode
	cluster   string // the fleet that this machine is in
	asked     string // why it was asked for, while no configuration of that demand is confirmed
	current   configured
	confirmed string // digest that the fleet has confirmed since, "" if none
}

// wantRow is one row of the table of wants; the first whose When holds decides.
type wantRow struct {
	Name  string
	When  func(f facts) bool
	Wants bool
	Why   func(f facts) string
}

func because(text string) func(facts) string { return func(facts) string { return text } }

// wantRows is the table of wants. A demand stays until a configuration that was made for it is confirmed, whatever
// happens to the folder meanwhile.
var wantRows = []wantRow{
	{"never", func(f facts) bool { return f.mode == ModeNever }, false, because(whyNever)},
	{"demand", func(f facts) bool { return f.confirmed == "" }, true, func(f facts) string {
		if f.asked == "" {
			return WhyFirstBoot
		}
		return f.asked
	}},
	{"missing", func(f facts) bool { return f.current.missing() }, true, because(WhyMissing)},
	{"damaged", func(f facts) bool { return f.current.damage != "" }, true, func(f facts) string { return WhyDamaged + ": " + f.current.damage }},
	{"other fleet", func(f facts) bool { return f.current.manifest.Cluster != f.cluster }, true, because(WhyUnconfirmed)},
	{"other configuration", func(f facts) bool { return f.current.manifest.Digest != f.confirmed }, true, because(WhyUnconfirmed)},
	{"provisioned", func(facts) bool { return true }, false, because("")},
}

func wants(f facts) (bool, string) {
	for _, r := range wantRows {
		if r.When(f) {
			return r.Wants, r.Why(f)
		}
	}
	return true, WhyUnconfirmed
}

// confirmRow is one row of what keeps a confirmation from counting.
type confirmRow struct {
	Reason Reason
	Bad    func(f facts, demand uint64, digest string) bool
}

// confirmRows is asked in order. The demand's number keeps a confirmation that was committed before the demand, and is
// told again by a fleet's state, from answering it.
var confirmRows = []confirmRow{
	{ReasonOtherConfirm, func(f facts, _ uint64, digest string) bool {
		return digest == "" || f.current.manifest.Digest != digest
	}},
	{ReasonDamaged, func(f facts, _ uint64, _ string) bool { return f.current.damage != "" }},
	{ReasonForeignConfig, func(f facts, _ uint64, _ string) bool { return f.current.manifest.Cluster != f.cluster }},
	{ReasonStaleConfirm, func(f facts, demand uint64, _ string) bool { return f.current.manifest.Demand != demand }},
}

func confirms(f facts, demand uint64, digest string) (Reason, bool) {
	for _, r := range confirmRows {
		if r.Bad(f, demand, digest) {
			return r.Reason, false
		}
	}
	return "", true
}
