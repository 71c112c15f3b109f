package page

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func tree(t interface{ Fatal(...any) }, text string) any {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// sameCells: what says the same ten seconds later.
var sameCells = []struct {
	name, before, after string
	same                bool
}{
	{"nothing but text, equal", `{"id":"a","labels":{"k":"v"},"list":[1,2]}`, `{"id":"a","labels":{"k":"v"},"list":[1,2]}`, true},
	{"a text", `{"id":"a"}`, `{"id":"b"}`, false},
	{"a member more", `{"id":"a"}`, `{"id":"a","name":"n"}`, false},
	{"a member less", `{"id":"a","name":"n"}`, `{"id":"a"}`, false},
	{"another member", `{"id":"a","name":"n"}`, `{"id":"a","label":"n"}`, false},
	{"a list", `{"l":[1,2]}`, `{"l":[1,3]}`, false},
	{"a number that is no age", `{"revision":10000}`, `{"revision":20000}`, false},
	{"an age that grew by as much", `{"uptime_ms":5000}`, `{"uptime_ms":15000}`, true},
	{"an age that grew by a little more", `{"uptime_ms":5000}`, `{"uptime_ms":16500}`, true},
	{"an age that grew by more", `{"uptime_ms":5000}`, `{"uptime_ms":16501}`, false},
	{"an age that began anew", `{"heard_ms":5000}`, `{"heard_ms":100}`, false},
	{"now, and now again", `{"heard_ms":0}`, `{"heard_ms":0}`, true},
	{"now, and then an age", `{"heard_ms":0}`, `{"heard_ms":9999}`, false},
	{"an age, and then now", `{"heard_ms":9999}`, `{"heard_ms":0}`, false},
	{"never, and then an age", `{"heard_ms":null}`, `{"heard_ms":5}`, false},
	{"an age, and then never", `{"heard_ms":5}`, `{"heard_ms":null}`, false},
	{"never twice", `{"heard_ms":null}`, `{"heard_ms":null}`, true},
	{"an age that stood still", `{"heard_ms":5000}`, `{"heard_ms":5000}`, false},
	{"what is left, less", `{"due_ms":15000}`, `{"due_ms":5000}`, true},
	{"what is left, past its moment", `{"due_ms":5000}`, `{"due_ms":-5000}`, true},
	{"what is left, more", `{"due_ms":5000}`, `{"due_ms":15000}`, false},
	{"a window's end", `{"window":{"armed":true,"left_ms":60000}}`, `{"window":{"armed":true,"left_ms":50000}}`, true},
	{"the age of a picture that was refreshed", `{"view":{"as_of_ms":4000}}`, `{"view":{"as_of_ms":500}}`, true},
	{"the age of a picture that is not", `{"view":{"as_of_ms":40000}}`, `{"view":{"as_of_ms":500}}`, false},
	{"a span that does not grow", `{"took_ms":500}`, `{"took_ms":500}`, true},
	{"another such span", `{"took_ms":500}`, `{"took_ms":600}`, false},
	{"a span of a setting", `{"for_ms":500,"life_ms":3}`, `{"for_ms":500,"life_ms":3}`, true},
	{"another life", `{"life_ms":500}`, `{"life_ms":10500}`, false},
	{"another span asked for", `{"for_ms":500}`, `{"for_ms":10500}`, false},
	{"an object that became a text", `{"a":{}}`, `{"a":"x"}`, false},
	{"a list that became an object", `{"a":[]}`, `{"a":{}}`, false},
	{"a number that became a text", `{"a":1}`, `{"a":"1"}`, false},
}

func checkSame(t interface{ Fatal(...any) }) error {
	for _, c := range sameCells {
		if got := same("", tree(t, c.before), tree(t, c.after), 10_000); got != c.same {
			return fmt.Errorf("%s: %v", c.name, got)
		}
	}
	return nil
}

func TestSame(t *testing.T) {
	if err := checkSame(t); err != nil {
		t.Fatal(err)
	}
}

func TestMutationAges(t *testing.T) {
	for name, was := range ages {
		delete(ages, name)
		if checkSame(t) == nil {
			t.Errorf("%s left out goes unseen", name)
		}
		ages[name] = was
	}
}

// TestChangesAddUp: whoever applies what is sent has what there is, whatever came and went.
func TestChangesAddUp(t *testing.T) {
	kind := kindOf("fleet")
	rapid.Check(t, func(t *rapid.T) {
		var s sent
		shown := map[string]any{}
		var head map[string]any
		at := int64(1_800_000_000_000)
		for range rapid.IntRange(1, 12).Draw(t, "polls") {
			at += int64(rapid.IntRange(500, 4000).Draw(t, "passed"))
			doc := map[string]any{"v": 1, "revision": rapid.IntRange(0, 3).Draw(t, "revision")}
			var members []any
			for i := range rapid.IntRange(0, 4).Draw(t, "members") {
				members = append(members, map[string]any{"id": fmt.Sprint(i), "role": rapid.SampledFrom([]string{"learner", "voter"}).Draw(t, "role")})
			}
			doc["members"] = members
			b, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			p, err := take(kind, b)
			if err != nil {
				t.Fatal(err)
			}
			c, changed := s.update(kind, p, at)
			if !changed && (c.Head != nil || c.Rows != nil || c.Gone != nil) {
				t.Fatal("a change that is none")
			}
			if c.Head != nil {
				head = c.Head
			}
			for _, r := range c.Rows {
				shown[r.Key] = r.Row
			}
			for _, k := range c.Gone {
				delete(shown, k)
			}
			if !reflect.DeepEqual(shown, p.rows) || !reflect.DeepEqual(head, p.head) {
				t.Fatalf("shown %v %v, there is %v %v", head, shown, p.head, p.rows)
			}
		}
	})
}

// TestEqualRowsAreKept: two rows of one name, as two entries of the audit at one revision, are two.
func TestEqualRowsAreKept(t *testing.T) {
	kind := kindOf("audit")
	p, err := take(kind, json.RawMessage(`{"v":1,"entries":[{"revision":5,"did":"admit","what":"a","by":"k"},{"revision":5,"did":"admit","what":"a","by":"k"},{"revision":6,"did":"set","what":"b","by":"k"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.rows) != 3 || len(p.keys) != 3 || slices.Equal(p.keys[:1], p.keys[1:2]) {
		t.Errorf("%q", p.keys)
	}
	if _, there := p.head["entries"]; there {
		t.Error("rows are sent twice")
	}
}

func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"v":1,"members":[{"id":"a"},{"id":"a"},3,null]}`))
	f.Add([]byte(`{"v":1,"members":{}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := take(kindOf("fleet"), b)
		if err != nil {
			return
		}
		var s sent
		s.update(kindOf("fleet"), p, 1)
		if c, changed := s.update(kindOf("fleet"), p, 1); changed {
			t.Fatalf("the same document changed: %+v", c)
		}
	})
}

func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"id":"a","key":"b"}`))
	f.Add([]byte(`{"id":1}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := parseBody(b); (m == nil) != (err != nil) {
			t.Fatalf("%v %v", m, err)
		}
	})
}

func FuzzEventID(f *testing.F) {
	f.Add("1-2")
	f.Add("-")
	f.Fuzz(func(t *testing.T, text string) {
		if run, n := eventID(text); run < 0 || n < 0 {
			t.Fatalf("%d %d", run, n)
		}
	})
}
