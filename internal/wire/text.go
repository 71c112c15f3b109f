package wire

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxPortDigits: 65535 has five.
const maxPortDigits = 5

// ValidEndpoint reports whether s is a dialable host:port: a host name, an IPv4
// address or an IPv6 address in brackets, and a port 1..65535 in plain digits,
// at most MaxEndpoint bytes in all. Whether anything answers there is not asked.
func ValidEndpoint(s string) bool { return validEndpoint(s) }

// validEndpoint works on bytes as well, so that a datagram is judged before a
// string of it is made.
func validEndpoint[T ~string | ~[]byte](s T) bool {
	if len(s) > MaxEndpoint {
		return false
	}
	colon := -1
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == ':' {
			colon = i
			break
		}
	}
	if colon <= 0 || !validPort(s[colon+1:]) {
		return false
	}
	host := s[:colon]
	if host[0] == '[' {
		if host[len(host)-1] != ']' || !validHostText(host[1:len(host)-1]) {
			return false
		}
		a, err := netip.ParseAddr(string(host[1 : len(host)-1]))
		return err == nil && a.Is6()
	}
	return validHostText(host) && !hasByte(host, ':')
}

func validPort[T ~string | ~[]byte](s T) bool {
	if len(s) == 0 || len(s) > maxPortDigits {
		return false
	}
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n >= 1 && n <= 65535
}

// validHostText refuses what no host name holds and what would turn an endpoint
// into a URL, a command line or a terminal escape. Names beyond ASCII are let
// through: Windows allows them.
func validHostText[T ~string | ~[]byte](s T) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c <= ' ', c == 0x7f:
			return false
		case c == '/' || c == '\\' || c == '@' || c == '?' || c == '#' || c == ',' ||
			c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' || c == '[' || c == ']':
			return false
		}
	}
	return len(s) > 0 && validText(s)
}

func hasByte[T ~string | ~[]byte](s T, c byte) bool {
	for i := 0; i < len(s); i++ {
		if s[i] == c {
			return true
		}
	}
	return false
}

// ValidID reports whether s is [A-Za-z0-9._-]{1,64}: the one predicate for the
// id of a node that asks to enroll or is typed by an operator.
func ValidID(s string) bool { return len(s) >= 1 && len(s) <= MaxID && idLetters(s) }

// idLetters reports whether s holds nothing but letters of an id.
func idLetters[T ~string | ~[]byte](s T) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' ||
			c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

// ValidText reports whether s is UTF-8 without control characters (C0, DEL, C1)
// and without the characters that reorder what a terminal shows.
func ValidText(s string) bool { return validText(s) }

func validText[T ~string | ~[]byte](s T) bool {
	for i := 0; i < len(s); {
		r, n := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			// Four bytes are the longest rune; the conversion stays on the stack.
			r, n = utf8.DecodeRuneInString(string(s[i:min(i+utf8.UTFMax, len(s))]))
			if r == utf8.RuneError && n <= 1 {
				return false
			}
		}
		if controls(r) {
			return false
		}
		i += n
	}
	return true
}

func controls(r rune) bool {
	return r < 0x20 || r >= 0x7f && r <= 0x9f ||
		r == 0x2028 || r == 0x2029 || // line and paragraph separator
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || // bidirectional overrides
		r == 0x200e || r == 0x200f || r == 0x061c || r == 0xfeff
}

// Printable returns s as it may be shown on a terminal or in a log: unchanged if
// it is ValidText, else with what is not escaped in the way of strconv.Quote.
func Printable(s string) string {
	if ValidText(s) {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
