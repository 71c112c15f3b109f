package control

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxWordShown bounds a word of another machine in a column, in characters: a
// name may be as long as a Hello, and a line must stay a line.
const maxWordShown = 200

// nothing is what a column holds when there is nothing to show, so that columns
// keep their places.
const nothing = "-"

// wordSafe are the ASCII characters besides letters and digits that mean nothing
// to sh, bash, cmd and PowerShell inside a word, and do not end one.
const wordSafe = "._:/@%+=,-[]"

// sentenceSafe are those that a sentence may hold besides: quotes run nothing
// once every character that could run something is escaped.
const sentenceSafe = wordSafe + " '\"?*#"

// pathSafe is the one more that sentences of this machine need where paths have
// it: to cmd and PowerShell a backslash means nothing.
func pathSafe(goos string) string {
	if goos == "windows" {
		return `\`
	}
	return ""
}

// Word returns text that another machine chose as one column: without a space,
// and so that nothing in it runs, whatever shell it is pasted into. Empty text
// is "-". What is escaped is written \xNN or \u{NNNN}; at most maxWordShown
// characters are shown.
func Word(s string) string {
	if s == "" {
		return nothing
	}
	return escape(s, wordSafe, maxWordShown)
}

// Sentence returns a sentence of a node as the rest of a line: it keeps its
// spaces, and nothing in it runs when it is pasted. Placeholders such as <id>
// become ID, and round brackets square ones, so that our own hints stay readable;
// what stands in double quotes is somebody else's and stays as it was chosen.
func Sentence(s string) string {
	return Chosen(plainer(s))
}

// Chosen returns text that a person or another program chose, as the rest of a
// line: escaped where it could run or end the line, and otherwise as it is.
func Chosen(s string) string {
	return escape(s, sentenceSafe+pathSafe(runtime.GOOS), -1)
}

const arrow = '→'

func escape(s, safe string, most int) string {
	var b strings.Builder
	shown := 0
	for i := 0; i < len(s); {
		if most >= 0 && shown == most {
			b.WriteString("...")
			break
		}
		shown++
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r < utf8.RuneSelf && (r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(safe, r)):
			b.WriteRune(r)
		// Beyond ASCII only what spells words: PowerShell takes typographic quotes for quotes, and a terminal
		// takes format characters for orders.
		case r == arrow: // ours, in what became what; no shell and no terminal acts on it
			b.WriteRune(r)
		case r >= utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)):
			b.WriteRune(r)
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	return b.String()
}

// plainer rewrites the habits of hints, so that they need no escaping: <id> → ID,
// (…) → […], ` → ', and a semicolon before a space → a comma. What is quoted, as
// strconv.Quote does, is left alone.
func plainer(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			quoted := quotedPart(s[i:])
			b.WriteString(quoted)
			i += len(quoted) - 1
		case '<':
			if name, ok := placeholder(s[i+1:]); ok {
				b.WriteString(strings.ToUpper(name))
				i += len(name) + 1
				continue
			}
			b.WriteByte(s[i])
		case ';':
			if i+1 < len(s) && s[i+1] == ' ' {
				b.WriteByte(',')
				continue
			}
			b.WriteByte(';')
		case '(':
			b.WriteByte('[')
		case ')':
			b.WriteByte(']')
		case '`':
			b.WriteByte('\'')
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// quotedPart is the start of s up to the quote that ends what its first one begins; the quote alone where none does.
func quotedPart(s string) string {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return s[:i+1]
		}
	}
	return s[:1]
}

// placeholder returns the name in front of a closing bracket: lowercase letters,
// digits, spaces and hyphens.
func placeholder(s string) (string, bool) {
	const most = 40 // longer is no placeholder
	for i := 0; i < len(s) && i <= most; i++ {
		c := s[i]
		switch {
		case c == '>':
			return s[:i], i > 0
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == ' ' || c == '-':
		default:
			return "", false
		}
	}
	return "", false
}

// Pasteable reports whether s may stand in a command that a person pastes: it is
// one word that no shell changes, and no option by itself.
func Pasteable(s string) bool {
	if s == "" || s[0] == '-' || s[0] == '=' {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("._:/@=,+-[]", c) >= 0) {
			return false
		}
	}
	return true
}

// marshal returns v as one line of JSON that is safe to paste and to show: what
// a shell or a terminal would act on inside a string is written \uNNNN, which
// parses to the same value.
func marshal(v any) ([]byte, error) {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("control: encode %T: %w", v, err)
	}
	return append(quietJSON(bytes.TrimRight(raw.Bytes(), "\n")), '\n'), nil
}

// quietJSON rewrites strings of valid JSON. An escaped quote becomes \u0022:
// PowerShell does not know \" and would end the string there.
func quietJSON(in []byte) []byte {
	out := make([]byte, 0, len(in)+len(in)/8)
	for i := 0; i < len(in); {
		c := in[i]
		switch {
		case c == '\\' && i+1 < len(in) && in[i+1] == '"':
			out = append(out, `\u0022`...)
			i += 2
		case c == '\\' && i+1 < len(in):
			out = append(out, c, in[i+1])
			i += 2
		case strings.IndexByte("$`!';|()\x7f", c) >= 0:
			out = fmt.Appendf(out, `\u%04x`, c)
			i++
		case c < utf8.RuneSelf:
			out = append(out, c)
			i++
		default:
			r, n := utf8.DecodeRune(in[i:])
			switch {
			case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
				out = append(out, in[i:i+n]...)
			case r > 0xffff:
				hi, lo := surrogates(r)
				out = fmt.Appendf(out, `\u%04x\u%04x`, hi, lo)
			default:
				out = fmt.Appendf(out, `\u%04x`, r)
			}
			i += n
		}
	}
	return out
}

// surrogates spells a character beyond the basic plane as JSON wants it.
func surrogates(r rune) (hi, lo rune) {
	r -= 0x10000
	return 0xd800 + r>>10, 0xdc00 + r&0x3ff
}
