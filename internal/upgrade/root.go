package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"pace-node/internal/host"
	"pace-node/internal/release"
)

const (
	// goPatience is how long the service has to end by itself after root's answer, before it is restarted.
	goPatience = 15 * time.Second
	// lookEvery is how often root looks at the service.
	lookEvery = 500 * time.Millisecond
	notesMode = 0o644 // the service reads them
)

// Root does what a sandboxed service may not: it puts a release that the service has staged in the place of the program
// that both of them run, restarts the service, and puts the old program back where the new one does not serve.
type Root struct {
	Program string // of this process, whole path; "": the system's word
	Version string // of this process
	Key     string // release key that root typed
	Words   []string
	Spool   string // folder of the service
	Notes   string // folder of root; made by whoever starts this
	Life    func(ctx context.Context) (host.Life, error)
	Restart func(ctx context.Context) error
	Run     func(ctx context.Context, program string, args ...string) (int, string, error) // nil: runs it

	point func(string) // tests look there; nil: nobody
}

// Apply ends an upgrade that was interrupted, or does what is asked for, and says what. It returns once the new program has
// settled, or the old one is back.
func (r *Root) Apply(ctx context.Context) (said string, err error) {
	if r.Program == "" {
		if r.Program, err = program(); err != nil {
			return "", err
		}
	}
	if r.Run == nil {
		r.Run = runProgram
	}
	p := placeOf(r.Program, r.point)
	p.intent = filepath.Join(r.Notes, "intent.json")
	p.sweep()
	in, err := readIntent(p.intent)
	switch {
	case err == nil:
		return r.resume(ctx, p, in)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("%s does not read: %w; remove it", p.intent, err)
	}
	var q request
	if err := readSealed(filepath.Join(r.Spool, requestFile), requestMagic, &q); errors.Is(err, fs.ErrNotExist) {
		return "nobody asks for an upgrade", nil
	} else if err != nil {
		return "", fmt.Errorf("the service's request does not read: %w", err)
	}
	life, err := r.Life(ctx)
	if err != nil {
		return "", err
	}
	in, err = r.take(ctx, p, q)
	if err != nil {
		return "", errors.Join(err, remove(p.staged), r.note(note{ID: q.ID, Refused: err.Error(), Intent: r.undid()}))
	}
	if err := r.note(note{ID: q.ID, Intent: &in}); err != nil {
		return r.back(ctx, p, in, "root's answer could not be written: "+err.Error())
	}
	return r.watch(ctx, p, in, life.Start)
}

func (r *Root) note(n note) error {
	return writeSealed(filepath.Join(r.Notes, answerFile), answerMagic, n, notesMode)
}

// undid is the roll-back that the last answer tells of, nil where it tells of none. A refusal of another request does not end
// it: the service asks the answer which program it is not to ask for again.
func (r *Root) undid() *Intent {
	var last note
	if err := readSealed(filepath.Join(r.Notes, answerFile), answerMagic, &last); err != nil || last.Intent == nil || last.Intent.Phase != PhaseRolledBack {
		return nil
	}
	return last.Intent
}

// take verifies what the service staged by the key that root typed, while it is copied out of the service's reach, and
// swaps it in.
func (r *Root) take(ctx context.Context, p place, q request) (in Intent, err error) {
	switch {
	case q.Program != r.Program:
		return in, fmt.Errorf("the service runs %q, and this is %s: let pace-node-upgrade.service run the service's own program", q.Program, r.Program)
	case !release.ValidVersion(q.Version):
		return in, fmt.Errorf("%w: %q", release.ErrVersion, q.Version)
	case release.Compare(q.Version, r.Version) <= 0:
		return in, fmt.Errorf("%w: this is %s, and %s is asked for", ErrOlder, r.Version, q.Version)
	case r.Key == "":
		return in, fmt.Errorf("%w: root typed none; put PACE_PROVISION_RELEASE_KEY into /etc/default/pace-node", ErrKey)
	}
	key, err := release.ParsePublicKey(r.Key)
	if err != nil {
		return in, err
	}
	repository, err := release.ParseRepository(filepath.Join(r.Spool, spoolRepository))
	if err != nil {
		return in, err
	}
	var file release.File
	if err := p.stage(func(w io.Writer) (err error) {
		file, err = repository.Fetch(ctx, key, q.Version, platformOf(), w)
		return err
	}); err != nil {
		return in, err
	}
	if err := checkProgram(ctx, r.Run, p.staged, q.Version, nil, r.Words); err != nil {
		return in, err
	}
	old, err := digestOf(r.Program)
	if err != nil {
		return in, err
	}
	in = Intent{Phase: PhaseSwapped, From: r.Version, To: q.Version, Old: old, New: file.SHA256, At: time.Now().Unix()}
	if err := p.write(in, "intent"); err != nil {
		return in, err
	}
	if err := p.swap(); err != nil {
		return in, errors.Join(err, remove(p.intent))
	}
	return in, nil
}

// resume goes on after a crash, or a reboot.
func (r *Root) resume(ctx context.Context, p place, in Intent) (string, error) {
	self, err := digestOf(r.Program)
	if err != nil {
		return "", err
	}
	switch {
	case in.Phase == PhaseRolledBack && self == in.Old:
		return r.undone(ctx, p, in)
	case in.Phase == PhaseRolledBack && self == in.New:
		return r.back(ctx, p, in, in.Why)
	case self == in.New:
		return r.watch(ctx, p, in, "")
	}
	return "the program is not that of an upgrade any more", errors.Join(remove(p.staged), remove(p.intent))
}

// watch waits until the new program has served for its time. before is the start of the service that runs the old one.
func (r *Root) watch(ctx context.Context, p place, in Intent, before string) (string, error) {
	began, pushed, last := time.Now(), false, before
	var served time.Time
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", fmt.Errorf("interrupted; the next start goes on: %w", context.Cause(ctx))
		case <-tick.C:
		}
		now := time.Now()
		life, err := r.Life(ctx)
		if err != nil {
			if now.Sub(began) > ServeWithin {
				return "", err
			}
			continue
		}
		if life.Start != "" && life.Start != last {
			last, served = life.Start, time.Time{}
			in.Starts++
			if in.Starts > MaxStarts {
				return r.back(ctx, p, in, fmt.Sprintf("it was started %d times and never served for %s", MaxStarts, SettleAfter))
			}
			if err := p.write(in, "count"); err != nil {
				return "", err
			}
		}
		switch {
		case last == before && before != "": // the old process has not ended yet
			if !pushed && (now.Sub(began) > goPatience || life.Down) {
				pushed = true
				if err := r.Restart(ctx); err != nil {
					return r.back(ctx, p, in, "the service does not restart: "+err.Error())
				}
			}
		case life.Active && served.IsZero():
			served = now
			continue
		case life.Active && now.Sub(served) >= SettleAfter, life.Down && life.Clean && !served.IsZero():
			return fmt.Sprintf("%s is upgraded from %s to %s", r.Program, in.From, in.To), remove(p.intent)
		case life.Down:
			return r.back(ctx, p, in, "it ended, and is not started again by the service manager")
		}
		if served.IsZero() && now.Sub(began) > ServeWithin {
			return r.back(ctx, p, in, fmt.Sprintf("it did not serve within %s", ServeWithin))
		}
	}
}

// back puts the old program in its place.
func (r *Root) back(ctx context.Context, p place, in Intent, why string) (string, error) {
	if err := rollBack(p, &in, why, func(in Intent) {
		_ = r.note(note{Intent: &in}) // what fails here is tried again, and said, once the old program is back
	}); err != nil {
		return "", fmt.Errorf("the upgrade to %s has to be rolled back (%s), and cannot be: %w; install the package of version %s again", in.To, why, err, in.From)
	}
	return r.undone(ctx, p, in)
}

// undone says that the old program is back, and has the service start with it.
func (r *Root) undone(ctx context.Context, p place, in Intent) (string, error) {
	err := errors.Join(r.note(note{Intent: &in}), r.Restart(ctx), remove(p.intent))
	return fmt.Sprintf("the upgrade of %s from %s to %s is rolled back: %s", r.Program, in.From, in.To, in.Why), err
}
