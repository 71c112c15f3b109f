//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// report is what `pacectl doctor --json` prints.
type report struct {
	Verdict  string `json:"verdict"`
	Findings []struct {
		Check   string `json:"check"`
		Verdict string `json:"verdict"`
		Detail  string `json:"detail"`
		Remedy  string `json:"remedy"`
	} `json:"findings"`
	text string
}

// doctor asks what is wrong with the node's machine, or with another one from it, and holds the exit status.
func (n *node) doctor(args ...string) (d report) {
	n.t.Helper()
	cmd := n.inside(append([]string{filepath.Join(filepath.Dir(binary), "pacectl"), "--state-dir=" + n.dir, "--json", "doctor"}, args...)...)
	cmd.Env = append(os.Environ(), n.env...)
	out, err := cmd.Output()
	if failed := json.Unmarshal(out, &d); failed != nil {
		n.t.Fatalf("doctor: %v, %v: %s", err, failed, out)
	}
	if status := cmd.ProcessState.ExitCode(); (status == 1) != (d.Verdict == "problem") || status > 1 {
		n.t.Errorf("doctor ends with %d and says %s", status, d.Verdict)
	}
	d.text = string(out)
	return d
}

// finds holds that a check has that verdict, and a detail and a remedy with these words.
func (d report) finds(t *testing.T, verdict, check, detail, remedy string) {
	t.Helper()
	for _, f := range d.Findings {
		if f.Check == check && f.Verdict == verdict && strings.Contains(f.Detail, detail) && strings.Contains(f.Remedy, remedy) {
			return
		}
	}
	t.Errorf("no %s of %s that says %q and %q:\n%s", verdict, check, detail, remedy, d.text)
}

// of is the verdict of a check.
func (d report) of(check string) string {
	for _, f := range d.Findings {
		if f.Check == check {
			return f.Verdict
		}
	}
	return ""
}

func TestDoctorPortTaken(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	h := l.hosts[0]
	holder := h.start(t, "alder")
	second := h.newNode(t, "second")
	second.refused(patience, 1)
	d := second.doctor()
	d.finds(t, "problem", "ports", "tcp port 6674 (node, --listen) is taken by pace-node, process", "ss -ltnp sport = :6674")
	d.finds(t, "problem", "node", "no node answers", "--install-service")
	d = holder.doctor()
	if d.Verdict == "problem" || d.of("ports") != "ok" || d.of("node") != "ok" {
		t.Errorf("the machine whose ports they are: %s", d.text)
	}
}

func TestDoctorStateDirectoryOfAnother(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	n := l.hosts[0].start(t, "alder")
	n.stop()
	if err := os.Chown(n.dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	n.refused(patience, 1)
	n.doctor().finds(t, "problem", "state-directory", "belongs to user 12345", "chown -R 0 "+n.dir)
}

func TestDoctorDiskNearlyFull(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	n := l.hosts[0].diskNode(t, "alder", 32)
	n.start()
	n.ready()
	if v := n.doctor().of("disk"); v != "ok" {
		t.Errorf("an empty disk is %s", v)
	}
	n.disk.fill(1)
	n.doctor().finds(t, "problem", "disk", "MiB of ", "df -h "+n.dir)
	n.stop()
	n.doctor().finds(t, "problem", "disk", "MiB of ", "df -h "+n.dir)
}
