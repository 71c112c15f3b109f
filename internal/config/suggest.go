package config

import "strings"

// maxDistance is how many letters a suggestion may be away: more is another word.
const maxDistance = 3

// nearest finds the candidate that text most likely meant, or "".
func nearest(text string, candidates []string) string {
	best, at := "", maxDistance+1
	for _, c := range candidates {
		word, name := strings.ToLower(text), strings.ToLower(c)
		begins := word != "" && (strings.HasPrefix(word, name) || strings.HasPrefix(name, word))
		if d := distance(word, name); d < at && (begins || d <= len(name)/2) {
			best, at = c, d
		}
	}
	return best
}

func suggest(text string, candidates []string) string {
	if n := nearest(text, candidates); n != "" {
		return "; did you mean " + n + "?"
	}
	return ""
}

func suggestFlag(text string, candidates []string) string {
	if n := nearest(text, candidates); n != "" {
		return " (did you mean --" + n + "?)"
	}
	return ""
}

// maxCompared bounds the work on a text that somebody pasted: no name of ours is longer.
const maxCompared = 64

// distance counts the letters to insert, remove or change, a swap of two neighbours counting as one.
func distance(a, b string) int {
	if len(a) > maxCompared || len(b) > maxCompared {
		return maxCompared
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
