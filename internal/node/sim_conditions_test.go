package node

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pace-node/internal/formation"
	"pace-node/internal/statedir"
)

// TestSimFewVoters: one voter and two are said, with the line that promotes the next machine; three are not.
func TestSimFewVoters(t *testing.T) {
	simulate(t, 246, func(t *testing.T, s *sim) {
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b, c := s.boot(1), s.boot(2)
		s.joined(a, b)
		s.joined(a, c)
		on := func(n *Node, id string) bool { _, ok := condition(n, id); return ok }
		all := func(one, two bool) func() bool {
			return func() bool {
				for _, n := range s.nodes {
					if on(n, "single-voter-fleet") != one || on(n, "two-voter-fleet") != two {
						return false
					}
				}
				return true
			}
		}
		s.want(10*time.Second, "all say that there is one", all(true, false))
		s.promote(a, b)
		s.want(10*time.Second, "all say that there are two", all(false, true))
		var remedy string
		for _, r := range a.board.List() {
			if r.ID == "two-voter-fleet" {
				remedy = r.Remedy
			}
		}
		if remedy != "pace-node --cluster-admit="+c.id+"="+raftEndpointOf(2) {
			t.Errorf("the remedy is %q", remedy)
		}
		s.promote(a, c)
		s.want(10*time.Second, "nobody says anything", all(false, false))
	})
}

// TestSimRevokedUntilReset: a forgotten machine says so over its restarts, until what the remedy says was done.
func TestSimRevokedUntilReset(t *testing.T) {
	simulate(t, 247, func(t *testing.T, s *sim) {
		s.expect = []string{"id=own-key-revoked", "id=consensus-leader-silent"}
		a := s.boot(0)
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.must(s.cluster(a, forget(b)))
		says := func() bool {
			detail, ok := condition(b, "own-key-revoked")
			return ok && strings.Contains(detail, a.View().Cluster())
		}
		s.want(time.Minute, "it says so", says)
		s.halt(1)
		b = s.boot(1)
		s.want(time.Second, "it says so again", says)
		s.halt(1)
		if _, err := statedir.Reset(s.dirOf(1), statedir.Options{}); err != nil {
			t.Fatal(err)
		}
		b = s.boot(1, func(c *Config) {
			rng := rand.New(rand.NewPCG(247, 99)) // the kit's own mints the same again
			c.Entropy = func(b []byte) {
				for i := range b {
					b[i] = byte(rng.Uint32())
				}
			}
		})
		s.joined(a, b)
		if _, ok := condition(b, "own-key-revoked"); ok || b.Mode() != formation.Learner {
			t.Errorf("after the reset it is %s, and still says so: %v", b.Mode(), ok)
		}
	})
}
