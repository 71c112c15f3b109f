package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func pub(n int) identity.PublicKey {
	return identity.NewPrivateKey([32]byte{byte(n), byte(n >> 8), 9}).Public()
}

const (
	testCluster = "c0ffee00000000000000000000000001"
	self        = "n-0001"
)

var by = pub(0).String()

func voterID(n int) string { return fmt.Sprintf("v-%d", n) }

// voterOf is the n-th voter of the test fleet.
func founder() fleet.Member {
	return fleet.Member{ID: voterID(0), Key: pub(9000), Role: fleet.RoleVoter, Format: 1, Endpoints: wire.Endpoints{FC: "10.0.0.1:6674", Raft: "10.0.0.1:6680"}}
}

func admit(n int) fleet.Command {
	return fleet.AdmitLearner(fmt.Sprintf("n-%04d", n), pub(n), fmt.Sprintf("pc-%d", n), "linux/amd64", "1.0.0", wire.Endpoints{FC: "10.1.0.1:6674"}, 1, by, 1790000000, false)
}

// voter is one voter of a test: a state, its source, and knobs.
type voter struct {
	t   testing.TB
	id  string
	src *Source

	mu      sync.Mutex
	state   *fleet.State
	log     []Entry
	leader  string
	term    uint64
	silent  time.Duration
	mute    bool // pushes vanish
	refuse  error
	dials   int
	noSince bool
	skew    time.Duration       // of its clock
	edit    func([]byte) []byte // of a push on its way
	streams map[*memStream]bool
	asked   []wire.FollowRequest
}

func newVoter(t testing.TB, id string, state *fleet.State) *voter {
	v := &voter{t: t, id: id, state: state, leader: voterID(0), term: 3, streams: map[*memStream]bool{}}
	v.newSource()
	return v
}

func (v *voter) newSource() {
	src := NewSource(SourceConfig{Cluster: testCluster, State: v.view, Since: v.since,
		Now:    func() time.Time { v.mu.Lock(); defer v.mu.Unlock(); return time.Now().Add(v.skew) },
		Term:   func() uint64 { v.mu.Lock(); defer v.mu.Unlock(); return v.term },
		Leader: func() (string, string) { v.mu.Lock(); defer v.mu.Unlock(); return v.leader, "10.0.0.1:6674" },
		Silent: func() time.Duration { v.mu.Lock(); defer v.mu.Unlock(); return v.silent }})
	v.t.Cleanup(src.Close)
	v.set(func(v *voter) { v.src = src })
}

// restart is the voter's next life, begun from a snapshot of its state.
func (v *voter) restart() {
	v.t.Helper()
	v.cut()
	state, err := fleet.Restore(v.state.Snapshot())
	if err != nil {
		v.t.Fatal(err)
	}
	v.set(func(v *voter) { v.state, v.log = state, nil })
	v.newSource()
}

func (v *voter) set(edit func(*voter)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	edit(v)
}

func (v *voter) view() *fleet.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state.View()
}

func (v *voter) since(_, revision uint64) ([]Entry, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.noSince {
		return nil, false
	}
	for i, e := range v.log {
		if e.Prev == revision {
			out := slices.Clone(v.log[i:])
			for i := range out {
				out[i].View = nil
			}
			return out, true
		}
	}
	return nil, revision == v.state.View().Revision()
}

// apply commits a command and publishes it.
func (v *voter) apply(cmds ...fleet.Command) {
	v.t.Helper()
	for _, c := range cmds {
		v.applyBytes(c.Encode())
	}
}

func (v *voter) applyBytes(b []byte) {
	v.t.Helper()
	v.mu.Lock()
	prev := v.state.View().Revision()
	r, err := v.state.Apply(b)
	if err != nil || r.Err != "" {
		v.mu.Unlock()
		v.t.Fatalf("%s: %v %s", b, err, r.Err)
	}
	e := Entry{Prev: prev, Revision: r.Revision, Command: b, View: v.state.View(), Result: r}
	v.log = append(v.log, e)
	v.mu.Unlock()
	v.source().Publish(e)
}

func (v *voter) source() *Source {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.src
}

// memStream is a Follow on a pipe: Serve on one side, a Stream on the other.
type memStream struct {
	v       *voter
	learner string
	key     identity.PublicKey
	ctx     context.Context
	cancel  context.CancelFunc
	pushes  chan []byte
	end     chan struct{}
	err     error
	served  sync.WaitGroup
}

func (v *voter) dial(ctx context.Context, learner string, key identity.PublicKey) (Stream, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.dials++
	if v.refuse != nil {
		return nil, v.refuse
	}
	st := &memStream{v: v, learner: learner, key: key, pushes: make(chan []byte, 16), end: make(chan struct{})}
	st.ctx, st.cancel = context.WithCancel(context.WithoutCancel(ctx))
	v.streams[st] = true
	return st, nil
}

// cut ends every stream as a broken connection does.
func (v *voter) cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for st := range v.streams {
		st.cancel()
	}
}

func (st *memStream) PeerKey() identity.PublicKey { return st.key }

func (st *memStream) Send(req wire.FollowRequest) error {
	st.v.set(func(v *voter) { v.asked = append(v.asked, req) })
	st.served.Go(func() {
		err := st.v.source().Serve(st.ctx, st.learner, req, func(all ...[]byte) error {
			for _, b := range all {
				if err := st.push(b); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			err = io.EOF
		}
		st.err = err
		close(st.end)
	})
	return nil
}

// push is one push of the voter, edited or left out as the test has it.
func (st *memStream) push(b []byte) error {
	st.v.mu.Lock()
	mute, edit := st.v.mute, st.v.edit
	st.v.mu.Unlock()
	if mute {
		return nil
	}
	if b = slices.Clone(b); edit != nil {
		if b = edit(b); b == nil {
			return nil
		}
	}
	select {
	case st.pushes <- b:
		return nil
	case <-st.ctx.Done():
		return st.ctx.Err()
	}
}

func (st *memStream) Recv() ([]byte, error) {
	select {
	case b := <-st.pushes:
		return b, nil
	default:
	}
	select {
	case b := <-st.pushes:
		return b, nil
	case <-st.end:
		select {
		case b := <-st.pushes:
			return b, nil
		default:
			return nil, st.err
		}
	}
}

func (st *memStream) Close() error {
	st.cancel()
	st.served.Wait()
	st.v.set(func(v *voter) { delete(v.streams, st) })
	return nil
}

func (v *voter) dialled() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.dials
}

func (v *voter) lastAsked() wire.FollowRequest {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[len(v.asked)-1]
}

// told is what the callbacks were told so far.
type told struct {
	newer   int
	epochs  []uint64
	refused []*wire.Error
	forgot  []uint64
}

func (r *rig) told() told {
	r.mu.Lock()
	defer r.mu.Unlock()
	return told{r.newer, slices.Clone(r.epochs), slices.Clone(r.refused), slices.Clone(r.forgot)}
}

// rig is a fleet of voters and one learner.
type rig struct {
	t       testing.TB
	voters  []*voter
	cfg     LearnerConfig
	l       *Learner
	cancel  context.CancelFunc
	result  chan error
	mu      sync.Mutex
	entries []Entry
	forgot  []uint64
	newer   int
	epochs  []uint64
	refused []*wire.Error
}

// newRig founds a fleet of n voters that hold the learner self.
func newRig(t testing.TB, n int) *rig {
	r := &rig{t: t}
	build := func() *fleet.State {
		s := fleet.New()
		run := func(c fleet.Command) {
			if res, err := s.Apply(c.Encode()); err != nil || res.Err != "" {
				t.Fatalf("%s: %v %s", c.Encode(), err, res.Err)
			}
		}
		run(fleet.Found(testCluster, 1790000000, founder()))
		for i := 1; i < n; i++ {
			run(fleet.AdmitLearner(voterID(i), pub(9000+i), "", "", "", wire.Endpoints{FC: fmt.Sprintf("10.0.0.%d:6674", i+1)}, 1, by, 1, false))
			run(fleet.SetRole(voterID(i), fleet.RoleVoter, by, 1))
		}
		run(admit(1))
		return s
	}
	for i := range n {
		r.voters = append(r.voters, newVoter(t, voterID(i), build()))
	}
	seed, err := json.Marshal(r.voters[0].view().Roster(self))
	if err != nil {
		t.Fatal(err)
	}
	r.cfg = LearnerConfig{Dir: t.TempDir(), Cluster: testCluster, Self: self, Key: pub(1), Seed: seed, NoSync: true, Rand: func() float64 { return 0.5 },
		OnApply:       func(e Entry) { r.mu.Lock(); defer r.mu.Unlock(); r.entries = append(r.entries, e) },
		OnForgotten:   func(rev uint64, _ bool) { r.mu.Lock(); defer r.mu.Unlock(); r.forgot = append(r.forgot, rev) },
		OnFormatNewer: func(error) { r.mu.Lock(); defer r.mu.Unlock(); r.newer++ },
		OnOtherEpoch:  func(_ string, e uint64) { r.mu.Lock(); defer r.mu.Unlock(); r.epochs = append(r.epochs, e) },
		OnRefused:     func(_ string, e *wire.Error) { r.mu.Lock(); defer r.mu.Unlock(); r.refused = append(r.refused, e) }}
	return r
}

// applyAll commits on every voter alike.
func (r *rig) applyAll(cmds ...fleet.Command) {
	for _, v := range r.voters {
		v.apply(cmds...)
	}
}

func (r *rig) dial(ctx context.Context, m fleet.Member) (Stream, error) {
	for i, v := range r.voters {
		if v.id == m.ID {
			return v.dial(ctx, self, pub(9000+i))
		}
	}
	return nil, errors.New("no such voter")
}

func (r *rig) start() {
	r.t.Helper()
	var err error
	if r.l, err = OpenLearner(r.cfg); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.cancel, r.result = cancel, make(chan error, 1)
	l := r.l
	go func() { r.result <- l.Run(ctx, r.dial) }()
}

// stop ends the learner and returns what Run said.
func (r *rig) stop() error {
	r.t.Helper()
	r.cancel()
	err := <-r.result
	if cerr := r.l.Close(); cerr != nil {
		r.t.Fatal(cerr)
	}
	return err
}

// until waits for a condition, in a bubble or out of it.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	for range 20000 {
		if cond() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	r.t.Fatalf("%s: not within 100 s; status %+v", what, r.l.Status())
}

// same waits until the learner holds the voter's state.
func (r *rig) same(v *voter) {
	r.t.Helper()
	r.until("the same state", func() bool {
		a, b := v.view(), r.l.View()
		return a.Revision() == b.Revision() && a.Digest() == b.Digest()
	})
}

// checkEntries verifies that what OnApply was told is in order and without a hole.
func (r *rig) checkEntries() {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	at := uint64(0)
	for i, e := range r.entries {
		if e.Prev != at || e.Revision <= e.Prev && e.Command != nil || e.View.Revision() != e.Revision || e.Command != nil && e.Revision != e.Prev+1 {
			r.t.Fatalf("entry %d: %d → %d after %d", i, e.Prev, e.Revision, at)
		}
		at = e.Revision
	}
}

func hasText(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }
