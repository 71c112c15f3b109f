// Package schema writes JSON Schemas (draft 2020-12) of this program's documents from their Go types and the comments
// beside them, and checks documents against the part of the language that it writes. Its one job is docs/schema, which
// its tests write and hold against the code.
//
// It must never be imported by the product: what a document is, its type says.
package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"
)

// Dialect is the value of "$schema".
const Dialect = "https://json-schema.org/draft/2020-12/schema"

// Node is one schema. A zero Node admits anything.
type Node struct {
	Dialect     string `json:"$schema,omitempty"`
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Ref         string `json:"$ref,omitempty"`
	Type        string `json:"type,omitempty"`
	Const       any    `json:"const,omitempty"`
	Enum        []any  `json:"enum,omitempty"`
	Pattern     string `json:"pattern,omitempty"`
	// ContentEncoding says how bytes are spelled in a string; it is not checked.
	ContentEncoding string   `json:"contentEncoding,omitempty"`
	Minimum         *int     `json:"minimum,omitempty"`
	Items           *Node    `json:"items,omitempty"`
	Properties      Members  `json:"properties,omitempty"`
	Required        []string `json:"required,omitempty"`
	MinProperties   int      `json:"minProperties,omitempty"`
	// Additional is the schema of the members that Properties does not name; nil admits any, as a reader of a later
	// version's document must.
	Additional *Node   `json:"additionalProperties,omitempty"`
	AnyOf      []*Node `json:"anyOf,omitempty"`
	Defs       Members `json:"$defs,omitempty"`
}

// Member is one named schema.
type Member struct {
	Name string
	Node *Node
}

// Members are named schemas in the order in which a document has them.
type Members []Member

// MarshalJSON writes an object in the order of the members.
func (m Members) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, x := range m {
		if i > 0 {
			b = append(b, ',')
		}
		name, err := plain(x.Name)
		if err != nil {
			return nil, err
		}
		body, err := plain(x.Node)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), body...)
	}
	return append(b, '}'), nil
}

// plain is JSON without HTML's escapes: descriptions say <id>@<key>.
func plain(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// Text is the page of a schema.
func (n *Node) Text() (string, error) {
	raw, err := plain(n)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return "", err
	}
	return b.String() + "\n", nil
}

// Writer makes schemas of types.
type Writer struct {
	Comments Comments
	// Fields narrows what a field may hold beyond its Go type, by "pkg.Type.Field".
	Fields map[string]func(*Node)
	used   map[string]bool
	defs   Members
}

// Document returns the schema of one document.
func (w *Writer) Document(t reflect.Type, title string) (*Node, error) {
	w.defs = nil
	n, err := w.object(t)
	if err != nil {
		return nil, err
	}
	n.Dialect, n.Title, n.Defs = Dialect, title, w.defs
	return n, nil
}

// Unused returns the rows of Fields that no field took: one was renamed.
func (w *Writer) Unused() []string {
	var out []string
	for name := range w.Fields {
		if !w.used[name] {
			out = append(out, name)
		}
	}
	return out
}

var (
	rawType  = reflect.TypeFor[json.RawMessage]()
	timeType = reflect.TypeFor[time.Time]()
)

func (w *Writer) of(t reflect.Type) (*Node, error) {
	switch {
	case t == rawType:
		return &Node{}, nil
	case t == timeType:
		return nil, fmt.Errorf("%s: a document holds numbers and no dates in words", t)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return &Node{Type: "string", ContentEncoding: "base64"}, nil
	}
	switch t.Kind() {
	case reflect.Interface:
		return &Node{}, nil
	case reflect.Bool:
		return &Node{Type: "boolean"}, nil
	case reflect.String:
		return &Node{Type: "string"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return &Node{Type: "integer"}, nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		zero := 0
		return &Node{Type: "integer", Minimum: &zero}, nil
	case reflect.Slice:
		items, err := w.of(t.Elem())
		return &Node{Type: "array", Items: items}, err
	case reflect.Map:
		values, err := w.of(t.Elem())
		return &Node{Type: "object", Additional: values}, err
	case reflect.Pointer:
		return w.of(t.Elem())
	case reflect.Struct:
		return w.ref(t)
	}
	return nil, fmt.Errorf("%s: a document can't hold a %s", t, t.Kind())
}

// ref puts a struct into $defs once.
func (w *Writer) ref(t reflect.Type) (*Node, error) {
	for _, d := range w.defs {
		if d.Name == t.Name() {
			return &Node{Ref: "#/$defs/" + t.Name()}, nil
		}
	}
	at := len(w.defs)
	w.defs = append(w.defs, Member{Name: t.Name()})
	n, err := w.object(t)
	w.defs[at].Node = n
	return &Node{Ref: "#/$defs/" + t.Name()}, err
}

func typeName(t reflect.Type) string {
	path := t.PkgPath()
	return path[strings.LastIndexByte(path, '/')+1:] + "." + t.Name()
}

func (w *Writer) object(t reflect.Type) (*Node, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%s: a document is a struct", t)
	}
	n := &Node{Type: "object", Description: w.Comments.Types[typeName(t)]}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || f.Anonymous {
			return nil, fmt.Errorf("%s.%s has no name in JSON", t, f.Name)
		}
		if name == "-" {
			continue
		}
		optional := options == "omitempty" || options == "omitzero"
		m, err := w.of(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
		if f.Type.Kind() == reflect.Pointer && !optional {
			m = &Node{AnyOf: []*Node{m, {Type: "null"}}}
		}
		full := typeName(t) + "." + f.Name
		m.Description = w.Comments.Fields[full]
		if narrow := w.Fields[full]; narrow != nil {
			if w.used == nil {
				w.used = map[string]bool{}
			}
			w.used[full] = true
			narrow(m)
		}
		n.Properties = append(n.Properties, Member{name, m})
		if !optional {
			n.Required = append(n.Required, name)
		}
	}
	return n, nil
}
