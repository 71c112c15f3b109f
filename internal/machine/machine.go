// Package machine is this machine as its verbs see it: where the state directory is, who may open it, the identity in it
// and the address that it advertises. Its one job is to give the verbs' implementation what it needs of this machine.
//
// It must never start a node, nor change anything that a running one uses; the service is the platform's to register.
package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/host"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
)

var (
	// ErrSudo: an ordinary user asked for the service's own identity.
	ErrSudo error = &told{nil, "the service's identity is its own to mint and to read", sudo(runtime.GOOS) + ", or give --state-dir for a node of your own"}
	// ErrNoStateDir: the platform knows no state directory for this account.
	ErrNoStateDir error = &told{nil, "this account has no folder for state", "give --state-dir one"}
)

// sudo is the way to run something as an administrator.
func sudo(goos string) string {
	if goos == "windows" {
		return "run it in a console that was opened with 'Run as administrator'"
	}
	return "run it with sudo"
}

// told is an error with the remedy that the operator reads.
type told struct {
	cause        error
	what, remedy string
}

func (t *told) Error() string { return t.what + "; " + t.remedy }
func (t *told) Unwrap() error { return t.cause }

// What is what is wrong, without the remedy.
func (t *told) What() string { return t.what }

// Remedy is the sentence that mends it, by itself.
func (t *told) Remedy() string { return t.remedy }

// Machine is a platform and what it runs under.
type Machine struct {
	host host.Host
	// Config is what was typed, with the platform's state directory and the host's name filled in.
	Config   config.Config
	Packaged bool // the state directory is the platform's, and nobody typed it
	// Point is called at each crash point of a verb that writes; nil: none.
	Point func(string)
}

// New fills in what only the platform knows. Beside an installed service an ordinary user's verbs mean that service.
func New(h host.Host, cfg config.Config) *Machine {
	m := &Machine{host: h, Config: cfg, Packaged: cfg.StateDir == ""}
	if m.Packaged {
		m.Config.StateDir = h.StateDir(h.Ordinary() && !h.Installed())
	}
	if name, err := os.Hostname(); err == nil && cfg.Name == "" {
		m.Config.Name = PlainName(name)
	}
	return m
}

// maxName is what --name may have, in bytes.
const maxName = 64

// PlainName makes of a host name what --name would accept: the first label where the whole is too long, and nothing but
// text.
func PlainName(host string) string {
	if len(host) > maxName {
		host, _, _ = strings.Cut(host, ".")
	}
	host = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(host, "")))
	return strings.ToValidUTF8(host[:min(len(host), maxName)], "")
}

// State is how this process opens the state directory. As an ordinary user beside an installed service it is refused: a
// second identity would be minted that the service never uses.
func (m *Machine) State() (opt statedir.Options, err error) {
	opt.Point = m.Point
	if m.Config.StateDir == "" {
		return opt, ErrNoStateDir
	}
	if m.Packaged && m.host.Ordinary() && m.host.Installed() {
		return opt, ErrSudo
	}
	if uid, gid, ok := m.host.Account(); ok && filepath.Clean(m.Config.StateDir) == m.host.StateDir(false) {
		opt.Account = &statedir.Account{UID: uid, GID: gid}
	}
	return opt, nil
}

// Mint is what a first start needs.
func (m *Machine) Mint() statedir.Mint {
	return statedir.Mint{Entropy: func(b []byte) { rand.Read(b) }, Now: time.Now(), Hardware: m.host.Hardware()}
}

// AdminSocket is where the node listens for its administrators.
func (m *Machine) AdminSocket() string { return m.socket() }

// Deps is what the verbs need.
func (m *Machine) Deps() control.RunDeps {
	return control.RunDeps{
		AdminPaths: control.AdminPaths(statedir.SocketPath(m.Config.StateDir), m.Packaged), Stdin: os.Stdin,
		Passphrase: m.passphrase, Sealed: sealed, Backup: m.backup, Restore: m.restore, Screen: screen(os.Stdout, os.LookupEnv),
		DialScheduler: m.dialScheduler, PeekIdentity: m.identity, ResetIdentity: m.reset, Election: control.ElectionPatience,
		Silent: m.silent, Surfaces: m.surfaces, RunHooks: m.runHooks, Install: m.install, Uninstall: m.uninstall, ApplyUpgrade: m.applyUpgrade,
		Doctor: m.diagnose, Terminal: onTerminal,
	}
}

func (m *Machine) identity(context.Context) (control.Identity, error) {
	opt, err := m.State()
	if err != nil {
		return control.Identity{}, err
	}
	record, key, err := statedir.Identity(m.Config.StateDir, opt, m.Mint())
	if err != nil {
		return control.Identity{}, statedir.Explain(err, m.Config.StateDir)
	}
	_, port, _ := net.SplitHostPort(m.Config.ListenRaft)
	raft, err := strconv.Atoi(port)
	return control.Identity{NodeID: record.NodeID, PublicKey: key.String(), Host: m.address(), RaftPort: raft}, err
}

// address is the host that this machine advertises, or "" if it has none.
func (m *Machine) address() string {
	if host, _, err := net.SplitHostPort(m.Config.Advertise); err == nil {
		return host
	} else if m.Config.Advertise != "" {
		return strings.Trim(m.Config.Advertise, "[]")
	}
	choices, route, err := netio.CurrentInterfaces(netio.InterfaceRules{Include: m.Config.DiscoveryInterfaces, Loopback: m.Config.DiscoveryLoopback})
	if addr, ok := netio.AdvertiseAddress(choices, route); err == nil && ok {
		return addr.String()
	}
	return ""
}

func (m *Machine) reset(context.Context) (control.Done, error) {
	opt, err := m.State()
	if err != nil {
		return control.Done{}, err
	}
	to, err := statedir.Reset(m.Config.StateDir, opt)
	err = statedir.Explain(err, m.Config.StateDir)
	if errors.Is(err, statedir.ErrInUse) {
		return control.Done{}, &told{err, "a node runs on this identity, and a verb does not disturb it", m.busy()}
	}
	if to == "" {
		return control.Done{Said: "there was no identity to put away"}, err
	}
	return control.Done{Said: "the old identity is in " + strconv.Quote(to) + ", and the next start mints a new one"}, err
}
