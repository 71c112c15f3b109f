//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// helper writes a provisioning helper in shell: it gives each machine its own id back, and keeps what it was given.
func helper(t *testing.T, body string) (command, folder string) {
	t.Helper()
	folder = t.TempDir()
	path := filepath.Join(folder, "helper.sh")
	script := "#!/bin/sh\nset -eu\nin=$(cat)\nid=$(printf '%s' \"$in\" | sed -n 's/.*\"identity\":\"\\([^\"]*\\)\".*/\\1/p')\nprintf '%s' \"$in\" > \"$1/$id.in\"\n" + body
	if err := writeProgram(path, []byte(script)); err != nil {
		t.Fatal(err)
	}
	return path + " " + folder, folder
}

// configuration is what the machine was given, nil before.
func (n *node) configuration() map[string]string {
	b, err := os.ReadFile(filepath.Join(n.dir, "provisioned", "current", "configuration.json"))
	if err != nil {
		return nil
	}
	var out map[string]string
	if err := json.Unmarshal(b, &out); err != nil {
		n.t.Fatalf("%s: %v", n.name, err)
	}
	return out
}

func (n *node) configured(key, value string) {
	n.t.Helper()
	until(n.t, n.name+" is configured", func() (bool, string) {
		c := n.configuration()
		return c != nil && c[key] == value, fmt.Sprint(c)
	})
}

// provisioned waits until the fleet counts another machine as provisioned.
func (n *node) provisioned(other *node) {
	n.t.Helper()
	until(n.t, other.name+" counts as provisioned", func() (bool, string) {
		d, err := n.cluster()
		if err != nil {
			return false, err.Error()
		}
		for _, m := range d.Members {
			if m.ID == other.id() {
				return m.Provisioning == "provisioned", m.Provisioning
			}
		}
		return false, "no member"
	})
}

// state of a machine in the queue, "" where it is in none.
func (n *node) queued(id string) string {
	out, err := n.pacectl("queue", "list", "--json")
	if err != nil {
		return ""
	}
	var doc struct {
		Entries []struct {
			ID, State string
			LastError string `json:"last_error"`
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		n.t.Fatalf("%v: %s", err, out)
	}
	for _, e := range doc.Entries {
		if e.ID == id {
			return e.State + " " + e.LastError
		}
	}
	return ""
}

func TestProvisioningEndToEnd(t *testing.T) {
	t.Parallel()
	command, folder := helper(t, `printf '{"configuration":{"greeting":"hello %s","main":"yes"},"msg":"done"}' "$id"`+"\n")
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder", metered, "--provision-helper="+command)
	a.configured("greeting", "hello "+a.id()) // a fleet of one provisions itself
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch", "--label=rack=7")
	c := l.hosts[2].joined(t, a, "cedar")
	for _, n := range []*node{b, c} {
		n.configured("greeting", "hello "+n.id())
		n.configured("main", "yes")
	}
	// The helper was told who asks, and by whom it is called what.
	in, err := os.ReadFile(filepath.Join(folder, b.id()+".in"))
	if err != nil {
		t.Fatal(err)
	}
	wants(t, string(in), `"name":"birch"`, `"rack":"7"`, `"inventory":"{`, `"cluster_id":"`)
	for _, n := range []*node{a, b, c} {
		a.provisioned(n)
	}
	until(t, "all three are counted", func() (bool, string) {
		got := a.metrics().of(t, "pace_provision_provisioned_total")
		return got >= 3, fmt.Sprint(got)
	})
	for name, v := range a.metrics() {
		// A busy machine may not answer a step in its time, and the run comes again; what the helper does has a time of its own.
		busy := strings.Contains(name, `"probe"`) || strings.Contains(name, `"inventory"`) || strings.Contains(name, `"configure"`)
		if strings.HasPrefix(name, "pace_provision_errors_total") && !busy && v != 0 {
			t.Errorf("%s = %v", name, v)
		}
	}
	// Modes: nobody else reads it.
	for path, mode := range map[string]os.FileMode{"provisioned/current": 0o700, "provisioned/current/configuration.json": 0o600} {
		if st, err := os.Stat(filepath.Join(b.dir, path)); err != nil || st.Mode().Perm()&^mode != 0 {
			t.Errorf("%s: %v, %v", path, st.Mode(), err)
		}
	}
	// Another answer takes its place when an operator asks for it, and what was before is kept.
	script := filepath.Join(folder, "helper.sh")
	s, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := replaceProgram(script, []byte(strings.Replace(string(s), "hello %s", "good day %s", 1))); err != nil {
		t.Fatal(err)
	}
	if out, err := a.pacectl("queue", "reprovision", "birch"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.configured("greeting", "good day "+b.id())
	if before, err := os.ReadFile(filepath.Join(b.dir, "provisioned", "previous", "configuration.json")); err != nil || !strings.Contains(string(before), "hello "+b.id()) {
		t.Errorf("what was before is not kept: %v %s", err, before)
	}
}

func TestHelperThatFailsIsShownAndCuredByARetry(t *testing.T) {
	t.Parallel()
	command, folder := helper(t, `if [ ! -e "$1/go" ]; then echo "the shelf is empty" >&2; exit 3; fi
printf '{"configuration":{"greeting":"hello"}}'`+"\n")
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered, "--provision-helper="+command)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	until(t, "the failure is shown with the helper's words", func() (bool, string) {
		s := a.queued(b.id())
		return strings.Contains(s, "the shelf is empty") && strings.Contains(s, "3"), s
	})
	if c := b.configuration(); c != nil {
		t.Errorf("configured all the same: %v", c)
	}
	if err := os.WriteFile(filepath.Join(folder, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := a.pacectl("queue", "retry", "birch"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.configured("greeting", "hello")
	// A retry of what can't be retried says so, and is no success.
	if out, err := a.pacectl("queue", "retry", "nobody-of-that-name"); err == nil {
		t.Errorf("a retry of nobody succeeds: %s", out)
	}
}

// TestHooks: programs of a machine's own run with each configuration, as real root does, and one that fails has what was
// there before put back, in words that the operator reads.
func TestHooks(t *testing.T) {
	t.Parallel()
	command, folder := helper(t, `printf '{"configuration":{"greeting":"hello"},"server_claims":{"role":"web"}}'`+"\n")
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered, "--provision-helper="+command)
	nextSecond(t)
	did := filepath.Join(folder, "did")
	b := l.hosts[1].joined(t, a, "birch")
	hooks := filepath.Join(b.state(), "hooks.d")
	put := func(name, body string) {
		t.Helper()
		if err := os.MkdirAll(hooks, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := writeProgram(filepath.Join(hooks, name), []byte("#!/bin/sh\nin=$(cat)\n"+body+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	a.provisioned(b)
	put("10-note", `echo "$in" | sed 's/.*"why":"\([^"]*\)".*"greeting":"\([^"]*\)".*"server_claims":\(.*\)}$/\1 \2 \3/' >>`+did+`; id -u >>`+did)
	put("20-picky", `case "$in" in *'good day'*) echo "no such greeting" >&2; exit 5;; esac`)
	says := func(greeting string) {
		t.Helper()
		s := filepath.Join(folder, "helper.sh")
		old, err := os.ReadFile(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, was := range []string{"hello", "good day", "good evening"} {
			old = []byte(strings.Replace(string(old), `"greeting":"`+was+`"`, `"greeting":"`+greeting+`"`, 1))
		}
		if err := replaceProgram(s, old); err != nil { // one that failed is run again meanwhile
			t.Fatal(err)
		}
		if out, err := a.pacectl("queue", "reprovision", "birch"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	says("hello") // the hooks were not there yet when it was first provisioned
	until(t, "the hook ran as root", func() (bool, string) {
		b, _ := os.ReadFile(did)
		return strings.HasPrefix(string(b), "configured hello {\"role\":\"web\"}\n0\n"), string(b)
	})
	says("good day")
	until(t, "the failing hook is shown with its words, and what was there is back", func() (bool, string) {
		s := a.queued(b.id())
		return strings.Contains(s, `the hook "20-picky" ended with exit code 5; its stderr: "no such greeting"`) && strings.Contains(s, "the configuration before it is back, and its hooks ran"), s
	})
	b.configured("greeting", "hello")
	if got, err := os.ReadFile(did); err != nil || !strings.Contains(string(got), "configured good day") || !strings.Contains(string(got), "rolled-back hello") {
		t.Errorf("the hooks: %v\n%s", err, got)
	}
	// Somebody else's hook is refused, and none runs.
	if err := os.Chmod(filepath.Join(hooks, "10-note"), 0o777); err != nil {
		t.Fatal(err)
	}
	says("good evening")
	until(t, "the refusal is shown with its remedy", func() (bool, string) {
		s := a.queued(b.id())
		return strings.Contains(s, `the hook "10-note" is refused`) && strings.Contains(s, "chmod go-w"), s
	})
	b.configured("greeting", "hello")
	if err := os.Chmod(filepath.Join(hooks, "10-note"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := a.pacectl("queue", "retry", "birch"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b.configured("greeting", "good evening")
}
