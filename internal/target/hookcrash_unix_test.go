//go:build !windows

package target

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pace-node/internal/wire"
)

// TestCrashInAHook ends a real process at each point of a configuration whose hook fails, and of the start that mends it:
// the old configuration is there or the new one, and the new one is never what a later failure leads back to.
func TestCrashInAHook(t *testing.T) {
	var reached []string
	for depth := range 2 {
		first := prepare(t, depth)
		dir, _ := hookFolder(t, map[string]string{"x": says1 + fmt.Sprintf(`test "$mark" != mark%d`, depth)})
		t.Setenv(childHooksEnv, dir)
		_, out := child(t, "count", first.copy(t).dir, first.nextBody, "")
		var counts map[string]int
		if err := json.Unmarshal([]byte(out), &counts); err != nil {
			t.Fatal(err)
		}
		for point, n := range counts {
			reached = append(reached, point)
			s := first.copy(t)
			when := fmt.Sprintf("depth %d, crash at %s@%d", depth, point, n)
			if crashed, _ := child(t, "configure", s.dir, s.nextBody, point+"@"+strconv.Itoa(n)); !crashed && !strings.HasPrefix(point, "target.state.") {
				t.Errorf("%s was not reached", when)
			}
			for _, again := range []string{"", "target.swap.drop.before", "target.swap.drop.after", "target.swap.restore.before", "target.swap.restore.after", "target.swap.done.before", "target.swap.clean.before"} {
				c := s.copy(t)
				if again != "" {
					if crashed, _ := child(t, "open", c.dir, "", again+"@1"); !crashed {
						continue
					}
				}
				c.rolledBack(t, when+", then at "+again, point)
			}
		}
	}
	for _, point := range []string{"target.hooks.run.before", "target.hooks.run.after", "target.swap.drop.before", "target.swap.drop.after", "target.swap.restore.before", "target.swap.restore.after"} {
		if !slices.Contains(reached, point) {
			t.Errorf("no child ever came to %s", point)
		}
	}
}

// rolledBack opens a folder and looks at what is there; then one more configuration is made, with no hooks in its way.
func (s *stand) rolledBack(t *testing.T, when, point string) {
	t.Helper()
	cfg := config(s.dir)
	tg := open(t, cfg)
	all := atRest(t, tg)
	for name := range all {
		top, _, _ := strings.Cut(name, "/")
		if !slices.Contains([]string{".", currentDir, previousDir, stateFile}, top) {
			t.Fatalf("%s: %s is left", when, name)
		}
	}
	current := below(all, currentDir)
	old, next := maps.Equal(current, s.current), maps.Equal(current, s.next)
	if !old && !next {
		t.Fatalf("%s: a mixture\n%s", when, dump(all))
	}
	// The hook ran in between, so that only what comes with the roll-back leads to the old one for certain.
	rolls := strings.HasPrefix(point, "target.swap.drop.") || strings.HasPrefix(point, "target.swap.restore.") || point == "target.swap.clean.after"
	if rolls && !old {
		t.Errorf("%s: the new configuration is there", when)
	}
	if want, _ := tg.Wants(); !want && !old {
		t.Errorf("%s: what its hook refused counts as provisioned", when)
	}
	b := body("after")
	a := tg.Work(t.Context(), wire.StepConfigure, encode(t, b))
	if !a.OK {
		t.Fatalf("%s: %s", when, a.Error)
	}
	if len(s.current) > 0 && !maps.Equal(below(atRest(t, tg), previousDir), s.current) {
		t.Errorf("%s: what ran is not the previous one of the next configuration", when)
	}
	if err := tg.Close(); err != nil {
		t.Error(err)
	}
}
