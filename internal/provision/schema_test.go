package provision

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// schemaOf is what the published schema says of a key, in the words of the table of keys.
var schemaOf = map[string]string{"boolean": wantBool, "string": wantText, "object": wantObject}

// TestDocsHelperAnswer holds docs/schema/helper-answer.json against the table by which a helper's answer is read.
func TestDocsHelperAnswer(t *testing.T) {
	b, err := os.ReadFile("../../docs/schema/helper-answer.json")
	if err != nil {
		t.Fatal(err)
	}
	type property struct {
		Type       string
		Additional *struct{ Type string } `json:"additionalProperties"`
	}
	var page struct {
		Properties map[string]property
		Defs       map[string]struct{ Properties map[string]property } `json:"$defs"`
	}
	if err := json.Unmarshal(b, &page); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, k := range answerKeys {
		keys = append(keys, k.Name)
		p, want := page.Properties[k.Name], k.Want
		got := schemaOf[p.Type]
		if p.Additional != nil && p.Additional.Type == "string" {
			got = wantStrings
		}
		if k.Name == "pace" {
			continue // a definition of its own, below
		}
		if got != want {
			t.Errorf("the schema says that %q is %q, and it is read as %q", k.Name, got, want)
		}
	}
	slices.Sort(keys)
	if got := slices.Sorted(maps.Keys(page.Properties)); !slices.Equal(got, keys) {
		t.Errorf("the schema names %v, and the table of keys %v: mend the table of documents in internal/schema", got, keys)
	}
	var inner []string
	for _, k := range paceKeys {
		inner = append(inner, strings.TrimPrefix(k.Name, "pace."))
	}
	slices.Sort(inner)
	found := false
	for _, d := range page.Defs {
		found = found || slices.Equal(slices.Sorted(maps.Keys(d.Properties)), inner)
	}
	if !found {
		t.Errorf("no definition of the schema has the keys under \"pace\": %v", inner)
	}
}
