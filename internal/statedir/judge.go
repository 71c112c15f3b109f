package statedir

import (
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
)

// kind is what a path has to be.
type kind uint8

const (
	kindDir    kind = iota // a folder of ours
	kindSecret             // a file that nobody else may read
	kindFile               // a file that nobody else may change
	kindParent             // the folder above: whoever may rename in it can swap the state directory
)

func (k kind) dir() bool { return k == kindDir || k == kindParent }

// posixFacts is what one lstat tells, and who may own the path.
type posixFacts struct {
	mode     fs.FileMode
	uid      int
	accepted []int
}

// posixCheck is one row of what makes a path unsafe, asked in order.
type posixCheck struct {
	Name  string
	Kinds []kind
	Bad   func(k kind, f posixFacts) bool
	Say   func(path string, f posixFacts) (what, remedy string)
}

var posixChecks = []posixCheck{
	{
		Name:  "link",
		Kinds: []kind{kindDir, kindSecret, kindFile},
		Bad:   func(_ kind, f posixFacts) bool { return f.mode&fs.ModeSymlink != 0 },
		Say: func(p string, _ posixFacts) (string, string) {
			return fmt.Sprintf("%s is a link, and a link can be turned elsewhere", p),
				"give the real path (--state-dir=<folder>), or put the folder or file itself there"
		},
	},
	{
		Name:  "type",
		Kinds: []kind{kindDir, kindSecret, kindFile},
		Bad: func(k kind, f posixFacts) bool {
			return k.dir() != f.mode.IsDir() || !k.dir() && !f.mode.IsRegular()
		},
		Say: func(p string, f posixFacts) (string, string) {
			return fmt.Sprintf("%s is not what belongs there (%s)", p, f.mode.Type()), "move it away and start again"
		},
	},
	{
		Name:  "owner",
		Kinds: []kind{kindDir, kindSecret, kindFile},
		Bad:   func(_ kind, f posixFacts) bool { return !slices.Contains(f.accepted, f.uid) },
		Say: func(p string, f posixFacts) (string, string) {
			return fmt.Sprintf("%s belongs to user %d, and %s runs as %d", p, f.uid, f.runs(), f.accepted[0]), ordinaryWords(p, f.accepted[0])
		},
	},
	{
		Name:  "writable",
		Kinds: []kind{kindDir, kindSecret, kindFile},
		Bad:   func(_ kind, f posixFacts) bool { return f.mode.Perm()&0o022 != 0 },
		Say: func(p string, f posixFacts) (string, string) {
			return fmt.Sprintf("%s can be written by others (mode %04o)", p, f.mode.Perm()),
				fmt.Sprintf("chmod go-w %s # once you know who changed what", shellQuote(p))
		},
	},
	{
		Name:  "readable",
		Kinds: []kind{kindSecret},
		Bad:   func(_ kind, f posixFacts) bool { return f.mode.Perm()&0o077 != 0 },
		Say: func(p string, f posixFacts) (string, string) {
			return fmt.Sprintf("%s can be read by others (mode %04o), and whoever has read it can be this machine", p, f.mode.Perm()),
				fmt.Sprintf("chmod 600 %s # if nobody has; if somebody may have: pace-node --reset-identity", shellQuote(p))
		},
	},
	{
		Name:  "parent",
		Kinds: []kind{kindParent},
		Bad:   func(_ kind, f posixFacts) bool { return f.mode.Perm()&0o002 != 0 && f.mode&fs.ModeSticky == 0 },
		Say: func(p string, f posixFacts) (string, string) {
			return fmt.Sprintf("%s, the folder above the state directory, can be written by everybody (mode %04o): anybody could swap what is in it",
				p, f.mode.Perm()), fmt.Sprintf("chmod o-w %s # or give --state-dir another one", shellQuote(p))
		},
	},
}

// judgePOSIX asks the rows in order; the first that is bad is the answer.
func judgePOSIX(path string, k kind, f posixFacts) error {
	for _, c := range posixChecks {
		if slices.Contains(c.Kinds, k) && c.Bad(k, f) {
			what, remedy := c.Say(path, f)
			return refuse(ErrUnsafe, what, remedy)
		}
	}
	return nil
}

var plainPath = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)

// shellQuote makes a path that can be pasted into sh, whatever is in it.
func shellQuote(s string) string {
	if plainPath.MatchString(s) && !strings.HasPrefix(s, "-") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// runs is whose the path has to be: this process's, or, where that only looks, the service's.
func (f posixFacts) runs() string {
	if f.accepted[0] == os.Geteuid() {
		return "this process"
	}
	return "the service"
}

func ordinaryWords(path string, uid int) string {
	if uid != os.Geteuid() {
		return fmt.Sprintf("sudo chown -R %d %s # gives it to the service", uid, shellQuote(path))
	}
	return fmt.Sprintf("sudo chown -R %d %s # makes it yours; or give --state-dir another one", uid, shellQuote(path))
}
