package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"pace-node/internal/control"
	"pace-node/internal/host"
	"pace-node/internal/statedir"
	"pace-node/internal/target"
)

// Hooks is where this machine's hooks are.
func (m *Machine) Hooks() host.Hooks { return m.host.Hooks(m.Config.StateDir) }

// runHooks runs the hooks that the service asks for, which may not run them itself.
func (m *Machine) runHooks(ctx context.Context) (control.Done, error) {
	h := m.Hooks()
	switch {
	case h.Report == "":
		return control.Done{}, &told{nil, "a node of " + m.Config.StateDir + " runs its hooks itself", "put them into " + h.Dir}
	case h.Unit:
		return control.Done{}, &told{nil, "hooks for the service are run by root", "switch their unit on: " + h.Enable}
	}
	u := target.HookUnit{Dir: filepath.Join(m.Config.StateDir, statedir.ProvisionedDir), Hooks: target.Hooks{Dir: h.Dir, Result: h.Report},
		Said: func(msg string, args ...any) { fmt.Fprintln(os.Stderr, append([]any{msg}, args...)...) }}
	ran, err := u.Serve(ctx)
	switch {
	case errors.Is(err, target.ErrHooks):
		return control.Done{}, &told{err, err.Error(), "mend the hook in " + h.Dir + "; the fleet's leader tries again by itself"}
	case err != nil:
		return control.Done{}, err
	case !ran:
		return control.Done{Said: "no hooks are asked for"}, nil
	}
	return control.Done{Said: "the hooks ran"}, nil
}
