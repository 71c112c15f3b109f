package discovery

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"time"
)

// recall remembers, roughly and in bounded memory, whose beacons went
// unchallenged for want of the shared budget. A flood under spoofed sources
// seldom uses one twice; an honest newcomer speaks again a period later, from
// the same place. While the pressure lasts, sources never seen before leave a
// few tokens to those that return.
//
// It is two generations of a Bloom filter under a random key, and holds nothing
// while there is no pressure.
type recall struct {
	entropy       func([]byte)
	key           [2]uint64
	turned        time.Time
	refused       [2]int // in this generation and the one before
	current, past []uint64
}

// recallWords is the size of one generation: 128 KiB. 150,000 sources, which is
// 9,000 a second, leave one stranger in fifteen mistaken for a returning one.
const recallWords = 1 << 14

// turn moves on to the next generation when it is time.
func (r *recall) turn(now time.Time) {
	passed := now.Sub(r.turned)
	if passed < boundRecall.duration() {
		return
	}
	if passed >= 2*boundRecall.duration() {
		r.refused, r.past = [2]int{}, nil
		clear(r.current)
	}
	r.turned = now
	r.refused = [2]int{0, r.refused[0]}
	r.current, r.past = r.past, r.current
	if r.refused[1] < boundPressure.count() {
		r.current, r.past = nil, nil // calm: give the memory back
	}
	clear(r.current)
}

// pressed reports whether the shared budget has been refusing many of late.
func (r *recall) pressed(now time.Time) bool {
	r.turn(now)
	return max(r.refused[0], r.refused[1]) >= boundPressure.count()
}

// refuse notes that a beacon of source went unchallenged.
func (r *recall) refuse(now time.Time, source netip.Addr) {
	r.turn(now)
	if r.refused[0]++; !r.pressed(now) {
		return
	}
	if r.current == nil {
		if r.past == nil {
			var b [16]byte
			r.entropy(b[:])
			r.key = [2]uint64{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
		}
		r.current = make([]uint64, recallWords)
	}
	for _, h := range r.places(source) {
		r.current[h/64] |= 1 << (h % 64)
	}
}

// returns reports whether source was probably refused before.
func (r *recall) returns(source netip.Addr) bool {
	p := r.places(source)
	for _, g := range [][]uint64{r.current, r.past} {
		if g != nil && g[p[0]/64]>>(p[0]%64)&1 == 1 && g[p[1]/64]>>(p[1]%64)&1 == 1 {
			return true
		}
	}
	return false
}

func (r *recall) places(source netip.Addr) [2]uint64 {
	a := source.As16()
	hi, lo := bits.Mul64(binary.BigEndian.Uint64(a[:8])^r.key[0], 0x9e3779b97f4a7c15)
	h := hi ^ lo ^ binary.BigEndian.Uint64(a[8:]) ^ r.key[1]
	for range 2 { // the finalizer of SplitMix64
		h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
		h = (h ^ h>>27) * 0x94d049bb133111eb
		h ^= h >> 31
	}
	const mask = recallWords*64 - 1
	return [2]uint64{h & mask, h >> 32 & mask}
}
