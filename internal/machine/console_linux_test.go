package machine

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// What a terminal is told, as ECMA-48 and xterm name it.
const (
	home       = "\x1b[H"
	toEnd      = "\x1b[J"
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	altScreen  = "\x1b[?1049h"
	mainScreen = "\x1b[?1049l"
)

// colour is an escape that colours or ends that.
var (
	colour = regexp.MustCompile("\x1b\\[[0-9;]*m")
	escape = regexp.MustCompile("\x1b\\[[0-9;?]*[A-Za-z]")
)

// pty is a terminal without a person: what is written to it, and its size.
type pty struct {
	master *os.File
	fd     int // of master
	tty    *os.File

	mu    sync.Mutex
	got   bytes.Buffer
	ended bool
	more  chan struct{} // something came, or nothing comes any more
	read  chan struct{} // closed once nothing comes any more
}

func newPTY(t *testing.T, columns, rows int) *pty {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no terminal can be made here: /dev/ptmx: %v", err)
	}
	p := &pty{fd: fd, master: os.NewFile(uintptr(fd), "/dev/ptmx"), more: make(chan struct{}, 1), read: make(chan struct{})}
	t.Cleanup(func() { p.master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	p.resize(t, columns, rows)
	if p.tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(n)), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("no terminal can be made here: %v", err)
	}
	go func() {
		defer close(p.read)
		p.collect()
	}()
	t.Cleanup(func() { p.end() })
	return p
}

// end closes the terminal, which ends the reading, and returns all that was written to it.
func (p *pty) end() string {
	p.tty.Close()
	<-p.read
	return p.got.String()
}

func (p *pty) resize(t *testing.T, columns, rows int) {
	t.Helper()
	if err := unix.IoctlSetWinsize(p.fd, unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(columns), Row: uint16(rows)}); err != nil {
		t.Fatal(err)
	}
}

func (p *pty) collect() {
	for b := make([]byte, 4096); ; {
		n, err := p.master.Read(b)
		p.mu.Lock()
		p.got.Write(b[:n])
		p.ended = err != nil
		p.mu.Unlock()
		select {
		case p.more <- struct{}{}:
		default:
		}
		if err != nil {
			return
		}
	}
}

// until waits until what was written is as it should be, and returns it.
func (p *pty) until(t *testing.T, what string, is func(string) bool) string {
	t.Helper()
	for patience := time.After(time.Minute); ; {
		p.mu.Lock()
		text, ended := p.got.String(), p.ended
		p.mu.Unlock()
		if is(text) {
			return text
		}
		if ended {
			t.Fatalf("the terminal is closed, and never was there: %s: %q", what, text)
		}
		select {
		case <-p.more:
		case <-patience:
			t.Fatalf("never there: %s: %q", what, text)
		}
	}
}

// pictures are those that were drawn whole, without the escapes, as their rows.
func pictures(text string) (out [][]string) {
	for _, p := range strings.Split(text, home)[1:] {
		if p, _, whole := strings.Cut(p, toEnd); whole && p != "" {
			rows := strings.Split(escape.ReplaceAllString(p, ""), "\n")
			for i := range rows {
				rows[i] = strings.TrimRight(rows[i], "\r")
			}
			out = append(out, rows)
		}
	}
	return out
}

// widest is how many columns the last picture takes.
func widest(text string) (n int) {
	if all := pictures(text); len(all) > 0 {
		for _, row := range all[len(all)-1] {
			n = max(n, len(row))
		}
	}
	return n
}

// watchedNode answers one picture: an event whose detail is wider than any terminal here, and a warning.
type watchedNode struct{ control.Backend }

const eventDetail = "a run that ended in many words "

func (watchedNode) Status(context.Context, control.Peer, wire.StatusRequest) (json.RawMessage, error) {
	return control.EncodeDocument(control.WatchStatus{
		V: control.DocumentVersion, Boot: "one", Node: control.Machine{ID: strings.Repeat("a", 32), Name: "alder"}, Cluster: strings.Repeat("b", 32),
		Conditions: []control.ConditionStatus{{ID: "clock-skewed", Severity: "warning", Detail: "by a minute", Remedy: "timedatectl status"}},
		Events:     []control.Event{{Seq: 1, Kind: control.EventRun, What: "begun", Detail: strings.Repeat(eventDetail, 10)}}, Next: 1,
	})
}

type inMemory struct{ s *control.Server }

func (m inMemory) Open(ctx context.Context) (net.Conn, error) {
	here, there := net.Pipe()
	go m.s.ServeStream(context.WithoutCancel(ctx), control.Peer{Local: true}, there)
	return here, nil
}

func (inMemory) Close() error { return nil }

// watchOn types pacectl watch at a terminal, or a pipe, of such an environment. stop interrupts it and returns its status.
func watchOn(t *testing.T, out *os.File, env map[string]string) (stop func() int) {
	t.Helper()
	server := control.NewServer(control.ServerConfig{Backend: watchedNode{}})
	t.Cleanup(server.Close)
	deps := control.RunDeps{
		Screen:        screen(out, func(name string) (string, bool) { v, ok := env[name]; return v, ok }),
		DialScheduler: func(context.Context, string) (control.Transport, error) { return inMemory{server}, nil },
	}
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		call := config.VerbCall{Name: config.ToolVerb, Words: []string{"watch"}}
		done <- control.Run(ctx, call, config.Config{Scheduler: "10.1.0.1:6674"}, out, &errs, deps)
	}()
	ended := false
	stop = func() int {
		interrupt()
		status := <-done
		if ended = true; errs.Len() > 0 {
			t.Errorf("on stderr: %q", errs.String())
		}
		return status
	}
	t.Cleanup(func() {
		if interrupt(); !ended {
			<-done
		}
	})
	return stop
}

// TestConsoleIsDrawnInPlace: on a real terminal a picture is drawn over the last one, as wide as the window is by then, in
// colour unless that is not wanted; and an interrupt leaves the terminal as it was.
func TestConsoleIsDrawnInPlace(t *testing.T) {
	for name, c := range map[string]struct {
		env      map[string]string
		coloured bool
	}{
		"colour":         {map[string]string{"TERM": "xterm-256color"}, true},
		"empty NO_COLOR": {map[string]string{"TERM": "vt100", "NO_COLOR": ""}, true}, // as no-color.org has it
		"NO_COLOR":       {map[string]string{"TERM": "xterm-256color", "NO_COLOR": "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPTY(t, 80, 24)
			stop := watchOn(t, p.tty, c.env)
			p.until(t, "a picture of 80 columns", func(text string) bool { return widest(text) == 79 })
			p.resize(t, 50, 12)
			p.until(t, "one of 50", func(text string) bool { return widest(text) == 49 })
			p.resize(t, 132, 40)
			text := p.until(t, "one of 132", func(text string) bool { return widest(text) == 131 })
			all := pictures(text)
			if len(all) < 3 {
				t.Fatalf("%d pictures: %q", len(all), text)
			}
			for i, rows := range all {
				most := 40
				if width := widest(strings.Join([]string{home, strings.Join(rows, "\n"), toEnd}, "")); width == 79 {
					most = 24
				} else if width == 49 {
					most = 12
				}
				if len(rows) > most || !strings.Contains(strings.Join(rows, "\n"), "clock-skewed") {
					t.Errorf("picture %d of %d rows: %q", i, len(rows), rows)
				}
			}
			if strings.Count(text, altScreen) != 1 || strings.Count(text, hideCursor) != 1 || strings.Contains(text, showCursor) {
				t.Errorf("not one screen of its own: %q", text)
			}
			if status := stop(); status != config.ExitOK {
				t.Errorf("status %d", status)
			}
			text = p.end()
			if !strings.HasSuffix(text, mainScreen) || strings.LastIndex(text, showCursor) < strings.LastIndex(text, hideCursor) {
				t.Errorf("left with %q", text[max(len(text)-40, 0):])
			}
			set := colour.FindAllString(text, -1)
			if (len(set) > 0) != c.coloured {
				t.Errorf("colours %q, wanted: %v", set, c.coloured)
			}
			if len(set) > 0 && set[len(set)-1] != "\x1b[0m" {
				t.Errorf("the terminal is left in colour %q", set[len(set)-1])
			}
		})
	}
}

// TestConsoleIsWrittenInLines: where no picture can be drawn it is a line an event, without an escape.
func TestConsoleIsWrittenInLines(t *testing.T) {
	for name, env := range map[string]map[string]string{"TERM=dumb": {"TERM": "dumb"}, "no TERM": {}, "an empty TERM": {"TERM": ""}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPTY(t, 80, 24)
			stop := watchOn(t, p.tty, env)
			p.until(t, "the event", func(text string) bool { return strings.Contains(text, eventDetail) && strings.HasSuffix(text, "\n") })
			if status := stop(); status != config.ExitOK {
				t.Errorf("status %d", status)
			}
			text := p.end()
			if strings.Contains(text, "\x1b") || strings.Count(text, "\n") != 1 {
				t.Errorf("%q", text)
			}
		})
	}
	t.Run("a pipe", func(t *testing.T) {
		t.Parallel()
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		stop := watchOn(t, w, map[string]string{"TERM": "xterm-256color"})
		var text []byte
		for b := make([]byte, 1024); !bytes.HasSuffix(text, []byte("\n")); {
			n, err := r.Read(b)
			if text = append(text, b[:n]...); err != nil {
				t.Fatalf("%v: %q", err, text)
			}
		}
		if status := stop(); status != config.ExitOK {
			t.Errorf("status %d", status)
		}
		w.Close()
		n, err := r.Read(make([]byte, 1))
		if n != 0 || err == nil || bytes.Contains(text, []byte("\x1b")) || bytes.Count(text, []byte("\n")) != 1 {
			t.Errorf("%q, and %d more, %v", text, n, err)
		}
	})
}

// TestTerminalIsTold: what is a terminal, and what is none.
func TestTerminalIsTold(t *testing.T) {
	p := newPTY(t, 97, 31)
	none := func(string) (string, bool) { return "", false }
	s := screen(p.tty, none)
	if s == nil || s.Redraw || s.Colour {
		t.Fatalf("%+v", s)
	}
	if columns, rows := s.Size(); columns != 97 || rows != 31 {
		t.Errorf("%d by %d", columns, rows)
	}
	p.resize(t, 20, 5)
	if columns, rows := s.Size(); columns != 20 || rows != 5 {
		t.Errorf("after the window changed: %d by %d", columns, rows)
	}
	file, err := os.Create(t.TempDir() + "/out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, f := range []*os.File{file, null} {
		if screen(f, none) != nil {
			t.Errorf("%s is a terminal", f.Name())
		}
	}
}
