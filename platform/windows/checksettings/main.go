// Command checksettings is what the Windows package asks before it changes anything: checksettings NAME=VALUE judges one
// setting as pace-node --check-arguments does, ends with that status, and says in the Application log why it refuses.
//
// Its one job is to get the value whole: everything behind NAME= up to the end of the command line is the value, with
// quotes, blanks and backslashes as they are, since Windows Installer can't quote what it puts into a command line. It must
// never open a window: Windows Installer runs it, with nobody there to see one.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"pace-node/internal/config"
)

func main() { os.Exit(check(commandLine(), report)) }

// check judges the setting of a command line, program included, and returns the exit status. refused is told why not.
func check(line string, refused func(string)) int {
	setting := argument(line)
	_, _, err := config.Parse([]string{"--check-arguments", setting}, nil, nil, nil)
	if err == nil {
		return config.ExitOK
	}
	refused(fmt.Sprintf("The install is refused, and nothing is changed: %s\npace-node --check-arguments says the same of a setting, as in: pace-node --check-arguments PACE_FLEET_SEED=host.example:6674", err))
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return coded.ExitCode()
	}
	return config.ExitFailed
}

// argument is what stands behind the program's name, up to the end of the line.
func argument(line string) string {
	if rest, quoted := strings.CutPrefix(line, `"`); quoted {
		_, line, _ = strings.Cut(rest, `"`)
	} else if end := strings.IndexAny(line, " \t"); end >= 0 {
		line = line[end:]
	} else {
		line = ""
	}
	return strings.TrimLeft(line, " \t")
}
