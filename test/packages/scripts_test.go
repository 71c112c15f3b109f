//go:build linux

// Package packages tests the Linux packages: their scripts in a scratch folder with every argument that dpkg and rpm can
// pass, and (build tag packages, as root) the packages themselves in booted systems.
//
// It must never run a script on this machine's own folders, nor a node on this machine's own network.
package packages

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fake is a command that notes how it was called; it fails where the file fail/<command>-<first word> exists.
const fake = `#!/bin/sh
echo "${0##*/}${*:+ $*}" >>"$SCRATCH/log"
for word; do
	case $word in
	-*) continue ;;
	esac
	[ ! -e "$SCRATCH/fail/${0##*/}-$word" ]
	exit
done
`

// debconf stands in for confmodule: its answer to every question is in the file answer.
const debconf = `db_note() { echo "$*" >>"$SCRATCH/log"; }
db_get() { RET=$(cat "$SCRATCH/answer" 2>/dev/null); }
db_set() { db_note db_set "$@"; }
db_input() { db_note db_input "$@"; return 30; }
db_go() { :; }
db_stop() { :; }
db_purge() { db_note db_purge; }
`

// program refuses what has the word bad in it, as pace-node --check-arguments would, and counts nothing else.
const program = `#!/bin/sh
case "$*" in
*bad*) echo "that is bad" >&2; exit 78 ;;
esac
[ ! -e "$SCRATCH/foreign" ] || exit 126
`

// moved are the folders of the machine that a script in the scratch folder sees elsewhere.
var moved = []string{"/etc/default", "/run/systemd/system", "/var/lib/", "/usr/libexec/pace-node", "/usr/share/debconf", "/usr/bin/pace-node", "/usr/bin/.pace-node", "/etc/systemd/system", "/proc/self/mountinfo"}

// scratch is a machine that is a folder.
type scratch struct {
	t   *testing.T
	dir string
}

func newScratch(t *testing.T) *scratch {
	t.Helper()
	s := &scratch{t, t.TempDir()}
	for _, name := range []string{"deb-systemd-helper", "deb-systemd-invoke", "systemctl", "systemd-sysusers"} {
		s.write("fake/"+name, fake)
	}
	s.write("usr/share/debconf/confmodule", debconf)
	s.write("usr/bin/pace-node", program)
	s.write("usr/libexec/pace-node/store-settings", s.moved(packaged(t, "store-settings")))
	s.write("proc/self/mountinfo", "22 1 0:20 / / rw - ext4 /dev/vda rw\n")
	return s
}

func packaged(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "packaging", "linux", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (s *scratch) moved(text string) string {
	for _, path := range moved {
		text = strings.ReplaceAll(text, path, s.dir+path)
	}
	return text
}

func (s *scratch) write(name, text string) {
	s.t.Helper()
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scratch) read(name string) string {
	data, _ := os.ReadFile(filepath.Join(s.dir, filepath.FromSlash(name)))
	return string(data)
}

// run runs a packaged script, and returns its status, what it called, and what it said.
func (s *scratch) run(script string, env []string, args ...string) (status int, called, said string) {
	s.t.Helper()
	os.Remove(filepath.Join(s.dir, "log"))
	s.write("script", s.moved(packaged(s.t, script)))
	cmd := exec.Command("/bin/sh", append([]string{filepath.Join(s.dir, "script")}, args...)...)
	cmd.Env = append([]string{"PATH=" + s.dir + "/fake:/usr/sbin:/usr/bin:/sbin:/bin", "SCRATCH=" + s.dir}, env...)
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		s.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), strings.ReplaceAll(strings.TrimSpace(s.read("log")), "\n", "; "), string(out)
}

const (
	booted   = "run/systemd/system/.keep"
	removedM = "var/lib/systemd/deb-systemd-helper-masked/pace-node.service"

	readied = "systemd-sysusers pace-node.conf; deb-systemd-helper unmask pace-node.service; deb-systemd-helper --quiet was-enabled pace-node.service; deb-systemd-helper enable pace-node.service"
	noted   = "systemd-sysusers pace-node.conf; deb-systemd-helper unmask pace-node.service; deb-systemd-helper --quiet was-enabled pace-node.service; deb-systemd-helper update-state pace-node.service"
	reload  = "; systemctl --system daemon-reload"
	start   = "; deb-systemd-invoke start pace-node.service"
	restart = "; deb-systemd-invoke try-restart pace-node.service"
	units   = "systemctl stop pace-node-hooks.path pace-node-upgrade.path pace-node-upgrade.service; "
	gone    = "deb-systemd-helper purge pace-node.service; deb-systemd-helper unmask pace-node.service; db_purge"
)

// TestScriptsWithEveryArgument: the arguments are those of Debian's policy, chapter 6, and of rpm's scriptlets.
func TestScriptsWithEveryArgument(t *testing.T) {
	const (
		sysd   = "booted"
		image  = "" // systemd does not run: a chroot, an image build
		state  = "state"
		nobody = "preset says no"
	)
	for _, c := range []struct {
		script, args string
		files        string // what there is, by word
		status       int
		called, said string // said: a part
	}{
		{"deb/postinst", "configure", sysd, 0, readied + reload + start, ""},
		{"deb/postinst", "configure ''", sysd, 0, readied + reload + start, ""},
		{"deb/postinst", "configure", image, 0, readied, ""},
		{"deb/postinst", "configure 0.0.1-1", sysd, 0, readied + reload + restart, ""},
		{"deb/postinst", "configure 0.0.1-1", image, 0, readied, ""},
		{"deb/postinst", "configure 0.0.1-1", sysd + " removed", 0, readied + reload + start, ""},
		{"deb/postinst", "configure 0.0.1-1", sysd + " disabled", 0, noted + reload + restart, ""},
		{"deb/postinst", "configure", sysd + " unstartable", 0, readied + reload + start, "systemctl status pace-node.service says why"},
		{"deb/postinst", "configure 0.0.1-1", sysd + " unstartable", 0, readied + reload + restart, "did not restart"},
		{"deb/postinst", "configure", sysd + " refused", 1, "", "PACE_FLEET_SEED is refused: that is bad"},
		{"deb/postinst", "abort-upgrade 0.0.2-1", sysd, 0, "", ""},
		{"deb/postinst", "abort-remove", sysd, 0, start[2:], ""},
		{"deb/postinst", "abort-remove", image, 0, "", ""},
		{"deb/postinst", "abort-remove in-favour other 1", sysd, 0, start[2:], ""},
		{"deb/postinst", "abort-deconfigure in-favour other 1", sysd, 0, "", ""},
		{"deb/postinst", "abort-deconfigure in-favour other 1 removing third 2", sysd, 0, "", ""},
		{"deb/postinst", "triggered /usr/share/man", sysd, 0, "", ""},
		{"deb/postinst", "", sysd, 0, "", ""},
		{"deb/postinst", "something-new 1", sysd, 0, "", ""},

		{"deb/prerm", "remove", sysd, 0, units + "deb-systemd-invoke stop pace-node.service", ""},
		{"deb/prerm", "remove in-favour other 1", sysd, 0, units + "deb-systemd-invoke stop pace-node.service", ""},
		{"deb/prerm", "remove", image, 0, "", ""},
		{"deb/prerm", "remove", sysd + " unstoppable", 0, units + "deb-systemd-invoke stop pace-node.service", ""},
		{"deb/prerm", "upgrade 0.0.2-1", sysd, 0, "", ""},
		{"deb/prerm", "failed-upgrade 0.0.1-1 0.0.2-1", sysd, 0, "", ""},
		{"deb/prerm", "failed-upgrade 0.0.1-1", sysd, 0, "", ""},
		{"deb/prerm", "deconfigure in-favour other 1", sysd, 0, "", ""},
		{"deb/prerm", "deconfigure in-favour other 1 removing third 2", sysd, 0, "", ""},
		{"deb/prerm", "", sysd, 0, "", ""},
		{"deb/prerm", "something-new", sysd, 0, "", ""},

		{"deb/postrm", "remove", sysd + " " + state, 0, reload[2:] + "; deb-systemd-helper mask pace-node.service", ""},
		{"deb/postrm", "remove", image + " " + state, 0, "deb-systemd-helper mask pace-node.service", ""},
		{"deb/postrm", "purge", sysd + " " + state, 0, gone, "Its fleet still lists it"},
		{"deb/postrm", "purge", sysd, 0, gone, ""},
		{"deb/postrm", "purge", sysd + " link", 0, gone, "is a link"},
		{"deb/postrm", "purge", sysd + " mount " + state, 0, gone, "mounted"},
		{"deb/postrm", "purge", sysd + " below " + state, 0, gone, "mounted"},
		{"deb/postrm", "purge", sysd + " beside " + state, 0, gone, "Its fleet still lists it"},
		{"deb/postrm", "upgrade 0.0.2-1", sysd + " " + state, 0, "", ""},
		{"deb/postrm", "failed-upgrade 0.0.1-1 0.0.2-1", sysd + " " + state, 0, "", ""},
		{"deb/postrm", "abort-install", sysd + " " + state, 0, "", ""},
		{"deb/postrm", "abort-install 0.0.1-1 0.0.2-1", sysd + " " + state, 0, "", ""},
		{"deb/postrm", "abort-upgrade 0.0.1-1 0.0.2-1", sysd + " " + state, 0, "", ""},
		{"deb/postrm", "disappear other 1", sysd + " " + state, 0, "", ""},
		{"deb/postrm", "", sysd + " " + state, 0, "", ""},
		{"deb/postrm", "something-new", sysd + " " + state, 0, "", ""},

		{"deb/config", "configure", "", 0, "db_input low pace-node/fleet-seed", ""},
		{"deb/config", "configure 0.0.1-1", "", 0, "db_input low pace-node/fleet-seed", ""},
		{"deb/config", "reconfigure 0.0.1-1", "seeded", 0, "db_set pace-node/fleet-seed a.example b.example:7000; db_input low pace-node/fleet-seed", ""},
		{"deb/config", "configure", "environment", 0, "", ""},

		{"rpm/post", "1", sysd, 0, "systemd-sysusers pace-node.conf; systemctl --system daemon-reload; systemctl --no-reload preset pace-node.service; systemctl --quiet is-enabled pace-node.service; systemctl start pace-node.service", ""},
		{"rpm/post", "1", sysd + " nobody", 0, "systemd-sysusers pace-node.conf; systemctl --system daemon-reload; systemctl --no-reload preset pace-node.service; systemctl --quiet is-enabled pace-node.service", ""},
		{"rpm/post", "1", sysd + " unstartable", 0, "systemd-sysusers pace-node.conf; systemctl --system daemon-reload; systemctl --no-reload preset pace-node.service; systemctl --quiet is-enabled pace-node.service; systemctl start pace-node.service", "did not start"},
		{"rpm/post", "1", image, 0, "systemd-sysusers pace-node.conf; systemctl --no-reload preset pace-node.service", ""},
		{"rpm/post", "1", sysd + " refused", 1, "systemd-sysusers pace-node.conf", "PACE_FLEET_SEED is refused"},
		{"rpm/post", "2", sysd, 0, "systemd-sysusers pace-node.conf; systemctl --system daemon-reload", ""},
		{"rpm/post", "3", sysd, 0, "systemd-sysusers pace-node.conf; systemctl --system daemon-reload", ""},
		{"rpm/post", "2", image, 0, "systemd-sysusers pace-node.conf", ""},
		{"rpm/preun", "0", sysd, 0, "systemctl --no-reload disable --now pace-node-hooks.path pace-node-upgrade.path; systemctl --no-reload disable --now pace-node.service", ""},
		{"rpm/preun", "0", image, 0, "systemctl --no-reload disable pace-node-hooks.path pace-node-upgrade.path; systemctl --no-reload disable pace-node.service", ""},
		{"rpm/preun", "1", sysd, 0, "", ""},
		{"rpm/preun", "2", sysd, 0, "", ""},
		{"rpm/preun", "", sysd, 0, "", ""},
		{"rpm/postun", "0", sysd, 0, "systemctl --system daemon-reload", ""},
		{"rpm/postun", "0", image, 0, "", ""},
		{"rpm/postun", "1", sysd, 0, "systemctl --system daemon-reload; systemctl try-restart pace-node.service", ""},
		{"rpm/postun", "2", sysd, 0, "systemctl --system daemon-reload; systemctl try-restart pace-node.service", ""},
		{"rpm/postun", "1", image, 0, "", ""},
		{"rpm/postun", "1", sysd + " unstartable", 0, "systemctl --system daemon-reload; systemctl try-restart pace-node.service", "did not restart"},
		{"rpm/postun", "", sysd, 0, "systemctl --system daemon-reload", ""},
	} {
		t.Run(strings.ReplaceAll(c.script+" "+c.args+" | "+c.files, "/", ":"), func(t *testing.T) {
			s := newScratch(t)
			var env []string
			stays := false
			for _, word := range strings.Fields(c.files) {
				switch word {
				case sysd:
					s.write(booted, "")
				case "removed":
					s.write(removedM, "")
				case "disabled":
					s.write("fail/deb-systemd-helper-was-enabled", "")
				case "nobody":
					s.write("fail/systemctl-is-enabled", "")
				case "unstartable":
					for _, f := range []string{"deb-systemd-invoke-start", "deb-systemd-invoke-try-restart", "systemctl-start", "systemctl-try-restart"} {
						s.write("fail/"+f, "")
					}
				case "unstoppable":
					s.write("fail/deb-systemd-invoke-stop", "")
				case "refused":
					env = append(env, "PACE_FLEET_SEED=bad")
				case "environment":
					env = append(env, "PACE_FLEET_SEED=a.example")
				case "seeded":
					s.write("etc/default/pace-node", "# PACE_FLEET_SEED=old\nPACE_FLEET_SEED=\"a.example b.example:7000\"\n")
				case state:
					s.write("var/lib/pace-node/node-key", "key")
					stays = true
				case "link":
					s.write("srv/real/node-key", "key")
					s.write("var/lib/other", "")
					if err := os.Symlink(filepath.Join(s.dir, "srv/real"), filepath.Join(s.dir, "var/lib/pace-node")); err != nil {
						t.Fatal(err)
					}
				case "mount":
					s.write("proc/self/mountinfo", "30 22 0:9 / "+s.dir+"/var/lib/pace-node rw - tmpfs tmpfs rw\n")
				case "below":
					s.write("proc/self/mountinfo", "30 22 0:9 / "+s.dir+"/var/lib/pace-node/consensus rw - tmpfs tmpfs rw\n")
				case "beside":
					s.write("proc/self/mountinfo", "30 22 0:9 / "+s.dir+"/var/lib/pace-node-2 rw - tmpfs tmpfs rw\n")
				default:
					t.Fatalf("unknown word %q", word)
				}
			}
			var args []string
			for _, a := range strings.Fields(c.args) {
				args = append(args, strings.Trim(a, "'"))
			}
			status, called, said := s.run(c.script, env, args...)
			if status != c.status || called != c.called || !strings.Contains(said, c.said) || c.said == "" && said != "" {
				t.Errorf("status %d, want %d\ncalled %s\nwant   %s\nsaid %q, want %q", status, c.status, called, c.called, said, c.said)
			}
			deleted := c.args == "purge" && strings.Contains(c.said, "still lists")
			if kept := s.read("var/lib/pace-node/node-key") == "key"; stays && kept == deleted {
				t.Errorf("state kept: %v", kept)
			}
			if strings.Contains(c.files, "link") && s.read("srv/real/node-key") != "key" {
				t.Error("state was deleted through a link")
			}
		})
	}
}

func TestStoreSettings(t *testing.T) {
	shipped := packaged(t, "pace-node.default")
	with := func(old, line string) string { return strings.Replace(shipped, old, line, 1) }
	for _, c := range []struct {
		name, before string
		env          []string
		args         []string
		status       int
		after        string
	}{
		{"nothing stated", shipped, nil, nil, 0, shipped},
		{"empty", shipped, []string{"PACE_FLEET_SEED="}, []string{""}, 0, shipped},
		{"none", shipped, []string{"PACE_FLEET_SEED=none"}, nil, 0, shipped},
		{"a seed", shipped, []string{"PACE_FLEET_SEED=a.example"}, nil, 0, with("#PACE_FLEET_SEED=\n", "PACE_FLEET_SEED=\"a.example\"\n")},
		{"two seeds", shipped, []string{"PACE_FLEET_SEED=a.example [::1]:6674"}, nil, 0, with("#PACE_FLEET_SEED=\n", "PACE_FLEET_SEED=\"a.example [::1]:6674\"\n")},
		{"debconf's", shipped, nil, []string{"a.example"}, 0, with("#PACE_FLEET_SEED=\n", "PACE_FLEET_SEED=\"a.example\"\n")},
		{"environment over debconf", shipped, []string{"PACE_FLEET_SEED=e.example"}, []string{"a.example"}, 0, with("#PACE_FLEET_SEED=\n", "PACE_FLEET_SEED=\"e.example\"\n")},
		{"one is there", "PACE_FLEET_SEED=old\n", []string{"PACE_FLEET_SEED=new"}, nil, 0, "PACE_FLEET_SEED=old\n"},
		{"one is there, exported", "  export PACE_FLEET_SEED = 'old'\n", []string{"PACE_FLEET_SEED=new"}, nil, 0, "  export PACE_FLEET_SEED = 'old'\n"},
		{"an empty one is there", "X=1\nPACE_FLEET_SEED=\nY=2", []string{"PACE_FLEET_SEED=new"}, nil, 0, "X=1\nY=2\nPACE_FLEET_SEED=\"new\"\n"},
		{"an empty quoted one", "PACE_FLEET_SEED=\"\"\n", []string{"PACE_FLEET_SEED=new"}, nil, 0, "PACE_FLEET_SEED=\"new\"\n"},
		{"a longer name is another's", "PACE_FLEET_SEED_X=1\n", []string{"PACE_FLEET_SEED=new"}, nil, 0, "PACE_FLEET_SEED_X=1\nPACE_FLEET_SEED=\"new\"\n"},
		{"no file", "", []string{"PACE_FLEET_SEED=new"}, nil, 0, "PACE_FLEET_SEED=\"new\"\n"},
		{"reply port replaces the shipped one", shipped, []string{"PACE_DISCOVERY_REPLY_PORT=7000"}, nil, 0, with("PACE_DISCOVERY_REPLY_PORT=6682", "PACE_DISCOVERY_REPLY_PORT=\"7000\"")},
		{"reply port of somebody's choice", "PACE_DISCOVERY_REPLY_PORT=6700\n", []string{"PACE_DISCOVERY_REPLY_PORT=7000"}, nil, 0, "PACE_DISCOVERY_REPLY_PORT=6700\n"},
		{"pin and scope", "X=1\n", []string{"PACE_FLEET_ID=0123@abc", "PACE_FIREWALL_ALLOW=10.0.0.0/8"}, nil, 0, "X=1\nPACE_FLEET_ID=\"0123@abc\"\nPACE_FIREWALL_ALLOW=\"10.0.0.0/8\"\n"},
		{"refused by the program", shipped, []string{"PACE_FLEET_SEED=bad", "PACE_FIREWALL_ALLOW=10.0.0.0/8"}, nil, 1, shipped},
		{"the second word refused", shipped, []string{"PACE_FLEET_SEED=good bad"}, nil, 1, shipped},
		{"a quote", shipped, []string{`PACE_FLEET_SEED=a"b`}, nil, 1, shipped},
		{"a backslash", shipped, []string{`PACE_FLEET_SEED=a\`}, nil, 1, shipped},
		{"a command", shipped, []string{"PACE_FLEET_SEED=$(reboot)"}, nil, 1, shipped},
		{"a line end", shipped, []string{"PACE_FLEET_SEED=a\nPACE_LISTEN=:1"}, nil, 1, shipped},
		{"a pattern", shipped, []string{"PACE_FLEET_SEED=*"}, nil, 1, shipped},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScratch(t)
			if c.before != "" {
				s.write("etc/default/pace-node", c.before)
			}
			status, _, said := s.run("store-settings", c.env, c.args...)
			if got := s.read("etc/default/pace-node"); status != c.status || got != c.after {
				t.Errorf("status %d, want %d; said %q\n%s\nwant\n%s", status, c.status, said, got, c.after)
			}
			if status != 0 && !strings.Contains(said, "PACE_FLEET_SEED is refused") {
				t.Errorf("said %q", said)
			}
			if left, _ := filepath.Glob(filepath.Join(s.dir, "etc/default/*.new.*")); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// TestStoreSettingsWhereTheProgramCannotRun: an image for another processor, whose first start refuses what is wrong.
func TestStoreSettingsWhereTheProgramCannotRun(t *testing.T) {
	s := newScratch(t)
	s.write("foreign", "")
	status, _, said := s.run("store-settings", []string{"PACE_FLEET_SEED=a.example"})
	if got := s.read("etc/default/pace-node"); status != 0 || got != "PACE_FLEET_SEED=\"a.example\"\n" {
		t.Errorf("status %d, %q, said %q", status, got, said)
	}
}
