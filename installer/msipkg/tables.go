package msipkg

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// table is one table of the package's database, in the form that Windows Installer exports and imports: a line of columns, a
// line of their types, a line with the table's name and its keys, and a row a line; columns are divided by tabs.
type table struct {
	name  string
	heads [3]string
	rows  []string
}

var variable = regexp.MustCompile(`\$\(var\.([A-Za-z]+)\)`)

// parseTable reads a table and puts values in place of $(var.NAME). Every row has as many columns as the first line.
func parseTable(file, text string, values map[string]string) (table, error) {
	refuse := func(format string, args ...any) (table, error) {
		return table{}, fmt.Errorf("%w: %s: %s", ErrPlan, file, fmt.Sprintf(format, args...))
	}
	var unknown []string
	text = variable.ReplaceAllStringFunc(text, func(s string) string {
		name := variable.FindStringSubmatch(s)[1]
		value, ok := values[name]
		if !ok {
			unknown = append(unknown, name)
		}
		return value
	})
	if unknown != nil {
		return refuse("no value is known for %s", strings.Join(unknown, ", "))
	}
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n"), "\n")
	if len(lines) < 4 {
		return refuse("three lines of heads and a row or more are missing")
	}
	t := table{heads: [3]string(lines[:3]), rows: lines[3:]}
	t.name, _, _ = strings.Cut(t.heads[2], "\t")
	columns := strings.Count(t.heads[0], "\t")
	if strings.Count(t.heads[1], "\t") != columns {
		return refuse("%d columns and %d types", columns+1, strings.Count(t.heads[1], "\t")+1)
	}
	for i, row := range t.rows {
		if got := strings.Count(row, "\t"); got != columns {
			return refuse("line %d has %d columns, and the table %d", i+4, got+1, columns+1)
		}
	}
	return t, nil
}

// idt is the table as msibuild imports it. It takes a last line for unfinished, so an empty one stands behind it.
func (t table) idt() []byte {
	return []byte(strings.Join(append(t.heads[:], t.rows...), "\r\n") + "\r\n\r\n")
}

// same compares a table with what was read back; the order of rows is the database's.
func (t table) same(exported string) error {
	got, err := parseTable(t.name, exported, nil)
	if err != nil {
		return fmt.Errorf("%w: table %s reads back as %q", ErrDiffers, t.name, exported)
	}
	if got.heads != t.heads {
		return fmt.Errorf("%w: table %s has heads %q, want %q", ErrDiffers, t.name, got.heads, t.heads)
	}
	want, have := slices.Sorted(slices.Values(t.rows)), slices.Sorted(slices.Values(got.rows))
	for _, row := range want {
		if !slices.Contains(have, row) {
			return fmt.Errorf("%w: table %s lacks the row %q", ErrDiffers, t.name, row)
		}
	}
	if len(have) != len(want) {
		return fmt.Errorf("%w: table %s has %d rows, want %d", ErrDiffers, t.name, len(have), len(want))
	}
	return nil
}
