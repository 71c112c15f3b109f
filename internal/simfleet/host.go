package simfleet

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
)

// Ports of every machine.
const (
	portFC     = 6674
	portRaft   = 6680
	portAnswer = 40000
)

// host is one machine: what stays when its process ends.
type host struct {
	w       *World
	n       int
	name    string
	addr    netip.Addr
	fc      string // its endpoints
	raft    string
	segment int
	island  int           // machines of one island reach one another
	skew    time.Duration // of its clock
	seeds   []formation.Seed
	chance  chance
	disk    disk
	helper  bool          // it has something to provision others with
	full    bool          // its disk takes nothing
	still   time.Duration // until then its process stands still
	trap    string        // the point at which its process ends next
	proc    *proc         // nil: down
	seen    glance        // what it showed last
}

// disk is what was made durable.
type disk struct {
	minted   bool
	id       string
	key      identity.PrivateKey
	rec      record
	boot     uint64
	log      *logStore    // consensus; nil: none
	follow   *followStore // nil: none
	archived []string     // clusters
	current  configured   // what was provisioned here
	serials  map[[16]byte]bool
}

// record is the formation record.
type record struct {
	own        formation.Own
	rejections []formation.Rejection
	revokedIn  []string
	roster     []byte         // of the approval
	voters     []fleet.Member // whom it named
	admitted   uint64         // the roster's revision
	epoch      uint64         // the roster's
	leaving    bool           // it is on its way out of its fleet
	recovery   uint64         // the recovery epoch that its store is to be built for; 0: none
	order      []byte         // the dissolve order that was obeyed, as it was signed
	putAway    bool           // another epoch was accepted: what it holds is put away first
}

// remembered are the fleet's voters, as seeds.
func (r *record) remembered() []formation.Seed {
	var out []formation.Seed
	for _, m := range r.voters {
		out = append(out, formation.Seed{Endpoint: m.Endpoints.FC, Origin: formation.OriginRemembered})
	}
	return out
}

// followStore is a learner's copy of the state.
type followStore struct {
	cluster string
	view    *fleet.View // nil: no snapshot came yet
	highest uint64      // term that a heartbeat confirmed
}

// configured is what a machine runs under.
type configured struct {
	cluster   string
	digest    string
	confirmed bool
}

func addrOf(segment, n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(segment + 1), byte(n >> 8), byte(n&255) + 1})
}

func (h *host) endpoint(port uint16) string {
	if port == portRaft {
		return h.raft
	}
	return h.fc
}

// wall is what the machine's clock shows.
func (h *host) wall() time.Time { return h.w.time().Add(h.skew) }

// mint makes an identity and a fleet of one, at the first start.
func (h *host) mint() {
	var seed [32]byte
	h.chance.fill(seed[:])
	h.disk = disk{minted: true, key: identity.NewPrivateKey(seed), id: h.newID()}
	h.disk.rec.own = formation.Own{Mode: formation.Solitary, Cluster: h.newID(), Created: founding(h.wall()), NodeID: h.disk.id, Key: h.disk.key.Public()}
}

func (h *host) newID() string {
	var random [16]byte
	h.chance.fill(random[:])
	return identity.NewID(random)
}

// founding is a creation time as a clock gives it; one from before 1970 gives 0.
func founding(wall time.Time) uint64 { return uint64(max(wall.Unix(), 0)) }

// start begins a process, which finishes what an earlier one left.
func (h *host) start() {
	if h.proc != nil {
		return
	}
	if !h.disk.minted {
		h.mint()
	}
	h.disk.boot++
	h.w.say(h, "starts as a %s of %s", h.disk.rec.own.Mode, short(h.disk.rec.own.Cluster))
	p := newProc(h)
	h.proc = p
	p.begin()
}

// kill ends the process: what is not on disk is lost.
func (h *host) kill(why string) {
	p := h.proc
	if p == nil {
		return
	}
	h.proc, h.trap, h.still = nil, "", 0
	h.w.check.StepEnds(h.name)
	h.w.sum.Killed++
	if l := h.disk.log; l != nil { // the mark of what was applied is written without waiting for the disk
		l.mark = max(l.base, l.mark-min(l.mark, uint64(h.chance.IntN(3))))
	}
	if l := h.disk.log; h.w.breaks.LoseTail && l != nil {
		l.entries = l.entries[:max(len(l.entries)-2, min(len(l.entries), 2))]
	}
	h.w.say(h, "%s", why)
	h.w.died(p)
}

// stop is a clean end: a leader has another voter lead first.
func (h *host) stop() {
	p := h.proc
	if p == nil {
		return
	}
	if p.voter != nil {
		p.voter.handOver()
	}
	p.after(300*time.Millisecond, func() { h.kill("stops") })
}

// freeze has the process stand still for a while, as one does whose machine is short of memory or is being moved: what
// reaches it, and what it was to do, waits.
func (h *host) freeze(d time.Duration) {
	if h.proc != nil {
		h.w.say(h, "stands still for %s", d)
		h.still = max(h.still, h.w.now+d)
	}
}

// frozen reports whether the process stands still.
func (h *host) frozen() bool { return h.w.now < h.still }

// awake has f happen once the process does not stand still.
func (h *host) awake(f func()) {
	if h.frozen() {
		h.w.at(h.still, func() { h.awake(f) })
		return
	}
	f()
}

// point is a place at which a process may end: it reports whether it did.
func (p *proc) point(name string) bool {
	if p.h.trap != name {
		return false
	}
	p.h.kill("is killed at " + name)
	return true
}

// write makes something durable after what a disk takes, between two points, and then goes on; a full disk fails.
func (p *proc) write(what string, durable func(), then func(err error)) {
	if p.point(what + ".before") {
		return
	}
	p.after(p.h.chance.between(time.Millisecond, 20*time.Millisecond), func() {
		if p.h.full {
			then(fmt.Errorf("write %s: no space left on device", what))
			return
		}
		durable()
		if p.point(what + ".after") {
			return
		}
		then(nil)
	})
}

// Points are the places at which a machine may be told to end.
var Points = []string{
	"record.before", "record.after", "log.before", "log.after", "follow.before", "follow.after", "closed", "archived", "opened",
	"committed", "answered", "lease.before", "lease.after", "configured.before", "configured.after",
}

// takeStores brings the stores to what the record says, whatever a crash has left of that.
func (d *disk) takeStores(w *World) {
	own := &d.rec.own
	if d.rec.putAway {
		d.log, d.follow, d.rec.putAway = nil, nil, false
		d.archive(own.Cluster)
	}
	if e := d.rec.recovery; e != 0 && (d.log == nil || d.log.epoch != e) {
		d.recovered(w, e)
		d.archive(own.Cluster)
	}
	d.archiveOthers()
}

// archiveOthers puts away every store that is not the record's fleet's, as a start does and every move. Of its own fleet a
// voter keeps what it followed and a learner its seat's store: the term and the vote in it must outlive a demotion.
func (d *disk) archiveOthers() {
	own := &d.rec.own
	if l := d.log; l != nil && l.cluster != own.Cluster {
		d.archive(l.cluster)
		d.log = nil
	}
	if f := d.follow; f != nil && f.cluster != own.Cluster {
		d.archive(f.cluster)
		d.follow = nil
	}
}

// archiveKept is how many archives stay.
const archiveKept = 8

func (d *disk) archive(cluster string) {
	d.archived = append(d.archived, cluster)
	if over := len(d.archived) - archiveKept; over > 0 {
		d.archived = slices.Clone(d.archived[over:])
	}
}

func short(id string) string { return id[:min(len(id), 6)] }
