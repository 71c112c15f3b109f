package statedir

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSecondOpenIsRefusedNamingTheDirectoryAndTheHolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := mustOpen(t, path, Options{})
	mustLoad(t, d)
	before := tree(t, path)
	_, err := Open(path, noWait)
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", os.Getpid())) {
		t.Errorf("error %v, want ErrInUse naming %s and this process", err, path)
	}
	if err := ResetIdentity(path, noWait); !errors.Is(err, ErrInUse) {
		t.Errorf("ResetIdentity beside a running node: %v, want ErrInUse", err)
	}
	diff(t, "files", before, tree(t, path))
	d.Close()
	mustOpen(t, path, noWait)
}

func TestOpenWaitsForAShortHolder(t *testing.T) {
	path, _ := started(t)
	d := mustOpen(t, path, Options{})
	done := make(chan error, 1)
	go func() {
		second, err := Open(path, Options{Wait: time.Minute})
		if err == nil {
			err = second.Close()
		}
		done <- err
	}()
	d.Close()
	if err := <-done; err != nil {
		t.Errorf("the waiting one: %v", err)
	}
}

func TestKillReleasesTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	cmd := child(t, "hold", path, "")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(strings.TrimPrefix(line, "holds "))
	if _, err := Open(path, noWait); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprintf("(pid %d)", cmd.Process.Pid)) {
		t.Errorf("beside the child: %v, want ErrInUse naming pid %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	d := mustOpen(t, path, noWait)
	if r, _ := mustLoad(t, d); r.NodeID != id {
		t.Errorf("node id %s, the killed one was %s", r.NodeID, id)
	}
}

func TestPeekBesideARunningNode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	d := mustOpen(t, path, Options{})
	r, key := mustLoad(t, d)
	before := tree(t, path)
	got, public, err := Peek(path)
	if err != nil || public != key.Public() {
		t.Fatalf("Peek: %v, key %s, want %s", err, public, key.Public())
	}
	diff(t, "peeked", r, got)
	got, public, err = Identity(path, noWait, mintFrom(6000))
	if err != nil || public != key.Public() || got.NodeID != r.NodeID {
		t.Errorf("Identity: %v, %s, want %s", err, got.NodeID, r.NodeID)
	}
	diff(t, "files", before, tree(t, path))
}

// TestPeekWaitsForANodeThatIsJustStarting: the wait is virtual, so that a disk may take as long as it likes to mint.
func TestPeekWaitsForANodeThatIsJustStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state")
		d := mustOpen(t, path, Options{})
		type answer struct {
			r   Record
			err error
		}
		answers := make(chan answer, 2)
		go func() { r, _, err := Peek(path); answers <- answer{r, err} }()
		go func() { r, _, err := Identity(path, noWait, mintFrom(6000)); answers <- answer{r, err} }()
		synctest.Wait() // both have looked, and found nothing
		r, _ := mustLoad(t, d)
		for range 2 {
			if a := <-answers; a.err != nil || a.r.NodeID != r.NodeID {
				t.Errorf("%v, id %s, want %s", a.err, a.r.NodeID, r.NodeID)
			}
		}
	})
}

func TestPeekWhereNothingHasRun(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "state")
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		if _, _, err := Peek(path); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "--print-identity") {
			t.Errorf("Peek: %v, want ErrEmpty with the remedy", err)
		}
		if d := time.Since(begun); d != 0 {
			t.Errorf("it waited %v for nobody", d)
		}
	})
	diff(t, "entries", []string{"."}, names(tree(t, parent)))

	r, key, err := Identity(path, Options{}, mintFrom(1))
	if err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, path, noWait)
	if used, private := mustLoad(t, d); used.NodeID != r.NodeID || private.Public() != key {
		t.Errorf("the service uses %s, and %s was printed", used.NodeID, r.NodeID)
	}
}

func TestManyAskForTheIdentityAtOnceAndOneIsMinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	ids := make(chan string, 8)
	for i := range cap(ids) {
		go func() {
			r, _, err := Identity(path, Options{Wait: time.Minute}, mintFrom(uint64(i)*100))
			if err != nil {
				ids <- err.Error()
				return
			}
			ids <- r.NodeID
		}()
	}
	first := <-ids
	for range cap(ids) - 1 {
		if id := <-ids; id != first {
			t.Errorf("one was told %s, another %s", first, id)
		}
	}
}

// FuzzRecord: any bytes are a record that is written again the same, or an error; never a panic.
func FuzzRecord(f *testing.F) {
	good, err := os.ReadFile("testdata/format-1/formation.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte("pace-node-record 2 x\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		again, err := encodeRecord(&r)
		if err != nil {
			t.Fatalf("read and not written: %v", err)
		}
		r2, err := decodeRecord(again)
		if err != nil {
			t.Fatal(err)
		}
		diff(t, "read again", r, r2)
	})
}

// FuzzKey: any bytes are a key file that is written again the same, or an error.
func FuzzKey(f *testing.F) {
	f.Add([]byte("pace-node-key 1 AwoRGB8mLTQ7QklQV15lbHN6gYiPlp2kq7K5wMfO1dw\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		if seed, err := decodeKey(data); err == nil && !bytes.Equal(encodeKey(seed), data) {
			t.Errorf("%q reads as a key and is written %q", data, encodeKey(seed))
		}
	})
}

// FuzzIntent: names that could leave the folder are never accepted.
func FuzzIntent(f *testing.F) {
	f.Add([]byte(`{"format":1,"kind":"cluster","base":"a","names":["consensus"],"number":1}`))
	f.Add([]byte(`{"format":1,"base":"..","names":["a/b"]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := decodeIntent(data)
		if err != nil {
			return
		}
		for _, n := range append(in.Names, in.Base) {
			if filepath.Join("/x/y", n) != "/x/y/"+n && os.PathSeparator == '/' {
				t.Errorf("%q leads elsewhere", n)
			}
		}
	})
}

var _ io.Closer = (*Dir)(nil)
