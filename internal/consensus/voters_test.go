package consensus

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// mesh connects voters by their ids.
type mesh struct {
	mu    sync.Mutex
	doors map[string]*door
	apart bool // nobody reaches anybody
}

// door is one voter's layer.
type door struct {
	of   *mesh
	id   string
	come chan net.Conn
	done chan struct{}
	once sync.Once
	held []net.Conn // both ends of what was accepted, the mesh's lock's
}

func newMesh() *mesh { return &mesh{doors: map[string]*door{}} }

func (m *mesh) door(id string) *door {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := &door{of: m, id: id, come: make(chan net.Conn), done: make(chan struct{})}
	m.doors[id] = d
	return d
}

func (d *door) Dial(ctx context.Context, id string) (net.Conn, error) {
	d.of.mu.Lock()
	to, apart := d.of.doors[id], d.of.apart
	d.of.mu.Unlock()
	if to == nil || apart {
		return nil, errors.New("nobody")
	}
	near, far := net.Pipe()
	select {
	case to.come <- far:
		d.of.mu.Lock()
		defer d.of.mu.Unlock()
		to.held = append(to.held, near, far)
		d.held = append(d.held, near, far)
		return near, nil
	case <-to.done:
	case <-ctx.Done():
	}
	near.Close()
	far.Close()
	return nil, errors.New("nobody answers")
}

func (d *door) Accept() (net.Conn, error) {
	select {
	case c := <-d.come:
		return c, nil
	case <-d.done:
		return nil, net.ErrClosed
	}
}

// Close ends what goes through the door too, as the product's layer does: raft waits for who it serves.
func (d *door) Close() error {
	d.once.Do(func() {
		close(d.done)
		d.of.mu.Lock()
		defer d.of.mu.Unlock()
		for _, c := range d.held {
			c.Close()
		}
	})
	return nil
}

func (d *door) Addr() net.Addr { return idAddr(d.id) }

// quorumTest is a fleet whose founder is n-a, in virtual time.
type quorumTest struct {
	*testing.T
	mesh *mesh
	dir  string
	open map[string]*Consensus
}

func quorum(t *testing.T, f func(q *quorumTest)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		q := &quorumTest{T: t, mesh: newMesh(), dir: dir, open: map[string]*Consensus{}}
		defer func() {
			for _, c := range q.open {
				c.Close()
			}
		}()
		f(q)
	})
}

func (q *quorumTest) config(id string) Config {
	cfg := config(filepath.Join(q.dir, id))
	cfg.NodeID, cfg.Layer, cfg.NoSync = id, q.mesh.door(id), true
	if id != "n-a" {
		cfg.Bootstrap = nil
	}
	return cfg
}

// start opens a store; change may be nil.
func (q *quorumTest) start(id string, change func(*Config)) *Consensus {
	q.Helper()
	cfg := q.config(id)
	if change != nil {
		change(&cfg)
	}
	c, err := Open(q.Context(), cfg)
	if err != nil {
		q.Fatal(err)
	}
	q.open[id] = c
	return c
}

func (q *quorumTest) end(id string) {
	q.Helper()
	if err := q.open[id].Close(); err != nil {
		q.Fatal(err)
	}
	delete(q.open, id)
}

func seated(cfg *Config) { cfg.Seat = true }

func (q *quorumTest) must(err error) {
	q.Helper()
	if err != nil {
		q.Fatal(err)
	}
}

func (q *quorumTest) want(what string, done func() bool) {
	q.Helper()
	for range 3000 {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	q.Fatalf("not within half a minute: %s", what)
}

// voter makes a voter of a machine as a node does: a seat that counts, a vote, and then the state.
func (q *quorumTest) voter(lead *Consensus, id string) *Consensus {
	q.Helper()
	ctx := q.Context()
	seat := q.start(id, seated)
	key := identity.NewPrivateKey([32]byte{9, id[len(id)-1]}).Public()
	_, err := lead.Apply(ctx, fleet.AdmitLearner(id, key, id, "linux/amd64", "1.0.0", wire.Endpoints{FC: "10.0.0.9:6674"}, fleet.Format, founder.Public().String(), 1, false))
	q.must(err)
	q.must(lead.AddNonvoter(ctx, id))
	q.want("the seat has counted everything", func() bool { return seat.Revision() == lead.Revision() })
	q.must(lead.AddVoter(ctx, id))
	q.end(id)
	c := q.start(id, nil)
	q.want("it has the state", func() bool { return c.View().Digest() == lead.View().Digest() })
	return c
}

// TestSeatCounts: a seat takes the log and applies nothing, and has counted as far as a state would be: of entries, of a
// snapshot that it is sent, and of what it recalls after a restart, each of them once.
func TestSeatCounts(t *testing.T) {
	for _, row := range []struct {
		name    string
		before  int  // commands before it is seated
		compact bool // and they are a snapshot by then
	}{{"entries", 5, false}, {"a snapshot", trailingLogs + 40, true}} {
		t.Run(row.name, func(t *testing.T) {
			quorum(t, func(q *quorumTest) {
				ctx := q.Context()
				a := q.start("n-a", nil)
				for n := range row.before {
					_, err := a.Apply(ctx, fleet.Audit("test", "x", fmt.Sprint(n), "", 0))
					q.must(err)
				}
				if row.compact {
					q.must(a.Snapshot())
				}
				seat := q.start("n-b", seated)
				if got := seat.Seats(); len(got) != 0 || seat.Revision() != 0 {
					t.Fatalf("a seat that raft does not name: %v at revision %d", got, seat.Revision())
				}
				q.must(a.AddNonvoter(ctx, "n-b"))
				if got := a.Seats(); len(got) != 2 || got["n-a"] != fleet.SeatVoter || got["n-b"] != fleet.SeatNonvoter {
					t.Fatalf("seats at the leader: %v", got)
				}
				counted := func() bool { return seat.Revision() == a.Revision() }
				q.want("it has counted everything", counted)
				_, err := a.Apply(ctx, admit(1))
				q.must(err)
				q.want("it has counted one more", counted)
				if v := seat.View(); v.Cluster() != "" || v.Revision() != 0 {
					t.Errorf("it shows a state: %q at revision %d", v.Cluster(), v.Revision())
				}
				q.must(a.AddVoter(ctx, "n-b"))
				q.want("it knows that it votes", func() bool { return seat.Seats()["n-b"] == fleet.SeatVoter && a.Seats()["n-b"] == fleet.SeatVoter })

				q.end("n-b")
				seat = q.start("n-b", seated)
				if got := seat.Revision(); !row.compact && got != a.Revision() {
					t.Errorf("after a restart it counts to %d of %d at once", got, a.Revision())
				}
				_, err = a.Apply(ctx, admit(2))
				q.must(err)
				q.want("it has counted everything again", func() bool { return seat.Revision() >= a.Revision() })
				time.Sleep(5 * time.Second)
				if seat.Revision() != a.Revision() {
					t.Errorf("it has counted to %d, and the state is at %d", seat.Revision(), a.Revision())
				}
				q.end("n-b")
				b := q.start("n-b", nil)
				q.want("adopted, it has the state", func() bool { return b.View().Revision() == a.View().Revision() })
				if b.View().Digest() != a.View().Digest() {
					t.Error("which is another one")
				}
			})
		})
	}
}

// TestRemovedSeat: who is taken out of the configuration is named by it no more, and the rest goes on.
func TestRemovedSeat(t *testing.T) {
	quorum(t, func(q *quorumTest) {
		a := q.start("n-a", nil)
		b := q.voter(a, "n-b")
		if err := b.RemoveSeat(q.Context(), "n-a"); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a follower removes a seat: %v", err)
		}
		q.must(a.RemoveSeat(q.Context(), "n-b"))
		if got := a.Seats(); len(got) != 1 || got["n-a"] != fleet.SeatVoter {
			t.Errorf("seats after that: %v", got)
		}
		q.end("n-b")
		_, err := a.Apply(q.Context(), admit(1))
		q.must(err)
	})
}

// TestRecall: a voter that starts while nobody answers holds what it had applied, from its snapshot, its log and the mark
// beside them; a mark that does not read, or is behind, only means that less is recalled, never that more is.
func TestRecall(t *testing.T) {
	write := func(index uint64) func(path string) error {
		return func(path string) error {
			var b [12]byte
			binary.BigEndian.PutUint64(b[:], index)
			binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
			return os.WriteFile(path, b[:], 0o600)
		}
	}
	for _, row := range []struct {
		name     string
		snapshot bool
		mark     func(path string) error // nil: as it was
		want     func(before, snapshotted uint64) uint64
	}{
		{"the log alone", false, nil, func(before, _ uint64) uint64 { return before }},
		{"a snapshot and the log", true, nil, func(before, _ uint64) uint64 { return before }},
		{"no mark", false, os.Remove, func(uint64, uint64) uint64 { return 0 }},
		{"no mark beside a snapshot", true, os.Remove, func(_, snapshotted uint64) uint64 { return snapshotted }},
		{"a torn mark", true, func(path string) error { return os.Truncate(path, 7) }, func(_, snapshotted uint64) uint64 { return snapshotted }},
		{"a mark whose sum is wrong", true, func(path string) error { return os.WriteFile(path, make([]byte, 12), 0o600) }, func(_, snapshotted uint64) uint64 { return snapshotted }},
		{"a mark before the snapshot", true, write(1), func(_, snapshotted uint64) uint64 { return snapshotted }},
	} {
		t.Run(row.name, func(t *testing.T) {
			quorum(t, func(q *quorumTest) {
				ctx := q.Context()
				a := q.start("n-a", nil)
				b := q.voter(a, "n-b")
				_, err := a.Apply(ctx, admit(1))
				q.must(err)
				q.want("the other one has it", func() bool { return b.View().Revision() == a.View().Revision() })
				if row.snapshot {
					q.must(b.Snapshot())
				}
				snapshotted := b.View().Revision()
				_, err = a.Apply(ctx, admit(2))
				q.must(err)
				q.want("the other one has it", func() bool { return b.View().Revision() == a.View().Revision() })
				before, digest := b.View().Revision(), b.View().Digest()
				q.end("n-b")
				q.end("n-a")
				if row.mark != nil {
					q.must(row.mark(filepath.Join(q.dir, "n-b", markFile)))
				}
				var mu sync.Mutex
				var told []Entry
				b = q.start("n-b", func(c *Config) { c.OnApply = func(e Entry) { mu.Lock(); told = append(told, e); mu.Unlock() } })
				if got, want := b.View().Revision(), row.want(before, snapshotted); got != want {
					t.Errorf("recalled revision %d, want %d", got, want)
				}
				if b.View().Revision() == before && b.View().Digest() != digest {
					t.Error("the state that was recalled is another one")
				}
				if b.IsLeader() || b.Leader() != "" {
					t.Errorf("it leads: %v, or %q does", b.IsLeader(), b.Leader())
				}
				a = q.start("n-a", nil)
				q.want("one of them leads", func() bool { return a.IsLeader() || b.IsLeader() })
				q.want("both have everything", func() bool {
					return a.View().Revision() == before && b.View().Revision() == before && b.View().Digest() == digest
				})
				mu.Lock()
				defer mu.Unlock()
				for i, e := range told {
					if i > 0 && (e.Revision != told[i-1].Revision+1 || e.Prev != told[i-1].Revision) {
						t.Errorf("entry %d is told as %d after %d: each is applied once", i, e.Revision, e.Prev)
					}
				}
			})
		})
	}
}

// TestMarkOfALongerLog: a log that ends before what was applied was put back from an older copy, and is refused.
func TestMarkOfALongerLog(t *testing.T) {
	quorum(t, func(q *quorumTest) {
		q.start("n-a", nil)
		q.end("n-a")
		var b [12]byte
		binary.BigEndian.PutUint64(b[:], 1<<40)
		binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
		q.must(os.WriteFile(filepath.Join(q.dir, "n-a", markFile), b[:], 0o600))
		if c, err := Open(q.Context(), q.config("n-a")); err == nil || !strings.Contains(err.Error(), "was applied") {
			t.Errorf("opened: %v, %v", c != nil, err)
		}
	})
}

// TestTransfer: leadership goes to the voter that is named, or to one that has the whole log; where there is none it stays.
func TestTransfer(t *testing.T) {
	quorum(t, func(q *quorumTest) {
		ctx, cancel := context.WithTimeout(q.Context(), time.Minute)
		defer cancel()
		a := q.start("n-a", nil)
		if err := a.Transfer(ctx, ""); !errors.Is(err, ErrNobody) {
			t.Errorf("a fleet of one: %v", err)
		}
		b, c := q.voter(a, "n-b"), q.voter(a, "n-c")
		q.start("n-d", seated)
		q.must(a.AddNonvoter(ctx, "n-d"))
		for _, to := range []string{"n-x", "n-d", "n-a"} {
			if err := a.Transfer(ctx, to); !errors.Is(err, ErrNobody) || !a.IsLeader() {
				t.Errorf("to %s: %v, and it leads: %v", to, err, a.IsLeader())
			}
		}
		if err := b.Transfer(ctx, "n-c"); !errors.Is(err, ErrNotLeader) {
			t.Errorf("by a follower: %v", err)
		}
		term := a.Term()
		q.must(a.Transfer(ctx, "n-c"))
		q.want("it leads, and all know it", func() bool {
			return c.IsLeader() && a.Leader() == "n-c" && b.Leader() == "n-c" && !a.IsLeader()
		})
		if c.Term() != term+1 {
			t.Errorf("it leads in term %d after %d: others stood too", c.Term(), term)
		}
		q.must(c.Barrier(ctx))
		_, err := c.Apply(ctx, admit(1))
		q.must(err)
		q.must(c.Transfer(ctx, ""))
		q.want("another one leads", func() bool { return a.IsLeader() || b.IsLeader() })

		// One that is away is told nothing, and the leader leads on.
		lead, other := a, "n-b"
		if b.IsLeader() {
			lead, other = b, "n-a"
		}
		q.must(lead.Barrier(ctx))
		q.end(other)
		if err := lead.Transfer(ctx, other); !errors.Is(err, ErrNobody) || !lead.IsLeader() {
			t.Errorf("to one that is away: %v, and it leads: %v", err, lead.IsLeader())
		}
		_, err = lead.Apply(ctx, admit(2))
		q.must(err)

		// Whoever is asked while an attempt fails waits for its end, and is carried out then: a command, and another attempt.
		away := make(chan error, 1)
		go func() { away <- lead.Transfer(ctx, other) }()
		time.Sleep(10 * time.Millisecond)
		_, err = lead.Apply(ctx, admit(3))
		q.must(err)
		if err := <-away; !errors.Is(err, ErrNobody) {
			t.Errorf("to one that is away, while a command is asked: %v", err)
		}
		go func() { away <- lead.Transfer(ctx, other) }()
		time.Sleep(10 * time.Millisecond)
		q.must(lead.Transfer(ctx, "n-c"))
		if err := <-away; !errors.Is(err, ErrNobody) {
			t.Errorf("to one that is away, while another is asked: %v", err)
		}
		q.want("the one that is there leads", c.IsLeader)
	})
}

// TestSeatsOfALogNotReadYet: an empty seat names nobody, and a closed store says so.
func TestSeatsOfALogNotReadYet(t *testing.T) {
	quorum(t, func(q *quorumTest) {
		seat := q.start("n-b", seated)
		if got := seat.Seats(); got == nil || len(got) != 0 {
			t.Errorf("an empty seat names %v", got)
		}
		if err := seat.Transfer(q.Context(), ""); !errors.Is(err, ErrNotLeader) {
			t.Errorf("an empty seat hands leadership over: %v", err)
		}
		if _, err := seat.fsm.Snapshot(); !errors.Is(err, errCounts) {
			t.Errorf("a seat snapshots what it has not applied: %v", err)
		}
		if out := seat.fsm.Apply(&raft.Log{Index: 7, Type: raft.LogCommand, Data: []byte("junk")}).(applied); out.err != nil || seat.Revision() != 1 {
			t.Errorf("a command that it cannot read: %v, counted %d", out.err, seat.Revision())
		}
	})
}
