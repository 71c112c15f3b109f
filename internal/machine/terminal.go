package machine

import (
	"os"

	"golang.org/x/term"
)

// onTerminal tells whether somebody sees what is written to stderr as it comes.
func onTerminal() bool { return term.IsTerminal(int(os.Stderr.Fd())) }
