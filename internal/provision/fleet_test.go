package provision

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/identity"
	"pace-node/internal/queue"
	"pace-node/internal/target"
	"pace-node/internal/wire"
)

const (
	testCluster = "0123456789abcdef0123456789abcdef"
	trivial     = `{"configuration":{"role":"web"}}`
)

// machine is a target in memory.
type machine struct {
	id        string
	key       identity.PrivateKey
	boot      uint64
	sequence  uint64
	wants     bool
	why       string
	answersAs string        // "": its own id
	session   bool          // it has one
	silent    bool          // it never answers
	latency   time.Duration // of each answer
	mute      bool          // it never announces
	digest    string
	component string
	fail      map[string]func(n int) error // by step; n counts from 1
	refuse    map[string]wire.WorkAnswer
	asked     map[string]int
	log       []string
	shutdown  bool
	version   string // "": 1.0
	csr       *wire.WorkAnswer
	cannot    string // why it cannot be upgraded; "": it can
	upgrade   wire.UpgradeBody
	body      wire.ConfigureBody
	working   int
	busyUntil time.Time // a step that another leader began runs until then: every other one is refused
	standing  Standing
}

// fakeFleet is a leader's surroundings: machines, an event loop, leases and the recorded state.
type fakeFleet struct {
	t    *testing.T
	loop chan func()
	done chan struct{}
	end  sync.WaitGroup
	p    *Provisioner
	q    *queue.Queue

	mu         sync.Mutex
	machines   map[string]*machine
	records    map[string]fleet.Provision
	commits    int
	commitErr  error
	leases     map[string]bool // given, by their bytes; false once used
	lease      uint64
	leaseErr   error
	conditions map[string]string
	handOvers  int
	means      error // why it could not provision, as last looked at
	deposed    bool  // no step may begin
	atOnce     int
	mostAtOnce int
	calls      map[string]int
	provAt     map[string]time.Duration
	begun      time.Time
}

func newFleet(t *testing.T, cfg Config) *fakeFleet {
	t.Helper()
	return newFleetWith(t, cfg, nil)
}

func newFleetWith(t *testing.T, cfg Config, mend func(*Deps)) *fakeFleet {
	t.Helper()
	f := &fakeFleet{t: t, loop: make(chan func(), 4096), done: make(chan struct{}), machines: map[string]*machine{},
		records: map[string]fleet.Provision{}, leases: map[string]bool{}, conditions: map[string]string{}, calls: map[string]int{},
		provAt: map[string]time.Duration{}, begun: time.Now()}
	f.end.Go(func() {
		for {
			select {
			case g := <-f.loop:
				g()
			case <-f.done:
				return
			}
		}
	})
	capacity := cfg.QueueCap
	if capacity == 0 {
		capacity = 1000
	}
	f.q = queue.New(queue.Config{Interval: max(cfg.Interval, time.Minute), Capacity: capacity})
	deps := Deps{
		Post: func(g func(time.Time)) {
			select {
			case f.loop <- func() { g(time.Now()) }:
			case <-f.done:
			}
		},
		Queue: f.q, Members: f.members, Call: f.call, Lease: f.giveLease, Record: f.record,
		Commit: func(ctx context.Context, id string, p fleet.Provision, done func(error)) { done(f.commit(ctx, id, p)) },
		Info: func(id string) HelperContext {
			return HelperContext{Name: "host-" + id, Platform: "linux/amd64", Labels: map[string]string{"rack": "r1"}, Cluster: testCluster, Key: f.get(id).key.Public()}
		},
		Cluster: func() string { return testCluster },
		MemberKey: func(id string) (identity.PublicKey, Standing) {
			m := f.get(id)
			if m == nil {
				return identity.PublicKey{}, StandingUnknown
			}
			return m.key.Public(), m.standing
		},
		Raise: func(c, detail string) { f.mu.Lock(); f.conditions[c] = detail; f.mu.Unlock() },
		Clear: func(c string) { f.mu.Lock(); delete(f.conditions, c); f.mu.Unlock() },
		Means: func(err error) { f.mu.Lock(); f.means = err; f.mu.Unlock() },
		HandOver: func(string) {
			f.mu.Lock()
			f.handOvers++
			f.mu.Unlock()
		},
	}
	if mend != nil {
		mend(&deps)
	}
	p, err := Start(context.Background(), cfg, deps)
	if err != nil {
		t.Fatal(err)
	}
	f.p = p
	return f
}

// close stops everything and checks that nothing works on.
func (f *fakeFleet) close() {
	f.p.Stop(context.Background())
	close(f.done)
	f.end.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, m := range f.machines {
		if m.working != 0 {
			f.t.Errorf("%s is still being worked after Stop", id)
		}
	}
}

func (f *fakeFleet) add(id string, change ...func(*machine)) *machine {
	seed := sha256.Sum256([]byte(id))
	m := &machine{id: id, key: identity.NewPrivateKey(seed), boot: 1, wants: true, session: true, component: DefaultComponent,
		fail: map[string]func(int) error{}, refuse: map[string]wire.WorkAnswer{}, asked: map[string]int{}, standing: StandingMember}
	for _, c := range change {
		c(m)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.machines[id] = m
	return m
}

func (f *fakeFleet) get(id string) *machine {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.machines[id]
}

// with changes a machine under the lock.
func (f *fakeFleet) with(id string, g func(m *machine)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g(f.machines[id])
}

func (f *fakeFleet) members() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, id := range slices.Sorted(maps.Keys(f.machines)) {
		if f.machines[id].session {
			out = append(out, id)
		}
	}
	return out
}

func (f *fakeFleet) giveLease(id, step string, body []byte) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.leaseErr != nil {
		return nil, f.leaseErr
	}
	f.lease++
	sum := sha256.Sum256(body)
	l := fmt.Sprintf("%d %s %s %x", f.lease, id, step, sum)
	f.leases[l] = true
	return []byte(l), nil
}

func (f *fakeFleet) record(id string, p fleet.Provision) {
	s := fleet.New() // what the state would refuse is a fault of ours
	if _, err := s.Apply(fleet.ProvisionUpdate(id, p).Encode()); err != nil {
		f.t.Errorf("record of %s: %v", id, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.records[id] = p
	if m := f.machines[id]; m != nil && p.Stage == "confirm" && p.LastSuccess > 0 && p.ConfigDigest == m.digest {
		m.wants = false
		f.provAt[id] = time.Since(f.begun)
	}
}

func (f *fakeFleet) commit(ctx context.Context, id string, p fleet.Provision) error {
	f.mu.Lock()
	err := f.commitErr
	f.commits++
	f.mu.Unlock()
	if err != nil {
		return err
	}
	f.record(id, p)
	return ctx.Err()
}

func bootID(boot uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], boot)
	b[15] = byte(boot)
	return hex.EncodeToString(b[:])
}

func into2(reply, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return json.Unmarshal(b, reply)
}

// call is one request to a machine.
func (f *fakeFleet) call(ctx context.Context, id string, verb wire.Verb, payload, reply any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	m := f.machines[id]
	if m == nil || !m.session {
		f.mu.Unlock()
		return ErrUnreachable
	}
	step := "query"
	var req wire.WorkRequest
	if verb == wire.VerbWork {
		req = payload.(wire.WorkRequest)
		step = req.Step
	}
	m.asked[step]++
	f.calls[step]++
	n, latency, silent := m.asked[step], m.latency, m.silent
	f.atOnce++
	f.mostAtOnce = max(f.mostAtOnce, f.atOnce)
	if step != "query" {
		if f.deposed && ctx.Err() == nil { // a call may be between its first look at ctx and here while leadership goes
			f.t.Errorf("%s of %s was begun without leadership", step, id)
		}
		m.working++
		m.log = append(m.log, step)
		if m.working > 1 {
			f.t.Errorf("%s is worked by two at once", id)
		}
	}
	fails := m.fail[step]
	if step != "query" && time.Now().Before(m.busyUntil) {
		fails = func(int) error { return wire.NewError(wire.CodeBusy, target.BusyText, "") }
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.atOnce--
		if step != "query" {
			m.working--
		}
		f.mu.Unlock()
	}()
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	if latency > 0 {
		select {
		case <-time.After(latency):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if fails != nil {
		if err := fails(n); errors.Is(err, errHang) {
			<-ctx.Done()
			return ctx.Err()
		} else if err != nil {
			return err
		}
	}
	if verb == wire.VerbQuery {
		f.mu.Lock()
		defer f.mu.Unlock()
		a := wire.QueryAnswer{ID: id, Wants: m.wants, Why: m.why, Component: m.component, BootID: bootID(m.boot), ConfigDigest: m.digest, Busy: time.Now().Before(m.busyUntil)}
		if m.answersAs != "" {
			a.ID = m.answersAs
		}
		return into2(reply, a)
	}
	answer, err := f.step(m, req)
	if err != nil {
		return err
	}
	return into2(reply, answer)
}

var errHang = errors.New("hang")

func (f *fakeFleet) step(m *machine, req wire.WorkRequest) (wire.WorkAnswer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if req.Step != "inventory" {
		sum := sha256.Sum256(req.Body)
		l := string(req.Lease)
		if !f.leases[l] {
			return wire.WorkAnswer{}, wire.NewError(wire.CodeLeaseRefused, "replayed", "")
		}
		f.leases[l] = false
		var serial uint64
		if want := fmt.Sprintf("%s %s %x", m.id, req.Step, sum); l[len(l)-len(want):] != want {
			return wire.WorkAnswer{}, wire.NewError(wire.CodeLeaseRefused, fmt.Sprint("digest ", serial), "")
		}
	}
	var again wire.UpgradeBody
	if a, ok := m.refuse[req.Step]; ok && (json.Unmarshal(req.Body, &again) != nil || !again.Again) {
		return a, nil
	}
	switch req.Step {
	case "inventory":
		facts := map[string]any{"hostname": "h"}
		if m.cannot != "" {
			facts[wire.FactNotUpgradable] = m.cannot
		}
		b, _ := json.Marshal(wire.Inventory{Agents: []string{}, Facts: facts, Version: cmp.Or(m.version, "1.0"), Upgradable: m.cannot == ""})
		return wire.WorkAnswer{OK: true, Body: b}, nil
	case "csr":
		return *m.csr, nil
	case "upgrade": // it comes back under its next boot id
		if err := json.Unmarshal(req.Body, &m.upgrade); err != nil {
			return wire.WorkAnswer{Error: err.Error()}, nil
		}
		m.version, m.boot = m.upgrade.Version, m.boot+1
		b, _ := json.Marshal(wire.UpgradeAnswer{Version: m.version})
		return wire.WorkAnswer{OK: true, Body: b}, nil
	case "shutdown":
		m.shutdown, m.session = true, false
		return wire.WorkAnswer{OK: true}, nil
	case "configure":
		if err := json.Unmarshal(req.Body, &m.body); err != nil {
			return wire.WorkAnswer{Error: err.Error()}, nil
		}
		sum := sha256.Sum256(req.Body)
		m.digest = hex.EncodeToString(sum[:])
		b, _ := json.Marshal(wire.ConfigureAnswer{Digest: m.digest})
		return wire.WorkAnswer{OK: true, Body: b}, nil
	case "restart":
		m.component = ComponentServer
		if !m.mute {
			a := wire.Announce{Component: m.component, BootID: bootID(m.boot), ConfigDigest: m.digest, Wants: m.wants, WantsWhy: m.why}
			go f.p.Announce(m.id, a)
		}
		return wire.WorkAnswer{OK: true}, nil
	}
	return wire.WorkAnswer{Error: "no such step"}, nil
}

// event is a machine's signed startup event.
func (f *fakeFleet) event(id string, change ...func(*wire.StartupEvent)) wire.StartupEvent {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.machines[id]
	m.sequence++
	e := wire.StartupEvent{Cluster: testCluster, Node: id, Component: DefaultComponent, Sequence: m.sequence, Version: "1.0"}
	raw, _ := hex.DecodeString(bootID(m.boot))
	copy(e.BootID[:], raw)
	for _, c := range change {
		c(&e)
	}
	e.Signature = m.key.Sign(e.Message())
	return e
}

// send puts an event in and waits for its answer.
func (f *fakeFleet) send(e wire.StartupEvent) wire.StartupEventAnswer {
	f.t.Helper()
	got := make(chan wire.StartupEventAnswer, 1)
	f.p.Event(e, func(a wire.StartupEventAnswer) { got <- a })
	return <-got
}

// sync runs g on the loop and waits.
func (f *fakeFleet) sync(g func(now time.Time)) {
	f.t.Helper()
	if err := f.p.ask(context.Background(), g); err != nil {
		f.t.Fatal(err)
	}
}

// value is one series.
func (f *fakeFleet) value(metric, label string) float64 {
	f.t.Helper()
	var v float64
	found := false
	f.sync(func(now time.Time) {
		for _, s := range f.p.Samples(now) {
			if s.Metric == "pace_provision_"+metric && s.Value == label {
				v, found = s.V, true
				if s.Kind == KindHistogram {
					v = float64(s.Count)
				}
			}
		}
	})
	if !found {
		f.t.Fatalf("there is no series %s{%s}", metric, label)
	}
	return v
}

func (f *fakeFleet) want(metric, label string, want float64) {
	f.t.Helper()
	if got := f.value(metric, label); got != want {
		f.t.Errorf("%s{%s} is %g, want %g", metric, label, got, want)
	}
}

func (f *fakeFleet) state(id string) queue.Entry {
	f.t.Helper()
	e, _, err := f.p.Show(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	return e
}

// provisioned waits until so many machines are, and fails after limit.
func (f *fakeFleet) provisioned(n int, limit time.Duration) {
	f.t.Helper()
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		f.mu.Lock()
		got := len(f.provAt)
		f.mu.Unlock()
		if got >= n {
			// The state holds it, and the queue is told by what the loop does after what it does now.
			for range 2 {
				f.sync(func(time.Time) {})
			}
			return
		}
		if time.Since(begun) > limit {
			f.t.Fatalf("%d of %d provisioned after %s", got, n, limit)
		}
	}
}
