package macpkg

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"path"
	"slices"
)

// A bill of materials is a store of numbered blocks with names for a few of them: a header, the names, the blocks, and at
// the end the table that says where each block is. Apple has not published the format; this is how Apple's own files and
// those that its installer takes look.
const (
	bomMagic      = "BOMStore"
	bomHeaderSize = 512 // bytes, of which the first 32 say something
	bomVersion    = 1
	bomTreeMagic  = "tree"
	bomNode       = 4096 // bytes of a tree's node
	bomSmallNode  = 128  // bytes of a node of the tree in VIndex
	bomNodeHead   = 12   // bytes: leaf or branch, count, next, previous
	bomPerNode    = (bomNode - bomNodeHead) / 8
	bomPlain      = 0x000f // of a path: with all its facts, and no program that is listed by processor
	bomFreeSlots  = 2      // empty pointers behind the table, as Apple's own tool leaves them
)

// Kinds of a path in a bill of materials.
const (
	bomFile = 1
	bomDir  = 2
	bomLink = 3
)

// bomStore collects blocks. Block 0 is nobody's.
type bomStore struct {
	blocks [][]byte
	names  []bomName
}

type bomName struct {
	name  string
	block uint32
}

func (s *bomStore) add(block []byte) uint32 {
	s.blocks = append(s.blocks, block)
	return uint32(len(s.blocks))
}

func (s *bomStore) name(name string, block []byte) {
	s.names = append(s.names, bomName{name, s.add(block)})
}

// bytes lays the store out: header, names, blocks, table.
func (s *bomStore) bytes() ([]byte, error) {
	be := binary.BigEndian
	names := be.AppendUint32(nil, uint32(len(s.names)))
	for _, n := range s.names {
		names = be.AppendUint32(names, n.block)
		names = append(names, byte(len(n.name)))
		names = append(names, n.name...)
	}
	out := make([]byte, bomHeaderSize)
	out = append(out, names...)
	table := be.AppendUint32(nil, uint32(len(s.blocks))+1)
	table = append(table, make([]byte, 8)...)
	for _, b := range s.blocks {
		table = be.AppendUint32(table, uint32(len(out)))
		table = be.AppendUint32(table, uint32(len(b)))
		out = append(out, b...)
	}
	table = be.AppendUint32(table, 0)
	table = append(table, make([]byte, 8*bomFreeSlots)...)
	if uint64(len(out))+uint64(len(table)) > math.MaxUint32 {
		return nil, fmt.Errorf("%w: the bill of materials is over 4 GiB", ErrPlan)
	}
	copy(out, bomMagic)
	for i, v := range []int{bomVersion, len(s.blocks), len(out), len(table), bomHeaderSize, len(names)} {
		be.PutUint32(out[8+4*i:], uint32(v))
	}
	return append(out, table...), nil
}

// bomTree is the head of a tree: its root node, the nodes' size, how many entries it has in all.
func bomTree(root, nodeSize, count uint32) []byte {
	be := binary.BigEndian
	b := append([]byte(bomTreeMagic), 0, 0, 0, bomVersion)
	for _, v := range []uint32{root, nodeSize, count} {
		b = be.AppendUint32(b, v)
	}
	return append(b, 0)
}

// bomTreeNode is one node of a tree, filled up to its size: pairs of blocks, value and key.
func bomTreeNode(leaf bool, next, previous uint32, pairs [][2]uint32, size int) []byte {
	be := binary.BigEndian
	kind := uint16(0)
	if leaf {
		kind = 1
	}
	b := be.AppendUint16(nil, kind)
	b = be.AppendUint16(b, uint16(len(pairs)))
	b = be.AppendUint32(b, next)
	b = be.AppendUint32(b, previous)
	for _, p := range pairs {
		b = be.AppendUint32(b, p[0])
		b = be.AppendUint32(b, p[1])
	}
	return append(b, make([]byte, size-len(b))...)
}

// WriteBom lists entries as a receipt does. Ids go by depth and then by path, so that the tree's order, which is by the
// folder's id and the name, is that of the ids.
func WriteBom(entries []Entry) ([]byte, error) {
	list, err := sorted(entries)
	if err != nil {
		return nil, err
	}
	depth := func(p string) (n int) {
		for ; p != "."; p = path.Dir(p) {
			n++
		}
		return n
	}
	ids := map[string]uint32{}
	slices.SortStableFunc(list, func(a, b Entry) int {
		pa, pb := path.Clean(a.Path), path.Clean(b.Path)
		return cmp.Or(cmp.Compare(depth(pa), depth(pb)), comparePaths(pa, pb))
	})
	var s bomStore
	be := binary.BigEndian
	var total uint64
	for _, e := range list {
		total += uint64(len(e.body()))
		if len(e.body()) > math.MaxUint32 {
			return nil, fmt.Errorf("%w: %s has %d bytes, and a bill of materials without Size64 counts to 4 GiB", ErrPlan, e.Path, len(e.body()))
		}
	}
	// Apple's own tool wraps the sum of the sizes at 4 GiB.
	info := []byte{}
	for _, v := range []uint32{bomVersion, uint32(len(list)) + 1, 1, 0, 0, uint32(total), 0} {
		info = be.AppendUint32(info, v)
	}
	s.name("BomInfo", info)

	var pairs [][2]uint32
	for i, e := range list {
		clean := path.Clean(e.Path)
		id := uint32(i) + 1
		ids[clean] = id
		parent := uint32(0)
		if clean != "." {
			parent = ids[path.Dir(clean)]
		}
		facts := s.add(bomFacts(e))
		value := s.add(be.AppendUint32(be.AppendUint32(nil, id), facts))
		key := s.add(append(append(be.AppendUint32(nil, parent), path.Base(clean)...), 0))
		pairs = append(pairs, [2]uint32{value, key})
	}
	root, err := s.pathNodes(pairs)
	if err != nil {
		return nil, err
	}
	s.name("Paths", bomTree(root, bomNode, uint32(len(pairs))))
	s.name("HLIndex", bomTree(s.add(bomTreeNode(true, 0, 0, nil, bomNode)), bomNode, 0))
	virtual := s.add(bomTree(s.add(bomTreeNode(true, 0, 0, nil, bomSmallNode)), bomSmallNode, 0))
	s.name("VIndex", append(be.AppendUint32(be.AppendUint32(be.AppendUint32(nil, bomVersion), virtual), 0), 0))
	s.name("Size64", bomTree(s.add(bomTreeNode(true, 0, 0, nil, bomNode)), bomNode, 0))
	return s.bytes()
}

// comparePaths orders two paths of one depth as a tree does: the folder's order first, then the name.
func comparePaths(a, b string) int {
	if a == b {
		return 0
	}
	return cmp.Or(comparePaths(path.Dir(a), path.Dir(b)), cmp.Compare(path.Base(a), path.Base(b)))
}

// pathNodes writes the nodes of the tree of paths: one leaf, or a branch over a chain of leaves.
func (s *bomStore) pathNodes(pairs [][2]uint32) (root uint32, err error) {
	if len(pairs) <= bomPerNode {
		return s.add(bomTreeNode(true, 0, 0, pairs, bomNode)), nil
	}
	leaves := slices.Collect(slices.Chunk(pairs, bomPerNode))
	if len(leaves) > bomPerNode {
		return 0, fmt.Errorf("%w: %d paths, and %d fit the bill of materials", ErrPlan, len(pairs), bomPerNode*bomPerNode)
	}
	first := uint32(len(s.blocks)) + 1
	var over [][2]uint32
	for i, leaf := range leaves {
		here := first + uint32(i)
		next, previous := here+1, here-1
		if i == 0 {
			previous = 0
		}
		if i == len(leaves)-1 {
			next = 0
		}
		s.add(bomTreeNode(true, next, previous, leaf, bomNode))
		over = append(over, [2]uint32{here, leaf[len(leaf)-1][1]})
	}
	return s.add(bomTreeNode(false, 0, 0, over, bomNode)), nil
}

// bomFacts is what is listed of a path: kind, mode, owner, time, size; of a file and a link the checksum; of a link where
// it points; and eight zero bytes.
func bomFacts(e Entry) []byte {
	be := binary.BigEndian
	kind := byte(bomFile)
	switch {
	case e.dir():
		kind = bomDir
	case e.link():
		kind = bomLink
	}
	b := []byte{kind, 1}
	b = be.AppendUint16(b, bomPlain)
	b = be.AppendUint16(b, uint16(e.Mode))
	for _, v := range []uint32{e.UID, e.GID, e.MTime, uint32(len(e.body()))} {
		b = be.AppendUint32(b, v)
	}
	b = append(b, 1)
	if kind != bomDir {
		b = be.AppendUint32(b, Cksum(e.body()))
	}
	if kind == bomLink {
		b = be.AppendUint32(b, uint32(len(e.Link))+1)
		b = append(append(b, e.Link...), 0)
	}
	return append(b, make([]byte, 8)...)
}

// cksumTable is of the polynomial 0x04c11db7, most significant bit first.
var cksumTable = func() (t [256]uint32) {
	for i := range t {
		c := uint32(i) << 24
		for range 8 {
			if c&(1<<31) != 0 {
				c = c<<1 ^ 0x04c11db7
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()

// Cksum is POSIX's cksum: the CRC of the bytes and of their number's bytes, least first, inverted.
func Cksum(data []byte) uint32 {
	var c uint32
	for _, b := range data {
		c = c<<8 ^ cksumTable[byte(c>>24)^b]
	}
	for n := len(data); n > 0; n >>= 8 {
		c = c<<8 ^ cksumTable[byte(c>>24)^byte(n)]
	}
	return ^c
}
