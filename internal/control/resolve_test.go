package control

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/config"
	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

func mustKey(t *testing.T, text string) identity.PublicKey {
	t.Helper()
	k, err := identity.ParsePublicKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestResolve(t *testing.T) {
	machines := []Machine{
		{ID: "aaaa1111", Name: "web1"}, {ID: "aaaa2222", Name: "web2"}, {ID: "bbbb1111", Name: "Laptop of Ada"},
		{ID: "cccc1111", Name: "bbbb"}, {ID: "cccc1122", Name: "bbbb11"}, {ID: "dddd1111", Name: "aaaa1111"}, {ID: "eeee1111", Name: "twin"}, {ID: "ffff1111", Name: "twin"},
		{ID: "aaaa1111", Name: "web1"}, // one machine listed twice is one machine
	}
	for _, c := range []struct{ word, id, code string }{
		{"aaaa2222", "aaaa2222", ""},        // id
		{"aaaa1111", "aaaa1111", ""},        // an id wins over another's name
		{"web1", "aaaa1111", ""},            // name
		{"WEB2", "aaaa2222", ""},            // names of people
		{"Laptop of Ada", "bbbb1111", ""},   // with spaces
		{"aaaa11", "aaaa1111", ""},          // prefix
		{"cccc11", "", codeAmbiguous},       // two ids
		{"bbbb11", "", codeAmbiguous},       // one's name, another's prefix
		{"bbbb", "cccc1111", ""},            // a name; as a prefix it is too short
		{"dddd1", "", codeUnknown},          // of five characters
		{"d", "", codeUnknown},              // and of one: forgetting cannot be undone
		{"twin", "", codeAmbiguous},         // two names
		{"unlisted", "unlisted", ""},        // perhaps the node knows it
		{"$(touch pwned)", "", codeUnknown}, // never an id
		{"Laptop of Adam", "", codeUnknown}, // mistyped
		{"", "", codeUnknown},               // nothing
		{"Laptop of Adaa", "", codeUnknown}, //
	} {
		id, err := resolve(c.word, "the fleet", "pacectl member list", machines)
		var f *Failure
		errors.As(err, &f)
		if id != c.id || (f == nil) != (c.code == "") || f != nil && f.Code != c.code {
			t.Errorf("%q → %q, %v", c.word, id, err)
		}
	}
	_, err := resolve("Laptop of Adam", "the fleet", "pacectl member list", machines)
	var f *Failure
	if !errors.As(err, &f) || !strings.Contains(f.Remedy, "did you mean Laptop") {
		t.Errorf("no suggestion: %+v", f)
	}
}

func TestNearest(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"enrol", "enroll"}, {"qeue", "queue"}, {"nod", "node"}, {"idnetity", "identity"}, {"zzzzz", ""}, {"", ""}, {strings.Repeat("q", 100), ""}, {"flet", "fleet"},
	} {
		if got := nearest(c.word, firstWords()); got != c.want {
			t.Errorf("%q → %q, want %q", c.word, got, c.want)
		}
	}
}

// TestNearby: what a mistyped word may mean, the likeliest first, and at most three.
func TestNearby(t *testing.T) {
	machines := []Machine{
		{ID: "1111aaaa", Name: "alder"}, {ID: "2222bbbb", Name: "elder"}, {ID: "3333cccc", Name: "birch"}, {ID: "4444dddd"},
		{ID: "5555eeee", Name: "rack-a1"}, {ID: "6666ffff", Name: "rack-a2"}, {ID: "7777aaaa", Name: "rack-a3"}, {ID: "8888bbbb", Name: "rack-a4"},
		{ID: "1111aaaa", Name: "alder"}, // listed twice
	}
	for _, c := range []struct {
		word string
		want []string
	}{
		{"alderr", []string{"alder", "elder"}}, // one letter away, then two
		{"BRICH", []string{"birch"}},           // two that changed places
		{"4444dddb", []string{"4444dddd"}},     // an id
		{"rack-a9", []string{"rack-a1", "rack-a2", "rack-a3"}},
		{"ra", []string{"rack-a1", "rack-a2", "rack-a3"}}, // the start of them
		{"oak", nil}, {"", nil}, {strings.Repeat("a", 65), nil},
	} {
		var got []string
		for _, m := range nearby(c.word, machines) {
			if m.Name == "" {
				m.Name = m.ID
			}
			got = append(got, m.Name)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%q: %s", c.word, diff)
		}
	}
}

// TestMistypedMachine: a machine that neither the list nor the node knows is refused with those whose names or ids are near, for a
// person and in JSON, whatever was to be done with it.
func TestMistypedMachine(t *testing.T) {
	refused := wire.NewError(wire.CodeRefusedByRule, "weeb1 is not a member of this fleet", "pacectl member list")
	for _, call := range [][]string{
		{"queue", "show"}, {"queue", "history"}, {"queue", "retry"}, {"queue", "drop"}, {"queue", "reprovision"}, {"queue", "run-helper"},
		{"member", "forget"}, {"member", "show"},
	} {
		t.Run(strings.Join(call, " "), func(t *testing.T) {
			node := leaderNode()
			node.refuse = refused
			exit, _, said := nodes{"": node}.run(t, words(append(call, "weeb1")...), config.Config{}, "")
			if want := "remedy: did you mean web1 [" + idA + "]? pacectl member list shows all\n"; exit != config.ExitRefused || !strings.HasSuffix(said, want) {
				t.Errorf("%d: %q", exit, said)
			}
			exit, out, _ := nodes{"": node}.run(t, words(append(call, "weeb1")...), config.Config{JSON: true}, "")
			var doc FailureDocument
			if err := json.Unmarshal([]byte(out), &doc); err != nil || exit != config.ExitRefused {
				t.Fatalf("%d, %v: %s", exit, err, out)
			}
			if diff := cmp.Diff([]NearMachine{{ID: idA, Name: "web1"}}, doc.Error.Near); diff != "" {
				t.Error(diff)
			}
			_, _, said = nodes{"": node}.run(t, words(append(call, "oak")...), config.Config{}, "")
			if strings.Contains(said, "did you mean") {
				t.Errorf("nothing is near, and it says %q", said)
			}
			if call[1] == "show" && call[0] == "member" {
				return // it asks the node for nothing
			}
			_, _, said = nodes{"": node}.run(t, words(append(call, "web1")...), config.Config{}, "")
			if strings.Contains(said, "did you mean") {
				t.Errorf("a machine that is there is refused, and it says %q", said)
			}
		})
	}
}
