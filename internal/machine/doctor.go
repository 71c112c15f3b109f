package machine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/doctor"
	"pace-node/internal/formation"
	"pace-node/internal/host"
	"pace-node/internal/netio"
	"pace-node/internal/probe"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// Times of a look.
const (
	// watchFor is how long what arrives is watched at most: a beacon's period with its jitter, and the answers to it.
	watchFor = 17 * time.Second
	// settleFor is how long a node is given to count what was seen to arrive.
	settleFor   = 500 * time.Millisecond
	settleTries = 4
	// seedTime bounds the look at one seed, and a question to DNS.
	seedTime = 5 * time.Second
	// firewallTime bounds the questions to firewalls.
	firewallTime = 10 * time.Second
	// maxSeeds bounds the seeds that are tried.
	maxSeeds = 16
	// maxArrivals bounds the beacons that are remembered, each source and goal once.
	maxArrivals = 64
)

// eyes are how a look sees; a test has others.
type eyes struct {
	watch      func(ctx context.Context, ports []uint16, seen func(probe.Frame) (enough bool)) error
	srv        func(ctx context.Context, service, proto string) (suffix string, records []netio.SRV, err error)
	endpoint   func(ctx context.Context, endpoint string) probe.Endpoint
	dials      func(ctx context.Context, endpoint string) error
	beacon     func(ctx context.Context, address string) error
	interfaces func(netio.InterfaceRules) ([]netio.InterfaceChoice, string, error)
	run        host.Runner
}

func realEyes() eyes {
	return eyes{probe.WatchFrames, netio.LookupSRV, probe.AskEndpoint, probe.Dials, probe.AskBeacon, netio.CurrentInterfaces, host.Run}
}

// diagnose collects what is known of this machine, has it judged, and makes the document of it.
func (m *Machine) diagnose(ctx context.Context, host string, ask control.DoctorAsk) (control.DoctorReport, error) {
	looks := map[string]string{}
	if host != "" {
		r, err := m.collectRemote(ctx, host, ask, realEyes())
		if err != nil {
			return control.DoctorReport{}, err
		}
		for _, c := range doctor.RemoteChecks {
			looks[c.Name] = c.Looks
		}
		d := reportOf(looks, doctor.ExamineRemote(&r))
		d.Target = host
		return d, nil
	}
	for _, c := range doctor.Checks {
		looks[c.Name] = c.Looks
	}
	f := m.collect(ctx, ask, realEyes())
	return reportOf(looks, doctor.Examine(&f)), nil
}

func (m *Machine) collect(ctx context.Context, ask control.DoctorAsk, see eyes) doctor.Facts {
	f := doctor.Facts{OS: runtime.GOOS, Ordinary: m.host.Ordinary(), Now: time.Now(), Discovery: m.Config.Discovery != "", Answers: m.Config.DiscoveryReplyPort}
	for _, s := range m.Config.Surfaces() {
		if s.Name == config.SurfaceBeacon {
			f.Beacons = s.Port
		}
	}
	ask.Progress("asking the node")
	node := m.askNode(ctx, ask, &f)
	m.lookAtState(&f)
	m.lookAtPorts(ctx, &f)
	m.lookAtInterfaces(node, see, &f)
	ask.Progress("asking the firewall")
	m.lookAtFirewall(ctx, see, &f)
	ask.Progress("asking DNS")
	seeds := m.lookAtNames(ctx, see, &f)
	m.lookAtSeeds(ctx, node, seeds, see, ask, &f)
	m.watch(ctx, ask, see, &f)
	return f
}

// reportOf makes the document of findings.
func reportOf(looks map[string]string, findings []doctor.Finding) control.DoctorReport {
	d := control.DoctorReport{Verdict: doctor.Worst(findings).String()}
	for _, f := range findings {
		remedy := f.Remedy
		if len(f.Args) > 0 {
			remedy = control.Remedy(control.ConditionRow{Remedy: remedy}, f.Args...)
		}
		d.Findings = append(d.Findings, control.DoctorFinding{Check: f.Check, Looks: looks[f.Check], Verdict: f.Verdict.String(), Detail: f.Detail, Remedy: remedy})
	}
	return d
}

// askNode asks this machine's node, and where it does not answer the service manager.
func (m *Machine) askNode(ctx context.Context, ask control.DoctorAsk, f *doctor.Facts) *control.NodeStatus {
	node, err := ask.Node(ctx)
	if err != nil {
		st := m.state(ctx)
		f.Silent = doctor.Silent{Forbidden: errors.Is(err, fs.ErrPermission), Err: err.Error()}
		if m.Packaged && st.Installed {
			f.Silent.Service, f.Silent.Running, f.Silent.Start, f.Silent.Log = st.Name, st.Running, st.Start, st.Log
		}
		return nil
	}
	n := &doctor.Node{
		Mode: node.Mode, Name: node.Name, Version: node.Version, Uptime: time.Duration(node.UptimeMS) * time.Millisecond,
		Leader: node.Leader != nil && node.View.LeaderSilentMS == 0, Leads: node.View.Leads, VotersHeard: node.View.VotersHeard, VotersTotal: node.View.VotersTotal,
		Members: node.Voters + node.Learners, Authenticated: node.Peers.Authenticated, Pin: node.FleetPin, Advertised: node.Endpoints.Advertised,
	}
	for _, c := range node.Conditions {
		n.Conditions = append(n.Conditions, doctor.Condition{ID: c.ID, Severity: c.Severity, Detail: c.Detail, Remedy: c.Remedy})
	}
	if node.Asks != nil {
		n.Asks = node.Asks.Endpoint
	}
	f.Node, f.Discovery = n, node.Discovery.On
	if at, err := netip.ParseAddrPort(node.Discovery.Answering); err == nil {
		f.Answers = at.Port()
	}
	if at, err := netip.ParseAddrPort(node.Discovery.Listener); err == nil {
		f.Beacons = at.Port()
	}
	// A node of an earlier version does not know the question, and then what it saw stays unknown.
	if facts, err := ask.Facts(ctx); err == nil {
		m.takeFacts(&facts, n)
	}
	return &node
}

// takeFacts keeps what the node has seen.
func (m *Machine) takeFacts(facts *control.NodeFacts, n *doctor.Node) {
	n.BeaconsSent, n.BeaconsHeard = facts.BeaconsSent, facts.BeaconsHeard
	n.ChallengesSent, n.ProofsVerified = facts.ChallengesSent, facts.ProofsVerified
	n.OtherVersions, n.PinRefusals = facts.OtherVersions, facts.PinRefusals
	n.Heard, n.Foreign, n.Sessions = nil, nil, nil
	for _, h := range facts.Heard {
		if a, err := netip.ParseAddr(h.Address); err == nil {
			n.Heard = append(n.Heard, doctor.Heard{From: a, Proven: h.Proven})
		}
	}
	for _, g := range facts.Foreign {
		n.Foreign = append(n.Foreign, doctor.Foreign{Cluster: g.Cluster, State: g.State, Address: g.Address, Admitted: g.Admitted})
	}
	for _, s := range facts.Sessions {
		n.Sessions = append(n.Sessions, doctor.Session{ID: s.ID, Address: s.Address, ClockAhead: time.Duration(s.ClockAheadMS) * time.Millisecond, Seen: s.Seen})
	}
}

func (m *Machine) lookAtState(f *doctor.Facts) {
	f.State.Path = m.Config.StateDir
	opt, err := m.State()
	if err != nil {
		f.State.Unknown = whatOf(err)
		return
	}
	h := statedir.Examine(m.Config.StateDir, opt)
	f.State.Absent, f.State.Free, f.State.Size, f.State.Low = h.Absent, h.Room.Free, h.Room.Size, h.Room.Low(false)
	switch {
	case h.Denied:
		f.State.Unknown = "this account may not read " + m.Config.StateDir
	case h.Err != nil:
		f.State.Refused, f.State.Remedy = whatOf(h.Err), remedyOf(h.Err)
	}
}

// whatOf and remedyOf take an error apart that says what mends it.
func whatOf(err error) string {
	if t := (interface{ What() string })(nil); errors.As(err, &t) {
		return t.What()
	}
	return err.Error()
}

func remedyOf(err error) string {
	if t := (interface{ Remedy() string })(nil); errors.As(err, &t) {
		return t.Remedy()
	}
	return ""
}

// surfaceFlags are the options that say where a surface is.
var surfaceFlags = map[string]string{
	config.SurfaceNode: "listen", config.SurfaceRaft: "listen-raft", config.SurfaceBeacon: "discovery", config.SurfaceReply: "discovery-reply-port",
	config.SurfaceAdmin: "admin-listen",
}

// lookAtPorts tries the endpoints of this machine's settings, unless a node has them.
func (m *Machine) lookAtPorts(ctx context.Context, f *doctor.Facts) {
	if f.Node != nil || f.Silent.Forbidden {
		return
	}
	for _, s := range m.Config.Surfaces() {
		if s.Port == 0 {
			continue // the kernel chooses one that is free
		}
		host := s.Bind
		if host == "*" {
			host = ""
		}
		shared := s.Name == config.SurfaceBeacon
		b := probe.Bind(ctx, s.Proto, net.JoinHostPort(host, s.PortText()), shared)
		p := doctor.Port{Surface: s.Name, Proto: s.Proto, Number: s.Port, Flag: surfaceFlags[s.Name], Taken: b.Taken, Holder: b.Holder}
		if b.Err != nil {
			p.Err = cmp.Or(b.Err.Error(), "the system does not say why")
		}
		f.Ports = append(f.Ports, p)
	}
}

// spare are the reasons for which an interface is passed over that could carry beacons else.
var spare = []netio.Pass{netio.PassNoIPv4, netio.PassIPv6, netio.PassPrefix, netio.PassDown}

// lookAtInterfaces lists the interfaces by this machine's settings, or with the choice that the node has made.
func (m *Machine) lookAtInterfaces(node *control.NodeStatus, see eyes, f *doctor.Facts) {
	f.Loopback = m.Config.DiscoveryLoopback
	if node != nil { // it may have been started with flags that nobody gave here
		f.Loopback = slices.ContainsFunc(node.Discovery.Interfaces, func(i control.InterfaceStatus) bool { return i.Used && i.Name == netio.LoopbackName })
	}
	if f.Loopback {
		f.Discovery = false // there is no network to look at
	}
	choices, route, err := see.interfaces(netio.InterfaceRules{Include: m.Config.DiscoveryInterfaces})
	if err != nil {
		f.InterfacesErr = err.Error()
		return
	}
	for _, c := range choices {
		i := doctor.Interface{Name: c.Name, Addr: c.Addr, Broadcast: c.Broadcast, Used: c.Used, Why: c.Why, Virtual: c.Name != route && netio.IsVirtual(c.Name), Up: slices.Contains(spare, c.Pass)}
		if node != nil {
			if i.Used { // by the settings that are typed here: what the node does not list it does not use
				i.Used, i.Why = false, "the node does not use it"
			}
			address := ""
			if c.Addr.IsValid() {
				address = c.Addr.String()
			}
			for _, own := range node.Discovery.Interfaces {
				if own.Name == c.Name && own.Address == address {
					i.Used, i.Why = own.Used, own.Why
				}
			}
			if i.Used && !i.Broadcast.IsValid() {
				i.Broadcast = netio.BroadcastOf(c.Addr)
			}
		}
		f.Interfaces = append(f.Interfaces, i)
		if runtime.GOOS == "darwin" && i.Used && f.Unreachable == "" && probe.Unreachable(i.Broadcast) {
			f.Unreachable = i.Addr.Masked().String()
		}
	}
	if f.Unreachable != "" {
		ctx, cancel := context.WithTimeout(context.Background(), seedTime)
		defer cancel()
		f.GatewayAnswers = probe.GatewayAnswers(ctx, see.run)
	}
}

func (m *Machine) lookAtFirewall(ctx context.Context, see eyes, f *doctor.Facts) {
	ctx, cancel := context.WithTimeout(ctx, firewallTime)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		program = "pace-node"
	}
	w := probe.AskFirewall(ctx, runtime.GOOS, program, see.run)
	f.Firewall = doctor.Firewall{Kind: w.Kind, Family: w.Family, Table: w.Table, Chain: w.Chain, Admits: w.Admits, Program: program}
}

// lookAtNames asks DNS what a node would ask it, and returns the seeds that it names.
func (m *Machine) lookAtNames(ctx context.Context, see eyes, f *doctor.Facts) []string {
	ctx, cancel := context.WithTimeout(ctx, seedTime)
	defer cancel()
	suffix, found, err := see.srv(ctx, formation.SRVService, formation.SRVProto)
	f.Suffix = suffix
	if err != nil {
		f.SRVErr = err.Error()
		return nil
	}
	records := make([]formation.SRVRecord, len(found))
	for i, r := range found {
		records[i] = formation.SRVRecord(r)
	}
	endpoints, _ := formation.SRVEndpoints(records)
	return endpoints
}

// lookAtSeeds tries each seed that is typed, here or where the node was started, and those of DNS.
func (m *Machine) lookAtSeeds(ctx context.Context, node *control.NodeStatus, srv []string, see eyes, ask control.DoctorAsk, f *doctor.Facts) {
	add := func(endpoint, origin string) {
		if len(f.Seeds) < maxSeeds && !slices.ContainsFunc(f.Seeds, func(s doctor.Seed) bool { return s.Endpoint == endpoint }) {
			f.Seeds = append(f.Seeds, doctor.Seed{Endpoint: endpoint, Origin: origin})
		}
	}
	for _, s := range m.Config.FleetSeeds {
		add(s, formation.OriginSeed.String())
	}
	if node != nil {
		for _, s := range node.Seeds {
			if s.Origin == formation.OriginSeed.String() && s.Endpoint != "" {
				add(s.Endpoint, s.Origin)
			}
		}
	}
	for _, s := range srv {
		add(s, formation.OriginSRV.String())
	}
	for i := range f.Seeds {
		s := &f.Seeds[i]
		ask.Progress("trying the seed " + s.Endpoint)
		ctx, cancel := context.WithTimeout(ctx, seedTime)
		e := see.endpoint(ctx, s.Endpoint)
		cancel()
		if err := cmp.Or(e.NameErr, e.ConnectErr, e.TLSErr, e.AnswerErr); err != nil {
			s.Err = err.Error()
		}
		s.Self = node != nil && e.Key.String() == node.PublicKey || node == nil && ownAddress(f.Interfaces, e.Addresses)
	}
}

// ownAddress reports whether a name leads to this machine.
func ownAddress(all []doctor.Interface, addresses []string) bool {
	return slices.ContainsFunc(addresses, func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && (a.IsLoopback() || slices.ContainsFunc(all, func(i doctor.Interface) bool { return i.Addr.IsValid() && i.Addr.Addr() == a }))
	})
}

// watch looks at what arrives, where a node runs that nobody has proven anything to: else there is nothing to find.
func (m *Machine) watch(ctx context.Context, ask control.DoctorAsk, see eyes, f *doctor.Facts) {
	switch n := f.Node; {
	case n == nil:
		f.Watch.Skipped = "no node runs that would answer"
	case f.Loopback:
		f.Watch.Skipped = "beacons stay on this machine"
	case !f.Discovery:
		f.Watch.Skipped = "discovery is off"
	case n.ProofsVerified > 0 && slices.ContainsFunc(n.Heard, func(h doctor.Heard) bool { return h.Proven }):
		f.Watch.Skipped = "other machines are proven"
	default:
		m.watchArrivals(ctx, ask, see, f)
	}
}

func (m *Machine) watchArrivals(ctx context.Context, ask control.DoctorAsk, see eyes, f *doctor.Facts) {
	before, err := ask.Facts(ctx)
	if err != nil {
		f.Watch.Skipped = err.Error()
		return
	}
	ask.Progress("watching what arrives for " + watchFor.String())
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	w := &f.Watch
	err = see.watch(limited, []uint16{f.Beacons, f.Answers}, func(p probe.Frame) bool {
		if p.To.Port() == f.Answers {
			w.Answers++
			return len(w.Beacons) > 0
		}
		if ownAddress(f.Interfaces, []string{p.From.Addr().String()}) || p.Head[0] != wire.Magic {
			return false
		}
		a := doctor.Arrival{From: p.From.Addr(), To: p.To.Addr(), Version: p.Head[1]}
		if !slices.Contains(w.Beacons, a) && len(w.Beacons) < maxArrivals {
			w.Beacons = append(w.Beacons, a)
		}
		return w.Answers > 0 || a.Version != wire.DatagramVersion || !slices.ContainsFunc(f.Interfaces, func(i doctor.Interface) bool { return i.Broadcast == a.To })
	})
	if err != nil {
		w.Skipped = err.Error()
		if errors.Is(err, fs.ErrPermission) {
			w.Skipped = "only an administrator sees what arrives: sudo pacectl doctor"
		}
		return
	}
	w.For = time.Since(began)
	for range settleTries { // what has just arrived is counted a moment later
		select {
		case <-time.After(settleFor):
		case <-ctx.Done():
		}
		after, err := ask.Facts(ctx)
		if err != nil {
			return
		}
		w.AnsweredThen, w.HeardThen = after.AtAnswering-before.AtAnswering, after.BeaconsHeard-before.BeaconsHeard
		m.takeFacts(&after, f.Node)
		if (w.Answers == 0 || w.AnsweredThen > 0) && (len(w.Beacons) == 0 || w.HeardThen > 0) {
			return
		}
	}
}
