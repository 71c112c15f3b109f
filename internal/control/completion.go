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

// shells are those that there is a script for.
var shells = []string{"bash", "zsh", "fish", "powershell"}

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
		return nil, usageFailure(nearestOf([]string{"completion", args[0]}, shells), "%q is no shell that there is a completion for", args[0])
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
