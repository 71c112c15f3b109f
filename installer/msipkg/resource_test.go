package msipkg

import (
	"bytes"
	"debug/pe"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"
)

// hello is a small program for Windows, made by Go's linker.
func hello(t testing.TB, arch string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "hello.exe")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "../macpkg/testdata/hello")
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH="+arch, "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var stamped = Version{Described: "1.2.3-rc1", Shown: "1.2.3.401", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 401}}

// TestStamp: the sections are as they were, and one more is there, which the header points at.
func TestStamp(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		before := hello(t, arch)
		after, err := Stamp(before, stamped, "pace-node.exe", "Pace fleet node")
		if err != nil {
			t.Fatal(err)
		}
		was, err := pe.NewFile(bytes.NewReader(before))
		if err != nil {
			t.Fatal(err)
		}
		is, err := pe.NewFile(bytes.NewReader(after))
		if err != nil {
			t.Fatal(err)
		}
		if len(is.Sections) != len(was.Sections)+1 || len(after)%0x200 != 0 {
			t.Fatalf("%s: %d sections and %d bytes, before %d", arch, len(is.Sections), len(after), len(was.Sections))
		}
		for i, s := range was.Sections {
			if is.Sections[i].SectionHeader != s.SectionHeader {
				t.Errorf("%s: section %s is %+v, was %+v", arch, s.Name, is.Sections[i].SectionHeader, s.SectionHeader)
			}
			a, _ := s.Data()
			b, err := is.Sections[i].Data()
			if err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s: section %s changed: %v", arch, s.Name, err)
			}
		}
		header := is.OptionalHeader.(*pe.OptionalHeader64)
		added := is.Sections[len(is.Sections)-1]
		if d := header.DataDirectory[pe.IMAGE_DIRECTORY_ENTRY_RESOURCE]; added.Name != ".rsrc" || d.VirtualAddress != added.VirtualAddress || d.Size != added.VirtualSize {
			t.Errorf("%s: section %+v, directory %+v", arch, added.SectionHeader, d)
		}
		if last := was.Sections[len(was.Sections)-1]; added.VirtualAddress%header.SectionAlignment != 0 || added.VirtualAddress < last.VirtualAddress+last.VirtualSize ||
			header.SizeOfImage != alignUp(added.VirtualAddress+added.VirtualSize, header.SectionAlignment) {
			t.Errorf("%s: section at %#x, image of %#x", arch, added.VirtualAddress, header.SizeOfImage)
		}
		data, err := added.Data()
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(utf16.Decode(units(data))), "\x00", "")
		for _, want := range []string{"VS_VERSION_INFO", "040904B0", "FileVersion1.2.3-rc1", "ProductVersion1.2.3-rc1", "FileDescriptionPace fleet node", "OriginalFilenamepace-node.exe", "ProductNamepace-node"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in %q", arch, want, text)
			}
		}
		if again, err := Stamp(after, stamped, "pace-node.exe", ""); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), "resources already") {
			t.Errorf("%s: stamped twice: %d bytes, %v", arch, len(again), err)
		}
	}
}

func units(data []byte) (out []uint16) {
	for i := 0; i+1 < len(data); i += 2 {
		out = append(out, le.Uint16(data[i:]))
	}
	return out
}

// TestStampByOthers: 7-Zip reads the version as Windows does.
func TestStampByOthers(t *testing.T) {
	sevenZip, err := exec.LookPath("7z")
	if err != nil {
		t.Skip("7z is not installed, so no other program reads the version")
	}
	data, err := Stamp(hello(t, "amd64"), stamped, "pace-node.exe", "Pace fleet node")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "stamped.exe")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(sevenZip, "x", "-so", file, ".rsrc/version.txt").Output()
	if err != nil {
		t.Fatal(err)
	}
	text := string(utf16.Decode(units(out)))
	for _, want := range []string{"FILEVERSION    1,2,3,401", "PRODUCTVERSION 1,2,3,401", "VFT_APP", `"FileVersion",       "1.2.3-rc1"`, `"Translation", 0x409, 1200`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

func TestStampRefuses(t *testing.T) {
	good := hello(t, "amd64")
	at := int(le.Uint32(good[peOffset:]))
	change := func(f func(b []byte)) []byte {
		b := slices.Clone(good)
		f(b)
		return b
	}
	table := at + coffSize + int(le.Uint16(good[at+coffOptional:]))
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":             {nil, "no 64-bit program"},
		"text":              {[]byte(strings.Repeat("no program", 100)), "no 64-bit program"},
		"cut":               {good[:at+coffSize], "no 64-bit program"},
		"32 bits":           {change(func(b []byte) { le.PutUint16(b[at+coffSize:], 0x10b) }), "no 64-bit program"},
		"far header":        {change(func(b []byte) { le.PutUint32(b[peOffset:], 0xfffffff0) }), "no 64-bit program"},
		"no alignment":      {change(func(b []byte) { le.PutUint32(b[at+coffSize+optFileAlign:], 0) }), "does not read"},
		"large alignment":   {change(func(b []byte) { le.PutUint32(b[at+coffSize+optFileAlign:], 1<<31) }), "does not read"},
		"no room":           {change(func(b []byte) { le.PutUint32(b[at+coffSize+optHeadersSize:], uint32(table)) }), "no room"},
		"room that is used": {change(func(b []byte) { b[table+sectionSize*int(le.Uint16(b[at+coffSections:]))] = 1 }), "no room"},
	} {
		if got, err := Stamp(c.data, stamped, "x.exe", ""); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %d bytes, %v, want %q", name, len(got), err, c.want)
		}
	}
}

func FuzzStamp(f *testing.F) {
	good := hello(f, "amd64")
	f.Add(good[:0x600])
	f.Add([]byte("MZ"))
	f.Fuzz(func(t *testing.T, data []byte) {
		before := slices.Clone(data)
		out, err := Stamp(data, stamped, "x.exe", "x")
		if (err == nil) != (out != nil) || !bytes.Equal(before, data) {
			t.Errorf("%d bytes, %v", len(out), err)
		}
	})
}
