package macpkg

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

const (
	bomMaxPaths = 1 << 20 // read at most
	bomMaxDepth = 64      // branches over a leaf, read at most; a tree of Apple's has one or two
	bomMaxPath  = 4096    // bytes of a path that is put together, at most
)

// BomEntry is a path of a bill of materials.
type BomEntry struct {
	Path     string // as Entry's
	Mode     uint32
	UID, GID uint32
	MTime    uint32 // seconds since 1970, UTC
	Size     uint32 // bytes; of a link, of where it points
	Checksum uint32 // POSIX cksum; 0 for a folder
	Link     string
}

type bomReader struct {
	blocks [][]byte // by number; 0 is nobody's
	names  map[string]uint32
}

func bomWrong(format string, args ...any) error {
	return fmt.Errorf("bom: %w: "+format, append([]any{ErrFormat}, args...)...)
}

// ReadBom lists a bill of materials by path.
func ReadBom(data []byte) ([]BomEntry, error) {
	r, err := openBom(data)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"BomInfo", "Paths", "HLIndex", "VIndex", "Size64"} {
		if r.names[name] == 0 {
			return nil, bomWrong("%s is missing", name)
		}
	}
	pairs, err := r.tree(r.names["Paths"])
	if err != nil {
		return nil, err
	}
	byID := map[uint32]bomPath{}
	for _, p := range pairs {
		id, found, err := r.path(p)
		if err != nil {
			return nil, err
		}
		if _, twice := byID[id]; twice || id == 0 {
			return nil, bomWrong("id %d comes twice or is 0", id)
		}
		byID[id] = found
	}
	out := make([]BomEntry, 0, len(byID))
	seen := map[string]bool{}
	for id := range byID {
		full, err := bomFullPath(byID, id)
		if err != nil {
			return nil, err
		}
		if seen[full] {
			return nil, bomWrong("%q comes twice", full)
		}
		seen[full] = true
		e := byID[id].BomEntry
		e.Path = full
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b BomEntry) int { return strings.Compare(a.Path, b.Path) })
	info, err := r.block(r.names["BomInfo"])
	if err != nil {
		return nil, err
	}
	if len(info) < 12 || binary.BigEndian.Uint32(info) != bomVersion {
		return nil, bomWrong("BomInfo does not read")
	}
	// Apple's tool and others differ by one in whether the nameless block above the root counts.
	if n := uint64(binary.BigEndian.Uint32(info[4:])); n != uint64(len(out)) && n != uint64(len(out))+1 {
		return nil, bomWrong("BomInfo counts %d paths, and there are %d", n, len(out))
	}
	for _, name := range []string{"HLIndex", "Size64"} {
		if empty, err := r.tree(r.names[name]); err != nil {
			return nil, err
		} else if len(empty) > 0 {
			return nil, bomWrong("%s has entries, which are not read here", name)
		}
	}
	v, err := r.block(r.names["VIndex"])
	if err != nil {
		return nil, err
	}
	if len(v) < 8 {
		return nil, bomWrong("VIndex has %d bytes", len(v))
	}
	if _, err := r.tree(binary.BigEndian.Uint32(v[4:])); err != nil {
		return nil, err
	}
	return out, nil
}

// openBom reads header, names and table.
func openBom(data []byte) (*bomReader, error) {
	be := binary.BigEndian
	if len(data) < 32 || string(data[:len(bomMagic)]) != bomMagic || be.Uint32(data[8:]) != bomVersion {
		return nil, bomWrong("no header of version %d", bomVersion)
	}
	part := func(at, length uint32) ([]byte, error) {
		if uint64(at)+uint64(length) > uint64(len(data)) {
			return nil, bomWrong("bytes %d to %d of %d", at, uint64(at)+uint64(length), len(data))
		}
		return data[at : at+length], nil
	}
	table, err := part(be.Uint32(data[16:]), be.Uint32(data[20:]))
	if err != nil {
		return nil, err
	}
	names, err := part(be.Uint32(data[24:]), be.Uint32(data[28:]))
	if err != nil {
		return nil, err
	}
	if len(table) < 4 || uint64(be.Uint32(table))*8 > uint64(len(table)-4) {
		return nil, bomWrong("a table of %d bytes", len(table))
	}
	r := &bomReader{names: map[string]uint32{}}
	used := uint32(0)
	for i := range be.Uint32(table) {
		at, length := be.Uint32(table[4+8*i:]), be.Uint32(table[8+8*i:])
		block, err := part(at, length)
		if err != nil {
			return nil, err
		}
		if at > 0 {
			used++
		}
		r.blocks = append(r.blocks, block)
	}
	if n := be.Uint32(data[12:]); n != used {
		return nil, bomWrong("the header counts %d blocks, and the table %d", n, used)
	}
	if len(names) < 4 {
		return nil, bomWrong("no names")
	}
	left := names[4:]
	for range be.Uint32(names) {
		if len(left) < 5 || len(left) < 5+int(left[4]) {
			return nil, bomWrong("the names end inside one")
		}
		r.names[string(left[5:5+int(left[4])])] = be.Uint32(left)
		left = left[5+int(left[4]):]
	}
	return r, nil
}

func (r *bomReader) block(n uint32) ([]byte, error) {
	if n == 0 || uint64(n) >= uint64(len(r.blocks)) {
		return nil, bomWrong("block %d of %d", n, len(r.blocks))
	}
	return r.blocks[n], nil
}

// tree reads the pairs (value, key) of a tree in order: down to its first leaf, then along the leaves.
func (r *bomReader) tree(at uint32) ([][2]uint32, error) {
	head, err := r.block(at)
	if err != nil {
		return nil, err
	}
	be := binary.BigEndian
	if len(head) < 21 || string(head[:4]) != bomTreeMagic || be.Uint32(head[4:]) != bomVersion {
		return nil, bomWrong("block %d is no tree", at)
	}
	count := be.Uint32(head[16:])
	node := be.Uint32(head[8:])
	for depth := 0; ; depth++ {
		n, err := r.node(node)
		if err != nil {
			return nil, err
		}
		if n.leaf {
			break
		}
		if depth == bomMaxDepth || len(n.pairs) == 0 {
			return nil, bomWrong("the tree in block %d has no leaf", at)
		}
		node = n.pairs[0][0]
	}
	var out [][2]uint32
	visited := map[uint32]bool{}
	for previous := uint32(0); node != 0; {
		n, err := r.node(node)
		if err != nil {
			return nil, err
		}
		if visited[node] || !n.leaf || n.previous != previous || len(out)+len(n.pairs) > bomMaxPaths {
			return nil, bomWrong("the leaves of the tree in block %d are no chain", at)
		}
		visited[node] = true
		out = append(out, n.pairs...)
		previous, node = node, n.next
	}
	if uint64(count) != uint64(len(out)) {
		return nil, bomWrong("the tree in block %d counts %d entries, and there are %d", at, count, len(out))
	}
	return out, nil
}

type bomNodeRead struct {
	leaf           bool
	next, previous uint32
	pairs          [][2]uint32
}

func (r *bomReader) node(at uint32) (bomNodeRead, error) {
	b, err := r.block(at)
	if err != nil {
		return bomNodeRead{}, err
	}
	be := binary.BigEndian
	if len(b) < bomNodeHead || len(b) < bomNodeHead+8*int(be.Uint16(b[2:])) {
		return bomNodeRead{}, bomWrong("block %d is no node", at)
	}
	n := bomNodeRead{leaf: be.Uint16(b) == 1, next: be.Uint32(b[4:]), previous: be.Uint32(b[8:])}
	for i := range int(be.Uint16(b[2:])) {
		p := b[bomNodeHead+8*i:]
		n.pairs = append(n.pairs, [2]uint32{be.Uint32(p), be.Uint32(p[4:])})
	}
	return n, nil
}

type bomPath struct {
	BomEntry
	parent uint32
	name   string
}

// path reads one entry of the tree of paths.
func (r *bomReader) path(pair [2]uint32) (id uint32, out bomPath, err error) {
	be := binary.BigEndian
	value, err := r.block(pair[0])
	if err != nil {
		return 0, out, err
	}
	key, err := r.block(pair[1])
	if err != nil {
		return 0, out, err
	}
	if len(value) < 8 || len(key) < 6 || key[len(key)-1] != 0 {
		return 0, out, bomWrong("the entry of blocks %d and %d", pair[0], pair[1])
	}
	id, out.parent, out.name = be.Uint32(value), be.Uint32(key), string(key[4:len(key)-1])
	if strings.ContainsAny(out.name, "/\x00") || out.name == ".." || (out.name == ".") != (out.parent == 0) {
		return 0, out, bomWrong("a path is named %q under id %d", out.name, out.parent)
	}
	facts, err := r.block(be.Uint32(value[4:]))
	if err != nil {
		return 0, out, err
	}
	if len(facts) < 23 {
		return 0, out, bomWrong("%q has %d bytes of facts", out.name, len(facts))
	}
	out.Mode = uint32(be.Uint16(facts[4:]))
	out.UID, out.GID, out.MTime, out.Size = be.Uint32(facts[6:]), be.Uint32(facts[10:]), be.Uint32(facts[14:]), be.Uint32(facts[18:])
	want := map[byte]uint32{bomFile: typeFile, bomDir: typeDir, bomLink: typeLink}[facts[0]]
	if want == 0 || out.Mode&typeMask != want {
		return 0, out, bomWrong("%q is of kind %d and mode %o", out.name, facts[0], out.Mode)
	}
	rest := facts[23:]
	if facts[0] != bomDir {
		if len(rest) < 4 {
			return 0, out, bomWrong("%q has no checksum", out.name)
		}
		out.Checksum, rest = be.Uint32(rest), rest[4:]
	}
	if facts[0] == bomLink {
		if len(rest) < 4 || uint64(be.Uint32(rest)) > uint64(len(rest)-4) || be.Uint32(rest) == 0 {
			return 0, out, bomWrong("%q does not say where it points", out.name)
		}
		target, ok := bytes.CutSuffix(rest[4:4+be.Uint32(rest)], []byte{0})
		if !ok || bytes.ContainsRune(target, 0) {
			return 0, out, bomWrong("%q does not say where it points", out.name)
		}
		out.Link = string(target)
	}
	return id, out, nil
}

// bomFullPath puts a path together from its folders' names.
func bomFullPath(byID map[uint32]bomPath, id uint32) (string, error) {
	full := ""
	for length := 0; ; {
		p, ok := byID[id]
		if !ok {
			return "", bomWrong("there is no id %d", id)
		}
		if length += len(p.name) + 1; length > bomMaxPath {
			return "", bomWrong("the path of id %d has no end", id)
		}
		if p.parent == 0 {
			if full == "" {
				return ".", nil
			}
			return "./" + full, nil
		}
		if full == "" {
			full = p.name
		} else {
			full = p.name + "/" + full
		}
		id = p.parent
	}
}
