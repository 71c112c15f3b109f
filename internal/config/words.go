package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Names of the flags that belong to some words of pacectl.
const (
	WordDryRun = "dry-run"
	WordForce  = "force"
	WordYes    = "yes"
	WordPass   = "passphrase-file"
	WordKey    = "key"
	WordStale  = "stale-for"
	WordSince  = "since"
	WordLimit  = "limit"
)

// WordFlag is a flag of some words of pacectl. Beside any other word it is refused: a verb would do what it was asked not
// to, or pass over what it was told.
type WordFlag struct {
	Name    string
	Metavar string     // "" = takes no value
	Of      [][]string // the words that take it
	Why     string     // what those do, for the refusal
	Help    string
	Check   func(string) error
}

// WordFlags is the table of them.
var WordFlags = []WordFlag{
	{Name: WordDryRun, Of: [][]string{{"queue", "run-helper"}}, Why: "which configures nothing",
		Help: "may be left out: nothing is configured either way"},
	{Name: WordForce, Of: [][]string{{"fleet", "leave"}}, Why: "which goes without the fleet's word then",
		Help: "go alone, without asking the fleet, which still lists this machine then"},
	{Name: WordYes, Metavar: "FLEET-ID", Of: [][]string{{"fleet", "leave"}, {"fleet", "recover"}, {"fleet", "accept"}, {"fleet", "restore"}, {"member", "forget"}}, Why: "which asks for the fleet's id back",
		Help: "the fleet's id, given back without being asked for it: for scripts", Check: checkID},
	{Name: WordPass, Metavar: "FILE", Of: [][]string{{"fleet", "backup"}, {"fleet", "restore"}, {"release", "key"}, {"release", "sign"}}, Why: "which asks the terminal for the passphrase otherwise",
		Help: "the file whose one line is the passphrase, - for stdin; never the passphrase itself", Check: checkPath},
	{Name: WordKey, Metavar: "KEY", Of: [][]string{{"release", "sign"}, {"release", "verify"}}, Why: "which needs the release key",
		Help: "the release key: to sign, the file of the secret one; to verify, the public one or its file", Check: checkPath},
	{Name: WordStale, Metavar: "DURATION", Of: [][]string{{"member", "stale"}, {"member", "forget"}}, Why: "which are about members that were silent for long",
		Help: "how long it was not heard, such as 720h or 30d; member forget takes every such learner, after a preview", Check: checkSpan},
	{Name: WordSince, Metavar: "DURATION", Of: [][]string{{"audit"}}, Why: "which is about what was done",
		Help: "only what was done within so long, such as 24h", Check: checkSpan},
	{Name: WordLimit, Metavar: "NUMBER", Of: [][]string{{"audit"}}, Why: "which may be long",
		Help: "only the newest so many entries", Check: checkCount},
}

// Words names the words that a flag belongs to.
func (f *WordFlag) Words() string {
	var out []string
	for _, w := range f.Of {
		out = append(out, "pacectl "+strings.Join(w, " "))
	}
	return strings.Join(out, ", ")
}

// TakesFile reports whether the flag's value is, or may be, the path of a file.
func (f *WordFlag) TakesFile() bool { return f.Name == WordPass || f.Name == WordKey }

// Takes reports whether words take the flag.
func (f *WordFlag) Takes(words []string) bool {
	return slices.ContainsFunc(f.Of, func(of []string) bool { return len(words) >= len(of) && slices.Equal(words[:len(of)], of) })
}

// wordFlags judges what was typed of them beside the words of a call.
func wordFlags(words []string, typed map[string]*[]string) (map[string]string, error) {
	var out map[string]string
	for i := range WordFlags {
		f := &WordFlags[i]
		values := *typed[f.Name]
		switch {
		case len(values) == 0:
			continue
		case !f.Takes(words):
			return nil, &UsageError{"--" + f.Name + " belongs to " + f.Words() + ", " + f.Why, "leave it out"}
		case len(values) > 1:
			return nil, &UsageError{fmt.Sprintf("--%s is given %d times", f.Name, len(values)), "give it once"}
		case f.Metavar == "" && values[0] != "true":
			return nil, &UsageError{fmt.Sprintf("--%s takes no value, and was given %s", f.Name, clip(values[0])), "leave it out"}
		}
		if f.Check != nil {
			if err := f.Check(values[0]); err != nil {
				return nil, &UsageError{fmt.Sprintf("--%s=%s cannot be used", f.Name, clip(values[0])), err.Error()}
			}
		}
		if out == nil {
			out = map[string]string{}
		}
		out[f.Name] = values[0]
	}
	return out, nil
}

func checkCount(s string) error {
	if n, err := strconv.Atoi(s); err != nil || n < 1 {
		return fmt.Errorf("a number of at least 1")
	}
	return nil
}

func checkSpan(s string) error {
	d, err := ParseDuration(s)
	if err == nil && d < time.Minute {
		err = fmt.Errorf("a duration of at least a minute, such as 720h or 30d")
	}
	return err
}
