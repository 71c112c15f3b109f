package consensus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
)

// The layout of a bbolt file (bbolt's page.go, meta.go and bucket.go), in the byte order of the machine that wrote it:
//
//	page    id u64, flags u16, count u16, overflow u32, then count elements
//	meta    magic u32, version u32, page size u32, flags u32, root bucket (page u64, sequence u64), freelist u64,
//	        first unused page u64, transaction u64, FNV-1a of what is before u64
//	branch  position u32, key size u32, child u64; the key stands position bytes behind the element
//	leaf    flags u32, position u32, key size u32, value size u32; key and value stand position bytes behind the element
//	bucket  a leaf's value with flag 1: page u64 (0: its page is in the value, behind these 16 bytes), sequence u64
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHead = 16
	metaLen  = 64
	metaSum  = metaLen - 8
	element  = 16

	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	flagBucket   = 0x01 // of a leaf's element
	bucketHead   = 16
	noFreelist   = ^uint64(0)
	countInFirst = 0xFFFF // a freelist's count that stands in its first element

	leastPage, mostPage = 512, 1 << 20
)

// checkPages follows every page that a store's newest readable meta page reaches, and reports what bbolt would not survive:
// it trusts its file, and ends the process at a page that is not there, is reached twice, or claims more than it holds.
func checkPages(b []byte) error {
	m, err := newestMeta(b)
	if err != nil {
		return err
	}
	if have := uint64(len(b)) / m.page; have < m.unused {
		return fmt.Errorf("it is %d bytes long and says it holds %d", len(b), m.unused*m.page)
	}
	w := walker{b: b, meta: m, seen: map[uint64]bool{}}
	if m.freelist != noFreelist {
		if err := w.freelist(m.freelist); err != nil {
			return err
		}
	}
	w.todo = append(w.todo, m.root)
	for len(w.todo) > 0 {
		id := w.todo[len(w.todo)-1]
		w.todo = w.todo[:len(w.todo)-1]
		if err := w.visit(id); err != nil {
			return err
		}
	}
	return nil
}

type boltMeta struct {
	page                             uint64 // size
	root, freelist, unused, sequence uint64
}

func newestMeta(b []byte) (best boltMeta, err error) {
	err = errors.New("it does not begin as a store does")
	found := false
	take := func(at uint64) bool {
		if at > uint64(len(b)) || uint64(len(b))-at < pageHead+metaLen {
			return false
		}
		raw := b[at+pageHead : at+pageHead+metaLen]
		order := binary.NativeEndian
		if order.Uint32(raw) != boltMagic || order.Uint32(raw[4:]) != boltVersion {
			return false
		}
		sum := fnv.New64a()
		sum.Write(raw[:metaSum])
		if sum.Sum64() != order.Uint64(raw[metaSum:]) {
			return false
		}
		m := boltMeta{page: uint64(order.Uint32(raw[8:])), root: order.Uint64(raw[16:]), freelist: order.Uint64(raw[32:]), unused: order.Uint64(raw[40:]), sequence: order.Uint64(raw[48:])}
		if m.page < leastPage || m.page > mostPage || m.page&(m.page-1) != 0 || m.unused < 2 || m.unused > 1<<40/m.page {
			return false
		}
		if !found || m.sequence > best.sequence {
			best, found = m, true
		}
		return true
	}
	if take(0) {
		take(best.page)
	} else {
		for at := uint64(leastPage); at <= mostPage && !take(at); at *= 2 { // the other one says where it is by its own size
		}
	}
	if found {
		return best, nil
	}
	return best, err
}

type walker struct {
	b    []byte
	meta boltMeta
	seen map[uint64]bool
	todo []uint64
}

// page gives a page's bytes with those of its overflow, and marks them as reached.
func (w *walker) page(id uint64) (p []byte, flags, count uint16, err error) {
	fail := func(text string) ([]byte, uint16, uint16, error) {
		return nil, 0, 0, fmt.Errorf("its page %d %s", id, text)
	}
	if id < 2 || id >= w.meta.unused {
		return fail("is not there")
	}
	p = w.b[id*w.meta.page:]
	order := binary.NativeEndian
	flags, count = order.Uint16(p[8:]), order.Uint16(p[10:])
	pages := uint64(order.Uint32(p[12:])) + 1
	if order.Uint64(p) != id || pages > w.meta.unused-id {
		return fail("does not read")
	}
	for i := range pages {
		if w.seen[id+i] {
			return fail("is reached twice")
		}
		w.seen[id+i] = true
	}
	return p[:pages*w.meta.page], flags, count, nil
}

func (w *walker) freelist(id uint64) error {
	p, flags, count, err := w.page(id)
	if err != nil {
		return err
	}
	ids, n := p[pageHead:], uint64(count)
	if n == countInFirst {
		n, ids = binary.NativeEndian.Uint64(ids), ids[8:]
	}
	if flags != flagFreelist || n > uint64(len(ids))/8 {
		return fmt.Errorf("its page %d is no list of free pages", id)
	}
	for i := range n {
		if free := binary.NativeEndian.Uint64(ids[8*i:]); free < 2 || free >= w.meta.unused {
			return fmt.Errorf("its page %d calls a page free that is not there", id)
		}
	}
	return nil
}

func (w *walker) visit(id uint64) error {
	p, flags, count, err := w.page(id)
	if err != nil {
		return err
	}
	return w.elements(id, p, flags, count)
}

// elements looks at a page, which may be one inside a value.
func (w *walker) elements(id uint64, p []byte, flags, count uint16) error {
	fail := func(what string) error { return fmt.Errorf("its page %d holds %s", id, what) }
	leaf := flags == flagLeaf
	if !leaf && (flags != flagBranch || count == 0) {
		return fail("neither entries nor other pages")
	}
	if pageHead+element*int(count) > len(p) {
		return fail("more elements than it has room for")
	}
	order := binary.NativeEndian
	var last []byte
	for i := range int(count) {
		at := pageHead + element*i
		e := p[at : at+element]
		pos, ksize, vsize := uint64(order.Uint32(e)), uint64(order.Uint32(e[4:])), uint64(0)
		if leaf {
			pos, ksize, vsize = uint64(order.Uint32(e[4:])), uint64(order.Uint32(e[8:])), uint64(order.Uint32(e[12:]))
		}
		if uint64(at)+pos+ksize+vsize > uint64(len(p)) || ksize == 0 {
			return fail("an element that reaches out of it")
		}
		data := p[uint64(at)+pos:]
		key, value := data[:ksize], data[ksize:ksize+vsize]
		if i > 0 && bytes.Compare(last, key) >= 0 {
			return fail("keys that are not in order")
		}
		last = key
		switch {
		case !leaf:
			w.todo = append(w.todo, order.Uint64(e[8:]))
		case order.Uint32(e)&flagBucket == 0:
		case len(value) < bucketHead:
			return fail("a bucket that is cut short")
		case order.Uint64(value) != 0:
			w.todo = append(w.todo, order.Uint64(value))
		case len(value) < bucketHead+pageHead:
			return fail("a bucket that is cut short")
		default:
			in := value[bucketHead:]
			if f := order.Uint16(in[8:]); f != flagLeaf {
				return fail("a bucket without entries")
			}
			if err := w.elements(id, in, flagLeaf, order.Uint16(in[10:])); err != nil {
				return err
			}
		}
	}
	return nil
}
