//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// The product reads the clock of its process and has no other, so that a test can give it one only where it is built: this
// is time.Now of the installed Go, with the seconds of a file added to the wall part of what it returns. Elapsed time is
// untouched, as on a machine whose date is set.
const (
	clockEnv   = "PACE_E2E_CLOCK" // names the file, which holds seconds as decimal digits
	clockLooks = "50*Millisecond" // between two looks at it

	nowHead  = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	nowShift = nowHead + "\tsec += shownAhead.Load()\n"

	importHead  = "import (\n\t\"errors\"\n\t\"math/bits\"\n"
	importShift = importHead + "\t\"sync/atomic\"\n\t\"syscall\"\n"

	// Now is called on stacks that may not enter the kernel (a timer's): a goroutine looks at the file.
	shiftCode = `
var shownAhead atomic.Int64

func init() {
	name, ok := syscall.Getenv("` + clockEnv + `")
	if !ok {
		return
	}
	look := func() {
		fd, err := open(name)
		if err != nil {
			panic("no clock: " + name)
		}
		buf := make([]byte, 32)
		n, err := read(fd, buf)
		closefd(fd)
		if err != nil || n == 0 {
			panic("no clock in " + name)
		}
		seconds, sign := int64(0), int64(1)
		for _, c := range buf[:n] {
			if c == '-' {
				sign = -1
			} else {
				seconds = 10*seconds + int64(c-'0')
			}
		}
		shownAhead.Store(sign * seconds)
	}
	look()
	go func() {
		for {
			Sleep(` + clockLooks + `)
			look()
		}
	}()
}
`
)

// clocked is the product with a clock that a file sets, built once.
var clocked = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp(scratch, "clocks-")
	if err != nil {
		return "", err
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	b, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	src := string(b)
	for from, to := range map[string]string{nowHead: nowShift, importHead: importShift} {
		if n := strings.Count(src, from); n != 1 {
			return "", fmt.Errorf("%s holds %d times what these tests replace; this Go differs from the one that they know:\n%s", original, n, from)
		}
		src = strings.Replace(src, from, to, 1)
	}
	shifted, overlay, out := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "pace-node")
	doc, err := json.Marshal(map[string]any{"Replace": map[string]string{original: shifted}})
	if err == nil {
		err = os.WriteFile(shifted, []byte(src+shiftCode), 0o644)
	}
	if err == nil {
		err = os.WriteFile(overlay, doc, 0o644)
	}
	if err != nil {
		return "", err
	}
	// Never under -race: the shift is in every part of what is built.
	build := exec.Command("go", "build", "-trimpath", "-overlay", overlay, "-o", out, "pace-node/cmd/pace-node")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build with the clock of a file: %w\n%s", err, said)
	}
	return out, nil
})

// A clock is how far a machine's date is from the true one; the zero value is right.
type skew time.Duration

// born1970 is a board without a clock chip that starts now.
func born1970() skew { return skew(time.Until(time.Unix(20, 0)).Truncate(time.Second)) }

// clockFile is where a node's clock is set.
func (n *node) clockFile() string { return n.dir + ".clock" }

// sets gives the machine another date, as a person or a time service does while the node runs, or before its start.
func (n *node) sets(s skew) {
	n.t.Helper()
	next := n.clockFile() + ".next"
	if err := os.WriteFile(next, strconv.AppendInt(nil, int64(time.Duration(s)/time.Second), 10), 0o644); err != nil {
		n.t.Fatal(err)
	}
	if err := os.Rename(next, n.clockFile()); err != nil {
		n.t.Fatal(err)
	}
}

// clockedNode prepares a node whose clock is set to s.
func (h *host) clockedNode(t *testing.T, name string, s skew, args ...string) *node {
	t.Helper()
	program, err := clocked()
	if err != nil {
		t.Fatal(err)
	}
	n := h.newNode(t, name, args...)
	n.binary, n.env = program, []string{clockEnv + "=" + n.clockFile()}
	n.sets(s)
	return n
}
