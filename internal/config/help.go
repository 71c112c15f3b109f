package config

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// ExitRow is one line of the exit status table.
type ExitRow struct {
	Code int
	Text string
}

var exitRows = []ExitRow{
	{ExitOK, "done"},
	{ExitFailed, "failed"},
	{ExitUsage, "the command line is not one"},
	{ExitRefused, "refused by the fleet"},
	{ExitNobody, "nobody answered"},
	{ExitAgain, "the program was upgraded or rolled back: the service manager starts it again"},
	{ExitConfig, "the configuration is refused"},
}

// ToolExits are the rows that pacectl ends with: all but the service's own.
func ToolExits() []ExitRow {
	return slices.DeleteFunc(slices.Clone(exitRows), func(e ExitRow) bool { return e.Code == ExitAgain })
}

const precedenceText = "A flag wins over the environment (PACE_ and the name in upper case, as in PACE_FLEET_SEED), that over what the " +
	"installer stored (the registry on Windows, /etc/default/pace-node, pace-node.env on macOS), that over the file of --config " +
	"(YAML, the flag's name with underscores), and that over the default. In the environment and among what the installer stored a " +
	"list is separated by white space, or by line ends where it has some. Durations are 90s, 15m, 15min, 1h30m, 24h, 30d. An unknown key, " +
	"or a value out of bounds, refuses the start naming file, line and key; in the environment, which other programs share, a name that is no setting is passed over."

// flag is how a row is typed.
func (o *Option) flag() string {
	if o.Kind == KindSwitch {
		return "--" + o.Name
	}
	metavar := o.Metavar
	if o.Kind == KindChoice {
		metavar = strings.Join(o.Choices, "|")
	}
	return "--" + o.Name + "=" + metavar
}

func (v *Verb) flag() string {
	name := "--" + v.Name
	if v.Short != "" {
		name = "-" + v.Short + ", " + name
	}
	if v.Metavar != "" {
		name += "=" + v.Metavar
	}
	return name
}

// sentence is the help with its bounds, default and repetition.
func (o *Option) sentence() string {
	var notes []string
	if o.Kind == KindNumber || o.Kind == KindDuration {
		notes = append(notes, o.bounds())
	}
	if o.Repeat {
		notes = append(notes, "repeatable")
	}
	if d := o.shownDefault(); d != "none" {
		notes = append(notes, "default: "+d)
	}
	if len(notes) == 0 {
		return o.Help
	}
	return o.Help + " (" + strings.Join(notes, "; ") + ")"
}

const (
	helpWidth  = 100 // columns: fits two of three terminals without wrapping
	helpIndent = 6
)

// Help writes what --help prints.
func Help(w io.Writer) error {
	var b strings.Builder
	b.WriteString("pace-node: one binary, installed with no configuration, makes machines find one another and become one fleet.\n\n")
	b.WriteString("Usage: pace-node [flags]          run the service\n")
	b.WriteString("       pace-node --<verb> [flags] do one thing and end\n")
	b.WriteString("       pacectl <words>            the operator's tool, a link to the same binary (pacectl --help)\n")
	b.WriteString("\nVerbs\n")
	for i := range Verbs {
		fmt.Fprintf(&b, "  %s\n%s", Verbs[i].flag(), wrap(Verbs[i].Help, helpIndent))
	}
	for _, group := range Groups {
		fmt.Fprintf(&b, "\n%s\n", group)
		for i := range Options {
			if o := &Options[i]; o.Group == group {
				fmt.Fprintf(&b, "  %s\n%s", o.flag(), wrap(o.sentence(), helpIndent))
			}
		}
	}
	b.WriteString("\nSettings\n" + wrap(precedenceText, 2))
	b.WriteString("\nExit status\n")
	for _, e := range exitRows {
		fmt.Fprintf(&b, "  %-3d %s\n", e.Code, e.Text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks text at words and indents each line.
func wrap(text string, indent int) string {
	var b strings.Builder
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && indent+len(line)+1+len(word) > helpWidth {
			b.WriteString(strings.Repeat(" ", indent) + line + "\n")
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		b.WriteString(strings.Repeat(" ", indent) + line + "\n")
	}
	return b.String()
}

// FlagsMarkdown is docs/flags.md.
func FlagsMarkdown() string {
	var b strings.Builder
	b.WriteString("# Flags, settings, verbs\n\nMade from the table of options by `make docs`; do not edit.\n\n")
	b.WriteString(precedenceText + "\n")
	for _, group := range Groups {
		fmt.Fprintf(&b, "\n## %s\n\n| Flag | Environment, stored | File | Default | Meaning |\n|---|---|---|---|---|\n", group)
		for i := range Options {
			o := &Options[i]
			if o.Group != group {
				continue
			}
			env, file := "`"+o.EnvName()+"`", "`"+o.FileName()+"`"
			for _, except := range o.Except {
				switch except {
				case OriginFile:
					file = "–"
				case OriginStored:
					env += " (not stored)"
				}
			}
			meaning := o.Help
			if o.Kind == KindNumber || o.Kind == KindDuration {
				meaning += "; " + o.bounds()
			}
			if o.Repeat {
				meaning += "; repeatable"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", cell(o.flag()), env, file, cell(o.shownDefault()), cell(meaning))
		}
	}
	b.WriteString("\n## Verbs\n\nOne at a time, as flags of `pace-node`.\n\n| Verb | Meaning |\n|---|---|\n")
	for i := range Verbs {
		fmt.Fprintf(&b, "| `%s` | %s |\n", cell(Verbs[i].flag()), cell(Verbs[i].Help))
	}
	b.WriteString(examplesMarkdown())
	b.WriteString("\n## Exit status\n\n| Status | Meaning |\n|---|---|\n")
	for _, e := range exitRows {
		fmt.Fprintf(&b, "| %d | %s |\n", e.Code, e.Text)
	}
	return b.String()
}

// cell keeps a text inside its column.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

// ManPage is pace-node(8) in roff's man macros.
func ManPage() string {
	var b strings.Builder
	b.WriteString(".\\\" Made from the table of options by make docs; do not edit.\n")
	b.WriteString(".TH PACE-NODE 8 \"\" \"pace-node\" \"System administration\"\n")
	b.WriteString(".SH NAME\npace-node \\- make machines find one another and become one fleet\n")
	b.WriteString(".SH SYNOPSIS\n.B pace-node\n.RI [ flags ]\n.br\n.B pace-node\n.RI \\-\\- verb\\~[ flags ]\n.br\n.B pacectl\n.I words\n")
	b.WriteString(".SH DESCRIPTION\nWithout a verb it is the service: it founds a fleet of one and serves, finds other machines, and asks to join " +
		"or is asked. A person approves a machine by comparing its key.\n")
	b.WriteString(".SH VERBS\nOne at a time.\n")
	for i := range Verbs {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(Verbs[i].flag()), roff(Verbs[i].Help))
	}
	b.WriteString(".SH OPTIONS\n")
	for _, group := range Groups {
		fmt.Fprintf(&b, ".SS %s\n", roff(group))
		for i := range Options {
			if o := &Options[i]; o.Group == group {
				fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(o.flag()), roff(o.sentence()))
			}
		}
	}
	fmt.Fprintf(&b, ".SH SETTINGS\n%s\n", roff(precedenceText))
	b.WriteString(".SH FILES\n.TP\n.I /etc/default/pace\\-node\nWhat the installer stored.\n" +
		".TP\n.I /etc/pace\\-node/pace\\-node.yaml\nSettings, where PACE_CONFIG or \\-\\-config names it.\n" +
		".TP\n.I /var/lib/pace\\-node\nIdentity and state.\n")
	b.WriteString(examplesRoff())
	b.WriteString(".SH EXIT STATUS\n")
	for _, e := range exitRows {
		fmt.Fprintf(&b, ".TP\n.B %d\n%s.\n", e.Code, roff(e.Text))
	}
	return b.String()
}

// roff escapes what the macros would read.
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
