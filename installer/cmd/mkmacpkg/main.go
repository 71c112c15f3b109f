// Command mkmacpkg builds macOS's package on any system, without root: `universal` puts the programs for both processors
// into one, `package` packs that one, `check` reads a package back and compares its parts, `sbom` lists what the linker put
// into a program, `sums` writes SHA256SUMS over a folder. universal and package are two steps, so that somebody with a
// certificate can sign in between.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"pace-node/installer/internal/linuxpkg"
	"pace-node/installer/macpkg"
)

const usage = `usage:
  mkmacpkg universal -o FILE PROGRAM...
  mkmacpkg package -o FILE -version DESCRIBED -binary UNIVERSAL [-root TREE]
  mkmacpkg check PACKAGE
  mkmacpkg sbom -o FILE -version DESCRIBED PROGRAM
  mkmacpkg sums FOLDER
`

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mkmacpkg:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("not understood\n" + strings.TrimSpace(usage))

func run(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return errUsage
	}
	flags := flag.NewFlagSet("mkmacpkg "+args[0], flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	out := flags.String("o", "", "")
	version := flags.String("version", "", "")
	binary := flags.String("binary", "", "")
	root := flags.String("root", ".", "")
	if err := flags.Parse(args[1:]); err != nil {
		return fmt.Errorf("%w: %w", err, errUsage)
	}
	switch rest := flags.Args(); {
	case args[0] == "universal" && *out != "" && len(rest) > 0:
		return universal(*out, rest)
	case args[0] == "package" && *out != "" && *version != "" && *binary != "" && len(rest) == 0:
		return build(*out, *version, *binary, *root)
	case args[0] == "check" && len(rest) == 1:
		return check(rest[0], stdout)
	case args[0] == "sbom" && *out != "" && *version != "" && len(rest) == 1:
		return sbom(*out, *version, rest[0])
	case args[0] == "sums" && len(rest) == 1:
		return sums(rest[0])
	}
	return errUsage
}

func universal(out string, programs []string) error {
	var thin [][]byte
	for _, name := range programs {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		thin = append(thin, data)
	}
	fat, err := macpkg.Universal(thin...)
	if err != nil {
		return err
	}
	return write(out, fat, 0o755)
}

// pages of the manual, in docs/.
var pages = []string{"pacectl.1", "pace-node.8"}

// made is SOURCE_DATE_EPOCH.
func made() (uint32, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("SOURCE_DATE_EPOCH is %q: it says of what second since 1970 every file is, as in SOURCE_DATE_EPOCH=$(git log -1 --format=%%ct)", text)
	}
	return uint32(n), nil
}

func build(out, version, binary, root string) error {
	when, err := made()
	if err != nil {
		return err
	}
	p := macpkg.Plan{Describe: version, Made: when, Data: os.DirFS(filepath.Join(root, "packaging", "macos")), Pages: map[string][]byte{}}
	if p.Binary, err = os.ReadFile(binary); err != nil {
		return err
	}
	if p.License, err = os.ReadFile(filepath.Join(root, "LICENSE")); err != nil {
		return err
	}
	for _, name := range pages {
		if p.Pages[name], err = os.ReadFile(filepath.Join(root, "docs", name)); err != nil {
			return err
		}
	}
	data, err := macpkg.Build(p)
	if err != nil {
		return err
	}
	if _, err := macpkg.Open(data); err != nil {
		return fmt.Errorf("what was written does not read back: %w", err)
	}
	return write(out, data, 0o644)
}

// write puts a file in place whole.
func write(name string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

func check(name string, stdout io.Writer) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	p, err := macpkg.Open(data)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, m := range p.Members {
		fmt.Fprintf(&b, "%-40s %d\n", m.Path, len(m.Data))
	}
	for _, e := range p.Bom {
		fmt.Fprintf(&b, "%6o %d:%d %9d %10d %s", e.Mode, e.UID, e.GID, e.Size, e.Checksum, e.Path)
		if e.Link != "" {
			fmt.Fprintf(&b, " -> %s", e.Link)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "version %s, %d bytes: the parts agree\n", p.Version, len(data))
	_, err = io.WriteString(stdout, b.String())
	return err
}

// sbom writes the bill of materials of a program in CycloneDX's form, as the Linux packages have it.
func sbom(out, version, program string) error {
	when, err := made()
	if err != nil {
		return err
	}
	_, data, err := (&linuxpkg.Build{Version: version, Time: time.Unix(int64(when), 0).UTC()}).SBOM(program)
	if err != nil {
		return err
	}
	return write(out, data, 0o644)
}

const sumsFile = "SHA256SUMS"

// sums writes the checksums of everything in a folder.
func sums(folder string) error {
	found, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for _, f := range found {
		if f.Name() == sumsFile || !f.Type().IsRegular() {
			continue
		}
		if files[f.Name()], err = os.ReadFile(filepath.Join(folder, f.Name())); err != nil {
			return err
		}
	}
	return write(filepath.Join(folder, sumsFile), []byte(linuxpkg.Sums(files)), 0o644)
}
