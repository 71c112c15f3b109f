package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/discovery"
	"pace-node/internal/enroll"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/provision"
	"pace-node/internal/queue"
	"pace-node/internal/statedir"
	"pace-node/internal/target"
	"pace-node/internal/version"
	"pace-node/internal/wire"
)

const (
	// relistPeriod is how often the interfaces are listed again.
	relistPeriod = 30 * time.Second
	// stopPatience bounds a clean stop: cycles end at a stage's boundary before it.
	stopPatience = 15 * time.Second
	// seenFor is how long a condition stands after its cause was last seen.
	seenFor = 5 * time.Minute
)

// tick is formation's beat.
var tick = formation.Event{Kind: formation.EvTick}

// Config is what a node is started with.
type Config struct {
	Settings config.Config
	HostName string // used where no --name is given
	Logger   *slog.Logger
	Network  Network
	// AdminSocket is where the administrators' socket is opened; empty: none is.
	AdminSocket string
	State       statedir.Options // how the state directory is opened; its Point is set from Point
	Mint        statedir.Mint    // what a first start mints with; the zero value takes Entropy and the clock
	Entropy     func([]byte)          // unpredictable bytes
	Random      func() float64        // 0..1, for jitter
	Facts       func() map[string]any // of this machine, for its inventory
	Point       func(name string)     // called at each crash point; nil: none
	NoSync      bool                  // leaves out the fsyncs of the stores; tests only
}

// Node is one running node. Start it once; Stop may be called from any state, and more than once.
type Node struct {
	cfg     Config
	log     *slog.Logger
	dir     *statedir.Dir
	key     identity.PrivateKey
	id      string
	name    string
	started time.Time

	ctx      context.Context // ends when the node stops
	cancel   context.CancelFunc
	inbox    *inbox
	quit     chan struct{}
	loopDone chan struct{}
	effects  sync.WaitGroup
	serving0 sync.WaitGroup
	records  serial
	stopOnce sync.Once
	stopped  chan struct{}
	failure  atomic.Pointer[error]

	port           netio.DatagramPort // nil: discovery is off
	hub            *netio.Hub
	server         *control.Server
	board          *control.Board
	metrics        *control.Metrics
	http           *control.HTTP
	target         *target.Target
	provisioner    *provision.Provisioner
	queue          *queue.Queue
	leases         *leaseBook
	fcListener     net.Listener
	fcPort         uint16
	raftPort       uint16
	advertisedHost string
	advertisedPort uint16
	seeds          []formation.Seed

	// Owned by the loop.
	rec         statedir.Record
	exchange    *discovery.Exchange
	form        *formation.Machine
	list        *enroll.List
	waiters     map[enroll.RowID][]*waiter
	formats     map[enroll.RowID]int
	body        *body
	asking      *asking
	admittedBy  identity.PublicKey
	inMove      bool
	afterMove   []func(*statedir.Record)
	led         bool
	foreign     map[string]foreignSeen
	lastHeard   map[string]time.Time
	seedSaid    map[string]string
	relisted    time.Time
	address     netip.Addr
	versionSeen time.Time
	clonedSeen  time.Time
	confirmed   string
	toldOn      *netio.Session // the session on which this start was told
	noise       noise

	// Read by any goroutine.
	view         atomic.Pointer[fleet.View]
	serving      atomic.Pointer[body]
	mode         atomic.Pointer[formation.Mode]
	leads        atomic.Pointer[leaderInfo]
	self         atomic.Pointer[wire.Summary]
	rowKeys      atomic.Pointer[map[identity.PublicKey]bool]
	addressText  atomic.Pointer[netip.Addr]
	pinDisagrees atomic.Bool
	turned       atomic.Int64 // Unix nanoseconds of the loop's last beat

	askMu     sync.Mutex
	lastAsk   *enroll.Ask
	lastAskOf string
}

// Start opens the state directory, binds the sockets, opens the fleet's state and begins to serve. Whatever is wrong is
// refused with what mends it, and leaves everything as it was.
func Start(cfg Config) (n *Node, err error) {
	if cfg.Point == nil {
		cfg.Point = func(string) {}
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	n = &Node{cfg: cfg, log: cfg.Logger, started: time.Now(), inbox: newInbox(), quit: make(chan struct{}), loopDone: make(chan struct{}),
		stopped: make(chan struct{}), waiters: map[enroll.RowID][]*waiter{}, formats: map[enroll.RowID]int{}, foreign: map[string]foreignSeen{},
		lastHeard: map[string]time.Time{}, seedSaid: map[string]string{}}
	n.records.n = n
	n.noise.log = n.log
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.board = control.NewBoard(n.log)
	n.metrics = control.NewMetrics(n.board, n.log)
	defer func() {
		if err != nil {
			n.abort()
			n = nil
		}
	}()
	if err = n.openState(); err != nil {
		return
	}
	if err = n.openSockets(); err != nil {
		return
	}
	if err = n.openFleet(); err != nil {
		return
	}
	n.serve()
	return
}

// openState takes the state directory and reads who this machine is.
func (n *Node) openState() error {
	var err error
	n.cfg.State.Point = n.cfg.Point
	if n.dir, err = statedir.Open(n.cfg.Settings.StateDir, n.cfg.State); err != nil {
		return err
	}
	if n.cfg.Mint.Entropy == nil {
		n.cfg.Mint.Entropy, n.cfg.Mint.Now = n.cfg.Entropy, time.Now()
	}
	if n.rec, n.key, err = n.dir.Load(n.cfg.Mint); err != nil {
		return err
	}
	counter, err := n.dir.NextBoot()
	if err != nil {
		return err
	}
	n.rec = n.dir.Record()
	n.id = n.rec.NodeID
	n.name = cmp.Or(n.cfg.Settings.Name, n.cfg.HostName, n.id)
	// A crash may have come between a record and the stores' move.
	if err := n.archiveOthers(n.rec); err != nil {
		return err
	}
	if n.leases, err = openLeases(n.dir.Path(), n.rec.Cluster, n.point); err != nil {
		return err
	}
	n.target, err = target.Open(target.Config{Dir: filepath.Join(n.dir.Path(), statedir.ProvisionedDir), NodeID: n.id, Name: n.name, Labels: n.cfg.Settings.Labels,
		Version: version.Version, Platform: version.Platform(), Cluster: n.rec.Cluster, BootCounter: counter, Entropy: n.cfg.Entropy, Facts: n.cfg.Facts,
		Mode: n.cfg.Settings.Provision.Mode, Logger: n.log, Point: n.cfg.Point,
		Restarted: func() { n.post(n.announce) }})
	return err
}

// openSockets binds everything that peers and administrators reach this node by.
func (n *Node) openSockets() error {
	s := n.cfg.Settings
	var err error
	if n.fcListener, err = n.listen(s.Listen, "--listen"); err != nil {
		return err
	}
	n.fcPort = portOf(n.fcListener.Addr().String())
	n.raftPort = portOf(s.ListenRaft)
	if s.Discovery != "" {
		listen, err := discoveryAddr(s.Discovery)
		if err != nil {
			return err
		}
		n.port, err = n.cfg.Network.Datagrams(netio.DatagramConfig{Listen: listen, ReplyPort: s.DiscoveryReplyPort, Include: s.DiscoveryInterfaces, Loopback: s.DiscoveryLoopback, Logger: n.log})
		if err != nil {
			return err
		}
	}
	if s.Advertise != "" {
		host, port, err := net.SplitHostPort(s.Advertise)
		if err != nil {
			host, port = s.Advertise, ""
		}
		n.advertisedHost, n.advertisedPort = host, portOf(":"+port)
	} else if addr, ok := n.cfg.Network.Address(n.port); ok {
		n.address = addr
		n.addressText.Store(&addr)
	}
	return nil
}

func discoveryAddr(s string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("--discovery=%s: %w; write addr:port, or nothing to turn it off", s, err)
	}
	if host == "" {
		host = "0.0.0.0"
	}
	return netip.ParseAddrPort(net.JoinHostPort(host, port))
}

func portOf(addr string) uint16 {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return 0
	}
	p, _ := strconv.ParseUint(port, 10, 16)
	return uint16(p)
}

// openFleet opens the fleet's state and everything that decides upon it.
func (n *Node) openFleet() error {
	own, err := ownOf(n.rec, n.key.Public())
	if err != nil {
		return err
	}
	now := time.Now()
	var pin *formation.Pin
	if text := n.cfg.Settings.FleetID; text != "" {
		if pin, err = formation.ParsePin(text); err != nil {
			return err
		}
	}
	for _, text := range n.cfg.Settings.FleetSeeds {
		endpoint, err := formation.ParseSeed(text)
		if err != nil {
			return err
		}
		n.seeds = append(n.seeds, formation.Seed{Endpoint: endpoint, Origin: formation.OriginSeed})
	}
	loopback := n.cfg.Settings.DiscoveryLoopback
	fc := formation.Config{Own: own, Pin: pin, Seeds: n.seeds, RevokedIn: n.rec.RevokedIn, LoopbackOK: loopback}
	for _, r := range n.rec.Rejections {
		fc.Rejections = append(fc.Rejections, formation.Rejection{Cluster: r.Cluster, Left: time.Duration(r.LeftSeconds) * time.Second})
	}
	n.form = formation.New(fc, now)
	n.mode.Store(&own.Mode)
	n.list = enroll.NewList(enroll.ListConfig{LoopbackOK: loopback, PerSource: func() int { return n.view.Load().Number(fleet.SettingPerSource) }}, now)
	n.exchange = discovery.New(discovery.Config{Loopback: loopback, Entropy: n.cfg.Entropy, Roster: n.roster, OwnAddress: n.cfg.Network.Own, Key: n.key}, now, discovery.Self{})

	n.server = control.NewServer(control.ServerConfig{Backend: n, Logger: n.log, Metrics: n.metrics})
	n.hub = netio.NewHub(netio.HubConfig{Key: n.key, Handler: n, Logger: n.log, Dialer: n.cfg.Network.Dial, Loopback: loopback,
		Admission: netio.AdmissionFacts{Known: n.known, Member: n.member},
		Duplicate: func(older, newer *netio.Session) {
			n.post(func(now time.Time) {
				n.clonedSeen = now
				n.board.Raise("identity-cloned", "the key "+newer.Peer().String()+" has live sessions from "+older.RemoteAddr().String()+" and "+newer.RemoteAddr().String())
			})
		}})
	if err := n.startProvisioner(); err != nil {
		return err
	}
	if n.body, err = n.openBody(n.ctx, n.rec); err != nil {
		return err
	}
	n.serving.Store(n.body)
	n.raftPort = cmp.Or(n.body.raftPort, n.raftPort)
	return nil
}

// serve starts every goroutine; from here on Stop ends them.
func (n *Node) serve() {
	n.metrics.SetSource(n.measure)
	now := time.Now()
	n.turned.Store(now.UnixNano())
	n.sayInterfaces()
	n.relisted = now
	n.publish(now)
	n.refreshSelf(now)
	n.showOwn()
	n.body.start()
	n.leadership(now)
	n.sayStart()
	go n.loop()
	n.serving0.Go(func() {
		if err := n.hub.Serve(n.fcListener); err != nil && n.ctx.Err() == nil {
			n.fail(fmt.Errorf("the 0xFC endpoint stopped: %w", err))
		}
	})
	if n.cfg.AdminSocket != "" {
		l, err := control.ListenAdmin(n.cfg.AdminSocket)
		if err != nil {
			n.fail(fmt.Errorf("administrators' socket %s: %w", n.cfg.AdminSocket, err))
			return
		}
		n.serving0.Go(func() {
			if err := n.server.ServeAdmin(l); err != nil && n.ctx.Err() == nil {
				n.log.Error("administrators' socket stopped", "error", err.Error())
			}
		})
	}
	if n.cfg.Settings.AdminListen != "" {
		n.http = control.StartHTTP(control.HTTPConfig{Addr: n.cfg.Settings.AdminListen, Metrics: n.metrics, Health: n.health, Board: n.board, Logger: n.log,
			Hosts: func() []string { return []string{n.name, n.cfg.HostName} }, Listen: func(_, address string) (net.Listener, error) { return n.cfg.Network.Listen(address) }})
	}
	n.step1(tick)
}

func (n *Node) step1(e formation.Event) { n.post(func(now time.Time) { n.step(now, e) }) }

// sayStart is the start-up line: every surface.
func (n *Node) sayStart() {
	attrs := []any{"version", version.Version, "node-id", n.id, "name", n.name, "mode", n.mode.Load().String(), "fleet", n.rec.Cluster, "key", n.key.Public().String(),
		"listen", n.fcListener.Addr().String(), "advertised", n.fcEndpoint(), "state-dir", n.dir.Path(), "admin-socket", n.cfg.AdminSocket, "admin-listen", n.cfg.Settings.AdminListen}
	if n.body.cons != nil {
		attrs = append(attrs, "listen-raft", n.cfg.Settings.ListenRaft)
	}
	if n.port != nil {
		attrs = append(attrs, "discovery-beacons", n.port.ListenerAddr().String(), "discovery-answers", n.port.AnsweringAddr().String())
	} else {
		attrs = append(attrs, "discovery-beacons", "off")
	}
	for _, s := range n.seeds {
		attrs = append(attrs, "seed", s.Endpoint)
	}
	n.log.Info("pace-node serves", attrs...)
}

func (n *Node) datagrams() <-chan netio.Received {
	if n.port == nil {
		return nil
	}
	return n.port.Receive()
}

// beat does what has no deadline of its own.
func (n *Node) beat(now time.Time) {
	n.turned.Store(now.UnixNano())
	n.due(now)
	n.step(now, tick)
	n.tickList(now)
	if n.list.Waiting() > 0 || n.board.Raised("enrollment-window-open") {
		n.listChanged(now)
	}
	if now.Sub(n.relisted) >= relistPeriod {
		n.readdress(now)
	}
	n.publish(now)
	for id, seen := range map[string]time.Time{"wire-version-seen": n.versionSeen, "identity-cloned": n.clonedSeen} {
		if !seen.IsZero() && now.Sub(seen) > seenFor {
			n.board.Clear(id)
		}
	}
	if b := n.body; b != nil && b.learner != nil {
		silent := n.leaderSilent()
		n.board.Set(silent >= leaderSilence, "consensus-leader-silent", fmt.Sprintf("no leader was heard for %s", silent.Truncate(time.Second)))
		offset, known := b.learner.ClockOffset(now)
		n.board.Set(known && offset.Abs() > fleet.LeaseSlack, "clock-skewed", fmt.Sprintf("the leader's clock is %s ahead of this machine's", offset.Truncate(time.Second)))
	}
	if b := n.body; b != nil && b.cons != nil && b.cons.Err() != nil {
		n.board.Raise("fleet-format-newer", b.cons.Err().Error())
	}
}

// leaderSilence is after how long without a leader the condition is raised, and readiness ends.
const leaderSilence = 90 * time.Second

// publish makes who leads readable by every goroutine.
func (n *Node) publish(time.Time) {
	b := n.body
	n.serving.Store(b)
	var l leaderInfo
	switch {
	case b == nil:
	case b.cons != nil:
		l.id = b.cons.Leader()
		if l.id == n.id {
			l.endpoint, l.key = n.fcEndpoint(), n.key.Public()
		} else if m, ok := b.view().Member(l.id); ok {
			l.endpoint, l.key = m.Endpoints.FC, m.Key
		}
	default:
		st := b.learner.Status()
		l.id, l.endpoint = st.LeaderID, st.LeaderEndpoint
		if m, ok := b.view().Member(l.id); ok {
			l.key = m.Key
			l.endpoint = cmp.Or(l.endpoint, m.Endpoints.FC)
		}
	}
	if old := n.leads.Load(); old == nil || *old != l {
		n.leads.Store(&l)
		if n.form != nil && n.exchange != nil {
			n.refreshSelf(time.Now())
		}
	}
}

// install makes a rebuilt body the node's own.
func (n *Node) install(now time.Time, b *body) {
	n.body = b
	n.serving.Store(b)
	n.raftPort = cmp.Or(b.raftPort, n.raftPort)
	b.start()
	n.leadership(now)
	n.viewChanged(now, b)
}

// viewChanged looks at the state that was just applied.
func (n *Node) viewChanged(now time.Time, b *body) {
	if n.body != b {
		return
	}
	v := b.view()
	own := n.form.Own()
	if b.cons != nil {
		if v.Established() && !own.Established {
			n.established(now)
		}
		if v.Len() > 1 && (own.Mode == formation.Solitary || own.Mode == formation.Pending) {
			n.step(now, formation.Event{Kind: formation.EvOwnFleetRecordedMachine})
		}
	}
	for _, s := range n.hub.Sessions() {
		if _, revoked := v.Revoked(s.Peer()); revoked && s.Inbound() {
			n.effect(func(context.Context) { s.Close(errRevoked) })
		}
	}
	if m, ok := v.Member(n.id); ok {
		n.confirmOwn(m)
	}
	if b.layer != nil {
		b.layer.Recheck()
	}
	n.refreshSelf(now)
	n.showFleet(v, own)
	n.leadership(now)
}

var errRevoked = errors.New("the fleet has forgotten this machine")

// established keeps for ever that the own fleet of one is more than that.
func (n *Node) established(now time.Time) {
	n.keepRecord(func(rec *statedir.Record) { rec.Established = true })
	n.step(now, formation.Event{Kind: formation.EvEstablished})
}

// confirmOwn ends this machine's wish once the fleet's state holds that its configuration was confirmed.
func (n *Node) confirmOwn(m fleet.Member) {
	p := m.Provision
	if len(p.Outcomes) == 0 {
		return
	}
	last := p.Outcomes[len(p.Outcomes)-1]
	mark := fmt.Sprint(p.LastSuccess, last, len(p.Outcomes))
	if mark == n.confirmed {
		return
	}
	n.confirmed = mark
	if last.Result == "provisioned" && p.ConfigDigest != "" && p.ConfigDigest == n.target.Digest() {
		n.target.Confirmed(p.ConfigDigest)
	}
}

// showFleet raises what the fleet's state alone shows.
func (n *Node) showFleet(v *fleet.View, own formation.Own) {
	voters := v.Voters()
	n.board.Set(v.Len() > 1 && len(voters) == 1, "single-voter-fleet", fmt.Sprintf("%s depend on one voter", plural(v.Len()-1, "machine", "machines")), "ID", "HOST:6680")
	if holder := v.HolderBack(); holder != "" {
		n.board.Raise("mixed-node-versions", control.Word(holder)+" runs a version that holds the fleet's format back")
	} else {
		n.board.Clear("mixed-node-versions")
	}
	n.pinDisagrees.Store(n.form.PinDisagrees())
	n.board.Set(n.pinDisagrees.Load(), "pin-disagrees", "--fleet-id does not admit the fleet "+control.Word(own.Cluster)+", which this machine is in; it takes no work")
}

// showOwn raises what the record alone shows.
func (n *Node) showOwn() {
	var all string
	for _, c := range n.rec.RevokedIn {
		if all != "" {
			all += ", "
		}
		all += control.Word(c)
	}
	n.board.Set(all != "", "own-key-revoked", "this machine's key is revoked in "+all)
	if v := n.view.Load(); v != nil {
		n.showFleet(v, n.form.Own())
	}
}

// forgotten is the learner's word that its fleet has forgotten it.
func (n *Node) forgotten(now time.Time, b *body, revision uint64) {
	if n.body != b {
		return
	}
	n.log.Warn("the fleet has forgotten this machine: it becomes a fleet of its own", "fleet", control.Word(b.cluster), "revision", revision)
	n.step(now, formation.Event{Kind: formation.EvForgotten})
}

// greeted is told of each Hello of a peer.
func (n *Node) greeted(now time.Time, p control.Peer, h wire.Hello) {
	m, ok := n.view.Load().ByKey(p.Key)
	if !ok {
		return
	}
	n.lastHeard[m.ID] = now
	if n.body.leads() {
		n.provisioner.SessionUp(m.ID)
	}
}

// health is what the health pages are worked out from.
func (n *Node) health() control.HealthFacts {
	l := n.leader()
	return control.HealthFacts{Alive: n.alive(), Loaded: n.view.Load() != nil, Bound: true, Mode: n.mode.Load().String(), LeaderID: l.id, Leader: l.endpoint, SilentFor: n.leaderSilent()}
}

// alive reports whether the loop turns; the watchdog asks it too.
func (n *Node) alive() bool { return time.Since(time.Unix(0, n.turned.Load())) < 10*beatPeriod }

// Alive reports whether the event loop turns.
func (n *Node) Alive() bool { return n.alive() }

// Done is closed when the node has stopped by itself or by Stop.
func (n *Node) Done() <-chan struct{} { return n.stopped }

// Err is why the node stopped by itself, nil after a Stop.
func (n *Node) Err() error {
	if p := n.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Mode is the mode that the node is in.
func (n *Node) Mode() formation.Mode { return *n.mode.Load() }

// ID is this node's id, and Key its public key.
func (n *Node) ID() string { return n.id }

// Key is this node's public key.
func (n *Node) Key() identity.PublicKey { return n.key.Public() }

// View is the fleet's state as applied here.
func (n *Node) View() *fleet.View { return n.view.Load() }

// fail stops the node for a fault that it cannot serve with.
func (n *Node) fail(err error) {
	n.log.Error("stopping", "error", err.Error())
	n.failure.CompareAndSwap(nil, &err)
	go n.Stop()
}

// Stop ends everything in order: work at its next boundary, then the loop, then sockets, stores and the directory.
func (n *Node) Stop() {
	n.stopOnce.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		n.provisioner.Stop(ctx)
		n.cancel()
		close(n.quit)
		<-n.loopDone
		if n.http != nil {
			n.http.Close()
		}
		n.server.Close()
		n.hub.Close()
		n.fcListener.Close()
		n.serving0.Wait()
		n.effects.Wait()
		n.body.close()
		if n.port != nil {
			n.port.Close()
		}
		n.target.Close()
		if err := n.dir.Close(); err != nil {
			n.log.Error("state directory not released", "error", err.Error())
		}
		n.log.Info("stopped", "node-id", n.id)
		close(n.stopped)
	})
	<-n.stopped
}

// abort undoes a start that failed half-way.
func (n *Node) abort() {
	n.cancel()
	n.inbox.close()
	n.body.close()
	if n.provisioner != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		n.provisioner.Stop(ctx)
	}
	if n.server != nil {
		n.server.Close()
	}
	if n.hub != nil {
		n.hub.Close()
	}
	if n.fcListener != nil {
		n.fcListener.Close()
	}
	if n.port != nil {
		n.port.Close()
	}
	if n.target != nil {
		n.target.Close()
	}
	n.effects.Wait()
	if n.dir != nil {
		n.dir.Close()
	}
}

func (n *Node) point(name string) { n.cfg.Point(name) }

// noise says a repeated line at most once a minute, with how many it stands for. It is the loop's.
type noise struct {
	log  *slog.Logger
	said map[string]time.Time
	held map[string]int
}

func (x *noise) say(now time.Time, msg string, attrs ...any) {
	if x.said == nil {
		x.said, x.held = map[string]time.Time{}, map[string]int{}
	}
	x.held[msg]++
	if last, ok := x.said[msg]; ok && now.Sub(last) < time.Minute {
		return
	}
	x.said[msg] = now
	x.log.Warn(msg, append(attrs, "stands-for", x.held[msg])...)
	x.held[msg] = 0
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(t error) bool { return errors.Is(err, t) })
}
