package release

import (
	"cmp"
	"strings"
)

// Compare orders two versions as RPM does: the epoch first, then the version, then the release behind the last hyphen,
// each by segments of digits and letters. A tilde sorts before everything, also before the end; a caret sorts after the
// end and before everything else. A missing epoch is 0; a missing release sorts before any. It returns -1, 0 or 1.
// Source: rpm's rpmvercmp and its version documentation.
func Compare(a, b string) int {
	ea, va, ra := split(a)
	eb, vb, rb := split(b)
	if c := segments(ea, eb); c != 0 {
		return c
	}
	if c := segments(va, vb); c != 0 {
		return c
	}
	switch {
	case ra == "" && rb == "":
		return 0
	case ra == "":
		return -1
	case rb == "":
		return 1
	}
	return segments(ra, rb)
}

func split(s string) (epoch, version, release string) {
	epoch = "0"
	if i := strings.IndexByte(s, ':'); i >= 0 {
		if i > 0 {
			epoch = s[:i]
		}
		s = s[i+1:]
	}
	if i := strings.LastIndexByte(s, '-'); i >= 0 {
		return epoch, s[:i], s[i+1:]
	}
	return epoch, s, ""
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
func alpha(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
func other(c byte) bool { return !digit(c) && !alpha(c) && c != '~' && c != '^' }

func skip(s string) string {
	for s != "" && other(s[0]) {
		s = s[1:]
	}
	return s
}

func take(s string, is func(byte) bool) (head, rest string) {
	i := 0
	for i < len(s) && is(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

func segments(a, b string) int {
	for {
		a, b = skip(a), skip(b)
		ta, tb := strings.HasPrefix(a, "~"), strings.HasPrefix(b, "~")
		switch {
		case ta && tb:
			a, b = a[1:], b[1:]
			continue
		case ta:
			return -1
		case tb:
			return 1
		}
		ca, cb := strings.HasPrefix(a, "^"), strings.HasPrefix(b, "^")
		switch {
		case ca && cb:
			a, b = a[1:], b[1:]
			continue
		case ca && b == "":
			return 1
		case cb && a == "":
			return -1
		case ca:
			return -1
		case cb:
			return 1
		}
		if a == "" || b == "" {
			return cmp.Compare(min(len(a), 1), min(len(b), 1))
		}
		numeric := digit(a[0])
		is := alpha
		if numeric {
			is = digit
		}
		var ha, hb string
		ha, a = take(a, is)
		hb, b = take(b, is)
		if hb == "" { // a number is newer than letters
			if numeric {
				return 1
			}
			return -1
		}
		if numeric {
			ha, hb = strings.TrimLeft(ha, "0"), strings.TrimLeft(hb, "0")
			if c := cmp.Compare(len(ha), len(hb)); c != 0 {
				return c
			}
		}
		if c := strings.Compare(ha, hb); c != 0 {
			return c
		}
	}
}
