package statedir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"pace-node/internal/identity"
)

var passphrase = []byte("five words are a passphrase")

func exampleBackup() *Backup {
	seed := sha256.Sum256([]byte("founder"))
	r := Record{Format: RecordFormat, NodeID: strings.Repeat("a", 32), PublicKey: identity.NewPrivateKey(seed).Public().String(), BootCounter: 7, Mode: "voter",
		Cluster: strings.Repeat("c", 32), Created: 1_790_000_000, Established: true, Hardware: "the old one", Rejections: []Rejection{{Cluster: strings.Repeat("d", 32)}}}
	return &Backup{Record: r, Seed: seed, State: []byte("the fleet's state"), At: 1_790_000_100, Version: "1.2.3", Epoch: 4}
}

func entropyOf(n byte) func([]byte) {
	return func(b []byte) {
		for i := range b {
			b[i] = n + byte(i)
		}
	}
}

// quick is a key without its cost.
func quick(h *backupHead, passphrase []byte) (key []byte, check [checkSize]byte) {
	sum := sha256.Sum256(append(append([]byte("key"), h.salt[:]...), passphrase...))
	copy(check[:], sum[:])
	return sum[:], check
}

func TestBackupRoundTrip(t *testing.T) {
	b := exampleBackup()
	sealed, err := b.Seal(passphrase, entropyOf(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range [][]byte{b.Seed[:], b.State, []byte(b.Record.NodeID), []byte(b.Record.Cluster)} {
		if bytes.Contains(sealed, secret) {
			t.Errorf("the file shows %q", secret)
		}
	}
	got, err := OpenBackup(sealed, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", b) {
		t.Errorf("%+v\n%+v", got, b)
	}
	other, err := b.Seal(passphrase, entropyOf(2))
	if err != nil || bytes.Equal(other[len(other)-40:], sealed[len(sealed)-40:]) {
		t.Errorf("two seals of one backup are alike (%v)", err)
	}
}

// TestBackupRefused: each fault of a file has its own sentence and a way out, and the earlier one is the answer.
func TestBackupRefused(t *testing.T) {
	b := exampleBackup()
	sealed, err := b.Seal(passphrase, entropyOf(1))
	if err != nil {
		t.Fatal(err)
	}
	line, body, _ := bytes.Cut(sealed, []byte("\n"))
	relined := func(change func(words []string)) []byte {
		words := strings.Split(string(line), " ")
		change(words)
		text := strings.Join(words[:len(words)-1], " ")
		return append(fmt.Appendf([]byte(text), " %x\n", sha256.Sum256([]byte(text))), body...)
	}
	flipped := func(at int) []byte {
		out := bytes.Clone(sealed)
		out[at] ^= 1
		return out
	}
	for _, c := range []struct {
		name string
		data []byte
		pass string
		want error
		word string
	}{
		{"empty", nil, "", ErrBackup, "it is empty"},
		{"another file", []byte("PK\x03\x04 something else\n"), "", ErrBackup, "first line is not a backup's"},
		{"cut in its line", sealed[:40], "", ErrBackup, "cut short in its first line"},
		{"a later format", append([]byte("pace-node-backup 2 whatever comes\n"), body...), "", ErrNewerFormat, "format 2"},
		{"its line changed", flipped(30), "", ErrBackup, "first line was changed"},
		{"its line's sum changed", flipped(len(line) - 1), "", ErrBackup, "first line was changed"},
		{"costs too much memory", relined(func(w []string) { w[3] = "99999999" }), "", ErrBackup, "99999999 KiB of memory"},
		{"costs too many passes", relined(func(w []string) { w[2] = "17" }), "", ErrBackup, "17 passes"},
		{"costs no pass", relined(func(w []string) { w[2] = "0" }), "", ErrBackup, "0 passes"},
		{"too many lanes", relined(func(w []string) { w[4] = "200" }), "", ErrBackup, "200 lanes"},
		{"too little memory", relined(func(w []string) { w[3] = "1" }), "", ErrBackup, "1 KiB"},
		{"cut short", sealed[:len(sealed)-5], "", ErrBackup, "cut short: " + fmt.Sprint(len(body)-5) + " bytes of " + fmt.Sprint(len(body))},
		{"cut after its line", sealed[:len(line)+1], "", ErrBackup, "cut short: 0 bytes"},
		{"something behind it", append(bytes.Clone(sealed), 'x'), "", ErrBackup, "follows its end"},
		{"a wrong passphrase", sealed, "five words are no passphrase", ErrPassphrase, "does not open the backup"},
		{"another salt", relined(func(w []string) { w[5] = strings.Repeat("0", 2*saltSize) }), "", ErrPassphrase, "does not open"},
		{"changed", flipped(len(sealed) - 20), "", ErrBackup, "changed, or damaged"},
		{"its nonce changed", relined(func(w []string) { w[6] = strings.Repeat("0", 48) }), "", ErrBackup, "changed, or damaged"},
		{"its cost made less", relined(func(w []string) { w[2] = "2" }), "", ErrPassphrase, "does not open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			pass := passphrase
			if c.pass != "" {
				pass = []byte(c.pass)
			}
			_, err := OpenBackup(c.data, pass)
			var r *refusal
			if !errors.Is(err, c.want) || !errors.As(err, &r) || r.Remedy() == "" || !strings.Contains(err.Error(), c.word) {
				t.Errorf("%v, want %v with %q", err, c.want, c.word)
			}
		})
	}
}

// TestBackupContentRefused: what is sealed is judged too: whoever knows the passphrase may have written it.
func TestBackupContentRefused(t *testing.T) {
	for name, change := range map[string]func(b *Backup){
		"another key":     func(b *Backup) { b.Seed[0] ^= 1 },
		"a bad record":    func(b *Backup) { b.Record.NodeID = "x" },
		"a mode unheard":  func(b *Backup) { b.Record.Mode = "king" },
		"a bad recovery":  func(b *Backup) { b.Record.Recovery = &Recovery{} },
		"too large state": func(b *Backup) { b.State = make([]byte, maxBackup) },
	} {
		b := exampleBackup()
		change(b)
		if _, err := b.Seal(passphrase, entropyOf(1)); err == nil {
			t.Errorf("%s is sealed", name)
		}
	}
	for name, plain := range map[string]string{
		"nothing": "", "three bytes": "abc", "a length beyond it": "\x00\x00\xff\xff{}", "no JSON": "\x00\x00\x00\x02{x", "another JSON": "\x00\x00\x00\x0f{\"else\":\"than\"}",
		"two values": "\x00\x00\x00\x04{}{}", "no key": "\x00\x00\x00\x0d{\"record\":{}}",
	} {
		if _, err := decodeBackup([]byte(plain)); !errors.Is(err, ErrBackup) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPassphrase(t *testing.T) {
	for text, ok := range map[string]bool{
		"": false, strings.Repeat("x", MinPassphrase-1): false, strings.Repeat("x", MinPassphrase): true, strings.Repeat("x", MaxPassphrase): true,
		strings.Repeat("x", MaxPassphrase+1): false, "two lines\nof words": false, "ended by a zero\x00": false, "zwölf Zeichen": true,
	} {
		err := CheckPassphrase([]byte(text))
		if ok != (err == nil) || err != nil && (!errors.Is(err, ErrPassphrase) || len(text) > 0 && len(text) < 40 && strings.Contains(err.Error(), text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestBackupFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "founder.backup")
	if err := WriteBackup(path, []byte("sealed")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, mode %v", err, info.Mode())
	}
	if err := WriteBackup(path, []byte("other")); !errors.Is(err, ErrBackup) || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("written over: %v", err)
	}
	if b, err := ReadBackup(path); err != nil || string(b) != "sealed" {
		t.Errorf("%q, %v", b, err)
	}
	if err := WriteBackup(filepath.Join(dir, "no", "such"), nil); err == nil || errors.Is(err, ErrBackup) {
		t.Errorf("no folder: %v", err)
	}
	for _, bad := range []string{filepath.Join(dir, "none"), dir} {
		if _, err := ReadBackup(bad); !errors.Is(err, ErrBackup) || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func FuzzOpenBackup(f *testing.F) {
	b := exampleBackup()
	sealed, err := b.Seal(passphrase, entropyOf(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sealed)
	f.Add(sealed[:len(sealed)-1])
	f.Add([]byte("pace-node-backup 1 3 65536 4 00 00 00 0 00\n"))
	f.Add([]byte("pace-node-backup 9\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := openBackup(data, passphrase, quick)
		if (got == nil) == (err == nil) {
			t.Fatalf("%v, %v", got, err)
		}
		if err != nil && !errors.Is(err, ErrBackup) && !errors.Is(err, ErrPassphrase) && !errors.Is(err, ErrNewerFormat) {
			t.Fatal(err)
		}
	})
}

func FuzzDecodeBackup(f *testing.F) {
	plain, err := exampleBackup().encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(plain)
	f.Add(plain[:len(plain)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := decodeBackup(data)
		if err != nil {
			if !errors.Is(err, ErrBackup) {
				t.Fatal(err)
			}
			return
		}
		again, err := b.encode()
		if err != nil {
			t.Fatalf("what was read can't be written: %v", err)
		}
		if c, err := decodeBackup(again); err != nil || fmt.Sprintf("%+v", c) != fmt.Sprintf("%+v", b) {
			t.Fatalf("%v\n%+v\n%+v", err, c, b)
		}
	})
}

// buildMarker stands for the building of a store.
func buildMarker(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "marker"), []byte("store"), 0o600)
}

func restoredRight(t *testing.T, dir string) {
	t.Helper()
	b := exampleBackup()
	d, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	r, key, err := d.Load(mintFrom(9))
	if err != nil {
		t.Fatal(err)
	}
	if r.NodeID != b.Record.NodeID || key.Seed() != b.Seed || r.Mode != "voter" || !r.Established || r.Cluster != b.Record.Cluster || r.BootCounter != 7 ||
		r.Hardware != "the new one" || r.Recovery == nil || *r.Recovery != (Recovery{Epoch: 5, From: FromBackup}) {
		t.Errorf("restored is %+v", r)
	}
	if got, err := os.ReadFile(filepath.Join(dir, RecoveredDir, "marker")); err != nil || string(got) != "store" {
		t.Errorf("its store: %q, %v", got, err)
	}
	for name := range tree(t, dir) {
		if strings.Contains(name, restoringDir) || strings.Contains(name, movingDir) || strings.Contains(name, tempMark) {
			t.Errorf("%s is left over", name)
		}
	}
}

func TestRestore(t *testing.T) {
	b := exampleBackup()
	t.Run("where nothing was", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		to, err := Restore(dir, Options{}, b, "the new one", buildMarker)
		if err != nil || to != "" {
			t.Fatalf("%q, %v", to, err)
		}
		restoredRight(t, dir)
	})
	t.Run("over a fleet of one", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		was, _, err := Identity(dir, Options{}, mintFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := buildMarker(filepath.Join(dir, ConsensusDir)); err != nil {
			t.Fatal(err)
		}
		to, err := Restore(dir, Options{}, b, "the new one", buildMarker)
		if err != nil || to != filepath.Join(dir, ArchiveDir, identityStart+was.NodeID) {
			t.Fatalf("%q, %v", to, err)
		}
		for _, name := range []string{KeyFile, RecordFile, ConsensusDir} {
			if _, err := os.Lstat(filepath.Join(to, name)); err != nil {
				t.Error(err)
			}
		}
		restoredRight(t, dir)
		if _, err := Restore(dir, Options{}, b, "", buildMarker); !errors.Is(err, ErrEstablished) || !strings.Contains(err.Error(), "--reset-identity") {
			t.Errorf("restored over a fleet: %v", err)
		}
	})
	t.Run("a running node", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		d, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		if _, err := Restore(dir, Options{Wait: -1}, b, "", buildMarker); !errors.Is(err, ErrInUse) {
			t.Error(err)
		}
	})
	t.Run("a damaged directory", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		if _, _, err := Identity(dir, Options{}, mintFrom(1)); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(filepath.Join(dir, KeyFile), 0); err != nil {
			t.Fatal(err)
		}
		before := fmt.Sprint(tree(t, dir))
		if _, err := Restore(dir, Options{}, b, "", buildMarker); !errors.Is(err, ErrDamaged) {
			t.Error(err)
		}
		if after := fmt.Sprint(tree(t, dir)); after != before {
			t.Errorf("%s\n%s", before, after)
		}
	})
	t.Run("a store that can't be built", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		was, _, err := Identity(dir, Options{}, mintFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Restore(dir, Options{}, b, "", func(string) error { return fs.ErrPermission }); !errors.Is(err, fs.ErrPermission) {
			t.Error(err)
		}
		if r, _, err := Identity(dir, Options{}, mintFrom(2)); err != nil || r.NodeID != was.NodeID {
			t.Errorf("%v, %s of %s", err, r.NodeID, was.NodeID)
		}
	})
	t.Run("a learner's record", func(t *testing.T) {
		l := exampleBackup()
		l.Record.Mode = "learner"
		if _, err := Restore(filepath.Join(t.TempDir(), "state"), Options{}, l, "", buildMarker); !errors.Is(err, ErrBackup) {
			t.Error(err)
		}
	})
}

// TestCrashInARestore: up to its commit the old machine is there, whole; from there on the next start has the restored one.
func TestCrashInARestore(t *testing.T) {
	reached := 0
	var stops []string
	for _, point := range RestorePoints {
		stops = append(stops, point+"@1")
	}
	stops = append(stops, "statedir.restore.place.moved@2", "statedir.restore.place.moved@3", "statedir.archive.begin.before@1", "statedir.archive.intent.rename.after@1",
		"statedir.archive.move.before@1", "statedir.archive.move.after@1", "statedir.archive.move.after@2", "statedir.archive.move.after@3", "statedir.archive.name.renamed@1")
	for _, point := range stops {
		dir := filepath.Join(t.TempDir(), "state")
		was, _, err := Identity(dir, Options{}, mintFrom(1))
		if err != nil {
			t.Fatal(err)
		}
		if err := buildMarker(filepath.Join(dir, ConsensusDir)); err != nil {
			t.Fatal(err)
		}
		if out, err := child(t, "restore", dir, point).Output(); err == nil {
			t.Errorf("no child came to %s: %s", point, out)
			continue
		}
		reached++
		_, err = os.Lstat(filepath.Join(dir, restoringDir))
		committed := err == nil
		if _, _, err := peekOnce(dir, nil); committed && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: a verb reads %v in the middle of it", point, err)
		}
		r, _, err := Identity(dir, Options{}, mintFrom(2))
		if committed { // a verb that reads only does not finish it
			d, oerr := Open(dir, Options{})
			if oerr != nil {
				t.Fatal(oerr)
			}
			d.Close()
			r, _, err = Identity(dir, Options{}, mintFrom(2))
		}
		if err != nil {
			t.Fatalf("%s: %v", point, err)
		}
		switch r.NodeID {
		case was.NodeID:
			if committed {
				t.Errorf("%s: the old machine is back", point)
			}
			if _, err := Restore(dir, Options{}, exampleBackup(), "the new one", buildMarker); err != nil {
				t.Errorf("%s: %v", point, err)
			}
		case exampleBackup().Record.NodeID:
		default:
			t.Errorf("%s: a third machine", point)
		}
		restoredRight(t, dir)
		if _, err := os.Lstat(filepath.Join(dir, ArchiveDir, identityStart+was.NodeID, ConsensusDir, "marker")); err != nil {
			t.Errorf("%s: %v", point, err)
		}
	}
	if reached == 0 {
		t.Error("no point was reached")
	}
}

func childRestore(dir string, point func(string)) {
	_, err := Restore(dir, Options{Point: point}, exampleBackup(), "the new one", buildMarker)
	childFatal(err)
}
