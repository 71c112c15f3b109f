package probe

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds of what is read of /proc: a machine of many connections and processes is no reason to wait.
const (
	maxSocketTable = 8 << 20 // bytes of one table of sockets
	maxProcesses   = 20_000
	tcpListen      = "0A" // state of a listening socket
)

// holder names the program that has a port: "sshd, process 812". It is "" where that is another account's and this one may
// not see it.
func holder(proto, port string) string {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return ""
	}
	inodes := map[string]bool{}
	for _, table := range []string{proto, proto + "6"} {
		f, err := os.Open(filepath.Join("/proc/net", table))
		if err != nil {
			continue
		}
		for _, inode := range inodesOf(io.LimitReader(f, maxSocketTable), uint16(number), proto == "tcp") {
			inodes["socket:["+inode+"]"] = true
		}
		f.Close()
	}
	if len(inodes) == 0 {
		return ""
	}
	processes, err := os.ReadDir("/proc")
	if err != nil {
		return ""
	}
	for _, p := range processes[:min(len(processes), maxProcesses)] {
		if _, err := strconv.Atoi(p.Name()); err != nil {
			continue
		}
		folder := filepath.Join("/proc", p.Name(), "fd")
		files, err := os.ReadDir(folder)
		if err != nil {
			continue // it ended, or is another's
		}
		for _, fd := range files {
			if to, err := os.Readlink(filepath.Join(folder, fd.Name())); err == nil && inodes[to] {
				name, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "comm"))
				return fmt.Sprintf("%s, process %s", bytes.TrimSpace(name), p.Name())
			}
		}
	}
	return ""
}

// inodesOf reads a table of sockets as /proc/net has it and returns the inodes of those that hold a local port.
func inodesOf(table io.Reader, port uint16, listening bool) (out []string) {
	want := fmt.Sprintf("%04X", port)
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		// sl local_address rem_address st tx:rx tr:when retrnsmt uid timeout inode …
		f := strings.Fields(lines.Text())
		if len(f) < 10 || listening && f[3] != tcpListen {
			continue
		}
		if _, at, ok := strings.Cut(f[1], ":"); ok && at == want && f[9] != "0" {
			out = append(out, f[9])
		}
	}
	return out
}
