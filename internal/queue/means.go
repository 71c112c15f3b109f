package queue

import (
	"slices"
	"time"
)

// HandBackAfter is for how long a leader that cannot provision does not hand back to whoever led before it: that one may have
// stepped down to be demoted, to be forgotten or to leave, and whoever asked for that finds its leader within this time.
const HandBackAfter = 15 * time.Second

// Means is what one voter knows of who could provision machines, were it to lead: a leader that cannot hands leadership to one
// that can. The zero value knows nobody.
type Means struct {
	others map[string]bool // by id: what the other members announced
	last   string          // who led last, as far as it was heard
	from   string          // who led before this one, which leads
	gained time.Time       // since when it does
}

// Led notes who leads now; led is "" while nobody is known, own is this voter's id.
func (m *Means) Led(now time.Time, led, own string) {
	if led == "" || led == m.last {
		return
	}
	if led == own {
		m.from, m.gained = m.last, now
	}
	m.last = led
}

// Heard keeps what another member announced, and reports whether that is news.
func (m *Means) Heard(id string, provisions bool) bool {
	if m.others[id] == provisions {
		return false
	}
	if m.others == nil {
		m.others = map[string]bool{}
	}
	m.others[id] = provisions
	return true
}

// Gone forgets a member that is none any more.
func (m *Means) Gone(id string) { delete(m.others, id) }

// Clear forgets every member: this voter is in another fleet.
func (m *Means) Clear() { clear(m.others) }

// Able are those of some voters that announced that they could provision, in their order.
func (m *Means) Able(voters []string) []string {
	return slices.DeleteFunc(slices.Clone(voters), func(id string) bool { return !m.others[id] })
}

// HandTo are those of the able voters to whom a leader that cannot provision hands leadership, the first that takes it; none
// means that it keeps it, with its queue paused.
func (m *Means) HandTo(now time.Time, able []string) []string {
	if now.Sub(m.gained) >= HandBackAfter {
		return able
	}
	return slices.DeleteFunc(slices.Clone(able), func(id string) bool { return id == m.from })
}
