package control

import (
	"context"
	"strings"
)

// CompletionScript is what `pacectl completion` prints.
type CompletionScript struct {
	V     int    `json:"v"`
	Shell string `json:"shell"` // bash, zsh, fish, powershell; machines: names and ids, a line each
	Body  string `json:"text"`
}

func (d *CompletionScript) finish() { d.V = DocumentVersion }

// Text is the script as it is.
func (d *CompletionScript) Text() string { return d.Body }

// completionMachines is the word that the scripts themselves ask.
const completionMachines = "machines"

// completions are the scripts by their shell. They are made from the table of verbs, so a verb is handed them.
var completions = map[string]func() string{
	"bash":       bashCompletion,
	"zsh":        zshCompletion,
	"fish":       func() string { return fishCompletion() + fishToolCompletion() },
	"powershell": powershellCompletion,
}

func (r *runner) completion(ctx context.Context, args []string) (Printable, error) {
	if args[0] == completionMachines {
		return r.machineWords(ctx)
	}
	script, ok := r.scripts[args[0]]
	if !ok {
		names := []string{"bash", "zsh", "fish", "powershell"}
		return nil, usageFailure(nearestOf([]string{"completion", args[0]}, names), "%q is no shell that there is a completion for", args[0])
	}
	return &CompletionScript{Shell: args[0], Body: script()}, nil
}

// machineWords are what a person may call the members: names that are one member's, and ids. A name that a shell would not
// take as it is is left out.
func (r *runner) machineWords(ctx context.Context) (Printable, error) {
	s, err := status[ClusterStatus](r, ctx, "cluster")
	if err != nil {
		return nil, err
	}
	named := map[string]int{}
	for _, m := range s.Members {
		named[strings.ToLower(m.Name)]++
	}
	var l lines
	for _, m := range s.Members {
		if named[strings.ToLower(m.Name)] == 1 && Pasteable(m.Name) {
			l.add("%s", m.Name)
		}
		if Pasteable(m.ID) {
			l.add("%s", m.ID)
		}
	}
	return &CompletionScript{Shell: completionMachines, Body: l.String()}, nil
}

// ofMachines are the words that a machine may follow.
func ofMachines() []string {
	var out []string
	for _, v := range verbs {
		if strings.HasPrefix(strings.Trim(v.args, "["), "MACHINE") {
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

// powershellCompletion registers what completes pacectl's words. The tables have no quote in a word.
func powershellCompletion() string {
	var l lines
	l.add("# %s", madeFrom)
	l.add("Register-ArgumentCompleter -Native -CommandName pacectl -ScriptBlock {")
	l.add("	param($wordToComplete, $commandAst, $cursorPosition)")
	l.add("	$words = @($commandAst.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() } | Where-Object { -not $_.StartsWith('-') })")
	l.add("	if ($wordToComplete -ne '' -and -not $wordToComplete.StartsWith('-')) { $words = @($words | Select-Object -SkipLast 1) }")
	l.add("	$second = @{")
	for _, first := range firstWords() {
		if second := secondWords(first); second != nil {
			l.add("		'%s' = @(%s)", first, quotedAll(second, ", "))
		}
	}
	l.add("	}")
	l.add("	$candidates = @()")
	l.add("	if ($wordToComplete.StartsWith('-')) { $candidates = @(%s) }", quotedAll(toolFlags(), ", "))
	l.add("	elseif ($words.Count -eq 0) { $candidates = @(%s) }", quotedAll(firstWords(), ", "))
	l.add("	elseif (@(%s) -contains ($words -join ' ')) { $candidates = @(pacectl completion machines 2>$null) }", quotedAll(ofMachines(), ", "))
	l.add("	elseif ($words.Count -eq 1 -and $second.ContainsKey($words[0])) { $candidates = $second[$words[0]] }")
	l.add("	$candidates | Where-Object { $_ -like \"$wordToComplete*\" } | ForEach-Object { [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_) }")
	l.add("}")
	return l.String()
}
