package control

import (
	"fmt"
	"slices"
	"strings"

	"pace-node/internal/config"
)

// What the scripts have in common: each reads the words that stand before the cursor, without flags and without their values
// (--flag=value, and --flag value), and completes by what they are.

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
		if f := &config.WordFlags[i]; f.TakesFile() {
			out = append(out, "--"+f.Name)
		}
	}
	return out
}

// toolValued are those of pacectl's flags that take a value.
func toolValued() []string {
	var out []string
	for _, f := range toolFlags() {
		if name, valued := strings.CutSuffix(f, "="); valued {
			out = append(out, name)
		}
	}
	return out
}

// toolWhere are those of pacectl's flags that say which node is asked: the machines are asked of that one.
func toolWhere() []string {
	var out []string
	for i := range config.Options {
		if o := &config.Options[i]; o.Tool && o.Kind != config.KindSwitch {
			out = append(out, "--"+o.Name)
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

// nextWords are what a script offers behind a first word.
func nextWords(first string) []string {
	if first == "completion" {
		return shells
	}
	return secondWords(first)
}

// ofMachines are the words that a machine may follow.
func ofMachines() []string { return wordsBefore("MACHINE") }

// ofFiles are the words that the path of a file or folder may follow.
func ofFiles() []string { return wordsBefore("FILE", "REPOSITORY") }

func wordsBefore(what ...string) []string {
	var out []string
	for _, v := range verbs {
		argument, _, _ := strings.Cut(strings.Trim(v.args, "[]"), " ")
		if v.words != "" && slices.Contains(what, argument) {
			out = append(out, v.words)
		}
	}
	return out
}

func quotedAll(words []string, separator string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = "'" + w + "'"
	}
	return strings.Join(out, separator)
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
	var files, others []string
	for _, v := range config.Verbs {
		if v.Metavar != "" {
			others = append(others, "--"+v.Name)
		}
	}
	for i := range config.Options {
		o := &config.Options[i]
		switch o.Kind {
		case config.KindSwitch:
		case config.KindPath:
			files = append(files, "--"+o.Name)
		case config.KindChoice:
			l.add("	--%s)", o.Name)
			l.add(`		mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur")`, strings.Join(o.Choices, " "))
			l.add("		return ;;")
		default:
			others = append(others, "--"+o.Name)
		}
	}
	l.add("	%s) return ;;", strings.Join(others, "|"))
	l.add("	%s)", strings.Join(files, "|"))
	l.add(`		mapfile -t COMPREPLY < <(compgen -f -- "$cur")`)
	l.add(`		compopt -o filenames`)
	l.add("		return ;;")
	l.add("	esac")
	l.add(`	mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur")`, strings.Join(flags(), " "))
	l.add(`	[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace`)
	l.add(`	return 0`)
	l.add("}")
	l.add("")
	l.add("_pacectl() {")
	l.add(`	local cur=${COMP_WORDS[COMP_CWORD]} flag='' before='' word words=() at=() machines=() value=0 goes=0`)
	l.add(`	# = and : break a word in several, so what follows one is the rest of a flag's value and no word.`)
	l.add(`	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do`)
	l.add("		case $word in")
	l.add("		=) if [[ $before == --* ]]; then flag=$before value=1; fi ;;")
	l.add(`		:) value=1; [ $goes -eq 1 ] && at[${#at[@]}-1]+=: ;;`)
	l.add("		*)")
	l.add("			if [ $value -eq 1 ]; then")
	l.add("				value=0")
	l.add(`				[ $goes -eq 1 ] && at[${#at[@]}-1]+=$word`)
	l.add("			else")
	l.add("				goes=0 flag=''")
	l.add("				case $word in")
	l.add(`				%s) flag=$word value=1 goes=1; at+=("$word=") ;;`, strings.Join(toolWhere(), "|"))
	l.add(`				%s) flag=$word value=1 ;;`, strings.Join(without(toolValued(), toolWhere()), "|"))
	l.add("				-*) ;;")
	l.add(`				*) words+=("$word") ;;`)
	l.add("				esac")
	l.add("			fi ;;")
	l.add("		esac")
	l.add("		before=$word")
	l.add("	done")
	l.add("	case $cur in")
	l.add("	=) if [[ $before == --* ]]; then flag=$before cur='' value=1; fi ;;")
	l.add("	:) flag='' value=1 ;;")
	l.add("	esac")
	l.add("	COMPREPLY=()")
	l.add("	if [ $value -eq 1 ]; then")
	l.add("		case $flag in")
	l.add("		%s)", strings.Join(toolFiles(), "|"))
	l.add(`			mapfile -t COMPREPLY < <(compgen -f -- "$cur")`)
	l.add(`			compopt -o filenames ;;`)
	l.add("		esac")
	l.add("		return 0")
	l.add("	fi")
	l.add("	if [[ $cur == -* ]]; then")
	l.add(`		mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur")`, strings.Join(toolFlags(), " "))
	l.add(`		[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace`)
	l.add("		return 0")
	l.add("	fi")
	l.add(`	case "${words[*]}" in`)
	l.add(`	'') mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur") ;;`, strings.Join(firstWords(), " "))
	for _, first := range firstWords() {
		if second := nextWords(first); second != nil {
			l.add(`	'%s') mapfile -t COMPREPLY < <(compgen -W '%s' -- "$cur") ;;`, first, strings.Join(second, " "))
		}
	}
	l.add("	%s)", quotedAll(ofMachines(), "|"))
	l.add("		# compgen would expand what it is given.")
	l.add(`		mapfile -t machines < <("${COMP_WORDS[0]/#\~\//$HOME/}" "${at[@]}" completion machines 2>/dev/null)`)
	l.add(`		for word in "${machines[@]}"; do`)
	l.add(`			[[ $word == "$cur"* ]] && COMPREPLY+=("$word")`)
	l.add("		done ;;")
	l.add("	%s)", quotedAll(ofFiles(), "|"))
	l.add(`		mapfile -t COMPREPLY < <(compgen -f -- "$cur")`)
	l.add(`		compopt -o filenames ;;`)
	l.add("	esac")
	l.add("	return 0")
	l.add("}")
	l.add("")
	l.add("complete -F _pace_node pace-node")
	l.add("complete -F _pacectl pacectl")
	return l.String()
}

func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// each is every word with something behind it.
func each(words []string, behind string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = w + behind
	}
	return out
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
	l.add("_pacectl_words() {")
	l.add("	local context state line word want=''")
	l.add("	local -a said at machines")
	l.add("	local -A opt_args")
	l.add(`	for word in "${(@Q)words[2,CURRENT-1]}"; do`)
	l.add("		if [[ -n $want ]]; then")
	l.add(`			[[ $want == - ]] || at+=("$want=$word")`)
	l.add("			want=''")
	l.add("			continue")
	l.add("		fi")
	l.add("		case $word in")
	l.add("		%s) want=$word ;;", strings.Join(toolWhere(), "|"))
	l.add("		%s) want=- ;;", strings.Join(without(toolValued(), toolWhere()), "|"))
	l.add(`		%s) at+=("$word") ;;`, strings.Join(each(toolWhere(), "=*"), "|"))
	l.add("		-*) ;;")
	l.add(`		*) said+=("$word") ;;`)
	l.add("		esac")
	l.add("	done")
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
		if f.TakesFile() {
			row += "_files"
		}
		l.add("		%s \\", quoted(row))
	}
	l.add("		'*: :->words' && return")
	l.add("	[[ $state == words ]] || return")
	l.add(`	case "$said" in`)
	l.add("	'') compadd - %s ;;", strings.Join(firstWords(), " "))
	for _, first := range firstWords() {
		if second := nextWords(first); second != nil {
			l.add("	'%s') compadd - %s ;;", first, strings.Join(second, " "))
		}
	}
	l.add("	%s)", quotedAll(ofMachines(), "|"))
	l.add(`		machines=(${(f)"$("${(Q)words[1]/#\~\//$HOME/}" $at completion machines 2>/dev/null)"})`)
	l.add("		compadd -a machines ;;")
	l.add("	%s) _files ;;", quotedAll(ofFiles(), "|"))
	l.add("	*) return 1 ;;")
	l.add("	esac")
	l.add("}")
	l.add("")
	l.add("_pace_node_or_pacectl() {")
	l.add(`	if [[ $service == pacectl ]]; then _pacectl_words "$@"; else _pace_node_flags "$@"; fi`)
	l.add("}")
	l.add("")
	l.add("# Out of $fpath it is called to complete; from a file that is sourced it only says what completes.")
	l.add(`if (( ${+compstate} )); then _pace_node_or_pacectl "$@"; else compdef _pace_node_or_pacectl pace-node pacectl; fi`)
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
	l.add("function __pacectl_said -d 'the words before the cursor, without flags and their values'")
	l.add("    set -l tokens (commandline -opc)")
	l.add("    set -e tokens[1]")
	l.add("    set -l said")
	l.add("    set -l value 0")
	l.add("    for word in $tokens")
	l.add("        if test $value = 1")
	l.add("            set value 0")
	l.add("            continue")
	l.add("        end")
	l.add("        switch $word")
	l.add("            case %s", strings.Join(toolValued(), " "))
	l.add("                set value 1")
	l.add("            case '-*'")
	l.add("            case '*'")
	l.add("                set said $said $word")
	l.add("        end")
	l.add("    end")
	l.add("    string join -- ' ' $said")
	l.add("end")
	l.add("")
	l.add("function __pacectl_is -d 'whether those words are one of these'")
	l.add(`    set -l said (__pacectl_said)`)
	l.add(`    contains -- "$said" $argv`)
	l.add("end")
	l.add("")
	l.add("function __pacectl_machines -d 'the machines that the node knows which is asked'")
	l.add("    set -l tokens (commandline -opc)")
	l.add("    set -l at")
	l.add("    set -l want ''")
	l.add("    for word in $tokens[2..-1]")
	l.add(`        if test -n "$want"`)
	l.add(`            set at $at "$want=$word"`)
	l.add("            set want ''")
	l.add("            continue")
	l.add("        end")
	l.add("        switch $word")
	l.add("            case %s", strings.Join(toolWhere(), " "))
	l.add("                set want $word")
	l.add("            case %s", quotedAll(each(toolWhere(), "=*"), " "))
	l.add("                set at $at $word")
	l.add("        end")
	l.add("    end")
	l.add("    $tokens[1] $at completion machines 2>/dev/null")
	l.add("end")
	l.add("")
	l.add("complete -c pacectl -f")
	l.add("complete -c pacectl -n %s -a %s", quoted("__pacectl_is ''"), quoted(strings.Join(firstWords(), " ")))
	for _, v := range verbs {
		if first, second, two := strings.Cut(v.words, " "); two {
			l.add("complete -c pacectl -n %s -a %s -d %s", quoted("__pacectl_is "+first), second, quoted(v.about))
		}
	}
	l.add("complete -c pacectl -n '__pacectl_is completion' -a %s", quoted(strings.Join(shells, " ")))
	l.add("complete -c pacectl -n %s -a '(__pacectl_machines)'", quoted("__pacectl_is "+fishWords(ofMachines())))
	l.add("complete -c pacectl -n %s -F", quoted("__pacectl_is "+fishWords(ofFiles())))
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
		if f.TakesFile() {
			value = " -r -F"
		}
		l.add("complete -c pacectl -l %s%s -d %s", f.Name, value, quoted(f.Help))
	}
	return l.String()
}

// fishWords are words of two inside a text that stands in single quotes.
func fishWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = `"` + w + `"`
	}
	return strings.Join(out, " ")
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

// powershellCompletion registers what completes pacectl's words. The tables have no quote in a word.
func powershellCompletion() string {
	var l lines
	l.add("# %s", madeFrom)
	l.add("Register-ArgumentCompleter -Native -CommandName pacectl -ScriptBlock {")
	l.add("	param($wordToComplete, $commandAst, $cursorPosition)")
	l.add("	$typed = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })")
	l.add("	if ($wordToComplete -ne '') { $typed = @($typed | Select-Object -SkipLast 1) }")
	l.add("	$where = @(%s)", quotedAll(toolWhere(), ", "))
	l.add("	$valued = @(%s)", quotedAll(toolValued(), ", "))
	l.add("	$words = @()")
	l.add("	$at = @()")
	l.add("	$flag = ''")
	l.add("	foreach ($word in $typed) {")
	l.add("		if ($flag -ne '') {")
	l.add(`			if ($where -contains $flag) { $at += "$flag=$word" }`)
	l.add("			$flag = ''")
	l.add("		}")
	l.add("		elseif ($valued -contains $word) { $flag = $word }")
	l.add("		elseif ($where -contains ($word -split '=', 2)[0]) { $at += $word }")
	l.add("		elseif (-not $word.StartsWith('-')) { $words += $word }")
	l.add("	}")
	l.add("	$second = @{")
	for _, first := range firstWords() {
		if second := nextWords(first); second != nil {
			l.add("		'%s' = @(%s)", first, quotedAll(second, ", "))
		}
	}
	l.add("	}")
	l.add("	$candidates = @()")
	l.add("	if ($flag -ne '') { }")
	l.add("	elseif ($wordToComplete.StartsWith('-')) { $candidates = @(%s) }", quotedAll(toolFlags(), ", "))
	l.add("	elseif ($words.Count -eq 0) { $candidates = @(%s) }", quotedAll(firstWords(), ", "))
	l.add("	elseif (@(%s) -contains ($words -join ' ')) { $candidates = @(& $commandAst.GetCommandName() @at completion machines 2>$null) }", quotedAll(ofMachines(), ", "))
	l.add("	elseif ($words.Count -eq 1 -and $second.ContainsKey($words[0])) { $candidates = $second[$words[0]] }")
	l.add("	$candidates | Where-Object { $_.StartsWith($wordToComplete, [System.StringComparison]::OrdinalIgnoreCase) } | ForEach-Object {")
	l.add("		# A comma and an @ mean something to this shell; a name has no quote.")
	l.add(`		$text = if ($_ -match '^[A-Za-z0-9._:/=+-]+$') { $_ } else { "'$_'" }`)
	l.add("		[System.Management.Automation.CompletionResult]::new($text, $_, 'ParameterValue', $_)")
	l.add("	}")
	l.add("}")
	return l.String()
}
