//go:build !windows

package host

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
)

func TestRunUnderSignals(t *testing.T) {
	want := errors.New("ended")
	err := RunUnderSignals(func(ctx context.Context) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
			return err
		}
		<-ctx.Done()
		return want
	})
	if !errors.Is(err, want) {
		t.Errorf("%v, want what run returned", err)
	}
}
