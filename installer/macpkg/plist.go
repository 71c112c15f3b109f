package macpkg

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const plistMaxDepth = 32 // values in values, read at most

// ReadPlist reads a property list in XML: map[string]any, []any, string, int64 and bool. Dates, data and reals are
// refused: nothing of ours has them.
func ReadPlist(data []byte) (any, error) {
	d := xml.NewDecoder(bytes.NewReader(data))
	start, err := plistStart(d)
	if err != nil {
		return nil, err
	}
	if start == nil || start.Name.Local != "plist" {
		return nil, plistWrong("it does not begin with <plist>")
	}
	if start, err = plistStart(d); err != nil {
		return nil, err
	}
	if start == nil {
		return nil, plistWrong("it is empty")
	}
	value, err := plistValue(d, *start, 0)
	if err != nil {
		return nil, err
	}
	if start, err = plistStart(d); err != nil {
		return nil, err
	}
	if start != nil {
		return nil, plistWrong("<%s> follows the value", start.Name.Local)
	}
	for {
		t, err := d.Token()
		if errors.Is(err, io.EOF) {
			return value, nil
		}
		if err != nil {
			return nil, plistWrong("%w", err)
		}
		if text, ok := t.(xml.CharData); !ok || len(bytes.TrimSpace(text)) > 0 {
			return nil, plistWrong("something follows </plist>")
		}
	}
}

func plistWrong(format string, args ...any) error {
	return fmt.Errorf("plist: %w: "+format, append([]any{ErrFormat}, args...)...)
}

// plistStart finds the next element, or nil at the end of the one that is open.
func plistStart(d *xml.Decoder) (*xml.StartElement, error) {
	for {
		t, err := d.Token()
		if err != nil {
			return nil, plistWrong("%w", err)
		}
		switch t := t.(type) {
		case xml.StartElement:
			return &t, nil
		case xml.EndElement:
			return nil, nil
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return nil, plistWrong("text outside a value: %.40q", bytes.TrimSpace(t))
			}
		}
	}
}

func plistValue(d *xml.Decoder, start xml.StartElement, depth int) (any, error) {
	if depth == plistMaxDepth {
		return nil, plistWrong("over %d values in one another", plistMaxDepth)
	}
	switch kind := start.Name.Local; kind {
	case "dict":
		out := map[string]any{}
		for {
			key, err := plistStart(d)
			if err != nil || key == nil {
				return out, err
			}
			if key.Name.Local != "key" {
				return nil, plistWrong("<%s> where a key is meant", key.Name.Local)
			}
			name, err := plistText(d)
			if err != nil {
				return nil, err
			}
			if _, twice := out[name]; twice {
				return nil, plistWrong("the key %q comes twice", name)
			}
			value, err := plistStart(d)
			if err != nil {
				return nil, err
			}
			if value == nil {
				return nil, plistWrong("the key %q has no value", name)
			}
			if out[name], err = plistValue(d, *value, depth+1); err != nil {
				return nil, err
			}
		}
	case "array":
		out := []any{}
		for {
			item, err := plistStart(d)
			if err != nil || item == nil {
				return out, err
			}
			value, err := plistValue(d, *item, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, value)
		}
	case "string", "integer":
		text, err := plistText(d)
		if err != nil || kind == "string" {
			return text, err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil {
			return nil, plistWrong("the integer %.40q", text)
		}
		return n, nil
	case "true", "false":
		text, err := plistText(d)
		if err == nil && strings.TrimSpace(text) != "" {
			err = plistWrong("<%s> with text", kind)
		}
		return kind == "true", err
	default:
		return nil, plistWrong("<%s> is not read", kind)
	}
}

// plistText is what stands up to the end of the element that is open.
func plistText(d *xml.Decoder) (string, error) {
	var b strings.Builder
	for {
		t, err := d.Token()
		if err != nil {
			return "", plistWrong("%w", err)
		}
		switch t := t.(type) {
		case xml.CharData:
			b.Write(t)
		case xml.EndElement:
			return b.String(), nil
		case xml.StartElement:
			return "", plistWrong("<%s> inside text", t.Name.Local)
		}
	}
}
