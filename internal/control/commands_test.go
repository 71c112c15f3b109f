package control

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/config"
	"pace-node/test/docs"
)

type standIn struct{ word, value string }

// pin is the one that a shell would take for something else, where it is not quoted.
var pin = standIn{"<cluster-id>@<key>", exampleID + "@" + exampleKey}

// placeholders stand in the pages for what a reader puts in, and here for something that the parser takes. Longer ones first.
var placeholders = []standIn{
	pin,
	{"FLEET-ID", exampleID},
	{"ID@KEY", exampleID + "@" + exampleKey},
	{"ID=HOST:PORT", exampleID + "=192.0.2.2:6680"},
	{"HOST:PORT", "192.0.2.2:6674"},
	{"OS-ARCH=FILE", "linux-amd64=pace-node"},
	{"DURATION", "720h"},
	{"MACHINE", "birch"},
	{"{id}={endpoint}", exampleID + "=192.0.2.2:6680"},
	{"{id}", exampleID},
	{"NETWORK", "192.0.2.0/24"},
	{"NAME=VALUE", "enrollment.total=64"},
	{"RW…", "RW" + strings.Repeat("A", 54)},
	{"KEY", exampleKey},
	{"FILE", "file"},
	{"HOST", "host.example"},
	{"…", exampleKey},
}

const exampleID, exampleKey = docs.ExampleID, docs.ExampleKey

func filled(words []string) []string {
	out := slices.Clone(words)
	for i, w := range out {
		for _, p := range placeholders {
			w = strings.ReplaceAll(w, p.word, p.value)
		}
		out[i] = w
	}
	return out
}

// understood judges a command the way the program does before it does anything. mentioned says that it stands in a sentence,
// which may leave arguments out, and name a group of words by its first.
func understood(argv []string, mentioned bool) error {
	parse := config.Parse
	if argv[0] == config.ToolVerb {
		parse = config.ParseTool
	}
	_, call, err := parse(filled(argv[1:]), nil, nil, nil)
	if err != nil || call.Name != config.ToolVerb {
		return err
	}
	if mentioned {
		switch {
		case len(call.Words) == 0, len(call.Words) == 1 && slices.Contains(firstWords(), call.Words[0]):
			return nil
		case slices.ContainsFunc(verbs, func(v verb) bool { return v.words == strings.Join(call.Words, " ") }):
			return nil
		}
	}
	_, _, err = findWords(call.Words)
	return err
}

var (
	optional  = regexp.MustCompile(`\[([^\[\]]*)\]`)
	elided    = regexp.MustCompile(`^--([a-z-]+)=(…|PATH|NAME|LABEL)$`)
	startsOur = regexp.MustCompile(`^(?:sudo )?(?:[\w./-]*/)?(pace-node|pacectl) `)
)

// spelled are the commands that a span of a sentence stands for: each of a choice a|b, with what is optional.
func spelled(text string) []string {
	text = optional.ReplaceAllString(text, "$1")
	words := strings.Split(text, " ")
	for i, w := range words {
		if choice := strings.Split(w, "|"); len(choice) > 1 && !strings.Contains(w, "=") && w != "|" {
			var out []string
			for _, one := range choice {
				words[i] = one
				out = append(out, spelled(strings.Join(words, " "))...)
			}
			return out
		}
	}
	return []string{text}
}

// TestDocsCommands parses every command of ours that a written page has somebody type, in a block or in a sentence: a word or
// a flag that there is not fails.
func TestDocsCommands(t *testing.T) {
	pages, err := docs.Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	judge := func(page string, line int, argv []string, mentioned bool) {
		judged++
		if mentioned { // --flag=… is about the flag
			argv = slices.DeleteFunc(argv, func(w string) bool {
				m := elided.FindStringSubmatch(w)
				return m != nil && strings.Contains(knownFlags(), " --"+m[1]+"=")
			})
		}
		if err := understood(argv, mentioned); err != nil {
			t.Errorf("%s:%d: %s: %v", page, line, strings.Join(argv, " "), err)
		}
	}
	for _, page := range pages {
		for _, b := range page.Blocks {
			if fault := b.Fault(); fault != "" {
				t.Errorf("%s: %s", b.Where(), fault)
			}
			if err := settingsOf(b); err != nil {
				t.Errorf("%s: %v", b.Where(), err)
			}
			if !b.Typed() {
				continue
			}
			for _, typed := range b.Typings() {
				for _, argv := range docs.Commands(typed.Text, b.Lang == "bat") {
					judge(page.Path, typed.Line, argv, false)
				}
			}
		}
		for _, s := range page.Spans {
			if !startsOur.MatchString(s.Text) || strings.HasPrefix(s.Text, "pace-node pace-node/") { // debconf's line
				continue
			}
			for _, text := range spelled(s.Text) {
				for _, argv := range docs.Commands(strings.ReplaceAll(text, pin.word, pin.value), false) {
					judge(page.Path, s.Line, argv, true)
				}
			}
		}
	}
	if judged < 100 {
		t.Errorf("found %d commands only: this test looks in the wrong place", judged)
	}
	t.Logf("%d commands of %d pages are understood", judged, len(pages))
}

// settingsOf judges a block of settings: a file of --config, or lines PACE_NAME=value among others, as the installer stores them.
func settingsOf(b docs.Block) error {
	text := strings.Join(b.Lines, "\n")
	switch first, _, _ := strings.Cut(text, ":"); {
	case b.Lang == "yaml" && slices.ContainsFunc(config.Options, func(o config.Option) bool { return o.FileName() == first }):
		_, _, err := config.Parse([]string{"--config=" + b.Where()}, nil, nil, func(string) ([]byte, error) { return []byte(text), nil })
		return err
	case b.Lang == "ini" || b.Lang == "yaml":
		stored := map[string]config.Stored{}
		for _, line := range b.Lines {
			name, value, found := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "Environment="), "=")
			if found && strings.HasPrefix(name, "PACE_") {
				stored[name] = config.Stored{Value: strings.Trim(value, `"`), Where: line}
			}
		}
		delete(stored, "PACE_CONFIG") // it would be read
		_, _, err := config.Parse(nil, nil, func() (map[string]config.Stored, error) { return stored, nil }, nil)
		return err
	}
	return nil
}

func knownFlags() string {
	return " " + strings.Join(append(flags(), toolFlags()...), " ") + " "
}

// TestDocsCommandsJudge: the judge above refuses what a page must not say.
func TestDocsCommandsJudge(t *testing.T) {
	for text, mentioned := range map[string]bool{
		"pacectl member frget MACHINE":           false,
		"pacectl member forget --steal=1h":       false,
		"pacectl member show":                    false,
		"pacectl queue drop --dry-run MACHINE":   false,
		"pace-node --fleet-sed=HOST":             false,
		"pace-node node":                         false,
		"pace-node --enroll-approve=ID":          false,
		"pacectl fleet forget":                   true,
		"pacectl nodes":                          true,
		"pacectl member forget --stale-for=some": true,
	} {
		for _, argv := range docs.Commands(text, false) {
			if understood(argv, mentioned) == nil {
				t.Errorf("%s: taken", text)
			}
		}
	}
	for text, mentioned := range map[string]bool{
		"pacectl member forget MACHINE":                 false,
		"pace-node --fleet-id='<cluster-id>@<key>'":     false,
		"pacectl queue":                                 true,
		"pacectl member show":                           true,
		"build/pacectl enroll approve ID@KEY --json":    false,
		"sudo PACE_NAME=x pace-node --print-identity":   false,
		"pacectl fleet set enrollment.total=64":         false,
		"pacectl release new FILE 1.2.3 OS-ARCH=FILE":   false,
		"pace-node --enroll-auto-approve=15min --json":  false,
		"pacectl fleet accept KEY HOST:PORT":            false,
		"pace-node --scheduler=HOST --cluster-status":   false,
		"pace-node --enroll-auto-approve=off # the end": false,
	} {
		for _, argv := range docs.Commands(text, false) {
			if err := understood(argv, mentioned); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}
