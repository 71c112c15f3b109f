package host

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxEnvFile is the largest file of settings that is read, in bytes.
const maxEnvFile = 1 << 20

// ParseEnvFile reads NAME=value lines as systemd's EnvironmentFile does, so that the service and a shell's pacectl find
// the same values: # and ; begin a comment line, values stand in '…', "…" or bare with \ before what is meant as it is,
// a line that ends in \ goes on, and nothing is expanded. `export NAME=value` is read too. Of a name given twice the last
// counts. name is the file's, for Setting.Where and errors.
func ParseEnvFile(name string, data []byte) (map[string]Setting, error) {
	if len(data) > maxEnvFile {
		return nil, fmt.Errorf("%s: %w: it has %d bytes, and at most %d are read", name, ErrEnvFile, len(data), maxEnvFile)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%s: %w: it is not UTF-8", name, ErrEnvFile)
	}
	out := map[string]Setting{}
	r := envReader{text: unixLines(data), line: 1}
	for r.more() {
		start := r.line
		key, value, ok, err := r.entry()
		if err != nil {
			return nil, fmt.Errorf("%s line %d: %w: %w", name, start, ErrEnvFile, err)
		}
		if ok {
			out[key] = Setting{Value: value, Where: fmt.Sprintf("%s line %d", name, start)}
		}
	}
	return out, nil
}

var lineEnd = regexp.MustCompile(`\r+(\n|$)`)

// unixLines ends lines as POSIX does, also where an editor of Windows was at work.
func unixLines(data []byte) string { return string(lineEnd.ReplaceAll(data, []byte("$1"))) }

type envReader struct {
	text string
	line int // of the next byte, from 1
}

func (r *envReader) more() bool { return r.text != "" }

func (r *envReader) next() (c byte, ok bool) {
	if r.text == "" {
		return 0, false
	}
	c, r.text = r.text[0], r.text[1:]
	if c == '\n' {
		r.line++
	}
	return c, true
}

// rest takes what is left of the line, without its end.
func (r *envReader) rest() string {
	line, after, found := strings.Cut(r.text, "\n")
	r.text = after
	if found {
		r.line++
	}
	return line
}

// entry reads one line, with the lines that it goes on in. ok is false for a blank one and a comment.
func (r *envReader) entry() (key, value string, ok bool, err error) {
	r.text = strings.TrimLeft(r.text, " \t")
	if r.text == "" || strings.ContainsRune("\n#;", rune(r.text[0])) {
		r.rest()
		return "", "", false, nil
	}
	end := strings.IndexAny(r.text, "=\n")
	if end < 0 || r.text[end] == '\n' {
		return "", "", false, fmt.Errorf("there is no = in %.40q", r.rest())
	}
	key = strings.TrimSpace(r.text[:end])
	if k, exported := strings.CutPrefix(key, "export "); exported {
		key = strings.TrimSpace(k)
	}
	if !envName(key) {
		return "", "", false, fmt.Errorf("%.40q is not a name", key)
	}
	r.text = r.text[end+1:]
	value, err = r.value()
	return key, value, err == nil, err
}

func envName(s string) bool {
	for i := range len(s) {
		c := s[i]
		if c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// value reads up to the line's end: quoted and bare parts one after the other, white space at the ends left out.
func (r *envReader) value() (string, error) {
	var b strings.Builder
	kept := 0 // length up to the last byte that is not bare white space
	for {
		c, ok := r.next()
		switch {
		case !ok || c == '\n':
			return b.String()[:kept], nil
		case c == '\'' || c == '"':
			if err := r.quoted(&b, c); err != nil {
				return "", err
			}
			kept = b.Len()
		case c == '\\':
			if c, ok = r.next(); ok && c != '\n' {
				b.WriteByte(c)
				kept = b.Len()
			}
		case c == ' ' || c == '\t':
			if b.Len() > 0 {
				b.WriteByte(c)
			}
		default:
			b.WriteByte(c)
			kept = b.Len()
		}
	}
}

// quoted reads up to the closing quote, over line ends. In "…" a backslash stands before " \ $ ` and a line end.
func (r *envReader) quoted(b *strings.Builder, quote byte) error {
	for {
		c, ok := r.next()
		switch {
		case !ok:
			return fmt.Errorf("a %c is not closed", quote)
		case c == quote:
			return nil
		case c == '\\' && quote == '"':
			c, ok = r.next()
			if !ok {
				return fmt.Errorf("a %c is not closed", quote)
			}
			if !strings.ContainsRune("\"\\$`\n", rune(c)) {
				b.WriteByte('\\')
			}
			if c != '\n' {
				b.WriteByte(c)
			}
		default:
			b.WriteByte(c)
		}
	}
}
