package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// dnsNet is a machine that can ask DNS.
type dnsNet struct {
	*simNet
	mu      sync.Mutex
	suffix  string
	records []netio.SRV
	err     error
	asked   int
}

func (d *dnsNet) LookupSRV(_ context.Context, service, proto string) (string, []netio.SRV, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	if service != "pace" || proto != "tcp" {
		return d.suffix, nil, errors.New("another service was asked for: " + service + "/" + proto)
	}
	return d.suffix, d.records, d.err
}

func (d *dnsNet) set(records []netio.SRV, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.records, d.err = records, err
}

// withDNS makes machine i one that can ask DNS.
func (s *sim) withDNS(i int, suffix string, records ...netio.SRV) (*dnsNet, tweak) {
	d := &dnsNet{simNet: &simNet{s: s, addr: addrOf(i)}, suffix: suffix, records: records}
	return d, func(c *Config) { c.Network = d }
}

func seedOf(n *Node, endpoint string) (found formation.SeedStatus, ok bool) {
	n.ask(context.Background(), func(time.Time) {
		for _, s := range n.form.Seeds() {
			if s.Endpoint == endpoint {
				found, ok = s, true
			}
		}
	})
	return found, ok
}

// TestSimSeedByDNS: a machine that hears no beacon finds its fleet by what its site's DNS says; the name is asked again
// each minute, and the host's name is resolved again at each ask.
func TestSimSeedByDNS(t *testing.T) {
	simulate(t, 101, func(t *testing.T, s *sim) {
		s.deaf(between(1)) // the joiner is on another segment
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		dns, on := s.withDNS(1, "corp.test", netio.SRV{Target: "old.corp.test.", Port: 6674, Priority: 5}, netio.SRV{Target: "host1.corp.test.", Port: 6674})
		s.net.Name("old.corp.test", addrOf(9))
		s.net.Name("host1.corp.test", addrOf(8)) // nobody is there yet
		b := s.boot(1, on)
		s.want(3*time.Second, "DNS is asked and its seeds are asked in order", func() bool {
			one, ok := seedOf(b, "host1.corp.test:6674")
			two, also := seedOf(b, "old.corp.test:6674")
			return ok && also && one.Say == formation.SaySeedFailed && two.Say == formation.SaySeedFailed && one.Origin == formation.OriginSRV
		})
		s.never(50*time.Second, "a seed that failed is asked again before its minute", func() bool { return b.Mode() != formation.Solitary })
		s.net.Name("host1.corp.test", addrOf(0)) // the machine moved
		s.want(15*time.Second, "the name is resolved again", func() bool { return asks(b, a) })
		if o := owns(b).Target.Origin; o != formation.OriginSRV {
			t.Errorf("found by %s", o)
		}
		s.joined(a, b)
		dns.mu.Lock()
		asked := dns.asked
		dns.mu.Unlock()
		if asked != 2 {
			t.Errorf("DNS was asked %d times in two minutes", asked)
		}
		time.Sleep(5 * time.Minute)
		if dns.asked != asked {
			t.Error("a member asks DNS")
		}
	})
}

// TestSimSolitaryByDNSWins: a fleet of one that DNS names wins the tie-break whatever the ages.
func TestSimSolitaryByDNSWins(t *testing.T) {
	simulate(t, 102, func(t *testing.T, s *sim) {
		s.deaf(between(1))
		_, on := s.withDNS(1, "corp.test", netio.SRV{Target: "host1.corp.test.", Port: 6674})
		s.net.Name("host1.corp.test", addrOf(0))
		b := s.boot(1, on)
		time.Sleep(2 * time.Second)
		a := s.boot(0) // younger
		s.want(2*time.Minute, "the elder asks the one that DNS names", func() bool { return asks(b, a) })
	})
}

// TestSimNoSuffixNoQuery: without a suffix nobody is asked, and on one machine's own loopback neither.
func TestSimNoSuffixNoQuery(t *testing.T) {
	simulate(t, 103, func(t *testing.T, s *sim) {
		_, on := s.withDNS(0, "")
		a := s.boot(0, on)
		time.Sleep(3 * time.Minute)
		var shown int
		a.ask(t.Context(), func(time.Time) { shown = len(a.seedStatus()) })
		if shown != 0 {
			t.Errorf("%d seeds are shown", shown)
		}
		d, on := s.withDNS(1, "corp.test")
		s.boot(1, on, func(c *Config) { c.Settings.DiscoveryLoopback = true })
		time.Sleep(3 * time.Minute)
		if d.asked != 0 {
			t.Errorf("DNS was asked %d times with --discovery-loopback", d.asked)
		}
	})
}

// TestSimDNSFails: a failure is said once, shown, and ends by itself.
func TestSimDNSFails(t *testing.T) {
	simulate(t, 104, func(t *testing.T, s *sim) {
		dns, on := s.withDNS(0, "corp.test")
		dns.set(nil, errors.New("server misbehaving"))
		a := s.boot(0, on)
		shown := func() (out string) {
			a.ask(t.Context(), func(time.Time) {
				for _, x := range a.seedStatus() {
					out += x.Endpoint + " " + x.Origin + " " + x.Said + "\n"
				}
			})
			return out
		}
		time.Sleep(5 * time.Minute)
		if got := shown(); !strings.Contains(got, "_pace._tcp.corp.test srv DNS did not answer for seeds: server misbehaving") {
			t.Errorf("shown: %s", got)
		}
		if n := s.log.count("DNS did not answer"); n != 1 {
			t.Errorf("said %d times", n)
		}
		dns.set(nil, nil)
		s.want(time.Minute+time.Second, "it says that there are none", func() bool { return strings.Contains(shown(), "DNS has no such records") })
	})
}

func (s *story) count(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

// TestSimRememberedVoter: a learner whose fleet's voter cannot be reached where it says it is, finds it again after a
// restart where it was reached before: no beacon, no seed and no roster helps it.
func TestSimRememberedVoter(t *testing.T) {
	simulate(t, 105, func(t *testing.T, s *sim) {
		const leader, learner, aside = 0, 1, 7 // aside is the leader's second address
		moving := &movingNet{simNet: &simNet{s: s, addr: addrOf(leader)}, second: addrOf(aside), now: addrOf(leader)}
		s.deaf(between(learner))
		s.net.Partition(func(a, b netip.Addr) bool {
			return between(leader, learner)(machineOf(a), machineOf(b))
		})
		a := s.boot(leader, func(c *Config) { c.Network = moving })
		time.Sleep(2 * time.Second)
		b := s.boot(learner, seededBy(endpointOf(aside)))
		s.joined(a, b)
		remembered := func() []string {
			var out []string
			b.ask(t.Context(), func(time.Time) { out = slices.Clone(b.rec.Remembered) })
			return out
		}
		if got := remembered(); !slices.Equal(got, []string{endpointOf(aside), endpointOf(leader)}) {
			t.Errorf("remembered: %q", got)
		}
		s.halt(learner)
		b = s.boot(learner, func(*Config) {}) // without its seed
		took := s.want(time.Minute, "it follows again", func() bool { return follows(b, a) })
		t.Logf("after %s", took)
		if got := remembered(); len(got) == 0 || got[0] != endpointOf(aside) {
			t.Errorf("remembered after the restart: %q", got)
		}
		// The voter is gone: the start does not wait for what is remembered.
		s.halt(leader)
		s.halt(learner)
		began := time.Now()
		b = s.boot(learner)
		if took := time.Since(began); took > time.Second || b.Mode() != formation.Learner {
			t.Errorf("it started after %s as %s", took, b.Mode())
		}
	})
}

// TestSimRememberedFollowsTheRoster: what is remembered moves with the voters, and goes with the fleet.
func TestSimRememberedFollowsTheRoster(t *testing.T) {
	simulate(t, 106, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked"}
		moving := &movingNet{simNet: &simNet{s: s, addr: addrOf(0)}, second: addrOf(7), now: addrOf(0)}
		a := s.boot(0, func(c *Config) { c.Network = moving })
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		remembered := func(want ...string) func() bool {
			return func() bool {
				var got []string
				b.ask(t.Context(), func(time.Time) { got = slices.Clone(b.rec.Remembered) })
				return slices.Equal(got, want)
			}
		}
		s.want(time.Second, "the founder is remembered", remembered(endpointOf(0)))
		moving.route(addrOf(7))
		s.want(2*time.Minute, "and where it moved to", remembered(endpointOf(0), endpointOf(7)))
		s.must(s.cluster(a, forget(b)))
		s.want(5*time.Second, "a machine that was forgotten remembers nobody", func() bool { return b.Mode() == formation.Solitary && remembered()() })
		if _, ok := seedOf(b, endpointOf(0)); ok {
			t.Error("it still asks the fleet that forgot it")
		}
	})
}

// TestSimApprovalWaitsForTheChoice: an approval on a machine that has just started waits until that machine has chosen
// whether to ask another fleet, so that machines powered on together never end as two fleets.
func TestSimApprovalWaitsForTheChoice(t *testing.T) {
	simulate(t, 107, func(t *testing.T, s *sim) {
		oldest := s.boot(3)
		s.cut(between(3))
		time.Sleep(2 * time.Second)
		a := s.boot(0)
		began := time.Now()
		time.Sleep(1100 * time.Millisecond)
		b := s.boot(1)
		s.want(1500*time.Millisecond, "the younger waits", func() bool { return s.waits(a, b) })
		said := make(chan error, 1)
		go func() { said <- s.grant(a, b) }()
		time.Sleep(100 * time.Millisecond)
		select {
		case err := <-said:
			t.Fatalf("approved %s after the start: %v", time.Since(began), err)
		default:
		}
		s.cut(nil)
		// The oldest is heard, and asked, before the approval is looked at.
		s.must(s.inject(oldest, a))
		s.want(SettleWithin, "the founder asks the oldest", func() bool { return asks(a, oldest) })
		if err := <-said; err == nil || !strings.Contains(err.Error(), "asks another fleet") {
			t.Errorf("the approval says %v", err)
		}
		if a.View().Len() != 1 {
			t.Fatal("two fleets")
		}
		s.want(time.Minute, "the younger asks the oldest too", func() bool { return asks(b, oldest) })
	})
	simulate(t, 108, func(t *testing.T, s *sim) {
		a := s.boot(0)
		began := time.Now()
		time.Sleep(1100 * time.Millisecond)
		b := s.boot(1)
		s.want(1500*time.Millisecond, "the younger waits", func() bool { return s.waits(a, b) })
		s.must(s.grant(a, b))
		if took := time.Since(began); took < formation.SettleAfter || took > formation.SettleAfter+time.Second {
			t.Errorf("approved %s after the start", took)
		}
		s.want(5*time.Second, "it follows", func() bool { return follows(b, a) })
		// From then on nothing waits.
		c := s.boot(2)
		s.want(5*time.Second, "a third waits", func() bool { return s.waits(a, c) })
		began = time.Now()
		s.must(s.grant(a, c))
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("a later approval takes %s", took)
		}
	})
}

// SettleWithin is how long a machine may take to its first choice here.
const SettleWithin = formation.SettleAfter

// inject makes the machine hear another's fleet now, as its beacon would.
func (s *sim) inject(from, to *Node) error {
	f := formation.FleetOf(from.self.Load(), from.Key(), formation.OriginBeacon, netip.AddrPort{})
	return to.ask(s.t.Context(), func(now time.Time) { to.step(now, formation.Event{Kind: formation.EvProven, Fleet: f}) })
}

// TestSimTargetClosed: a machine that waits at one which yields to a fleet that has rejected it is its own again at once.
func TestSimTargetClosed(t *testing.T) {
	simulate(t, 109, func(t *testing.T, s *sim) {
		d := s.boot(3)
		s.cut(between(0))
		time.Sleep(2 * time.Second)
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.want(5*time.Second, "it waits at the oldest", func() bool { return s.waits(d, b) })
		s.must(s.reject(d, b))
		s.want(5*time.Second, "it is rejected", func() bool { return b.Mode() == formation.Solitary })
		s.cut(between(3))
		s.want(30*time.Second, "it waits at the other", func() bool { return asks(b, a) && s.waits(a, b) })
		s.cut(nil)
		s.want(30*time.Second, "the other asks the oldest", func() bool { return asks(a, d) })
		took := s.want(10*time.Second, "it is its own again", func() bool { return b.Mode() == formation.Solitary })
		t.Logf("after %s", took)
		s.never(50*time.Second, "it asks whom it may not", func() bool { return b.Mode() != formation.Solitary })
	})
}

// TestSimApprovedAsTheyAppear: machines of any ages are powered on within seconds of one another, and somebody approves every
// row on every machine at the moment it appears. They are one fleet in the end, never two that neither yield.
func TestSimApprovedAsTheyAppear(t *testing.T) {
	for i := range 2 * seeds(t) {
		t.Run(fmt.Sprintf("seed %d", i), func(t *testing.T) {
			simulate(t, uint64(200+i), func(t *testing.T, s *sim) {
				const machines = 6
				rng := rand.New(rand.NewPCG(uint64(i), 33))
				s.cut(func(i, j int) bool { return i != j })
				for _, m := range rng.Perm(machines) { // each was founded at another time
					s.boot(m)
					time.Sleep(time.Duration(1+rng.IntN(3)) * time.Second)
					s.halt(m)
				}
				s.cut(nil)
				stop := make(chan struct{})
				var wait sync.WaitGroup
				defer func() { close(stop); wait.Wait() }()
				for _, m := range rng.Perm(machines) {
					n := s.boot(m)
					wait.Go(func() {
						for {
							select {
							case <-stop:
								return
							case <-time.After(20 * time.Millisecond):
							}
							for _, row := range s.rows(n) {
								if key, err := identity.ParsePublicKey(row.Key); err == nil && row.Decision == control.DecisionWaiting {
									n.EnrollControl(context.Background(), local, wire.EnrollControl{Op: wire.ControlApprove, Argument: wire.AppendControlMember(nil, row.ID, key)})
								}
							}
						}
					})
					time.Sleep(time.Duration(rng.Int64N(int64(2 * time.Second))))
				}
				s.want(time.Minute, "one fleet", func() bool {
					for _, n := range s.nodes {
						if n.Mode() == formation.Voter {
							return n.View().Len() == machines && s.oneFleet(n)
						}
					}
					return false
				})
			})
		})
	}
}

// TestSimDissolvedRemembers: a machine whose fleet dissolved remembers where it was sent and where its voters were, so that
// it finds the survivor again after it gave the ask up, where no beacon reaches.
func TestSimDissolvedRemembers(t *testing.T) {
	simulate(t, 114, func(t *testing.T, s *sim) {
		const learner = 3
		x := splitFleets(s)
		s.cut(nil)
		s.want(2*time.Minute, "all have asked the elder", x.gone)
		s.cut(between(learner))
		s.want(formation.AbandonAfter+2*time.Minute, "it gives the ask up", func() bool { return x.learner.Mode() == formation.Solitary })
		var got []string
		s.must(x.learner.ask(t.Context(), func(time.Time) { got = slices.Clone(x.learner.rec.Remembered) }))
		if len(got) == 0 || got[0] != endpointOf(0) || !slices.Contains(got, endpointOf(1)) {
			t.Fatalf("it remembers %q", got)
		}
		s.halt(learner)
		x.learner = s.boot(learner)
		s.cut(nil)
		s.deaf(between(learner))
		s.want(2*time.Minute, "it asks the elder again", func() bool { return asks(x.learner, x.elder) })
		if o := owns(x.learner).Target.Origin; o != formation.OriginRemembered {
			t.Errorf("found by %s", o)
		}
	})
}
