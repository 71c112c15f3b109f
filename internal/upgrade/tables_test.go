package upgrade

import (
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkStarts writes out what a starting process does: a swap that never came is taken back, the new program is watched
// three times, a fourth start and a roll-back that was interrupted bring the old one back, a third program is left alone.
func checkStarts() error {
	for _, c := range []struct {
		phase  Phase
		which  which
		starts int
		want   action
	}{
		{PhaseSwapped, isOld, 0, actAbandon},
		{PhaseSwapped, isOld, 9, actAbandon},
		{PhaseSwapped, isNew, 0, actWatch},
		{PhaseSwapped, isNew, 2, actWatch},
		{PhaseSwapped, isNew, 3, actBack},
		{PhaseSwapped, isNew, 4, actBack},
		{PhaseSwapped, isOther, 0, actForget},
		{PhaseSwapped, isOther, 9, actForget},
		{PhaseRolledBack, isOld, 1, actNothing},
		{PhaseRolledBack, isNew, 1, actBack},
		{PhaseRolledBack, isNew, 9, actBack},
		{PhaseRolledBack, isOther, 1, actForget},
	} {
		if got := atStart(Intent{Phase: c.phase, Starts: c.starts}, c.which); got != c.want {
			return fmt.Errorf("%s, program %d, started %d times: %d, want %d", c.phase, c.which, c.starts, got, c.want)
		}
	}
	return nil
}

func TestStarts(t *testing.T) {
	if err := checkStarts(); err != nil {
		t.Error(err)
	}
}

func TestMutationStarts(t *testing.T) {
	for i := range startRows {
		was := startRows[i]
		startRows[i].Do = (was.Do + 1) % (actSettle + 1)
		if checkStarts() == nil {
			t.Errorf("row %d does another thing, and nothing noticed", i)
		}
		startRows[i] = was
		startRows[i].Spent = !was.Spent
		if checkStarts() == nil {
			t.Errorf("row %d spent otherwise, and nothing noticed", i)
		}
		startRows[i] = was
	}
}

// checkEnds: what served and ended well is settled; what ended well or refused its configuration without having served is
// not started again by a service manager, so the old program has to come back now; every other end is.
func checkEnds() error {
	for _, c := range []struct {
		served bool
		code   int
		want   action
		why    string
	}{
		{true, 0, actSettle, ""}, {true, 1, actNothing, ""}, {true, 75, actNothing, ""}, {true, 78, actNothing, ""},
		{false, 0, actBack, "before it served"}, {false, 78, actBack, "refused its configuration"}, {false, 1, actNothing, ""}, {false, 2, actNothing, ""},
	} {
		if row := atEnd(c.served, c.code); row.Do != c.want || !strings.Contains(row.Why, c.why) || c.why == "" && row.Why != "" {
			return fmt.Errorf("served %v, status %d: %+v", c.served, c.code, row)
		}
	}
	return nil
}

func TestEnds(t *testing.T) {
	if err := checkEnds(); err != nil {
		t.Error(err)
	}
}

func TestMutationEnds(t *testing.T) {
	for i := range endRows {
		was := endRows[i]
		endRows[i].Do = (was.Do + 1) % (actSettle + 1)
		if checkEnds() == nil {
			t.Errorf("row %d does another thing, and nothing noticed", i)
		}
		endRows[i] = was
		endRows[i].Served = !was.Served
		if checkEnds() == nil {
			t.Errorf("row %d for the other case, and nothing noticed", i)
		}
		endRows[i] = was
	}
}
