package linuxpkg

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

const (
	name       = "pace-node"
	maintainer = "pace-node maintainers <maintainers@pace-node.invalid>"
	homepage   = "https://pace-node.invalid/"
	summary    = "make machines find one another and become one fleet"
	details    = "Installed with no configuration it founds a fleet of one and serves; it finds\n" +
		"other machines on its network, and a person who compares keys admits one to the\n" +
		"fleet of another. The fleet's leader provisions its members.\n" +
		"pacectl is the operator's tool."
	license   = "Apache-2.0"
	release   = "1" // packages are rebuilt by a new version, never by a new release
	buildHost = "reproducible"
)

// Build is one build of the packages of one processor.
type Build struct {
	Root    string    // of the tree
	Version string    // as Version returns it
	Arch    string    // as Go names it
	Tags    string    // build tags, separated by commas; a package that is given to people has none
	Time    time.Time // of the tree; every file has it
	Scratch string    // a folder of this build's own
}

func (b *Build) path(parts ...string) string {
	return filepath.Join(append([]string{b.Root}, parts...)...)
}
func (b *Build) temp(name string) string { return filepath.Join(b.Scratch, name) }

// Binary compiles the program, stripped, to b's scratch folder and returns its path. Two calls on one tree make the same
// bytes: no path, no build id and no commit is in it but the version.
func (b *Build) Binary() (string, error) {
	out := b.temp(name)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", b.Tags,
		"-ldflags", "-s -w -buildid= -X pace-node/internal/version.Version="+b.Version, "-o", out, "./cmd/pace-node")
	cmd.Dir, cmd.Stderr = b.Root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.Arch, "GOFLAGS=", "GOWORK=off")
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("compiling for linux/%s: %w", b.Arch, err)
	}
	return out, nil
}

// Derive writes what rows made by this program have as source, beside the binary. Packages are made after it.
func (b *Build) Derive() error {
	for dst, src := range map[string]string{
		"pace-node.8.gz": "docs/pace-node.8", "pacectl.1.gz": "docs/pacectl.1", "changelog.gz": "CHANGELOG.md",
	} {
		data, err := os.ReadFile(b.path(src))
		if err != nil {
			return err
		}
		if err := os.WriteFile(b.temp(dst), squeeze(data), 0o644); err != nil {
			return err
		}
	}
	entry := fmt.Sprintf("%s (%s-%s) unstable; urgency=medium\n\n  * What changed is in changelog.gz beside this file.\n\n -- %s  %s\n",
		name, b.Version, release, maintainer, b.Time.UTC().Format(time.RFC1123Z))
	if err := os.WriteFile(b.temp("changelog.Debian.gz"), squeeze([]byte(entry)), 0o644); err != nil {
		return err
	}
	text, err := os.ReadFile(b.path("LICENSE"))
	if err != nil {
		return err
	}
	return os.WriteFile(b.temp("LICENSE"), text, 0o644)
}

// squeeze is gzip -9n: neither a name nor a date is in it.
func squeeze(data []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is one
	w.Write(data)                                           // to memory
	w.Close()
	return out.Bytes()
}

// Package returns the bytes of one package and the name that its format gives it. Those of several formats may be made at a
// time: nothing of b is changed.
func (b *Build) Package(format string) (file string, data []byte, err error) {
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", nil, err
	}
	info := nfpm.WithDefaults(b.info(format))
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return "", nil, fmt.Errorf("%s for %s: %w", format, b.Arch, err)
	}
	var out bytes.Buffer
	if err := packager.Package(info, &out); err != nil {
		return "", nil, fmt.Errorf("%s for %s: %w", format, b.Arch, err)
	}
	data = out.Bytes()
	if format == "rpm" {
		if data, err = relativeNames(data); err != nil {
			return "", nil, fmt.Errorf("%s for %s: %w", format, b.Arch, err)
		}
	}
	return packager.ConventionalFileName(info), data, nil
}

func (b *Build) info(format string) *nfpm.Info {
	var list files.Contents
	for _, r := range contents {
		if r.only == "" || r.only == format {
			list = append(list, r.in(b, format))
		}
	}
	s := scripts[format]
	where := func(script string) string {
		if script == "" {
			return ""
		}
		return b.path("packaging", "linux", script)
	}
	info := &nfpm.Info{
		Name: name, Arch: b.Arch, Platform: "linux", Version: b.Version, VersionSchema: "none", Release: release,
		Section: "net", Priority: "optional", Maintainer: maintainer, Description: summary + "\n" + details,
		Vendor: "pace-node", Homepage: homepage, License: license, DisableGlobbing: true, MTime: b.Time,
		Overridables: nfpm.Overridables{
			Depends: slices.Clone(depends[format]), Contents: list, Umask: 0o022,
			Scripts: nfpm.Scripts{PostInstall: where(s.postinstall), PreRemove: where(s.preremove), PostRemove: where(s.postremove)},
		},
	}
	switch format {
	case "deb":
		info.Recommends = []string{"systemd"}
		info.Suggests = []string{"firewalld | ufw | nftables"}
		info.Deb.Compression = "xz"
		info.Deb.Scripts = nfpm.DebScripts{Config: where(s.config), Templates: where(s.templates)}
	case "rpm":
		info.RPM.Summary, info.RPM.BuildHost, info.RPM.Compression, info.RPM.Group = strings.ToUpper(summary[:1])+summary[1:], buildHost, "xz", "System Environment/Daemons"
	}
	return info
}

// Sums is the text of SHA256SUMS, which sha256sum -c reads: a line a file, by name.
func Sums(files map[string][]byte) string {
	var names []string
	for n := range files {
		names = append(names, n)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, n := range names {
		sum := sha256.Sum256(files[n])
		fmt.Fprintf(&out, "%s  %s\n", hex.EncodeToString(sum[:]), n)
	}
	return out.String()
}
