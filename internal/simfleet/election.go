package simfleet

import (
	"slices"
	"time"

	"pace-node/internal/fleet"
)

type messageKind uint8

const (
	msgPreVote messageKind = iota + 1
	msgPreVoted
	msgVote
	msgVoted
	msgAppend
	msgAppended
	msgInstall
	msgTimeoutNow
)

// message is one of raft's, between two voters.
type message struct {
	kind         messageKind
	term         uint64
	index        uint64 // last of a candidate; previous of an append; base of an install; matched of an answer
	indexTerm    uint64
	ok           bool
	commit       uint64
	entries      []logEntry
	snapshot     []byte
	seats        []seat
	fromTransfer bool
}

// send carries a message to a seat, where the applied state says that it is.
func (v *voter) send(id string, m message) {
	p := v.p
	to, ok := v.sight(id)
	if !ok {
		return
	}
	h := p.w.hostAt(to.Endpoints.Raft)
	if h == nil || h.disk.key.Public() != to.Key {
		return
	}
	cluster, epoch, answer := v.store.cluster, p.view().Epoch(), m.answers()
	p.w.after(p.w.latency(), func() {
		if !p.w.joined(p.h, h) {
			return
		}
		h.awake(func() { v.arrives(h, cluster, epoch, answer, m) })
	})
}

// arrives is a message at the process that serves there.
func (v *voter) arrives(h *host, cluster string, epoch uint64, answer bool, m message) {
	p, q := v.p, h.proc
	if q == nil {
		return
	}
	u := q.voter
	if u == nil {
		u = q.seat()
	}
	// What is asked is judged; an answer travels on the stream that the question came by.
	if u == nil || u.store.cluster != cluster || q.view().Epoch() != epoch || !answer && !u.serves(p) {
		return
	}
	u.run(func() { u.receive(p.id(), m) })
}

// answers reports whether a message answers another one.
func (m *message) answers() bool {
	return m.kind == msgPreVoted || m.kind == msgVoted || m.kind == msgAppended
}

// serves is the guard of the consensus port: only a voter, as far as this one can see, or whom the log still names, under
// its own key.
func (v *voter) serves(from *proc) bool {
	m, ok := v.sight(from.id())
	seats, _ := v.store.conf()
	_, named := seatOf(seats, from.id())
	return ok && m.Key == from.key() && (m.Role == fleet.RoleVoter || m.Role == fleet.RoleVoterPending || named)
}

// rearm starts the wait after which a voter that hears no leader stands.
func (v *voter) rearm() {
	v.timer++
	gen := v.timer
	v.p.after(v.p.h.chance.between(electionLeast, electionMost), func() {
		if v.live() && v.timer == gen {
			v.run(func() {
				if v.role != roleLeader {
					v.prestand()
				}
				v.rearm()
			})
		}
	})
}

// prestand asks whether an election could be won before a term is used up.
func (v *voter) prestand() {
	seats, _ := v.store.conf()
	if votes, _ := seatOf(seats, v.p.id()); !votes {
		return
	}
	if v.alone() {
		v.stand()
		return
	}
	v.leader, v.role, v.pre, v.votes = "", roleCandidate, true, map[string]bool{v.p.id(): true}
	v.ask(msgPreVote, v.store.term+1, false)
}

func (v *voter) ask(kind messageKind, term uint64, transfer bool) {
	last := v.store.last()
	lastTerm, _ := v.store.termAt(last)
	seats, _ := v.store.conf()
	for _, s := range seats {
		if s.votes && s.id != v.p.id() {
			v.send(s.id, message{kind: kind, term: term, index: last, indexTerm: lastTerm, fromTransfer: transfer})
		}
	}
}

// stand begins an election.
func (v *voter) stand() { v.standAs(false) }

func (v *voter) standAs(transfer bool) {
	v.save(func() { v.store.term, v.store.voted = v.store.term+1, v.p.id() }, func() {
		v.role, v.leader, v.pre, v.votes = roleCandidate, "", false, map[string]bool{v.p.id(): true}
		v.ask(msgVote, v.store.term, transfer)
		v.tally()
	})
}

// tally counts the votes.
func (v *voter) tally() {
	if v.role != roleCandidate || !v.quorum(func(id string) bool { return v.votes[id] }) {
		return
	}
	if v.pre {
		v.stand()
		return
	}
	v.role, v.leader, v.handing = roleLeader, v.p.id(), ""
	v.next, v.match, v.answered = map[string]uint64{}, map[string]uint64{}, map[string]time.Duration{}
	seats, _ := v.store.conf()
	for _, s := range seats {
		v.next[s.id], v.answered[s.id] = v.store.last()+1, v.p.w.now
	}
	v.p.w.check.Leads(v.p.w.now, v.p.h.name, v.store.cluster, v.p.view().Epoch(), v.store.term, v.p.id())
	v.began = v.store.last() + 1
	v.write(logEntry{kind: entryNothing}, nil)
	v.beat()
}

// beat is the leader's heartbeat.
func (v *voter) beat() {
	v.beats++
	gen := v.beats
	var again func()
	again = func() {
		if !v.live() || v.role != roleLeader || v.beats != gen {
			return
		}
		if v.alone() {
			v.p.after(beatEvery, again)
			return
		}
		if !v.quorum(func(id string) bool { return id == v.p.id() || v.p.w.now-v.answered[id] < leaseOfLeader }) {
			v.stepDown(v.store.term)
			return
		}
		v.replicate()
		v.p.after(beatEvery, again)
	}
	v.p.after(beatEvery, again)
}

// stepDown makes a follower of whatever this was.
func (v *voter) stepDown(uint64) {
	was := v.role
	v.role, v.votes = roleFollower, nil
	if v.leader == v.p.id() {
		v.leader = ""
	}
	if was == roleLeader {
		v.heard = v.p.w.now // it was its own
		v.drop(errLost)
		v.p.leadership()
	}
}

// replicate sends every seat what it lacks.
func (v *voter) replicate() {
	if v.role != roleLeader {
		return
	}
	seats, _ := v.store.conf()
	for _, s := range seats {
		if s.id != v.p.id() {
			v.sendEntries(s.id)
		}
	}
	v.parting = slices.DeleteFunc(v.parting, func(x parting) bool { return v.match[x.id] >= x.index || v.p.w.now > x.until })
	for _, x := range v.parting {
		v.sendEntries(x.id)
	}
}

func (v *voter) sendEntries(id string) {
	if v.next[id] == 0 {
		v.next[id], v.answered[id] = v.store.last()+1, v.p.w.now
	}
	prev := v.next[id] - 1
	term, ok := v.store.termAt(prev)
	if !ok {
		s := v.store
		v.send(id, message{kind: msgInstall, term: s.term, index: s.base, indexTerm: s.baseTerm, snapshot: s.snapshot, seats: s.baseConf})
		return
	}
	m := message{kind: msgAppend, term: v.store.term, index: prev, indexTerm: term, commit: v.commit}
	if from := prev - v.store.base; from < uint64(len(v.store.entries)) {
		rest := v.store.entries[from:]
		m.entries = append(m.entries, rest[:min(len(rest), sendAtOnce)]...)
	}
	v.send(id, m)
}

// receive takes a message.
func (v *voter) receive(from string, m message) {
	if m.kind == msgPreVote || m.kind == msgPreVoted {
		v.receivePre(from, m)
		return
	}
	if m.kind == msgVote && !m.fromTransfer && v.leader != "" && v.leader != from && v.p.w.now-v.heard < electionLeast && v.role != roleCandidate {
		return // there is a leader: whoever does not hear it has to wait
	}
	if m.term > v.store.term {
		v.save(func() {
			v.store.term = m.term
			if !v.p.w.breaks.ForgetVotes {
				v.store.voted = ""
			}
		}, func() {
			v.stepDown(m.term)
			v.leader = ""
			v.handle(from, m)
		})
		return
	}
	v.handle(from, m)
}

func (v *voter) receivePre(from string, m message) {
	if m.kind == msgPreVoted {
		if v.role == roleCandidate && v.pre && m.ok && m.term == v.store.term+1 {
			v.votes[from] = true
			v.tally()
		}
		return
	}
	fresh := v.role == roleLeader || v.leader != "" && v.p.w.now-v.heard < electionLeast
	v.send(from, message{kind: msgPreVoted, term: m.term, ok: m.term > v.store.term && !fresh && v.upToDate(m)})
}

// upToDate reports whether a candidate's log holds at least what this one holds.
func (v *voter) upToDate(m message) bool {
	last := v.store.last()
	term, _ := v.store.termAt(last)
	return m.indexTerm > term || m.indexTerm == term && m.index >= last
}

func (v *voter) handle(from string, m message) {
	switch m.kind {
	case msgVote:
		grant := m.term == v.store.term && (v.store.voted == "" || v.store.voted == from || v.p.w.breaks.ForgetVotes) && v.upToDate(m)
		if !grant {
			v.send(from, message{kind: msgVoted, term: v.store.term})
			return
		}
		v.save(func() { v.store.voted = from }, func() {
			v.rearm()
			v.send(from, message{kind: msgVoted, term: v.store.term, ok: true})
		})
	case msgVoted:
		if v.role == roleCandidate && !v.pre && m.ok && m.term == v.store.term {
			v.votes[from] = true
			v.tally()
		}
	case msgAppend:
		v.takeEntries(from, m)
	case msgInstall:
		v.takeSnapshot(from, m)
	case msgAppended:
		v.appended(from, m)
	case msgTimeoutNow:
		if m.term == v.store.term && v.role == roleFollower {
			v.standAs(true)
		}
	}
}

// hearLeader notes that a leader of this term spoke; false: it is of an earlier one.
func (v *voter) hearLeader(from string, m message) bool {
	if m.term < v.store.term {
		v.send(from, message{kind: msgAppended, term: v.store.term})
		return false
	}
	if v.role != roleFollower {
		v.stepDown(m.term)
	}
	if v.leader != from {
		v.leader = from
		v.p.leadership()
	}
	v.heard = v.p.w.now
	v.rearm()
	return true
}

func (v *voter) takeEntries(from string, m message) {
	if !v.hearLeader(from, m) {
		return
	}
	if m.index < v.store.base { // what a snapshot holds is committed, and so the same everywhere
		v.send(from, message{kind: msgAppended, term: v.store.term, index: v.store.base, ok: true})
		return
	}
	if term, ok := v.store.termAt(m.index); !ok || term != m.indexTerm {
		v.send(from, message{kind: msgAppended, term: v.store.term, index: min(m.index, v.store.last()+1)})
		return
	}
	// What is there already, under the same term, stays; the first that differs goes with all after it.
	at, rest := m.index, m.entries
	for len(rest) > 0 {
		t, ok := v.store.termAt(at + 1)
		if !ok || t != rest[0].term {
			break
		}
		at, rest = at+1, rest[1:]
	}
	matched := m.index + uint64(len(m.entries))
	end := func() {
		v.send(from, message{kind: msgAppended, term: v.store.term, index: matched, ok: true})
		if c := min(m.commit, matched); c > v.commit {
			v.commit = c
			v.apply()
		}
	}
	if len(rest) == 0 {
		end()
		return
	}
	v.save(func() {
		v.store.entries = append(v.store.entries[:at-v.store.base:at-v.store.base], rest...)
	}, end)
}

func (v *voter) takeSnapshot(from string, m message) {
	if !v.hearLeader(from, m) {
		return
	}
	if m.index <= v.commit {
		v.send(from, message{kind: msgAppended, term: v.store.term, index: v.commit, ok: true})
		return
	}
	v.save(func() {
		s := v.store
		s.base, s.baseTerm, s.baseConf, s.snapshot, s.entries, s.mark = m.index, m.indexTerm, m.seats, m.snapshot, nil, m.index
	}, func() {
		v.commit, v.applied, v.ring = m.index, m.index, nil
		if m.snapshot != nil {
			state, err := fleet.Restore(m.snapshot)
			if err != nil {
				v.p.w.fail(v.p.h, "a snapshot that was sent does not read: %v", err)
				return
			}
			v.counted = state.View().Revision()
			if !v.seat {
				v.state = state
			}
		}
		v.send(from, message{kind: msgAppended, term: v.store.term, index: m.index, ok: true})
		if v.seat {
			return
		}
		v.p.w.look(v.p.h)
		v.feed()
		v.p.viewChanged()
		if v.live() {
			v.ownRole()
		}
	})
}

// appended is a seat's answer to what it was sent.
func (v *voter) appended(from string, m message) {
	if v.role != roleLeader || m.term != v.store.term {
		return
	}
	v.answered[from] = v.p.w.now
	if !m.ok {
		v.next[from] = max(1, min(m.index, v.next[from]-1))
		v.sendEntries(from)
		return
	}
	if m.index > v.match[from] {
		v.match[from] = m.index
	}
	v.next[from] = max(v.next[from], v.match[from]+1)
	v.advance()
	if v.live() && v.role == roleLeader && v.next[from] <= v.store.last() {
		v.sendEntries(from)
	}
}
