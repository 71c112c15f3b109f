//go:build linux && packages

package packages

import (
	"strings"
	"testing"
)

// TestWineServiceProgramRuns: the program for Windows starts, and keeps its identity where Windows keeps such things.
func TestWineServiceProgramRuns(t *testing.T) {
	w := bootWine(t, "win1", "")
	w.put(wineProgram(t, newVersion), `C:\pace\pace-node.exe`)
	if said := w.run(`C:\pace\pace-node.exe`, "--version"); !strings.Contains(said, "pace-node "+newVersion+" windows") {
		t.Errorf("--version says %q", said)
	}
	first := w.run(`C:\pace\pace-node.exe`, "--print-identity")
	if again := w.run(`C:\pace\pace-node.exe`, "--print-identity"); again != first || !strings.HasPrefix(first, "node-id ") {
		t.Errorf("printed twice: %q and %q", first, again)
	}
}
