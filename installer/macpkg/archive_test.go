package macpkg

import (
	"bytes"
	"compress/zlib"
	"crypto/sha256"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tree is a small payload with every kind of entry, an empty file, blanks and letters beyond ASCII.
var tree = []Entry{
	{Path: ".", Mode: typeDir | 0o755, MTime: made},
	{Path: "./Library", Mode: typeDir | 0o755, UID: 0, GID: 80, MTime: 0},
	{Path: "./Library/Application Support", Mode: typeDir | 0o700, MTime: made},
	{Path: "./Library/Application Support/größe.txt", Mode: typeFile | 0o640, UID: 501, GID: 20, MTime: made + 1, Data: []byte("twelve bytes")},
	{Path: "./empty", Mode: typeFile | 0o600, MTime: made},
	{Path: "./link", Mode: typeLink | 0o755, MTime: made, Link: "Library/Application Support"},
}

func TestCpioRoundTrip(t *testing.T) {
	b, err := WriteCpio(tree)
	if err != nil {
		t.Fatal(err)
	}
	if len(b)%512 != 0 || !bytes.HasPrefix(b, []byte("070707"+"000000"+"000001"+"040755"+"000000"+"000000"+"000002"+"000000"+"15254235600"+"000002"+"00000000000"+".\x00")) {
		t.Errorf("%d bytes that begin with %q", len(b), b[:80])
	}
	got, err := ReadCpio(b)
	if err != nil {
		t.Fatal(err)
	}
	got[4].Data = nil // an empty file's bytes are an empty slice
	if !reflect.DeepEqual(got, tree) {
		t.Errorf("got %+v", got)
	}
}

// laid writes the tree into a folder as an ordinary user can: owners stay the user's.
func laid(t *testing.T, list []Entry) string {
	t.Helper()
	dir := t.TempDir()
	for _, e := range list {
		var err error
		name := filepath.Join(dir, e.Path)
		switch {
		case e.Path == ".":
		case e.dir():
			err = os.Mkdir(name, os.FileMode(e.Mode&0o777))
		case e.link():
			err = os.Symlink(e.Link, name)
		default:
			err = os.WriteFile(name, e.Data, os.FileMode(e.Mode&0o777))
		}
		if err == nil && !e.link() {
			err = os.Chmod(name, os.FileMode(e.Mode&0o777))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestGNUCpio: GNU cpio lists what the writer writes.
func TestGNUCpio(t *testing.T) {
	cpio := tool(t, "cpio", "cpio", "what GNU cpio makes of the payload")
	ours, err := WriteCpio(tree)
	if err != nil {
		t.Fatal(err)
	}
	list := exec.Command(cpio, "-itv", "--numeric-uid-gid", "--quiet")
	list.Stdin = bytes.NewReader(ours)
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`drwxr-xr-x +2 0 +80 +0 .* \./Library`, `-rw-r----- +1 501 +20 +12 .* \./Library/Application`, `lrwxr-xr-x .* \./link -> Library/Application`,
	} {
		if !regexp.MustCompile(want).Match(text) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}

// TestBsdtarCpio: the reader reads the archive that libarchive writes, and libarchive lays out ours.
func TestBsdtarCpio(t *testing.T) {
	bsdtar := tool(t, "bsdtar", "libarchive-tools", "what libarchive makes of the payload")
	cmd := exec.Command(bsdtar, append([]string{"--format", "odc", "--uid", "0", "--gid", "80", "-ncf", "-"}, paths(tree)...)...)
	cmd.Dir = laid(t, tree)
	theirs, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadCpio(theirs)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range got {
		want := tree[i]
		if want.link() {
			want.Mode = e.Mode // the system's
		}
		if e.Path != want.Path || e.Mode != want.Mode || e.UID != 0 || e.GID != 80 || e.Link != want.Link || !bytes.Equal(e.Data, want.Data) {
			t.Errorf("got %+v", e)
		}
	}
	ours, err := WriteCpio(tree)
	if err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	unpack := exec.Command(bsdtar, "-xpf", "-", "--no-same-owner", "-C", into)
	unpack.Stdin = bytes.NewReader(ours)
	output(t, unpack)
	for _, e := range tree[1:] {
		info, err := os.Lstat(filepath.Join(into, e.Path))
		if err != nil {
			t.Error(err)
		} else if !e.link() && uint32(info.Mode().Perm()) != e.Mode&0o777 || info.ModTime().Unix() != int64(e.MTime) {
			t.Errorf("%s: %v at %d", e.Path, info.Mode(), info.ModTime().Unix())
		}
	}
}

func TestCpioRefuses(t *testing.T) {
	good, err := WriteCpio(tree[:4])
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int, with string) []byte {
		b := slices.Clone(good)
		copy(b[i:], with)
		return b
	}
	twice, err := WriteCpio([]Entry{tree[0], tree[0]})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		data []byte
		says string
	}{
		"empty":          {nil, "ends inside a header"},
		"another format": {at(0, "070701"), "no odc header"},
		"a digit":        {at(6, "8"), `dev is "800000"`},
		"no name":        {at(59, "000000"), "a name of 0 bytes"},
		"a long name":    {at(59, "777777"), "a name of 262143 bytes"},
		"more bytes":     {at(65, "77777777777"), "says 8589934591 bytes"},
		"a device":       {at(18, "020755"), "neither file, folder nor link"},
		"leaves":         {bytes.Replace(good, []byte("./Library\x00"), []byte("./../../x\x00"), 1), "no path of a payload"},
		"absolute":       {bytes.Replace(good, []byte("./Library\x00"), []byte("/xLibrary\x00"), 1), "no path of a payload"},
		"twice":          {twice, "comes twice"},
		"no trailer":     {good[:400], "cpio"},
		"more behind it": {append(slices.Clone(good), "x"...), "follow the trailer"},
	} {
		if _, err := ReadCpio(c.data); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, e := range map[string]Entry{
		"path": {Path: "opt", Mode: typeDir}, "owner": {Path: "./x", UID: 1 << 18, Mode: typeFile}, "up": {Path: "./..", Mode: typeDir},
	} {
		if _, err := WriteCpio([]Entry{e}); !errors.Is(err, ErrPlan) {
			t.Errorf("%s is written: %v", name, err)
		}
	}
}

func TestXarRoundTrip(t *testing.T) {
	members := []Member{
		{Path: "Distribution", Mode: 0o644, MTime: made, Data: []byte("<x/>")},
		{Path: "a & <b>", Dir: true, Mode: 0o755, MTime: made},
		{Path: "a & <b>/empty", Mode: 0o600, UID: 501, GID: 20, MTime: 0},
		{Path: "a & <b>/in", Dir: true, Mode: 0o700, MTime: made},
		{Path: "a & <b>/in/file", Mode: 0o644, MTime: made, Data: bytes.Repeat([]byte("x"), 5000)},
		{Path: "z", Mode: 0o644, MTime: made, Data: []byte{0}},
	}
	b, err := WriteXar(members, made)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadXar(b)
	if err != nil {
		t.Fatal(err)
	}
	got[2].Data = nil
	if !reflect.DeepEqual(got, members) {
		t.Errorf("got %+v", got)
	}
	for i := range b {
		changed := slices.Clone(b)
		changed[i] ^= 1
		if got, err := ReadXar(changed); err == nil && !reflect.DeepEqual(got, members) {
			t.Fatalf("a changed byte %d makes another archive that reads", i)
		}
	}
	for i := range b {
		if _, err := ReadXar(b[:i]); !errors.Is(err, ErrFormat) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
	}
	for name, list := range map[string][]Member{
		"no folder": {{Path: "a/b"}}, "twice": {{Path: "a"}, {Path: "a"}}, "up": {{Path: "../a"}}, "absolute": {{Path: "/a"}},
		"closed folder": {{Path: "a", Dir: true}, {Path: "b", Dir: true}, {Path: "a/b"}}, "empty": {{}},
	} {
		if _, err := WriteXar(list, made); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestXarSigned reads what a package is when somebody has signed it: the table of contents with SHA-256 and a signature that
// is not looked at.
func TestXarSigned(t *testing.T) {
	toc := []byte(`<xar><toc><checksum style="sha256"><size>32</size><offset>0</offset></checksum><signature style="RSA"><size>4</size><offset>32</offset>` +
		`<KeyInfo xmlns="http://www.w3.org/2000/09/xmldsig#"><X509Data><X509Certificate>AAAA</X509Certificate></X509Data></KeyInfo></signature>` +
		`<file id="1"><mode>0644</mode><type>file</type><name>x</name></file></toc></xar>`)
	archive := func(kind byte, damage byte) []byte {
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		z.Write(toc)
		z.Close()
		sum := sha256.Sum256(packed.Bytes())
		sum[0] ^= damage
		b := append([]byte("xar!"), 0, 28, 0, 1)
		b = binary.BigEndian.AppendUint64(b, uint64(packed.Len()))
		b = binary.BigEndian.AppendUint64(b, uint64(len(toc)))
		return slices.Concat(b, []byte{0, 0, 0, kind}, packed.Bytes(), sum[:], []byte("sign"))
	}
	if got, err := ReadXar(archive(3, 0)); err != nil || len(got) != 1 || got[0].Path != "x" {
		t.Errorf("%+v, %v", got, err)
	}
	for kind, says := range map[byte]string{1: "has no checksum", 2: "kind 2", 4: "kind 4"} {
		if _, err := ReadXar(archive(kind, 0)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), says) {
			t.Errorf("kind %d: %v", kind, err)
		}
	}
	if _, err := ReadXar(archive(3, 1)); !errors.Is(err, ErrFormat) {
		t.Errorf("another checksum: %v", err)
	}
}

// TestBsdtar: the reader reads what libarchive writes, compressed members too, and libarchive takes our package apart.
func TestBsdtar(t *testing.T) {
	bsdtar := tool(t, "bsdtar", "libarchive-tools", "what libarchive makes of the package")
	dir := laid(t, tree[:5])
	file := filepath.Join(t.TempDir(), "x.xar")
	cmd := exec.Command(bsdtar, "--format", "xar", "--options", "compression=gzip,toc-checksum=sha1,checksum=sha1", "--uid", "0", "--gid", "80", "-cf", file, "Library", "empty")
	cmd.Dir = dir
	output(t, cmd)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadXar(b)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, m := range got {
		found = found || m.Path == "Library/Application Support/größe.txt" && string(m.Data) == "twelve bytes" && m.Mode == 0o640 && m.GID == 80
	}
	if !found {
		t.Errorf("got %+v", got)
	}
	takenApart(t, func(pkg, into string) *exec.Cmd { return exec.Command(bsdtar, "-xf", pkg, "-C", into) })
}

// Test7z: 7-Zip takes our package apart and finds no fault in it.
func Test7z(t *testing.T) {
	sevenZip := tool(t, "7z", "p7zip-full", "what 7-Zip makes of the package")
	takenApart(t, func(pkg, into string) *exec.Cmd { return exec.Command(sevenZip, "x", "-y", "-o"+into, pkg) })
}

// takenApart compares what another program takes out of a package with what this one reads.
func takenApart(t *testing.T, apart func(pkg, into string) *exec.Cmd) {
	t.Helper()
	b := built(t)
	pkg := filepath.Join(t.TempDir(), "x.pkg")
	if err := os.WriteFile(pkg, b, 0o644); err != nil {
		t.Fatal(err)
	}
	into := t.TempDir()
	output(t, apart(pkg, into))
	members, err := ReadXar(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		if m.Dir {
			continue
		}
		if got, err := os.ReadFile(filepath.Join(into, m.Path)); err != nil || !bytes.Equal(got, m.Data) {
			t.Errorf("%s: %d bytes, %v", m.Path, len(got), err)
		}
	}
}

func TestUniversal(t *testing.T) {
	amd64, arm64 := programs(t)
	b, err := Universal(arm64, amd64)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := Universal(amd64, arm64); err != nil || !bytes.Equal(b, other) {
		t.Errorf("the order of the programs shows: %v", err)
	}
	fat, err := macho.NewFatFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		cpu   macho.Cpu
		align uint32
		data  []byte
	}{{macho.CpuAmd64, 12, amd64}, {macho.CpuArm64, 14, arm64}} {
		a := fat.Arches[i]
		if a.Cpu != want.cpu || a.Align != want.align || a.Offset%(1<<want.align) != 0 || !bytes.Equal(b[a.Offset:a.Offset+a.Size], want.data) {
			t.Errorf("slice %d: %+v", i, a.FatArchHeader)
		}
	}
	prog, err := inspect(b)
	if err != nil || prog.hostArchitectures() != "x86_64,arm64" {
		t.Errorf("%+v, %v", prog, err)
	}
	// Go 1.26 needs macOS 12.
	if prog.minimum != "12.0" {
		t.Errorf("the oldest macOS is %s: docs/install/macos.md says 12", prog.minimum)
	}
	for name, thin := range map[string][][]byte{
		"none": nil, "twice": {arm64, arm64}, "a script": {[]byte("#!/bin/sh\n")}, "itself": {b}, "an object": {objectOf(arm64)},
	} {
		if _, err := Universal(thin...); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// objectOf makes a program an object file: the type is the fourth word.
func objectOf(program []byte) []byte {
	b := slices.Clone(program)
	b[12] = byte(macho.TypeObj)
	return b
}

// unsign turns the load command of the signature into one that nobody knows.
func unsign(t *testing.T, program []byte) []byte {
	t.Helper()
	b := slices.Clone(program)
	f, err := macho.NewFile(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	at := 32 // the header's bytes
	for _, l := range f.Loads {
		if f.ByteOrder.Uint32(l.Raw()) == loadCodeSignature {
			f.ByteOrder.PutUint32(b[at:], 0x7f)
			return b
		}
		at += len(l.Raw())
	}
	t.Fatal("the program is not signed")
	return nil
}

func TestCksum(t *testing.T) {
	// As POSIX's cksum prints them.
	for text, want := range map[string]uint32{"": 4294967295, "123456789": 930766865, "pace-node": 3330652464} {
		if got := Cksum([]byte(text)); got != want {
			t.Errorf("%q: %d, not %d", text, got, want)
		}
	}
	cksum := tool(t, "cksum", "coreutils", "that POSIX's cksum agrees for every length")
	for _, n := range []int{1, 255, 256, 257, 65535, 65536, 70000} {
		b := bytes.Repeat([]byte{7, 0, 255}, n)[:n]
		cmd := exec.Command(cksum)
		cmd.Stdin = bytes.NewReader(b)
		want, _ := strconv.ParseUint(strings.Fields(output(t, cmd))[0], 10, 32)
		if got := Cksum(b); uint64(got) != want {
			t.Errorf("%d bytes: %d, not %d", n, got, want)
		}
	}
}

func TestSorted(t *testing.T) {
	dir := func(p string) Entry { return Entry{Path: p, Mode: typeDir | 0o755} }
	for name, list := range map[string][]Entry{
		"empty": {}, "no root": {dir("./a")}, "no folder": {dir("."), dir("./a/b")}, "twice": {dir("."), dir("./a"), dir("./a")},
		"a file as folder": {dir("."), {Path: "./a", Mode: typeFile}, dir("./a/b")},
		"up":               {dir("."), dir("./../a")}, "unclean": {dir("."), dir("./a/../b")}, "zero": {dir("."), dir("./a\x00")},
		"mode": {dir("."), {Path: "./a", Mode: 0o644}}, "link": {dir("."), {Path: "./a", Mode: typeLink}}, "root is a file": {{Path: ".", Mode: typeFile}},
	} {
		if _, err := sorted(list); !errors.Is(err, ErrPlan) {
			t.Errorf("%s: %v", name, err)
		}
	}
	got, err := sorted([]Entry{dir("./b"), dir("./a-b"), dir("."), dir("./a/c"), dir("./a")})
	if want := "[. ./a ./a-b ./a/c ./b]"; err != nil || fmt.Sprint(paths(got)) != want {
		t.Errorf("%v, %v", paths(got), err)
	}
}

func paths(list []Entry) (out []string) {
	for _, e := range list {
		out = append(out, e.Path)
	}
	return out
}
