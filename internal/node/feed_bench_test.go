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

// feedFollowers is how many learners follow one voter in the benchmark.
const feedFollowers = 1000

// feedEnv tells the benchmark's second process, the learners', where the voter is: endpoint, key, revision and digest.
const feedEnv = "PACE_BENCH_FOLLOW"

// BenchmarkFeedFollowers1000 measures one commit on its way to 1,000 learners over loopback, each with a key and a TLS
// session of its own: the fleet's log without fsync, then Follow frames over yamux over TLS, until the last learner has
// read and decoded it. The learners are one other process, so that heap and goroutines a session are the voter's alone.
func BenchmarkFeedFollowers1000(b *testing.B) {
	if to := os.Getenv(feedEnv); to != "" {
		if err := followAll(to); err != nil {
			b.Fatal(err)
		}
		return
	}
	n := feeder(b)
	defer n.Stop()
	ctx := b.Context()
	for i := range feedFollowers {
		c := fleet.AdmitLearner(feedID(i), feedKey(i).Public(), fmt.Sprintf("pc-%d", i), version.Platform(), version.Version,
			wire.Endpoints{FC: "10.1.0.1:6674"}, fleet.Format, n.key.Public().String(), time.Now().Unix(), false)
		if _, err := n.propose(ctx, c); err != nil {
			b.Fatal(err)
		}
	}
	heap, routines := settled()

	v := n.View()
	digest := v.Digest()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkFeedFollowers1000$", "-test.benchtime=1x")
	child.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d %x", feedEnv, n.fcEndpoint(), n.key.Public(), v.Revision(), digest))
	child.Stderr = os.Stderr
	in, err := child.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, says, err := os.Pipe()
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	child.ExtraFiles = []*os.File{says}
	if err := child.Start(); err != nil {
		b.Fatal(err)
	}
	says.Close()
	defer func() {
		in.Close() // the learners end
		if err := child.Wait(); err != nil {
			b.Error(err)
		}
	}()
	reached := bufio.NewReader(out)
	next := func(want uint64) {
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
	next(v.Revision())
	for n.body.source.Stats().Followers < feedFollowers {
		runtime.Gosched()
	}
	heapNow, routinesNow := settled()

	var commits time.Duration
	rounds := 0
	for b.Loop() {
		rounds++
		began := time.Now()
		// What one machine says of itself goes to all.
		ans, err := n.propose(ctx, fleet.Announce(feedID(rounds%feedFollowers), wire.Announce{Name: "x", Version: fmt.Sprint(rounds), Format: fleet.Format}))
		if err != nil {
			b.Fatal(err)
		}
		commits += time.Since(began)
		next(ans.Revision)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rounds)/feedFollowers, "ns/push")
	b.ReportMetric(float64(commits.Nanoseconds())/float64(rounds), "ns/propose")
	b.ReportMetric(float64(heapNow-heap)/feedFollowers, "heap-B/session")
	b.ReportMetric(float64(routinesNow-routines)/feedFollowers, "goroutines/session")
}

// feeder is a node over loopback without discovery; its log is not synced, which would measure the disk.
func feeder(b *testing.B) *Node {
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
	if len(words) != 4 {
		return fmt.Errorf("%s=%q: want endpoint, key, revision and digest", feedEnv, to)
	}
	voter, err := identity.ParsePublicKey(words[1])
	if err != nil {
		return err
	}
	var revision uint64
	if _, err := fmt.Sscan(words[2], &revision); err != nil {
		return err
	}
	if _, err := hex.DecodeString(words[3]); err != nil {
		return err
	}
	ask, err := json.Marshal(wire.FollowRequest{Revision: revision, Digest: words[3]})
	if err != nil {
		return err
	}
	says := os.NewFile(3, "revisions")
	defer says.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	go func() { io.Copy(io.Discard, os.Stdin); cancel() }() // the voter's side ends us

	have := make(map[uint64]int)
	var mu sync.Mutex
	arrived := func(rev uint64) {
		mu.Lock()
		defer mu.Unlock()
		if have[rev]++; have[rev] == feedFollowers {
			delete(have, rev)
			binary.Write(says, binary.BigEndian, rev)
		}
	}
	var failed atomic.Pointer[error]
	fail := func(err error) {
		if ctx.Err() == nil && err != nil {
			failed.CompareAndSwap(nil, &err)
			cancel()
		}
	}
	// A voter takes no more handshakes at once than its bounds say.
	turn := make(chan struct{}, 8)
	for i := range feedFollowers {
		all.Go(func() { fail(followOne(ctx, i, words[0], voter, ask, revision, turn, arrived)) })
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
	arrived(revision)
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
			continue
		case kind != wire.PushCommand:
			return errors.New("a snapshot came where commands do")
		}
		c, err := wire.DecodeCommandPush(push)
		if err != nil {
			return err
		}
		arrived(c.Revision)
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
