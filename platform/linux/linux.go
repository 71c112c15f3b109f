// Package linux is the Linux half of package host: systemd's words, /etc/default/pace-node, /var/lib/pace-node. What is
// decided here is in files without a build tag and tested on any system; system calls are in _linux.go files.
//
// It must never import the node.
package linux

import (
	"path/filepath"
	"strconv"
	"strings"

	"pace-node/internal/host"
)

const (
	account     = "pace-node"                        // static system account of the packages
	systemState = "/var/lib/pace-node"               // StateDirectory= of the unit
	settings    = "/etc/default/pace-node"           // written by the packages' scripts
	runtimeDir  = "/run/pace-node"                   // RuntimeDirectory= of the unit, for group pace-admin
	socketName  = "admin.sock"                       // the unit's mode is 0660
	systemHooks = "/etc/pace-node/hooks.d"           // of the packages; root's
	hooksUnit   = "pace-node-hooks.path"             // shipped, and disabled
	hooksReport = "/run/pace-node-hooks/result.json" // RuntimeDirectory= of its service
	machineID   = "/etc/machine-id"                  // 32 hex digits and a line end; of the installation
	unitName    = "pace-node.service"                // what the packages install
	userState   = ".local/state"                     // XDG_STATE_HOME's default
	maxStatus   = 1024                               // bytes of a STATUS= line
	hardwareTag = "pace-node hardware 1\x00"         // so that the digest is of no use elsewhere
)

// scriptOf is the start script of a service on an init system that kardianos/service names, or "" on one that has none.
func scriptOf(platform, name string) string { return strings.ReplaceAll(scripts[platform], "%", name) }

// scripts are where those systems keep what starts a service; % is its name.
var scripts = map[string]string{
	"linux-upstart": "/etc/init/%.conf", "linux-openrc": "/etc/init.d/%", "linux-rcs": "/etc/init.d/%", "linux-procd": "/etc/init.d/%", "unix-systemv": "/etc/init.d/%",
}

// stateDir is the service's state directory, or the account's own below XDG_STATE_HOME.
func stateDir(user bool, xdg, home string) string {
	switch {
	case !user:
		return systemState
	case filepath.IsAbs(xdg):
		return filepath.Join(xdg, "pace-node")
	case home != "":
		return filepath.Join(home, userState, "pace-node")
	}
	return ""
}

// adminSocket is the packages' socket, where they made its folder and the state directory is theirs.
func adminSocket(dir string, made bool) string {
	if made && filepath.Clean(dir) == systemState {
		return filepath.Join(runtimeDir, socketName)
	}
	return ""
}

// hooksOf: the service's hooks are in /etc, and in its sandbox it cannot run them; a node elsewhere has its own beside its
// state, and runs them as whoever it is.
func hooksOf(dir string, root bool) host.Hooks {
	if filepath.Clean(dir) != systemState {
		return host.Hooks{Dir: filepath.Join(dir, host.HooksDir)}
	}
	return host.Hooks{Dir: systemHooks, Unit: !root, Report: hooksReport, Enable: "sudo systemctl enable --now " + hooksUnit}
}

// statusLine is the STATUS= word: one line, bounded.
func statusLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxStatus {
		text = strings.ToValidUTF8(text[:maxStatus], "")
	}
	return "STATUS=" + text
}

// journalled reports whether stderr is the journal's: systemd says its device and inode, systemd.exec(5).
func journalled(stream string, device, inode uint64) bool {
	return stream == strconv.FormatUint(device, 10)+":"+strconv.FormatUint(inode, 10)
}

// journalPriority are syslog's numbers, sd-daemon(3).
var journalPriority = map[host.Severity]string{
	host.SeverityDebug: "<7>", host.SeverityInfo: "<6>", host.SeverityWarning: "<4>", host.SeverityError: "<3>",
}

// journalLine is a line as the journal reads it.
func journalLine(s host.Severity, line string) string {
	return journalPriority[s] + strings.ReplaceAll(line, "\n", " ") + "\n"
}
