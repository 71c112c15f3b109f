// Package darwin is the macOS half of package host: the folder under Application Support and its env file. What is decided
// here is in files without a build tag and tested on any system; system calls are in _darwin.go files.
//
// It must never import the node.
package darwin

import (
	"path"
	"regexp"
)

const (
	systemState = "/Library/Application Support/pace-node"
	envFile     = "pace-node.env" // in systemState
	userState   = "Library/Application Support/pace-node"
	ioregPath   = "/usr/sbin/ioreg" // by its full path: PATH is the caller's
	hardwareTag = "pace-node hardware 1\x00"
)

// ioregArgs print the platform expert's properties.
var ioregArgs = []string{"-rd1", "-c", "IOPlatformExpertDevice"}

func stateDir(user bool, home string) string {
	switch {
	case !user:
		return systemState
	case home != "":
		return path.Join(home, userState)
	}
	return ""
}

var platformUUID = regexp.MustCompile(`"IOPlatformUUID" = "([0-9A-Fa-f-]{36})"`)

// uuidOf finds the machine's UUID in what ioreg printed, or "".
func uuidOf(ioreg []byte) string {
	if m := platformUUID.FindSubmatch(ioreg); m != nil {
		return string(m[1])
	}
	return ""
}
