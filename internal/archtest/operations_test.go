package archtest

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/control/page"
	"pace-node/internal/doctor"
)

// operationsRows are what each table of docs/operations-tests.md must have one row of, by the heading of its first column and,
// for flags, by the chapter.
func operationsRows(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for i := range config.Options {
		out["Settings/Flag"] = append(out["Settings/Flag"], "--"+config.Options[i].Name)
	}
	for _, v := range config.Verbs {
		out["Verbs of pace-node/Flag"] = append(out["Verbs of pace-node/Flag"], "--"+v.Name)
	}
	words := regexp.MustCompile(`(?m)^\.TP\n\.B pacectl ([a-z]+(?: [a-z\\-]+)?)`)
	for _, m := range words.FindAllStringSubmatch(control.ToolManPage(), -1) {
		first, second, _ := strings.Cut(strings.ReplaceAll(m[1], `\`, ""), " ")
		if first == "completion" { // its shells look like words
			second = ""
		}
		out["Words of pacectl/Word"] = append(out["Words of pacectl/Word"], strings.TrimSpace(first+" "+second))
	}
	for _, c := range control.Conditions {
		out["Conditions/Condition"] = append(out["Conditions/Condition"], c.ID)
	}
	for _, r := range control.Series {
		out["Metrics/Series"] = append(out["Metrics/Series"], r.Name)
	}
	for _, c := range doctor.Checks {
		out["Doctor/Check"] = append(out["Doctor/Check"], c.Name)
	}
	for _, a := range page.Actions {
		out["The page/Action"] = append(out["The page/Action"], a.Path)
	}
	return out
}

// operationsFaults are what is wrong with a page: rows without a test, and rows that are missing, double, or of nothing.
func operationsFaults(text string, want map[string][]string) (faults []string) {
	rows, chapter, table := 0, "", ""
	found := map[string]map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if title, isTitle := strings.CutPrefix(line, "## "); isTitle {
			chapter = title
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		switch {
		case !strings.HasPrefix(line, "|"):
			table = ""
			continue
		case strings.HasPrefix(line, "|---"):
			continue
		case table == "":
			table = chapter + "/" + strings.TrimSpace(cells[0])
			found[table] = map[string]int{}
			continue
		}
		rows++
		if last := cells[len(cells)-1]; !test.MatchString(last) {
			faults = append(faults, "this row names no test: "+line)
		}
		if want[table] == nil {
			continue
		}
		for name := range strings.SplitSeq(cells[0], ",") {
			found[table][strings.Trim(name, " `")]++
		}
	}
	if rows < 150 {
		faults = append(faults, "there are few rows: this test reads the page wrongly")
	}
	for _, table := range slices.Sorted(maps.Keys(want)) {
		for _, name := range want[table] {
			if n := found[table][name]; n != 1 {
				faults = append(faults, table+" has no row of its own for "+name)
			}
			delete(found[table], name)
		}
		for name := range found[table] {
			faults = append(faults, table+" has a row for "+name+", which there is not")
		}
	}
	return faults
}

// TestOperationsPage holds the page that says which test holds each sentence of what an operator types and reads: every row
// names a test (TestWords holds that it is there), and whatever the product's tables have is there once.
func TestOperationsPage(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root(t), "docs", "operations-tests.md"))
	if err != nil {
		t.Fatal(err)
	}
	text, want := strings.ReplaceAll(string(b), "\r\n", "\n"), operationsRows(t)
	for table, names := range want {
		if len(names) < 10 {
			t.Errorf("%s has %d rows: this test looks in the wrong place", table, len(names))
		}
	}
	for _, fault := range operationsFaults(text, want) {
		t.Error(fault)
	}
	for what, flip := range map[string]func() (string, map[string][]string){
		"a setting without a row": func() (string, map[string][]string) {
			more := maps.Clone(want)
			more["Settings/Flag"] = append(slices.Clone(want["Settings/Flag"]), "--another")
			return text, more
		},
		"a row of nothing": func() (string, map[string][]string) {
			less := maps.Clone(want)
			less["Doctor/Check"] = want["Doctor/Check"][1:]
			return text, less
		},
		"a row without a test": func() (string, map[string][]string) {
			return text + "\n| Sentence | Shown by |\n|---|---|\n| it is so | somebody |\n", want
		},
		"a row twice": func() (string, map[string][]string) {
			return strings.Replace(text, "\n| `watch` |", "\n| `watch` | `TestWatchOnce` |\n| `watch` |", 1), want
		},
	} {
		if len(operationsFaults(flip())) == 0 {
			t.Errorf("%s passes", what)
		}
	}
}
