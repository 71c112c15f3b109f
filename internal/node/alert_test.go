package node

import (
	"strings"
	"testing"
	"time"

	"pace-node/internal/control"
)

// standing is a raised condition as the board lists it.
func standing(id string, severity control.Severity, detail string, since time.Duration) control.ConditionStatus {
	return control.ConditionStatus{ID: id, Severity: severity.String(), Detail: detail, Remedy: "pacectl node", SinceMS: since.Milliseconds()}
}

func TestWhenAPersonIsCalled(t *testing.T) {
	start := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	alert := func(since time.Duration) control.ConditionStatus {
		return standing("fleet-unreachable", control.Alert, "no voter", since)
	}
	waiting := func(detail string, since time.Duration) control.ConditionStatus {
		return standing("enrollment-requests-waiting", control.Notice, detail, since)
	}
	type moment struct {
		at     time.Duration
		raised []control.ConditionStatus
		due    string // whose call; empty: nobody's
		well   bool   // how the run goes, where there is one
	}
	for name, moments := range map[string][]moment{
		"an alert is told once, when it has stood": {
			{0, []control.ConditionStatus{alert(0)}, "", false},
			{14 * time.Second, []control.ConditionStatus{alert(14 * time.Second)}, "", false},
			{15 * time.Second, []control.ConditionStatus{alert(15 * time.Second)}, "fleet-unreachable", true},
			{16 * time.Second, []control.ConditionStatus{alert(16 * time.Second)}, "", false},
			{48 * time.Hour, []control.ConditionStatus{alert(48 * time.Hour)}, "", false},
		},
		"a warning and a notice call nobody": {
			{time.Hour, []control.ConditionStatus{standing("clock-skewed", control.Warning, "", time.Hour), standing("single-voter-fleet", control.Notice, "", time.Hour)}, "", false},
		},
		"another detail of an alert is no other call": {
			{time.Minute, []control.ConditionStatus{alert(time.Minute)}, "fleet-unreachable", true},
			{time.Hour, []control.ConditionStatus{standing("fleet-unreachable", control.Alert, "for two days", time.Hour)}, "", false},
		},
		"what comes and goes is told a quarter of an hour apart": {
			{time.Minute, []control.ConditionStatus{alert(time.Minute)}, "fleet-unreachable", true},
			{2 * time.Minute, nil, "", false},
			{3 * time.Minute, []control.ConditionStatus{alert(time.Minute)}, "", false},
			{15*time.Minute + 59*time.Second, []control.ConditionStatus{alert(13 * time.Minute)}, "", false},
			{16 * time.Minute, []control.ConditionStatus{alert(14 * time.Minute)}, "fleet-unreachable", true},
		},
		"more machines wait: told again, not before": {
			{time.Minute, []control.ConditionStatus{waiting("1 machine waits", time.Minute)}, "enrollment-requests-waiting", true},
			{2 * time.Minute, []control.ConditionStatus{waiting("2 machines wait", 2*time.Minute)}, "", false},
			{16 * time.Minute, []control.ConditionStatus{waiting("2 machines wait", 16*time.Minute)}, "enrollment-requests-waiting", true},
			{40 * time.Minute, []control.ConditionStatus{waiting("2 machines wait", 40*time.Minute)}, "", false},
		},
		"a failed run is tried again a minute later, five times in all": {
			{1 * time.Minute, []control.ConditionStatus{alert(1 * time.Minute)}, "fleet-unreachable", false},
			{119 * time.Second, []control.ConditionStatus{alert(119 * time.Second)}, "", false},
			{2 * time.Minute, []control.ConditionStatus{alert(2 * time.Minute)}, "fleet-unreachable", false},
			{3 * time.Minute, []control.ConditionStatus{alert(3 * time.Minute)}, "fleet-unreachable", false},
			{4 * time.Minute, []control.ConditionStatus{alert(4 * time.Minute)}, "fleet-unreachable", false},
			{5 * time.Minute, []control.ConditionStatus{alert(5 * time.Minute)}, "fleet-unreachable", false},
			{6 * time.Minute, []control.ConditionStatus{alert(6 * time.Minute)}, "", false},
			{48 * time.Hour, []control.ConditionStatus{alert(48 * time.Hour)}, "", false},
		},
		"a failed run holds no other call up": {
			{time.Minute, []control.ConditionStatus{alert(time.Minute), waiting("1 machine waits", time.Minute)}, "fleet-unreachable", false},
			{61 * time.Second, []control.ConditionStatus{alert(61 * time.Second), waiting("1 machine waits", 61*time.Second)}, "enrollment-requests-waiting", true},
			{2 * time.Minute, []control.ConditionStatus{alert(2 * time.Minute), waiting("1 machine waits", 2*time.Minute)}, "fleet-unreachable", true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &alerts{}
			for i, m := range moments {
				now := start.Add(m.at)
				c, ok := a.due(now, m.raised)
				if got := c.ID; !ok && m.due != "" || ok && got != m.due {
					t.Fatalf("moment %d, after %s: %q is due (%v), want %q", i, m.at, got, ok, m.due)
				}
				if !ok {
					continue
				}
				a.running = true
				if _, another := a.due(now, m.raised); another {
					t.Fatalf("moment %d: a second run beside the first", i)
				}
				a.running = false
				a.ended(now, c, m.well)
			}
		})
	}
}

// TestAlertDocumentIsQuiet: what another machine chose runs nothing in the shell of a program that reads the environment,
// and no key leaves with it.
func TestAlertDocumentIsQuiet(t *testing.T) {
	d := control.AlertDocument{V: control.DocumentVersion, Condition: "identity-clash", Severity: "alert", Name: "$(id)\n",
		Detail: "`id`; $(id) \x1b[2J -----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----"}
	in, err := d.Input()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(d.Environment(), string(in[:len(in)-1])) {
		if strings.ContainsAny(text, "`$\x1b\n") {
			t.Errorf("%q", text)
		}
		if strings.Contains(text, "SECRET") {
			t.Errorf("a key in %q", text)
		}
	}
}

func TestAlertCommandIsJudged(t *testing.T) {
	if _, err := alertArgv(`"open`); err == nil || !strings.Contains(err.Error(), "--alert-exec") {
		t.Error(err)
	}
	if argv, err := alertArgv(`/usr/bin/mail -s 'a fleet' root`); err != nil || len(argv) != 4 || argv[2] != "a fleet" {
		t.Error(argv, err)
	}
}
