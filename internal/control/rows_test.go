package control

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

// wantSeverities: an alert needs a person now, a warning one soon, a notice says how things are.
var wantSeverities = map[string]string{
	"alert":   "fleet-split-healing own-key-revoked pin-disagrees fleet-unreachable fleet-recovered-elsewhere formation-move-refused consensus-leader-silent consensus-store-unwritable identity-clash identity-cloned state-dir-lost fleet-state-differs fleet-format-newer",
	"warning": "alert-exec-failing foreign-fleet-visible two-voter-fleet promotion-stalled clock-skewed peers-never-authenticated discovery-no-interface admin-endpoint-off provisioning-paused provisioning-helper-missing provisioning-failing state-dir-nearly-full",
	"notice":  "enrollment-window-open enrollment-requests-waiting single-voter-fleet mixed-node-versions wire-version-seen",
}

// checkConditions holds the table of conditions against the operator's page.
func checkConditions() error {
	if len(Conditions) != len(wantConditions) {
		return fmt.Errorf("%d rows, want %d", len(Conditions), len(wantConditions))
	}
	seen := map[string]bool{}
	for _, c := range Conditions {
		severity, ok := wantConditions[c.ID]
		if !ok || seen[c.ID] || severity != "" && c.Severity.String() != severity || !slices.Contains(strings.Fields(wantSeverities[c.Severity.String()]), c.ID) {
			return fmt.Errorf("row %s %s", c.ID, c.Severity)
		}
		seen[c.ID] = true
		if c.About == "" || remedyName(c.Remedy) != "remedy" {
			return fmt.Errorf("%s has no text, or no remedy to paste: %q", c.ID, c.Remedy)
		}
		if r := Remedy(c, "web1", "10.1.0.2:6680"); Sentence(r) != r || strings.ContainsAny(r, "{}") {
			return fmt.Errorf("%s: the remedy is not pasteable as it stands: %s", c.ID, r)
		}
	}
	return nil
}

func TestMutationConditions(t *testing.T) {
	for i := range Conditions {
		for name, flip := range map[string]func(*ConditionRow){
			"the id":       func(r *ConditionRow) { r.ID += "x" },
			"the severity": func(r *ConditionRow) { r.Severity = (r.Severity + 1) % 3 },
			"the remedy":   func(r *ConditionRow) { r.Remedy = "look at it" },
			"the text":     func(r *ConditionRow) { r.About = "" },
		} {
			was := Conditions[i]
			flip(&Conditions[i])
			if checkConditions() == nil {
				t.Errorf("%s: %s flipped, and nobody noticed", was.ID, name)
			}
			Conditions[i] = was
		}
	}
}

// wantExits: 1 what no second try mends, 4 refused by the node, 5 nobody there who could.
var wantExits = map[wire.ErrorCode]int{1: 1, 2: 1, 3: 1, 4: 1, 5: 5, 6: 4, 7: 4, 8: 4, 9: 4, 10: 4, 11: 4, 12: 4, 13: 5, 14: 4, 15: 5, 16: 5, 17: 4, 18: 4}

func checkExits() error {
	if len(Exits) != len(wantExits) || len(Exits) != len(wire.Codes) {
		return fmt.Errorf("%d rows", len(Exits))
	}
	rows := map[wire.ErrorCode]bool{}
	for _, r := range Exits {
		rows[r.Code] = r.Code != wire.CodeDissolved || r.Prefix == "" // its text is the signed order, which nobody reads
	}
	for code, exit := range wantExits {
		f := failureOf(&wire.Error{Code: code, Text: "7"}, true)
		if !rows[code] || f.Exit != exit || f.Remedy == "" {
			return fmt.Errorf("code %d: %+v", code, f)
		}
		named := code == wire.CodeNotLeader || code == wire.CodeRevoked // their text is a value
		if code != wire.CodeDissolved && named == (f.Reason == "7") {
			return fmt.Errorf("code %d says %q", code, f.Reason)
		}
	}
	return nil
}

func TestExitsTable(t *testing.T) {
	if err := checkExits(); err != nil {
		t.Fatal(err)
	}
	if config.ExitFailed != 1 || config.ExitUsage != 2 || config.ExitRefused != 4 || config.ExitNobody != 5 {
		t.Error("the statuses have other numbers")
	}
}

func TestMutationExits(t *testing.T) {
	for i := range Exits {
		for name, flip := range map[string]func(*ExitRow){
			"the code":   func(r *ExitRow) { r.Code = 99 },
			"the status": func(r *ExitRow) { r.Exit = 3 },
			"the prefix": func(r *ExitRow) {
				if r.Prefix = "the " + r.Prefix; r.Code == wire.CodeNotLeader || r.Code == wire.CodeRevoked {
					r.Prefix = ""
				}
			},
			"the remedy": func(r *ExitRow) { r.Remedy = "" },
		} {
			was := Exits[i]
			flip(&Exits[i])
			if checkExits() == nil {
				t.Errorf("code %d: %s flipped, and nobody noticed", was.Code, name)
			}
			Exits[i] = was
		}
	}
}
