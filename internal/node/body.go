package node

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/follow"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
	"pace-node/internal/version"
	"pace-node/internal/wire"
)

// body is the serving half of one mode: a voter's share of the log, or a learner's copy of the state.
type body struct {
	n        *Node
	mode     formation.Mode
	row      formation.ModeRow // of the mode in which it was opened
	cluster  string
	began    time.Time
	raftPort uint16 // where voters reach this one; 0 on a learner
	saidTerm uint64 // the term that the log says this node leads in; the loop's

	cons    *consensus.Consensus                // solitary, pending, voter
	opened  atomic.Pointer[consensus.Consensus] // cons, for the layer's goroutines, which start before it
	layer   *netio.RaftLayer                    // beside cons: the consensus port
	source  *follow.Source                      // beside cons: what learners follow
	learner *follow.Learner                     // learner
	// admitted is the roster by which a learner follows, as far as it says when that was.
	admitted wire.Roster

	seat      atomic.Pointer[seat]        // a learner that is to be a voter
	seatSaid  atomic.Pointer[string]      // why it could not be opened
	told      atomic.Pointer[wire.Roster] // a voter: what another one said of the roster, ahead of its own state
	roster    *wire.Roster                // with which a voter becomes a learner; the loop's
	turns     map[string]time.Time        // a leader: since when it works on each promotion; reconcile's
	withdrawn map[string]stall            // and which it took back; reconcile's
	nudges    chan struct{}               // a role may have changed
	links     chan struct{}               // and who is kept a session with

	ctx    context.Context
	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// openBody opens the stores of the record's mode and starts them.
func (n *Node) openBody(ctx context.Context, rec statedir.Record) (*body, error) {
	mode, ok := formation.ParseMode(rec.Mode)
	if !ok {
		return nil, fmt.Errorf("the formation record has the mode %q, which this version does not know", rec.Mode)
	}
	row, _ := mode.Row()
	b := &body{n: n, mode: mode, row: row, cluster: rec.Cluster, began: time.Now(), turns: map[string]time.Time{}, withdrawn: map[string]stall{},
		nudges: make(chan struct{}, 1), links: make(chan struct{}, 1)}
	b.ctx, b.cancel = context.WithCancel(n.ctx)
	var err error
	if row.Consensus == formation.ConsensusFollows {
		err = b.openLearner(rec)
	} else {
		err = b.openVoter(ctx, rec)
	}
	if err != nil {
		b.cancel()
		b.wait.Wait()
		return nil, err
	}
	return b, nil
}

func (b *body) openVoter(ctx context.Context, rec statedir.Record) error {
	n := b.n
	listener, err := n.listen(n.cfg.Settings.ListenRaft, "--listen-raft")
	if err != nil {
		return err
	}
	b.raftPort = portOf(listener.Addr().String())
	layer := b.newLayer(listener)
	b.layer = layer
	b.source = follow.NewSource(follow.SourceConfig{
		Cluster: rec.Cluster,
		State:   func() *fleet.View { return b.cons.View() },
		Since: func(epoch, revision uint64) ([]follow.Entry, bool) {
			if epoch != b.cons.View().Epoch() {
				return nil, false
			}
			entries, ok := b.cons.Since(revision)
			out := make([]follow.Entry, len(entries))
			for i, e := range entries {
				out[i] = follow.Entry{Prev: e.Prev, Revision: e.Revision, Command: e.Command}
			}
			return out, ok
		},
		SnapshotFor: func(id string) (uint64, []byte) { return b.cons.SnapshotFor(id) },
		Term:        func() uint64 { return b.cons.Term() },
		Leader: func() (string, string) {
			id := b.cons.Leader()
			m, _ := b.cons.View().Member(id)
			if id == n.id {
				return id, n.fcEndpoint()
			}
			return id, m.Endpoints.FC
		},
		Silent: func() time.Duration { return b.cons.LastContact() },
		Now:    time.Now,
	})
	// An established fleet's roster and revocations are in its store: one that is gone is a loss, and is never founded anew.
	var bootstrap *consensus.Bootstrap
	if !rec.Established {
		bootstrap = &consensus.Bootstrap{Created: rec.Created, Member: n.founder(b.raftPort)}
	}
	b.cons, err = consensus.Open(ctx, consensus.Config{
		Dir: filepath.Join(n.dir.Path(), statedir.ConsensusDir), NodeID: n.id, Cluster: rec.Cluster, Layer: layer, Logger: n.log,
		Bootstrap: bootstrap,
		OnApply: func(e consensus.Entry) {
			b.source.Publish(follow.Entry{Prev: e.Prev, Revision: e.Revision, Command: e.Command, View: e.View, Result: e.Result})
		},
		NoSync: n.cfg.NoSync, Point: n.point, Epoch: epochOf(rec), RecoveredBy: n.key.Public().String(),
	})
	if err != nil {
		layer.Close()
		return err
	}
	b.opened.Store(b.cons)
	n.view.Store(b.cons.View())
	return nil
}

// epochOf is the epoch that the store of a recovery is to be in, 0 where there is none.
func epochOf(rec statedir.Record) uint64 {
	if rec.Recovery == nil {
		return 0
	}
	return rec.Recovery.Epoch
}

// newLayer opens the consensus port.
func (b *body) newLayer(listener net.Listener) *netio.RaftLayer {
	n := b.n
	layer := netio.NewRaftLayer(netio.RaftConfig{
		Key: n.key, NodeID: n.id, Cluster: b.cluster, Listen: listener, Dialer: n.cfg.Network.Dial, Logger: n.log,
		Epoch: b.epoch, Guard: b.guard, Keep: b.keep, Resolve: b.resolve, Loopback: n.cfg.Settings.DiscoveryLoopback,
	})
	n.raftPorts.opened(layer)
	return layer
}

// founder is this machine as the first member of its own fleet, reached by other voters at raftPort.
func (n *Node) founder(raftPort uint16) fleet.Member {
	return fleet.Member{
		ID: n.id, Key: n.key.Public(), Name: n.name, Labels: n.cfg.Settings.Labels, Role: fleet.RoleVoter, Platform: version.Platform(),
		Version: version.Version, Format: fleet.Format, Endpoints: wire.Endpoints{FC: n.fcEndpoint(), Raft: n.endpoint(raftPort)}, Admitted: time.Now().Unix(), AdmittedBy: n.key.Public().String(),
	}
}

func (b *body) openLearner(rec statedir.Record) error {
	if rec.Joined == nil {
		return errors.New("the formation record says learner and not of which fleet; restore the state directory from a backup")
	}
	if err := json.Unmarshal(rec.Joined.Roster, &b.admitted); err != nil {
		return fmt.Errorf("the formation record's roster does not read: %w; restore the state directory from a backup", err)
	}
	err := b.follow(rec)
	if errors.Is(err, follow.ErrStale) {
		// What it followed before it was a voter, and could not keep anew: a voter sends the state again.
		to, archiveErr := b.n.dir.Archive(rec.Cluster, statedir.FollowDir)
		if archiveErr != nil {
			return errors.Join(err, archiveErr)
		}
		b.n.log.Warn("the followed state is of before this machine's last approval: put away, a voter sends it again", "to", to)
		err = b.follow(rec)
	}
	if err != nil {
		return err
	}
	b.n.view.Store(b.learner.View())
	return nil
}

// follow opens the followed state of a record.
func (b *body) follow(rec statedir.Record) error {
	dir := filepath.Join(b.n.dir.Path(), statedir.FollowDir)
	if err := markStore(dir, rec.Cluster, b.n.point); err != nil {
		return err
	}
	var err error
	b.learner, err = follow.OpenLearner(follow.LearnerConfig{
		Dir: dir, Cluster: rec.Cluster, Self: b.n.id, Key: b.n.key.Public(), Seed: rec.Joined.Roster,
		Logger: b.n.log, NoSync: b.n.cfg.NoSync, Point: b.n.point,
		OnForgotten: func(revision uint64, revoked bool) {
			b.n.post(func(now time.Time) { b.n.forgotten(now, b, revision, revoked) })
		},
		OnLeader: func() {
			b.n.post(func(now time.Time) {
				if b.n.body == b {
					b.n.publish(now)
					b.n.tellStarts()
				}
			})
		},
		OnRefused:     func(voter string, e *wire.Error) { b.n.toldDissolved(voter, e) },
		OnFormatNewer: func(err error) { b.n.board.Raise("fleet-format-newer", err.Error()) },
		Rand:          b.n.cfg.Random,
	})
	return err
}

// start lets the body's goroutines run; the loop calls it once the body is its own.
func (b *body) start() {
	n := b.n
	updates := b.updates()
	b.wait.Go(func() {
		for {
			select {
			case <-b.ctx.Done():
				return
			case <-updates:
				n.freshen(b)
				n.post(func(now time.Time) { n.viewChanged(now, b) })
			}
		}
	})
	if b.cons != nil {
		b.wait.Go(b.keepLinks)
		b.wait.Go(b.reconcile)
		b.wait.Go(func() {
			for {
				select {
				case <-b.ctx.Done():
					return
				case <-b.cons.Leadership():
					n.post(func(now time.Time) {
						if n.body == b {
							n.leadership(now)
							n.ownRole(now, b, b.view())
							b.nudge()
						}
					})
				}
			}
		})
		return
	}
	b.wait.Go(func() { _ = b.learner.Hold(b.ctx, n.reachVoter) }) // it ends with the body only
	if b.row.RaftPort == formation.RaftWhileBecomingVoter {
		b.wait.Go(b.keepSeat)
	}
	b.wait.Go(func() {
		if err := b.learner.Run(b.ctx, n.dialVoter); err != nil && b.ctx.Err() == nil && !errors.Is(err, follow.ErrForgotten) {
			n.log.Error("following the fleet ended", "error", err.Error())
		}
	})
}

// freshen publishes the state as b has it now, unless a newer one is published already. Whoever has just committed calls
// it too, so that it reads what it wrote.
func (n *Node) freshen(b *body) {
	for n.serving.Load() == b {
		old, v := n.view.Load(), b.view()
		if old == v {
			return
		}
		// At one position another state may take its place: where voters' disks were put back, it is their word that counts.
		if old != nil && old.Cluster() == v.Cluster() && fleet.ComparePosition(old.Epoch(), old.Revision(), v.Epoch(), v.Revision()) > 0 {
			return
		}
		if n.view.CompareAndSwap(old, v) {
			return
		}
	}
}

func (b *body) view() *fleet.View {
	if b.cons != nil {
		return b.cons.View()
	}
	return b.learner.View()
}

func (b *body) updates() <-chan struct{} {
	if b.cons != nil {
		return b.cons.Updates()
	}
	return b.learner.Updates()
}

// leads reports whether this node leads a fleet now.
func (b *body) leads() bool { return b != nil && b.cons != nil && b.cons.IsLeader() }

// writeErr is why a voter's log cannot be written, nil on a learner.
func (b *body) writeErr() error {
	if b == nil || b.opened.Load() == nil {
		return nil
	}
	return b.opened.Load().WriteErr()
}

// close stops the body and closes its stores, so that their folders can be renamed.
func (b *body) close() {
	if b == nil {
		return
	}
	b.cancel()
	if b.source != nil {
		b.source.Close()
	}
	if b.learner != nil {
		if err := b.learner.Close(); err != nil {
			b.n.log.Error("closing the followed state", "error", err.Error())
		}
	}
	if b.cons != nil {
		if err := b.cons.Close(); err != nil {
			b.n.log.Error("closing the consensus store", "error", err.Error())
		}
	}
	b.wait.Wait()
}

var (
	errRaftStarting = errors.New("the store is still being opened")
	errRaftCluster  = errors.New("the stream is of another fleet")
	errRaftKey      = errors.New("the key is not the roster's for that voter")
	errRaftRole     = errors.New("the sender is no voter, by the roster and by raft's configuration")
)

// state is what the layer's goroutines judge by: they start before the store is open, and nil is then.
func (b *body) state() *fleet.View {
	if c := b.opened.Load(); c != nil {
		return c.View()
	}
	if b.learner != nil {
		return b.learner.View()
	}
	return nil
}

// epoch is the recovery epoch of the state, 0 while the store is still being opened.
func (b *body) epoch() uint64 {
	if v := b.state(); v != nil {
		return v.Epoch()
	}
	return 0
}

// guard serves a raft stream only to a voter of the applied roster under its own key, or to a member that raft's
// configuration still names: a demoted one whose log is the longest has to be able to lead until the others have what it
// has. raft itself checks none of this.
func (b *body) guard(h wire.RaftStreamHeader, peer identity.PublicKey) error {
	v := b.state()
	if v == nil {
		return errRaftStarting
	}
	if h.Cluster != v.Cluster() {
		return errRaftCluster
	}
	m, ok := b.sight(h.Source)
	if !ok || m.Key != peer {
		return errRaftKey
	}
	if m.Role != fleet.RoleVoter && m.Role != fleet.RoleVoterPending && !b.names(h.Source) {
		return errRaftRole
	}
	return nil
}

// names reports whether raft's configuration, as this machine has it, names a member.
func (b *body) names(id string) bool {
	c := b.opened.Load()
	if s := b.seat.Load(); c == nil && s != nil {
		c = s.cons
	}
	return c != nil && c.Seats()[id] != fleet.SeatNone
}

// keep closes the streams to whoever is no member under that key any more.
func (b *body) keep(target string, key identity.PublicKey) error {
	if m, ok := b.sight(target); !ok || m.Key != key {
		return errRaftKey
	}
	return nil
}

// resolve says where a voter is and under which key; the address decides nothing, the key does.
func (b *body) resolve(id string) (endpoints []string, key identity.PublicKey, err error) {
	if b.state() == nil {
		return nil, key, errRaftStarting
	}
	m, ok := b.sight(id)
	if !ok {
		return nil, key, fmt.Errorf("no member has the id %q", id)
	}
	var proven string
	_ = b.n.ask(b.ctx, func(time.Time) { _, proven, _ = b.n.exchange.Lookup(id) }) // a node that stops proves nothing
	return raftEndpoints(proven, m.Endpoints.Raft, b.n.voterDials.candidates(m.Key)), m.Key, nil
}

// raftEndpoints are where to try a voter's consensus port, in order: what its own datagrams proved lately, what the roster
// holds, and the hosts at which its 0xFC port was reached last or is remembered to have been, under the same port number.
func raftEndpoints(proven, said string, remembered []string) []string {
	var out []string
	add := func(e string) {
		if e != "" && !slices.Contains(out, e) && len(out) < dialsOfVoter {
			out = append(out, e)
		}
	}
	add(proven)
	add(said)
	port := strconv.Itoa(control.DefaultRaftPort)
	if _, p, err := net.SplitHostPort(cmp.Or(proven, said)); err == nil {
		port = p
	}
	for _, e := range remembered {
		if host, _, err := net.SplitHostPort(e); err == nil {
			add(net.JoinHostPort(host, port))
		}
	}
	return out
}

// PortError says that a port is taken, and which flag chooses another.
type PortError struct {
	Port, Flag string
	Err        error
}

// Error implements error.
func (e *PortError) Error() string {
	return fmt.Sprintf("can't listen on %s: %v; stop what holds the port, or choose another with %s", e.Port, e.Err, e.Flag)
}

// Unwrap gives the system's error.
func (e *PortError) Unwrap() error { return e.Err }

// archiveOthers puts away every store that is not the record's fleet's. It finishes what a crash interrupted, so it is
// also the first thing that a start does.
func (n *Node) archiveOthers(rec statedir.Record) error {
	type store struct {
		name  string
		owner func(dir string) (string, error)
		keep  bool // the record's mode uses it
	}
	learner := rec.Mode == formation.Learner.String()
	stores := []store{
		{statedir.ConsensusDir, consensus.Owner, !learner},
		{statedir.FollowDir, storeOwner, learner},
	}
	for _, s := range stores {
		path := filepath.Join(n.dir.Path(), s.name)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			continue
		}
		owner, err := s.owner(path)
		if err != nil {
			return err
		}
		// Of its own fleet a voter keeps what it followed and a learner its seat's store: the term and the vote that it
		// holds must outlive a demotion.
		if owner == rec.Cluster || owner == "" {
			continue // without a name a crash came before it was given one: nothing is in it yet
		}
		if s.keep && rec.Established {
			// No move leaves this: a move to another fleet's store passes through a fleet of one that is not established.
			return fmt.Errorf("%w: %s names fleet %q, and the formation record says fleet %q; nothing was changed: put that folder back from a backup, or move the state directory away and let this machine join again", consensus.ErrOtherCluster, path, owner, rec.Cluster)
		}
		to, err := n.dir.Archive(owner, s.name)
		if err != nil {
			return fmt.Errorf("put the store in %s away under archive/: %w", path, err)
		}
		n.log.Info("store archived", "fleet", owner, "to", to)
	}
	return nil
}

// ownerFile names the fleet that a learner's store is of, so that a start after a crash knows where it belongs.
const ownerFile = "cluster"

var markPoints = prefixed("node.mark.", statedir.WriteSteps)

func markStore(dir, cluster string, point func(string)) error {
	owner, err := storeOwner(dir)
	if err != nil || owner == cluster {
		return err
	}
	if owner != "" {
		return fmt.Errorf("%s holds the state of fleet %q, and this machine is in %q: move it away", dir, owner, cluster)
	}
	if err := statedir.MakeFolder(dir); err != nil {
		return err
	}
	return statedir.WriteFileAtomic(filepath.Join(dir, ownerFile), []byte(cluster+"\n"), 0o600, func(step string) { point("node.mark." + step) })
}

func storeOwner(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, ownerFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	name, ok := strings.CutSuffix(string(b), "\n")
	if !ok || name == "" {
		return "", fmt.Errorf("%s does not name a fleet; restore the state directory from a backup, or move %s away: it is fetched again", filepath.Join(dir, ownerFile), dir)
	}
	return name, nil
}

// listen opens a TCP listener, or says which flag chooses another port.
func (n *Node) listen(addr, flag string) (net.Listener, error) {
	l, err := n.cfg.Network.Listen(addr)
	if err != nil {
		return nil, &PortError{Port: addr, Flag: flag, Err: err}
	}
	return l, nil
}
