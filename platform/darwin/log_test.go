package darwin

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"pace-node/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestUnderLaunchd(t *testing.T) {
	for _, c := range []struct {
		name   string
		parent int
		want   bool
	}{{"io.pace.node", 1, true}, {"0", 1, false}, {"", 1, false}, {"io.pace.node", 700, false}, {"application.com.apple.Terminal", 700, false}} {
		if got := underLaunchd(func(string) string { return c.name }, c.parent); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestLoggers: a process a severity, with syslog's word for it; one that is gone is started anew.
func TestLoggers(t *testing.T) {
	type process struct {
		strings.Builder
		args   string
		fail   bool
		closed bool
		waited bool
	}
	var all []*process
	broken := 0
	l := &loggers{start: func(args []string) (io.WriteCloser, func(), error) {
		p := &process{args: strings.Join(args, " "), fail: broken > 0}
		if broken > 0 {
			broken--
		}
		all = append(all, p)
		return pipe{func(b []byte) (int, error) {
			if p.fail {
				return 0, io.ErrClosedPipe
			}
			return p.Builder.Write(b)
		}, func() { p.closed = true }}, func() { p.waited = true }, nil
	}}
	log := slog.New(host.NewLines(slog.LevelDebug, "text", l.say))
	log.Info("one")
	log.Error("two", "text", "a\nb")
	log.Info("three")
	all[0].fail = true // it was ended by somebody
	log.Info("four")
	log.Warn("five")
	log.Debug("six")
	broken = 2
	if err := l.say(host.SeverityError, "still there"); err != nil {
		t.Error(err)
	}
	all[1].fail = true
	if err := l.say(host.SeverityError, "nobody"); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
	l.close()
	if err := l.say(host.SeverityInfo, "late"); err != nil {
		t.Error(err)
	}
	var got []string
	for _, p := range all {
		got = append(got, fmt.Sprint(p.args, "|", p.Builder.String()))
		if !p.closed || !p.waited {
			t.Errorf("%s was left", p.args)
		}
	}
	want := []string{
		"-t pace-node -p daemon.notice|msg=one\nmsg=three\n", "-t pace-node -p daemon.err|msg=two text=\"a\\nb\"\nstill there\n", "-t pace-node -p daemon.notice|msg=four\n",
		"-t pace-node -p daemon.warning|msg=five\n", "-t pace-node -p daemon.debug|msg=six\n", "-t pace-node -p daemon.err|",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

type pipe struct {
	write func([]byte) (int, error)
	close func()
}

func (p pipe) Write(b []byte) (int, error) { return p.write(b) }
func (p pipe) Close() error                { p.close(); return nil }

func TestRotate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pace-node.log")
	if err := rotateOnce(path, 10); err != nil {
		t.Errorf("no log: %v", err)
	}
	writer, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600) // as launchd holds it
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for i := range 8 {
		fmt.Fprintf(writer, "line %d, long enough\n", i)
		if err := rotateOnce(path, 10); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprint(writer, "short")
	if err := rotateOnce(path, 10); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "short" {
		t.Errorf("%q, %v", b, err)
	}
	found, _ := filepath.Glob(path + ".*")
	if len(found) != rotatePiece {
		t.Errorf("%q", found)
	}
	for i := range rotatePiece {
		f, err := os.Open(piece(path, i))
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		f.Close()
		if want := fmt.Sprintf("line %d, long enough\n", 7-i); err != nil || string(b) != want {
			t.Errorf("piece %d: %q, %v, want %q", i, b, err, want)
		}
	}
}

// TestRotateWithoutRoom: the log stays whole while nothing can be put beside it, and is given up before it takes more than
// its pieces would.
func TestRotateWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	if err := os.WriteFile(path, []byte("twelve bytes"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path+".new", 0o700); err != nil { // nothing can be written there
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new/x", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rotateOnce(path, 10); err == nil {
		t.Error("it went well")
	}
	if b, _ := os.ReadFile(path); string(b) != "twelve bytes" {
		t.Errorf("%q", b)
	}
	if err := rotateOnce(path, 2); err == nil {
		t.Error("it went well")
	}
	if b, _ := os.ReadFile(path); len(b) != 0 {
		t.Errorf("%q", b)
	}
	if err := os.Symlink("/etc/hostname", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := rotateOnce(filepath.Join(dir, "link"), 0); err != nil {
		t.Errorf("a link is nobody's log: %v", err)
	}
}

func TestRotateUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "log")
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			rotate(ctx, path, func(err error) { t.Error(err) })
		}()
		synctest.Wait()
		if err := os.WriteFile(path, make([]byte, rotateBytes+1), 0o600); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rotateEvery)
		synctest.Wait()
		if info, err := os.Stat(path); err != nil || info.Size() != 0 {
			t.Errorf("%v, %v", info, err)
		}
		cancel()
		<-ended
	})
}
