package macpkg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestBomRoundTrip(t *testing.T) {
	b, err := WriteBom(tree)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadBom(b)
	if err != nil {
		t.Fatal(err)
	}
	want := []BomEntry{
		{Path: ".", Mode: 0o40755, MTime: made},
		{Path: "./Library", Mode: 0o40755, GID: 80},
		{Path: "./Library/Application Support", Mode: 0o40700, MTime: made},
		{Path: "./Library/Application Support/größe.txt", Mode: 0o100640, UID: 501, GID: 20, MTime: made + 1, Size: 12, Checksum: Cksum([]byte("twelve bytes"))},
		{Path: "./empty", Mode: 0o100600, MTime: made, Checksum: 4294967295},
		{Path: "./link", Mode: 0o120755, MTime: made, Size: 27, Checksum: Cksum([]byte("Library/Application Support")), Link: "Library/Application Support"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if err := Compare(tree, got); err != nil {
		t.Error(err)
	}
}

// TestBomLayout reads the first bytes by hand, not by the reader.
func TestBomLayout(t *testing.T) {
	b, err := WriteBom(tree)
	if err != nil {
		t.Fatal(err)
	}
	be := binary.BigEndian
	word := func(at int) int { return int(be.Uint32(b[at:])) }
	blocks, table, tableSize, names, namesSize := word(12), word(16), word(20), word(24), word(28)
	if string(b[:8]) != "BOMStore" || word(8) != 1 || names != 512 || table+tableSize != len(b) {
		t.Fatalf("header % x", b[:32])
	}
	if got := string(b[names+4 : names+namesSize]); !regexpNames(got) {
		t.Errorf("names %q", got)
	}
	if word(table) != blocks+1 || word(table+4) != 0 || word(table+8) != 0 {
		t.Errorf("a table of %d for %d blocks, block 0 at %d", word(table), blocks, word(table+4))
	}
	if rest := b[table+4+8*(blocks+1):]; !bytes.Equal(rest, make([]byte, 4+16)) {
		t.Errorf("behind the table % x", rest)
	}
	block := func(n int) []byte { return b[word(table+4+8*n):][:word(table+8+8*n)] }
	// BomInfo: version 1, seven paths, one row: no processor, the bytes of all.
	if got := block(1); !bytes.Equal(got, []byte{0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 39, 0, 0, 0, 0}) {
		t.Errorf("BomInfo % x", got)
	}
	// The first path: facts, id and facts' block, folder's id and name.
	if got := block(2); len(got) != 31 || got[0] != 2 || got[1] != 1 || be.Uint16(got[2:]) != 15 || be.Uint16(got[4:]) != 0o40755 {
		t.Errorf("facts of . % x", got)
	}
	if got := block(3); !bytes.Equal(got, []byte{0, 0, 0, 1, 0, 0, 0, 2}) {
		t.Errorf("id of . % x", got)
	}
	if got := block(4); !bytes.Equal(got, []byte{0, 0, 0, 0, '.', 0}) {
		t.Errorf("name of . % x", got)
	}
	for n := 1; n <= blocks; n++ {
		if size := len(block(n)); bytes.HasPrefix(block(n), []byte("tree")) && size != 21 {
			t.Errorf("a tree of %d bytes", size)
		}
	}
}

func regexpNames(s string) bool {
	for _, n := range []string{"BomInfo", "Paths", "HLIndex", "VIndex", "Size64"} {
		at := strings.Index(s, n)
		if at < 5 || s[at-1] != byte(len(n)) {
			return false
		}
	}
	return true
}

// TestApplesLayout reads a bill of materials laid out as Apple's own tool does it: the blocks in no order, folders before and
// after their files, a table with free places, the nodes padded. The offsets are those of a receipt for
// /Applications/hello.txt.
func TestApplesLayout(t *testing.T) {
	got, err := ReadBom(applesBom())
	if err != nil {
		t.Fatal(err)
	}
	want := []BomEntry{
		{Path: ".", Mode: 0o40755, UID: 501, GID: 20, MTime: 1500000000},
		{Path: "./Applications", Mode: 0o40755, UID: 501, GID: 20, MTime: 1500000000},
		{Path: "./Applications/hello.txt", Mode: 0o100644, UID: 501, GID: 20, MTime: 1500000000, Size: 13, Checksum: 7},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

func applesBom() []byte {
	be := binary.BigEndian
	b := make([]byte, 0x33f1+0x5590)
	words := func(list ...uint32) (out []byte) {
		for _, v := range list {
			out = be.AppendUint32(out, v)
		}
		return out
	}
	treeHead := func(child, size, count uint32) []byte {
		return slices.Concat([]byte("tree"), words(1, child, size, count), []byte{0})
	}
	leaf := func(pairs ...uint32) []byte {
		return append(be.AppendUint16(be.AppendUint16(nil, 1), uint16(len(pairs)/2)), words(append([]uint32{0, 0}, pairs...)...)...)
	}
	facts := func(kind byte, mode uint16, size uint32, tail ...byte) []byte {
		head := append([]byte{kind, 1, 0, 15}, byte(mode>>8), byte(mode))
		return slices.Concat(head, words(501, 20, 1500000000, size), []byte{1}, tail, make([]byte, 8))
	}
	name := func(folder uint32, text string) []byte { return append(append(words(folder), text...), 0) }
	type block struct {
		at, size uint32
		data     []byte
	}
	blocks := []block{
		{},
		{0x33d5, 0x1c, words(1, 3, 1, 0, 0, 13, 0)},
		{0x1236, 0x15, treeHead(3, 4096, 3)},
		{0x236, 0x1000, leaf(0xd, 0xc, 0x10, 0xf, 0x13, 0x12)},
		{0x21c, 0x15, treeHead(5, 4096, 0)},
		{0x1271, 0x1000, leaf()},
		{0x200, 0xd, append(words(1, 7, 0), 1)},
		{0x124b, 0x15, treeHead(8, 128, 0)},
		{0x22a2, 0x80, leaf()},
		{0x2271, 0x15, treeHead(0xa, 4096, 0)},
		{0x235e, 0x1000, leaf()},
		{0x335e, 0x1f, facts(2, 0o40755, 0)},
		{0x1260, 0x6, name(0, ".")},
		{0x1266, 0x8, words(1, 0xb)},
		{0x337d, 0x1f, facts(2, 0o40755, 0)},
		{0x2286, 0x11, name(1, "Applications")},
		{0x2297, 0x8, words(2, 0xe)},
		{0x339c, 0x23, facts(1, 0o100644, 13, 0, 0, 0, 7)},
		{0x33bf, 0xe, name(2, "hello.txt")},
		{0x33cd, 0x8, words(3, 0x11)},
	}
	table := words(0xaaa)
	for _, k := range blocks {
		copy(b[k.at:], k.data)
		table = append(table, words(k.at, k.size)...)
	}
	copy(b[0x33f1:], table)
	names := words(5)
	for _, n := range []struct {
		block uint32
		name  string
	}{{6, "VIndex"}, {4, "HLIndex"}, {9, "Size64"}, {1, "BomInfo"}, {2, "Paths"}} {
		names = append(append(append(names, words(n.block)...), byte(len(n.name))), n.name...)
	}
	copy(b[0x2322:], names)
	copy(b, "BOMStore")
	copy(b[8:], words(1, uint32(len(blocks))-1, 0x33f1, 0x5590, 0x2322, 0x3c))
	return b
}

// TestManyPaths needs several leaves and a branch over them.
func TestManyPaths(t *testing.T) {
	list := []Entry{{Path: ".", Mode: typeDir | 0o755}}
	for i := range 40 {
		dir := fmt.Sprintf("./d%d", i)
		list = append(list, Entry{Path: dir, Mode: typeDir | 0o755})
		for j := range 40 {
			list = append(list, Entry{Path: fmt.Sprintf("%s/f%d", dir, j), Mode: typeFile | 0o644, Data: []byte{byte(i), byte(j)}})
		}
	}
	b, err := WriteBom(list)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadBom(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := Compare(list, got); err != nil {
		t.Error(err)
	}
	r, err := openBom(b)
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := r.tree(r.names["Paths"])
	if err != nil || len(pairs) != len(list) || len(pairs) < 3*bomPerNode {
		t.Fatalf("%d pairs, %v", len(pairs), err)
	}
	// A tree is searched by the folder's id and the name: it must be in that order.
	last := ""
	for _, p := range pairs {
		_, found, err := r.path(p)
		if err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprintf("%08d/%s", found.parent, found.name)
		if key <= last {
			t.Fatalf("%s stands behind %s", key, last)
		}
		last = key
	}
}

// TestBomRefuses damages a good one.
func TestBomRefuses(t *testing.T) {
	good, err := WriteBom(tree)
	if err != nil {
		t.Fatal(err)
	}
	for i := range good {
		if _, err := ReadBom(good[:i]); !errors.Is(err, ErrFormat) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
	}
	be := binary.BigEndian
	r, err := openBom(good)
	if err != nil {
		t.Fatal(err)
	}
	// spot finds a block's bytes in a copy.
	spot := func(b []byte, n uint32) []byte {
		table := be.Uint32(b[16:])
		return b[be.Uint32(b[table+4+8*n:]):][:be.Uint32(b[table+8+8*n:])]
	}
	pairs, err := r.tree(r.names["Paths"])
	if err != nil {
		t.Fatal(err)
	}
	leaf := be.Uint32(spot(good, r.names["Paths"])[8:])
	for name, c := range map[string]struct {
		damage func(b []byte)
		says   string
	}{
		"magic":           {func(b []byte) { b[0] = 'b' }, "no header"},
		"version":         {func(b []byte) { b[11] = 2 }, "no header"},
		"blocks":          {func(b []byte) { b[15]++ }, "the header counts"},
		"table":           {func(b []byte) { be.PutUint32(b[be.Uint32(b[16:]):], 1<<31) }, "a table of"},
		"a block's place": {func(b []byte) { be.PutUint32(b[be.Uint32(b[16:])+12:], 1<<31) }, "bytes 2147483648"},
		"names":           {func(b []byte) { be.PutUint32(b[512:], 9) }, "names end"},
		"no Paths":        {func(b []byte) { copy(b[bytes.Index(b, []byte("Paths")):], "paths") }, "Paths is missing"},
		"no tree":         {func(b []byte) { copy(spot(b, r.names["Paths"]), "eert") }, "no tree"},
		"a tree's count":  {func(b []byte) { spot(b, r.names["Paths"])[19]++ }, "counts 7 entries"},
		"info's count":    {func(b []byte) { spot(b, r.names["BomInfo"])[7] = 9 }, "counts 9 paths"},
		"no leaf":         {func(b []byte) { spot(b, leaf)[1] = 0; be.PutUint32(spot(b, leaf)[12:], leaf) }, "has no leaf"},
		"a ring":          {func(b []byte) { be.PutUint32(spot(b, leaf)[4:], leaf) }, "no chain"},
		"a node's count":  {func(b []byte) { be.PutUint16(spot(b, leaf)[2:], 65535) }, "is no node"},
		"an id twice":     {func(b []byte) { spot(b, pairs[1][0])[3] = 1 }, "comes twice"},
		"its own folder":  {func(b []byte) { spot(b, pairs[1][1])[3] = 2 }, "has no end"},
		"no folder":       {func(b []byte) { spot(b, pairs[1][1])[3] = 99 }, "there is no id 99"},
		"a second root":   {func(b []byte) { spot(b, pairs[1][1])[3] = 0 }, "is named"},
		"a slash":         {func(b []byte) { spot(b, pairs[1][1])[4] = '/' }, "is named"},
		"kind":            {func(b []byte) { spot(b, be.Uint32(spot(b, pairs[1][0])[4:]))[0] = 1 }, "of kind 1"},
		"Size64":          {func(b []byte) { be.PutUint32(spot(b, r.names["Size64"])[8:], leaf); spot(b, r.names["Size64"])[19] = 6 }, "Size64 has entries"},
	} {
		b := slices.Clone(good)
		c.damage(b)
		if _, err := ReadBom(b); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
