package machine

import (
	"os"

	"golang.org/x/sys/windows"
)

// understands has a console take escapes, and says whether it does: those before Windows 10 do not.
func understands(f *os.File) bool {
	h := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
