package darwin

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"pace-node/internal/host"
)

const (
	loggerPath = "/usr/bin/logger" // writes to the unified log, which has no door for a program without cgo
	loggerTag  = "pace-node"
	loggerWait = 2 * time.Second // for the last lines, at the end
	logQueue   = 1024            // lines that may wait for it

	rotatePlist = "/Library/LaunchDaemons/io.pace.node.rotate.plist"

	rotateEvery = time.Hour
	rotateBytes = 10 << 20 // the log is then copied and emptied
	rotatePiece = 5        // older pieces beside it, compressed
)

// priorities are syslog's, which macOS keeps as levels of the unified log. What is under notice is not kept on disk there.
var priorities = map[host.Severity]string{
	host.SeverityDebug: "daemon.debug", host.SeverityInfo: "daemon.notice", host.SeverityWarning: "daemon.warning", host.SeverityError: "daemon.err",
}

func loggerArgs(s host.Severity) []string { return []string{"-t", loggerTag, "-p", priorities[s]} }

// underLaunchd reports whether launchd started this process as a daemon: it says the label then, and 0 in a shell.
func underLaunchd(getenv func(string) string, parent int) bool {
	name := getenv("XPC_SERVICE_NAME")
	return parent == 1 && name != "" && name != "0"
}

// loggers hands lines to one logger process a severity, each started with its first line.
type loggers struct {
	start func(args []string) (io.WriteCloser, func(), error) // the process's stdin, and how to wait for its end

	mu      sync.Mutex
	running map[host.Severity]*logger
	closed  bool
}

type logger struct {
	in   io.WriteCloser
	wait func()
}

// say writes one line. A logger that is gone is started once more; what cannot be said stands in the file all the same.
func (l *loggers) say(s host.Severity, line string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	line = strings.ReplaceAll(line, "\n", " ") + "\n"
	var err error
	for range 2 {
		p := l.running[s]
		if p == nil {
			in, wait, failed := l.start(loggerArgs(s))
			if failed != nil {
				return failed
			}
			p = &logger{in, wait}
			if l.running == nil {
				l.running = map[host.Severity]*logger{}
			}
			l.running[s] = p
		}
		if _, err = io.WriteString(p.in, line); err == nil {
			return nil
		}
		p.in.Close()
		p.wait()
		delete(l.running, s)
	}
	return err
}

// close ends the processes once they have read all.
func (l *loggers) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for s, p := range l.running {
		p.in.Close()
		p.wait()
		delete(l.running, s)
	}
}

// startLogger is start of this machine.
func startLogger(args []string) (io.WriteCloser, func(), error) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, loggerPath, args...)
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	return in, func() {
		late := time.AfterFunc(loggerWait, cancel)
		defer late.Stop()
		defer cancel()
		_ = cmd.Wait() // it was asked to end
	}, nil
}

// rotate keeps the daemon's log small until ctx ends. launchd holds it open for as long as the daemon runs, so it is copied
// and then emptied, which a file that is opened to append allows; what is written between the two is lost, a line at most.
func rotate(ctx context.Context, path string, failed func(error)) {
	every := time.NewTicker(rotateEvery)
	defer every.Stop()
	for {
		if err := rotateOnce(path, rotateBytes); err != nil {
			failed(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// rotateOnce makes a compressed piece of a log of more than limit bytes, and empties it. The pieces are path.0.gz, the
// newest, to path.4.gz. On an error the log is as it was, unless its disk is so full that the pieces would take less: then
// it is given up.
func rotateOnce(path string, limit int64) (err error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() <= limit {
		return err
	}
	defer func() {
		if err != nil && info.Size() > limit*rotatePiece {
			err = errors.Join(err, os.Truncate(path, 0))
		}
	}()
	fresh := path + ".new"
	if err := compress(path, fresh); err != nil {
		return errors.Join(err, os.Remove(fresh))
	}
	for i := rotatePiece - 1; i > 0; i-- {
		if err := os.Rename(piece(path, i-1), piece(path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(fresh, piece(path, 0)); err != nil {
		return err
	}
	return os.Truncate(path, 0)
}

func piece(path string, i int) string { return fmt.Sprintf("%s.%d.gz", path, i) }

func compress(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	z := gzip.NewWriter(out)
	_, err = io.Copy(z, bufio.NewReader(in))
	return errors.Join(err, z.Close(), out.Close())
}
