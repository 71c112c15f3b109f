package statedir

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	// socketTemp is a fixed folder: TMPDIR differs between a service and the shell that looks for its socket.
	socketTemp = "/tmp"
	pipePrefix = `\\.\pipe\pace-node-`
	hashHex    = 16 // digits of the path's SHA-256 in a short name: 64 bits, for at most some directories a machine
)

// SocketPath is where the node of a state directory listens for its administrators: <state-dir>/admin.sock, or, over 100
// bytes, a short hashed path under the temporary folder; on Windows the name of a pipe. A client checks the owner of
// what it finds there before it speaks.
func SocketPath(stateDir string) string {
	if abs, err := filepath.Abs(stateDir); err == nil {
		stateDir = abs
	}
	return socketPath(runtime.GOOS, stateDir)
}

func socketPath(goos, dir string) string {
	if goos == "windows" {
		return pipePrefix + shortHash(strings.ToLower(dir)) // the file system there does not tell cases apart
	}
	if path := dir + "/" + SocketFile; len(path) <= maxSocketPath {
		return path
	}
	return socketTemp + "/pace-node-" + shortHash(dir) + ".sock"
}

func shortHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:hashHex]
}

// HardwareMoved tells whether the record was made on another machine than the one with this digest: the directory was
// moved, or copied. Unknown on either side is no.
func HardwareMoved(r Record, hardware string) bool {
	return r.Hardware != "" && hardware != "" && r.Hardware != hardware
}
