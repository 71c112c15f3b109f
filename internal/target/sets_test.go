package target

import (
	"fmt"
	"maps"
	"testing"
)

// The reasons that a report of the unit which runs hooks may name: a hook's own, and what its folder or its order can be.
func checkHookReportReasons() error {
	want := map[Reason]bool{"hook": true, "hook_refused": true, "storage": true, "damaged": true, "other_digest": true, "closed": true}
	if !maps.Equal(want, hookReportReasons) {
		return fmt.Errorf("%v, want %v", hookReportReasons, want)
	}
	return nil
}

func TestHookReportReasons(t *testing.T) {
	if err := checkHookReportReasons(); err != nil {
		t.Error(err)
	}
}

func TestMutationHookReportReasons(t *testing.T) {
	for r := range maps.Clone(hookReportReasons) {
		delete(hookReportReasons, r)
		if checkHookReportReasons() == nil {
			t.Errorf("row %q taken out, and nothing noticed", r)
		}
		hookReportReasons[r] = true
	}
}
