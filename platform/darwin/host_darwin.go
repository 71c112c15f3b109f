package darwin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"time"

	"pace-node/internal/host"
)

type system struct{}

// New is this platform.
func New() host.Host { return system{} }

func (system) StateDir(user bool) string {
	home, _ := os.UserHomeDir()
	return stateDir(user, home)
}

func (system) Ordinary() bool { return os.Geteuid() != 0 }

func (system) Installed() bool {
	_, err := os.Stat(daemonPlist)
	return err == nil
}

func (system) Account() (uid, gid int, ok bool) { return 0, 0, false } // the daemon is root
func (system) AdminSocket(string) string        { return "" }

func (system) Hardware() string {
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

func (system) StoredSettings() (map[string]host.Setting, error) {
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
func (system) Ready() error                 { return nil }
func (system) Status(string) error          { return nil }
func (system) Stopping() error              { return nil }
func (system) WatchdogEvery() time.Duration { return 0 }
func (system) WatchdogPing() error          { return nil }

func (system) RunService(run func(context.Context) error, _ func(error) int) error {
	return host.RunUnderSignals(run)
}
