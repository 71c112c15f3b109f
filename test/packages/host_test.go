//go:build linux && packages

package packages

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// ours is what a package puts on a machine, or what makes one of it. None of it may come to, go from, or change on the machine
// that runs the tests.
var ours = []string{
	"/etc/default/pace-node*", "/etc/pace-node*", "/etc/init.d/pace-node*", "/etc/rc?.d/*pace-node*", "/etc/ufw/applications.d/pace-node*",
	"/etc/systemd/system/*pace*", "/etc/systemd/system/*.wants/*pace*", "/etc/systemd/system/pace-node.service.d/*",
	"/lib/systemd/system/*pace-node*", "/usr/lib/systemd/system/*pace-node*", "/usr/lib/systemd/system-preset/*pace-node*",
	"/usr/lib/sysusers.d/*pace-node*", "/usr/lib/firewalld/services/*pace-node*", "/usr/libexec/pace-node*", "/usr/share/pace-node*", "/usr/share/doc/pace-node*",
	"/usr/bin/pace*", "/usr/sbin/pace*", "/usr/local/bin/pace*", "/opt/pace-node*", "/Library",
	"/var/lib/pace-node*", "/var/log/pace-node*", "/run/pace-node*",
	"/var/lib/systemd/deb-systemd-helper-enabled/pace-node*", "/var/lib/systemd/deb-systemd-helper-masked/pace-node*",
	"/var/lib/dpkg/info/pace-node*", "/etc/nftables.conf", "/etc/hostname",
	fmt.Sprintf("/run/systemd/nspawn/propagate/pk%d-*", os.Getpid()), fmt.Sprintf("/run/netns/pk%d-*", os.Getpid()),
}

// hostNow is every such file with what is in it.
func hostNow(patterns []string) (map[string]string, error) {
	out := map[string]string{}
	note := func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // it went meanwhile, or is nobody's to read: its folder tells
		}
		info, err := os.Lstat(path)
		if err != nil {
			return nil
		}
		text := info.Mode().String()
		switch {
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return nil
			}
			text += fmt.Sprintf(" %x", sha256.Sum256(data))
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(path)
			text += " " + to
		}
		out[path] = text
		return nil
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", pattern, err)
		}
		for _, path := range found {
			if err := filepath.WalkDir(path, note); err != nil {
				return nil, err
			}
		}
	}
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if strings.Contains(line, "pace") {
				out[file+": "+strings.TrimSpace(line)] = ""
			}
		}
	}
	// What is running from where a package puts it.
	processes, _ := filepath.Glob("/proc/[0-9]*/root")
	here, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	for _, root := range processes {
		process := filepath.Dir(root)
		if there, err := os.Readlink(process + "/ns/mnt"); err != nil || there != here {
			continue // a booted system's, or gone
		}
		if exe, _ := os.Readlink(process + "/exe"); exe == "/usr/bin/pace-node" || exe == "/usr/local/bin/pace-node" {
			out[process] = exe
		}
	}
	return out, nil
}

// changes are the lines of what differs between two looks at the machine.
func changes(before, after map[string]string) (out []string) {
	for path, was := range before {
		if is, there := after[path]; !there {
			out = append(out, path+" is gone")
		} else if is != was {
			out = append(out, path+" is changed")
		}
	}
	for path := range after {
		if _, there := before[path]; !there {
			out = append(out, path+" is new")
		}
	}
	slices.Sort(out)
	return out
}

// TestMain fails a run after which this machine is another one, whatever its tests say.
func TestMain(m *testing.M) {
	before, err := hostNow(ours)
	status := m.Run()
	after, failed := hostNow(ours)
	for _, err := range []error{err, failed} {
		if err != nil {
			fmt.Fprintln(os.Stderr, "FAIL: this machine could not be looked at:", err)
			status = 1
		}
	}
	if changed := changes(before, after); changed != nil {
		fmt.Fprintf(os.Stderr, "FAIL: the tests changed this machine:\n%s\n", strings.Join(changed, "\n"))
		status = 1
	}
	os.Exit(status)
}

// TestMachineIsWatched: what a test leaves on the machine is seen, by name.
func TestMachineIsWatched(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, []byte(text), mode)
		}
		if err == nil {
			err = os.Chmod(path, mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	look := func() map[string]string {
		t.Helper()
		got, err := hostNow([]string{dir + "/pace-node*"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	write("pace-node/kept", "a", 0o644)
	write("pace-node/edited", "a", 0o644)
	write("pace-node/opened", "a", 0o600)
	write("pace-node/removed", "a", 0o644)
	write("other", "a", 0o644)
	before := look()
	write("pace-node/edited", "b", 0o644)
	write("pace-node/opened", "a", 0o644)
	write("other", "b", 0o644)
	write("pace-node.service", "", 0o644)
	if err := os.Remove(filepath.Join(dir, "pace-node/removed")); err != nil {
		t.Fatal(err)
	}
	want := []string{"pace-node.service is new", "pace-node/edited is changed", "pace-node/opened is changed", "pace-node/removed is gone"}
	var got []string
	for _, line := range changes(before, look()) {
		got = append(got, strings.TrimPrefix(line, dir+"/"))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := changes(before, before); got != nil {
		t.Errorf("nothing changed, and yet %q", got)
	}
}
