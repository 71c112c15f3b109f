// Command mkmsi builds the Windows Installer packages on Linux, one for each processor, and their bills of materials. It
// needs no root, installs nothing, and makes the same bytes of the same tree. Its one job is to compile, to stamp and sign the
// programs, and to hand them to package msipkg.
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
	"pace-node/installer/msipkg"
)

type options struct {
	root, out, version, arch, program string
	twice                             bool
	signer                            msipkg.Signer
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "..", "the `folder` of the tree")
	flag.StringVar(&o.out, "out", "../dist", "the `folder` for what is built; packages of ours in it are replaced")
	flag.StringVar(&o.version, "version", "", "a `version` instead of what git describes")
	flag.StringVar(&o.arch, "arch", "amd64,arm64", "processors, separated by commas")
	flag.StringVar(&o.program, "program", "", "a `file` to pack instead of compiling pace-node.exe; for one processor")
	flag.BoolVar(&o.twice, "twice", false, "build everything a second time and compare the bytes")
	flag.StringVar(&o.signer.Certificate, "certificate", "", "a `file` with the certificate (PEM) to sign programs and package with")
	flag.StringVar(&o.signer.Key, "key", "", "the `file` with its key (PEM)")
	flag.StringVar(&o.signer.Timestamp, "timestamp", "", "the `address` of a time stamping service")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "mkmsi: %q is not understood\n", flag.Args())
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "mkmsi:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	var archs []msipkg.Arch
	for name := range strings.SplitSeq(o.arch, ",") {
		at := slices.IndexFunc(msipkg.Architectures, func(a msipkg.Arch) bool { return a.Go == name })
		if at < 0 {
			return fmt.Errorf("no package is built for %q: amd64 and arm64 are", name)
		}
		archs = append(archs, msipkg.Architectures[at])
	}
	if o.program != "" && len(archs) != 1 {
		return errors.New("-program is a program for one processor: name it with -arch")
	}
	if (o.signer.Certificate == "") != (o.signer.Key == "") {
		return errors.New("-certificate and -key belong together")
	}
	if o.twice && o.signer.Timestamp != "" {
		return errors.New("a time stamp is another one each time: -twice and -timestamp do not go together")
	}
	when, err := sourceDate(o.root)
	if err != nil {
		return err
	}
	if o.version == "" {
		if o.version, err = git(o.root, "describe", "--tags", "--always", "--dirty"); err != nil {
			return err
		}
	}
	version, err := msipkg.ParseVersion(strings.TrimPrefix(o.version, "v"))
	if err != nil {
		return err
	}
	built, err := all(o, version, archs, when)
	if err != nil {
		return err
	}
	if o.twice {
		again, err := all(o, version, archs, when)
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
	return write(o.out, built)
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

// programs of the package: the file, what it is compiled from, what its properties say of it, and more for the linker.
var programs = []struct{ file, from, what, ldflags string }{
	{"pace-node.exe", "./cmd/pace-node", "Pace fleet node", ""},
	{"checksettings.exe", "./platform/windows/checksettings", "Checks the settings that pace-node is installed with", " -H windowsgui"}, // no window
}

// all builds everything into memory, the processors side by side.
func all(o options, version msipkg.Version, archs []msipkg.Arch, when time.Time) (map[string][]byte, error) {
	each, errs := make([]map[string][]byte, len(archs)), make([]error, len(archs))
	var wait sync.WaitGroup
	for i, arch := range archs {
		each[i] = map[string][]byte{}
		wait.Go(func() { errs[i] = one(each[i], o, version, arch, when) })
	}
	wait.Wait()
	built := map[string][]byte{}
	for _, files := range each {
		maps.Copy(built, files)
	}
	return built, errors.Join(errs...)
}

func one(built map[string][]byte, o options, version msipkg.Version, arch msipkg.Arch, when time.Time) error {
	scratch, err := os.MkdirTemp("", "mkmsi-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	made := map[string][]byte{}
	for _, p := range programs {
		path := filepath.Join(scratch, p.file)
		if o.program != "" && p.from == "./cmd/pace-node" {
			path = o.program
		} else if err := compile(o.root, path, p.from, version.Described, arch.Go, p.ldflags); err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if p.from == "./cmd/pace-node" {
			_, bom, err := (&linuxpkg.Build{Version: version.Described, Time: when}).SBOM(path)
			if err != nil {
				return err
			}
			built[fmt.Sprintf("pace-node_%s_windows_%s.cdx.json", version.Described, arch.Go)] = bom
		}
		if data, err = msipkg.Stamp(data, version, p.file, p.what); err != nil {
			return err
		}
		if made[p.file], err = o.signer.Sign(data, p.what, when); err != nil {
			return err
		}
	}
	plan := msipkg.Plan{Version: version, Arch: arch, Time: when, Data: filepath.Join(o.root, "packaging", "windows"),
		Program: made["pace-node.exe"], CheckSettings: made["checksettings.exe"], Scratch: scratch}
	if plan.License, err = os.ReadFile(filepath.Join(o.root, "LICENSE")); err != nil {
		return err
	}
	msi, err := msipkg.Build(plan)
	if err != nil {
		return err
	}
	built[plan.FileName()], err = o.signer.Sign(msi, "pace-node "+version.Described, when)
	return err
}

// compile makes a program, stripped. Two calls on one tree make the same bytes: no path, no build id and no commit is in it but
// the version.
func compile(root, out, from, version, arch, ldflags string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X pace-node/internal/version.Version="+version+ldflags, "-o", out, from)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=windows", "GOARCH="+arch, "GOFLAGS=", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compiling %s for windows/%s: %w", from, arch, err)
	}
	return nil
}

// write replaces what an earlier build left.
func write(out string, built map[string][]byte) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, pattern := range []string{"pace-node*.msi", "pace-node*_windows_*.cdx.json"} {
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
	return nil
}
