package linux

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestNotify hears what is told to systemd, on a socket like its own.
func TestNotify(t *testing.T) {
	path := filepath.Join(t.TempDir(), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	h := New()
	for _, c := range []struct {
		say  func() error
		want string
	}{
		{h.Ready, "READY=1"}, {h.Stopping, "STOPPING=1"}, {h.WatchdogPing, "WATCHDOG=1"},
		{func() error { return h.Status("learner of 0123\nof 3") }, "STATUS=learner of 0123 of 3"},
	} {
		if err := c.say(); err != nil {
			t.Fatal(err)
		}
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		b := make([]byte, 4096)
		n, err := conn.Read(b)
		if err != nil || string(b[:n]) != c.want {
			t.Errorf("heard %q, %v, want %q", b[:n], err, c.want)
		}
	}
	conn.Close()
	if err := h.Ready(); err == nil {
		t.Error("a word to a closed socket went well")
	}
	os.Unsetenv("NOTIFY_SOCKET")
	if err := h.Ready(); err != nil {
		t.Errorf("without a manager: %v", err)
	}
}

func TestWatchdogEvery(t *testing.T) {
	h := New()
	for _, c := range []struct {
		usec, pid string
		want      time.Duration
	}{
		{"", "", 0}, {"30000000", "", 30 * time.Second}, {"30000000", strconv.Itoa(os.Getpid()), 30 * time.Second},
		{"30000000", "1", 0}, // meant for another process
		{"soon", "", 0}, {"-1", "", 0},
	} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		if got := h.WatchdogEvery(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestHardwareIsADigestOfThisMachine(t *testing.T) {
	id, err := os.ReadFile(machineID)
	if errors.Is(err, os.ErrNotExist) || len(id) == 0 {
		if got := New().Hardware(); got != "" {
			t.Errorf("no machine id, and yet %q", got)
		}
		return
	}
	if got := New().Hardware(); len(got) != 64 || got != New().Hardware() {
		t.Errorf("%q is not a digest that stays", got)
	}
}
