package control

import (
	"fmt"
	"slices"
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

// flags are pace-node's, with a = behind those that take a value.
func flags() []string {
	var out []string
	for _, v := range config.Verbs {
		f := "--" + v.Name
		if v.Metavar != "" {
			f += "="
		}
		out = append(out, f)
	}
	for i := range config.Options {
		out = append(out, optionFlag(&config.Options[i]))
	}
	slices.Sort(out)
	return out
}

func optionFlag(o *config.Option) string {
	if o.Kind == config.KindSwitch {
		return "--" + o.Name
	}
	return "--" + o.Name + "="
}

// toolFlags are pacectl's.
func toolFlags() []string {
	var out []string
	for i := range config.Options {
		if o := &config.Options[i]; o.Tool {
			out = append(out, optionFlag(o))
		}
	}
	for i := range config.WordFlags {
		f := "--" + config.WordFlags[i].Name
		if config.WordFlags[i].Metavar != "" {
			f += "="
		}
		out = append(out, f)
	}
	return out
}

// toolFiles are those of pacectl's flags that take the path of a file or folder.
func toolFiles() []string {
	var out []string
	for i := range config.Options {
		if o := &config.Options[i]; o.Tool && o.Kind == config.KindPath {
			out = append(out, "--"+o.Name)
		}
	}
	for i := range config.WordFlags {
		if f := &config.WordFlags[i]; f.Metavar == "FILE" {
			out = append(out, "--"+f.Name)
		}
	}
	return out
}

// secondWords are those that may follow a first one, "" joined where there is none.
func secondWords(first string) []string {
	var out []string
	for _, v := range verbs {
		if f, second, two := strings.Cut(v.words, " "); two && f == first {
			out = append(out, second)
		}
	}
	return out
}

func bashCompletion() string {
	var l lines
	l.add("# %s", madeFrom)
	l.add(`_pace_node() {`)
	l.add(`	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}`)
	l.add(`	# A = breaks the word in two.`)
	l.add(`	if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi`)
	l.add(`	COMPREPLY=()`)
	l.add(`	case $prev in`)
	var files []string
	for i := range config.Options {
		o := &config.Options[i]
		switch o.Kind {
		case config.KindPath:
			files = append(files, "--"+o.Name)
		case config.KindChoice:
			l.add("	--%s)", o.Name)
			l.add(`		mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur")`, strings.Join(o.Choices, " "))
			l.add("		return ;;")
		}
	}
	l.add("	%s)", strings.Join(files, "|"))
	l.add(`		mapfile -t COMPREPLY < <(compgen -f -- "$cur")`)
	l.add("		return ;;")
	l.add("	esac")
	l.add(`	mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur")`, strings.Join(flags(), " "))
	l.add(`	[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace`)
	l.add(`	return 0`)
	l.add("}")
	l.add("")
	l.add("_pacectl() {")
	l.add(`	local cur=${COMP_WORDS[COMP_CWORD]} flag='' before='' word words=() at=() value=0 goes=0`)
	l.add(`	# A = breaks the word in two, so what follows one behind a flag is that flag's value and no word; so does a colon.`)
	l.add(`	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do`)
	l.add(`		if [[ $word == = && $before == --* ]]; then`)
	l.add(`			flag=$before value=1 goes=0`)
	l.add(`			case $flag in --state-dir|--scheduler) at+=("$flag=") goes=1 ;; esac`)
	l.add(`		elif [[ $word == : || $value -eq 1 ]]; then`)
	l.add(`			[[ $word == : ]] && value=1 || value=0`)
	l.add(`			[ $goes -eq 1 ] && at[${#at[@]}-1]+=$word`)
	l.add("		else")
	l.add(`			goes=0`)
	l.add(`			[[ $word == -* ]] || words+=("$word")`)
	l.add("		fi")
	l.add("		before=$word")
	l.add("	done")
	l.add(`	if [[ $cur == = && $before == --* ]]; then flag=$before cur='' value=1; fi`)
	l.add("	COMPREPLY=()")
	l.add("	if [ $value -eq 1 ]; then")
	l.add("		case $flag in")
	l.add("		%s)", strings.Join(toolFiles(), "|"))
	l.add(`			mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;`)
	l.add("		esac")
	l.add("		return 0")
	l.add("	fi")
	l.add("	if [[ $cur == -* ]]; then")
	l.add(`		mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur")`, strings.Join(toolFlags(), " "))
	l.add(`		[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace`)
	l.add("		return 0")
	l.add("	fi")
	l.add("	if [ ${#words[@]} -eq 0 ]; then")
	l.add(`		mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur")`, strings.Join(firstWords(), " "))
	l.add("		return 0")
	l.add("	fi")
	l.add(`	case "${words[*]}" in`)
	l.add("	%s)", quotedAll(ofMachines(), "|"))
	l.add(`		mapfile -t COMPREPLY < <(compgen -W "$("${COMP_WORDS[0]}" "${at[@]}" completion machines 2>/dev/null)" -- "$cur")`)
	l.add("		return 0 ;;")
	l.add("	esac")
	l.add("	[ ${#words[@]} -eq 1 ] || return 0")
	l.add(`	case ${words[0]} in`)
	for _, first := range firstWords() {
		if second := secondWords(first); second != nil {
			l.add(`	%s) mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur") ;;`, first, strings.Join(second, " "))
		}
	}
	l.add(`	completion) mapfile -t COMPREPLY < <(compgen -W 'bash zsh fish powershell' -- "$cur") ;;`)
	l.add("	esac")
	l.add("}")
	l.add("")
	l.add("complete -F _pace_node pace-node")
	l.add("complete -F _pacectl pacectl")
	return l.String()
}

// quoted is a text in single quotes of a POSIX shell, zsh or fish. The tables have no backslash.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// zshText is a description inside _arguments' brackets.
var zshText = strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`)

func zshCompletion() string {
	var l lines
	l.add("#compdef pace-node pacectl")
	l.add("# %s", madeFrom)
	l.add("")
	l.add("_pace_node_flags() {")
	l.add("	_arguments -S \\")
	for _, v := range config.Verbs {
		row := fmt.Sprintf("--%s[%s]", v.Name, zshText.Replace(v.Help))
		if v.Metavar != "" {
			row = fmt.Sprintf("--%s=[%s]:%s:", v.Name, zshText.Replace(v.Help), zshText.Replace(v.Metavar))
		}
		l.add("		%s \\", quoted(row))
	}
	for i := range config.Options {
		l.add("		%s \\", quoted(zshOption(&config.Options[i])))
	}
	l.add("		'*:: :'")
	l.add("}")
	l.add("")
	l.add("_pacectl() {")
	l.add("	local -a first second")
	l.add("	local context state line")
	l.add("	_arguments -C -S \\")
	for i := range config.Options {
		if o := &config.Options[i]; o.Tool {
			l.add("		%s \\", quoted(zshOption(o)))
		}
	}
	for i := range config.WordFlags {
		f := &config.WordFlags[i]
		row := fmt.Sprintf("--%s[%s]", f.Name, zshText.Replace(f.Help))
		if f.Metavar != "" {
			row = fmt.Sprintf("--%s=[%s]:%s:", f.Name, zshText.Replace(f.Help), f.Metavar)
		}
		if f.Metavar == "FILE" {
			row += "_files"
		}
		l.add("		%s \\", quoted(row))
	}
	l.add("		'1: :->first' '2: :->second' '3: :->third' '*:: :'")
	l.add("	case $state in")
	l.add("	first)")
	l.add("		first=(%s)", strings.Join(firstWords(), " "))
	l.add("		compadd -a first ;;")
	l.add("	second)")
	l.add("		case $line[1] in")
	l.add("		completion) second=(bash zsh fish powershell) ;;")
	for _, of := range ofMachines() {
		if !strings.Contains(of, " ") {
			l.add(`		%s) second=(${(f)"$(pacectl completion machines 2>/dev/null)"}) ;;`, of)
		}
	}
	for _, first := range firstWords() {
		if second := secondWords(first); second != nil {
			l.add("		%s) second=(%s) ;;", first, strings.Join(second, " "))
		}
	}
	l.add("		esac")
	l.add("		compadd -a second ;;")
	l.add("	third)")
	l.add(`		case "$line[1] $line[2]" in`)
	l.add(`		%s) second=(${(f)"$(pacectl completion machines 2>/dev/null)"}) ;;`, quotedAll(ofMachines(), "|"))
	l.add("		esac")
	l.add("		compadd -a second ;;")
	l.add("	esac")
	l.add("}")
	l.add("")
	l.add(`if [[ $service == pacectl ]]; then _pacectl "$@"; else _pace_node_flags "$@"; fi`)
	return l.String()
}

func zshOption(o *config.Option) string {
	many := ""
	if o.Repeat {
		many = "*"
	}
	switch help := zshText.Replace(o.Help); o.Kind {
	case config.KindSwitch:
		return fmt.Sprintf("%s--%s[%s]", many, o.Name, help)
	case config.KindPath:
		return fmt.Sprintf("%s--%s=[%s]:%s:_files", many, o.Name, help, zshText.Replace(o.Metavar))
	case config.KindChoice:
		return fmt.Sprintf("%s--%s=[%s]:choice:(%s)", many, o.Name, help, strings.Join(o.Choices, " "))
	default:
		return fmt.Sprintf("%s--%s=[%s]:%s:", many, o.Name, help, zshText.Replace(o.Metavar))
	}
}

func fishCompletion() string {
	var l lines
	l.add("# %s", madeFrom)
	l.add("complete -c pace-node -f")
	for _, v := range config.Verbs {
		value := ""
		if v.Metavar != "" {
			value = " -x"
		}
		l.add("complete -c pace-node -l %s%s -d %s", v.Name, value, quoted(v.Help))
	}
	for i := range config.Options {
		l.add("%s", fishOption("pace-node", &config.Options[i]))
	}
	return l.String()
}

func fishToolCompletion() string {
	var l lines
	l.add("# %s", madeFrom)
	l.add("complete -c pacectl -f")
	l.add("complete -c pacectl -n __fish_use_subcommand -a %s", quoted(strings.Join(firstWords(), " ")))
	for _, v := range verbs {
		first, second, two := strings.Cut(v.words, " ")
		if !two {
			continue
		}
		l.add("complete -c pacectl -n %s -a %s -d %s",
			quoted("__fish_seen_subcommand_from "+first+"; and not __fish_seen_subcommand_from "+strings.Join(secondWords(first), " ")), second, quoted(v.about))
	}
	l.add("complete -c pacectl -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish powershell'")
	for _, of := range ofMachines() {
		first, second, two := strings.Cut(of, " ")
		seen := "__fish_seen_subcommand_from " + first
		if two {
			seen += "; and __fish_seen_subcommand_from " + second
		}
		l.add("complete -c pacectl -n %s -a '(pacectl completion machines 2>/dev/null)'", quoted(seen))
	}
	for i := range config.Options {
		if o := &config.Options[i]; o.Tool {
			l.add("%s", fishOption("pacectl", o))
		}
	}
	for i := range config.WordFlags {
		f := &config.WordFlags[i]
		value := ""
		if f.Metavar != "" {
			value = " -x"
		}
		if f.Metavar == "FILE" {
			value = " -r -F"
		}
		l.add("complete -c pacectl -l %s%s -d %s", f.Name, value, quoted(f.Help))
	}
	return l.String()
}

func fishOption(command string, o *config.Option) string {
	value := " -x"
	switch o.Kind {
	case config.KindSwitch:
		value = ""
	case config.KindPath:
		value = " -r -F"
	case config.KindChoice:
		value = " -x -a " + quoted(strings.Join(o.Choices, " "))
	}
	return fmt.Sprintf("complete -c %s -l %s%s -d %s", command, o.Name, value, quoted(o.Help))
}
