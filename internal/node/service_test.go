package node

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/host"
)

func TestStatusIsToldWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var mode atomic.Value
		mode.Store("solitary")
		failures := 0
		var heard []string
		done := make(chan struct{})
		go func() {
			defer close(done)
			tellStatus(ctx, func(s string) error { heard = append(heard, s); return errors.New("nobody listens") },
				func() string { return mode.Load().(string) }, func(err error) {
					if err != nil {
						failures++
					}
				})
		}()
		for _, m := range []string{"solitary", "solitary", "pending", "learner", "learner"} {
			synctest.Wait()
			mode.Store(m)
			time.Sleep(statusEvery)
		}
		synctest.Wait()
		cancel()
		<-done
		if want := []string{"solitary", "pending", "learner"}; !slices.Equal(heard, want) || failures != 3 {
			t.Errorf("heard %q, want %q; %d failures", heard, want, failures)
		}
	})
}

// quietHost is a machine whose service manager keeps no log of its own.
type quietHost struct{ host.Host }

func (quietHost) Log(slog.Leveler, string) (slog.Handler, bool) { return nil, false }

// TestLogIsAsItWasAsked: --log-level and --log-format reach the handler that a node writes through.
func TestLogIsAsItWasAsked(t *testing.T) {
	for _, c := range []struct{ level, format, want string }{
		{"debug", "text", "level=DEBUG msg=d\nlevel=INFO msg=i\nlevel=WARN msg=w\nlevel=ERROR msg=e\n"},
		{"info", "text", "level=INFO msg=i\nlevel=WARN msg=w\nlevel=ERROR msg=e\n"},
		{"warn", "text", "level=WARN msg=w\nlevel=ERROR msg=e\n"},
		{"error", "json", `{"level":"ERROR","msg":"e"}` + "\n"},
	} {
		var out bytes.Buffer
		s := Service{Settings: config.Config{LogLevel: c.level, LogFormat: c.format}, Stderr: &out}
		log := s.logger(quietHost{})
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e")
		if got := regexp.MustCompile(`time=\S+ |"time":"[^"]*",`).ReplaceAllString(out.String(), ""); got != c.want {
			t.Errorf("%s, %s:\n%swant\n%s", c.level, c.format, got, c.want)
		}
	}
}
