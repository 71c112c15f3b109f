package msipkg

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const someTable = "A\tB\ns72\tS255\nT\tA\none\t$(var.X)\ntwo\t\n"

func TestParseTable(t *testing.T) {
	got, err := parseTable("T.idt", someTable, map[string]string{"X": "y z"})
	if err != nil || got.name != "T" || strings.Join(got.rows, "|") != "one\ty z|two\t" {
		t.Errorf("%+v, %v", got, err)
	}
	if want := "A\tB\r\ns72\tS255\r\nT\tA\r\none\ty z\r\ntwo\t\r\n\r\n"; string(got.idt()) != want {
		t.Errorf("%q, want %q", got.idt(), want)
	}
	for name, c := range map[string]struct{ text, want string }{
		"nothing":           {"", "three lines"},
		"no row":            {"A\tB\ns72\tS255\nT\tA\n", "three lines"},
		"unknown value":     {strings.ReplaceAll(someTable, "X", "Y"), "Y"},
		"a column lacks":    {strings.Replace(someTable, "two\t", "two", 1), "line 5 has 1 columns"},
		"a type lacks":      {strings.Replace(someTable, "s72\tS255", "s72", 1), "2 columns and 1 types"},
		"a column too many": {strings.Replace(someTable, "one", "one\t1", 1), "line 4 has 3 columns"},
	} {
		if got, err := parseTable("T.idt", c.text, map[string]string{"X": "y"}); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, c.want)
		}
	}
}

func TestTableSame(t *testing.T) {
	want, err := parseTable("T.idt", someTable, map[string]string{"X": "y"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, says string }{
		"the same":         {"A\tB\r\ns72\tS255\r\nT\tA\r\none\ty\r\ntwo\t", ""},
		"in another order": {"A\tB\r\ns72\tS255\r\nT\tA\r\ntwo\t\r\none\ty\r\n", ""},
		"a row lacks":      {"A\tB\r\ns72\tS255\r\nT\tA\r\none\ty\r\n", `lacks the row "two\t"`},
		"a row too many":   {"A\tB\r\ns72\tS255\r\nT\tA\r\none\ty\r\ntwo\t\r\nthree\t\r\n", "3 rows, want 2"},
		"a row differs":    {"A\tB\r\ns72\tS255\r\nT\tA\r\none\tx\r\ntwo\t\r\n", `lacks the row "one\ty"`},
		"a type differs":   {"A\tB\r\ns72\tS0\r\nT\tA\r\none\ty\r\ntwo\t\r\n", "heads"},
		"no table":         {"", "reads back"},
	} {
		err := want.same(c.text)
		if (err == nil) != (c.says == "") || err != nil && (!errors.Is(err, ErrDiffers) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func FuzzParseTable(f *testing.F) {
	f.Add(someTable)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTable("T", text, map[string]string{"X": "y"})
		if err == nil && len(got.rows) == 0 {
			t.Error("a table without rows")
		}
	})
}

// summaryOf is a property set with the times that a package has, and one property before them.
func summaryOf(times ...uint32) []byte {
	out := append(make([]byte, setHeader), formatSummary...)
	out = le.AppendUint32(out, uint32(setHeader+len(formatSummary)+4))
	section := le.AppendUint32(nil, 0)
	section = le.AppendUint32(section, uint32(len(times)))
	for i, id := range times {
		section = le.AppendUint32(le.AppendUint32(section, id), uint32(8+8*len(times)+12*i))
	}
	for range times {
		section = le.AppendUint64(le.AppendUint32(section, vtFileTime), 1)
	}
	return append(out, section...)
}

func TestSetTimes(t *testing.T) {
	msi := append([]byte("before"), summaryOf(4, propCreated, propSaved)...)
	if err := setTimes(msi, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	// 1970 is 116444736000000000 steps of 100 ns after 1601.
	end := msi[len(msi)-24:]
	if a, b := le.Uint64(end[:]), le.Uint64(end[16:]); a>>32 == 0 || b != 116444736000000000 {
		t.Errorf("%d, %d", a, b)
	}
	for name, data := range map[string][]byte{
		"nothing": nil, "two sets": append(summaryOf(propCreated, propSaved), summaryOf(propCreated, propSaved)...), "one time": summaryOf(propCreated),
		"cut": summaryOf(propCreated, propSaved)[:60], "no section": summaryOf(propCreated, propSaved)[:48],
	} {
		if err := setTimes(data, time.Unix(0, 0)); !errors.Is(err, ErrDiffers) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzSetTimes(f *testing.F) {
	f.Add(summaryOf(propCreated, propSaved))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := len(data)
		setTimes(data, time.Unix(1, 0))
		if len(data) != n {
			t.Error("another length")
		}
	})
}
