package statedir

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"pace-node/internal/identity"
)

// Options of Open. The zero value is a node's own start.
type Options struct {
	Point func(name string) // called around each durable step with a name of Points; nil = none
	// Account is the service's account where root opens the directory for it (a verb typed with sudo): the directory may
	// belong to it, and what is made is given to it. nil = the process's own account only.
	Account *Account
	Wait    time.Duration // how long to wait for another process's lock; 0 = 500 ms, negative = not at all
}

// Account is a POSIX user and group.
type Account struct{ UID, GID int }

// Mint is what a first start needs from outside: randomness and the date.
type Mint struct {
	Entropy  func([]byte) // fills its argument with unpredictable bytes
	Now      time.Time    // the founding time of the solitary fleet
	Hardware string       // digest of this machine, "" if unknown
}

// Dir is a state directory held by this process. Its methods may be called from several goroutines.
type Dir struct {
	path  string
	who   *owner
	point func(string)

	mu       sync.Mutex
	lock     *os.File // nil once closed
	made     bool     // the lock's file did not exist before
	oldText  []byte   // what the lock's file held before
	restored bool     // it holds that again
	accepted bool     // Load has read or minted a whole identity
	record   Record
}

// Open makes the state directory, or distrusts the one that exists, and takes its lock. A directory that is a link,
// belongs to another account, or that others can write, and a key that others can read, are refused with the remedy
// (ErrUnsafe); one that another process holds is ErrInUse, naming that process. An archive that a crash interrupted is
// finished.
func Open(path string, opt Options) (*Dir, error) { return open(path, opt, kindSecret) }

func open(path string, opt Options, key kind) (*Dir, error) {
	if path == "" {
		return nil, refuse(ErrUnsafe, "the state directory has no name", "give --state-dir a folder")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	d := &Dir{path: path, point: opt.Point, who: ownerOf(opt)}
	if d.point == nil {
		d.point = quiet
	}
	if err := d.create(); err != nil {
		return nil, err
	}
	if err := d.distrust(key); err != nil {
		return nil, err
	}
	if err := d.takeLock(opt.Wait); err != nil {
		return nil, err
	}
	if err := d.finishArchive(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if _, err := d.finishRestore(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// unusable says what to do where the system does not let the directory be made or used; a refusal says so already.
func (d *Dir) unusable(err error) error {
	var said *refusal
	if err == nil || errors.As(err, &said) {
		return err
	}
	return refuse(err, fmt.Sprintf("the state directory %s cannot be used: %v", d.path, err),
		"let the account that runs the node own it and write there, or give another --state-dir")
}

// create makes the directory, and folders above it, where they are missing.
func (d *Dir) create() error {
	if _, err := os.Lstat(d.path); !errors.Is(err, fs.ErrNotExist) {
		return d.unusable(err)
	}
	d.point("statedir.create.before")
	if err := makeParents(filepath.Dir(d.path)); err != nil {
		return d.unusable(err)
	}
	if err := makeDir(d.path, d.who); err != nil && !errors.Is(err, fs.ErrExist) {
		return d.unusable(err)
	}
	d.point("statedir.create.made")
	if err := syncDir(filepath.Dir(d.path)); err != nil {
		return d.unusable(err)
	}
	d.point("statedir.create.after")
	return nil
}

func makeParents(path string) error {
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := makeParents(filepath.Dir(path)); err != nil {
		return err
	}
	if err := makeParent(path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// distrust checks who could have read or changed what is there. The record is looked at before the key, so that a
// directory somebody else writes is called that and not merely readable.
func (d *Dir) distrust(key kind) error {
	if err := judge(filepath.Dir(d.path), kindParent, d.who); err != nil {
		return err
	}
	if err := judge(d.path, kindDir, d.who); err != nil {
		return err
	}
	for _, f := range []struct {
		name string
		kind kind
	}{{LockFile, kindFile}, {ArchiveDir, kindDir}, {RecordFile, kindFile}, {KeyFile, key}} {
		if err := judge(d.file(f.name), f.kind, d.who); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *Dir) file(name string) string { return filepath.Join(d.path, name) }

func (d *Dir) takeLock(wait time.Duration) error {
	if wait == 0 {
		wait = lockWait
	}
	lock := d.file(LockFile)
	for end := time.Now().Add(wait); ; time.Sleep(pollEvery) {
		f, made, err := openLock(lock)
		switch {
		case err == nil:
			d.lock, d.made = f, made
			if d.oldText, err = io.ReadAll(io.LimitReader(f, 64)); err == nil {
				err = writeLock(f, fmt.Appendf(nil, "%d\n", os.Getpid()))
			}
			if err == nil && made {
				err = give(f, lockMode, d.who)
			}
			if err != nil {
				return errors.Join(fmt.Errorf("lock %s: %w", lock, err), d.Close())
			}
			return nil
		case !errors.Is(err, ErrInUse):
			return d.unusable(err)
		case time.Now().After(end):
			return refuse(ErrInUse, fmt.Sprintf("the state directory %s is in use by another process%s", d.path, holder(lock)),
				"stop that one, or give this one its own --state-dir")
		}
	}
}

func writeLock(f *os.File, text []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt(text, 0)
	return err
}

// holder names the process that wrote its id into the lock's file.
func holder(lock string) string {
	data, err := os.ReadFile(lock)
	if err != nil || len(data) > 20 {
		return ""
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || pid <= 0 {
		return ""
	}
	return fmt.Sprintf(" (pid %d)", pid)
}

// Path is the directory's absolute path.
func (d *Dir) Path() string { return d.path }

// Close gives the lock back. After a refused start the directory is as it was found.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	d.restoreLock()
	err := d.lock.Close()
	d.lock = nil
	return err
}

// restoreLock takes back what takeLock wrote, unless a start was accepted.
func (d *Dir) restoreLock() {
	switch {
	case d.accepted || d.restored:
	case d.made:
		removeLock(d.file(LockFile))
	default:
		writeLock(d.lock, d.oldText)
	}
	d.restored = true
}

// Load reads the identity and the record; the first start mints them, the key before the record, both durable. Anything
// that does not read, or does not belong together, is refused naming the file and the remedy (ErrDamaged,
// ErrNewerFormat); nothing is changed then, and nothing minted.
func (d *Dir) Load(mint Mint) (Record, identity.PrivateKey, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return Record{}, identity.PrivateKey{}, os.ErrClosed
	}
	record, key, err := d.load(mint)
	if err != nil {
		d.restoreLock()
		return Record{}, identity.PrivateKey{}, err
	}
	d.accepted = true
	d.record = record
	return record.clone(), key, SweepTemp(d.path)
}

func (d *Dir) load(mint Mint) (Record, identity.PrivateKey, error) {
	record, key, err := read(d.path)
	missing, partial := err.(*missingError)
	switch {
	case err == nil:
		return record, key, nil
	case !partial:
		return Record{}, identity.PrivateKey{}, err
	case missing.store != "":
		return Record{}, identity.PrivateKey{}, damaged(d.file(missing.name),
			fmt.Errorf("it is missing, and %s shows that a node has run here", d.file(missing.store)))
	case missing.name == KeyFile:
		var seed [32]byte
		mint.Entropy(seed[:])
		err := writeFile(d.file(KeyFile), encodeKey(seed), keyMode, d.who, under(d.point, "statedir.key."))
		if err != nil {
			return Record{}, identity.PrivateKey{}, err
		}
		key = identity.NewPrivateKey(seed)
	}
	record = firstRecord(mint, key.Public())
	if err := d.write(record); err != nil {
		return Record{}, identity.PrivateKey{}, err
	}
	return record, key, nil
}

// firstRecord founds a solitary fleet.
func firstRecord(mint Mint, key identity.PublicKey) Record {
	var node, cluster [16]byte
	mint.Entropy(node[:])
	mint.Entropy(cluster[:])
	return Record{
		Format: RecordFormat, NodeID: identity.NewID(node), PublicKey: key.String(), Mode: Modes[0],
		Cluster: identity.NewID(cluster), Created: FoundingTime(mint.Now), Hardware: mint.Hardware,
	}
}

// FoundingTime is a fleet's creation time as its summary carries it: Unix seconds, and 0 for a clock before 1970.
func FoundingTime(now time.Time) uint64 { return uint64(max(now.Unix(), 0)) }

// missingError is the state before or inside a first start. name is the first file that is missing in the order of
// minting; store is something that only a node which had both can have left, or "".
type missingError struct{ name, store string }

func (e *missingError) Error() string { return e.name + " is missing" }

// read reads key and record. A *missingError comes back where a first start has not happened or was interrupted.
func read(dir string) (Record, identity.PrivateKey, error) {
	keyBytes, keyErr := readSmall(filepath.Join(dir, KeyFile), maxKeyBytes)
	recordBytes, recordErr := readSmall(filepath.Join(dir, RecordFile), maxRecordBytes)
	noKey, noRecord := errors.Is(keyErr, fs.ErrNotExist), errors.Is(recordErr, fs.ErrNotExist)
	var key identity.PrivateKey
	if !noKey {
		if keyErr != nil {
			return Record{}, key, damaged(filepath.Join(dir, KeyFile), keyErr)
		}
		seed, err := decodeKey(keyBytes)
		if err != nil {
			return Record{}, key, damaged(filepath.Join(dir, KeyFile), err)
		}
		key = identity.NewPrivateKey(seed)
	}
	switch {
	case noRecord && noKey:
		return Record{}, key, &missingError{KeyFile, storeIn(dir)}
	case noRecord:
		return Record{}, key, &missingError{RecordFile, storeIn(dir)}
	case recordErr != nil:
		return Record{}, key, damaged(filepath.Join(dir, RecordFile), recordErr)
	}
	record, err := decodeRecord(recordBytes)
	switch {
	case errors.Is(err, ErrNewerFormat):
		return Record{}, key, Refusal(filepath.Join(dir, RecordFile), err, "")
	case err != nil:
		return Record{}, key, damaged(filepath.Join(dir, RecordFile), err)
	case noKey:
		return Record{}, key, damaged(filepath.Join(dir, KeyFile), fmt.Errorf("it is missing, and %s knows its public half", RecordFile))
	case record.PublicKey != key.Public().String():
		return Record{}, key, damaged(filepath.Join(dir, KeyFile),
			fmt.Errorf("its public half is %s, and %s says %s", key.Public(), RecordFile, record.PublicKey))
	}
	return record, key, nil
}

func damaged(path string, why error) error {
	return refuse(ErrDamaged, fmt.Sprintf("%s does not read: %v", path, why),
		"put that file back from a copy of this machine's state directory (nothing was changed), or begin as a new machine with: pace-node --reset-identity")
}

// storeIn finds a store that a node with a record has left.
func storeIn(dir string) string {
	for _, s := range stores {
		if _, err := os.Lstat(filepath.Join(dir, s)); err == nil {
			return s
		}
	}
	return ""
}

// readSmall reads a whole file of at most limit bytes.
func readSmall(path string, limit int64) ([]byte, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a file")
	}
	if info.Size() > limit {
		return nil, fmt.Errorf("it has %d bytes, and at most %d belong there", info.Size(), limit)
	}
	return os.ReadFile(path)
}

// Save writes the record, whole and durable, before the caller acts on it. The ids, the key and the format of the loaded
// record cannot be changed, and the boot counter never goes back.
func (d *Dir) Save(r Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return err
	}
	if r.NodeID != d.record.NodeID || r.PublicKey != d.record.PublicKey {
		return fmt.Errorf("%w: node id and key are minted once, and this one names others", ErrRecord)
	}
	r = r.clone()
	r.Format = RecordFormat
	r.BootCounter = max(r.BootCounter, d.record.BootCounter)
	if err := d.write(r); err != nil {
		return err
	}
	d.record = r
	return nil
}

func (d *Dir) usable() error {
	if d.lock == nil {
		return os.ErrClosed
	}
	if !d.accepted {
		return fmt.Errorf("%w: nothing was loaded", ErrRecord)
	}
	return nil
}

func (d *Dir) write(r Record) error {
	data, err := encodeRecord(&r)
	if err != nil {
		return err
	}
	return writeFile(d.file(RecordFile), data, recordMode, d.who, under(d.point, "statedir.record."))
}

// Record is the record as it was last loaded or saved.
func (d *Dir) Record() Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.record.clone()
}

// NextBoot counts this start, durably, and tells its number; the first is 1.
func (d *Dir) NextBoot() (counter uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(); err != nil {
		return 0, err
	}
	r := d.record
	r.BootCounter++
	if err := d.write(r); err != nil {
		return 0, err
	}
	d.record = r
	return r.BootCounter, nil
}
