// Package doctor judges what was found out about a machine, or from it about another one: it holds the tables of checks,
// each with what it looks at, its verdict, and the remedy. Its one job is that judgement, over facts that others collected.
//
// It must never look at anything itself: no socket, no file, no clock. What could not be found out is a fact as well.
package doctor

import (
	"cmp"
	"slices"
)

// Verdict is what a check comes to.
type Verdict uint8

// Verdicts, from the best to the worst.
const (
	OK      Verdict = iota // nothing is wrong there
	Unknown                // it could not be looked at, and the detail says why
	Notice                 // worth knowing, and nothing is wrong
	Warning                // it may be what is wrong, or will be
	Problem                // this is wrong
	verdictCount
)

var verdictNames = [verdictCount]string{"ok", "unknown", "notice", "warning", "problem"}

// String is the verdict's word.
func (v Verdict) String() string {
	if v < verdictCount {
		return verdictNames[v]
	}
	return "?"
}

// Verdicts lists them, from the best to the worst.
func Verdicts() []Verdict { return []Verdict{OK, Unknown, Notice, Warning, Problem} }

// Finding is what one check found.
type Finding struct {
	Check   string // name of the row
	Verdict Verdict
	Detail  string   // a sentence; text of other machines stands in it raw
	Remedy  string   // a command to paste with {places} for Args, and what to know about it after " # "; "" where nothing is to be done
	Args    []string // of the places, in order
}

// found is a Finding of a row that is named when it is returned.
func found(v Verdict, detail, remedy string, args ...string) Finding {
	return Finding{Verdict: v, Detail: detail, Remedy: remedy, Args: args}
}

// well is a Finding that all is well.
func well(detail string) Finding { return Finding{Verdict: OK, Detail: detail} }

// Check is one row: what is looked at, and how it is judged. A row that has nothing to say of these facts returns nothing.
type Check struct {
	Name       string
	Looks      string   // at what, for a person
	Conditions []string // raised ones that belong to it: each is a finding, before what Judge finds
	Judge      func(f *Facts) []Finding
}

// severities say what a raised condition comes to.
var severities = []struct {
	Severity string
	Verdict  Verdict
}{
	{"notice", Notice},
	{"warning", Warning},
	{"alert", Problem},
}

// worse are conditions that are what is wrong to who asks a doctor, whatever they are to who watches a fleet: nothing that
// this machine is for works while they stand.
var worse = []struct {
	Condition string
	Verdict   Verdict
}{
	{"peers-never-authenticated", Problem},
	{"discovery-no-interface", Problem},
	{"wire-version-seen", Warning},
}

func verdictOf(c Condition) Verdict {
	for _, w := range worse {
		if w.Condition == c.ID {
			return w.Verdict
		}
	}
	for _, s := range severities {
		if s.Severity == c.Severity {
			return s.Verdict
		}
	}
	return Unknown
}

// Examine judges the facts of this machine by every check, worst first, else in the table's order. A check that found
// nothing is well, and one of whom a condition says the same as its own look does not say it twice.
func Examine(f *Facts) []Finding {
	var out []Finding
	for i := range Checks {
		out = append(out, Checks[i].examine(f)...)
	}
	return worstFirst(out)
}

func (c *Check) examine(f *Facts) []Finding {
	var own []Finding
	if f.Node != nil {
		for _, raised := range f.Node.Conditions {
			if c.owns(raised.ID) {
				own = append(own, Finding{Verdict: verdictOf(raised), Detail: raised.ID + ": " + raised.Detail, Remedy: raised.Remedy})
			}
		}
	}
	raised := len(own)
	for _, j := range c.Judge(f) {
		switch {
		case raised == 0, j.Verdict > worst(own[:raised]):
			own = append(own, j)
		case raised == 1 && c.Name != catchAll && j.Verdict == own[0].Verdict && j.Remedy != "":
			own[0].Remedy, own[0].Args = j.Remedy, j.Args // a look at this machine knows more than the condition's general word
		}
	}
	for i := range own {
		own[i].Check = c.Name
	}
	return own
}

// catchAll is the check that the conditions belong to which no other one names: a condition of a later version is not lost.
const catchAll = "fleet"

// owns reports whether a condition belongs to a check.
func (c *Check) owns(id string) bool {
	if c.Name != catchAll {
		return slices.Contains(c.Conditions, id)
	}
	return !slices.ContainsFunc(Checks, func(o Check) bool { return slices.Contains(o.Conditions, id) })
}

func worst(all []Finding) Verdict {
	v := OK
	for _, f := range all {
		v = max(v, f.Verdict)
	}
	return v
}

// Worst is the worst verdict of findings.
func Worst(all []Finding) Verdict { return worst(all) }

func worstFirst(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(b.Verdict, a.Verdict) })
	return all
}
