package control

import (
	"errors"
	"strings"
	"testing"

	"pace-node/internal/identity"
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
