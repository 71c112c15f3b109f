package upgrade

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pace-node/internal/release"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// Between the service and root. The service stages a release in its own folder and leaves a request there; root reads it,
// believes nothing of it that the release key has not signed, and answers in a folder of its own.
const (
	spoolRepository = "repository"
	requestFile     = "request.json"
	answerFile      = "answer.json"
	requestMagic    = "pace-node-upgrade-request"
	answerMagic     = "pace-node-upgrade-answer"
	// handPatience is how long the service waits for root's answer: a program is read, checked and run twice meanwhile.
	handPatience = time.Minute
	// handEvery is how often either looks for the other's word.
	handEvery = 200 * time.Millisecond
)

// Handover is root's way as the service sees it.
type Handover struct {
	Spool   string      // folder of the service
	Notes   string      // folder of root
	Enabled func() bool // an administrator has let root do it
	Enable  string      // command that lets it
}

// request is what the service asks root for.
type request struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Program string `json:"program"` // whole path
}

// note is root's answer, and later what became of it.
type note struct {
	ID      string  `json:"id"`
	Refused string  `json:"refused,omitempty"`
	Intent  *Intent `json:"intent,omitempty"`
}

func readSealed(path, magic string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxIntent))
	if err != nil {
		return err
	}
	return parseSealed(raw, magic, into)
}

func parseSealed(raw []byte, magic string, into any) error {
	body, err := statedir.Unseal(magic, intentFormat, raw)
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

func writeSealed(path, magic string, from any, mode fs.FileMode) error {
	body, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return err
	}
	return statedir.WriteFileAtomic(path, statedir.Seal(magic, intentFormat, append(body, '\n')), mode, nil)
}

// byRoot reports whether root is to replace the program, since this process may not; why it may not, else.
func (u *Upgrader) byRoot(why string) (bool, string) {
	h := u.cfg.Root
	switch {
	case h == nil:
		return false, why
	case !h.Enabled():
		return false, why + ", or let root do it: " + h.Enable
	case u.cfg.Key == "":
		return false, why + "; root would do it, and trusts only a release key that is typed on this machine: give --provision-release-key"
	}
	return true, ""
}

// handOver stages the release, has it checked, and waits for root to take it.
func (u *Upgrader) handOver(ctx context.Context, repository *release.Repository, key release.PublicKey, version string) error {
	h := u.cfg.Root
	spool := filepath.Join(h.Spool, spoolRepository)
	if err := errors.Join(statedir.MakeFolder(h.Spool), remove(filepath.Join(h.Spool, requestFile)), os.RemoveAll(spool)); err != nil {
		return u.storage(err)
	}
	defer os.RemoveAll(spool)
	file, err := repository.Copy(ctx, key, version, platformOf(), spool)
	if err != nil {
		return fetchError(err)
	}
	if err := checkProgram(ctx, u.run, file, version, u.cfg.Args, u.cfg.Words); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil { // the boundary: root does not give up
		return &Error{err, "the upgrade was given up by whoever asked for it; nothing was changed here", false}
	}
	r := request{Version: version, Program: u.cfg.Program}
	var id [16]byte
	rand.Read(id[:])
	r.ID = hex.EncodeToString(id[:])
	if err := writeSealed(filepath.Join(h.Spool, requestFile), requestMagic, r, 0o600); err != nil {
		return u.storage(err)
	}
	defer remove(filepath.Join(h.Spool, requestFile))
	deadline := time.NewTimer(handPatience)
	defer deadline.Stop()
	tick := time.NewTicker(handEvery)
	defer tick.Stop()
	for {
		var a note
		if err := readSealed(filepath.Join(h.Notes, answerFile), answerMagic, &a); err == nil && a.ID == r.ID {
			if a.Refused != "" {
				return &Error{ErrPlace, "root refuses it: " + wire.Printable(a.Refused), true}
			}
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			return &Error{ErrPlace, fmt.Sprintf("root did not take it within %s; look at: systemctl status pace-node-upgrade.path pace-node-upgrade.service", handPatience), false}
		}
	}
}

// past is what became of the last upgrade, where this program was the old one.
func (u *Upgrader) past() (Intent, bool) {
	in, err := readIntent(u.place.intent)
	if err != nil && u.cfg.Root != nil {
		var a note
		if err = readSealed(filepath.Join(u.cfg.Root.Notes, answerFile), answerMagic, &a); err == nil && a.Intent != nil {
			in = *a.Intent
		}
	}
	return in, err == nil && in.Phase == PhaseRolledBack && in.From == u.cfg.Version
}
