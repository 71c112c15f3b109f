package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"pace-node/internal/control"
)

// Times and bounds of the streams.
const (
	// pollEvery is how often the documents are asked for while somebody looks; with nobody they are not.
	pollEvery = time.Second
	// beatEvery is how often a stream says that it lives, where nothing changes.
	beatEvery = 5 * time.Second
	// streamsMost is how many there are at once.
	streamsMost = 32
	// streamsReading is how many of them who only reads may have: on loopback that is every account of the machine, and none of
	// them keeps out whoever opened the page for changes.
	streamsReading = 24
	// keptMost and keptBytes bound the changes that are kept for who is slow or comes back: beyond it they get the whole.
	keptMost  = 64
	keptBytes = 2 << 20
	// streamWrite is for an event to be taken.
	streamWrite = 15 * time.Second
)

// live asks for the documents once a second while somebody looks, and gives every stream what changed.
type live struct {
	document func(ctx context.Context, name string) json.RawMessage
	ctx      context.Context
	cancel   context.CancelFunc
	wait     sync.WaitGroup
	poked    chan struct{}

	mu      sync.Mutex
	streams int
	reading int                // of them without a session
	stop    context.CancelFunc // of the poller; nil while there is none
	run     int64              // which poller it is
	tick    int64              // of the last change
	kept    []tick
	bytes   int
	state   []byte        // the whole, as of the last poll; nil before the first
	changed chan struct{} // closed at each change, and replaced
}

// tick is one poll that found something changed.
type tick struct {
	n    int64
	data []byte
}

func newLive(document func(context.Context, string) json.RawMessage) *live {
	// A number that no earlier process used: a page may come back to this one with what it saw of that.
	l := &live{run: time.Now().UnixMilli(), document: document, poked: make(chan struct{}, 1), changed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

func (l *live) close() {
	l.cancel()
	l.wait.Wait()
}

// poke has the documents asked for at once: somebody has just changed something, and looks.
func (l *live) poke() {
	select {
	case l.poked <- struct{}{}:
	default:
	}
}

// enter counts a stream in, and starts the poller with the first. session: who listens has one.
func (l *live) enter(session bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.streams >= streamsMost || !session && l.reading >= streamsReading || l.ctx.Err() != nil {
		return false
	}
	if !session {
		l.reading++
	}
	if l.streams++; l.streams == 1 {
		ctx, cancel := context.WithCancel(l.ctx)
		l.run++
		l.stop, l.state, l.kept, l.bytes = cancel, nil, nil, 0
		run := l.run
		l.wait.Go(func() { l.poll(ctx, run) })
	}
	return true
}

func (l *live) leave(session bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !session {
		l.reading--
	}
	if l.streams--; l.streams == 0 {
		l.stop()
	}
}

// poll asks for the documents until ctx ends.
func (l *live) poll(ctx context.Context, run int64) {
	base := map[string]*sent{}
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		l.once(ctx, run, base)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-l.poked:
		}
	}
}

// event is the data of a "state" and of a "change".
type event struct {
	At   int64    `json:"at"` // this node's clock, Unix milliseconds
	Docs []Change `json:"docs"`
}

func (l *live) once(ctx context.Context, run int64, base map[string]*sent) {
	got := make([]json.RawMessage, len(documents))
	at := make([]int64, len(documents))
	var wait sync.WaitGroup
	for i, kind := range documents {
		wait.Go(func() { got[i], at[i] = l.document(ctx, kind.Name), time.Now().UnixMilli() })
	}
	wait.Wait()
	if ctx.Err() != nil {
		return // what was cut short says nothing
	}
	now := time.Now().UnixMilli()
	all, some := event{At: now}, event{At: now}
	for i, kind := range documents {
		p, err := take(kind, got[i])
		if err != nil {
			continue
		}
		if base[kind.Name] == nil {
			base[kind.Name] = &sent{}
		}
		if c, changed := base[kind.Name].update(kind, p, at[i]); changed {
			some.Docs = append(some.Docs, c)
		}
		all.Docs = append(all.Docs, whole(kind, p))
	}
	state, err := control.Encode(&all)
	if err != nil {
		return
	}
	var change []byte
	if len(some.Docs) > 0 {
		if change, err = control.Encode(&some); err != nil {
			return
		}
	}
	l.publish(run, state, change)
}

// publish makes the whole known, and what changed.
func (l *live) publish(run int64, state, change []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if run != l.run {
		return
	}
	first := l.state == nil
	l.state = state
	if change == nil && !first {
		return
	}
	l.tick++
	if first {
		l.kept, l.bytes = nil, 0 // what came before is the whole
	} else {
		l.kept = append(l.kept, tick{l.tick, change})
		l.bytes += len(change)
		for len(l.kept) > keptMost || l.bytes > keptBytes && len(l.kept) > 1 {
			l.bytes -= len(l.kept[0].data)
			l.kept = l.kept[1:]
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

// since returns the events that a stream which has seen tick n of poller run is to be sent, and what is closed at the next.
// Where they are not all kept any more it is the whole.
func (l *live) since(run, n int64) (name string, events [][]byte, nowRun, nowTick int64, next <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, nowRun, nowTick = l.changed, l.run, l.tick
	switch {
	case l.state == nil:
		return "", nil, run, n, next
	case run == l.run && n == l.tick:
		return "", nil, run, n, next
	case run == l.run && n < l.tick && len(l.kept) > 0 && l.kept[0].n <= n+1:
		for _, t := range l.kept {
			if t.n > n {
				events = append(events, t.data)
			}
		}
		return "change", events, nowRun, nowTick, next
	}
	return "state", [][]byte{l.state}, nowRun, nowTick, next
}

// events is the stream. Its first event is "state", the whole, unless Last-Event-ID says that this page has it; then "change" as
// something changes, and "beat".
func (p *Page) events(w http.ResponseWriter, q *request) {
	l := p.live
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	if q.r.Method == http.MethodHead {
		return
	}
	session := q.read
	if !l.enter(session) {
		h.Set("Retry-After", "10")
		p.refuse(w, "streams", http.StatusServiceUnavailable, "as many pages look at this node as it serves at once", "close one of them")
		return
	}
	defer l.leave(session)
	control.Lasts(q.r.Context())
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Time{})
	run, n := eventID(q.r.Header.Get("Last-Event-ID"))
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	write := func(text string) bool {
		rc.SetWriteDeadline(time.Now().Add(streamWrite))
		if _, err := w.Write([]byte(text)); err != nil {
			return false
		}
		return rc.Flush() == nil
	}
	if !write("retry: 2000\n\n") {
		return
	}
	for {
		name, list, nowRun, nowTick, next := l.since(run, n)
		for i, data := range list {
			id := nowTick - int64(len(list)-1-i)
			if !write(fmt.Sprintf("id: %d-%d\nevent: %s\ndata: %s\n\n", nowRun, id, name, strings.TrimSuffix(string(data), "\n"))) {
				return
			}
		}
		run, n = nowRun, nowTick
		select {
		case <-q.r.Context().Done():
			return
		case <-l.ctx.Done():
			return
		case <-next:
		case <-beat.C:
			if !p.stillReads(q) || !write(fmt.Sprintf("event: beat\ndata: {\"at\":%d}\n\n", time.Now().UnixMilli())) {
				return
			}
		}
	}
}

// stillReads reports whether who opened a stream may still read.
func (p *Page) stillReads(q *request) bool {
	if control.ReachOf(q.r.Context()).Loopback || q.bearer == bearerRight {
		return true
	}
	read, _, _ := p.sessions.look(time.Now(), cookieOf(q.r), "")
	return read
}

// eventID reads what the last event was called.
func eventID(text string) (run, n int64) {
	a, b, ok := strings.Cut(text, "-")
	run, errA := strconv.ParseInt(a, 10, 64)
	n, errB := strconv.ParseInt(b, 10, 64)
	if !ok || errA != nil || errB != nil || run < 0 || n < 0 {
		return 0, 0
	}
	return run, n
}
