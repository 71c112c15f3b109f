package wire

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"
)

// ErrorCode is the first field of an error frame.
type ErrorCode uint8

// Error codes, by their byte.
const (
	CodeUnsupportedVersion ErrorCode = iota + 1
	CodeUnknownVerb
	CodeMalformed
	CodeTooLarge
	CodeNotLeader // text is the leader's 0xFC endpoint, empty during an election
	CodeNotMember
	CodeRevoked // text says at which revision
	CodeWaitingListFull
	CodeSourceFull // this source has too many waiting
	CodeKeyMismatch
	CodeBadSignature
	CodeLeaseRefused     // text is the reason
	CodeRosterNotApplied // retry
	CodeRefusedByRule    // text and hint say which and what to do
	CodeBusy             // busy with another change: retry
	CodeBehind           // follow another voter
	CodeNewerFormat
	CodeDissolved // text carries the signed order
)

// CodeRow is one row of the table of error codes.
type CodeRow struct {
	Code  ErrorCode
	Name  string // label of metrics and logs
	Text  string // what NewError says when it is given no text
	Hint  string // and what mends it, when it is given no hint
	Retry bool   // the same ask may succeed later, unchanged
}

// Codes is the table of error codes. Where the text is an address, a revision
// or an order, the default is empty: the sender gives it.
var Codes = []CodeRow{
	{CodeUnsupportedVersion, "unsupported-version", "this node does not speak that protocol version", "bring this program and the node to the same version", false},
	{CodeUnknownVerb, "unknown-verb", "this node does not know that verb", "bring this program and the node to the same version", false},
	{CodeMalformed, "malformed", "the request does not follow its format", "bring this program and the node to the same version", false},
	{CodeTooLarge, "too-large", "the request is larger than its verb allows", "ask for less at once", false},
	{CodeNotLeader, "not-leader", "", "try again in a few seconds; pacectl fleet status shows the leader", true},
	{CodeNotMember, "not-a-member", "this key is not in the fleet's roster", "this machine must be a member first: approve it on the leader, which shows it in pace-node --enroll-list", false},
	{CodeRevoked, "revoked", "", "pace-node --reset-identity on that machine, then let it ask to join anew", false},
	{CodeWaitingListFull, "waiting-list-full", "the waiting list is full", "decide the machines that wait: pace-node --enroll-list on the leader", true},
	{CodeSourceFull, "source-full", "too many machines of this network are waiting", "decide the machines that wait, or let more of one network wait: pacectl fleet set enrollment.per-source=16", true},
	{CodeKeyMismatch, "key-mismatch", "the key is not that of this session", "compare the key with what pace-node --print-identity prints on that machine: another one may answer in its place", false},
	{CodeBadSignature, "bad-signature", "the signature does not verify", "compare the key with what pace-node --print-identity prints on that machine, and bring both machines to one version", false},
	{CodeLeaseRefused, "lease-refused", "the lease was refused", "the leader asks again with a fresh lease; pacectl node on that machine shows which fleet and leader it knows", false},
	{CodeRosterNotApplied, "roster-not-applied", "this node has not yet applied the roster that the request is judged by", "it is asked again in a few seconds; pacectl node on that machine shows whether it follows its fleet", true},
	{CodeRefusedByRule, "refused-by-rule", "a rule of the fleet refuses this", "pacectl fleet status shows what stands against it", false},
	{CodeBusy, "busy", "this node is busy with another change", "try again in a few seconds", true},
	{CodeBehind, "behind", "this voter is behind: follow another", "another voter is asked; pacectl fleet status shows how far each has come", false},
	{CodeNewerFormat, "newer-format", "the fleet uses a format that this version does not read", "upgrade this machine", false},
	{CodeDissolved, "dissolved", "", "nothing to do: machines of the old fleet go there by themselves; pacectl node shows it", false},
}

// LookupCode returns the row of c.
func LookupCode(c ErrorCode) (CodeRow, bool) {
	for i := range Codes {
		if Codes[i].Code == c {
			return Codes[i], true
		}
	}
	return CodeRow{}, false
}

// String returns the name of the code, "error-<n>" for one of a later version.
func (c ErrorCode) String() string {
	if r, ok := LookupCode(c); ok {
		return r.Name
	}
	return "error-" + strconv.Itoa(int(c))
}

// Error is the payload of an error frame.
type Error struct {
	Code       ErrorCode
	Text, Hint string // from another machine when decoded: Error escapes them
}

// NewError makes an error; an empty text or hint is the code's own, so that none goes without what mends it.
func NewError(code ErrorCode, text, hint string) *Error {
	row, _ := LookupCode(code)
	if text == "" {
		text = row.Text
	}
	if hint == "" {
		hint = row.Hint
	}
	return &Error{Code: code, Text: text, Hint: hint}
}

// Error returns "text; hint", escaped for a terminal. Without a text it is the
// code's name; a dissolve order is not shown as its bytes.
func (e *Error) Error() string {
	s := Printable(e.Text)
	switch {
	case e.Code == CodeDissolved:
		s = "this fleet was dissolved into another"
	case s == "":
		s = e.Code.String()
	case e.Code == CodeNotLeader:
		s = "not the leader, which is at " + s
	}
	if e.Hint != "" {
		s += "; " + Printable(e.Hint)
	}
	return s
}

// Append appends the three fields; a text beyond its bound is cut at a character.
func (e *Error) Append(dst []byte) []byte {
	dst = AppendU8(dst, uint8(e.Code))
	dst = AppendText(dst, cut(e.Text, MaxErrorText))
	return AppendText(dst, cut(e.Hint, MaxErrorHint))
}

// cut returns valid UTF-8 of at most n bytes.
func cut(s string, n int) string {
	if !utf8.ValidString(s) {
		s = Printable(s)
	}
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// DecodeError reads the payload of an error frame. A code of a later version is
// kept; 0 is malformed.
func DecodeError(b []byte) (*Error, error) {
	f := ReadFields(b)
	code := ErrorCode(f.U8())
	text, hint := f.text(0, MaxErrorText), f.text(0, MaxErrorHint)
	if code == 0 {
		f.Reject()
	}
	if err := f.End(); err != nil {
		return nil, err
	}
	return &Error{Code: code, Text: string(text), Hint: string(hint)}, nil
}

// NewDissolvedError carries a signed order: its bytes, as unpadded base64url, are
// the text.
func NewDissolvedError(order *DissolveOrder) *Error {
	return NewError(CodeDissolved, base64.RawURLEncoding.EncodeToString(order.Append(nil)), "")
}

// Order returns the order that a dissolved error carries, else ErrNoOrder. Its
// signature is not yet judged.
func (e *Error) Order() (DissolveOrder, error) {
	if e.Code != CodeDissolved {
		return DissolveOrder{}, ErrNoOrder
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(e.Text)
	// The decoder passes over line breaks, and an order has one spelling.
	if err != nil || base64.RawURLEncoding.EncodeToString(b) != e.Text {
		return DissolveOrder{}, ErrNoOrder
	}
	d, err := DecodeDissolveOrder(b)
	if err != nil {
		return DissolveOrder{}, ErrNoOrder
	}
	return d, nil
}
