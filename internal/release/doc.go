// Package release reads and makes release repositories: folders, also served by http or https, that hold for each version
// the program of each system beside a manifest of their digests, signed in minisign's format by the release key.
//
//	<repository>/<version>/manifest.json
//	<repository>/<version>/manifest.json.minisig
//	<repository>/<version>/<os>-<arch>/pace-node        (pace-node.exe for Windows)
//
// Its one job is to hand out nothing that the release key has not signed. It never runs what it fetched, and never
// decides whether a machine should have it.
package release

import (
	"errors"
	"regexp"
	"strings"
)

// Bounds of a repository: what is larger is refused before it is read.
const (
	// MaxManifest bounds manifest.json, in bytes: a few hundred files.
	MaxManifest = 256 << 10
	// MaxSignature bounds a signature or key file, in bytes; minisign's have about 300.
	MaxSignature = 4 << 10
	// MaxProgram bounds one program, in bytes: ten times today's.
	MaxProgram = 200 << 20
	// MaxFiles bounds the files of one manifest.
	MaxFiles = 64
	// MaxVersion bounds a version's text, in bytes.
	MaxVersion = 64
)

// Names inside a repository.
const (
	ManifestName  = "manifest.json"
	SignatureName = ManifestName + ".minisig"
	Program       = "pace-node"
)

// What goes wrong with a repository.
var (
	// ErrNotFound is a version, or a system of it, that the repository does not hold.
	ErrNotFound = errors.New("release: not in the repository")
	// ErrSignature is a manifest that the release key has not signed.
	ErrSignature = errors.New("release: no valid signature of the release key")
	// ErrDigest is a program that is not the one that the manifest names.
	ErrDigest = errors.New("release: not the program that the manifest names")
	// ErrManifest is a manifest that does not read, or is another version's.
	ErrManifest = errors.New("release: the manifest cannot be used")
	// ErrVersion is a text that is no version.
	ErrVersion = errors.New("release: not a version")
	// ErrKey is a key file or a key's text that does not read.
	ErrKey = errors.New("release: not a minisign key")
	// ErrRepository is an address that is neither a folder nor http(s).
	ErrRepository = errors.New("release: not a repository")
)

// versionText is what RPM and dpkg accept of a version, less what a path could misread.
var versionText = regexp.MustCompile(`^([0-9]+:)?[A-Za-z0-9][A-Za-z0-9.+~^_-]*$`)

// ValidVersion says whether s can be a version: an epoch and a colon or none, then letters, digits and . + ~ ^ _ -, at
// most MaxVersion bytes; it names a folder, so that it begins with no dot.
func ValidVersion(s string) bool {
	return len(s) <= MaxVersion && versionText.MatchString(s)
}

// platformText is a system as Go names it, for example linux-amd64.
var platformText = regexp.MustCompile(`^[a-z0-9]+-[a-z0-9]+$`)

// ValidPlatform says whether s is <os>-<arch>.
func ValidPlatform(s string) bool { return len(s) <= 32 && platformText.MatchString(s) }

// FileOf is the path of a platform's program inside its version's folder, with slashes.
func FileOf(platform string) string {
	if strings.HasPrefix(platform, "windows-") {
		return platform + "/" + Program + ".exe"
	}
	return platform + "/" + Program
}

// folderOf is the folder of a version inside a repository. An epoch's colon cannot stand in a name on Windows, and is
// written as RPM's file names leave it: percent-encoded.
func folderOf(version string) string { return strings.ReplaceAll(version, ":", "%3a") }
