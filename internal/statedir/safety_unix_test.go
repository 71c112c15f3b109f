//go:build !windows

package statedir

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func withUmask(t *testing.T, mask int) {
	t.Helper()
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

func TestExactModesWhateverTheUmask(t *testing.T) {
	want := map[string]string{
		".":                                    "drwx------",
		"node-key":                             "-rw-------",
		"formation.json":                       "-rw-------",
		"node.lock":                            "-rw-------",
		"archive":                              "drwx------",
		"archive/" + zeroID:                    "drwx------",
		"archive/" + zeroID + "/archived.json": "-rw-------",
	}
	for _, mask := range []int{0, 0o022, 0o077, 0o277} {
		t.Run(fmt.Sprintf("umask %04o", mask), func(t *testing.T) {
			parent := t.TempDir()
			withUmask(t, mask)
			path := filepath.Join(parent, "made", "state")
			d := mustOpen(t, path, Options{})
			mustLoad(t, d)
			write(t, filepath.Join(path, ConsensusDir), nil)
			if _, err := d.Archive(zeroID, ConsensusDir); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for name, text := range tree(t, path) {
				got[name], _, _ = strings.Cut(text, " ")
			}
			delete(got, "archive/"+zeroID+"/"+ConsensusDir)
			diff(t, "modes", want, got)
			above, err := os.Stat(filepath.Join(parent, "made"))
			if err != nil || above.Mode().Perm() != 0o755 {
				t.Errorf("folder above: %v, %v, want 0755", above.Mode(), err)
			}
			for _, mode := range []fs.FileMode{0o600, 0o644, 0o640} {
				file := filepath.Join(path, "written")
				if err := WriteFileAtomic(file, []byte("x"), mode, nil); err != nil {
					t.Fatal(err)
				}
				if info, _ := os.Stat(file); info.Mode() != mode {
					t.Errorf("mode %v, want %v", info.Mode(), mode)
				}
			}
		})
	}
}

const zeroID = "00000000000000000000000000000000"

// refusals is every way in which a directory is not safe, or does not read. change makes it so in a directory in which a
// node has run; want is what the message must name.
var refusals = []struct {
	name   string
	root   bool
	change func(t *testing.T, dir string) (open string)
	kind   error
	want   []string
}{
	{"link to the directory", false, func(t *testing.T, dir string) string {
		link := dir + "-link"
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		return link
	}, ErrUnsafe, []string{"state-link is a link", "--state-dir"}},
	{"a file in the directory's place", false, func(t *testing.T, dir string) string {
		write(t, dir+"-file", nil)
		return dir + "-file"
	}, ErrUnsafe, []string{"state-file is not what belongs there"}},
	{"another owner", true, func(t *testing.T, dir string) string { chown(t, dir, 65534); return dir },
		ErrUnsafe, []string{"belongs to user 65534", "chown"}},
	{"another owner of the key", true, func(t *testing.T, dir string) string { chown(t, dir+"/node-key", 65534); return dir },
		ErrUnsafe, []string{"node-key belongs to user 65534"}},
	{"group may write", false, func(t *testing.T, dir string) string { chmod(t, dir, 0o720); return dir },
		ErrUnsafe, []string{"state can be written by others (mode 0720)", "chmod go-w"}},
	{"others may write", false, func(t *testing.T, dir string) string { chmod(t, dir, 0o702); return dir },
		ErrUnsafe, []string{"state can be written by others (mode 0702)", "chmod go-w"}},
	{"everybody may write above", false, func(t *testing.T, dir string) string { chmod(t, filepath.Dir(dir), 0o777); return dir },
		ErrUnsafe, []string{"above the state directory", "chmod o-w"}},
	{"others may read the key", false, func(t *testing.T, dir string) string { chmod(t, dir+"/node-key", 0o604); return dir },
		ErrUnsafe, []string{"node-key can be read by others (mode 0604)", "chmod 600", "--reset-identity"}},
	{"group may read the key", false, func(t *testing.T, dir string) string { chmod(t, dir+"/node-key", 0o640); return dir },
		ErrUnsafe, []string{"node-key can be read by others (mode 0640)"}},
	{"group may write the key", false, func(t *testing.T, dir string) string { chmod(t, dir+"/node-key", 0o620); return dir },
		ErrUnsafe, []string{"node-key can be written by others"}},
	{"others may write the record", false, func(t *testing.T, dir string) string { chmod(t, dir+"/formation.json", 0o602); return dir },
		ErrUnsafe, []string{"formation.json can be written by others"}},
	{"the key is a link", false, func(t *testing.T, dir string) string { linkAway(t, dir, KeyFile); return dir },
		ErrUnsafe, []string{"node-key is a link"}},
	{"the record is a link", false, func(t *testing.T, dir string) string { linkAway(t, dir, RecordFile); return dir },
		ErrUnsafe, []string{"formation.json is a link"}},
	{"the lock is a link", false, func(t *testing.T, dir string) string { linkAway(t, dir, LockFile); return dir },
		ErrUnsafe, []string{"node.lock is a link"}},
	{"the archive is a link", false, func(t *testing.T, dir string) string {
		write(t, dir+"/archive", nil)
		linkAway(t, dir, ArchiveDir)
		return dir
	}, ErrUnsafe, []string{"archive is a link"}},
	{"the key is a pipe", false, func(t *testing.T, dir string) string {
		os.Remove(dir + "/node-key")
		if err := syscall.Mkfifo(dir+"/node-key", 0o600); err != nil {
			t.Fatal(err)
		}
		return dir
	}, ErrUnsafe, []string{"node-key is not what belongs there"}},

	{"empty key", false, func(t *testing.T, dir string) string { write(t, dir+"/node-key", nil); return dir },
		ErrDamaged, []string{"node-key does not read", "empty", "copy", "--reset-identity"}},
	{"empty record", false, func(t *testing.T, dir string) string { write(t, dir+"/formation.json", nil); return dir },
		ErrDamaged, []string{"formation.json does not read", "empty", "copy", "--reset-identity"}},
	{"torn key", false, func(t *testing.T, dir string) string {
		write(t, dir+"/node-key", read1(t, dir+"/node-key")[:30])
		return dir
	}, ErrDamaged, []string{"node-key does not read"}},
	{"torn record", false, func(t *testing.T, dir string) string {
		data := read1(t, dir+"/formation.json")
		write(t, dir+"/formation.json", data[:len(data)/2])
		return dir
	}, ErrDamaged, []string{"formation.json does not read", "checksum"}},
	{"one digit of the record changed", false, func(t *testing.T, dir string) string {
		data := read1(t, dir+"/formation.json")
		at := strings.Index(string(data), `"created": `) + len(`"created": `)
		data[at] ^= 1
		write(t, dir+"/formation.json", data)
		return dir
	}, ErrDamaged, []string{"formation.json does not read", "checksum"}},
	{"one byte of the key changed", false, func(t *testing.T, dir string) string {
		data := read1(t, dir+"/node-key")
		data[len(keyMagic)+5] ^= 1
		write(t, dir+"/node-key", data)
		return dir
	}, ErrDamaged, []string{"node-key does not read", "public half", "formation.json"}},
	{"key missing", false, func(t *testing.T, dir string) string { os.Remove(dir + "/node-key"); return dir },
		ErrDamaged, []string{"node-key does not read", "missing"}},
	{"record missing beside a store", false, func(t *testing.T, dir string) string {
		os.Remove(dir + "/formation.json")
		os.Mkdir(dir+"/consensus", 0o700)
		return dir
	}, ErrDamaged, []string{"formation.json does not read", "missing", "consensus"}},
	{"both missing beside a store", false, func(t *testing.T, dir string) string {
		os.Remove(dir + "/formation.json")
		os.Remove(dir + "/node-key")
		os.Mkdir(dir+"/follow", 0o700)
		return dir
	}, ErrDamaged, []string{"node-key does not read", "missing", "follow"}},
	{"record of a later format", false, func(t *testing.T, dir string) string {
		write(t, dir+"/formation.json", []byte("pace-node-record 2 and what else it will say\nnot JSON"))
		return dir
	}, ErrNewerFormat, []string{"formation.json", "later version", "format 2", "reads up to 1", "install that version"}},
	{"record with a field of nobody's", false, func(t *testing.T, dir string) string {
		_, body, _ := bytes.Cut(read1(t, dir+"/formation.json"), []byte("\n"))
		body = bytes.Replace(body, []byte("{"), []byte(`{"later": 1,`), 1)
		write(t, dir+"/formation.json", append(fmt.Appendf(nil, "pace-node-record 1 %x\n", sha256.Sum256(body)), body...))
		return dir
	}, ErrDamaged, []string{"formation.json does not read", `"later"`}},
	{"empty record, no lock's file", false, func(t *testing.T, dir string) string {
		os.Remove(dir + "/node.lock")
		write(t, dir+"/formation.json", nil)
		return dir
	}, ErrDamaged, []string{"formation.json does not read"}},
	{"record too large", false, func(t *testing.T, dir string) string {
		write(t, dir+"/formation.json", make([]byte, maxRecordBytes+1))
		return dir
	}, ErrDamaged, []string{"formation.json does not read", "bytes"}},
	{"archive's intent torn", false, func(t *testing.T, dir string) string {
		os.MkdirAll(dir+"/archive/.moving", 0o700)
		chmod(t, dir+"/archive", 0o700)
		write(t, dir+"/archive/.moving/archived.json", []byte(`{"format":`))
		return dir
	}, ErrDamaged, []string{"archived.json does not read"}},
	{"archive's intent points outside", false, func(t *testing.T, dir string) string {
		os.MkdirAll(dir+"/archive/.moving", 0o700)
		write(t, dir+"/archive/.moving/archived.json", []byte(`{"format":1,"kind":"cluster","base":"x","names":["../../etc"]}`))
		return dir
	}, ErrDamaged, []string{"archived.json does not read", "not a name in one folder"}},
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	old, err := os.Stat(path)
	if err == nil {
		err = os.Chmod(path, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(path, old.Mode()) })
}

func chown(t *testing.T, path string, uid int) {
	t.Helper()
	if err := os.Lchown(path, uid, -1); err != nil {
		t.Fatal(err)
	}
}

// linkAway puts a link to the same bytes in an entry's place.
func linkAway(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, name), dir+"-"+name); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir+"-"+name, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func TestRefusalsNameTheFileAndChangeNothing(t *testing.T) {
	for _, c := range refusals {
		t.Run(c.name, func(t *testing.T) {
			if c.root && os.Geteuid() != 0 {
				t.Skip("giving a file to another account needs root")
			}
			dir, _ := started(t)
			open := c.change(t, dir)
			whole := filepath.Dir(dir)
			before := tree(t, whole)
			d, err := Open(open, Options{})
			if err == nil {
				_, _, err = d.Load(mintFrom(7000))
				if again, _, second := d.Load(mintFrom(8000)); second == nil {
					t.Errorf("asked twice, it gave %+v", again)
				}
				d.Close()
			}
			if !errors.Is(err, c.kind) {
				t.Fatalf("error %v, want %v", err, c.kind)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			diff(t, "files after the refusal", before, tree(t, whole))

			if _, _, err := Peek(open); !errors.Is(err, c.kind) && !strings.HasPrefix(c.name, "archive's") {
				t.Errorf("Peek: %v, want %v", err, c.kind)
			}
			diff(t, "files after Peek", before, tree(t, whole))
		})
	}
}

func TestGoodFilesBackItRunsAgain(t *testing.T) {
	dir, r := started(t)
	key := read1(t, dir+"/node-key")
	write(t, dir+"/node-key", nil)
	d := mustOpen(t, dir, Options{})
	if _, _, err := d.Load(mintFrom(9)); !errors.Is(err, ErrDamaged) {
		t.Fatalf("Load: %v", err)
	}
	if _, err := Open(dir, noWait); !errors.Is(err, ErrInUse) {
		t.Errorf("the refused one let go of the lock before Close: %v", err)
	}
	d.Close()
	write(t, dir+"/node-key", key)
	if got, _ := mustLoad(t, mustOpen(t, dir, noWait)); got.NodeID != r.NodeID || got.Cluster != r.Cluster {
		t.Errorf("with the good file back it is %s in %s, and was %s in %s", got.NodeID, got.Cluster, r.NodeID, r.Cluster)
	}
}

// checkPOSIX asks each row of the table by hand: kind, mode, owner → the row that must answer.
func checkPOSIX() error {
	const own, other = 1000, 1001
	cells := []struct {
		kind kind
		mode fs.FileMode
		uid  int
		want string // part of the answer; "" = fine
	}{
		{kindDir, fs.ModeDir | 0o700, own, ""},
		{kindDir, fs.ModeDir | 0o755, own, ""},
		{kindDir, fs.ModeSymlink | 0o777, other, "is a link"}, // and wrong type, owner, writable
		{kindDir, 0o777, other, "not what belongs there"},     // and wrong owner, writable
		{kindDir, fs.ModeDir | 0o777, other, "belongs to user 1001"},
		{kindDir, fs.ModeDir | 0o720, own, "written by others"},
		{kindSecret, 0o600, own, ""},
		{kindSecret, 0o400, own, ""},
		{kindSecret, fs.ModeSymlink | 0o777, other, "is a link"},
		{kindSecret, fs.ModeDir | 0o777, other, "not what belongs there"},
		{kindSecret, 0o666, other, "belongs to user 1001"},
		{kindSecret, 0o666, own, "written by others"},
		{kindSecret, 0o640, own, "read by others"},
		{kindFile, 0o644, own, ""},
		{kindFile, 0o664, own, "written by others"},
		{kindFile, fs.ModeNamedPipe | 0o600, own, "not what belongs there"},
		{kindParent, fs.ModeDir | 0o777, other, "above the state directory"},
		{kindParent, fs.ModeDir | fs.ModeSticky | 0o777, other, ""},
		{kindParent, fs.ModeDir | 0o775, other, ""},
	}
	for _, c := range cells {
		err := judgePOSIX("/s", c.kind, posixFacts{mode: c.mode, uid: c.uid, accepted: []int{own}})
		switch {
		case err == nil && c.want != "":
			return fmt.Errorf("kind %d mode %v uid %d: fine, want %q", c.kind, c.mode, c.uid, c.want)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			return fmt.Errorf("kind %d mode %v uid %d: %w, want %q", c.kind, c.mode, c.uid, err, c.want)
		}
	}
	return nil
}

func TestPOSIXChecks(t *testing.T) {
	if err := checkPOSIX(); err != nil {
		t.Error(err)
	}
}

func TestMutationPOSIXChecks(t *testing.T) {
	for i := range posixChecks {
		old := posixChecks[i]
		posixChecks[i].Bad = func(k kind, f posixFacts) bool { return !old.Bad(k, f) }
		if checkPOSIX() == nil {
			t.Errorf("row %q turned round, and nothing noticed", old.Name)
		}
		posixChecks[i].Bad = func(kind, posixFacts) bool { return false }
		if checkPOSIX() == nil {
			t.Errorf("row %q taken out, and nothing noticed", old.Name)
		}
		posixChecks[i] = old
	}
	for i := range len(posixChecks) - 2 { // the parent's row stands alone
		posixChecks[i], posixChecks[i+1] = posixChecks[i+1], posixChecks[i]
		if err := checkPOSIX(); err == nil {
			t.Errorf("rows %d and %d swapped, and nothing noticed", i, i+1)
		}
		posixChecks[i], posixChecks[i+1] = posixChecks[i+1], posixChecks[i]
	}
}

func TestRootOpensForTheServiceAccount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving a file to another account needs root")
	}
	account := &Account{UID: 65534, GID: 65534}
	parent := t.TempDir()
	path := filepath.Join(parent, "state")
	if _, _, err := Identity(path, Options{Account: account}, mintFrom(1)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".", KeyFile, RecordFile, LockFile} {
		info, err := os.Lstat(filepath.Join(path, name))
		if err != nil {
			t.Fatal(err)
		}
		if st := info.Sys().(*syscall.Stat_t); st.Uid != 65534 || st.Gid != 65534 {
			t.Errorf("%s belongs to %d:%d, and the service cannot use it", name, st.Uid, st.Gid)
		}
	}
	if _, err := Open(path, noWait); !errors.Is(err, ErrUnsafe) {
		t.Errorf("without the account named: %v, want ErrUnsafe", err)
	}
}

func TestMakeFolderIsForThisAccountOnlyAndMadeOnce(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for range 2 {
		if err := MakeFolder(dir); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode() != fs.ModeDir|0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if err := MakeFolder(filepath.Join(dir, "a", "b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the folder above: %v", err)
	}
}

// TestOpenWhereTheSystemRefuses: a folder that cannot be made or locked is named, with what mends it.
func TestOpenWhereTheSystemRefuses(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere; an ordinary user's run has this")
	}
	parent := t.TempDir()
	t.Cleanup(func() { os.Chmod(parent, 0o700) })
	within, made := filepath.Join(parent, "state"), filepath.Join(parent, "made")
	if err := os.Mkdir(made, 0o500); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o500, 0o600} { // it cannot be made, it cannot even be looked at
		if err := os.Chmod(parent, mode); err != nil {
			t.Fatal(err)
		}
		_, err := Open(within, noWait)
		if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), within+" cannot be used") || !strings.Contains(err.Error(), "--state-dir") {
			t.Errorf("in a folder of mode %o: %v", mode, err)
		}
	}
	os.Chmod(parent, 0o700)
	if _, err := Open(made, noWait); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), made+" cannot be used") {
		t.Errorf("a folder that cannot be written: %v", err)
	}
	os.Chmod(made, 0o700)
}

// TestOpenUnderAFile: no account can mend that, and it is told all the same.
func TestOpenUnderAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(file, "state")
	if _, err := Open(path, noWait); err == nil || !strings.Contains(err.Error(), path+" cannot be used") || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("a folder under a file: %v", err)
	}
}
