package control

import (
	"strings"

	"pace-node/internal/config"
)

// Pages are the files that are made from the tables of options and of verbs, by their path in the tree: pacectl's man
// page and what shells complete.
func Pages() map[string]string {
	const completions = "packaging/linux/completions/"
	return map[string]string{
		"docs/pacectl.1":               ToolManPage(),
		completions + "pace-node.bash": bashCompletion(),
		completions + "_pace-node":     zshCompletion(),
		completions + "pace-node.fish": fishCompletion(),
		completions + "pacectl.fish":   fishToolCompletion(),
	}
}

const madeFrom = "Made from the tables of options and of verbs by make docs; do not edit."

var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...")

// ToolManPage is pacectl(1) in roff's man macros.
func ToolManPage() string {
	var l lines
	l.add(`.\" %s`, madeFrom)
	l.add(`.TH PACECTL 1 "" "pace-node" "User commands"`)
	l.add(".SH NAME\npacectl \\- see and steer a fleet of pace-node")
	l.add(".SH SYNOPSIS\n.B pacectl\n.RI [ flags ]\n.I words")
	l.add(".SH DESCRIPTION\nIt asks this machine's node, or with\n.B \\-\\-scheduler\nanother's. A machine is named by its name, by its id, or by an id's start of six characters or more that no other has. " +
		"On this machine root may use it, and the members of group\n.BR pace\\-admin .")
	l.add(".SH WORDS")
	for _, v := range verbs {
		if v.words == "" {
			continue
		}
		l.add(".TP\n.B pacectl %s", roff.Replace(v.synopsis()))
		l.add("%s.", roff.Replace(v.about))
		if more := helpOf(&v).More; more != "" {
			l.add("%s", roff.Replace(more))
		}
		l.add(".RS\n.nf")
		for _, e := range helpOf(&v).Examples {
			l.add("%s", roff.Replace(e))
		}
		l.add(".fi\n.RE")
	}
	l.add(".SH OPTIONS")
	for i := range config.Options {
		if o := &config.Options[i]; o.Tool {
			l.add(".TP\n.B %s", roff.Replace(typed(o)))
			l.add("%s.", roff.Replace(o.Help))
		}
	}
	for i := range config.WordFlags {
		f := &config.WordFlags[i]
		l.add(".TP\n.B %s", roff.Replace(typedWord(f)))
		l.add("%s. Of %s.", roff.Replace(f.Help), roff.Replace(f.Words()))
	}
	l.add(".SH EXIT STATUS")
	for _, e := range config.ToolExits() {
		l.add(".TP\n.B %d\n%s.", e.Code, roff.Replace(e.Text))
	}
	l.add(".SH SEE ALSO\n.BR pace\\-node (8)")
	return l.String()
}

// typed is how an option stands in a text.
func typed(o *config.Option) string {
	if o.Kind == config.KindSwitch {
		return "--" + o.Name
	}
	return "--" + o.Name + "=" + o.Metavar
}
