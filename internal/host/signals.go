package host

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// RunUnderSignals runs the program until it ends by itself, or SIGTERM or an interrupt ends its context. A second signal
// ends the process at once, as the system does by itself.
func RunUnderSignals(run func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	release := context.AfterFunc(ctx, stop)
	defer release()
	return run(ctx)
}
