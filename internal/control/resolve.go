package control

import (
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

// unknownMachine is the refusal of a word that means no machine, with the one that it most likely meant.
func unknownMachine(word, what, lister string, machines []Machine) *Failure {
	remedy := lister
	var names []string
	for _, m := range machines {
		names = append(names, m.Name, m.ID)
	}
	if n := nearest(word, names); n != "" {
		remedy = "did you mean " + Word(n) + "? " + lister + " shows all"
	}
	return &Failure{Code: codeUnknown, Exit: config.ExitRefused, Reason: fmt.Sprintf("%q is no machine of %s", word, what), Remedy: remedy}
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
		if len(word) > maxCompared || len(c) > maxCompared || c == "" {
			continue
		}
		if strings.HasPrefix(c, word) && len(word) >= 2 {
			return c
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < at && d < len(c) {
			best, at = c, d
		}
	}
	return best
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
