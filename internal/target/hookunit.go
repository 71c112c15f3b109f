package target

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// Where a service may not run hooks itself, a unit of root's does. The service leaves a request in its own folder, the
// unit takes it away and reports in a file of its own, which no service can write. Both are JSON.

const hookFormat = 1

// hookRequest is hooks.json: the service asks for the hooks of its current configuration.
type hookRequest struct {
	Format int    `json:"format"`
	Nonce  string `json:"nonce"`  // 32 hex digits, which the report repeats
	Digest string `json:"digest"` // of the configuration
	Why    string `json:"why"`
}

// hookReport is what the unit says.
type hookReport struct {
	Format int    `json:"format"`
	Nonce  string `json:"nonce"`
	Done   bool   `json:"done"` // false: the hooks have begun
	Begun  int    `json:"begun,omitempty"`
	Reason Reason `json:"reason,omitempty"` // "": all ended well
	Text   string `json:"text,omitempty"`
}

// hookReportReasons are the reasons that a report may name.
var hookReportReasons = map[Reason]bool{ReasonHook: true, ReasonHookRefused: true, ReasonStorage: true, ReasonDamaged: true, ReasonOtherDigest: true, ReasonClosed: true}

func decodeHookRequest(b []byte) (hookRequest, error) {
	var r hookRequest
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	if r.Format != hookFormat {
		return r, fmt.Errorf("format %d, and this version reads %d", r.Format, hookFormat)
	}
	if !validNonce(r.Nonce) || !validDigest(r.Digest) || r.Why != HookConfigured && r.Why != HookRolledBack {
		return r, errors.New("it holds what this program never writes")
	}
	return r, nil
}

func decodeHookReport(b []byte) (hookReport, error) {
	var r hookReport
	if err := json.Unmarshal(b, &r); err != nil {
		return r, err
	}
	if r.Format != hookFormat {
		return r, fmt.Errorf("format %d, and this version reads %d", r.Format, hookFormat)
	}
	if !validNonce(r.Nonce) || r.Begun < 0 || r.Reason != "" && !hookReportReasons[r.Reason] {
		return r, errors.New("it holds what this program never writes")
	}
	return r, nil
}

func validNonce(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == 16
}

// askUnit has the unit run the hooks of the current configuration and waits for its report.
func (t *Target) askUnit(digest, why string) hookOutcome {
	h := t.cfg.Hooks
	hooks, _, err := listHooks(h.Dir)
	if err == nil && len(hooks) == 0 {
		return hookOutcome{}
	}
	// A folder that only root may read may hold hooks: the unit looks.
	if err != nil && !errors.Is(err, fs.ErrPermission) {
		return hookOutcome{reason: ReasonHookRefused, text: fmt.Sprintf("the folder of hooks %s cannot be read: %s", shown(h.Dir), plain(err))}
	}
	var nonce [16]byte
	t.cfg.Entropy(nonce[:])
	req := hookRequest{Format: hookFormat, Nonce: hex.EncodeToString(nonce[:]), Digest: digest, Why: why}
	b, err := json.Marshal(req)
	if err == nil {
		err = statedir.WriteFileAtomic(t.store.path(hookRequestFile), append(b, '\n'), secretMode, t.under("target.hooks.request."))
	}
	if err != nil {
		return hookOutcome{reason: ReasonStorage, text: "the hooks cannot be asked for: " + plain(err)}
	}
	defer func() {
		if err := t.dropRequest(); err != nil {
			t.log.Warn("the request for hooks is not removed; the next step or start does it", "error", err.Error())
		}
	}()
	return t.awaitReport(req.Nonce)
}

func (t *Target) dropRequest() error {
	err := os.Remove(t.store.path(hookRequestFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// awaitReport waits until the unit has taken the request, and then until its hooks have ended.
func (t *Target) awaitReport(nonce string) hookOutcome {
	look := time.NewTicker(hookLook) // another process's file: there is nothing to wait on
	defer look.Stop()
	limit := time.NewTimer(hookTimes.taken)
	defer limit.Stop()
	taken := false
	for {
		r, err := readReport(t.cfg.Hooks)
		switch {
		case err != nil:
			return hookOutcome{reason: ReasonHookRefused, text: "the report of the hooks cannot be used: " + wire.Printable(err.Error())}
		case r.Nonce != nonce: // of an earlier request
		case r.Done:
			return hookOutcome{r.Begun, r.Reason, wire.Printable(r.Text)}
		case !taken:
			taken = true
			limit.Reset(hookTimes.hooks + hookTimes.slack)
		}
		select {
		case <-look.C:
		case <-limit.C:
			if !taken {
				return hookOutcome{reason: ReasonHookUnit, text: fmt.Sprintf("there are hooks in %s and nothing runs them: on that machine, %s, or move the hooks away", shown(t.cfg.Hooks.Dir), t.cfg.Hooks.Enable)}
			}
			return hookOutcome{begun: 1, reason: ReasonHook, text: fmt.Sprintf("the hooks did not end within %s: the log of their unit says more", hookTimes.hooks+hookTimes.slack)}
		case <-t.ending.Done():
			return hookOutcome{reason: ReasonClosed, text: "this node is stopping, and its hooks go on without it"}
		}
	}
}

// readReport reads the unit's report; the zero one where there is none yet. What root did not write is an error.
func readReport(h Hooks) (hookReport, error) {
	path, written := h.Result, h.writer
	if written == nil {
		written = ownedByRoot
	}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return hookReport{}, nil
	}
	if err != nil {
		return hookReport{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxHookReport || !written(info) {
		return hookReport{}, fmt.Errorf("%s is not what the unit of root's writes", path)
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return hookReport{}, nil
	}
	if err != nil {
		return hookReport{}, err
	}
	return decodeHookReport(b)
}

// HookUnit is what the unit of root's is given.
type HookUnit struct {
	Dir    string // <state-dir>/provisioned of the service
	Hooks  Hooks
	Said   func(msg string, args ...any) // what it logs; nil: nothing
	Report func(b []byte) error          // nil: writes Hooks.Result for whoever owns Dir
}

var errNoOwner = errors.New("target: the file system tells no owner")

// ErrHooks: hooks were run or refused, and that did not end well.
var ErrHooks = errors.New("target: the hooks did not end well")

// Serve answers one request for hooks, and says so; ran is false where nothing was asked for. The error is what stood in
// the way, or ErrHooks with what a hook said.
func (u HookUnit) Serve(ctx context.Context) (ran bool, err error) {
	if u.Said == nil {
		u.Said = func(string, ...any) {}
	}
	// Whatever account the service has, it leads nobody out of its own folder: links are not followed beyond it.
	root, err := os.OpenRoot(u.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer root.Close()
	if u.Report == nil {
		owner, err := root.Stat(".")
		if err != nil {
			return false, err
		}
		u.Report = func(b []byte) error { return writeReport(u.Hooks.Result, b, owner) }
	}
	b, damage := readIn(root, hookRequestFile, maxHookReport)
	if damage == isMissing {
		return false, nil
	}
	var req hookRequest
	if damage == "" {
		if req, err = decodeHookRequest(b); err != nil {
			damage = "does not read: " + wire.Printable(err.Error())
		}
	}
	// Taken away before anything else: a request that stays would have this begun again at once.
	if err := root.RemoveAll(hookRequestFile); err != nil {
		return false, err
	}
	if damage != "" {
		return false, fmt.Errorf("%w: %s %s", ErrHooks, filepath.Join(u.Dir, hookRequestFile), damage)
	}
	if err := u.report(hookReport{Format: hookFormat, Nonce: req.Nonce}); err != nil {
		return false, err
	}
	o := u.run(ctx, root, req)
	if err := u.report(hookReport{Format: hookFormat, Nonce: req.Nonce, Done: true, Begun: o.begun, Reason: o.reason, Text: o.text}); err != nil {
		return true, err
	}
	if o.bad() {
		return true, fmt.Errorf("%w: %s", ErrHooks, o.text)
	}
	return true, nil
}

func (u HookUnit) report(r hookReport) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return u.Report(append(b, '\n'))
}

func (u HookUnit) run(ctx context.Context, root *os.Root, req hookRequest) hookOutcome {
	current, err := root.OpenRoot(currentDir)
	if err != nil {
		return hookOutcome{reason: ReasonDamaged, text: "the configuration cannot be read: " + plain(err)}
	}
	defer current.Close()
	c := loadRoot(current)
	switch {
	case !c.whole():
		return hookOutcome{reason: ReasonDamaged, text: "the configuration is damaged: " + c.damage}
	case c.manifest.Digest != req.Digest:
		return hookOutcome{reason: ReasonOtherDigest, text: fmt.Sprintf("the configuration is %s, not %s", c.manifest.Digest, req.Digest)}
	}
	in, err := hookInput(current, c.manifest, req.Why, filepath.Join(u.Dir, currentDir))
	if err != nil {
		return hookOutcome{reason: ReasonDamaged, text: "the configuration is damaged: " + wire.Printable(err.Error())}
	}
	return runHooks(ctx, u.Hooks.Dir, in, u.Said)
}
