package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const root = "../../.."

func mustRun(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(args, &out); err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return out.String()
}

// TestAll goes the whole way from two programs to a checked package, twice.
func TestAll(t *testing.T) {
	dir := t.TempDir()
	var thin []string
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(dir, arch)
		cmd := exec.Command("go", "build", "-trimpath", "-o", file, "../../macpkg/testdata/hello/main.go")
		cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		thin = append(thin, file)
	}
	fat := filepath.Join(dir, "new", "universal")
	mustRun(t, append([]string{"universal", "-o", fat}, thin...)...)
	if info, err := os.Stat(fat); err != nil || info.Mode() != 0o755 {
		t.Fatalf("%v, %v", info, err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	dist := filepath.Join(dir, "dist")
	first, second := filepath.Join(dist, "1.pkg"), filepath.Join(dist, "2.pkg")
	for _, file := range []string{first, second} {
		mustRun(t, "package", "-o", file, "-version", "1.2.3", "-binary", fat, "-root", root)
	}
	a, errA := os.ReadFile(first)
	b, errB := os.ReadFile(second)
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("two packages differ: %v, %v", errA, errB)
	}
	said := mustRun(t, "check", first)
	for _, want := range []string{"version 1.2.3.1000,", "the parts agree", "./opt/pace-node/bin/pacectl -> pace-node", "./Library/LaunchDaemons/io.pace.node.plist"} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	mustRun(t, "sbom", "-o", filepath.Join(dist, "x.cdx.json"), "-version", "1.2.3", thin[1])
	var bom struct{ BOMFormat string }
	if text, err := os.ReadFile(filepath.Join(dist, "x.cdx.json")); err != nil || json.Unmarshal(text, &bom) != nil || bom.BOMFormat != "CycloneDX" {
		t.Errorf("%+v, %v", bom, err)
	}
	mustRun(t, "sums", dist)
	mustRun(t, "sums", dist) // not over itself
	check := exec.Command("sha256sum", "-c", "SHA256SUMS")
	check.Dir = dist
	if out, err := check.CombinedOutput(); err != nil || strings.Count(string(out), ": OK") != 3 {
		t.Errorf("%v\n%s", err, out)
	}

	a[len(a)-1] ^= 1
	if err := os.WriteFile(second, a, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"check", second}, &bytes.Buffer{}); err == nil {
		t.Error("a changed byte goes unseen")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "")
	for _, args := range [][]string{
		{"package", "-o", first, "-version", "1.2.3", "-binary", fat, "-root", root},
		{"sbom", "-o", first, "-version", "1.2.3", thin[0]},
	} {
		if err := run(args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "SOURCE_DATE_EPOCH=$(git log") {
			t.Errorf("%s without a time: %v", args[0], err)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		nil, {"pack"}, {"universal"}, {"universal", "-o", "x"}, {"package", "-o", "x"}, {"check"}, {"check", "a", "b"}, {"check", "-x", "a"}, {"sums"}, {"sbom", "x"},
	} {
		if err := run(args, &bytes.Buffer{}); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, args := range [][]string{
		{"universal", "-o", "x", "/nowhere"}, {"check", "/nowhere"}, {"sums", "/nowhere"},
	} {
		if err := run(args, &bytes.Buffer{}); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
