package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/netsim"
	"pace-node/internal/wire"
)

// tweak changes what a machine is started with.
type tweak func(*Config)

func seededBy(endpoints ...string) tweak {
	return func(c *Config) { c.Settings.FleetSeeds = endpoints }
}

// provisioning gives a machine something to provision others with.
func provisioning(c *Config) {
	c.Settings.Provision.Default = `{"configuration":{"plugin.choria.server":"broker.example:4222"}}`
}

// simulate runs f in virtual time, on machines whose clocks are right.
func simulate(t *testing.T, seed uint64, f func(t *testing.T, s *sim)) {
	dir := t.TempDir()
	netsim.Bubble(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)))
		s := newSim(t, seed, dir)
		s.healthy = true
		defer s.stop()
		f(t, s)
	})
}

// alarming reports whether a line is one that a healthy run does not hold: a condition of severity alert, one that no table
// holds, or anything that speaks of a copied identity.
func alarming(line string) bool {
	raised := strings.Contains(line, `msg="condition raised"`) || strings.Contains(line, `msg="condition changed"`)
	return raised && (strings.Contains(line, "severity=alert") || strings.Contains(line, "id=identity-cloned")) ||
		strings.Contains(line, `msg="condition without a row"`) || strings.Contains(line, "the identity may be cloned")
}

// checkAlarms fails the test for every alarm that it is not about.
func (s *sim) checkAlarms() {
	s.log.mu.Lock()
	defer s.log.mu.Unlock()
	for _, line := range s.log.alarms {
		if !slices.ContainsFunc(s.expect, func(part string) bool { return strings.Contains(line, part) }) {
			s.t.Errorf("in a healthy run: %s", line)
		}
	}
}

// checkIgnored: a machine's own node sends its formation nothing that no table knows.
func (s *sim) checkIgnored(n *Node) {
	if got := s.metric(n, "pace_formation_moves_ignored_total"); got != 0 {
		s.t.Errorf("%s counts %v moves that were ignored", n.name, got)
	}
}

// boot starts machine i, again as before where no tweaks are given.
func (s *sim) boot(i int, tweaks ...tweak) *Node {
	s.t.Helper()
	if len(tweaks) > 0 {
		s.tweaks[i] = tweaks
	}
	c := s.config(i)
	for _, change := range s.tweaks[i] {
		change(&c)
	}
	n, err := Start(c)
	if err != nil {
		s.t.Fatalf("start of machine %d: %v", i, err)
	}
	for len(s.nodes) <= i {
		s.nodes = append(s.nodes, nil)
	}
	s.nodes[i] = n
	return n
}

func (s *sim) halt(i int) {
	s.nodes[i].Stop()
	s.nodes[i] = nil
}

func addrOf(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 77, byte(i / 200), byte(i%200 + 1)})
}

func endpointOf(i int) string { return netip.AddrPortFrom(addrOf(i), 6674).String() }

func machineOf(a netip.Addr) int {
	b := a.As4()
	return int(b[2])*200 + int(b[3]) - 1
}

// deaf keeps datagrams from passing between machines; nil heals.
func (s *sim) deaf(apart func(i, j int) bool) {
	if apart == nil {
		s.segment.Partition(nil)
		return
	}
	s.segment.Partition(func(a, b netip.Addr) bool { return apart(machineOf(a), machineOf(b)) })
}

// cut separates machines wholly; nil heals.
func (s *sim) cut(apart func(i, j int) bool) {
	s.deaf(apart)
	if apart == nil {
		s.net.Partition(nil)
		return
	}
	s.net.Partition(func(a, b netip.Addr) bool { return apart(machineOf(a), machineOf(b)) })
}

// between separates one machine from another one, between(a) one from all others.
func between(a int, others ...int) func(i, j int) bool {
	return func(i, j int) bool {
		if i != a && j != a || i == j {
			return false
		}
		return len(others) == 0 || slices.Contains(others, i+j-a)
	}
}

// want waits in virtual time, and fails with what the machines said. It looks once nobody has anything to do at a moment any more:
// what the machines do at one and the same moment is half done while it is looked at, on a busy computer for long.
func (s *sim) want(limit time.Duration, what string, done func() bool) time.Duration {
	s.t.Helper()
	began := time.Now()
	for time.Since(began) <= limit {
		synctest.Wait()
		if done() {
			return time.Since(began)
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.log.tell(s.t, 80)
	s.t.Fatalf("not within %s: %s", limit, what)
	return 0
}

// never fails if something holds at any moment of a time.
func (s *sim) never(over time.Duration, what string, bad func() bool) {
	s.t.Helper()
	for began := time.Now(); time.Since(began) < over; time.Sleep(500 * time.Millisecond) {
		if bad() {
			s.log.tell(s.t, 80)
			s.t.Fatalf("after %s: %s", time.Since(began), what)
		}
	}
}

// owns is a node's formation record, as its loop knows it.
func owns(n *Node) formation.Own {
	own, err := n.own(context.Background())
	if err != nil {
		return formation.Own{}
	}
	return own
}

// asks reports whether n is pending at the fleet of leader.
func asks(n, leader *Node) bool {
	own := owns(n)
	return own.Mode == formation.Pending && own.Target != nil && own.Target.Cluster == leader.View().Cluster()
}

// rows is the waiting list of a node; a member that does not lead has none.
func (s *sim) rows(n *Node) []control.EnrollRow {
	list, err := n.enrollList(context.Background())
	if err != nil {
		return nil
	}
	return list.Rows
}

// waits reports whether m waits in the list of n.
func (s *sim) waits(n, m *Node) bool {
	return slices.ContainsFunc(s.rows(n), func(r control.EnrollRow) bool {
		return r.ID == m.id && r.Key == m.Key().String() && r.Decision == control.DecisionWaiting
	})
}

func (s *sim) grant(n, m *Node) error {
	_, err := n.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlApprove, Argument: wire.AppendControlMember(nil, m.id, m.Key())})
	return err
}

func (s *sim) reject(n, m *Node) error {
	_, err := n.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlReject, Argument: []byte(m.id)})
	return err
}

func (s *sim) cluster(n *Node, r wire.ClusterRequest) error {
	_, err := n.Cluster(context.Background(), local, r)
	return err
}

// must is for what a test only needs on its way.
func (s *sim) must(err error) {
	s.t.Helper()
	if err != nil {
		s.log.tell(s.t, 40)
		s.t.Fatal(err)
	}
}

// joined waits until m waits at n, approves it, and waits until it is a learner with the state applied.
func (s *sim) joined(n, m *Node) {
	s.t.Helper()
	s.want(time.Minute, m.name+" waits at "+n.name, func() bool { return s.waits(n, m) })
	s.must(s.grant(n, m))
	s.want(time.Minute, m.name+" follows "+n.name, func() bool { return follows(m, n) })
}

// follows reports whether m is a learner of the fleet of leader, hears of it over a voter, and has its state applied.
func follows(m, leader *Node) bool {
	b := m.serving.Load()
	if b == nil || b.learner == nil {
		return false
	}
	st := b.learner.Status()
	return st.Following != "" && st.LeaderID == leader.id && m.Mode() == formation.Learner && m.View().Cluster() == leader.View().Cluster() && m.View().Revision() == leader.View().Revision()
}

// oneFleet reports whether all but the leader are its learners.
func (s *sim) oneFleet(leader *Node) bool {
	for _, n := range s.nodes {
		if n != nil && n != leader && !follows(n, leader) {
			return false
		}
	}
	return leader.View().Len() > 1 && leader.Mode() == formation.Voter
}

// condition returns a condition's detail on a node.
func condition(n *Node, id string) (detail string, ok bool) {
	for _, c := range n.board.List() {
		if c.ID == id {
			return c.Detail, true
		}
	}
	return "", false
}

// metric reads one series of a node's /metrics page, by its whole name with labels.
func (s *sim) metric(n *Node, series string) float64 {
	s.t.Helper()
	w := httptest.NewRecorder()
	n.metrics.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				s.t.Fatalf("%s: %v", line, err)
			}
			return v
		}
	}
	s.t.Fatalf("%s shows no series %s", n.name, series)
	return 0
}

func forget(m *Node) wire.ClusterRequest { return wire.ClusterRequest{Op: "forget", ID: m.id} }
