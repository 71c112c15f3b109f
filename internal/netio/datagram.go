package netio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/ipv4"

	"pace-node/internal/wire"
)

// loopbackGroup carries beacons on the loopback interface where it can't broadcast: of the range that RFC 2365 leaves to
// a site. It never leaves the machine (TTL 0, loopback interface only).
var loopbackGroup = netip.AddrFrom4([4]byte{239, 255, 66, 81})

// DatagramPort is the pair of sockets of discovery. The listener hears beacons and never sends; the answering side sends
// everything, and hears challenges and proofs.
type DatagramPort interface {
	// Beacon sends b to every used interface, and returns those that could not send. They are logged here.
	Beacon(b []byte) []SendError
	// Send sends b to one host, from local if it is valid: the address that its question came in by.
	Send(to netip.AddrPort, local netip.Addr, b []byte) error
	// Receive returns the channel of datagrams of both sockets; it is closed by Close.
	Receive() <-chan Received
	// ListenerAddr and AnsweringAddr return what the sockets are bound to.
	ListenerAddr() netip.AddrPort
	AnsweringAddr() netip.AddrPort
	// Interfaces returns the choice in force.
	Interfaces() []InterfaceChoice
	// Relist lists the interfaces again and reports whether the choice changed.
	Relist() bool
	Close() error
}

// Received is one datagram.
type Received struct {
	Answering bool           // which of the two sockets heard it
	From      netip.AddrPort // unmapped
	Local     netip.Addr     // the address to answer from: where beacons to that subnet leave; invalid if unknown
	Bytes     []byte         // owned by the receiver; at most one byte longer than the wire allows
}

// SendError is one interface's failure to send.
type SendError struct {
	Interface string
	From      netip.Addr
	To        netip.AddrPort
	Err       error
}

// Error implements error.
func (e SendError) Error() string {
	return fmt.Sprintf("beacon on %s from %s to %s: %v", e.Interface, e.From, e.To, e.Err)
}

// Unwrap returns the system's error.
func (e SendError) Unwrap() error { return e.Err }

// DatagramConfig is what OpenDatagram needs.
type DatagramConfig struct {
	Listen    netip.AddrPort // 0.0.0.0:6681, or one address of this machine; port 0 is for tests
	ReplyPort uint16         // 0: the kernel chooses
	Include   []string       // --discovery-interface
	Loopback  bool           // --discovery-loopback
	Logger    *slog.Logger   // nil: silent

	list     func() ([]Interface, []Route, error) // nil: this machine's
	bound    bool                                 // a socket for each address even where packet info works
	grouped  bool                                 // loopback by multicast even where broadcast works
	received int                                  // 0: receiveQueue
}

// DatagramStats is counted since the port was opened.
type DatagramStats struct {
	ReceiveErrors, ReceiveDropped, ReceiveElsewhere, SendErrors uint64
}

// Datagrams is the DatagramPort of real sockets.
type Datagrams struct {
	cfg      DatagramConfig
	noise    *noise
	rules    InterfaceRules
	listener *net.UDPConn
	answer   answering
	received chan Received
	done     chan struct{}
	once     sync.Once
	closeErr error
	wait     sync.WaitGroup

	mu           sync.Mutex
	choices      []InterfaceChoice
	defaultRoute string

	receiveErrors, dropped, elsewhere, sendErrors atomic.Uint64
}

var _ DatagramPort = (*Datagrams)(nil)

// answering is the side that sends; how it keeps one source address is the system's matter.
type answering interface {
	// adopt opens and closes sockets for the choice, and returns those addresses that could not get one.
	adopt(choices []InterfaceChoice) []SendError
	// send sends b from src, which may be invalid, by the interface index, which may be 0.
	send(src netip.Addr, index int, to netip.AddrPort, b []byte) error
	addr() netip.AddrPort
	close() error
}

// OpenDatagram opens the pair. The error names the port, what holds it is the system's word.
func OpenDatagram(cfg DatagramConfig) (*Datagrams, error) {
	for _, rule := range cfg.Include {
		if err := ParseInterfaceRule(rule); err != nil {
			return nil, err
		}
	}
	if !cfg.Listen.Addr().IsValid() {
		cfg.Listen = netip.AddrPortFrom(netip.IPv4Unspecified(), cfg.Listen.Port())
	}
	if a := cfg.Listen.Addr().Unmap(); !a.Is4() {
		return nil, fmt.Errorf("--discovery=%s: beacons need an IPv4 address; 0.0.0.0 is every one", cfg.Listen)
	}
	if cfg.received == 0 {
		cfg.received = receiveQueue
	}
	cfg.grouped = cfg.Loopback && (cfg.grouped || loopbackMulticast)
	p := &Datagrams{
		cfg: cfg, noise: newNoise(cfg.Logger),
		rules:    InterfaceRules{Include: cfg.Include, Exact: cfg.Listen.Addr().Unmap(), Loopback: cfg.Loopback},
		received: make(chan Received, cfg.received),
		done:     make(chan struct{}),
	}
	choices, route, err := p.list()
	if err != nil { // a system that starts may not have its network's own parts yet; it is asked again with every Relist
		p.noise.say("list", "interfaces could not be listed yet", slog.Any("error", err))
	}
	if e := p.rules.Exact; err == nil && !cfg.Loopback && !e.IsUnspecified() && !slices.ContainsFunc(choices, func(c InterfaceChoice) bool { return c.Addr.Addr() == e }) {
		return nil, fmt.Errorf("--discovery=%s: no interface of this machine has that address; 0.0.0.0:%d listens on every one", cfg.Listen, cfg.Listen.Port())
	}
	p.choices, p.defaultRoute = choices, route
	if p.listener, err = p.listen(); err != nil {
		return nil, err
	}
	p.wait.Add(1)
	go p.read(p.listener, false, netip.Addr{})
	if cfg.bound || !packetInfo && !cfg.Loopback {
		p.answer = &boundAnswer{port: p, want: cfg.ReplyPort, conns: map[netip.Addr]*boundConn{}}
	} else if p.answer, err = p.openPacketInfo(); err != nil {
		_ = p.Close()
		return nil, err
	}
	p.complain(p.answer.adopt(choices))
	p.announce("discovery sockets are open", choices)
	return p, nil
}

// listen opens the listener.
func (p *Datagrams) listen() (*net.UDPConn, error) {
	at := netip.AddrPortFrom(netip.IPv4Unspecified(), p.cfg.Listen.Port())
	if p.cfg.Loopback && !p.cfg.grouped {
		// Bound to the broadcast address itself, so that nothing of the real network is heard.
		at = netip.AddrPortFrom(LoopbackBroadcast, at.Port())
	}
	lc := net.ListenConfig{Control: shareAddress}
	pc, err := lc.ListenPacket(context.Background(), "udp4", at.String())
	if err != nil {
		return nil, fmt.Errorf("discovery listener on UDP %s (--discovery): %w", at, err)
	}
	c := pc.(*net.UDPConn)
	_ = c.SetReadBuffer(receiveBuffer) // a wish: the system may have a lower limit
	v4 := ipv4.NewPacketConn(c)
	if packetInfo {
		if err := v4.SetControlMessage(ipv4.FlagDst|ipv4.FlagInterface, true); err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("discovery listener on UDP %s: packet info: %w", at, err)
		}
	}
	if p.cfg.grouped {
		lo, err := loopbackInterface()
		if err == nil {
			err = v4.JoinGroup(lo, &net.UDPAddr{IP: loopbackGroup.AsSlice()})
		}
		if err != nil {
			_ = c.Close()
			return nil, fmt.Errorf("discovery listener: join %s on the loopback interface: %w", loopbackGroup, err)
		}
	}
	return c, nil
}

func loopbackInterface() (*net.Interface, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].Flags&net.FlagLoopback != 0 {
			return &list[i], nil
		}
	}
	return nil, errors.New("this machine has no loopback interface")
}

// list asks for the interfaces and judges them.
func (p *Datagrams) list() ([]InterfaceChoice, string, error) {
	if p.cfg.Loopback {
		return ChooseInterfaces(nil, p.rules, ""), "", nil
	}
	var list []Interface
	var routes []Route
	var err error
	if p.cfg.list != nil {
		list, routes, err = p.cfg.list()
	} else if list, err = ListInterfaces(); err == nil {
		routes = defaultRoutes()
	}
	if err != nil {
		return nil, "", err
	}
	route := DefaultRouteInterface(list, routes)
	return ChooseInterfaces(list, p.rules, route), route, nil
}

// Relist implements DatagramPort. Where the list can't be had, the old choice stays.
func (p *Datagrams) Relist() bool {
	choices, route, err := p.list()
	if err != nil {
		p.noise.say("list", "interfaces could not be listed, the earlier choice stays", slog.Any("error", err))
		return false
	}
	p.mu.Lock()
	changed := route != p.defaultRoute || !slices.Equal(choices, p.choices)
	other := !slices.Equal(usedOf(choices), usedOf(p.choices))
	p.choices, p.defaultRoute = choices, route
	p.mu.Unlock()
	// Asked even without a change: an address whose socket could not be opened is tried again.
	p.complain(p.answer.adopt(choices))
	// Containers come and go: what is not about beacons is said once a minute.
	if changed {
		if _, due := p.noise.due(time.Now(), "interfaces"); other || due {
			p.announce("interfaces changed", choices)
		}
	}
	return changed
}

// usedOf are those that carry beacons.
func usedOf(choices []InterfaceChoice) (used []InterfaceChoice) {
	for _, c := range choices {
		if c.Used {
			used = append(used, c)
		}
	}
	return used
}

// announced bounds the interfaces that one line names.
const announced = 32

func (p *Datagrams) announce(message string, choices []InterfaceChoice) {
	log := p.noise.log
	names, used := make([]string, 0, len(choices)), false
	for _, c := range choices {
		used = used || c.Used
		if len(names) < announced {
			names = append(names, c.String())
		}
	}
	attrs := []any{"listener", p.ListenerAddr().String(), "answering", p.AnsweringAddr().String(), "interfaces", names}
	if more := len(choices) - len(names); more > 0 {
		attrs = append(attrs, "more", more)
	}
	log.Info(message, attrs...)
	if !used {
		log.Warn("no interface can carry beacons; machines find this one only by --fleet-seed", "interfaces", names)
	}
}

// complain writes a line for each address that failed, once a minute.
func (p *Datagrams) complain(failed []SendError) {
	for _, e := range failed {
		p.noise.say("socket "+e.Interface, "no answering socket for an address", slog.String("interface", e.Interface),
			slog.String("address", e.From.String()), slog.Any("error", e.Err))
	}
}

// Beacon implements DatagramPort.
func (p *Datagrams) Beacon(b []byte) []SendError {
	var failed []SendError
	port := p.ListenerAddr().Port()
	for _, c := range p.Interfaces() {
		if !c.Used {
			continue
		}
		to := c.Broadcast
		if p.cfg.grouped {
			to = loopbackGroup
		}
		e := SendError{Interface: c.Name, From: c.Addr.Addr(), To: netip.AddrPortFrom(to, port)}
		if e.Err = p.answer.send(e.From, c.Index, e.To, b); e.Err == nil {
			continue
		}
		p.sendErrors.Add(1)
		failed = append(failed, e)
		p.noise.say("beacon "+c.Name, "a beacon could not be sent", slog.String("interface", c.Name),
			slog.String("from", e.From.String()), slog.String("to", e.To.String()), slog.Any("error", e.Err))
	}
	return failed
}

// Send implements DatagramPort.
func (p *Datagrams) Send(to netip.AddrPort, local netip.Addr, b []byte) error {
	to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	var err error
	if p.cfg.Loopback && !to.Addr().IsLoopback() {
		err = fmt.Errorf("send to %s: %w", to, ErrLoopbackOnly)
	} else {
		err = p.answer.send(local.Unmap(), 0, to, b)
	}
	if err != nil {
		p.sendErrors.Add(1)
	}
	return err
}

// read is the reader of one socket; fixed is its own address where it is bound to one.
func (p *Datagrams) read(c *net.UDPConn, answering bool, fixed netip.Addr) {
	defer p.wait.Done()
	b, oob := make([]byte, datagramBuffer), ipv4.NewControlMessage(ipv4.FlagDst|ipv4.FlagInterface)
	pause := retryLeast
	for {
		n, from, index, dst, err := receive(c, b, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Port unreachable, reset, too long, out of memory: none of them ends a datagram socket.
			p.receiveErrors.Add(1)
			p.noise.at(slog.LevelDebug, "receive", "a receive error was read past", slog.Any("error", err))
			if !p.rest(&pause) {
				return
			}
			continue
		}
		pause = retryLeast
		p.deliver(answering, from, index, dst, fixed, b[:min(n, wire.MaxDatagram+1)])
	}
}

// rest waits after an error, longer each time, and reports whether the port is still open.
func (p *Datagrams) rest(pause *time.Duration) bool {
	t := time.NewTimer(*pause)
	defer t.Stop()
	*pause = min(2**pause, retryMost)
	select {
	case <-t.C:
		return true
	case <-p.done:
		return false
	}
}

// receive reads one datagram with the interface and the address it came in by, where the system tells them.
func receive(c *net.UDPConn, b, oob []byte) (n int, from netip.AddrPort, index int, dst netip.Addr, err error) {
	if !packetInfo {
		n, from, err = c.ReadFromUDPAddrPort(b)
		return n, unmap(from), 0, netip.Addr{}, err
	}
	n, oobn, _, from, err := c.ReadMsgUDPAddrPort(b, oob)
	if err != nil {
		return 0, netip.AddrPort{}, 0, netip.Addr{}, err
	}
	var cm ipv4.ControlMessage
	if oobn > 0 && cm.Parse(oob[:oobn]) == nil {
		index = cm.IfIndex
		dst, _ = netip.AddrFromSlice(cm.Dst)
	}
	return n, unmap(from), index, dst.Unmap(), nil
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }

// deliver hands one datagram on, unless it came by an interface that the operator left out.
func (p *Datagrams) deliver(answering bool, from netip.AddrPort, index int, dst, fixed netip.Addr, b []byte) {
	local := fixed
	if p.cfg.Loopback {
		if !from.Addr().IsLoopback() {
			p.elsewhere.Add(1)
			return
		}
		local = loopbackAddr
	} else {
		choices := p.current()
		if leftOut(choices, index, from.Addr()) {
			p.elsewhere.Add(1)
			return
		}
		if !local.IsValid() {
			local = localFor(choices, index, dst, from.Addr())
		}
		if !p.rules.Exact.IsUnspecified() && local != p.rules.Exact {
			p.elsewhere.Add(1)
			return
		}
	}
	r := Received{Answering: answering, From: from, Local: local, Bytes: slices.Clone(b)}
	select {
	case p.received <- r:
	default:
		p.dropped.Add(1)
	}
}

// leftOut reports whether the operator left out the interface that a datagram came by.
func leftOut(choices []InterfaceChoice, index int, from netip.Addr) bool {
	for i := range choices {
		c := &choices[i]
		if c.Pass != PassRuleExcludes && c.Pass != PassRuleOmits {
			continue
		}
		if index != 0 && c.Index == index || index == 0 && c.Addr.IsValid() && c.Addr.Contains(from) {
			return true
		}
	}
	return false
}

// current returns the choice in force, not to be changed: Relist replaces the slice.
func (p *Datagrams) current() []InterfaceChoice {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.choices
}

// Receive implements DatagramPort.
func (p *Datagrams) Receive() <-chan Received { return p.received }

// ListenerAddr implements DatagramPort.
func (p *Datagrams) ListenerAddr() netip.AddrPort {
	return unmap(p.listener.LocalAddr().(*net.UDPAddr).AddrPort())
}

// AnsweringAddr implements DatagramPort; its address is the wildcard where one socket serves every address.
func (p *Datagrams) AnsweringAddr() netip.AddrPort { return p.answer.addr() }

// Interfaces implements DatagramPort.
func (p *Datagrams) Interfaces() []InterfaceChoice { return slices.Clone(p.current()) }

// DefaultRoute returns the interface that has the default route, or empty: the second argument of AdvertiseAddress.
func (p *Datagrams) DefaultRoute() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.defaultRoute
}

// Stats returns the counts.
func (p *Datagrams) Stats() DatagramStats {
	return DatagramStats{p.receiveErrors.Load(), p.dropped.Load(), p.elsewhere.Load(), p.sendErrors.Load()}
}

// Close implements DatagramPort: it waits for both readers and closes the channel.
func (p *Datagrams) Close() error {
	p.once.Do(func() {
		close(p.done)
		p.closeErr = p.listener.Close()
		if p.answer != nil {
			p.closeErr = errors.Join(p.closeErr, p.answer.close())
		}
		p.wait.Wait()
		close(p.received)
	})
	return p.closeErr
}

// TryShared binds a UDP address the way the listener does, shared with the other nodes of this machine, and lets it go: for
// who only wants to know whether a node could.
func TryShared(ctx context.Context, address string) error {
	lc := net.ListenConfig{Control: shareAddress}
	c, err := lc.ListenPacket(ctx, "udp4", address)
	if err != nil {
		return err
	}
	return c.Close()
}
