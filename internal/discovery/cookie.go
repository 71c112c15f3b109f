package discovery

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"sort"
	"time"

	"pace-node/internal/wire"
)

// A challenge's nonce is a serial and the first bytes of an HMAC.
const (
	cookieSerialSize = 8
	cookieMACSize    = 24
	epochKeySize     = 32
	// cookieSlot is the resolution at which the time of a challenge is kept: 150
	// numbers an epoch in place of one a cookie. A cookie lives at most this
	// much less than its life.
	cookieSlot = 100 * time.Millisecond
)

// cookieState is the two bits kept of a cookie.
type cookieState uint8

const (
	cookieUnanswered cookieState = iota
	cookieForgedOnce
	cookieExhausted
	cookieSpent
)

// afterForgery is what a failed signature makes of a cookie: two of them exhaust
// it, none spends it.
var afterForgery = [...]cookieState{
	cookieUnanswered: cookieForgedOnce,
	cookieForgedOnce: cookieExhausted,
	cookieExhausted:  cookieExhausted,
	cookieSpent:      cookieSpent,
}

// keyedHash is what this package uses of an HMAC.
type keyedHash interface {
	Write([]byte) (int, error)
	Sum([]byte) []byte
	Reset()
}

// epoch is the cookies of one key.
type epoch struct {
	mac    keyedHash // nil: no epoch
	start  time.Time
	base   uint64   // serial of the first cookie
	issued int      // cookies issued
	slots  []uint32 // slots[i] = cookies issued before start + i*cookieSlot
	states []byte   // four cookies a byte
}

// cookies issues challenges and knows which it issued without a table of them.
// Its memory is two epochs of two bits a cookie.
type cookies struct {
	entropy       func([]byte)
	next          uint64
	current, past epoch
}

// target is what a cookie binds.
type target struct {
	challenger                  string // own cluster
	cluster, node, raftEndpoint string // of the beacon, and then of the proof
	host                        netip.Addr
}

func (t *target) fields(serial uint64) []byte {
	return wire.CookieFields(serial, t.challenger, t.cluster, t.node, t.raftEndpoint, t.host.String())
}

func (e *epoch) sum(serial uint64, t *target) (mac [cookieMACSize]byte) {
	var whole [sha256.Size]byte
	e.mac.Reset()
	e.mac.Write(t.fields(serial))
	copy(mac[:], e.mac.Sum(whole[:0]))
	return mac
}

// issue returns the nonce of the next challenge.
func (c *cookies) issue(now time.Time, t *target) (nonce [32]byte) {
	e := &c.current
	if e.mac == nil || now.Sub(e.start) >= boundEpochAge.duration() || e.issued >= boundEpochCookies.count() {
		c.rotate(now)
	}
	serial := c.next
	c.next++
	for slot := int(now.Sub(e.start) / cookieSlot); len(e.slots) <= slot; {
		e.slots = append(e.slots, uint32(e.issued))
	}
	if e.issued%4 == 0 {
		e.states = append(e.states, 0)
	}
	e.issued++
	mac := e.sum(serial, t)
	binary.BigEndian.PutUint64(nonce[:], serial)
	copy(nonce[cookieSerialSize:], mac[:])
	return nonce
}

// rotate makes a new epoch and keeps the one before; the third's memory is used
// again.
func (c *cookies) rotate(now time.Time) {
	var key [epochKeySize]byte
	c.entropy(key[:])
	old := c.past
	c.past = c.current
	c.current = epoch{
		mac: hmac.New(sha256.New, key[:]), start: now, base: c.next,
		slots: old.slots[:0], states: old.states[:0],
	}
}

// find returns the epoch of a serial and its place in it; nil if neither epoch
// issued it.
func (c *cookies) find(serial uint64) (*epoch, int) {
	for _, e := range [...]*epoch{&c.current, &c.past} {
		if e.mac != nil && serial >= e.base && serial-e.base < uint64(e.issued) {
			return e, int(serial - e.base)
		}
	}
	return nil, 0
}

// issuedAt returns when a cookie was issued, rounded down to its slot.
func (e *epoch) issuedAt(place int) time.Time {
	after := sort.Search(len(e.slots), func(i int) bool { return int(e.slots[i]) > place })
	return e.start.Add(time.Duration(after-1) * cookieSlot)
}

func (e *epoch) state(place int) cookieState {
	return cookieState(e.states[place/4] >> (place % 4 * 2) & 3)
}

func (e *epoch) set(place int, s cookieState) {
	shift := place % 4 * 2
	e.states[place/4] = e.states[place/4]&^(3<<shift) | byte(s)<<shift
}
