package control

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

// maxListed is how many candidates a refusal lists.
const maxListed = 8

// minPrefix is the least start of an id that names a machine, characters. Ids are hexadecimal, and so are words that people use as
// names: "forget fee" of a machine that is not there must not be the one whose id begins so, since that cannot be undone.
const minPrefix = 6

// resolve finds the machine that a person means: by its id, by its name where
// that is unique, or by a unique prefix of its id. A word that is one machine's
// name and the start of another's id is ambiguous: names are chosen by machines,
// and none may pass for another. what says what is searched, and lister what shows it, for the refusal.
func resolve(word, what, lister string, machines []Machine) (string, error) {
	var found []Machine
	for _, m := range machines {
		if m.ID == word {
			return m.ID, nil
		}
		if word != "" && (strings.EqualFold(m.Name, word) || len(word) >= minPrefix && strings.HasPrefix(m.ID, word)) && !slices.ContainsFunc(found, func(f Machine) bool { return f.ID == m.ID }) {
			found = append(found, m)
		}
	}
	switch {
	case len(found) == 1:
		return found[0].ID, nil
	case len(found) > 1:
		return "", &Failure{
			Code: codeAmbiguous, Exit: config.ExitUsage,
			Reason: fmt.Sprintf("%q may mean %d machines of %s: %s", word, len(found), what, listed(found)),
			Remedy: "name it by its whole id: " + lister,
		}
	case len(word) < minPrefix && slices.ContainsFunc(machines, func(m Machine) bool { return word != "" && strings.HasPrefix(m.ID, word) }):
		return "", &Failure{
			Code: codeUnknown, Exit: config.ExitRefused,
			Reason: fmt.Sprintf("%q is no machine of %s by name, and too short for the start of an id", word, what),
			Remedy: fmt.Sprintf("give %d characters of the id or more: %s", minPrefix, lister),
		}
	case wire.ValidID(word):
		return word, nil // the node knows more machines than it listed, and says what it does not know
	}
	return "", unknownMachine(word, what, lister, machines)
}

// unknownMachine is the refusal of a word that means no machine, with those that it most likely meant.
func unknownMachine(word, what, lister string, machines []Machine) *Failure {
	f := &Failure{Code: codeUnknown, Exit: config.ExitRefused, Reason: fmt.Sprintf("%q is no machine of %s", word, what), Remedy: lister}
	f.meant(nearby(word, machines), lister)
	return f
}

// guess is what a word may have meant that the list of machines does not hold, as long as the node may know it.
type guess struct {
	near   []NearMachine
	lister string
}

// meant adds to a failure which machines a mistyped word may mean. Names are chosen by machines, so each stands with its id.
func (f *Failure) meant(near []NearMachine, lister string) {
	if len(near) == 0 {
		return
	}
	f.Near = near
	var words []string
	for _, m := range near {
		w := Word(m.ID)
		if m.Name != "" {
			w = Word(m.Name) + " (" + Word(m.ID) + ")"
		}
		words = append(words, w)
	}
	f.Remedy = "did you mean " + strings.Join(words, ", or ") + "? " + lister + " shows all"
}

// maxNear is how many machines are proposed for one word.
const maxNear = 3

// nearby are the machines that a mistyped word may mean, by their names and ids, the likeliest first.
func nearby(word string, machines []Machine) []NearMachine {
	type ranked struct {
		NearMachine
		away int
	}
	var found []ranked
	for _, m := range machines {
		away := min(away(word, m.Name), away(word, m.ID))
		if away <= maxDistance && !slices.ContainsFunc(found, func(f ranked) bool { return f.ID == m.ID }) {
			found = append(found, ranked{NearMachine{ID: m.ID, Name: m.Name}, away})
		}
	}
	slices.SortStableFunc(found, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.away, b.away), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	var out []NearMachine
	for _, f := range found[:min(len(found), maxNear)] {
		out = append(out, f.NearMachine)
	}
	return out
}

func listed(machines []Machine) string {
	var s []string
	for i, m := range machines {
		if i == maxListed {
			s = append(s, fmt.Sprintf("and %d more", len(machines)-i))
			break
		}
		s = append(s, Word(m.ID)+" "+Word(m.Name))
	}
	return strings.Join(s, ", ")
}

// maxDistance is how many letters a suggestion may be away.
const maxDistance = 2

// maxCompared bounds the work on what somebody pasted.
const maxCompared = 64

// nearest returns the candidate that a mistyped word most likely meant, or "".
func nearest(word string, candidates []string) string {
	best, at := "", maxDistance+1
	for _, c := range candidates {
		if d := away(word, c); d < at {
			best, at = c, d
		}
	}
	return best
}

// away is how far a candidate is from a word, in letters; its beginning is none away, and one that cannot be meant is more than
// maxDistance.
func away(word, c string) int {
	if len(word) > maxCompared || len(c) > maxCompared || c == "" {
		return maxDistance + 1
	}
	if strings.HasPrefix(c, word) && len(word) >= 2 {
		return 0
	}
	if d := distance(strings.ToLower(word), strings.ToLower(c)); d < len(c) {
		return d
	}
	return maxDistance + 1
}

// distance counts inserted, removed and changed letters, two swapped neighbours
// counting as one (optimal string alignment).
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
