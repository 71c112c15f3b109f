//go:build unix

package netio

import (
	"context"
	"os"
)

// linkMessages holds one answer of the kernel; what does not fit is dropped with it, for only that it came counts.
const linkMessages = 8 << 10

// watchSocket reads f, which it owns and which does not block, until ctx ends.
func watchSocket(ctx context.Context, f *os.File, changed func()) error {
	stop := context.AfterFunc(ctx, func() { _ = f.Close() })
	defer func() {
		if stop() {
			_ = f.Close()
		}
	}()
	b := make([]byte, linkMessages)
	for {
		_, err := f.Read(b)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil, overflowed(err):
			changed()
		default:
			return err
		}
	}
}
