package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/host"
	"pace-node/internal/statedir"
)

// Service is what the command hands over to run a node until it is told to stop.
type Service struct {
	Settings    config.Config
	State       statedir.Options
	Mint        statedir.Mint
	AdminSocket string
	Stderr      io.Writer
	Point       func(string) // crash points of a test build; nil: none
}

// Serve runs a node under the platform's service manager, or in the foreground, and returns the exit status.
func Serve(h host.Host, s Service) int {
	logger := NewLogger(s.Stderr, s.Settings.LogLevel, s.Settings.LogFormat)
	err := h.RunService(func(ctx context.Context) error { return s.run(ctx, h, logger) }, exitOf)
	if err != nil {
		fmt.Fprintf(s.Stderr, "pace-node: %v\n", err)
	}
	return exitOf(err)
}

func (s Service) run(ctx context.Context, h host.Host, logger *slog.Logger) error {
	n, err := Start(Config{
		Settings: s.Settings, HostName: s.Settings.Name, Logger: logger, AdminSocket: s.AdminSocket, State: s.State, Mint: s.Mint,
		Network: SystemNetwork{Rules: s.Settings.DiscoveryInterfaces, Loopback: s.Settings.DiscoveryLoopback},
		Entropy: func(b []byte) { rand.Read(b) }, Random: mathrand.Float64, Point: s.Point,
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
	said(h.Status(n.Mode().String() + " " + n.View().Cluster()))
	watch, stopWatch := context.WithCancel(context.Background())
	watched := make(chan struct{})
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
	n.Stop()
	return n.Err()
}

// exitOf is the status of an error: a configuration that is refused is not tried again by a service manager.
func exitOf(err error) int {
	var refused *config.RefusedError
	switch {
	case err == nil:
		return config.ExitOK
	case errors.As(err, &refused):
		return config.ExitConfig
	}
	return config.ExitFailed
}

// NewLogger is the node's log: text or JSON lines with constant messages and facts in attributes.
func NewLogger(w io.Writer, level, format string) *slog.Logger {
	var l slog.Level
	if err := l.UnmarshalText([]byte(strings.ToUpper(level))); err != nil {
		l = slog.LevelInfo
	}
	opts := &slog.HandlerOptions{Level: l}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}
