package target

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pace-node/internal/statedir"
)

// hookEndings are what can be run, and with what: Windows has no mode that tells a program.
var hookEndings = map[string][]string{
	".exe": nil, ".com": nil, ".bat": nil, ".cmd": nil,
	".ps1": {"WindowsPowerShell", "v1.0", "powershell.exe"},
}

// hookCommand is how a file is run, false where it is no program.
func hookCommand(path string, _ fs.FileInfo) ([]string, bool) {
	with, ok := hookEndings[strings.ToLower(filepath.Ext(path))]
	if !ok || with == nil {
		return []string{path}, ok
	}
	shell := filepath.Join(append([]string{os.Getenv("SystemRoot"), "System32"}, with...)...)
	return []string{shell, "-NoProfile", "-NonInteractive", "-ExecutionPolicy", "Bypass", "-File", path}, true
}

// judgeHooks says why hooks must not run: somebody other than SYSTEM and the administrators could change what is run.
func judgeHooks(dir string, hooks []hook) string {
	for _, h := range hooks {
		for _, link := range []string{filepath.Join(dir, h.name), dir} {
			info, err := os.Lstat(link)
			if err != nil {
				return fmt.Sprintf("the hook %s cannot be looked at: %s", shown(h.name), plain(err))
			}
			if info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 {
				return fmt.Sprintf("the hook %s is refused: %s is a link or junction; put the file itself there", shown(h.name), shown(link))
			}
		}
		who, err := statedir.Outsider(filepath.Join(dir, h.name))
		switch {
		case err != nil:
			return fmt.Sprintf("the hook %s cannot be looked at: %s", shown(h.name), plain(err))
		case who != "":
			return fmt.Sprintf("the hook %s is refused: %s may change it; leave it to SYSTEM and the administrators (icacls), then try again", shown(h.name), shown(who))
		}
	}
	return ""
}

// No unit of another account's runs hooks here: the service does.
func ownedByRoot(fs.FileInfo) bool { return false }

func writeReport(string, []byte, fs.FileInfo) error { return errNoOwner }
