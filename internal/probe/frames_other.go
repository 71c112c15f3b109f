//go:build !linux

package probe

import (
	"context"
	"errors"
	"runtime"
)

// WatchFrames cannot look on this system.
func WatchFrames(context.Context, []uint16, func(Frame) (enough bool)) error {
	return errors.New("on " + runtime.GOOS + " this program does not look at what arrives on an interface")
}
