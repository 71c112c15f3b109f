package statedir

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
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

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// A backup is one line and what is sealed. The line: magic, format, the cost of the key (passes, KiB, lanes), salt, nonce,
// a check of the passphrase, the length of the sealed part, and SHA-256 of all that in hex. The sealed part is
// XChaCha20-Poly1305 over the backup's record and the fleet's state, under a key that Argon2id makes of the passphrase; the
// line is authenticated with it. The check tells a wrong passphrase from a file that was changed; it costs a guesser as
// much as the seal itself does.
const (
	backupMagic  = "pace-node-backup"
	backupFormat = 1
	backupWords  = 10

	saltSize  = 16
	checkSize = 8
	// What is written: RFC 9106's second recommended choice, a tenth of a second on a small machine.
	backupPasses = 3
	backupMemory = 64 << 10 // KiB
	backupLanes  = 4
	// What is read: a file that asks for more is refused before it costs anything.
	maxPasses = 16
	minMemory = 8 << 10 // KiB
	maxMemory = 1 << 20 // KiB
	maxLanes  = 16

	// maxBackup bounds the file: a snapshot, a record, and little more.
	maxBackup = wire.MaxState + maxRecordBytes + 1<<20
	// maxBackupLine is what the first line may have.
	maxBackupLine = 512
)

// Bounds of a passphrase, in bytes. It guards the identity key, and a file may be tried for years.
const (
	MinPassphrase = 12
	MaxPassphrase = 1024
)

var (
	// ErrBackup: a file that is no backup, is cut, or was changed.
	ErrBackup = errors.New("not a backup that can be used")
	// ErrPassphrase: a passphrase that is too weak, or does not open the backup.
	ErrPassphrase = errors.New("the passphrase cannot be used")
)

// Backup is a founder: its record, its key, and the fleet's state as it had applied it. Whoever holds one opened holds the
// machine.
type Backup struct {
	Record  Record
	Seed    [32]byte // of the identity key
	State   []byte   // the fleet's snapshot
	At      int64    // Unix seconds
	Version string   // of the program that wrote it
	Epoch   uint64   // of State
}

// backupBody is the JSON before the state. The state follows it: base64 would make it a third longer.
type backupBody struct {
	Record  json.RawMessage `json:"record"`
	Seed    []byte          `json:"seed"`
	At      int64           `json:"at"`
	Version string          `json:"version"`
	Epoch   uint64          `json:"epoch"`
}

// CheckPassphrase refuses one that is too short to guard a key, or that a terminal could not have typed.
func CheckPassphrase(p []byte) error {
	switch {
	case len(p) < MinPassphrase:
		return refuse(ErrPassphrase, fmt.Sprintf("the passphrase has %d bytes, and it guards this machine's key", len(p)), fmt.Sprintf("take one of at least %d, such as five words", MinPassphrase))
	case len(p) > MaxPassphrase:
		return refuse(ErrPassphrase, fmt.Sprintf("the passphrase has %d bytes", len(p)), fmt.Sprintf("take one of at most %d", MaxPassphrase))
	case bytes.ContainsAny(p, "\x00\r\n"):
		return refuse(ErrPassphrase, "the passphrase holds the end of a line", "put it on one line")
	}
	return nil
}

// Seal encodes the backup under a passphrase.
func (b *Backup) Seal(passphrase []byte, entropy func([]byte)) ([]byte, error) {
	if err := CheckPassphrase(passphrase); err != nil {
		return nil, err
	}
	plain, err := b.encode()
	if err != nil {
		return nil, err
	}
	h := backupHead{passes: backupPasses, memory: backupMemory, lanes: backupLanes, length: uint64(len(plain) + chacha20poly1305.Overhead)}
	entropy(h.salt[:])
	entropy(h.nonce[:])
	key, check := h.derive(passphrase)
	h.check = check
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, err
	}
	line := h.line()
	return aead.Seal(line, h.nonce[:], plain, line), nil
}

// OpenBackup reads what Seal wrote. The error is ErrNewerFormat, ErrPassphrase or ErrBackup, and says what is wrong.
func OpenBackup(data, passphrase []byte) (*Backup, error) { return openBackup(data, passphrase, nil) }

// openBackup takes another way to make the key, in tests.
func openBackup(data, passphrase []byte, derive func(h *backupHead, passphrase []byte) (key []byte, check [checkSize]byte)) (*Backup, error) {
	h, line, sealed, err := readHead(data)
	if err != nil {
		return nil, err
	}
	if derive == nil {
		derive = (*backupHead).derive
	}
	key, check := derive(&h, passphrase)
	if subtle.ConstantTimeCompare(check[:], h.check[:]) != 1 {
		return nil, refuse(ErrPassphrase, "the passphrase does not open the backup", "give the one that it was sealed under; nobody can tell it from the file")
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		return nil, err
	}
	plain, err := aead.Open(nil, h.nonce[:], sealed, line)
	if err != nil {
		return nil, notBackup("its bytes are not those that were written: it was changed, or damaged")
	}
	return decodeBackup(plain)
}

func notBackup(why string) error {
	return refuse(ErrBackup, "the backup cannot be used: "+why, "take another copy of it")
}

// backupHead is the line.
type backupHead struct {
	passes, memory uint32
	lanes          uint8
	salt           [saltSize]byte
	nonce          [chacha20poly1305.NonceSizeX]byte
	check          [checkSize]byte
	length         uint64
}

// derive makes the key and the check of a passphrase.
func (h *backupHead) derive(passphrase []byte) (key []byte, check [checkSize]byte) {
	out := argon2.IDKey(passphrase, h.salt[:], h.passes, h.memory, h.lanes, 2*chacha20poly1305.KeySize)
	sum := sha256.Sum256(append([]byte(backupMagic+" check\n"), out[chacha20poly1305.KeySize:]...))
	copy(check[:], sum[:])
	return out[:chacha20poly1305.KeySize], check
}

func (h *backupHead) line() []byte {
	b := fmt.Appendf(nil, "%s %d %d %d %d %x %x %x %d", backupMagic, backupFormat, h.passes, h.memory, h.lanes, h.salt, h.nonce, h.check, h.length)
	sum := sha256.Sum256(b)
	return fmt.Appendf(b, " %x\n", sum)
}

// readHead reads the line and checks that what follows is whole. Nothing has been trusted then.
func readHead(data []byte) (h backupHead, line, sealed []byte, err error) {
	if len(data) == 0 {
		return h, nil, nil, notBackup("it is empty")
	}
	end := bytes.IndexByte(data[:min(len(data), maxBackupLine)], '\n')
	words := strings.Split(string(data[:max(end, 0)]), " ")
	if !bytes.HasPrefix(data, []byte(backupMagic+" ")) {
		return h, nil, nil, notBackup("its first line is not a backup's")
	}
	if end < 0 {
		return h, nil, nil, notBackup("it is cut short in its first line")
	}
	format, ferr := strconv.ParseUint(words[1], 10, 32)
	if ferr == nil && format > backupFormat {
		return h, nil, nil, refuse(ErrNewerFormat, fmt.Sprintf("the backup has format %d, and this version reads up to %d", format, backupFormat), "install the version that wrote it, or a later one")
	}
	line = data[:end+1]
	if ferr != nil || format == 0 || len(words) != backupWords || !h.read(words) || !bytes.Equal(line, h.line()) {
		return h, nil, nil, notBackup("its first line was changed, or damaged")
	}
	for _, r := range []struct {
		what          string
		got, low, top uint64
	}{{"passes", uint64(h.passes), 1, maxPasses}, {"KiB of memory", uint64(h.memory), minMemory, maxMemory}, {"lanes", uint64(h.lanes), 1, maxLanes}} {
		if r.got < r.low || r.got > r.top {
			return h, nil, nil, notBackup(fmt.Sprintf("opening it would take %d %s, and %d to %d are taken", r.got, r.what, r.low, r.top))
		}
	}
	sealed = data[end+1:]
	switch have := uint64(len(sealed)); {
	case have < h.length:
		return h, nil, nil, notBackup(fmt.Sprintf("it is cut short: %d bytes of %d are there", have, h.length))
	case have > h.length:
		return h, nil, nil, notBackup("something follows its end")
	}
	return h, line, sealed, nil
}

// read takes the words apart; false where one is none of its kind.
func (h *backupHead) read(words []string) bool {
	number := func(s string, bits int) (n uint64, ok bool) {
		n, err := strconv.ParseUint(s, 10, bits)
		return n, err == nil
	}
	passes, a := number(words[2], 32)
	memory, b := number(words[3], 32)
	lanes, c := number(words[4], 8)
	length, d := number(words[8], 63)
	h.passes, h.memory, h.lanes, h.length = uint32(passes), uint32(memory), uint8(lanes), length
	ok := a && b && c && d
	for _, f := range []struct {
		into []byte
		text string
	}{{h.salt[:], words[5]}, {h.nonce[:], words[6]}, {h.check[:], words[7]}} {
		raw, err := hex.DecodeString(f.text)
		ok = ok && err == nil && len(raw) == len(f.into)
		copy(f.into, raw)
	}
	return ok
}

func (b *Backup) encode() ([]byte, error) {
	if b.Record.PublicKey != identity.NewPrivateKey(b.Seed).Public().String() {
		return nil, fmt.Errorf("%w: the key is not the record's", ErrRecord)
	}
	record, err := encodeRecord(&b.Record)
	if err != nil {
		return nil, err
	}
	_, raw, _ := bytes.Cut(record, []byte("\n"))
	head, err := json.Marshal(backupBody{Record: raw, Seed: b.Seed[:], At: b.At, Version: b.Version, Epoch: b.Epoch})
	if err != nil {
		return nil, err
	}
	if len(b.State) > wire.MaxState {
		return nil, fmt.Errorf("%w: the state has %d bytes", ErrBackup, len(b.State))
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(len(head)))
	return append(append(out, head...), b.State...), nil
}

func decodeBackup(plain []byte) (*Backup, error) {
	broken := func(why string) (*Backup, error) {
		return nil, notBackup("what is sealed in it does not read: " + why)
	}
	if len(plain) < 4 {
		return broken("it is too short")
	}
	n := binary.BigEndian.Uint32(plain)
	if uint64(n) > uint64(len(plain)-4) {
		return broken("its first part is longer than the whole")
	}
	var body backupBody
	dec := json.NewDecoder(bytes.NewReader(plain[4 : 4+n]))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&body); err != nil {
		return broken(err.Error())
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return broken("something follows its JSON")
	}
	b := &Backup{At: body.At, Version: body.Version, Epoch: body.Epoch, State: bytes.Clone(plain[4+n:])}
	if len(body.Seed) != len(b.Seed) {
		return broken("it holds no key")
	}
	copy(b.Seed[:], body.Seed)
	rec := json.NewDecoder(bytes.NewReader(body.Record))
	rec.DisallowUnknownFields()
	if err := rec.Decode(&b.Record); err != nil {
		return broken(err.Error())
	}
	if err := b.Record.check(); err != nil {
		return broken(err.Error())
	}
	if b.Record.PublicKey != identity.NewPrivateKey(b.Seed).Public().String() {
		return broken("its key is not the one that its record names")
	}
	return b, nil
}

// ReadBackup reads a backup's file, which is not trusted and may be anything.
func ReadBackup(path string) ([]byte, error) {
	b, err := readSmall(path, maxBackup)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, refuse(ErrBackup, path+" is not there", "give the path of the backup's file")
	}
	if err != nil {
		return nil, refuse(ErrBackup, fmt.Sprintf("%s cannot be read: %v", path, err), "give the path of the backup's file")
	}
	return b, nil
}

// FreeForBackup says what stands where a backup is to be written: the same as WriteBackup, which creates it.
func FreeForBackup(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return errThere(path)
	}
	folder := filepath.Dir(path)
	if info, err := os.Stat(folder); err != nil || !info.IsDir() {
		return refuse(ErrBackup, folder+" is no folder that a backup can be written to", "make it first, or give another path")
	}
	return nil
}

func errThere(path string) error {
	return refuse(ErrBackup, path+" is there already, and no backup is written over anything", "give another name, or move that file away")
}

// WriteBackup puts a sealed backup in a file that did not exist, readable by this account only, and durable.
func WriteBackup(path string, data []byte) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, keyMode)
	if errors.Is(err, fs.ErrExist) {
		return errThere(path)
	}
	if err != nil {
		return fmt.Errorf("write the backup: %w", err)
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(path)
		}
	}()
	if _, err = f.Write(data); err == nil {
		err = f.Chmod(keyMode) // whatever the umask
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("write the backup %s: %w", path, err)
	}
	return nil
}

// Restorable says why a record cannot be put back, nil if it can: only a machine that kept the fleet's state as a voter, of
// a fleet that is more than this machine.
func Restorable(r Record) error {
	if !slices.Contains([]string{"solitary", "pending", "voter"}, r.Mode) || !r.Established && r.Mode != "voter" {
		return refuse(ErrBackup, "this machine is "+article(r.Mode)+", and a backup is of a voter of a fleet", "pacectl fleet status names the voters")
	}
	return nil
}

func article(mode string) string {
	if mode == "solitary" || mode == "pending" {
		return "a fleet of its own that nobody else was ever in"
	}
	return "a " + mode
}
