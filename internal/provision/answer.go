package provision

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// Answer is a helper's answer. Everything is optional, but one that neither defers nor shuts down needs a configuration.
type Answer struct {
	Defer, Shutdown      bool
	Msg                  string
	Configuration        map[string]string
	Certificate, CA, Key string
	SSLDir               string // any value: the target keeps certificates in one place
	ActionPolicies       map[string]string
	OPAPolicies          map[string]string
	ServerClaims         json.RawMessage // an object, passed on as it is
	Upgrade              string          // a version
	RetryAfter           time.Duration   // 0: the backoff
	Files                map[string]wire.WorkFile
}

// answerKey reads one key of the answer into its place; it returns what the key must be, or "".
type answerKey struct {
	Name string
	Want string
	Read func(raw json.RawMessage, a *Answer) error
}

func into[T any](place func(*Answer) *T) func(json.RawMessage, *Answer) error {
	return func(raw json.RawMessage, a *Answer) error { return json.Unmarshal(raw, place(a)) }
}

const wantStrings, wantText, wantBool, wantObject = "an object whose values are all strings", "a string", "true or false", "an object"

// answerKeys is the table of the answer's keys; a key that is not here is passed over.
var answerKeys = []answerKey{
	{"defer", wantBool, into(func(a *Answer) *bool { return &a.Defer })},
	{"shutdown", wantBool, into(func(a *Answer) *bool { return &a.Shutdown })},
	{"msg", wantText, into(func(a *Answer) *string { return &a.Msg })},
	{"configuration", wantStrings, readStrings(func(a *Answer) *map[string]string { return &a.Configuration })},
	{"certificate", wantText, into(func(a *Answer) *string { return &a.Certificate })},
	{"ca", wantText, into(func(a *Answer) *string { return &a.CA })},
	{"key", wantText, into(func(a *Answer) *string { return &a.Key })},
	{"ssldir", wantText, into(func(a *Answer) *string { return &a.SSLDir })},
	{"action_policies", wantStrings, readStrings(func(a *Answer) *map[string]string { return &a.ActionPolicies })},
	{"opa_policies", wantStrings, readStrings(func(a *Answer) *map[string]string { return &a.OPAPolicies })},
	{"server_claims", wantObject, readObject},
	{"upgrade", wantText, into(func(a *Answer) *string { return &a.Upgrade })},
	{"pace", wantObject, readPace},
}

// paceKeys is the table of the keys under "pace".
var paceKeys = []answerKey{
	{"pace.retry_after", "seconds above 0, or a duration as in \"15m\"", readRetryAfter},
	{"pace.files", `an object from relative paths to {"text": a string, "mode": four octal digits as a string}`, readFiles},
}

// inner is an error that names a key inside another.
type inner struct{ key, want string }

func (e *inner) Error() string { return e.key + " must be " + e.want }

var errOther = errors.New("provision: another type")

// readStrings refuses null as a value too: encoding/json would make an empty string of it.
func readStrings(place func(*Answer) *map[string]string) func(json.RawMessage, *Answer) error {
	return func(raw json.RawMessage, a *Answer) error {
		var loose map[string]*string
		if err := json.Unmarshal(raw, &loose); err != nil {
			return err
		}
		m := make(map[string]string, len(loose))
		for k, v := range loose {
			if v == nil {
				return errOther
			}
			m[k] = *v
		}
		*place(a) = m
		return nil
	}
}

func readObject(raw json.RawMessage, a *Answer) error {
	if raw[0] != '{' {
		return errOther
	}
	a.ServerClaims = bytes.Clone(raw)
	return nil
}

func readPace(raw json.RawMessage, a *Answer) error {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(raw, &keys); err != nil {
		return err
	}
	for _, k := range paceKeys {
		v := keys[strings.TrimPrefix(k.Name, "pace.")]
		if absent(v) {
			continue
		}
		if err := k.Read(v, a); err != nil {
			return &inner{k.Name, k.Want}
		}
	}
	return nil
}

func readRetryAfter(raw json.RawMessage, a *Answer) error {
	var seconds float64
	var text string
	switch {
	case json.Unmarshal(raw, &seconds) == nil:
		if seconds > queue.RetryAfterMax.Seconds() {
			seconds = queue.RetryAfterMax.Seconds()
		}
		a.RetryAfter = time.Duration(seconds * float64(time.Second))
	case json.Unmarshal(raw, &text) == nil:
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		a.RetryAfter = min(d, queue.RetryAfterMax)
	default:
		return errOther
	}
	if a.RetryAfter <= 0 {
		return errOther
	}
	return nil
}

func readFiles(raw json.RawMessage, a *Answer) error {
	var loose map[string]*struct {
		Text *string `json:"text"`
		Mode *string `json:"mode"`
	}
	if err := json.Unmarshal(raw, &loose); err != nil {
		return err
	}
	files := make(map[string]wire.WorkFile, len(loose))
	for name, f := range loose {
		if f == nil || f.Text == nil {
			return errOther
		}
		file := wire.WorkFile{Text: *f.Text}
		if f.Mode != nil {
			if !octal(*f.Mode) {
				return errOther
			}
			file.Mode = *f.Mode
		}
		files[name] = file
	}
	a.Files = files
	return nil
}

// octal accepts "0644": four octal digits without the set-id and sticky bits.
func octal(s string) bool {
	if len(s) != 4 || s[0] != '0' {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '7' {
			return false
		}
	}
	return true
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// ParseAnswer reads exactly one document. A failure says what was printed.
func ParseAnswer(stdout []byte) (*Answer, *Failure) {
	return parseAnswer(stdout, func(body []byte) string { return ": it printed " + shown(body) })
}

// parseAnswer is ParseAnswer whose failures say of the document what show does.
func parseAnswer(stdout []byte, show func([]byte) string) (*Answer, *Failure) {
	body := bytes.TrimSpace(stdout)
	if len(body) == 0 {
		return nil, fail(ReasonNoOutput, "it printed nothing on stdout; one JSON document is expected")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	var doc json.RawMessage
	if err := dec.Decode(&doc); err != nil {
		return nil, fail(ReasonNotJSON, "its stdout is not one JSON document"+show(body))
	}
	if rest := bytes.TrimSpace(body[dec.InputOffset():]); len(rest) > 0 {
		second := json.NewDecoder(bytes.NewReader(rest))
		var other json.RawMessage
		if err := second.Decode(&other); err == nil || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fail(ReasonSeveral, "its stdout holds more than one JSON document"+show(body))
		}
		return nil, fail(ReasonNotJSON, "its stdout holds something beside one JSON document"+show(body))
	}
	if !utf8.Valid(doc) { // the decoder would put other characters there, in a password too
		return nil, fail(ReasonNotJSON, "its stdout is not UTF-8, as JSON has to be"+show(body))
	}
	var keys map[string]json.RawMessage
	if doc[0] != '{' || json.Unmarshal(doc, &keys) != nil {
		return nil, fail(ReasonWrongType, "its answer must be a JSON object"+show(body))
	}
	a := &Answer{}
	for _, k := range answerKeys {
		v := keys[k.Name]
		if absent(v) {
			continue
		}
		err := k.Read(v, a)
		var in *inner
		switch {
		case err == nil:
		case errors.As(err, &in):
			return nil, fail(ReasonWrongType, fmt.Sprintf("the key %s of its answer must be %s", quote(in.key), in.want))
		default:
			return nil, fail(ReasonWrongType, fmt.Sprintf("the key %s of its answer must be %s", quote(k.Name), k.Want))
		}
	}
	if !a.Defer && !a.Shutdown && len(a.Configuration) == 0 {
		return nil, fail(ReasonEmpty, `its answer holds no configuration: the key "configuration" must hold at least one setting, unless "defer" or "shutdown" is true`)
	}
	return a, nil
}

// body is what the machine gets: the helper's keys as it gave them, without what the leader has already acted on.
func (a *Answer) body(cluster string) wire.ConfigureBody {
	return wire.ConfigureBody{Configuration: a.Configuration, Certificate: a.Certificate, CA: a.CA, Key: a.Key, SSLDir: a.SSLDir,
		ActionPolicies: a.ActionPolicies, OPAPolicies: a.OPAPolicies, ServerClaims: a.ServerClaims, Files: a.Files, Cluster: cluster}
}

// encode is JSON without HTML's escapes, which would make a configuration up to six times as long.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
