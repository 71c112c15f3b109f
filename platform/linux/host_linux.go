package linux

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"

	"pace-node/internal/host"
)

type system struct{}

// New is this platform.
func New() host.Host { return system{} }

func (system) StateDir(user bool) string {
	home, _ := os.UserHomeDir()
	return stateDir(user, os.Getenv("XDG_STATE_HOME"), home)
}

func (s system) Ordinary() bool {
	uid, _, ok := s.Account()
	return os.Geteuid() != 0 && !(ok && os.Geteuid() == uid)
}

func (s system) services() *services {
	return &services{euid: os.Geteuid(), run: host.Run, find: find, account: s.Account, place: host.CheckPlace, other: newInit, exe: processProgram}
}

func (s system) Installed() bool { return s.services().installed() }

// Install implements host.Host.
func (s system) Install(ctx context.Context, r host.Registration) (host.Outcome, error) {
	return s.services().install(ctx, r)
}

// Uninstall implements host.Host.
func (s system) Uninstall(ctx context.Context, name string) (host.Outcome, error) {
	return s.services().uninstall(ctx, name)
}

// State implements host.Host.
func (s system) State(ctx context.Context) (host.State, error) { return s.services().status(ctx) }

func find(program string) string {
	for _, dir := range programDirs {
		path := filepath.Join(dir, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0 {
			return path
		}
	}
	return ""
}

func processProgram(pid string) string {
	path, err := os.Readlink(filepath.Join("/proc", pid, "exe"))
	if err != nil {
		return ""
	}
	return path
}

func (system) Account() (uid, gid int, ok bool) {
	u, err := user.Lookup(account)
	if err != nil {
		return 0, 0, false
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	return uid, gid, err1 == nil && err2 == nil
}

func (system) AdminSocket(dir string) string {
	info, err := os.Lstat(runtimeDir)
	return adminSocket(dir, err == nil && info.IsDir())
}

func (system) Hooks(stateDir string) host.Hooks { return hooksOf(stateDir, os.Geteuid() == 0) }

func (system) Hardware() string {
	id, err := os.ReadFile(machineID)
	if err != nil || len(bytes.TrimSpace(id)) == 0 {
		return ""
	}
	sum := sha256.Sum256(append([]byte(hardwareTag), bytes.TrimSpace(id)...))
	return hex.EncodeToString(sum[:])
}

func (system) StoredSettings() (map[string]host.Setting, error) {
	data, err := os.ReadFile(settings)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return host.ParseEnvFile(settings, data)
}

func notify(state string) error {
	_, err := daemon.SdNotify(false, state)
	return err
}

func (system) Ready() error             { return notify(daemon.SdNotifyReady) }
func (system) Status(text string) error { return notify(statusLine(text)) }
func (system) Stopping() error          { return notify(daemon.SdNotifyStopping) }
func (system) WatchdogPing() error      { return notify(daemon.SdNotifyWatchdog) }

func (system) WatchdogEvery() time.Duration {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		return 0 // a manager that writes no number does not watch
	}
	return every
}

// Refuse implements host.Host: systemd keeps what is written to stderr.
func (system) Refuse(error, int) {}

// Log is the journal, through stderr: it takes the severity from a line's beginning.
func (system) Log(level slog.Leveler, format string) (slog.Handler, bool) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(os.Stderr.Fd()), &stat); err != nil || !journalled(os.Getenv("JOURNAL_STREAM"), stat.Dev, stat.Ino) {
		return nil, true
	}
	return host.NewLines(level, format, func(s host.Severity, line string) error {
		_, err := io.WriteString(os.Stderr, journalLine(s, line))
		return err
	}), false
}

func (system) RunService(run func(context.Context) error, _ func(error) int) error {
	return host.RunUnderSignals(run)
}

// Upgrades is root's way to replace the program.
func (system) Upgrades() host.Upgrades { return upgrades("", host.Run) }
