package node

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// loudest is how often one thing may be said: once a minute. repeatsAllowed are the messages of what a person does or of one
// step of a story, of which each is news.
const loudest = time.Minute

var (
	logWord = regexp.MustCompile(`([a-z_-]+)=("(?:[^"\\]|\\.)*"|\S*)`)
	// subjects are the attributes that say what a line is about; the others say how it stands this time.
	subjects = []string{"on", "msg", "component", "id", "from", "to", "key", "fleet", "voter", "peer", "interface", "name", "condition", "what", "because", "survivor", "step", "stage", "reason", "mode", "outcome"}
)

// repeats lists what the log said twice within a minute at level INFO and above, with how often.
func repeats(lines []string) []string {
	last, count := map[string]time.Time{}, map[string]int{}
	for _, line := range lines {
		var key []string
		var at time.Time
		level := ""
		for _, m := range logWord.FindAllStringSubmatch(line, -1) {
			switch {
			case m[1] == "time":
				at, _ = time.Parse(time.RFC3339Nano, m[2])
			case m[1] == "level":
				level = m[2]
			case slices.Contains(subjects, m[1]):
				key = append(key, m[1]+"="+m[2])
			}
		}
		if level == "DEBUG" {
			continue
		}
		k := strings.Join(key, " ")
		if was, ok := last[k]; ok && at.Sub(was) < loudest {
			count[k]++
			continue // the first of the minute counts on
		}
		last[k] = at
	}
	var out []string
	for k, n := range count {
		out = append(out, fmt.Sprintf("%d times more: %s", n, k))
	}
	slices.Sort(out)
	return out
}

// TestSimNoisyHour: an hour in which a link flaps, a hostile machine forges, floods and asks, and a forgotten one keeps
// coming. Nothing is said twice within a minute.
func TestSimNoisyHour(t *testing.T) {
	simulate(t, 249, func(t *testing.T, s *sim) {
		s.healthy = false // the noise raises what it raises
		a := s.boot(0, provisioning)
		time.Sleep(2 * time.Second)
		b, gone, v := s.boot(1), s.boot(2), s.boot(3)
		for _, n := range []*Node{b, gone, v} {
			s.joined(a, n)
		}
		s.promote(a, v)
		revoked := gone.key
		s.halt(2)
		s.must(s.cluster(a, forget(gone)))
		m := s.mallory(threatened + 1)
		unknown := identity.NewPrivateKey([32]byte{'u'})
		lines := s.log.all()
		for i := range 360 {
			began := time.Now()
			s.cut(map[bool]func(i, j int) bool{true: between(1), false: nil}[i%2 == 0])
			ours := m.sound(1)
			ours.Cluster = a.View().Cluster()
			m.proves(unknown, 0, ours)
			theirs := m.sound(2)
			theirs.Cluster, theirs.Node = a.View().Cluster(), gone.id
			m.proves(revoked, 0, theirs)
			m.proves(m.key, 0, m.sound(3+i%5))
			listens, answers := s.ports(0)
			m.send(m.own(), listens, []byte{wire.Magic, wire.DatagramVersion + 1, 1, 0, 0, 0, 0})
			m.send(m.own(), listens, []byte("junk"))
			m.send(m.own(), answers, claiming(wire.KindProof, 1<<30))
			m.enroll(m.key, m.addr, 0, fmt.Sprintf("%032x", 7))
			m.enroll(revoked, m.addr, 0, gone.id)
			time.Sleep(10*time.Second - time.Since(began))
		}
		said := s.log.all()[len(lines):]
		for _, r := range repeats(said) {
			t.Error(r)
		}
		if len(said) > 0 {
			t.Logf("%d lines in an hour", len(said))
		}
	})
}
