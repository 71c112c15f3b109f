package page

import (
	"os"
	"strings"
	"testing"
)

// TestOperatorsPageListsTheRoutes: what a script may ask is on the operator's page, with what its body holds.
func TestOperatorsPageListsTheRoutes(t *testing.T) {
	b, err := os.ReadFile("../../../docs/operator.md")
	if err != nil {
		t.Fatal(err)
	}
	row := func(path string) string {
		short := "`" + strings.TrimPrefix(path, "/api/v1/") + "`"
		for _, line := range strings.Split(string(b), "\n") {
			if strings.HasPrefix(line, "|") && (strings.Contains(line, path+"`") || strings.Contains(line, "/api/v1/") && strings.Contains(line, short)) {
				return line
			}
		}
		return ""
	}
	for _, r := range routes {
		if row(r.Path) == "" {
			t.Errorf("%s %s is not on the operator's page", r.Method, r.Path)
		}
	}
	for _, a := range Actions {
		for _, name := range a.Takes {
			if !strings.Contains(row("/api/v1/"+a.Path), "`"+name+"`") {
				t.Errorf("%s takes %s, and the operator's page does not say so", a.Path, name)
			}
		}
	}
}
