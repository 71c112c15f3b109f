package process

import (
	"errors"
	"strings"
)

var (
	errNoCommand = errors.New("there is no program in it")
	errOpenQuote = errors.New("a quotation mark is opened and not closed")
	errOpenSlash = errors.New("it ends with a backslash that escapes nothing")
	errNullByte  = errors.New("it holds a zero byte")
)

// Split splits a command line into words as a shell does: blanks part words, '…' keeps everything, "…" keeps
// everything but a backslash before \, ", $ or `, a backslash outside quotation marks keeps the next character. Nothing is
// expanded. On Windows, where a backslash parts folders, it escapes only a quotation mark and ' is an ordinary character.
func Split(s string, windows bool) ([]string, error) {
	if strings.ContainsRune(s, 0) {
		return nil, errNullByte
	}
	var words []string
	var word strings.Builder
	started := false
	quoted := byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quoted == '\'':
			if c == '\'' {
				quoted = 0
			} else {
				word.WriteByte(c)
			}
		case c == '\\' && windows:
			if i+1 < len(s) && s[i+1] == '"' {
				i++
				c = '"'
			}
			started = true
			word.WriteByte(c)
		case c == '\\' && quoted == '"':
			if i+1 < len(s) && strings.IndexByte("\\\"$`", s[i+1]) >= 0 {
				i++
				c = s[i]
			}
			word.WriteByte(c)
		case c == '\\':
			if i+1 == len(s) {
				return nil, errOpenSlash
			}
			i++
			started = true
			word.WriteByte(s[i])
		case quoted == '"':
			if c == '"' {
				quoted = 0
			} else {
				word.WriteByte(c)
			}
		case c == '"' || (c == '\'' && !windows):
			quoted, started = c, true
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			if started {
				words = append(words, word.String())
				word.Reset()
				started = false
			}
		default:
			started = true
			word.WriteByte(c)
		}
	}
	if quoted != 0 {
		return nil, errOpenQuote
	}
	if started {
		words = append(words, word.String())
	}
	if len(words) == 0 || words[0] == "" {
		return nil, errNoCommand
	}
	return words, nil
}
