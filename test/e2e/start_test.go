//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// refused starts a node that must not come up, and returns what it printed. What a busy machine adds to its time is not the
// node's: of some starts the shortest counts.
func (n *node) refused(within time.Duration, status int) string {
	n.t.Helper()
	var took []time.Duration
	for range 10 {
		began := time.Now()
		n.start()
		if got := n.ends(); got != status {
			n.t.Errorf("%s ended with status %d, want %d\n%s", n.name, got, status, n.log)
			break
		}
		if took = append(took, time.Since(began)); slices.Min(took) <= within {
			return n.log.String()
		}
	}
	if took != nil {
		n.t.Errorf("%s took %s to say so, at most %s", n.name, took, within)
	}
	return n.log.String()
}

func wants(t *testing.T, said string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			t.Errorf("it does not say %q:\n%s", w, said)
		}
	}
}

// startNames says how the line of a start names each surface of --print-surfaces.
var startNames = map[string]string{
	"node": "listen", "raft": "listen-raft", "discovery-beacon": "discovery-beacons", "discovery-reply": "discovery-answers", "admin": "admin-listen",
	"admin-socket": "admin-socket", "state-dir": "state-dir", "seed": "seeds", "pin": "fleet-pin",
}

var logAttr = regexp.MustCompile(`([a-z-]+)=("(?:[^"\\]|\\.)*"|\S*)`)

// TestStartLineNamesEverySurface: whatever --print-surfaces prints for a machine's settings is in the line with which its node
// starts, as it is really bound.
func TestStartLineNamesEverySurface(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	for _, args := range [][]string{
		{metered},
		{"--listen=:7674", "--listen-raft=10.1.0.2:7680", "--admin-listen=[::1]:7690", "--discovery-reply-port=6682", "--fleet-seed=10.1.0.77", "--fleet-seed=10.1.0.78:7000",
			"--fleet-id=" + pinOf(fmt.Sprintf("%032x", 7), newKey(7).Public())},
		{"--listen=:8674", "--listen-raft=:8680", "--discovery=", "--admin-listen="},
	} {
		n := l.hosts[0].start(t, "alder", args...)
		line := lineWith(n.log.String(), "pace-node serves")
		says := map[string]string{}
		for _, m := range logAttr.FindAllStringSubmatch(line, -1) {
			if _, twice := says[m[1]]; twice {
				t.Errorf("%s is said twice, which a reader of JSON loses: %s", m[1], line)
			}
			says[m[1]] = strings.Trim(m[2], `"`)
		}
		for surface := range strings.Lines(n.must(append([]string{"--print-surfaces"}, args...)...)) {
			f := strings.Fields(surface)
			said, ok := says[startNames[f[0]]]
			switch {
			case f[len(f)-1] == "-": // there is none
			case !ok:
				t.Errorf("%q is not in the line: %s", strings.TrimSpace(surface), line)
			case len(f) == 2: // the state directory, a seed, the pin
				if !slices.Contains(strings.Fields(strings.Trim(said, "[]")), f[1]) {
					t.Errorf("%s is said as %q", f[0], said)
				}
			case f[1] == "unix/-":
				if said != f[2] {
					t.Errorf("%q is said as %q", surface, said)
				}
			default:
				host, port, err := net.SplitHostPort(said)
				_, wanted, _ := strings.Cut(f[1], "/")
				if err != nil || port == "0" || wanted != "any" && port != wanted || f[2] != "*" && host != f[2] || f[2] == "*" && !net.ParseIP(host).IsUnspecified() {
					t.Errorf("%q is said as %q", strings.TrimSpace(surface), said)
				}
			}
		}
		n.stop()
	}
}

func TestSecondNodeOnTakenPortsLeavesTheFirstAlone(t *testing.T) { // field case P14
	t.Parallel()
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	before := a.standing()
	sessions := a.shows("its learner's session", func(d nodeDoc) bool { return d.Peers.Sessions == 1 }).Peers.Sessions
	log := a.log.String()

	// The default ports: UDP 6681 is shared, so only TCP can tell.
	second := l.hosts[0].newNode(t, "second")
	wants(t, second.refused(2*time.Second, 1), ":6674", "--listen")
	// A consensus port that is taken.
	third := l.hosts[0].newNode(t, "third", "--listen=:7674")
	wants(t, third.refused(2*time.Second, 1), ":6680", "--listen-raft")
	// A reply port that is taken; a typed one refuses.
	reply := strings.Fields(strings.SplitAfter(log, "discovery-answers=0.0.0.0:")[1])[0]
	fourth := l.hosts[0].newNode(t, "fourth", "--listen=:7674", "--listen-raft=:7680", "--discovery-reply-port="+reply)
	wants(t, fourth.refused(2*time.Second, 1), reply, "--discovery-reply-port")

	if after := a.standing(); after != before {
		t.Errorf("before %+v\nafter  %+v", before, after)
	}
	if d, err := a.status(); err != nil || d.Peers.Sessions != sessions {
		t.Errorf("%v: %d sessions, before %d", err, d.Peers.Sessions, sessions)
	}
	if d, err := a.waiting(); err != nil || len(d.Rows) != 1 {
		t.Errorf("%v: rows %+v, want the member's alone", err, d.Rows)
	}
	if m := a.metrics(); m.of(t, "pace_discovery_replies_withheld_total") != 0 {
		t.Error("the first one's budgets are touched")
	}
	b.follows(a)
}

func TestSecondNodeOnTheSameStateDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	a := l.hosts[0].start(t, "alder")
	other := l.hosts[0].newNode(t, "second", "--listen=:7674", "--listen-raft=:7680")
	other.dir = a.dir
	wants(t, other.refused(3*time.Second, 1), a.dir, "in use", "--state-dir")
	// It changed nothing, and gives the directory back with the process, however that ends.
	if _, err := a.cluster(); err != nil {
		t.Error(err)
	}
	a.kill()
	other.start()
	other.ready()
}

func TestAdminPortThatIsTakenStandsDown(t *testing.T) {
	t.Parallel()
	l := newLAN(t, 1)
	var blocker net.Listener
	l.hosts[0].in(func() { blocker, _ = net.Listen("tcp4", "127.0.0.1:6690") })
	if blocker == nil {
		t.Fatal("the port can't be taken by the test")
	}
	defer blocker.Close()
	a := l.hosts[0].start(t, "alder", metered)
	a.shows("that its metrics are off", func(d nodeDoc) bool { return d.Mode == "solitary" && d.has("admin-endpoint-off") })
}

func TestDamagedStateIsRefusedAndNothingIsMinted(t *testing.T) { // field case P30
	t.Parallel()
	l := newLAN(t, 1)
	a := l.hosts[0].start(t, "alder")
	id := a.id()
	a.stop()
	fleet := a.recordedCluster()
	for _, c := range []struct {
		file   string
		damage func(b []byte) []byte
		remedy string
	}{
		{"node-key", func([]byte) []byte { return nil }, "put that file back"},
		{"node-key", func(b []byte) []byte { b[10] ^= 1; return b }, "put that file back"},
		{"formation.json", func([]byte) []byte { return nil }, "put that file back"},
		{"consensus/raft.db", func(b []byte) []byte { return b[:len(b)/2] }, "put the file back from a backup"},
	} {
		path := filepath.Join(a.dir, c.file)
		good, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v; the directory holds %v", err, names(t, a.dir))
			continue
		}
		bad := c.damage(append([]byte(nil), good...))
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		before := everyFile(t, a.dir)
		broken := l.hosts[0].newNode(t, "broken")
		broken.dir = a.dir
		broken.start()
		if status := broken.ends(); status == 0 || status == -1 {
			t.Errorf("%s: status %d", c.file, status)
		}
		wants(t, broken.log.String(), filepath.Base(c.file), c.remedy)
		after := everyFile(t, a.dir)
		for name := range after {
			if after[name] != before[name] {
				t.Errorf("with %s damaged the start changed %s: %q, before %q", c.file, name, after[name], before[name])
			}
		}
		if len(after) != len(before) {
			t.Errorf("with %s damaged the start left %d files of %d", c.file, len(after), len(before))
		}
		if err := os.WriteFile(path, good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a.start()
	a.ready()
	if got := a.id(); got != id || a.clusterID() != fleet {
		t.Errorf("it is %s in %s now, was %s in %s", got, a.clusterID(), id, fleet)
	}
}

// everyFile is what stands below a state directory, by path, but for what each start writes: who holds the lock, and how many
// starts there were, under a checksum of the record.
func everyFile(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range names(t, dir) {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		text := string(b)
		switch name {
		case "node.lock":
			text = ""
		case "formation.json":
			_, text, _ = strings.Cut(text, "\n")
			text = regexp.MustCompile(`"boot_counter": \d+`).ReplaceAllString(text, "")
		}
		out[name] = text
	}
	return out
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			out = append(out, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
