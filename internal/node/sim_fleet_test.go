package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/netio"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// movingNet is a machine with two addresses whose default route moves between them.
type movingNet struct {
	*simNet
	second netip.Addr
	tells  chan struct{} // nil: the system does not tell of changes
	mu     sync.Mutex
	now    netip.Addr
}

// WatchLinks implements LinkWatcher.
func (m *movingNet) WatchLinks(ctx context.Context, changed func()) error {
	if m.tells == nil {
		return errors.New("not told on this system")
	}
	for {
		select {
		case <-m.tells:
			for range 50 { // as a container's start does
				changed()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (m *movingNet) Address(netio.DatagramPort) (netip.Addr, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now, m.now.IsValid()
}

func (m *movingNet) route(to netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = to
}

// Dial dials from the address of the route.
func (m *movingNet) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	m.mu.Lock()
	from := m.now
	m.mu.Unlock()
	if !from.IsValid() {
		from = m.addr
	}
	return (&simNet{s: m.s, addr: from}).Dial(ctx, network, addr)
}

// Listen opens the port at both addresses.
func (m *movingNet) Listen(addr string) (net.Listener, error) {
	first, err := m.simNet.Listen(addr)
	if err != nil {
		return nil, err
	}
	other, err := (&simNet{s: m.s, addr: m.second}).Listen(addr)
	if err != nil {
		first.Close()
		return nil, err
	}
	l := &bothListener{Listener: first, other: other, conns: make(chan net.Conn), quit: make(chan struct{})}
	for _, each := range []net.Listener{first, other} {
		l.wait.Go(func() {
			for {
				c, err := each.Accept()
				if err != nil {
					return
				}
				select {
				case l.conns <- c:
				case <-l.quit:
					c.Close()
					return
				}
			}
		})
	}
	return l, nil
}

type bothListener struct {
	net.Listener
	other net.Listener
	conns chan net.Conn
	quit  chan struct{}
	once  sync.Once
	wait  sync.WaitGroup
}

func (l *bothListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.quit:
		return nil, net.ErrClosed
	}
}

func (l *bothListener) Close() error {
	l.once.Do(func() {
		close(l.quit)
		l.Listener.Close()
		l.other.Close()
		l.wait.Wait()
	})
	return nil
}

// TestSimAddressFollowsRoute: what a machine announces moves with its default route, in its beacon, in the roster, and in
// what a joiner is told.
func TestSimAddressFollowsRoute(t *testing.T) {
	simulate(t, 31, func(t *testing.T, s *sim) {
		roam := func(i int) (*movingNet, tweak) {
			m := &movingNet{second: netip.AddrFrom4([4]byte{10, 77, 200, byte(i + 1)}), now: addrOf(i)}
			return m, func(c *Config) {
				m.simNet = c.Network.(*simNet)
				c.Network = m
			}
		}
		leaderNet, leads := roam(0)
		learnerNet, learns := roam(1)
		a := s.boot(0, leads)
		time.Sleep(2 * time.Second)
		b := s.boot(1, learns)
		s.joined(a, b)
		at := func(m *movingNet) string { return netip.AddrPortFrom(m.second, 6674).String() }
		told := func(on, of *Node, endpoint string) func() bool {
			return func() bool { m, _ := on.View().Member(of.id); return m.Endpoints.FC == endpoint }
		}
		s.want(time.Second, "the roster knows where the learner is", told(a, b, endpointOf(1)))

		learnerNet.route(learnerNet.second)
		s.want(31*time.Second, "the learner's summary moves", func() bool { return b.self.Load().OwnEndpoint == at(learnerNet) })
		s.want(time.Second, "the leader's roster moves", told(a, b, at(learnerNet)))
		s.want(time.Second, "the learner's own picture moves", told(b, b, at(learnerNet)))
		s.want(20*time.Second, "the leader has it proven", func() bool {
			var fc string
			s.must(a.ask(context.Background(), func(time.Time) { fc, _, _ = a.exchange.Lookup(b.id) }))
			return fc == at(learnerNet)
		})

		leaderNet.route(leaderNet.second)
		s.want(31*time.Second, "the leader's summary moves", func() bool {
			sum := a.self.Load()
			return sum.OwnEndpoint == at(leaderNet) && sum.Leader.Endpoint == at(leaderNet) && strings.HasPrefix(sum.RaftEndpoint, leaderNet.second.String()+":")
		})
		s.want(6*time.Second, "the learner's picture of the leader moves", func() bool {
			return told(b, a, at(leaderNet))() && b.leader().endpoint == at(leaderNet) && b.self.Load().Leader.Endpoint == at(leaderNet)
		})
		s.cut(func(i, j int) bool { return (i == 0) != (j == 0) && i < 200 && j < 200 }) // the old address is gone
		c := s.boot(2)
		s.want(30*time.Second, "a newcomer asks at the new address", func() bool { return asks(c, a) && owns(c).Target.Endpoint == at(leaderNet) })

		learnerNet.route(netip.Addr{})
		s.want(31*time.Second, "who has no address names none", func() bool { return b.self.Load().OwnEndpoint == "" })
	})
}

// TestSimAddressFollowsAtOnce: where the system tells of a change, the address moves at once.
func TestSimAddressFollowsAtOnce(t *testing.T) {
	simulate(t, 38, func(t *testing.T, s *sim) {
		m := &movingNet{second: netip.AddrFrom4([4]byte{10, 77, 200, 2}), now: addrOf(1), tells: make(chan struct{})}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1, func(c *Config) {
			m.simNet = c.Network.(*simNet)
			c.Network = m
		})
		s.joined(a, b)
		time.Sleep(5 * time.Second)
		for _, to := range []netip.Addr{m.second, addrOf(1)} {
			m.route(to)
			m.tells <- struct{}{}
			endpoint := netip.AddrPortFrom(to, 6674).String()
			s.want(2500*time.Millisecond, "the roster moves", func() bool {
				r, _ := a.View().Member(b.id)
				return r.Endpoints.FC == endpoint && b.self.Load().OwnEndpoint == endpoint
			})
		}
	})
}

// TestSimWaitingMachineMoves: a machine that waits and is asked for again says where it is now.
func TestSimWaitingMachineMoves(t *testing.T) {
	simulate(t, 32, func(t *testing.T, s *sim) {
		m := &movingNet{second: netip.AddrFrom4([4]byte{10, 77, 200, 2}), now: addrOf(1)}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1, func(c *Config) {
			m.simNet = c.Network.(*simNet)
			c.Network = m
		})
		s.want(5*time.Second, "it waits", func() bool { return s.waits(a, b) })
		m.route(m.second)
		time.Sleep(31 * time.Second)
		s.halt(0)
		a = s.boot(0)
		s.want(5*time.Second, "it waits again", func() bool { return s.waits(a, b) })
		if got, want := s.rows(a)[0].Endpoint, netip.AddrPortFrom(m.second, 6674).String(); got != want {
			t.Errorf("its row says %s, and it is at %s", got, want)
		}
	})
}

// TestSimLearnerAlone: a learner that starts while its leader is away says so after 90 s, not at once, and shows a picture
// that is no older than its own start can tell.
func TestSimLearnerAlone(t *testing.T) {
	simulate(t, 33, func(t *testing.T, s *sim) {
		s.expect = []string{"id=consensus-leader-silent"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.halt(1)
		s.halt(0)
		b = s.boot(1)
		silent := func() bool { _, ok := condition(b, "consensus-leader-silent"); return ok }
		s.never(89*time.Second, "it misses its leader before 90 s", silent)
		if age := b.pictured().AsOfMS; age < 88_000 || age > 91_000 {
			t.Errorf("its picture is said to be %d ms old", age)
		}
		s.want(3*time.Second, "it misses its leader", silent)
		a = s.boot(0)
		s.want(time.Minute, "it follows again", func() bool { return follows(b, a) })
		s.want(2*time.Second, "it misses nobody", func() bool { return !silent() })
	})
}

// TestSimSolitaryIsQuiet: a machine on its own that was told nothing raises nothing, and one whose fleet has members and
// nothing to provision them with says so.
func TestSimSolitaryIsQuiet(t *testing.T) {
	simulate(t, 34, func(t *testing.T, s *sim) {
		a := s.boot(0)
		s.never(2*time.Minute, "it raises a condition", func() bool { return len(a.board.List()) > 0 })
		b := s.boot(1)
		s.joined(a, b)
		paused := func(n *Node) bool { _, ok := condition(n, "provisioning-paused"); return ok }
		s.want(2*time.Second, "its leader says that it provisions nobody", func() bool { return paused(a) })
		if paused(b) {
			t.Error("a learner says that it provisions nobody")
		}
		s.must(s.cluster(a, forget(b)))
		s.expect = []string{"id=own-key-revoked"}
		s.want(2*time.Second, "alone again it is quiet", func() bool { return !paused(a) })
	})
}

// TestSimOperatorPauses: a paused queue is shown until it is resumed.
func TestSimOperatorPauses(t *testing.T) {
	simulate(t, 35, func(t *testing.T, s *sim) {
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		s.joined(a, s.boot(1))
		for _, op := range []string{"pause", "resume"} {
			if _, err := a.Queue(context.Background(), local, wire.QueueRequest{Op: op}); err != nil {
				t.Fatal(err)
			}
			s.want(2*time.Second, "the pause is shown as it is", func() bool { _, ok := condition(a, "provisioning-paused"); return ok == (op == "pause") })
		}
	})
}

// TestSimForgottenLeavesQueue: whoever is forgotten leaves the queue, also one that a restarted leader never heard.
func TestSimForgottenLeavesQueue(t *testing.T) {
	simulate(t, 36, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked"}
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.halt(1)
		known := func() bool {
			list, err := a.provisioner.Entries(context.Background())
			s.must(err)
			return slices.ContainsFunc(list.Entries, func(e queue.Entry) bool { return e.ID == b.id })
		}
		s.must(func() error {
			_, err := a.Queue(context.Background(), local, wire.QueueRequest{Op: "reprovision", ID: b.id})
			return err
		}())
		time.Sleep(5 * time.Second)
		s.halt(0)
		a = s.boot(0)
		s.want(5*time.Second, "the new leader knows of it", known)
		s.must(s.cluster(a, forget(b)))
		s.want(time.Second, "it leaves the queue", func() bool { return !known() })
		s.never(30*time.Minute, "it comes back", known)
	})
}

// TestSimHealthyDay: in half a day of a fleet whose machines and leader restart now and then, nothing alarming is raised.
func TestSimHealthyDay(t *testing.T) {
	simulate(t, 37, func(t *testing.T, s *sim) {
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		for i := 1; i < 5; i++ {
			s.joined(a, s.boot(i))
		}
		for round := range 6 {
			time.Sleep(time.Hour / 2)
			i := round % 5
			s.halt(i)
			time.Sleep(time.Duration(round) * 10 * time.Second)
			if n := s.boot(i); i == 0 {
				a = n
			}
			s.want(time.Minute, "the fleet is whole again", func() bool { return s.oneFleet(a) })
		}
		for _, n := range s.nodes {
			for _, c := range n.board.List() {
				if c.ID != "single-voter-fleet" {
					t.Errorf("%s raises %s: %s", n.name, c.ID, c.Detail)
				}
			}
		}
		for _, n := range s.nodes[1:] {
			if m, _ := a.View().Member(n.id); m.Provision.ConfigDigest == "" || m.Provision.ConfigDigest != n.target.Digest() {
				t.Errorf("%s was not provisioned: %+v", n.name, m.Provision)
			}
		}
	})
}

// TestSimAnnouncementsKeepTheirOrder: what a machine says last of itself is what the fleet's state holds, however soon after
// one another it is said, and however the state looked when the last was said.
func TestSimAnnouncementsKeepTheirOrder(t *testing.T) {
	simulate(t, 480, func(t *testing.T, s *sim) {
		a := s.boot(0)
		s.want(time.Minute, "it leads", a.isLeader)
		own := func() string { m, _ := a.serving.Load().view().Member(a.id); return m.Version }
		last := a.announcement()
		for round := range 10 {
			said, before := make(chan struct{}), a.serving.Load().view().Revision()
			a.post(func(time.Time) {
				for i := range 5 {
					other := last
					other.Version = fmt.Sprintf("%d.%d", round, i)
					a.recordAnnounce(a.id, other)
				}
				a.recordAnnounce(a.id, last) // the state holds just this, before the others are committed
				a.outcomes.put(a.id, func(context.Context) { close(said) })
			})
			<-said
			if got := a.serving.Load().view().Revision(); got < before+6 {
				t.Fatalf("round %d: %d entries, and six things were said", round, got-before)
			}
			if got := own(); got != last.Version {
				t.Fatalf("round %d: the state holds version %q, and it said %q last", round, got, last.Version)
			}
		}
		// A member says one at a time on a session, and what is true by then.
		b := s.boot(1)
		s.joined(a, b)
		said := make(chan int)
		b.post(func(now time.Time) {
			for range 5 {
				b.announce(now)
			}
			waiting := 0
			b.toSay.Range(func(any, any) bool { waiting++; return true })
			said <- waiting
		})
		if waiting := <-said; waiting > 1 {
			t.Errorf("%d sessions have one to be said, and there is one voter", waiting)
		}
		s.want(time.Minute, "they are said", func() bool {
			waiting := 0
			b.toSay.Range(func(any, any) bool { waiting++; return true })
			return waiting == 0
		})
	})
}
