package monitoring

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

const (
	readmeFile = "README.md"
	alertsHead = "\n## Alerts\n\nWritten from the rules by `make docs`; a test fails where the two differ.\n\n| Alert | Severity | When | What it means | What to type |\n|---|---|---|---|---|\n"
)

var value = regexp.MustCompile(`\{\{ *\$value[^}]*\}\}`)
var label = regexp.MustCompile(`\{\{ *\$labels\.([a-z_]+) *\}\}`)

// alertsMarkdown is a row a rule, in the file's order. Labels of an alert stand in it as their names.
func alertsMarkdown(all []rule) string {
	var b strings.Builder
	b.WriteString(alertsHead)
	cell := func(s string) string {
		s = value.ReplaceAllString(label.ReplaceAllString(s, "*$1*"), "*so many*")
		return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
	}
	for _, r := range all {
		lasting := ""
		if r.For != "" {
			lasting = " for " + r.For
		}
		fmt.Fprintf(&b, "| `%s` | %s | `%s`%s | %s. %s | %s |\n", r.Alert, r.Labels["severity"], strings.ReplaceAll(strings.Join(strings.Fields(r.Expr), " "), "|", `\|`), lasting,
			cell(r.Annotations["summary"]), cell(r.Annotations["description"]), cell(r.Annotations["remedy"]))
	}
	return b.String()
}

// TestDocsAlerts holds the page's table against the rules. PACE_WRITE_DOCS=1 writes it.
func TestDocsAlerts(t *testing.T) {
	b, err := os.ReadFile(readmeFile)
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(string(b), "\n## Alerts\n")
	want := text + alertsMarkdown(rules(t))
	if os.Getenv("PACE_WRITE_DOCS") != "" {
		if err := os.WriteFile(readmeFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(b) != want {
		t.Errorf("%s differs from %s: run make docs", readmeFile, rulesFile)
	}
	for _, r := range rules(t) {
		if !strings.Contains(want, "| `"+r.Alert+"` |") {
			t.Errorf("%s has no row", r.Alert)
		}
	}
}
