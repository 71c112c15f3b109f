package release

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// ManifestVersion is the form of manifest.json that this package writes and reads.
const ManifestVersion = 1

// Manifest is what the release key signs of one version.
type Manifest struct {
	V       int    `json:"v"`       // ManifestVersion
	Version string `json:"version"` // as Compare orders it
	Files   []File `json:"files"`   // sorted by path
}

// File is one program of a version.
type File struct {
	Path   string `json:"path"`   // <os>-<arch>/pace-node, with slashes
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // 64 lower-case hex digits
}

// ParseManifest reads a manifest whose signature has verified: exactly one JSON object, no key that it does not know.
func ParseManifest(b []byte) (Manifest, error) {
	var m Manifest
	if len(b) > MaxManifest {
		return m, fmt.Errorf("%w: it has %d bytes, and %d are read", ErrManifest, len(b), MaxManifest)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if _, err := d.Token(); err != io.EOF {
		return Manifest{}, fmt.Errorf("%w: something follows the JSON object", ErrManifest)
	}
	if err := m.check(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

func (m Manifest) check() error {
	switch {
	case m.V != ManifestVersion:
		return fmt.Errorf("%w: it is of form %d, and this version reads form %d", ErrManifest, m.V, ManifestVersion)
	case !ValidVersion(m.Version):
		return fmt.Errorf("%w: %w: %q", ErrManifest, ErrVersion, m.Version)
	case len(m.Files) == 0 || len(m.Files) > MaxFiles:
		return fmt.Errorf("%w: it names %d files, and 1 to %d are read", ErrManifest, len(m.Files), MaxFiles)
	}
	for i, f := range m.Files {
		platform, _, _ := bytes.Cut([]byte(f.Path), []byte("/"))
		digest, err := hex.DecodeString(f.SHA256)
		switch {
		case !ValidPlatform(string(platform)) || f.Path != FileOf(string(platform)):
			return fmt.Errorf("%w: %q is not <os>-<arch>/%s", ErrManifest, f.Path, Program)
		case f.Size <= 0 || f.Size > MaxProgram:
			return fmt.Errorf("%w: %s would have %d bytes, and 1 to %d are read", ErrManifest, f.Path, f.Size, MaxProgram)
		case err != nil || len(digest) != 32 || hex.EncodeToString(digest) != f.SHA256:
			return fmt.Errorf("%w: the digest of %s is not 64 lower-case hex digits", ErrManifest, f.Path)
		case i > 0 && m.Files[i-1].Path >= f.Path:
			return fmt.Errorf("%w: %s is out of order, or named twice", ErrManifest, f.Path)
		}
	}
	return nil
}

// Bytes is the manifest as it is signed and kept. Its error is that of a manifest that ParseManifest would refuse.
func (m Manifest) Bytes() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	b, err := json.MarshalIndent(m, "", "  ")
	return append(b, '\n'), err
}

// File finds a platform's program.
func (m Manifest) File(platform string) (File, bool) {
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Path == FileOf(platform) })
	if i < 0 {
		return File{}, false
	}
	return m.Files[i], true
}
