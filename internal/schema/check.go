package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

// checker holds a schema as it is read from its file.
type checker struct {
	root   map[string]any
	closed bool
}

// Check holds a document against a schema, both as JSON. With closed, a member that the schema does not name is a fault:
// that is for documents of this very version. A keyword that this package does not write is a fault too, so that nothing
// is left unchecked unseen.
func Check(schema, document []byte, closed bool) error {
	c := checker{closed: closed}
	if err := json.Unmarshal(schema, &c.root); err != nil {
		return fmt.Errorf("the schema does not read: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(document))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return fmt.Errorf("the document does not read: %w", err)
	}
	if dec.More() {
		return fmt.Errorf("the document is followed by something else")
	}
	return c.check(c.root, v, "$")
}

func (c *checker) check(s map[string]any, v any, at string) error {
	if arg, ok := s["type"]; ok { // first: what else is said of a value of another type helps nobody
		if err := c.word(s, "type", arg, v, at); err != nil {
			return err
		}
	}
	for _, word := range slices.Sorted(maps.Keys(s)) {
		if err := c.word(s, word, s[word], v, at); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) word(s map[string]any, word string, arg, v any, at string) error {
	switch word {
	case "$schema", "$defs", "title", "description", "contentEncoding":
		return nil
	case "$ref":
		name, ok := strings.CutPrefix(arg.(string), "#/$defs/")
		defs, _ := c.root["$defs"].(map[string]any)
		def, found := defs[name].(map[string]any)
		if !ok || !found {
			return fmt.Errorf("%s: no definition %q", at, arg)
		}
		return c.check(def, v, at)
	case "type":
		if got := typeOf(v); got != arg && !(got == "integer" && arg == "number") {
			return fmt.Errorf("%s is of type %s, want %s", at, got, arg)
		}
	case "const":
		if !same(v, arg) {
			return fmt.Errorf("%s is %v, want %v", at, v, arg)
		}
	case "enum":
		if !slices.ContainsFunc(arg.([]any), func(x any) bool { return same(v, x) }) {
			return fmt.Errorf("%s is %v, want one of %v", at, v, arg)
		}
	case "pattern":
		if text, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(text) {
			return fmt.Errorf("%s is %q, want %s", at, text, arg)
		}
	case "minimum":
		if n, ok := v.(json.Number); ok {
			if f, err := n.Float64(); err != nil || f < arg.(float64) {
				return fmt.Errorf("%s is %s, want at least %v", at, n, arg)
			}
		}
	case "items":
		list, _ := v.([]any)
		for i, x := range list {
			if err := c.check(arg.(map[string]any), x, fmt.Sprintf("%s[%d]", at, i)); err != nil {
				return err
			}
		}
	case "required":
		if m, ok := v.(map[string]any); ok {
			for _, name := range arg.([]any) {
				if _, there := m[name.(string)]; !there {
					return fmt.Errorf("%s has no %q", at, name)
				}
			}
		}
	case "minProperties":
		if m, ok := v.(map[string]any); ok && float64(len(m)) < arg.(float64) {
			return fmt.Errorf("%s has %d members, want at least %v", at, len(m), arg)
		}
	case "properties", "additionalProperties":
		return c.members(s, word, v, at)
	case "anyOf":
		var why []string
		for _, x := range arg.([]any) {
			alternative, one := x.(map[string]any), *c
			if alternative["$ref"] == nil {
				one.closed = false // it narrows what stands beside it, and does not name every member
			}
			err := one.check(alternative, v, at)
			if err == nil {
				return nil
			}
			why = append(why, err.Error())
		}
		return fmt.Errorf("%s fits none of: %s", at, strings.Join(why, "; "))
	default:
		return fmt.Errorf("%s: the keyword %q is not one that is checked here", at, word)
	}
	return nil
}

func (c *checker) members(s map[string]any, word string, v any, at string) error {
	m, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	known, _ := s["properties"].(map[string]any)
	rest, typed := s["additionalProperties"].(map[string]any)
	for name, x := range m {
		def, named := known[name].(map[string]any)
		switch {
		case named && word == "properties":
			if err := c.check(def, x, at+"."+name); err != nil {
				return err
			}
		case !named && typed && word == "additionalProperties":
			if err := c.check(rest, x, at+"."+name); err != nil {
				return err
			}
		case !named && !typed && c.closed:
			return fmt.Errorf("%s has the member %q, which the schema does not name", at, name)
		}
	}
	return nil
}

func typeOf(v any) string {
	switch x := v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case json.Number:
		if f, err := x.Float64(); err == nil && f == math.Trunc(f) {
			return "integer"
		}
		return "number"
	}
	return fmt.Sprintf("%T", v)
}

// same compares a value of the document with one of the schema, whose numbers are floats.
func same(v, want any) bool {
	if n, ok := v.(json.Number); ok {
		f, err := n.Float64()
		return err == nil && f == want
	}
	return v == want
}
