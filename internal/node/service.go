package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/host"
	"pace-node/internal/statedir"
	"pace-node/internal/target"
)

// Service is what the command hands over to run a node until it is told to stop.
type Service struct {
	Settings    config.Config
	State       statedir.Options
	Mint        statedir.Mint
	AdminSocket string
	Hooks       host.Hooks
	Stderr      io.Writer
	Point       func(string) // crash points of a test build; nil: none
	Upgrade     target.Upgrader
	Served      func() // called once the node serves; nil: nobody asks
}

// Serve runs a node under the platform's service manager, or in the foreground, and returns the exit status.
func Serve(h host.Host, s Service) int {
	err := h.RunService(func(ctx context.Context) error { return s.run(ctx, h, s.logger(h)) }, exitOf)
	if err != nil {
		fmt.Fprintf(s.Stderr, "pace-node: %v\n", err)
	}
	return exitOf(err)
}

// collectAt is the percentage of growth over what is in use at which the collector runs, where GOGC does not say otherwise:
// less than half of what it is by default. A voter's memory is sessions that stay and work that passes; what the collector takes more
// is a small part of the work, and what it leaves less is as much as all sessions hold.
const collectAt = 40

func (s Service) run(ctx context.Context, h host.Host, logger *slog.Logger) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	n, err := Start(Config{
		Settings: s.Settings, HostName: s.Settings.Name, Logger: logger, AdminSocket: s.AdminSocket, Hooks: hooksOf(s.Hooks), State: s.State, Mint: s.Mint,
		Network: SystemNetwork{Rules: s.Settings.DiscoveryInterfaces, Loopback: s.Settings.DiscoveryLoopback},
		Entropy: func(b []byte) { rand.Read(b) }, Random: mathrand.Float64, Point: s.Point,
		Upgrade: s.Upgrade,
	})
	if err != nil {
		return err
	}
	said := func(err error) {
		if err != nil {
			logger.Warn("service manager not told", "error", err.Error())
		}
	}
	said(h.Ready())
	if s.Served != nil {
		s.Served()
	}
	watch, stopWatch := context.WithCancel(context.Background())
	told, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		tellStatus(watch, h.Status, func() string { return n.Mode().String() + " " + n.View().Cluster() }, said)
	}()
	go func() {
		defer close(watched)
		host.Watch(watch, h, func(ctx context.Context) error { return n.ask(ctx, func(time.Time) {}) }, said)
	}()
	select {
	case <-ctx.Done():
	case <-n.Done():
	}
	said(h.Stopping())
	stopWatch()
	<-watched
	<-told
	n.Stop()
	return n.Err()
}

// hooksOf is who runs the platform's hooks.
func hooksOf(h host.Hooks) target.Hooks {
	if !h.Unit {
		return target.Hooks{Dir: h.Dir}
	}
	return target.Hooks{Dir: h.Dir, Result: h.Report, Enable: h.Enable}
}

// statusEvery is how old the service manager's line may be: a person who reads it has just typed a command.
const statusEvery = 2 * time.Second

// tellStatus tells the service manager one line of what the node is, at once and whenever it has changed, until ctx ends.
func tellStatus(ctx context.Context, tell func(string) error, what func() string, failed func(error)) {
	ticker := time.NewTicker(statusEvery)
	defer ticker.Stop()
	for last := ""; ; {
		if now := what(); now != last {
			last = now
			failed(tell(now))
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// exitOf is the status of an error: a configuration that is refused is not tried again by a service manager.
func exitOf(err error) int {
	var refused *config.RefusedError
	switch {
	case err == nil:
		return config.ExitOK
	case errors.As(err, &refused):
		return config.ExitConfig
	case errors.Is(err, ErrUpgraded):
		return config.ExitAgain
	}
	return config.ExitFailed
}

// logger writes to the service manager's own log, to stderr, or to both, as the platform has it.
func (s Service) logger(h host.Host) *slog.Logger {
	level := levelOf(s.Settings.LogLevel)
	own, beside := h.Log(level, s.Settings.LogFormat)
	plain := host.NewStderr(s.Stderr, level, s.Settings.LogFormat)
	switch {
	case own == nil:
		return slog.New(plain)
	case beside:
		return slog.New(slog.NewMultiHandler(own, plain))
	}
	return slog.New(own)
}

// NewLogger is the node's log on a stream: text or JSON lines with constant messages and facts in attributes.
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	return slog.New(host.NewStderr(w, levelOf(level), format))
}

func levelOf(text string) slog.Level {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.ToUpper(text))); err != nil {
		return slog.LevelInfo
	}
	return l
}
