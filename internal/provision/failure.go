package provision

import (
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"pace-node/internal/process"
)

// Reason is why a helper's run gave no answer; it is the label of pace_provision_helper_errors_total.
type Reason string

// The reasons.
const (
	ReasonMissing   Reason = "missing"
	ReasonStart     Reason = "start"
	ReasonTimeout   Reason = "timeout"
	ReasonExit      Reason = "exit"
	ReasonNoOutput  Reason = "no_output"
	ReasonNotJSON   Reason = "not_json"
	ReasonSeveral   Reason = "several_documents"
	ReasonTooLarge  Reason = "too_large"
	ReasonWrongType Reason = "wrong_type"
	ReasonEmpty     Reason = "empty_configuration"
	ReasonDefault   Reason = "default"
	ReasonCancelled Reason = "cancelled"
)

// ReasonRow is one row of Reasons.
type ReasonRow struct {
	Reason    Reason
	Permanent bool // the helper would say the same again: parked
}

// Reasons is the table of a helper's failures. What may be the network's or the moment's fault is tried again; an answer
// that is whole and wrong is not.
var Reasons = []ReasonRow{
	{ReasonMissing, false},
	{ReasonStart, false},
	{ReasonTimeout, false},
	{ReasonExit, false},
	{ReasonNoOutput, false},
	{ReasonNotJSON, false},
	{ReasonSeveral, false},
	{ReasonTooLarge, false},
	{ReasonWrongType, true},
	{ReasonEmpty, true},
	{ReasonDefault, false},
	{ReasonCancelled, false},
}

// Failure is a helper's run that gave no answer.
type Failure struct {
	Reason Reason
	Text   string // a sentence, escaped, without secrets
}

// Error returns the sentence.
func (f *Failure) Error() string { return f.Text }

// Permanent reports whether another run would end the same.
func (f *Failure) Permanent() bool {
	for _, r := range Reasons {
		if r.Reason == f.Reason {
			return r.Permanent
		}
	}
	return false
}

func fail(r Reason, text string) *Failure { return &Failure{Reason: r, Text: text} }

const withheldRest = " … (the rest may hold passwords and keys, and is withheld)"

// quote escapes text that came from elsewhere.
func quote(s string) string { return strconv.Quote(s) }

// shown is the beginning of a bad answer as an error may show it: what a helper printed before the document. The document
// itself holds whatever a configuration holds, and an error goes into logs and into the state of every voter.
func shown(b []byte) string {
	more := ""
	if len(b) > MaxShown {
		n := MaxShown
		for n > MaxShown-utf8.UTFMax && !utf8.RuneStart(b[n]) {
			n--
		}
		b, more = b[:n], " …"
	}
	text := string(b)
	if i := strings.Index(text, "-----BEGIN"); i >= 0 {
		text, more = text[:i], withheldRest
	}
	if i := strings.IndexAny(text, `{["'`); i >= 0 && i+1 < len(text) {
		end := i + 1
		if colon := strings.IndexByte(text[i:], ':'); text[i] == '{' && colon > 0 {
			end = i + colon // the name of its first key
		}
		text, more = text[:end], withheldRest
	}
	return quote(text) + more
}

// withStderr adds what a helper said on stderr.
func withStderr(text string, stderr []byte) string {
	s := strings.TrimSpace(process.Redact(string(stderr)))
	if s == "" {
		return text + "; its stderr is empty"
	}
	return text + "; its stderr: " + quote(readable(s))
}

// readable makes one line of lines, " / " between them, and of double quotes single ones: quoting leaves those as they are, and
// what quotes the whole again, as every list does, makes no thicket of backslashes of a traceback.
func readable(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, " / "), `"`, "'")
}

func limit(r io.Reader, n int64) io.Reader { return io.LimitReader(r, n) }
