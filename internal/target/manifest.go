package target

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"pace-node/internal/wire"
)

const manifestFormat = 1

// manifest is manifest.json: what a provisioned configuration consists of.
type manifest struct {
	Format  int           `json:"format"`
	Cluster string        `json:"cluster"` // fleet that it belongs to
	Node    string        `json:"node"`
	Demand  uint64        `json:"demand"` // the demand that it answers
	Digest  string        `json:"digest"` // of the rows below
	Files   []manifestRow `json:"files"`  // by path, sorted
}

// manifestRow is one file of the configuration.
type manifestRow struct {
	Path   string `json:"path"` // parts joined by "/"
	Mode   string `json:"mode"` // four octal digits
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// digestOf is the digest of a configuration: SHA-256 over each row's path, mode, size and digest, so that the same
// content has the same digest wherever and whenever it was made.
func digestOf(rows []manifestRow) string {
	h := sha256.New()
	for _, r := range rows {
		for _, part := range []string{r.Path, r.Mode, strconv.FormatInt(r.Size, 10), r.SHA256} {
			h.Write(wire.AppendText(nil, part))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func validDigest(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size && strings.ToLower(s) == s
}

func modeText(m fs.FileMode) string { return fmt.Sprintf("%04o", m.Perm()) }

// parseMode reads four octal digits without set-id and sticky bits.
func parseMode(s string) (fs.FileMode, bool) {
	if len(s) != 4 || s[0] != '0' {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 8, 32)
	return fs.FileMode(n), err == nil
}

// makeManifest describes a plan's files, which are sorted.
func makeManifest(cluster, node string, demand uint64, files []planned) manifest {
	m := manifest{Format: manifestFormat, Cluster: cluster, Node: node, Demand: demand}
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		m.Files = append(m.Files, manifestRow{f.path, modeText(f.mode), int64(len(f.data)), hex.EncodeToString(sum[:])})
	}
	m.Digest = digestOf(m.Files)
	return m
}

func encodeManifest(m manifest) ([]byte, error) {
	b, err := json.MarshalIndent(m, "", "  ")
	return append(b, '\n'), err
}

var errManifest = errors.New("it holds what this program never writes")

func decodeManifest(b []byte) (manifest, error) {
	var m manifest
	if err := json.Unmarshal(b, &m); err != nil {
		return manifest{}, err
	}
	if m.Format != manifestFormat {
		return manifest{}, fmt.Errorf("format %d, and this version reads %d", m.Format, manifestFormat)
	}
	if !wire.ValidID(m.Cluster) || !validDemand(m.Demand) || len(m.Files) == 0 {
		return manifest{}, errManifest
	}
	for i, r := range m.Files {
		_, ok := parseMode(r.Mode)
		if !ok || r.Size < 0 || r.Size > MaxBody || !validDigest(r.SHA256) || !filepath.IsLocal(filepath.FromSlash(r.Path)) ||
			i > 0 && m.Files[i-1].Path >= r.Path {
			return manifest{}, errManifest
		}
	}
	if digestOf(m.Files) != m.Digest {
		return manifest{}, errors.New("its digest is not that of its rows")
	}
	return m, nil
}

// configured is what a folder holds. Nothing there: no manifest and no damage.
type configured struct {
	manifest manifest
	damage   string // why it is not whole, escaped; "" if it is
}

func (c configured) missing() bool { return c.manifest.Digest == "" && c.damage == "" }

// whole reports whether there is a configuration that can be used.
func (c configured) whole() bool { return c.manifest.Digest != "" && c.damage == "" }

// load reads a folder and checks every digest in its manifest. Files that the manifest does not name are not part of the
// configuration and are passed over. It never changes anything.
func load(dir string) configured {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return configured{}
	case err != nil:
		return configured{damage: "the folder cannot be read: " + plain(err)}
	case !info.IsDir():
		return configured{damage: "it is no folder (" + info.Mode().Type().String() + ")"}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return configured{damage: "the folder cannot be read: " + plain(err)}
	}
	defer root.Close()
	return loadRoot(root)
}

// loadRoot is load of a folder that is open.
func loadRoot(root *os.Root) configured {
	b, damage := readIn(root, manifestFile, maxManifest)
	if damage != "" {
		return configured{damage: manifestFile + " " + damage}
	}
	m, err := decodeManifest(b)
	if err != nil {
		return configured{damage: manifestFile + " does not read: " + wire.Printable(err.Error())}
	}
	for _, r := range m.Files {
		if damage := checkRow(root, r); damage != "" {
			return configured{manifest: m, damage: shown(r.Path) + " " + damage}
		}
	}
	return configured{manifest: m}
}

func checkRow(root *os.Root, r manifestRow) string {
	b, damage := readIn(root, filepath.FromSlash(r.Path), r.Size)
	if damage != "" {
		return damage
	}
	sum := sha256.Sum256(b)
	if int64(len(b)) != r.Size || hex.EncodeToString(sum[:]) != r.SHA256 {
		return "is not what was provisioned"
	}
	if !hasModes {
		return ""
	}
	want, _ := parseMode(r.Mode)
	info, err := root.Lstat(filepath.FromSlash(r.Path))
	if err != nil {
		return "cannot be read: " + plain(err)
	}
	if info.Mode().Perm()&^want != 0 {
		return fmt.Sprintf("is open to more than it may (mode %s, not %s)", modeText(info.Mode()), r.Mode)
	}
	return ""
}

const isMissing = "is missing"

// readIn reads a regular file, not through a link, of at most max bytes.
func readIn(root *os.Root, name string, max int64) ([]byte, string) {
	info, err := root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, isMissing
	case err != nil:
		return nil, "cannot be read: " + plain(err)
	case !info.Mode().IsRegular():
		return nil, "is no file (" + info.Mode().Type().String() + ")"
	case info.Size() > max:
		return nil, "is longer than it was"
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, "cannot be read: " + plain(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, max+1))
	if err != nil {
		return nil, "cannot be read: " + plain(err)
	}
	return b, ""
}

// readSmall reads a record of this folder, not through a link.
func readSmall(path string, max int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > max {
		return nil, fmt.Errorf("%s is no small file", path)
	}
	return os.ReadFile(path)
}

// plain is an error of the system without its path, which the text around it names.
func plain(err error) string {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	}
	return wire.Printable(err.Error())
}

// sortedJSON is the configuration as it is written: keys sorted, one a line, without HTML's escapes.
func sortedJSON(m map[string]string) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(m)
	return b.Bytes(), err
}

func sortPlan(files []planned) {
	slices.SortFunc(files, func(a, b planned) int { return strings.Compare(a.path, b.path) })
}
