package docs

import (
	"path"
	"slices"
	"strings"
)

// Commands are those of ours (pace-node or pacectl, and their arguments) that a line has a shell run. bat says that it is
// Windows' shell, to which a backslash means nothing.
func Commands(text string, bat bool) [][]string {
	var out [][]string
	text, _ = cutHereDocument(text)
	for _, words := range split(text, bat) {
		if at := program(words); at >= 0 {
			out = append(out, append([]string{base(words[at])}, words[at+1:]...))
		}
	}
	return out
}

func cutHereDocument(text string) (before, document string) {
	first, rest, _ := strings.Cut(text, "\n")
	if hereDocument(first) != "" {
		return first, rest
	}
	return text, ""
}

// before are programs that run the one that is named behind them.
var before = []string{"sudo", "env", "exec", "nohup", "nice", "time"}

// program finds where in the words of a command one of our programs is run, or -1.
func program(words []string) int {
	for i := 0; i < len(words); i++ {
		switch w := words[i]; {
		case base(w) == "pace-node" || base(w) == "pacectl":
			return i
		case slices.Contains(before, w) || i > 0 && strings.HasPrefix(w, "-") || assignment(w):
		case w == "ssh": // ssh [flags] HOST command
			for i++; i < len(words) && strings.HasPrefix(words[i], "-"); i++ {
				if len(words[i]) == 2 && strings.Contains("DFiJLloOpRW", words[i][1:]) {
					i++ // its value
				}
			}
		default:
			return -1
		}
	}
	return -1
}

func assignment(word string) bool {
	name, _, found := strings.Cut(word, "=")
	return found && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789") == ""
}

// base is a program's name without its folder and ending.
func base(word string) string {
	return strings.TrimSuffix(path.Base(strings.ReplaceAll(word, `\`, "/")), ".exe")
}

// split takes a line of a shell apart into commands of words, as far as pages write such lines: quotes, backslashes,
// comments, redirections and what joins commands. What a substitution runs is a command of its own.
func split(text string, bat bool) [][]string {
	var out [][]string
	var words []string
	var word strings.Builder
	begun, redirected := false, false
	endWord := func() {
		if begun && !redirected {
			words = append(words, word.String())
		}
		if begun {
			redirected = false
		}
		word.Reset()
		begun = false
	}
	endCommand := func() {
		endWord()
		redirected = false
		if len(words) > 0 {
			out = append(out, words)
		}
		words = nil
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && !bat && i+1 < len(text):
			i++
			if text[i] != '\n' {
				word.WriteByte(text[i])
				begun = true
			}
		case c == '\'' && !bat, c == '"':
			begun = true
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' && c == '"' && !bat && i+1 < len(text) && strings.IndexByte("\\\"$`", text[i+1]) >= 0 {
					i++
				}
				word.WriteByte(text[i])
			}
		case c == '$' && strings.HasPrefix(text[i:], "$("):
			end := strings.IndexByte(text[i:], ')')
			if end < 0 {
				end = len(text) - i
			}
			out = append(out, split(text[i+2:i+end], bat)...)
			word.WriteString(text[i:min(i+end+1, len(text))])
			begun = true
			i += end
		case c == '#' && !begun && !bat:
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case c == ' ' || c == '\t':
			endWord()
		case c == '>' || c == '<':
			if n := word.String(); n == "1" || n == "2" {
				word.Reset() // 2>file
				begun = false
			}
			endWord()
			redirected = true
			for i+1 < len(text) && strings.IndexByte("<>&", text[i+1]) >= 0 {
				i++
			}
		case strings.IndexByte("\n;|&()", c) >= 0:
			endCommand()
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	endCommand()
	return out
}
