package darwin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"pace-node/internal/host"
)

type system struct {
	queue   *host.Queue // to the unified log; nil: launchd did not start this
	loggers *loggers
}

// New is this platform.
func New() host.Host { return &system{} }

func (*system) StateDir(user bool) string {
	home, _ := os.UserHomeDir()
	return stateDir(user, home)
}

func (*system) Ordinary() bool { return os.Geteuid() != 0 }

func newServices() *services {
	return &services{euid: os.Geteuid(), run: host.Run, place: host.CheckPlace}
}

func (*system) Installed() bool { return newServices().installed() }

// Install implements host.Host.
func (*system) Install(ctx context.Context, r host.Registration) (host.Outcome, error) {
	return newServices().install(ctx, r)
}

// Uninstall implements host.Host.
func (*system) Uninstall(ctx context.Context, name string) (host.Outcome, error) {
	return newServices().uninstall(ctx, name)
}

// State implements host.Host.
func (*system) State(ctx context.Context) (host.State, error) { return newServices().status(ctx) }

func (*system) Account() (uid, gid int, ok bool) { return 0, 0, false } // the daemon is root

// Hooks are beside the state: the service is root, and runs them itself.
func (*system) Hooks(stateDir string) host.Hooks {
	return host.Hooks{Dir: filepath.Join(stateDir, host.HooksDir)}
}

func (*system) AdminSocket(string) string { return "" }

func (*system) Hardware() string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, ioregPath, ioregArgs...).Output()
	id := uuidOf(out)
	if err != nil || id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(hardwareTag + id))
	return hex.EncodeToString(sum[:])
}

func (*system) StoredSettings() (map[string]host.Setting, error) {
	name := path.Join(systemState, envFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0 {
		return nil, nil // the folder is root's: an ordinary user's node has its own settings
	}
	if err != nil {
		return nil, err
	}
	return host.ParseEnvFile(name, data)
}

// launchd asks for no word.
func (*system) Ready() error                 { return nil }
func (*system) Status(string) error          { return nil }
func (*system) Stopping() error              { return nil }
func (*system) WatchdogEvery() time.Duration { return 0 }
func (*system) WatchdogPing() error          { return nil }

// Refuse implements host.Host: launchd keeps what is written to stderr.
func (*system) Refuse(error, int) {}

// Log is the unified log, beside stderr, which launchd keeps in a file.
func (s *system) Log(level slog.Leveler, format string) (slog.Handler, bool) {
	if s.queue == nil {
		return nil, true
	}
	return host.NewLines(level, format, s.queue.Say), true
}

func (s *system) RunService(run func(context.Context) error, _ func(error) int) error {
	if !underLaunchd(os.Getenv, os.Getppid()) {
		return host.RunUnderSignals(run)
	}
	s.loggers = &loggers{start: startLogger}
	s.queue = host.NewQueue(logQueue, s.loggers.say)
	ctx, cancel := context.WithCancel(context.Background())
	rotated := make(chan struct{})
	go func() {
		defer close(rotated)
		if _, err := os.Stat(rotatePlist); err != nil { // the package's own daemon does it
			rotate(ctx, logFile, func(err error) { fmt.Fprintf(os.Stderr, "pace-node: the log is not kept small: %v\n", err) })
		}
	}()
	defer func() {
		cancel()
		<-rotated
		if s.queue.Close(loggerWait) {
			s.loggers.close()
		}
	}()
	return host.RunUnderSignals(run)
}
