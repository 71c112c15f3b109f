package process

import (
	"strings"
	"testing"
)

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		in      string
		windows bool
		want    string // joined by |; "!" is an error
	}{
		{`/usr/bin/helper`, false, `/usr/bin/helper`},
		{`  helper   -a  b `, false, `helper|-a|b`},
		{`helper 'a b' "c d"`, false, `helper|a b|c d`},
		{`helper a' 'b"c"`, false, `helper|a bc`},
		{`helper '' ""`, false, `helper||`},
		{`helper a\ b \"`, false, `helper|a b|"`},
		{`helper "a\"b\\c\d$"`, false, `helper|a"b\c\d$`},
		{`helper 'a\b'`, false, `helper|a\b`},
		{`helper $HOME *.x; rm -rf /`, false, `helper|$HOME|*.x;|rm|-rf|/`}, // nothing is expanded
		{"helper\ta\nb", false, `helper|a|b`},
		{`helper "a`, false, `!`},
		{`helper 'a`, false, `!`},
		{`helper a\`, false, `!`},
		{``, false, `!`},
		{` `, false, `!`},
		{`"" a`, false, `!`},
		{"a\x00b", false, `!`},
		{`C:\Tools\helper.exe -x C:\a\b`, true, `C:\Tools\helper.exe|-x|C:\a\b`},
		{`"C:\Program Files\helper.exe" "a \"b\""`, true, `C:\Program Files\helper.exe|a "b"`},
		{`helper it's`, true, `helper|it's`},
	} {
		got, err := Split(c.in, c.windows)
		text := strings.Join(got, "|")
		if err != nil {
			text = "!"
		}
		if text != c.want {
			t.Errorf("%q (windows %v): %q %v, want %q", c.in, c.windows, text, err, c.want)
		}
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(`a "b c" 'd' \e`, false)
	f.Add(`C:\x "y`, true)
	f.Fuzz(func(t *testing.T, s string, windows bool) {
		words, err := Split(s, windows)
		if err == nil && (len(words) == 0 || words[0] == "") {
			t.Fatalf("%q: no program and no error", s)
		}
		total := 0
		for _, w := range words {
			total += len(w)
		}
		if total > len(s) {
			t.Fatalf("%q grew to %q", s, words)
		}
	})
}
