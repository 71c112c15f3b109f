package node

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pace-node/internal/netsim"
)

// TestSimChaos: machines are started, stopped, lose their power and their network at random for ten minutes; when that is
// over they are one fleet, all provisioned, and nobody raised anything but that a leader was silent.
func TestSimChaos(t *testing.T) {
	for i := range seeds(t) {
		seed := uint64(i + 1)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			simulate(t, seed, func(t *testing.T, s *sim) {
				const machines = 8
				s.expect = []string{"id=consensus-leader-silent"}
				s.segment.Set(netsim.Knobs{Loss: 0.2, Duplicate: 0.1, MaxDelay: 20 * time.Millisecond})
				rng := rand.New(rand.NewPCG(seed, 99))
				s.nodes = make([]*Node, machines)
				a := s.boot(0, provisioning)
				s.must(s.arm(a, 3600))
				down := func(i int) {
					if rng.IntN(2) == 0 {
						s.net.Vanish(addrOf(i)) // nobody is told goodbye
					}
					s.halt(i)
				}
				lonely := -1
				for began := time.Now(); time.Since(began) < 10*time.Minute; time.Sleep(time.Duration(rng.Int64N(int64(12 * time.Second)))) {
					switch i := rng.IntN(machines); {
					case rng.IntN(5) == 0:
						if lonely = rng.IntN(machines+3) - 3; lonely < 0 {
							s.cut(nil)
						} else {
							s.cut(between(lonely))
						}
					case s.nodes[i] == nil:
						s.boot(i)
						if i == 0 {
							a = s.nodes[0]
							s.must(s.arm(a, 3600))
						}
					case rng.IntN(2) == 0:
						down(i)
					}
				}
				s.cut(nil)
				for i := range machines {
					if s.nodes[i] == nil {
						s.boot(i)
					}
				}
				a = s.nodes[0]
				s.must(s.arm(a, 3600))
				took := s.want(5*time.Minute, "one fleet", func() bool { return s.oneFleet(a) && a.View().Len() == machines })
				t.Logf("one fleet %s after the last disturbance", took)
				s.want(3*time.Minute, "all are provisioned", func() bool {
					for _, n := range s.nodes {
						if !provisioned(n, a) {
							return false
						}
					}
					return true
				})
				s.want(time.Minute, "all applied the founder's state", func() bool {
					return !slices.ContainsFunc(s.nodes, func(n *Node) bool { return n.View().Digest() != a.View().Digest() })
				})
			})
		})
	}
}
