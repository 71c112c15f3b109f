package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shown says of which documents docs/schema/examples.md has an example: what a person's or an administrator's program reads
// or writes. What travels between nodes has its tests in package wire.
func shown(d document) bool {
	return !strings.HasPrefix(d.Where, "verb 1") || strings.Contains(d.Where, "--json")
}

// samples are what members hold in the examples, by name. A member that is not here holds what its schema alone says.
var samples = map[string]any{
	"id": "db6ea647879aeeea06d2911418a0d5c4", "name": "birch", "node_id": "db6ea647879aeeea06d2911418a0d5c4", "host": "birch",
	"public_key": exampleKey, "key": exampleKey, "platform": "linux/amd64", "version": "1.2.3",
	"cluster": exampleFleet, "fleet_id": exampleFleet + "@" + exampleKey, "cluster_id": exampleFleet,
	"endpoint": "192.0.2.2:6674", "listen": "192.0.2.2:6674", "fc": "192.0.2.2:6674", "raft": "192.0.2.2:6680", "address": "192.0.2.2:6674",
	"cluster_admit": "cluster-admit db6ea647879aeeea06d2911418a0d5c4=192.0.2.2:6680@" + exampleKey,
	"source":        "192.0.2.2", "remedy": "pacectl node", "revision": 21, "role": "learner", "mode": "learner",
}

const (
	exampleKey   = "TMoAINhWRwZZyAmeBTjqG1k0I2D_DtPLVLmlJIL7FD4"
	exampleFleet = "2c5d7f6a1b3e4d5c8f9a0b1c2d3e4f50"
)

// patterns has a text for each pattern that a schema names.
var patterns = map[string]string{
	keyPattern: exampleKey, hex32: strings.Repeat("0f", 16), hex64: strings.Repeat("0f", 32), modePattern: "0644",
}

// exampler makes one value of a schema.
type exampler struct {
	t    *testing.T
	defs map[string]json.RawMessage
	deep int
}

// shape is what of a schema an example depends on.
type shape struct {
	Ref             string `json:"$ref"`
	Type            string
	Const           any
	Enum            []any
	Pattern         string
	ContentEncoding string
	Minimum         *int
	Items           json.RawMessage
	Properties      json.RawMessage
	Additional      json.RawMessage `json:"additionalProperties"`
	AnyOf           []json.RawMessage
	Defs            map[string]json.RawMessage `json:"$defs"`
}

// value is an example of a schema under the name of its member, as JSON.
func (e *exampler) value(name string, raw json.RawMessage) string {
	e.t.Helper()
	var n shape
	if err := json.Unmarshal(raw, &n); err != nil {
		e.t.Fatalf("%s: %v", name, err)
	}
	if e.deep++; e.deep > 20 {
		e.t.Fatalf("%s: the schema has no end", name)
	}
	defer func() { e.deep-- }()
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			e.t.Fatal(err)
		}
		return string(b)
	}
	sample, known := samples[name]
	_, isText := sample.(string)
	switch {
	case n.Ref != "":
		return e.value(name, e.defs[n.Ref[strings.LastIndex(n.Ref, "/")+1:]])
	case n.Const != nil:
		return text(n.Const)
	case n.Enum != nil:
		if known && slices.Contains(n.Enum, sample) {
			return text(sample)
		}
		return text(n.Enum[0])
	case n.Pattern != "":
		p, ok := patterns[n.Pattern]
		if !ok {
			e.t.Errorf("%s: add a text that fits %s to the table of patterns", name, n.Pattern)
		}
		return text(p)
	case n.Type == "object" || n.Properties != nil:
		return e.object(name, n)
	case n.AnyOf != nil && n.Type == "":
		return e.value(name, n.AnyOf[0])
	case n.Type == "array":
		return "[" + e.value(name, n.Items) + "]"
	case n.ContentEncoding != "":
		return `"AAEC"`
	case known && (n.Type == "string") == isText:
		return text(sample)
	case n.Type == "string":
		return `"…"`
	case n.Type == "boolean":
		return "false"
	case n.Type == "integer", n.Type == "number":
		if n.Minimum != nil && *n.Minimum > 1 {
			return fmt.Sprint(*n.Minimum)
		}
		return "1"
	}
	return "null"
}

func (e *exampler) object(name string, n shape) string {
	e.t.Helper()
	var parts []string
	if n.Properties != nil {
		d := json.NewDecoder(bytes.NewReader(n.Properties)) // in the order of the schema
		if _, err := d.Token(); err != nil {
			e.t.Fatal(err)
		}
		for d.More() {
			key, err := d.Token()
			var raw json.RawMessage
			if err == nil {
				err = d.Decode(&raw)
			}
			if err != nil {
				e.t.Fatalf("%s: %v", name, err)
			}
			parts = append(parts, fmt.Sprintf("%q:%s", key, e.value(key.(string), raw)))
		}
	} else if n.Additional != nil && n.Additional[0] == '{' {
		parts = append(parts, `"rack":`+e.value("rack", n.Additional))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// examples is docs/schema/examples.md: an example of each document that is shown, made from its schema.
func examples(t *testing.T, schemas map[string]string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Examples of the documents\n\nMade from the schemas by `make docs`; each is held against its schema by a test. They show which members there are and what they look " +
		"like, and no real machine: texts without a meaning of their own are `…`, numbers 1.\n")
	for _, d := range documents {
		if !shown(d) {
			continue
		}
		raw := schemas[d.File+".json"]
		var top shape
		if err := json.Unmarshal([]byte(raw), &top); err != nil {
			t.Fatal(err)
		}
		e := &exampler{t: t, defs: top.Defs}
		text := e.value(d.File, json.RawMessage(raw))
		if err := Check([]byte(raw), []byte(text), true); err != nil {
			t.Errorf("the example of %s does not fit its schema: %v\n%s", d.File, err, text)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, []byte(text), "", "  "); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s. [Schema](%s.json)\n\n```json\n%s\n```\n", d.Title, d.Where, d.File, pretty.String())
	}
	return b.String()
}

const examplesPage = "examples.md"

// TestDocsExamples holds each example of the page against its schema as it is now, and has one of each document.
// PACE_WRITE_DOCS=1 writes the page.
func TestDocsExamples(t *testing.T) {
	schemas := texts(t)
	path := filepath.Join(folder, examplesPage)
	if os.Getenv("PACE_WRITE_DOCS") != "" {
		if err := os.WriteFile(path, []byte(examples(t, schemas)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := exampleOf.FindAllStringSubmatch(strings.ReplaceAll(string(page), "\r\n", "\n"), -1)
	there := map[string]bool{}
	for _, m := range found {
		there[m[1]] = true
		if s, ok := schemas[m[1]+".json"]; !ok {
			t.Errorf("docs/schema/%s: %s is no document: run make docs", examplesPage, m[1])
		} else if err := Check([]byte(s), []byte(m[2]), false); err != nil {
			t.Errorf("docs/schema/%s: the example of %s does not fit its schema: %v: run make docs", examplesPage, m[1], err)
		}
	}
	if len(found) < 15 {
		t.Errorf("docs/schema/%s has %d examples: this test reads it wrongly", examplesPage, len(found))
	}
	for _, d := range documents {
		if shown(d) && !there[d.File] {
			t.Errorf("docs/schema/%s has no example of %s: run make docs", examplesPage, d.File)
		}
	}
}

var exampleOf = regexp.MustCompile("(?s)\\[Schema\\]\\(([a-z-]+)\\.json\\)\n\n```json\n(.*?)\n```\n")
