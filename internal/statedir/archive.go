package statedir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pace-node/internal/identity"
)

const (
	movingDir     = ".moving"       // an archive that is not whole yet
	doomedPrefix  = ".doomed-"      // an archive that is being removed
	intentFile    = "archived.json" // in each archive: what it is
	identityStart = "identity-"     // archives of a whole identity
	intentFormat  = 1               // format of intentFile
	clusterKind   = "cluster"       // a fleet's stores
	identityKind  = "identity"      // everything, put away by --reset-identity
	unknownID     = "unknown"       // an identity whose record does not read
	maxSuffix     = 10_000          // names tried: far above what is kept
	maxIntent     = 1 << 20         // bytes
)

// keptByReset are the entries that stay when an identity is put away: everything else may hold the old id or key.
var keptByReset = []string{LockFile, ArchiveDir, SocketFile, EnvFile, "lost+found"}

// intent is written before the first move, so that a crash between two moves is finished by the next start.
type intent struct {
	Format int      `json:"format"`
	Kind   string   `json:"kind"` // clusterKind, identityKind
	Base   string   `json:"base"` // folder name without -2, -3
	Names  []string `json:"names"`
	Number uint64   `json:"number"` // rises by one each archive: which are the last 8
	At     int64    `json:"at"`     // Unix seconds, for people
}

// Archive puts the entries named (a fleet's stores, closed by now) away under archive/<cluster>[-2…] and tells where;
// nothing is deleted but the archives beyond the last 8. Names that do not exist are passed over. Called again after a
// crash it finishes the interrupted one; with nothing left to move it tells the last place for that cluster, or "".
func (d *Dir) Archive(cluster string, names ...string) (archivedTo string, err error) {
	if !identity.ValidMintedID(cluster) {
		return "", fmt.Errorf("%w: %q is no cluster id", ErrRecord, cluster)
	}
	for _, n := range names {
		if !filepath.IsLocal(n) || filepath.Base(n) != n || slices.Contains([]string{".", LockFile, ArchiveDir, KeyFile, RecordFile}, n) {
			return "", fmt.Errorf("%w: %q is not an entry that can be archived", ErrRecord, n)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return "", err
	}
	return d.archive(clusterKind, cluster, names)
}

func (d *Dir) archive(kind, base string, names []string) (string, error) {
	if err := d.finishArchive(); err != nil {
		return "", err
	}
	var there []string
	for _, n := range names {
		if _, err := os.Lstat(d.file(n)); err == nil && !slices.Contains(there, n) {
			there = append(there, n)
		}
	}
	if len(there) == 0 {
		return d.lastArchive(kind, base), nil
	}
	d.point("statedir.archive.begin.before")
	moving := d.file(filepath.Join(ArchiveDir, movingDir))
	for _, dir := range []string{d.file(ArchiveDir), moving} {
		if err := makeDir(dir, d.who); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("archive: %w", err)
		}
		if err := syncDir(filepath.Dir(dir)); err != nil {
			return "", fmt.Errorf("archive: %w", err)
		}
	}
	in := intent{Format: intentFormat, Kind: kind, Base: base, Names: there, At: time.Now().Unix(), Number: 1}
	for _, a := range d.archives() {
		in.Number = max(in.Number, a.Number+1)
	}
	data, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	err = writeFile(filepath.Join(moving, intentFile), append(data, '\n'), recordMode, d.who, under(d.point, "statedir.archive.intent."))
	if err != nil {
		return "", err
	}
	return d.carryOut(in)
}

// finishArchive completes what a crash interrupted.
func (d *Dir) finishArchive() error {
	root := d.file(ArchiveDir)
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), doomedPrefix) {
			if err := os.RemoveAll(filepath.Join(root, e.Name())); err != nil {
				return fmt.Errorf("archive: %w", err)
			}
		}
	}
	moving := filepath.Join(root, movingDir)
	if _, err := os.Lstat(moving); errors.Is(err, fs.ErrNotExist) {
		return errors.Join(d.prune(clusterKind), d.prune(identityKind)) // a crash may have come between the last name and these
	}
	in, err := readIntent(moving)
	switch {
	case errors.Is(err, fs.ErrNotExist): // interrupted before anything was to move
		if err := SweepTemp(moving); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		if err := os.Remove(moving); err != nil {
			return damaged(moving, fmt.Errorf("it holds files and no %s", intentFile))
		}
		return syncDir(root)
	case errors.Is(err, ErrNewerFormat):
		return Refusal(filepath.Join(moving, intentFile), err, "")
	case err != nil:
		return damaged(filepath.Join(moving, intentFile), err)
	}
	_, err = d.carryOut(in)
	return err
}

// carryOut moves what the intent names, gives the archive its name, and removes the oldest beyond the last 8.
func (d *Dir) carryOut(in intent) (string, error) {
	root := d.file(ArchiveDir)
	moving := filepath.Join(root, movingDir)
	for _, n := range in.Names {
		to := filepath.Join(moving, n)
		if _, err := os.Lstat(to); err == nil {
			continue // moved before the crash; what now has that name in the state directory is newer
		}
		d.point("statedir.archive.move.before")
		if err := os.Rename(d.file(n), to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("archive: %w (is it still open?)", err)
		}
		d.point("statedir.archive.move.after")
	}
	d.point("statedir.archive.sync.before")
	for _, dir := range []string{moving, d.path} {
		if err := syncDir(dir); err != nil {
			return "", fmt.Errorf("archive: %w", err)
		}
	}
	d.point("statedir.archive.sync.after")
	to := ""
	for i := 1; i <= maxSuffix && to == ""; i++ {
		name := in.Base
		if i > 1 {
			name = fmt.Sprintf("%s-%d", in.Base, i)
		}
		if _, err := os.Lstat(filepath.Join(root, name)); errors.Is(err, fs.ErrNotExist) {
			to = filepath.Join(root, name)
		}
	}
	if to == "" {
		return "", fmt.Errorf("archive: %s has no free name for %s; move old ones away", root, in.Base)
	}
	d.point("statedir.archive.name.before")
	if err := os.Rename(moving, to); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	d.point("statedir.archive.name.renamed")
	if err := syncDir(root); err != nil {
		return "", fmt.Errorf("archive: %w", err)
	}
	d.point("statedir.archive.name.after")
	return to, d.prune(in.Kind)
}

// prune removes the oldest archives of a kind beyond the last 8.
func (d *Dir) prune(kind string) error {
	var mine []archived
	for _, a := range d.archives() {
		if a.Kind == kind {
			mine = append(mine, a)
		}
	}
	for _, a := range mine[:max(0, len(mine)-keptArchives)] {
		doomed := filepath.Join(filepath.Dir(a.path), doomedPrefix+filepath.Base(a.path))
		d.point("statedir.archive.prune.before")
		if err := os.Rename(a.path, doomed); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		d.point("statedir.archive.prune.renamed")
		if err := os.RemoveAll(doomed); err != nil {
			return fmt.Errorf("archive: %w", err)
		}
		d.point("statedir.archive.prune.after")
	}
	return nil
}

type archived struct {
	intent
	path string
}

// archives lists those that this package made, oldest first. A folder without its intent is somebody else's and stays.
func (d *Dir) archives() []archived {
	entries, err := os.ReadDir(d.file(ArchiveDir))
	if err != nil {
		return nil
	}
	var all []archived
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		path := d.file(filepath.Join(ArchiveDir, e.Name()))
		if in, err := readIntent(path); err == nil {
			all = append(all, archived{in, path})
		}
	}
	slices.SortFunc(all, func(a, b archived) int {
		if a.Number != b.Number {
			if a.Number < b.Number {
				return -1
			}
			return 1
		}
		return strings.Compare(a.path, b.path)
	})
	return all
}

func (d *Dir) lastArchive(kind, base string) string {
	last := ""
	for _, a := range d.archives() {
		if a.Kind == kind && a.Base == base {
			last = a.path
		}
	}
	return last
}

func readIntent(dir string) (intent, error) {
	data, err := readSmall(filepath.Join(dir, intentFile), maxIntent)
	if err != nil {
		return intent{}, err
	}
	return decodeIntent(data)
}

func decodeIntent(data []byte) (in intent, err error) {
	if err := json.Unmarshal(data, &in); err != nil {
		return intent{}, err
	}
	if in.Format > intentFormat {
		return intent{}, Newer(uint64(in.Format), intentFormat)
	}
	if in.Format != intentFormat {
		return intent{}, fmt.Errorf("format %d, and this version reads %d", in.Format, intentFormat)
	}
	for _, n := range append([]string{in.Base}, in.Names...) {
		if !filepath.IsLocal(n) || filepath.Base(n) != n || n == "." {
			return intent{}, fmt.Errorf("%q is not a name in one folder", n)
		}
	}
	return in, nil
}

// ResetIdentity puts everything that belongs to this machine's identity away under archive/identity-<id>[-2…], also
// where it no longer reads; the next start mints a new one. ErrInUse while a node runs; nothing to put away is no error.
func ResetIdentity(path string, opts ...Options) error {
	var opt Options
	if len(opts) > 0 {
		opt = opts[0]
	}
	_, err := Reset(path, opt)
	return err
}

// Reset is ResetIdentity, and tells where the old identity is now; "" where there was none.
func Reset(path string, opt Options) (archivedTo string, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", empty(path)
	}
	d, err := open(path, opt, kindFile) // a key that others could read is a reason to reset
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return "", errors.Join(err, d.Close())
	}
	var names []string
	for _, e := range entries {
		if !slices.Contains(keptByReset, e.Name()) {
			names = append(names, e.Name())
		}
	}
	archivedTo, err = d.archive(identityKind, identityStart+d.nameForReset(), names)
	return archivedTo, errors.Join(err, d.Close())
}

// nameForReset is the id of the identity that is put away, as far as anything tells it.
func (d *Dir) nameForReset() string {
	data, err := readSmall(d.file(RecordFile), maxRecordBytes)
	if err != nil {
		return unknownID
	}
	record, err := decodeRecord(data)
	if err != nil {
		return unknownID
	}
	return record.NodeID
}
