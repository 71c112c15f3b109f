package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"pace-node/internal/config"
)

// DoctorReport is what `pacectl doctor` prints: what was looked at on this machine, or of another one from here.
type DoctorReport struct {
	V        int             `json:"v"`
	Target   string          `json:"target,omitempty"` // the other machine, as it was typed; left out: this one
	Verdict  string          `json:"verdict"`          // the worst of the findings
	Findings []DoctorFinding `json:"findings"`         // worst first
}

// DoctorFinding is what one check found.
type DoctorFinding struct {
	Check   string `json:"check"`            // its name
	Looks   string `json:"looks_at"`         // for a person
	Verdict string `json:"verdict"`          // ok, unknown, notice, warning, problem
	Detail  string `json:"detail"`           // a sentence
	Remedy  string `json:"remedy,omitempty"` // a command to paste; left out where nothing is to be done
}

// DoctorAsk is what a look at a machine may ask of its node, and how it tells that it goes on.
type DoctorAsk struct {
	Node     func(context.Context) (NodeStatus, error)
	Facts    func(context.Context) (NodeFacts, error)
	Progress func(text string) // "" ends it
}

// verdictProblem is the verdict that makes the exit status 1.
const verdictProblem = "problem"

// doctor looks for what is wrong.
func (r *runner) doctor(ctx context.Context, args []string) (Printable, error) {
	if r.deps.Doctor == nil {
		return nil, errors.New("this program cannot look at its machine")
	}
	host := ""
	if len(args) > 0 {
		host = args[0]
	}
	ask := DoctorAsk{
		Node: func(ctx context.Context) (NodeStatus, error) {
			return status[NodeStatus](r, ctx, "node")
		},
		Facts: func(ctx context.Context) (NodeFacts, error) {
			return status[NodeFacts](r, ctx, "doctor")
		},
		Progress: r.progress,
	}
	d, err := r.deps.Doctor(ctx, host, ask)
	r.progress("")
	if err != nil {
		return nil, err
	}
	return &d, nil
}

// progress shows on a terminal what is being done, in place; "" takes it away.
func (r *runner) progress(text string) {
	if r.deps.Terminal == nil || !r.deps.Terminal() {
		return
	}
	fmt.Fprintf(r.stderr, "\r\x1b[K%s", Sentence(text))
}

// exit is the status that a document ends the program with.
func (d *DoctorReport) exit() int {
	if d.Verdict == verdictProblem {
		return config.ExitFailed
	}
	return config.ExitOK
}

func (d *DoctorReport) commands() (out []*string) {
	for i := range d.Findings {
		out = append(out, &d.Findings[i].Remedy)
	}
	return out
}

func (d *DoctorReport) finish() {
	d.V = DocumentVersion
	d.Findings = orEmpty(d.Findings)
}

// Text implements Printable.
func (d *DoctorReport) Text() string {
	var l lines
	if d.Target != "" {
		l.words("target", Word(d.Target))
	}
	counts := map[string]int{}
	for _, f := range d.Findings {
		counts[f.Verdict]++
		l.words(Word(f.Verdict), Word(f.Check)+":", Sentence(f.Detail))
		if f.Remedy != "" {
			l.words("  remedy", f.Remedy)
		}
	}
	var sums []string
	for _, v := range []string{verdictProblem, "warning", "notice", "unknown", "ok"} {
		if counts[v] > 0 {
			sums = append(sums, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	l.words("verdict", orText(strings.Join(sums, ", "), "nothing was looked at"))
	return l.String()
}
