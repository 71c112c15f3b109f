package control

import (
	"os"
	"strings"
	"testing"
)

// TestDocs holds docs/metrics.md and docs/conditions.md against the tables;
// PACE_WRITE_DOCS=1 writes them.
func TestDocs(t *testing.T) {
	for path, want := range map[string]string{
		"../../docs/metrics.md":    MetricsMarkdown(),
		"../../docs/conditions.md": ConditionsMarkdown(),
	} {
		if os.Getenv("PACE_WRITE_DOCS") != "" {
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ReplaceAll(string(b), "\r\n", "\n") != want {
			t.Errorf("%s differs from the table in the code: run make docs", path)
		}
	}
}
