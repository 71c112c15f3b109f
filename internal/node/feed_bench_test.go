package node

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/version"
	"pace-node/internal/wire"
)

// feedEnv tells the benchmark's second process, the learners', how many they are and where the voter is: endpoint, key,
// revision and digest.
const feedEnv = "PACE_BENCH_FOLLOW"

// feed is one voter and its learners over loopback, each with a key and a TLS session of its own: the fleet's log without
// fsync, then Follow frames over yamux over TLS. The learners are one other process, so that heap, goroutines and processor
// time are the voter's alone.
type feed struct {
	b         *testing.B
	n         *Node
	count     int
	next      func(revision uint64) // waits until the last learner has read and decoded it
	heap      int64                 // of all learners at the voter, with stacks; bytes
	goroutine int
}

// startFeed opens every session. Each learner fetches the whole state first where snapshot is set, as one that joins does.
func startFeed(b *testing.B, count int, snapshot bool) *feed {
	f := &feed{b: b, count: count, n: feeder(b)}
	b.Cleanup(f.n.Stop)
	ctx := b.Context()
	for i := range count {
		if _, err := f.n.propose(ctx, feedAdmit(f.n, i)); err != nil {
			b.Fatal(err)
		}
	}
	heap, routines := settled()

	v := f.n.View()
	digest := v.Digest()
	revision := v.Revision()
	if snapshot {
		revision = 0
	}
	child := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkFeedFollowers1000$", "-test.benchtime=1x")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %d %x", feedEnv, count, f.n.fcEndpoint(), f.n.key.Public(), revision, digest))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, says, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	child.ExtraFiles = []*os.File{says}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	says.Close()
	b.Cleanup(func() {
		in.Close() // the learners end
		if err := child.Wait(); err != nil {
			b.Error(err)
		}
		out.Close()
	})
	reached := bufio.NewReader(out)
	f.next = func(want uint64) {
		for {
			var rev uint64
			if err := binary.Read(reached, binary.BigEndian, &rev); err != nil {
				b.Fatalf("the learners' process ended: %v", err)
			}
			if rev >= want {
				return
			}
		}
	}
	f.next(v.Revision())
	for f.n.body.source.Stats().Followers < count {
		runtime.Gosched()
	}
	heapNow, routinesNow := settled()
	f.heap, f.goroutine = heapNow-heap, routinesNow-routines
	return f
}

// commit has one machine say something of itself, which goes to all, and returns how long that took to be committed here
// and to be with the last learner.
func (f *feed) commit(round int) (proposed, all time.Duration) {
	began := time.Now()
	ans, err := f.n.propose(f.b.Context(), fleet.Announce(feedID(round%f.count), wire.Announce{Name: "x", Version: fmt.Sprint(round), Format: fleet.Format}))
	if err != nil {
		f.b.Fatal(err)
	}
	proposed = time.Since(began)
	f.next(ans.Revision)
	return proposed, time.Since(began)
}

// BenchmarkFeedFollowers1000 measures one commit on its way to 1,000 learners.
func BenchmarkFeedFollowers1000(b *testing.B) {
	if to := os.Getenv(feedEnv); to != "" {
		if err := followAll(to); err != nil {
			b.Fatal(err)
		}
		return
	}
	const learners = 1000
	f := startFeed(b, learners, true)
	var commits time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		proposed, _ := f.commit(rounds)
		commits += proposed
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds)/learners, "ns/push")
	b.ReportMetric(float64(commits.Nanoseconds())/float64(rounds), "ns/propose")
	b.ReportMetric(float64(f.heap)/learners, "heap-B/session")
	b.ReportMetric(float64(f.goroutine)/learners, "goroutines/session")
}

// feeder is a node over loopback without discovery; its log is not synced, which would measure the disk.
func feeder(b testing.TB) *Node {
	dir := b.TempDir()
	s := settings(filepath.Join(dir, "voter"), "voter")
	s.Listen, s.ListenRaft, s.Discovery, s.DiscoveryLoopback = "127.0.0.1:0", "127.0.0.1:0", "", true
	s.Provision.Mode = "never"
	n, err := Start(Config{Settings: s, Network: SystemNetwork{Loopback: true}, Entropy: func(p []byte) { rand.Read(p) }, Random: mathrand.Float64,
		Facts: func() map[string]any { return map[string]any{} }, NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// feedAdmit admits the i-th learner.
func feedAdmit(n *Node, i int) fleet.Command {
	return fleet.AdmitLearner(feedID(i), feedKey(i).Public(), fmt.Sprintf("pc-%d", i), version.Platform(), version.Version,
		wire.Endpoints{FC: "10.1.0.1:6674"}, fleet.Format, n.key.Public().String(), time.Now().Unix(), false)
}

func feedID(i int) string { return fmt.Sprintf("f-%04d", i) }

func feedKey(i int) identity.PrivateKey {
	return identity.NewPrivateKey([32]byte{1: byte(i >> 8), 2: byte(i), 3: 77})
}

// settled is the heap with the stacks, bytes, and the goroutines, after a collection.
func settled() (heap int64, routines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// followAll is the learners' process: it opens every session, and writes to descriptor 3 each revision that all have.
func followAll(to string) error {
	words := strings.Fields(to)
	if len(words) != 5 {
		return fmt.Errorf("%s=%q: want how many, endpoint, key, revision and digest", feedEnv, to)
	}
	var count int
	var revision uint64
	if _, err := fmt.Sscan(words[0]+" "+words[3], &count, &revision); err != nil {
		return err
	}
	voter, err := identity.ParsePublicKey(words[2])
	if err != nil {
		return err
	}
	if _, err := hex.DecodeString(words[4]); err != nil {
		return err
	}
	ask, err := json.Marshal(wire.FollowRequest{Revision: revision, Digest: words[4]})
	if err != nil {
		return err
	}
	says := os.NewFile(3, "revisions")
	defer says.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() { io.Copy(io.Discard, os.Stdin); cancel() }() // the voter's side ends us

	have := make(map[uint64]int)
	var mu sync.Mutex
	arrived := func(rev uint64) {
		mu.Lock()
		defer mu.Unlock()
		if have[rev]++; have[rev] == count {
			delete(have, rev)
			binary.Write(says, binary.BigEndian, rev)
		}
	}
	return followTogether(ctx, cancel, count, words[1], voter, ask, revision, arrived)
}

// followTogether runs learners until ctx ends, or until one fails, which cancels ctx and is the error.
func followTogether(ctx context.Context, cancel func(), count int, endpoint string, voter identity.PublicKey, ask []byte, revision uint64, arrived func(uint64)) error {
	var all sync.WaitGroup
	var failed atomic.Pointer[error]
	// A voter takes no more handshakes at once than its bounds say.
	turn := make(chan struct{}, 8)
	for i := range count {
		all.Go(func() {
			if err := followOne(ctx, i, endpoint, voter, ask, revision, turn, arrived); err != nil && ctx.Err() == nil {
				failed.CompareAndSwap(nil, &err)
				cancel()
			}
		})
	}
	all.Wait()
	if p := failed.Load(); p != nil {
		return *p
	}
	return nil
}

// followOne is one learner.
func followOne(ctx context.Context, i int, endpoint string, voter identity.PublicKey, ask []byte, revision uint64, turn chan struct{}, arrived func(uint64)) error {
	hub := netio.NewHub(netio.HubConfig{Key: feedKey(i), Handler: feedHandler{}, Loopback: true,
		Admission: netio.AdmissionFacts{Known: func(identity.PublicKey) bool { return true }, Member: func(identity.PublicKey) bool { return true }}})
	defer hub.Close()
	turn <- struct{}{}
	next, stop, err := followOpen(ctx, hub, i, endpoint, voter, ask)
	<-turn
	if err != nil {
		return fmt.Errorf("learner %d: %w", i, err)
	}
	defer stop()
	if revision > 0 {
		arrived(revision)
	}
	for {
		push, err := next()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("learner %d: %w", i, err)
		}
		kind, err := wire.ReadPushKind(push)
		switch {
		case err != nil:
			return err
		case kind == wire.PushHeartbeat:
		case kind == wire.PushSnapshot && revision == 0:
			c, err := wire.DecodeSnapshotChunk(push)
			if err != nil {
				return err
			}
			if c.Index+1 == c.Count {
				arrived(c.Revision)
			}
		case kind == wire.PushSnapshot:
			return errors.New("a snapshot came where commands do")
		default:
			c, err := wire.DecodeCommandPush(push)
			if err != nil {
				return err
			}
			arrived(c.Revision)
		}
	}
}

func followOpen(ctx context.Context, hub *netio.Hub, i int, endpoint string, voter identity.PublicKey, ask []byte) (func() ([]byte, error), func(), error) {
	s, err := hub.Dial(ctx, endpoint, &voter)
	if err != nil {
		return nil, nil, err
	}
	hello, err := json.Marshal(wire.Hello{ID: feedID(i), Name: "x", Platform: version.Platform(), Version: version.Version, Wire: []int{wire.ProtocolVersion}, Format: fleet.Format})
	if err != nil {
		return nil, nil, err
	}
	if _, err := netio.Call(ctx, s, wire.VerbHello, hello); err != nil {
		return nil, nil, err
	}
	_, next, stop, err := netio.Subscribe(ctx, s, wire.VerbFollow, ask)
	return next, stop, err
}

// feedHandler is a learner that is asked for nothing.
type feedHandler struct{}

// ServeStream implements netio.Handler.
func (feedHandler) ServeStream(context.Context, *netio.Session, net.Conn) {}

// SessionOpened implements netio.Handler.
func (feedHandler) SessionOpened(*netio.Session) {}

// SessionClosed implements netio.Handler.
func (feedHandler) SessionClosed(*netio.Session, error) {}
