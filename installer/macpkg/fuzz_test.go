package macpkg

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"io/fs"
	"reflect"
	"regexp"
	"slices"
	"testing"
)

// FuzzReadCpio: what reads can be written, and reads the same then.
func FuzzReadCpio(f *testing.F) {
	good, err := WriteCpio(tree)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)/2])
	f.Add([]byte("070707"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ReadCpio(b)
		if err != nil {
			return
		}
		again, err := WriteCpio(list)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ReadCpio(again); err != nil || !reflect.DeepEqual(list, back) {
			t.Fatalf("%+v, %v, not %+v", back, err, list)
		}
	})
}

func FuzzReadBom(f *testing.F) {
	good, err := WriteBom(tree)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(applesBom())
	f.Add([]byte("BOMStore"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := ReadBom(b)
		if err != nil {
			return
		}
		for _, e := range list {
			if !cleanPath(e.Path) {
				t.Fatalf("the path %q", e.Path)
			}
		}
	})
}

func FuzzReadXar(f *testing.F) {
	good, err := WriteXar([]Member{{Path: "a", Dir: true, Mode: 0o755}, {Path: "a/b", Mode: 0o644, Data: []byte("x")}}, made)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("xar!"))
	f.Fuzz(func(t *testing.T, b []byte) { readXar(t, b) })
}

// FuzzXarTOC puts a table of contents and a heap into an archive whose header and checksum are right.
func FuzzXarTOC(f *testing.F) {
	f.Add([]byte(`<xar><toc><checksum style="sha1"><offset>0</offset><size>20</size></checksum>`+
		`<file id="1"><data><length>1</length><offset>20</offset><size>1</size><extracted-checksum style="sha1">11f6ad8ec52a2984abaafd7c3b516503785c2072</extracted-checksum>`+
		`<archived-checksum style="sha1">11f6ad8ec52a2984abaafd7c3b516503785c2072</archived-checksum></data><mode>0644</mode><type>file</type><name>x</name></file></toc></xar>`), []byte("x"))
	f.Add([]byte("<xar/>"), []byte{})
	f.Fuzz(func(t *testing.T, toc, heap []byte) {
		var packed bytes.Buffer
		z := zlib.NewWriter(&packed)
		z.Write(toc)
		z.Close()
		sum := sha1.Sum(packed.Bytes())
		be := binary.BigEndian
		b := append([]byte(xarMagic), 0, xarHeaderSize, 0, xarVersion)
		b = be.AppendUint64(b, uint64(packed.Len()))
		b = be.AppendUint64(b, uint64(len(toc)))
		b = be.AppendUint32(b, xarSHA1)
		readXar(t, slices.Concat(b, packed.Bytes(), sum[:], heap))
	})
}

// readXar: members have clean paths, none twice.
func readXar(t *testing.T, b []byte) {
	members, err := ReadXar(b)
	if err != nil {
		return
	}
	seen := map[string]bool{}
	for _, m := range members {
		if !xarPath(m.Path) || seen[m.Path] {
			t.Fatalf("the path %q", m.Path)
		}
		seen[m.Path] = true
	}
}

func FuzzReadPlist(f *testing.F) {
	for name := range daemonPlists {
		text, err := fs.ReadFile(data, name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, b []byte) { ReadPlist(b) })
}

func FuzzInspect(f *testing.F) {
	amd64, arm64 := programs(f)
	fat, err := Universal(amd64[:4096], arm64[:4096])
	if err == nil {
		f.Add(fat)
	}
	f.Add([]byte{0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		inspect(b)
		Universal(b)
	})
}

var regexpVersion = regexp.MustCompile(`^\d+(\.\d+){3,4}$`)

func FuzzVersion(f *testing.F) {
	for _, v := range versions {
		f.Add(v[0])
	}
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := Version(s); err == nil && !regexpVersion.MatchString(v) {
			t.Fatalf("%q is %q", s, v)
		}
	})
}
