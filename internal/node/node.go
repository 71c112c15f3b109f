package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
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
	"pace-node/internal/control/page"
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
	// linkSettle is how long after a change that the system told of they are listed: a link, its address and its route come
	// one after the other.
	linkSettle = 250 * time.Millisecond
	// linkPause is the least time between two such lists, on a host whose containers come and go.
	linkPause = 2 * time.Second
	// stopPatience bounds a clean stop: cycles end at a stage's boundary before it.
	stopPatience = 15 * time.Second
	// dirPeriod is how often the state directory is looked at.
	dirPeriod = 10 * time.Second
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
	Hooks       target.Hooks          // what runs with a new configuration; the zero value: nothing
	State       statedir.Options      // how the state directory is opened; its Point is set from Point
	Mint        statedir.Mint         // what a first start mints with; the zero value takes Entropy and the clock
	Entropy     func([]byte)          // unpredictable bytes
	Random      func() float64        // 0..1, for jitter
	Facts       func() map[string]any // of this machine, for its inventory
	Point       func(name string)     // called at each crash point; nil: none
	Upgrade     target.Upgrader       // replaces this process' program; nil: nothing does
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

	ctx       context.Context // ends when the node stops
	cancel    context.CancelFunc
	inbox     *inbox
	quit      chan struct{}
	loopDone  chan struct{}
	effects   sync.WaitGroup
	serving0  sync.WaitGroup
	records   serial   // of the formation record
	outcomes  keyed    // of provisioning, by machine
	says      keyed    // announcements of this machine, by session
	toSay     sync.Map // sessions on which one waits its turn
	announces pacer    // of members, by id
	stopOnce  sync.Once
	stopped   chan struct{}
	failure   atomic.Pointer[error]

	port           netio.DatagramPort // nil: discovery is off
	discoveryOff   string             // why its default could not be met, empty otherwise
	hub            *netio.Hub
	server         *control.Server
	board          *control.Board
	feed           *control.Feed
	metrics        *control.Metrics
	http           *control.HTTP
	page           *page.Page
	credentials    *control.Credentials
	target         *target.Target
	provisioner    *provision.Provisioner
	provisions     atomic.Bool // there is a helper or a default that could be used, as last looked at
	queue          *queue.Queue
	leases         *leaseBook
	fcListener     net.Listener
	adminListener  net.Listener // nil: none
	fcPort         uint16
	raftPort       uint16 // of --listen-raft
	advertisedHost string
	advertisedPort uint16
	pin            *formation.Pin // nil: none
	typedSeeds     []formation.Seed

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
	afterMove   []recordChange
	awaited     []awaited // who waits for a move
	led         bool
	paused      bool // the setting provision.paused, as last followed
	means       means
	foreign     map[string]foreignSeen
	healing     healing
	lastHeard   map[string]time.Time
	srv         srvStatus
	srvSeeds    []string
	looked      *fleet.View // that viewChanged saw last
	grown       string      // the own fleet whose first other machine formation was told of
	relisted    time.Time
	relistAt    time.Time // the system told of a change; zero: it did not
	address     netip.Addr
	choices     []netio.InterfaceChoice // of discovery, as last listed
	versionSeen time.Time
	arrived     [2]uint64 // datagrams by the socket that they came to, discovery.Socket
	dirLooked   time.Time // when looking at the state directory began last
	dirLooking  bool
	// The same of the configuration that runs.
	configLooked  time.Time
	configLooking bool
	unproven      unproven
	telling       telling
	clonedSeen    time.Time
	clonedID      string // whose key that is
	clonedSaid    string
	movedSince    time.Time // since when this directory, made on other hardware, is the only one under its key
	reached       time.Time // when a voter of the fleet was last heard
	confirmed     string
	elsewheres    map[identity.PublicKey]elsewhere // who speaks for this fleet and is no voter of it here
	askedEpoch    map[identity.PublicKey]time.Time // when a member was last dialled to hear its recovery epoch
	greeted1      time.Time                        // when any member was
	elected       atomic.Pointer[chan struct{}]    // closed when somebody else leads
	toldOn        map[*netio.Session]bool          // sessions with voters on which this start was told
	queuePaused   string                           // why the queue has nothing to provision with, empty otherwise
	noise         noise
	alerts        alerts
	unheard       unheard
	lastTold      lastTold // of what a person watches

	// Read by any goroutine.
	raftPorts    raftPorts
	followers    sync.Map // *netio.Session → chan struct{}, closed when its Follow has ended
	followed     followersElsewhere
	view         atomic.Pointer[fleet.View]
	serving      atomic.Pointer[body]
	mode         atomic.Pointer[formation.Mode]
	leads        atomic.Pointer[leaderInfo]
	self         atomic.Pointer[wire.Summary]
	rowKeys      atomic.Pointer[map[identity.PublicKey]bool]
	addressText  atomic.Pointer[netip.Addr]
	pinDisagrees atomic.Bool
	dissolved    atomic.Pointer[dissolvedInto] // nil: no order was obeyed
	backup       backupState
	leavingOn    atomic.Bool  // goOnLeaving runs
	turned       atomic.Int64 // the loop's last beat, in nanoseconds since started: a date that is set must not look like a loop that stands

	// voterDials is where the fleet's voters were reached.
	voterDials voterDials

	// approvedOn is the session on which this machine was approved last: the fleet is followed over it.
	approvedOn atomic.Pointer[netio.Session]

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
		lastHeard:  map[string]time.Time{},
		elsewheres: map[identity.PublicKey]elsewhere{}, askedEpoch: map[identity.PublicKey]time.Time{}}
	n.records.n = n
	n.outcomes = keyed{lines: map[string]*serial{}, n: n}
	n.says = keyed{lines: map[string]*serial{}, n: n}
	n.noise.log = n.log
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.board = control.NewBoard(n.log)
	n.feed = control.NewFeed()
	n.board.Feed(n.feed)
	n.metrics = control.NewMetrics(n.board, n.log)
	defer func() {
		if err != nil {
			n.abort()
			n, err = nil, statedir.Explain(err, cfg.Settings.StateDir)
		}
	}()
	if n.credentials, err = control.OpenCredentials(cfg.Settings, n.log); err != nil {
		return
	}
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
	if n.alerts.argv, err = alertArgv(n.cfg.Settings.AlertExec); err != nil {
		return err
	}
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
	n.showDissolved(n.rec)
	n.openUnheard(n.dir.Path())
	n.name = cmp.Or(n.cfg.Settings.Name, n.cfg.HostName, n.id)
	// A crash may have come between a record and the stores' move.
	if n.rec, err = n.takeStores(n.rec); err != nil {
		return err
	}
	if n.leases, err = openLeases(n.dir.Path(), n.rec.Cluster, n.point); err != nil {
		return err
	}
	n.target, err = target.Open(target.Config{Dir: filepath.Join(n.dir.Path(), statedir.ProvisionedDir), NodeID: n.id, Name: n.name, Labels: n.cfg.Settings.Labels,
		Version: version.Version, Platform: version.Platform(), Cluster: n.rec.Cluster, BootCounter: counter, Entropy: n.cfg.Entropy, Facts: n.cfg.Facts,
		Mode: n.cfg.Settings.Provision.Mode, Logger: n.log, Point: n.cfg.Point, Hooks: n.cfg.Hooks,
		Restarted: func() { n.post(n.announce) }, Shutdown: n.shutDown, Upgrade: n.cfg.Upgrade, Upgraded: n.upgraded})
	if n.cfg.Upgrade != nil {
		if back, ok := n.cfg.Upgrade.RolledBack(); ok {
			n.log.Warn("last upgrade was rolled back", "version", back.Version, "why", back.Why, "at", back.At.UTC().Format(time.RFC3339))
		}
	}
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
	if n.cfg.AdminSocket != "" {
		if n.adminListener, err = control.ListenAdmin(n.cfg.AdminSocket); err != nil {
			return fmt.Errorf("administrators' socket %s: %w", n.cfg.AdminSocket, err)
		}
	}
	if s.Discovery != "" {
		listen, err := discoveryAddr(s.Discovery)
		if err != nil {
			return err
		}
		n.port, err = n.cfg.Network.Datagrams(netio.DatagramConfig{Listen: listen, ReplyPort: s.DiscoveryReplyPort, Include: s.DiscoveryInterfaces, Loopback: s.DiscoveryLoopback, Logger: n.log})
		if err != nil && n.typed("discovery", "discovery-interface", "discovery-reply-port") {
			return fmt.Errorf("%w; stop what holds the port, or choose others with --discovery and --discovery-reply-port", err)
		}
		if err != nil {
			n.discoveryOff = err.Error() // what nobody typed stands down
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

// typed reports whether a person chose one of these options: a default that can't be met stands down, a typed one refuses
// the start.
func (n *Node) typed(options ...string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return n.cfg.Settings.Typed[o] != config.OriginDefault })
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
	if text := n.cfg.Settings.FleetID; text != "" {
		if n.pin, err = formation.ParsePin(text); err != nil {
			return err
		}
	}
	for _, text := range n.cfg.Settings.FleetSeeds {
		endpoint, err := formation.ParseSeed(text)
		if err != nil {
			return err
		}
		n.typedSeeds = append(n.typedSeeds, formation.Seed{Endpoint: endpoint, Origin: formation.OriginSeed})
	}
	loopback := n.cfg.Settings.DiscoveryLoopback
	fc := formation.Config{Own: own, Pin: n.pin, Seeds: n.typedSeeds, RevokedIn: n.rec.RevokedIn, LoopbackOK: loopback}
	fc.Seeds = append(slices.Clone(fc.Seeds), rememberedSeeds(n.rec.Remembered)...)
	n.voterDials.before = n.rec.Remembered
	// With --discovery-loopback nothing leaves this machine, a question to a name server neither.
	_, fc.SRV = n.cfg.Network.(SeedFinder)
	fc.SRV = fc.SRV && !loopback
	for _, r := range n.rec.Rejections {
		fc.Rejections = append(fc.Rejections, formation.Rejection{Cluster: r.Cluster, Left: time.Duration(r.LeftSeconds) * time.Second})
	}
	n.form = formation.New(fc, now)
	n.mode.Store(&own.Mode)
	n.list = enroll.NewList(enroll.ListConfig{LoopbackOK: loopback, PerSource: func() int { return n.view.Load().Number(fleet.SettingPerSource) }}, now)
	n.exchange = discovery.New(discovery.Config{Loopback: loopback, Entropy: n.cfg.Entropy, Roster: n.roster, OwnAddress: n.ownAddress, Broadcast: n.broadcast, Key: n.key}, now, discovery.Self{})

	n.server = control.NewServer(control.ServerConfig{Backend: n, Logger: n.log, Metrics: n.metrics})
	n.hub = netio.NewHub(netio.HubConfig{Key: n.key, Handler: n, Logger: n.log, Dialer: n.cfg.Network.Dial, Loopback: loopback,
		Admission: netio.AdmissionFacts{Known: n.known, Member: n.member},
		Duplicate: func(older, newer *netio.Session) {
			n.post(func(now time.Time) {
				n.cloned(now, n.idOf(newer.Peer()), cloneText(newer.Peer(), older.RemoteAddr().String(), newer.RemoteAddr().String()))
			})
		}})
	if err := n.startProvisioner(); err != nil {
		return err
	}
	if n.body, err = n.openBody(n.ctx, n.rec); err != nil {
		return err
	}
	n.serving.Store(n.body)
	return nil
}

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

func (n *Node) point(name string) { n.cfg.Point(name) }
