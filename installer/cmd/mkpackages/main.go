// Command mkpackages builds the Linux packages: a deb and an rpm for each processor, their bills of materials and
// SHA256SUMS. It needs no root, installs nothing, and makes the same bytes of the same tree.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pace-node/installer/internal/linuxpkg"
)

func main() {
	root := flag.String("root", "..", "the `folder` of the tree")
	out := flag.String("out", "../dist", "the `folder` for what is built; packages of ours in it are replaced")
	version := flag.String("version", "", "a `version` instead of what git describes")
	arch := flag.String("arch", "amd64,arm64", "processors, separated by commas")
	format := flag.String("format", strings.Join(linuxpkg.Formats, ","), "formats, separated by commas")
	tags := flag.String("tags", "", "build `tags` of the program, separated by commas: what tests upgrade to")
	twice := flag.Bool("twice", false, "build everything a second time and compare the bytes")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "mkpackages: %q is not understood\n", flag.Args())
		os.Exit(2)
	}
	if err := run(*root, *out, *version, *tags, strings.Split(*arch, ","), strings.Split(*format, ","), *twice); err != nil {
		fmt.Fprintln(os.Stderr, "mkpackages:", err)
		os.Exit(1)
	}
}

func run(root, out, version, tags string, archs, formats []string, twice bool) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	for _, a := range archs {
		if !slices.ContainsFunc(linuxpkg.Architectures, func(k struct{ Go, Deb, RPM string }) bool { return k.Go == a }) {
			return fmt.Errorf("no package is built for %q: amd64 and arm64 are", a)
		}
	}
	when, err := sourceDate(root)
	if err != nil {
		return err
	}
	if version == "" {
		if version, err = git(root, "describe", "--tags", "--always", "--dirty"); err != nil {
			return err
		}
	}
	commits := 0
	if text, err := git(root, "rev-list", "--count", "HEAD"); err == nil {
		commits, _ = strconv.Atoi(text)
	}
	if version, err = linuxpkg.Version(version, commits); err != nil {
		return err
	}
	what := linuxpkg.Build{Root: root, Version: version, Tags: tags, Time: when}
	built, err := all(what, archs, formats)
	if err != nil {
		return err
	}
	if twice {
		again, err := all(what, archs, formats)
		if err != nil {
			return err
		}
		for name, data := range built {
			if !bytes.Equal(data, again[name]) {
				return fmt.Errorf("%s differs between two builds of one tree", name)
			}
		}
		fmt.Println("built twice, byte for byte the same")
	}
	return write(out, built)
}

// sourceDate is SOURCE_DATE_EPOCH, or the date of the commit.
func sourceDate(root string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = git(root, "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q is no number of seconds", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

func git(root string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(text)), nil
}

// all builds everything into memory, some tens of megabytes, the processors side by side.
func all(b linuxpkg.Build, archs, formats []string) (map[string][]byte, error) {
	each, errs := make([]map[string][]byte, len(archs)), make([]error, len(archs))
	var wait sync.WaitGroup
	for i, arch := range archs {
		wait.Go(func() {
			b := b
			b.Arch = arch
			each[i], errs[i] = one(&b, formats)
		})
	}
	wait.Wait()
	built := map[string][]byte{}
	for _, files := range each {
		maps.Copy(built, files)
	}
	return built, errors.Join(errs...)
}

// one builds what is for one processor, the formats side by side.
func one(b *linuxpkg.Build, formats []string) (built map[string][]byte, err error) {
	if b.Scratch, err = os.MkdirTemp("", "mkpackages-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.Scratch)
	binary, err := b.Binary()
	if err != nil {
		return nil, err
	}
	name, data, err := b.SBOM(binary)
	if err != nil {
		return nil, err
	}
	if err := b.Derive(); err != nil {
		return nil, err
	}
	built = map[string][]byte{name: data}
	names, files, errs := make([]string, len(formats)), make([][]byte, len(formats)), make([]error, len(formats))
	var wait sync.WaitGroup
	for i, format := range formats {
		wait.Go(func() { names[i], files[i], errs[i] = b.Package(format) })
	}
	wait.Wait()
	for i, name := range names {
		built[name] = files[i]
	}
	return built, errors.Join(errs...)
}

// write replaces what an earlier build left, so that SHA256SUMS names all that is there.
func write(out string, built map[string][]byte) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"pace-node*.deb", "pace-node*.rpm", "pace-node*.cdx.json"} {
		old, err := filepath.Glob(filepath.Join(out, pattern))
		if err != nil {
			return err
		}
		for _, file := range old {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	for name, data := range built {
		if err := os.WriteFile(filepath.Join(out, name), data, 0o644); err != nil {
			return err
		}
		fmt.Printf("%9d %s\n", len(data), name)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), []byte(linuxpkg.Sums(built)), 0o644)
}
