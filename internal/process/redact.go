package process

import "strings"

const withheld = "[a key, withheld]"

// Redact takes PEM blocks of private keys out of a text, also one whose beginning was cut off.
func Redact(s string) string {
	const begin, end, key = "-----BEGIN ", "-----END ", "PRIVATE KEY-----"
	var out strings.Builder
	for {
		i := strings.Index(s, key)
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		head := s[:i]
		if b := strings.LastIndex(head, begin); b >= 0 && !strings.Contains(head[b:], "\n") {
			out.WriteString(s[:b])
			s = s[i+len(key):]
			if j := strings.Index(s, key); j >= 0 && strings.Contains(s[:j], end) {
				s = s[j+len(key):]
			} else {
				s = ""
			}
		} else if strings.Contains(head, end) {
			s = s[i+len(key):] // only the end was kept: everything before it is the key
			out.Reset()
		} else {
			out.WriteString(s[:i+len(key)])
			s = s[i+len(key):]
			continue
		}
		out.WriteString(withheld)
	}
}
