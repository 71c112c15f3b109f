package release

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// New makes a version's folder in a repository and copies each platform's program into it; programs maps <os>-<arch> to
// a file. A folder that is there already is refused: a version never changes. Nothing is left behind after an error.
func New(root, version string, programs map[string]string) (folder string, err error) {
	if !ValidVersion(version) {
		return "", fmt.Errorf("%w: %q", ErrVersion, version)
	}
	if len(programs) == 0 || len(programs) > MaxFiles {
		return "", fmt.Errorf("%w: %d programs, and 1 to %d are taken", ErrManifest, len(programs), MaxFiles)
	}
	folder = filepath.Join(root, folderOf(version))
	if _, err := os.Lstat(folder); err == nil {
		return "", fmt.Errorf("release: %s is there already, and a version never changes: take another version, or remove the folder", folder)
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	staging, err := os.MkdirTemp(root, ".new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(staging)
	if err := os.Chmod(staging, 0o755); err != nil {
		return "", err
	}
	for platform, file := range programs {
		if !ValidPlatform(platform) {
			return "", fmt.Errorf("%w: %q is not <os>-<arch>, for example linux-amd64", ErrManifest, platform)
		}
		if err := copyFile(filepath.Join(staging, filepath.FromSlash(FileOf(platform))), file); err != nil {
			return "", err
		}
	}
	return folder, os.Rename(staging, folder)
}

func copyFile(to, from string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if info, err := in.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() || info.Size() == 0 || info.Size() > MaxProgram {
		return fmt.Errorf("release: %s is no program: a file of 1 to %d bytes", from, MaxProgram)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	if err := out.Sync(); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// Sign writes the manifest of a version's folder and its signature. What the folder holds beside programs is refused, so
// that nothing unsigned travels along.
func Sign(root, version string, key SecretKey) (Manifest, error) {
	if !ValidVersion(version) {
		return Manifest{}, fmt.Errorf("%w: %q", ErrVersion, version)
	}
	folder := filepath.Join(root, folderOf(version))
	m := Manifest{V: ManifestVersion, Version: version}
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if name == ManifestName || name == SignatureName {
			return nil
		}
		platform, _, _ := strings.Cut(name, "/")
		if !ValidPlatform(platform) || name != FileOf(platform) || !d.Type().IsRegular() {
			return fmt.Errorf("%w: %s is no program of this version: remove it", ErrManifest, path)
		}
		f, err := describe(path, name)
		if err == nil {
			m.Files = append(m.Files, f)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("%w: the folder %s; pacectl release new makes it", ErrNotFound, folder)
	}
	if err != nil {
		return Manifest{}, err
	}
	slices.SortFunc(m.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	b, err := m.Bytes()
	if err != nil {
		return Manifest{}, err
	}
	// The signature goes first and comes back last, so that a folder never holds a signed manifest of other programs.
	if err := os.Remove(filepath.Join(folder, SignatureName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, err
	}
	if err := writeFile(filepath.Join(folder, ManifestName), b, 0o644); err != nil {
		return Manifest{}, err
	}
	return m, writeFile(filepath.Join(folder, SignatureName), key.sign(m, b), 0o644)
}

func describe(path, name string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	digest := sha256.New()
	n, err := io.Copy(digest, f)
	return File{Path: name, Size: n, SHA256: hex.EncodeToString(digest.Sum(nil))}, err
}

func writeFile(path string, b []byte, mode os.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// WriteKey makes a release key: the secret at path, mode 0600, sealed under password (plain where that is empty), and the public
// one at path with .pub. Neither may be there yet.
func WriteKey(path, password string) (PublicKey, error) {
	for _, name := range []string{path, path + ".pub"} {
		if _, err := os.Lstat(name); err == nil {
			return PublicKey{}, fmt.Errorf("release: %s is there already, and a key is never written over: name another file", name)
		}
	}
	public, secret, publicFile, err := NewKey(password)
	if err != nil {
		return PublicKey{}, err
	}
	if err := writeNew(path, secret, 0o600); err != nil {
		return PublicKey{}, err
	}
	if err := writeNew(path+".pub", publicFile, 0o644); err != nil {
		os.Remove(path)
		return PublicKey{}, err
	}
	return public, nil
}

func writeNew(path string, b []byte, mode os.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
	}
	return err
}
