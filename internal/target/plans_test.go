package target

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// checkSwapPlans writes out what each plan makes of a folder, and of one in which a crash left out some of it.
func checkSwapPlans(dir string) error {
	for i, c := range []struct {
		plan        string
		stages      bool
		start, want map[string]string
	}{
		{"swap", true, map[string]string{"previous": "P", "current": "C", "staging": "S"}, map[string]string{"discard": "P", "previous": "C", "current": "S"}},
		{"", true, map[string]string{"current": "C", "staging": "S"}, map[string]string{"previous": "C", "current": "S"}},
		{"swap", true, map[string]string{"staging": "S"}, map[string]string{"current": "S"}},
		{"swap", true, map[string]string{"previous": "P", "staging": "S"}, map[string]string{"previous": "P", "current": "S"}},
		{"swap", true, map[string]string{"discard": "P", "current": "C", "staging": "S"}, map[string]string{"discard": "P", "previous": "C", "current": "S"}},
		{"swap", true, map[string]string{"discard": "P", "previous": "C", "staging": "S"}, map[string]string{"discard": "P", "previous": "C", "current": "S"}},
		{"replace", true, map[string]string{"previous": "P", "current": "C", "staging": "S"}, map[string]string{"dropped": "C", "previous": "P", "current": "S"}},
		{"replace", true, map[string]string{"dropped": "C", "previous": "P", "staging": "S"}, map[string]string{"dropped": "C", "previous": "P", "current": "S"}},
		{"back", false, map[string]string{"previous": "P", "current": "C"}, map[string]string{"dropped": "C", "current": "P"}},
		{"back", false, map[string]string{"previous": "P", "dropped": "C"}, map[string]string{"dropped": "C", "current": "P"}},
		{"back", false, map[string]string{"dropped": "C", "current": "P"}, map[string]string{"dropped": "C", "current": "P"}},
		{"away", false, map[string]string{"current": "C"}, map[string]string{"dropped": "C"}},
		{"away", false, map[string]string{"dropped": "C"}, map[string]string{"dropped": "C"}},
	} {
		s := store{filepath.Join(dir, fmt.Sprint(i)), func(string) {}}
		if err := os.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
		for name, mark := range c.start {
			if err := os.MkdirAll(filepath.Join(s.dir, name, mark), 0o700); err != nil {
				return err
			}
		}
		p, ok := planOf(c.plan)
		if !ok {
			return fmt.Errorf("%q is not known", c.plan)
		}
		if p.stages() != c.stages {
			return fmt.Errorf("%q: stages %v", c.plan, p.stages())
		}
		if _, err := s.forward(p); err != nil {
			return fmt.Errorf("%q from %v: %w", c.plan, c.start, err)
		}
		got := map[string]string{}
		found, err := filepath.Glob(filepath.Join(s.dir, "*", "*"))
		if err != nil {
			return err
		}
		for _, path := range found {
			got[filepath.Base(filepath.Dir(path))] = filepath.Base(path)
		}
		if !maps.Equal(got, c.want) {
			return fmt.Errorf("%q makes %v of %v, want %v", c.plan, got, c.start, c.want)
		}
	}
	if _, ok := planOf("else"); ok {
		return fmt.Errorf("a plan that nobody wrote is known")
	}
	return nil
}

func TestSwapPlans(t *testing.T) {
	if err := checkSwapPlans(t.TempDir()); err != nil {
		t.Error(err)
	}
}

func TestMutationSwapPlans(t *testing.T) {
	rows := swapPlans
	defer func() { swapPlans = rows }()
	for i, r := range rows {
		with := func(change func(*swapPlan)) []swapPlan {
			m := slices.Clone(rows)
			change(&m[i])
			return m
		}
		mutants := map[string][]swapPlan{"named otherwise": with(func(p *swapPlan) { p.Name = "x" })}
		for k := range r.Moves {
			mutants[fmt.Sprint("without its move ", k)] = with(func(p *swapPlan) {
				if p.Moves = slices.Delete(slices.Clone(r.Moves), k, k+1); len(p.Moves) == 0 {
					p.Moves = []int{moveRestore}
				}
			})
			mutants[fmt.Sprint("with another move ", k)] = with(func(p *swapPlan) {
				p.Moves = slices.Clone(r.Moves)
				p.Moves[k] = (p.Moves[k] + 1) % len(moves)
			})
		}
		for what, m := range mutants {
			swapPlans = m
			if checkSwapPlans(t.TempDir()) == nil {
				t.Errorf("the plan %q %s goes unseen", r.Name, what)
			}
		}
	}
}
