package linuxpkg

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// member is one of a cpio archive, and padded.
func member(name, data string) string {
	pad := func(s string) string { return s + strings.Repeat("\x00", (4-len(s)%4)%4) }
	head := "070701" + strings.Repeat("0000002a", 6) + fmt.Sprintf("%08x", len(data)) + strings.Repeat("0000002a", 4) + fmt.Sprintf("%08x", len(name)+1) + "00000000"
	return pad(head+name+"\x00") + pad(data)
}

func TestRenamed(t *testing.T) {
	end := member(cpioEnd, "")
	for _, c := range []struct{ name, have, want string }{
		{"absolute", member("/usr/bin/x", "12345") + member("/a", "") + end, member("./usr/bin/x", "12345") + member("./a", "") + end},
		{"relative", member("./usr/bin/x", "1") + end, member("./usr/bin/x", "1") + end},
		{"each padding", member("/1", "1") + member("/12", "12") + member("/123", "123") + member("/1234", "1234") + end,
			member("./1", "1") + member("./12", "12") + member("./123", "123") + member("./1234", "1234") + end},
		{"nothing", end, end},
		{"what is behind its end", end + strings.Repeat("\x00", 300), end},
	} {
		if got, err := renamed([]byte(c.have)); err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%q\nwant\n%q", c.name, err, got, c.want)
		}
	}
	good := member("/usr/bin/x", "12345") + end
	for n := range len(good) - 3 { // the padding of the end is nobody's
		if _, err := renamed([]byte(good[:n])); !errors.Is(err, ErrRPM) {
			t.Errorf("the first %d bytes: %v", n, err)
		}
	}
	for _, bad := range []string{strings.Replace(good, "070701", "070702", 1), strings.Replace(good, "00000005", "7fffffff", 1), strings.Replace(good, "00000005", "0000000x", 1),
		strings.Replace(good, "0000000b", "00000000", 1), strings.Replace(good, "0000000b", "7fffffff", 1)} {
		if _, err := renamed([]byte(bad)); !errors.Is(err, ErrRPM) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// TestRPMNames: the archive's names stay below the folder it is unpacked in, and rpm, where it is, finds every checksum right.
func TestRPMNames(t *testing.T) {
	_, rpm, err := newBuild(t, "amd64").Package("rpm")
	if err != nil {
		t.Fatal(err)
	}
	signature, err := rpmHeader(rpm, rpmLead)
	if err != nil {
		t.Fatal(err)
	}
	header, err := rpmHeader(rpm, (signature.end+7)/8*8)
	if err != nil {
		t.Fatal(err)
	}
	r, err := xz.NewReader(bytes.NewReader(rpm[header.end:]))
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if _, err := archive.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if got, err := renamed(archive.Bytes()); err != nil || !bytes.Equal(got, archive.Bytes()) || !bytes.Contains(archive.Bytes(), []byte("./usr/bin/pace-node\x00")) {
		t.Errorf("the archive has absolute names: %v", err)
	}
	if at, err := signature.find(rpm, rpmSize, rpmInt32, 4); err != nil || int(binary.BigEndian.Uint32(rpm[at:])) != len(rpm)-header.start {
		t.Errorf("its size: %v", err)
	}
	program, err := exec.LookPath("rpm")
	if err != nil {
		t.Log("rpm is not installed, so the checksums are looked at by make test-packages alone")
		return
	}
	check := func(name string, rpm []byte) (string, error) {
		t.Helper()
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, rpm, 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(program, "--dbpath", t.TempDir(), "-Kv", "--nosignature", file).CombinedOutput()
		return string(out), err
	}
	if said, err := check("good.rpm", rpm); err != nil || strings.Count(said, ": OK") != 2 {
		t.Errorf("rpm says %v:\n%s", err, said)
	}
	for what, at := range map[string]int{"header": header.entries + 8, "archive": header.end + 100} {
		bad := bytes.Clone(rpm)
		bad[at] ^= 1
		if said, err := check(what+".rpm", bad); err == nil {
			t.Errorf("a changed byte of the %s is not noticed:\n%s", what, said)
		}
	}
}

func TestRelativeNamesRefuses(t *testing.T) {
	_, good, err := newBuild(t, "amd64").Package("rpm")
	if err != nil {
		t.Fatal(err)
	}
	again, err := relativeNames(good)
	if err != nil || !bytes.Equal(again, good) {
		t.Errorf("done twice it is another: %v", err)
	}
	signature, _ := rpmHeader(good, rpmLead)
	header, _ := rpmHeader(good, (signature.end+7)/8*8)
	// without has a part's tag named otherwise; short has its value end early.
	without := func(p *rpmPart, tag uint32) []byte {
		bad := bytes.Clone(good)
		for at := p.entries; at < p.data; at += rpmEntry {
			if binary.BigEndian.Uint32(bad[at:]) == tag {
				binary.BigEndian.PutUint32(bad[at:], 1)
			}
		}
		return bad
	}
	short := func(p *rpmPart, tag, kind uint32, length int) []byte {
		bad := bytes.Clone(good)
		at, err := p.find(good, tag, kind, length)
		if err != nil {
			t.Fatal(err)
		}
		bad[at+length-1] = 0
		return bad
	}
	for what, bad := range map[string][]byte{
		"nothing": nil, "its lead": good[:rpmLead], "no archive": good[:header.end], "half an archive": good[:(header.end+len(good))/2],
		"a lead without magic": slices.Concat(good[:rpmLead], []byte("x"), good[rpmLead+1:]),
		"an endless header":    slices.Concat(good[:rpmLead+8], []byte("\xff\xff\xff\xff"), good[rpmLead+12:]),
		"no checksum":          without(header, rpmPayloadSum), "no checksum of the header": without(signature, rpmSHA256), "no size": without(signature, rpmSize),
		"a short checksum": short(header, rpmPayloadSum, rpmStringArray, 64), "a short checksum of the header": short(signature, rpmSHA256, rpmString, 64),
	} {
		if _, err := relativeNames(bad); !errors.Is(err, ErrRPM) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzRenamed(f *testing.F) {
	f.Add([]byte(member("/usr/bin/x", "12345") + member("./y", "") + member(cpioEnd, "")))
	f.Add([]byte(member(cpioEnd, "")))
	f.Fuzz(func(t *testing.T, b []byte) {
		once, err := renamed(b)
		if err != nil {
			return
		}
		if again, err := renamed(once); err != nil || !bytes.Equal(once, again) {
			t.Errorf("%v: %q, then %q", err, once, again)
		}
	})
}
