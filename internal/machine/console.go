package machine

import (
	"os"
	"runtime"

	"golang.org/x/term"

	"pace-node/internal/control"
)

// screen is what a stream of this process is, nil where it is no terminal. What a person does not want is said by the
// environment: NO_COLOR, and TERM=dumb, which can only be written to line by line.
func screen(f *os.File, env func(string) (string, bool)) *control.Terminal {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	kind, said := env("TERM")
	able := kind != "dumb" && (said && kind != "" || runtime.GOOS == "windows") && understands(f)
	none, _ := env("NO_COLOR")
	return &control.Terminal{Redraw: able, Colour: able && none == "", Size: func() (columns, rows int) {
		columns, rows, err := term.GetSize(fd)
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}}
}
