package control

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pace-node/internal/config"
)

// doctored runs pacectl doctor with what a look at the machine found.
func doctored(t *testing.T, asJSON bool, look func(ctx context.Context, host string, ask DoctorAsk) (DoctorReport, error), args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	return nodes{"": leaderNode()}.runWith(t, words(append([]string{"doctor"}, args...)...), config.Config{JSON: asJSON}, "", func(d *RunDeps) { d.Doctor = look })
}

func TestDoctorStatus(t *testing.T) {
	for verdict, want := range map[string]int{"ok": 0, "unknown": 0, "notice": 0, "warning": 0, "problem": 1} {
		for _, asJSON := range []bool{false, true} {
			exit, out, errs := doctored(t, asJSON, func(context.Context, string, DoctorAsk) (DoctorReport, error) {
				return DoctorReport{Verdict: verdict, Findings: []DoctorFinding{{Check: "ports", Verdict: verdict, Detail: "d", Remedy: "r"}}}, nil
			})
			if exit != want || errs != "" {
				t.Errorf("%s: status %d, want %d; %q", verdict, exit, want, errs)
			}
			if asJSON {
				wantOneJSON(t, out)
			} else if !strings.Contains(out, verdict+" ports: d\n") || !strings.HasSuffix(out, "verdict 1 "+verdict+"\n") {
				t.Errorf("%s: %q", verdict, out)
			}
		}
	}
}

func TestDoctorAsksTheNode(t *testing.T) {
	exit, out, errs := doctored(t, false, func(ctx context.Context, host string, ask DoctorAsk) (DoctorReport, error) {
		ask.Progress("nobody sees this: no terminal")
		node, err := ask.Node(ctx)
		facts, err2 := ask.Facts(ctx)
		if err != nil || err2 != nil || node.NodeID == "" || facts.BeaconsSent != 7 {
			t.Errorf("%v, %v", err, err2)
		}
		return DoctorReport{Target: host, Verdict: "ok"}, nil
	}, "10.1.0.9")
	if exit != 0 || !strings.HasPrefix(out, "target 10.1.0.9\n") || errs != "" {
		t.Errorf("%d %q %q", exit, out, errs)
	}
}

func TestDoctorFails(t *testing.T) {
	exit, out, errs := doctored(t, true, func(context.Context, string, DoctorAsk) (DoctorReport, error) {
		return DoctorReport{}, errors.New("no such machine")
	}, "x")
	if exit != 1 || !strings.Contains(out, "no such machine") {
		t.Errorf("%d %q %q", exit, out, errs)
	}
	wantOneJSON(t, out)
	if exit, _, _ := doctored(t, false, nil); exit != 1 {
		t.Errorf("without a machine to look at: %d", exit)
	}
}

// TestDoctorEscapes: what another machine said is a detail, and runs nothing.
func TestDoctorEscapes(t *testing.T) {
	for _, text := range hostile {
		_, out, _ := doctored(t, false, func(context.Context, string, DoctorAsk) (DoctorReport, error) {
			return DoctorReport{Verdict: "warning", Findings: []DoctorFinding{{Check: "clock", Verdict: "warning", Detail: text}}}, nil
		}, "x")
		if strings.ContainsAny(out, "$`;|&<>(){}\x1b\x00") || strings.Count(out, "\n") != 2 {
			t.Errorf("%q is shown as %q", text, out)
		}
	}
}
