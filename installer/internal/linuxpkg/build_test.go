package linuxpkg

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newBuild is a build of the packages around a program that is a few bytes.
func newBuild(t *testing.T, arch string) *Build {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", "..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	b := &Build{Root: root, Version: "1.2.3~rc1", Arch: arch, Time: time.Unix(1_800_000_000, 0), Scratch: t.TempDir()}
	if err := os.WriteFile(b.temp(name), []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.Derive(); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPackagesAreTheSameEachTime(t *testing.T) {
	for _, arch := range Architectures {
		for _, format := range Formats {
			first, a, err := newBuild(t, arch.Go).Package(format)
			if err != nil {
				t.Fatal(err)
			}
			second, b, err := newBuild(t, arch.Go).Package(format)
			if err != nil || first != second || !bytes.Equal(a, b) {
				t.Errorf("%s: two builds differ (%v): %s, %d bytes, and %s, %d bytes", format, err, first, len(a), second, len(b))
			}
		}
	}
}

func TestPackageNames(t *testing.T) {
	for _, c := range []struct{ format, arch, want string }{
		{"deb", "amd64", "pace-node_1.2.3~rc1-1_amd64.deb"}, {"deb", "arm64", "pace-node_1.2.3~rc1-1_arm64.deb"},
		{"rpm", "amd64", "pace-node-1.2.3~rc1-1.x86_64.rpm"}, {"rpm", "arm64", "pace-node-1.2.3~rc1-1.aarch64.rpm"},
	} {
		if got, _, err := newBuild(t, c.arch).Package(c.format); err != nil || got != c.want {
			t.Errorf("%s for %s: %q, %v, want %q", c.format, c.arch, got, err, c.want)
		}
	}
}

// TestNoStateInAPackage: identity is minted at the first start, and state belongs to no package.
func TestNoStateInAPackage(t *testing.T) {
	for _, r := range contents {
		if strings.HasPrefix(r.dst, "/var") || strings.HasPrefix(r.dst, "/run") || strings.Contains(r.dst, "node-key") {
			t.Errorf("%s is in the packages", r.dst)
		}
		if strings.HasPrefix(r.dst, "/etc/") && r.kind != kindConfig && r.kind != kindDir {
			t.Errorf("%s would be replaced by an upgrade", r.dst)
		}
	}
}

func TestSums(t *testing.T) {
	want := "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a\ne3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b\n"
	if got := Sums(map[string][]byte{"b": nil, "a": []byte("abc")}); got != want {
		t.Errorf("%q", got)
	}
}
