package target

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// Config is what a target is opened with.
type Config struct {
	Dir         string // <state-dir>/provisioned; made if it is not there
	NodeID      string
	Name        string            // for people
	Labels      map[string]string // for people
	Version     string
	Platform    string                // GOOS/GOARCH
	Cluster     string                // the fleet that this machine is in
	BootCounter uint64                // number of this start; rises by one each
	Entropy     func([]byte)          // nil: the system's
	Facts       func() map[string]any // added to the facts that this package reads itself; nil: none
	Mode        string                // auto, always, never; "": auto
	Logger      *slog.Logger          // nil: none
	Point       func(string)          // called with each name of Points; nil: none
	Hooks       Hooks                 // what runs with a new configuration

	// Restarted is called after each restart of the target's side, before the step is answered: the machine announces
	// itself again. Shutdown is called when the leader told this machine to end, before the step is answered: the process
	// ends with 0 once the answer is sent; nil: the step is refused. Neither may wait for the step.
	Restarted func()
	Shutdown  func(msg string)

	// Upgrade replaces this process' program; nil: nothing does. Upgraded is called once it is replaced, before the step is
	// answered: the process ends once the answer is sent, and its service manager starts the new program.
	Upgrade  Upgrader
	Upgraded func(version string)
}

// Target is one node's side of provisioning. Its methods may be called from several goroutines; only Open, Work, Flush
// and Close touch a disk.
type Target struct {
	cfg   Config
	mode  Mode
	boot  [16]byte
	log   *slog.Logger
	store store

	ending   context.Context // ends when this node begins to stop
	end      context.CancelFunc
	quit     chan struct{}
	quitOnce sync.Once
	changed  chan struct{}
	kept     chan struct{} // closed when the keeper has ended
	saving   sync.Mutex    // held while the state is written; before mu
	saved    uint64        // version on disk; guarded by saving
	sealed   bool          // nothing is written any more; guarded by saving
	steps    sync.WaitGroup

	mu        sync.Mutex
	state     state
	version   uint64 // of state
	issued    uint64 // highest number of a demand or of a configuration that was begun
	current   configured
	restarted bool // the target's side runs what is current, since this boot
	running   *running
	sequence  uint64
	closed    bool
	replaced  bool // another program took this one's place
	refused   map[Reason]uint64
	said      refusalSaid // what the log was told last of a step that was not carried out
	saidAt    time.Time
	begun     uint64 // steps
	suspect   string // what the last look found amiss with what runs, "" nothing
}

// refusalSaid is a step that was not carried out, as the log says it.
type refusalSaid struct {
	step   string
	reason Reason
	text   string
}

// running is the step that runs.
type running struct {
	step   string
	cancel func(error)
}

// Open reads the folder, after it has ended what a crash interrupted. A configuration that is damaged is no error: the
// machine wants provisioning. A folder that cannot be used is one (ErrFolder).
func Open(cfg Config) (*Target, error) {
	if err := check(&cfg); err != nil {
		return nil, err
	}
	t := &Target{
		cfg: cfg, mode: Mode(cfg.Mode), log: cfg.Logger, store: store{cfg.Dir, cfg.Point},
		quit: make(chan struct{}), changed: make(chan struct{}, 1), kept: make(chan struct{}),
		refused: map[Reason]uint64{},
	}
	for _, r := range Reasons {
		t.refused[r.Reason] = 0
	}
	t.ending, t.end = context.WithCancel(context.Background())
	binary.BigEndian.PutUint64(t.boot[:8], cfg.BootCounter)
	cfg.Entropy(t.boot[8:])
	if err := t.refuseLater(); err != nil { // before anything is changed
		return nil, err
	}
	if err := t.openFolder(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w; make it usable for the account that runs this node, or move it away", ErrFolder, cfg.Dir, err)
	}
	t.current = load(t.store.path(currentDir))
	read, err := readState(cfg.Dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.log.Warn("record of provisioning does not read; this machine wants provisioning", "file", filepath.Join(cfg.Dir, stateFile), "error", err.Error())
	}
	if t.current.damage != "" {
		t.log.Warn("provisioned configuration is damaged", "what", t.current.damage)
	}
	var changed bool
	t.state, changed = begin(read, err, t.current, cfg.Cluster, t.mode)
	t.issued = max(t.state.Demand, t.current.manifest.Demand)
	go t.keeper()
	if changed {
		t.mu.Lock()
		t.keep()
		t.mu.Unlock()
	}
	return t, nil
}

// laterFiles are the records of a folder that say which format they have, and the latest that is read.
var laterFiles = []struct {
	path  string
	known uint64
	most  int64 // bytes
}{
	{stateFile, stateFormat, maxState},
	{intentFile, intentFormat, maxIntent},
	{filepath.Join(currentDir, manifestFile), manifestFormat, maxManifest},
	{filepath.Join(stagingDir, manifestFile), manifestFormat, maxManifest},
}

// refuseLater refuses a folder that a later version wrote (statedir.ErrNewerFormat): what this one does not know of it would
// be lost with the next write. One that does not read at all is damage, which provisioning mends.
func (t *Target) refuseLater() error {
	for _, f := range laterFiles {
		path := filepath.Join(t.cfg.Dir, f.path)
		b, err := readSmall(path, f.most)
		if err != nil {
			continue
		}
		var head struct {
			Format uint64 `json:"format"`
		}
		if json.Unmarshal(b, &head) == nil && head.Format > f.known {
			return statedir.Refusal(path, statedir.Newer(head.Format, f.known), "")
		}
	}
	return nil
}

func check(cfg *Config) error {
	if cfg.Mode == "" {
		cfg.Mode = string(ModeAuto)
	}
	switch {
	case cfg.Dir == "":
		return fmt.Errorf("%w: no folder is given", ErrConfig)
	case !wire.ValidID(cfg.NodeID):
		return fmt.Errorf("%w: %s is no node id", ErrConfig, shown(cfg.NodeID))
	case !wire.ValidID(cfg.Cluster):
		return fmt.Errorf("%w: %s is no cluster id", ErrConfig, shown(cfg.Cluster))
	case !slices.Contains(Modes, Mode(cfg.Mode)):
		return fmt.Errorf("%w: --provision-mode is auto, always or never, and not %s", ErrConfig, shown(cfg.Mode))
	}
	if cfg.Entropy == nil {
		cfg.Entropy = func(b []byte) { _, _ = rand.Read(b) } // never fails: it ends the process instead
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Point == nil {
		cfg.Point = func(string) {}
	}
	if cfg.Platform == "" {
		cfg.Platform = runtime.GOOS + "/" + runtime.GOARCH
	}
	return nil
}

func (t *Target) openFolder() error {
	if err := statedir.MakeFolder(t.cfg.Dir); err != nil {
		return err
	}
	info, err := os.Lstat(t.cfg.Dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("it is no folder (%s)", info.Mode().Type())
	}
	if hasModes && info.Mode().Perm() != folderMode {
		if err := os.Chmod(t.cfg.Dir, folderMode); err != nil {
			return err
		}
	}
	if err := statedir.SweepTemp(t.cfg.Dir); err != nil {
		return err
	}
	return t.store.at("settle", func() error { _, err := t.store.settle(); return err })
}

// facts is what the tables look at. The caller holds mu.
func (t *Target) facts() facts {
	return facts{mode: t.mode, cluster: t.state.Cluster, asked: t.state.Asked, current: t.current, confirmed: t.state.Confirmed}
}

// Wants reports whether this machine wants to be provisioned, and why; where the mode is never, why it does not.
func (t *Target) Wants() (bool, string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return wants(t.facts())
}

// BootID is the number of this start, 8 bytes big-endian, and 8 random bytes.
func (t *Target) BootID() [16]byte { return t.boot }

// Sequence is the number of the last startup event of this boot, 0 before the first.
func (t *Target) Sequence() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sequence
}

// NextSequence is the number for the next startup event; a repeat has its own.
func (t *Target) NextSequence() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sequence++
	return t.sequence
}

// Component is what this machine says it is: wire.ComponentServer once it runs a configuration that was made for its last
// demand, and while it wants none; wire.ComponentProvision otherwise.
func (t *Target) Component() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.component()
}

func (t *Target) component() string {
	f := t.facts()
	if want, _ := wants(f); !want {
		return wire.ComponentServer
	}
	if _, ok := confirms(f, t.state.Demand, f.current.manifest.Digest); ok && t.restarted {
		return wire.ComponentServer
	}
	return wire.ComponentProvision
}

// Digest is the hex SHA-256 of the current configuration, "" if there is none that is whole.
func (t *Target) Digest() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.digest()
}

func (t *Target) digest() string {
	if !t.current.whole() {
		return ""
	}
	return t.current.manifest.Digest
}

// Query is the answer to a leader that asks who wants provisioning.
func (t *Target) Query() wire.QueryAnswer {
	t.mu.Lock()
	defer t.mu.Unlock()
	want, why := wants(t.facts())
	return wire.QueryAnswer{ID: t.cfg.NodeID, Wants: want, Why: why, Component: t.component(), BootID: hex.EncodeToString(t.boot[:]),
		ConfigDigest: t.digest(), Busy: t.running != nil}
}

// Confirmed tells that the fleet has committed that this machine runs the configuration with this digest. One that is not
// about the current configuration, or was committed before the last demand, changes nothing.
func (t *Target) Confirmed(digest string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if reason, ok := confirms(t.facts(), t.state.Demand, digest); !ok {
		t.refused[reason]++
		t.log.Debug("confirmation does not count", "reason", string(reason), "digest", wire.Printable(digest))
		return
	}
	if t.state.Confirmed == digest {
		return
	}
	t.state.Confirmed, t.state.Asked = digest, ""
	t.keep()
	t.log.Info("provisioned configuration is confirmed", "digest", digest)
}

// ChangeFleet tells that this machine is in another fleet now: a step that runs ends at its boundary, what is provisioned
// stays, and the machine wants provisioning. The fleet that it is in already changes nothing.
func (t *Target) ChangeFleet(cluster string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cluster == t.state.Cluster {
		return
	}
	if !wire.ValidID(cluster) {
		t.log.Error("change of fleet without a fleet's id is passed over", "cluster", wire.Printable(cluster))
		return
	}
	t.state.Cluster = cluster
	t.demand(WhyFirstBoot)
	if t.running != nil {
		t.running.cancel(errChangedFleet)
	}
	t.log.Info("this machine wants provisioning in another fleet", "cluster", wire.Printable(cluster))
}

// Reprovision makes the machine want provisioning again, until a configuration that was begun after it is confirmed.
func (t *Target) Reprovision(reason string) {
	why := WhyReprovision
	if reason != "" {
		reason = wire.Printable(reason)
		if len(reason) > MaxReason {
			n := MaxReason
			for n > MaxReason-utf8.UTFMax && !utf8.RuneStart(reason[n]) {
				n--
			}
			reason = reason[:n]
		}
		why += ": " + strings.ToValidUTF8(reason, "")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.demand(why)
	t.log.Info("reprovision asked for", "why", why, "mode", string(t.mode))
}

// demand asks for a configuration that is begun from now on. The caller holds mu.
func (t *Target) demand(why string) {
	t.issued++
	t.state.Used = t.state.inUse()
	t.state.Demand, t.state.Asked, t.state.Confirmed = t.issued, why, ""
	t.keep()
}

// Refusals counts what was refused, by reason; every reason is there from the start.
func (t *Target) Refusals() map[Reason]uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[Reason]uint64, len(t.refused))
	for r, n := range t.refused {
		out[r] = n
	}
	return out
}

// Stop has a running step end at its boundary, and refuses every further one. It does not wait.
func (t *Target) Stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	if t.running != nil {
		t.running.cancel(ErrClosed)
	}
	t.end()
}

// Close ends a running step at its boundary, waits for it and writes what is not on disk yet.
func (t *Target) Close() error {
	t.Stop()
	t.steps.Wait()
	t.quitOnce.Do(func() { close(t.quit) })
	<-t.kept
	err := t.save()
	t.saving.Lock()
	defer t.saving.Unlock()
	if t.sealed {
		return nil // closed before
	}
	t.sealed = true
	return err
}

func (t *Target) under(prefix string) func(string) { return under(t.cfg.Point, prefix) }
