//go:build unix

package macpkg

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestFirstInstall(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		log := m.postinstall()
		says(t, log, "io.pace.node.rotate is loaded", "io.pace.node is loaded", firstIsRunning)
		m.called(firewallAdd, firewallOpen, bootRotate, bootNode)
		if m.perm(stateFolder) != fs.ModeDir|0o700 || m.perm(settingsFile) != 0o600 {
			t.Errorf("modes %v, %v", m.perm(stateFolder), m.perm(settingsFile))
		}
		if want, err := fs.ReadFile(data, "pace-node.env"); err != nil || m.read(settingsFile) != string(want) {
			t.Errorf("settings %q, %v", m.read(settingsFile), err)
		}
		for _, name := range []string{"pace-node", "pacectl", "pace-node-uninstall"} {
			if to, err := os.Readlink(filepath.Join(m.root, "usr/local/bin", name)); err != nil || to != "/opt/pace-node/bin/"+name {
				t.Errorf("%s: %q, %v", name, to, err)
			}
		}
		if m.perm("usr/local/bin") != fs.ModeDir|0o755 || m.perm("private/var/log/pace-node-install.log") != 0o600 {
			t.Errorf("modes %v, %v", m.perm("usr/local/bin"), m.perm("private/var/log/pace-node-install.log"))
		}
		if entries, err := os.ReadDir(filepath.Join(m.root, stateFolder)); err != nil || len(entries) != 1 {
			t.Errorf("state %v, %v: the key is minted by the daemon, never while something is installed", entries, err)
		}
	})
}

func TestUpgrade(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.postinstall()
		m.calls()
		m.write(stateFolder+"/node-key", "the key", 0o600)
		m.write(settingsFile, "PACE_FLEET_SEED=\"10.1.2.3 [::1]:6674\"\n", 0o640)
		for _, label := range []string{"io.pace.node", "io.pace.node.rotate"} {
			m.note("slow."+label, "3", 0o644) // three more questions are answered with yes
		}
		m.lay(m.root)
		log := m.postinstall()
		says(t, log, "was there and is kept", firstIsRunning)
		m.called(slices.Concat([]string{firewallAdd, firewallOpen, bootOutRotate}, seconds(3), []string{bootRotate, bootOutNode}, seconds(3), []string{bootNode})...)
		if m.read(stateFolder+"/node-key") != "the key" || m.read(settingsFile) != "PACE_FLEET_SEED=\"10.1.2.3 [::1]:6674\"\n" || m.perm(settingsFile) != 0o640 {
			t.Errorf("state and settings are not what they were: %q, %v", m.read(settingsFile), m.perm(settingsFile))
		}
		if strings.Contains(log, "is there already") {
			t.Errorf("its own links are taken for somebody else's:\n%s", log)
		}
	})
}

// loading are the ways in which launchd takes the daemon, and what is done about each.
var loading = []struct {
	name  string
	notes map[string]string
	calls []string
	says  []string
}{
	{
		"not loaded before an upgrade", nil, // as after a bootstrap that failed, or bootout by hand: an install mends it
		[]string{bootRotate, bootNode}, []string{firstIsRunning},
	},
	{
		"bootstrap fails twice and is good then", map[string]string{"fails.io.pace.node": "2"},
		[]string{bootRotate, bootNode, oneSecond, bootNode, oneSecond, bootNode}, []string{"try 2 to start io.pace.node failed", firstIsRunning},
	},
	{
		"bootstrap fails and loads all the same", map[string]string{"fails.io.pace.node": "1", "late.io.pace.node": ""},
		[]string{bootRotate, bootNode, oneSecond}, []string{firstIsRunning},
	},
	{
		"bootstrap fails for ever", map[string]string{"fails.io.pace.node": "99"},
		slices.Concat([]string{bootRotate}, slices.Repeat([]string{bootNode, oneSecond}, 9), []string{bootNode}),
		[]string{"could not be started after 10 tries", "sudo launchctl bootstrap system"},
	},
	{
		"the old one does not end", map[string]string{"loaded.io.pace.node": "state = running", "stuck.io.pace.node": ""},
		slices.Concat([]string{bootRotate, bootOutNode}, seconds(40), []string{"launchctl kickstart -k system/io.pace.node"}),
		[]string{"did not end within 40 seconds", firstIsRunning},
	},
	{
		"the rotation does not end", map[string]string{"loaded.io.pace.node.rotate": "state = running", "stuck.io.pace.node.rotate": ""},
		slices.Concat([]string{bootOutRotate}, seconds(40), []string{"launchctl kickstart -k system/io.pace.node.rotate", bootNode}), []string{firstIsRunning},
	},
	{
		"it ends right after its start", map[string]string{"crashes.io.pace.node": ""},
		slices.Concat([]string{bootRotate, bootNode}, seconds(10)),
		[]string{"io.pace.node does not run", "the last words of the daemon", "launchctl kickstart -k system/io.pace.node"},
	},
	{
		"disabled", map[string]string{"disabled": "disabled services = {\n\t\"io.pace.node.rotate\" => enabled\n\t\"io.pace.node\" => disabled\n}\n"},
		[]string{bootRotate}, []string{"io.pace.node is disabled and stays as it is", "launchctl enable system/io.pace.node"},
	},
	{
		"disabled and running", map[string]string{"disabled": "\t\"io.pace.node\" => true\n", "loaded.io.pace.node": "state = running"},
		[]string{bootRotate}, []string{"io.pace.node is disabled and stays as it is"},
	},
	{
		"another daemon is disabled", map[string]string{"disabled": "\t\"io.pace.node2\" => disabled\n\t\"xio.pace.node\" => disabled\n\t\"io.pace.node\" => enabled\n"},
		[]string{bootRotate, bootNode}, []string{firstIsRunning},
	},
	{
		"no launchd", map[string]string{"no-launchd": ""},
		nil, []string{"there is no launchd here"},
	},
}

func TestLoading(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		for _, c := range loading {
			t.Run(c.name, func(t *testing.T) {
				m := newMac(t, shell)
				for name, text := range c.notes {
					m.note(name, text, 0o644)
				}
				m.write("private/var/log/pace-node.log", "the last words of the daemon\n", 0o600)
				log := m.postinstall()
				says(t, log, c.says...)
				m.called(slices.Concat([]string{firewallAdd, firewallOpen}, c.calls)...)
			})
		}
	})
}

// TestNothingOfMacOSIsThere: no launchctl, no firewall, no log, as in a folder that becomes an image.
func TestNothingOfMacOSIsThere(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.check(os.Remove(filepath.Join(m.stubs, "launchctl")))
		m.check(os.RemoveAll(filepath.Join(m.root, "usr/libexec")))
		says(t, m.postinstall(), "there is no launchd here")
		m.called()

		m.check(os.RemoveAll(filepath.Join(m.root, "private/var")))
		m.write("private/var", "a file where the folder of logs belongs", 0o644)
		if status, printed := m.run("scripts/postinstall", "x.pkg", "/", m.root+"/", "/"); status != 0 || strings.Contains(printed, "io.pace.node") {
			t.Errorf("without a log: %d, %q", status, printed)
		}
		m.check(os.RemoveAll(filepath.Join(m.root, "opt")))
		if status, _ := m.run("scripts/postinstall", "x.pkg", "/", m.root+"/", "/"); status != 0 {
			t.Errorf("without a payload: %d", status)
		}
		if status, _ := m.run("scripts/postinstall"); status != 0 {
			t.Errorf("without arguments: %d", status)
		}
	})
}

func TestPayloadWithoutFunctions(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.check(os.Remove(filepath.Join(m.root, "opt/pace-node/libexec/launchd.sh")))
		says(t, m.postinstall(), "launchd.sh is missing: the daemon starts with this Mac")
		m.called(firewallAdd, firewallOpen)
	})
}

// TestAnotherVolume: what runs is left alone when the package goes onto another disk.
func TestAnotherVolume(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		other := filepath.Join(t.TempDir(), "Image 1")
		m.lay(other)
		if status, printed := m.run("scripts/postinstall", "x.pkg", other, other, "/"); status != 0 || printed != "" {
			t.Errorf("%d, %q", status, printed)
		}
		m.called()
		if _, err := os.Lstat(filepath.Join(m.root, stateFolder)); err == nil {
			t.Error("the volume that runs got a state folder")
		}
		here := *m
		here.root = other
		says(t, here.read("private/var/log/pace-node-install.log"), "is not the volume that runs")
		if here.perm(settingsFile) != 0o600 {
			t.Errorf("settings %v", here.perm(settingsFile))
		}
		if to, err := os.Readlink(filepath.Join(other, "usr/local/bin/pacectl")); err != nil || to != "/opt/pace-node/bin/pacectl" {
			t.Errorf("%q, %v: a link on another volume is for the day when that volume runs", to, err)
		}
	})
}

// TestSettingsBefore: a file of settings that an MDM put there before the install.
func TestSettingsBefore(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.write(settingsFile, "PACE_FLEET_SEED=host\n", 0o644)
		m.check(os.Chmod(filepath.Join(m.root, stateFolder), 0o755))
		log := m.postinstall()
		says(t, log, "was there and is kept", firstIsRunning)
		if m.read(settingsFile) != "PACE_FLEET_SEED=host\n" || m.perm(settingsFile) != 0o644 || m.perm(stateFolder) != fs.ModeDir|0o700 {
			t.Errorf("%q, %v in %v", m.read(settingsFile), m.perm(settingsFile), m.perm(stateFolder))
		}

		m.check(os.Chmod(filepath.Join(m.root, settingsFile), 0o666))
		says(t, m.postinstall(), "others can write it, or could")

		m.check(os.Remove(filepath.Join(m.root, settingsFile)))
		m.check(os.Symlink("/nowhere", filepath.Join(m.root, settingsFile)))
		m.postinstall()
		if to, err := os.Readlink(filepath.Join(m.root, settingsFile)); err != nil || to != "/nowhere" {
			t.Errorf("%q, %v", to, err)
		}
	})
}

// TestStateNotOurs: nothing is changed in a folder that somebody else could have filled.
func TestStateNotOurs(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.check(os.MkdirAll(filepath.Join(m.root, stateFolder), 0o755))
		m.check(os.Chmod(filepath.Join(m.root, stateFolder), 0o775))
		says(t, m.postinstall(), "others can write it", "chmod 700", firstIsRunning)
		if m.perm(stateFolder) != fs.ModeDir|0o775 {
			t.Errorf("mode %v", m.perm(stateFolder))
		}
		if entries, err := os.ReadDir(filepath.Join(m.root, stateFolder)); err != nil || len(entries) > 0 {
			t.Errorf("%v, %v", entries, err)
		}

		elsewhere := t.TempDir()
		m.check(os.Remove(filepath.Join(m.root, stateFolder)))
		m.check(os.Symlink(elsewhere, filepath.Join(m.root, stateFolder)))
		says(t, m.postinstall(), "is a link: the daemon refuses it", firstIsRunning)
		if entries, err := os.ReadDir(elsewhere); err != nil || len(entries) > 0 {
			t.Errorf("%v, %v", entries, err)
		}
	})
}

// TestLinksTaken: what stands in /usr/local/bin and is not ours stays.
func TestLinksTaken(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.write("usr/local/bin/pacectl", "#!/bin/sh\n", 0o755)
		m.check(os.Symlink("../Cellar/pace/bin/pace-node", filepath.Join(m.root, "usr/local/bin/pace-node"))) // dangling
		log := m.postinstall()
		says(t, log, "pacectl is there already and was left", "pace-node is there already and was left", firstIsRunning)
		to, err := os.Readlink(filepath.Join(m.root, "usr/local/bin/pace-node"))
		if err != nil || to != "../Cellar/pace/bin/pace-node" || m.read("usr/local/bin/pacectl") != "#!/bin/sh\n" {
			t.Errorf("%q, %v", to, err)
		}
		if _, err := os.Readlink(filepath.Join(m.root, "usr/local/bin/pace-node-uninstall")); err != nil {
			t.Error(err)
		}
	})
}

func TestFirewallRefuses(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		m.note("socketfilterfw.fails", "", 0o644) // as under an MDM that keeps the firewall
		says(t, m.postinstall(), "the application firewall was not told: sudo", firstIsRunning)
		m.called(firewallAdd, firewallOpen, bootRotate, bootNode)
	})
}

func TestPreinstall(t *testing.T) {
	shells(t, func(t *testing.T, shell []string) {
		m := newMac(t, shell)
		for _, path := range []string{"opt/pace-node", "opt/pace-node/bin", "opt/pace-node/libexec", "opt/pace-node/share"} {
			if status, printed := m.run("scripts/preinstall", "x.pkg", "/", m.root+"/", "/"); status != 0 || printed != "" {
				t.Fatalf("%d, %q", status, printed)
			}
			name := filepath.Join(m.root, path)
			m.check(os.Rename(name, name+".real"))
			m.check(os.Symlink("/tmp", name))
			if status, printed := m.run("scripts/preinstall", "x.pkg", "/", m.root+"/", "/"); status != 1 || !strings.Contains(printed, name+" is a link") {
				t.Errorf("%s: %d, %q", path, status, printed)
			}
			m.check(os.Remove(name))
			m.check(os.Rename(name+".real", name))
		}
		m.check(os.RemoveAll(filepath.Join(m.root, "opt")))
		if status, printed := m.run("scripts/preinstall"); status != 0 || printed != "" {
			t.Errorf("on an empty Mac: %d, %q", status, printed)
		}
		m.called()
	})
}
