package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"pace-node/internal/process"
	"pace-node/internal/wire"
)

// Hooks is where this machine's administrator keeps programs that run with each new configuration, and who runs them.
type Hooks struct {
	Dir    string // "": there are none
	Result string // "": this process runs them; else the file in which the unit that runs them reports
	Enable string // what switches that unit on, for people

	writer func(fs.FileInfo) bool // whether a report is the unit's; nil: whether it is root's
}

// hookTimes are HooksTime and its sisters; tests have shorter ones.
var hookTimes = struct{ hooks, taken, slack, grace time.Duration }{HooksTime, HookTaken, HookSlack, HookGrace}

// Why hooks run, in HookInput.Why.
const (
	HookConfigured = "configured"  // this machine has a new configuration
	HookRolledBack = "rolled-back" // a hook failed with a newer one, and the configuration before it is back
)

// HookInput is what every hook reads on stdin.
type HookInput struct {
	V             int               `json:"v"`
	Why           string            `json:"why"` // configured, rolled-back
	Node          string            `json:"node"`
	Cluster       string            `json:"cluster"`
	Digest        string            `json:"digest"`        // of the configuration, 64 hex digits
	Folder        string            `json:"folder"`        // where the configuration is: ssl, policies and files are in it
	Configuration map[string]string `json:"configuration"` // never null
	ServerClaims  json.RawMessage   `json:"server_claims"` // an object, null if the helper gave none
}

const hookInputVersion = 1

// hookOutcome is how the hooks of one configuration went.
type hookOutcome struct {
	begun  int    // hooks that were begun, so that what they change may be changed
	reason Reason // "": all ended well
	text   string // a sentence, escaped
}

func (o hookOutcome) bad() bool { return o.reason != "" }

// hook is one program of the folder.
type hook struct {
	name string
	argv []string
}

// hookLeftover are endings of what editors and package managers leave beside a file.
var hookLeftover = []string{"~", ".bak", ".orig", ".swp", ".tmp", ".dpkg-old", ".dpkg-new", ".dpkg-dist", ".dpkg-tmp", ".rpmsave", ".rpmorig", ".rpmnew"}

// hookName reports whether a name in the folder may be a hook's at all.
func hookName(name string) bool {
	return !strings.HasPrefix(name, ".") && !slices.ContainsFunc(hookLeftover, func(end string) bool { return strings.HasSuffix(name, end) })
}

// listHooks returns the hooks of a folder in the order of their names, and the names of what looks like a hook and cannot
// be run. A folder that is not there holds none.
func listHooks(dir string) (hooks []hook, passed []string, err error) {
	entries, err := os.ReadDir(dir) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		if !hookName(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path) // a link to a program is a hook
		if err != nil || !info.Mode().IsRegular() {
			passed = append(passed, e.Name())
			continue
		}
		argv, ok := hookCommand(path, info)
		if !ok {
			passed = append(passed, e.Name())
			continue
		}
		hooks = append(hooks, hook{e.Name(), argv})
	}
	return hooks, passed, nil
}

// runHooks runs the hooks of a folder in the order of their names, each with the input on stdin, until one does not end
// well. All of them have HooksTime together. Before the first one begins, each is checked: a hook that somebody other
// than the administrator could change is refused, and then none runs.
func runHooks(ctx context.Context, dir string, in HookInput, said func(msg string, args ...any)) hookOutcome {
	hooks, passed, err := listHooks(dir)
	if err != nil {
		return hookOutcome{reason: ReasonHookRefused, text: fmt.Sprintf("the folder of hooks %s cannot be read: %s", shown(dir), plain(err))}
	}
	for _, name := range passed {
		said("no hook: it is not a program that can be run", "file", wire.Printable(name), "folder", wire.Printable(dir))
	}
	if len(hooks) == 0 {
		return hookOutcome{}
	}
	if why := judgeHooks(dir, hooks); why != "" {
		return hookOutcome{reason: ReasonHookRefused, text: why}
	}
	raw, err := json.Marshal(in)
	if err != nil {
		return hookOutcome{reason: ReasonHookRefused, text: "the hooks' input cannot be written: " + wire.Printable(err.Error())}
	}
	raw = append(raw, '\n')
	deadline := time.Now().Add(hookTimes.hooks)
	for i, h := range hooks {
		o := hookOutcome{begun: i + 1, reason: ReasonHook}
		name := "the hook " + shown(h.name)
		left := time.Until(deadline)
		if left <= 0 {
			o.begun, o.text = i, fmt.Sprintf("%s was not begun: those before it took the %s that all hooks have together", name, hookTimes.hooks)
			return o
		}
		r, err := process.Run(ctx, process.Command{Argv: h.argv, Dir: hookRoot(dir), Input: raw, Timeout: left, MaxStderr: MaxHookStderr})
		switch {
		case err != nil:
			o.text = fmt.Sprintf("%s cannot be run: %s", name, plain(err))
		case r.End == process.EndTimeout:
			o.text = hookSaid(fmt.Sprintf("%s timed out: it was ended when all hooks together had run for %s", name, hookTimes.hooks), r.Stderr)
		case r.End == process.EndCancelled:
			o.reason, o.text = ReasonClosed, name+" was ended: this node is stopping"
		case r.Exit != nil:
			o.text = hookSaid(fmt.Sprintf("%s ended with %s", name, process.ExitText(r.Exit)), r.Stderr)
		default:
			said("hook ran", "hook", wire.Printable(h.name))
			continue
		}
		return o
	}
	return hookOutcome{begun: len(hooks)}
}

// hookRoot is the folder that a hook starts in: one that is there, and that nothing is left in by accident.
func hookRoot(dir string) string { return filepath.VolumeName(dir) + string(filepath.Separator) }

// hookSaid adds what a hook said on stderr.
func hookSaid(text string, stderr []byte) string {
	s := strings.TrimSpace(process.Redact(strings.ToValidUTF8(string(stderr), "�")))
	if s == "" {
		return text + "; its stderr is empty"
	}
	return text + "; its stderr: " + strconv.Quote(s)
}

// hookInput reads what hooks are told of a configuration that was just found whole.
func hookInput(root *os.Root, m manifest, why, folder string) (HookInput, error) {
	in := HookInput{V: hookInputVersion, Why: why, Node: m.Node, Cluster: m.Cluster, Digest: m.Digest, Folder: folder}
	for _, r := range m.Files {
		if r.Path != configurationFile && r.Path != claimsFile {
			continue
		}
		b, damage := readIn(root, filepath.FromSlash(r.Path), r.Size)
		if damage != "" {
			return in, fmt.Errorf("%s %s", r.Path, damage)
		}
		if r.Path == claimsFile {
			in.ServerClaims = json.RawMessage(b)
		} else if err := json.Unmarshal(b, &in.Configuration); err != nil {
			return in, fmt.Errorf("%s does not read: %w", r.Path, err)
		}
	}
	if in.Configuration == nil {
		return in, fmt.Errorf("%s is missing", configurationFile)
	}
	return in, nil
}

// hook runs the hooks of the current configuration, or has the unit run them. It is called within a step.
func (t *Target) hook(m manifest, why string) hookOutcome {
	h := t.cfg.Hooks
	if h.Dir == "" {
		return hookOutcome{}
	}
	if h.Result != "" {
		return t.askUnit(m.Digest, why)
	}
	root, err := os.OpenRoot(t.store.path(currentDir))
	if err != nil {
		return hookOutcome{reason: ReasonStorage, text: "the configuration cannot be read for the hooks: " + plain(err)}
	}
	in, err := hookInput(root, m, why, t.store.path(currentDir))
	if err := errors.Join(err, root.Close()); err != nil {
		return hookOutcome{reason: ReasonStorage, text: "the configuration cannot be read for the hooks: " + wire.Printable(err.Error())}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-t.ending.Done():
		case <-ctx.Done():
			return
		}
		grace := time.NewTimer(hookTimes.grace) // a hook is let come to its end, for a moment
		defer grace.Stop()
		select {
		case <-grace.C:
			cancel()
		case <-ctx.Done():
		}
	})
	defer watch.Wait()
	defer cancel()
	t.store.point("target.hooks.run.before")
	o := runHooks(ctx, h.Dir, in, func(msg string, args ...any) { t.log.Info(msg, args...) })
	t.store.point("target.hooks.run.after")
	return o
}
