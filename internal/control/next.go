package control

import (
	"regexp"
	"strings"

	"pace-node/internal/config"
)

// commandIn is a command that a remedy names, or a flag of the one that was typed.
var commandIn = regexp.MustCompile(`\b(pacectl|pace-node) (--?)?[a-z]|\bsudo [a-z]|(^|[\s(])--[a-z]`)

// NextRow is the command that comes after a failure whose remedy names none, by the failure's code.
type NextRow struct {
	Code    string // "" is every other one
	Command string
}

// Nexts is the table of them; the first that fits.
var Nexts = []NextRow{
	{codeUsage, ""}, // the help of what was typed
	{"configuration", "pace-node --help lists every setting"},
	{CodeNobody, "pacectl doctor says what is wrong here"},
	{"not-leader", "pacectl fleet status shows who leads"},
	{"busy", "pacectl fleet status shows how it stands"},
	{"", "pacectl doctor looks for what is wrong on this machine"},
}

// nextCommand is a failure's remedy with a command to type next: the one that it names, or the one of its code.
func nextCommand(f *Failure, call config.VerbCall) string {
	if commandIn.MatchString(f.Remedy) {
		return f.Remedy
	}
	next := ""
	for _, row := range Nexts {
		if row.Code == f.Code || row.Code == "" {
			next = row.Command
			break
		}
	}
	switch {
	case f.Code == codeUsage:
		next = helpCommand(call) + " shows how it is typed"
	case f.Exit == config.ExitRefused: // by a rule that the reason names: what is wrong is not the machine
		next = helpCommand(call) + " says more"
	}
	if f.Remedy == "" {
		return next
	}
	return strings.TrimRight(f.Remedy, ".") + ". " + next // a sentence of its own: what comes before may be a list
}

// helpCommand is the help of what was typed: of the verb where there is one, else of all.
func helpCommand(call config.VerbCall) string {
	if call.Name != config.ToolVerb {
		return "pace-node --help"
	}
	for most := min(len(call.Words), 2); most > 0; most-- {
		words := strings.Join(call.Words[:most], " ")
		for _, v := range verbs {
			if first, _, _ := strings.Cut(v.words, " "); v.words != "" && (v.words == words || first == words) {
				return "pacectl help " + words
			}
		}
	}
	return "pacectl help"
}
