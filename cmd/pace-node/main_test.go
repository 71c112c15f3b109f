package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"pace-node/internal/host"
)

// bare is this platform with nothing of ours installed: what a developer's machine has stored must not reach a test.
type bare struct{ host.Host }

func (bare) StoredSettings() (map[string]host.Setting, error) { return nil, nil }
func (bare) Installed() bool                                  { return false }
func (bare) Install(context.Context, host.Registration) (host.Outcome, error) {
	return host.Outcome{Service: "pace-node", Did: []string{"half of it"}}, host.ErrPrivilege
}
func (bare) State(context.Context) (host.State, error) { return host.State{}, nil }
func (bare) Uninstall(context.Context, string) (host.Outcome, error) {
	return host.Outcome{Service: "pace-node", StateDir: "/var/lib/pace-node", Settings: "/etc/default/pace-node"}, nil
}

// status runs the command as it would be typed.
func status(t *testing.T, argv ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(bare{newHost()}, argv, &out, &errs, nil)
	return code, out.String(), errs.String()
}

func TestExitStatusAndStreams(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	for _, c := range []struct {
		line           string
		code           int
		stdout, stderr string // parts; "" = nothing at all
	}{
		{"pace-node --help", 0, "--fleet-seed", ""},
		{"/usr/bin/pacectl --help", 0, "enroll", ""},
		{`PACECTL.EXE --help`, 0, "enroll", ""},
		{"pace-node --version", 0, "pace-node ", ""},
		{"pace-node --check-arguments --listen=:1", 0, "", ""},
		{"pace-node --check-arguments --listen=1", 78, "", "--listen"},
		{"pace-node --check-arguments --nonsense", 78, "", "--nonsense"},
		{"pace-node --nonsense", 2, "", "--nonsense"},
		{"pace-node run", 2, "", "pacectl"},
		{"pace-node --config=/not/there", 78, "", "/not/there"},
		{"pace-node --print-identity --discovery-loopback --state-dir=" + dir, 0, "node-id ", ""},
		{"pace-node --enroll-list --state-dir=" + dir, 5, "", "remedy"},
		{"pace-node --print-surfaces --fleet-seed=a --state-dir=" + dir, 0, "node tcp/6674 * network\nraft tcp/6680 * network\n", ""},
		{"pace-node --install-service --state-dir=" + dir, 1, "", "remedy: sudo "},
		{"pace-node --install-service", 1, "", "note: done before this failed: half of it"},
		{"pace-node --install-service --firewall-allow=::/0", 78, "", "that is everybody"},
		{"pace-node --uninstall-service", 0, "service pace-node\nchanged nothing: all is as it was asked for\nstate-dir /var/lib/pace-node\nsettings /etc/default/pace-node\n", ""},
		{"pacectl nonsense --state-dir=" + dir, 2, "", "nonsense"},
		{"pacectl --nonsense", 2, "", "pacectl: there is no flag"},
		{"pace-node --nonsense", 2, "", "\nremedy: pace-node --help\n"},
	} {
		code, out, errs := status(t, strings.Fields(c.line)...)
		if code != c.code || !strings.Contains(out, c.stdout) || c.stdout == "" && out != "" || !strings.Contains(errs, c.stderr) || c.stderr == "" && errs != "" {
			t.Errorf("%s: status %d, want %d\nstdout %q\nstderr %q", c.line, code, c.code, out, errs)
		}
	}
}

func TestJSONIsOneValueInFailureToo(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	for line, want := range map[string]int{
		"pace-node --json --nonsense":                       2,
		"pace-node --json --listen=1":                       78,
		"pace-node --check-arguments --json --fleet-id=x":   78,
		"pace-node --json --enroll-list --state-dir=" + dir: 5,
		"pacectl --json nonsense --state-dir=" + dir:        2,
		"pacectl --json=true --nonsense":                    2,
	} {
		code, out, _ := status(t, strings.Fields(line)...)
		var doc struct {
			Error struct{ Reason, Remedy string }
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil || code != want || doc.Error.Reason == "" || doc.Error.Remedy == "" {
			t.Errorf("%s: status %d, want %d, stdout %q: %v", line, code, want, out, err)
		}
	}
}

// TestJSONIsOneValueOfEveryVerb: also of those that need no node.
func TestJSONIsOneValueOfEveryVerb(t *testing.T) {
	for _, line := range []string{"pace-node --version --json", "pace-node --help --json", "pacectl --help --json", "pace-node --check-arguments --listen=:1 --json"} {
		code, out, errs := status(t, strings.Fields(line)...)
		var doc struct {
			V    int
			Text string
		}
		if err := json.Unmarshal([]byte(out), &doc); err != nil || code != 0 || errs != "" || doc.V != 1 || doc.Text == "" {
			t.Errorf("%s: status %d, stdout %q, stderr %q: %v", line, code, out, errs, err)
		}
	}
}

func TestPrintIdentityShape(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	_, first, _ := status(t, "pace-node", "--print-identity", "--state-dir", dir, "--advertise=10.1.0.2")
	lines := strings.Split(first, "\n")
	if len(lines) != 4 || lines[3] != "" {
		t.Fatalf("%q is not three lines", first)
	}
	id, key := strings.TrimPrefix(lines[0], "node-id "), strings.TrimPrefix(lines[1], "public-key ")
	if len(id) != 32 || len(key) != 43 || lines[2] != "cluster-admit "+id+"=10.1.0.2:6680@"+key {
		t.Errorf("%q", lines)
	}
	if _, again, _ := status(t, "pace-node", "--print-identity", "--state-dir", dir, "--advertise=10.1.0.2"); again != first {
		t.Errorf("printed twice: %q and %q", first, again)
	}
}
