package target

import (
	"fmt"
	"io/fs"
	"testing"
	"time"

	"pace-node/internal/wire"
)

// number is one of the page's numbers, written out by hand: a constant that moves away from it is seen here, whatever other tests
// wait for.
type number struct {
	what      string
	got, want int64
}

func perm(m fs.FileMode) int64 { return int64(m) }

// numbers are those of the page, and below them those that this package chose for what the page leaves open.
func numbers() []number {
	return []number{
		{"mode of folders", perm(folderMode), 0o700},
		{"mode of keys", perm(secretMode), 0o600},
		{"mode of certificates", perm(publicMode), 0o644},
		{"stderr of a hook in the error: 4 KiB", MaxHookStderr, 4096},
		{"a step's body, the ceiling of Work: 4 MiB", MaxBody, 4194304},
		{"an inventory, with the answer around it: 1 MiB", MaxInventory + 1024, 1048576},

		{"all hooks of one configuration", int64(HooksTime), int64(time.Minute)},
		{"the unit takes a request", int64(HookTaken), int64(15 * time.Second)},
		{"and reports after the last hook", int64(HookSlack), int64(5 * time.Second)},
		{"a hook when the node stops", int64(HookGrace), int64(5 * time.Second)},
		{"a state that could not be written is tried again", int64(saveRetry), int64(5 * time.Second)},
		{"settings", MaxSettings, 4096},
		{"name of a setting", MaxSettingName, 256},
		{"value of a setting: 256 KiB", MaxSettingValue, 262144},
		{"certificate, key: 64 KiB", MaxPEM, 65536},
		{"authorities: 512 KiB", MaxCA, 524288},
		{"claims: 64 KiB", MaxClaims, 65536},
		{"policies of a kind", MaxPolicies, 256},
		{"policy: 256 KiB", MaxPolicy, 262144},
		{"files", MaxFiles, 1024},
		{"file: 1 MiB", MaxFile, 1048576},
		{"part of a path", MaxPart, 255},
		{"path", MaxPath, 512},
		{"parts of a path", MaxDepth, 16},
		{"reason of a reprovision", MaxReason, 256},
		{"addresses of the inventory", MaxAddresses, 64},
		{"mode of a file, at most", perm(fileModeMax), 0o755},
		{"mode of a file, at least", perm(fileModeMin), 0o400},
		{"mode of what root reports", perm(reportMode), 0o640},
	}
}

func checkNumbers(rows []number) error {
	for _, c := range rows {
		if c.got != c.want {
			return fmt.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	return nil
}

func TestNumbersOfThePage(t *testing.T) {
	if err := checkNumbers(numbers()); err != nil {
		t.Error(err)
	}
	// The times fit into one another: a step that rolls back runs the hooks twice, within the leader's three minutes.
	if most := 2*(HooksTime+HookTaken+HookSlack) + 10*time.Second; most > 3*time.Minute {
		t.Errorf("a restart that rolls back may take %s", most)
	}
	// A configuration of the helper's 1 MiB fits into a step's body, whatever JSON makes of it.
	if MaxBody < 3*wire.MaxAnswer {
		t.Errorf("a body may have %d bytes", MaxBody)
	}
	// What is kept of the past: the configuration before, and no other.
	for _, p := range swapPlans {
		for _, i := range p.Moves {
			switch to := moves[i].To; to {
			case currentDir, previousDir, discardDir, droppedDir:
			default:
				t.Errorf("%s keeps %s", p.Name, to)
			}
		}
	}
}

func TestMutationNumbers(t *testing.T) {
	for i := range numbers() {
		for _, off := range []int64{-1, 1} {
			rows := numbers()
			rows[i].got += off
			if checkNumbers(rows) == nil {
				t.Errorf("%s off by %d goes unseen", rows[i].what, off)
			}
		}
	}
}
