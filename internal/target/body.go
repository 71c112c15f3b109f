package target

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"unicode/utf8"

	"pace-node/internal/wire"
)

// bodyKey reads one key of the body of configure into its place.
type bodyKey struct {
	Name string
	Want string                                                                 // what it must be
	Read func(raw json.RawMessage, b *wire.ConfigureBody) (key string, ok bool) // key: the inner one that is at fault
}

const wantText, wantStrings, wantObject = "a string", "an object whose values are all strings", "an object"

const wantFiles = `an object from relative paths to {"text": a string, "mode": four octal digits as a string}`

// bodyKeys is the table of the body's keys; a key that is not here is passed over, so that a later version may send more.
var bodyKeys = []bodyKey{
	{"configuration", wantStrings, readStrings("configuration", func(b *wire.ConfigureBody) *map[string]string { return &b.Configuration })},
	{"certificate", wantText, readText(func(b *wire.ConfigureBody) *string { return &b.Certificate })},
	{"ca", wantText, readText(func(b *wire.ConfigureBody) *string { return &b.CA })},
	{"key", wantText, readText(func(b *wire.ConfigureBody) *string { return &b.Key })},
	{"action_policies", wantStrings, readStrings("action_policies", func(b *wire.ConfigureBody) *map[string]string { return &b.ActionPolicies })},
	{"opa_policies", wantStrings, readStrings("opa_policies", func(b *wire.ConfigureBody) *map[string]string { return &b.OPAPolicies })},
	{"server_claims", wantObject, readClaims},
	{"files", wantFiles, readFiles},
	{"cluster", wantText, readText(func(b *wire.ConfigureBody) *string { return &b.Cluster })},
	// ssldir is not read: whatever it is, certificates have one place here.
}

// text reads a JSON string; null is none.
func text(raw json.RawMessage) (string, bool) {
	var s *string
	if json.Unmarshal(raw, &s) != nil || s == nil {
		return "", false
	}
	return *s, true
}

func readText(place func(*wire.ConfigureBody) *string) func(json.RawMessage, *wire.ConfigureBody) (string, bool) {
	return func(raw json.RawMessage, b *wire.ConfigureBody) (string, bool) {
		s, ok := text(raw)
		*place(b) = s
		return "", ok
	}
}

func object(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	return m, json.Unmarshal(raw, &m) == nil && m != nil
}

func readStrings(name string, place func(*wire.ConfigureBody) *map[string]string) func(json.RawMessage, *wire.ConfigureBody) (string, bool) {
	return func(raw json.RawMessage, b *wire.ConfigureBody) (string, bool) {
		loose, ok := object(raw)
		if !ok {
			return "", false
		}
		m := make(map[string]string, len(loose))
		for _, k := range sorted(loose) {
			if m[k], ok = text(loose[k]); !ok {
				return name + "[" + shown(k) + "]", false
			}
		}
		*place(b) = m
		return "", true
	}
}

func readClaims(raw json.RawMessage, b *wire.ConfigureBody) (string, bool) {
	if _, ok := object(raw); !ok {
		return "", false
	}
	b.ServerClaims = raw
	return "", true
}

func readFiles(raw json.RawMessage, b *wire.ConfigureBody) (string, bool) {
	loose, ok := object(raw)
	if !ok {
		return "", false
	}
	files := make(map[string]wire.WorkFile, len(loose))
	for _, name := range sorted(loose) {
		key := "files[" + shown(name) + "]"
		parts, ok := object(loose[name])
		if !ok {
			return key, false
		}
		var f wire.WorkFile
		if f.Text, ok = text(parts["text"]); !ok {
			return key + ".text", false
		}
		if mode := parts["mode"]; !absent(mode) {
			if f.Mode, ok = text(mode); !ok {
				return key + ".mode", false
			}
		}
		files[name] = f
	}
	b.Files = files
	return "", true
}

func absent(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// parseBody reads the body of configure: its shape and its types. What it says is judged by bodyChecks.
func parseBody(raw []byte) (*wire.ConfigureBody, *refusal) {
	switch {
	case len(raw) > MaxBody:
		return nil, refuse(ReasonTooLarge, fmt.Sprintf("the body has %d bytes and may have %d: give the machine less in one configuration", len(raw), MaxBody))
	case !utf8.Valid(raw):
		return nil, refuse(ReasonNotUTF8, "the body is not UTF-8, and JSON is")
	}
	if !json.Valid(raw) {
		return nil, refuse(ReasonNotJSON, "the body is not one JSON document")
	}
	keys, ok := object(raw)
	if !ok {
		return nil, refuse(ReasonNotJSON, "the body is not a JSON object")
	}
	b := &wire.ConfigureBody{}
	for _, k := range bodyKeys {
		v := keys[k.Name]
		if absent(v) {
			continue
		}
		inner, ok := k.Read(v, b)
		if ok {
			continue
		}
		if inner == "" {
			return nil, refuse(ReasonWrongType, fmt.Sprintf("the key %q must be %s", k.Name, k.Want))
		}
		want := k.Want
		if k.Want == wantStrings {
			want = wantText
		}
		return nil, refuse(ReasonWrongType, fmt.Sprintf("the key %s must be %s", inner, want))
	}
	return b, nil
}

// planned is one file of a configuration that is to be written.
type planned struct {
	path string // parts joined by "/"
	mode fs.FileMode
	data []byte
}

// folders are there in every configuration, also when they are empty.
var folders = []string{sslDir, policiesDir, filesDir}

// plan turns a body that was judged into files, sorted by path.
func plan(b *wire.ConfigureBody) ([]planned, error) {
	configuration, err := sortedJSON(b.Configuration)
	if err != nil {
		return nil, err
	}
	files := []planned{{configurationFile, secretMode, configuration}}
	if len(b.ServerClaims) > 0 {
		var claims bytes.Buffer
		if err := json.Indent(&claims, b.ServerClaims, "", "  "); err != nil {
			return nil, err
		}
		claims.WriteByte('\n')
		files = append(files, planned{claimsFile, secretMode, claims.Bytes()})
	}
	for _, f := range []struct {
		path, text string
		mode       fs.FileMode
	}{
		{certificateFile, b.Certificate, publicMode},
		{caFile, b.CA, publicMode},
		{keyFile, b.Key, secretMode},
	} {
		if f.text != "" {
			files = append(files, planned{f.path, f.mode, []byte(f.text)})
		}
	}
	for _, policies := range []map[string]string{b.ActionPolicies, b.OPAPolicies} {
		for name, text := range policies {
			files = append(files, planned{policiesDir + "/" + name, secretMode, []byte(text)})
		}
	}
	for name, f := range b.Files {
		mode := secretMode
		if f.Mode != "" {
			m, _ := parseMode(f.Mode)
			mode = m
		}
		files = append(files, planned{filesDir + "/" + name, mode, []byte(f.Text)})
	}
	sortPlan(files)
	return files, nil
}
