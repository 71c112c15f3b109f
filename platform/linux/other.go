package linux

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"pace-node/internal/host"
)

// installOther registers the service with an init system other than systemd. There it runs as root, without a sandbox, a
// watchdog or a start after a failure: those are systemd's.
func (s *services) installOther(o *host.Outcome, r host.Registration) error {
	if strings.ContainsFunc(r.Program, func(r rune) bool { return !strings.ContainsRune(plainPath, r) }) {
		return &host.Refusal{Err: host.ErrPlace, Wrong: fmt.Sprintf("the path %q has a blank or another character in it that a start script does not take", r.Program),
			Mended: "put it to /usr/local/bin, and run that one"}
	}
	if why, err := s.place(r.Program); err != nil {
		return err
	} else if why != "" {
		return &host.Refusal{Err: host.ErrPlace, Wrong: why + ", and the service runs it as root",
			Mended: "put it where only root can change it, and run that one: install -m 755 pace-node /usr/local/bin/pace-node"}
	}
	m, err := s.other(o.Service, r.Program)
	if err != nil {
		return err
	}
	if err := s.keep(o, r); err != nil {
		return err
	}
	changed := len(o.Did) > 0
	script, err := os.ReadFile(s.at(m.Script()))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		changed = true
		if err := m.Install(); err != nil {
			return fmt.Errorf("register the service with %s: %w", m.Platform(), err)
		}
		o.Change(m.Script() + " runs " + r.Program)
	case err != nil:
		return err
	case !bytes.Contains(script, []byte(r.Program)):
		return &host.Refusal{Err: host.ErrOther, Wrong: m.Script() + " is there, and runs another program",
			Mended: "run that program's --uninstall-service first, or give another --service-name"}
	}
	running := m.Running()
	if running && !changed {
		return nil
	}
	start, done := m.Start, "started"
	if running {
		start, done = m.Restart, "restarted"
	}
	if err := start(); err != nil {
		return &host.Refusal{Err: errors.Join(host.ErrNotStarted, err), Wrong: o.Service + " is registered with " + m.Platform() + " and did not start: " + err.Error(),
			Mended: "look at /var/log/" + o.Service + ".err"}
	}
	o.Change(o.Service + " is " + done)
	o.Note(m.Platform() + " starts it: it runs as root, without a sandbox, and is not started again when it fails")
	return nil
}

const plainPath = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:@%+=,-"

func (s *services) uninstallOther(o *host.Outcome) error {
	m, err := s.other(o.Service, "")
	if err != nil {
		return err
	}
	if !s.is(m.Script()) {
		return nil
	}
	if m.Running() {
		if err := m.Stop(); err != nil {
			return &host.Refusal{Err: errors.Join(host.ErrNotStopped, err), Wrong: o.Service + " does not stop: " + err.Error(), Mended: "end its process, then this again"}
		}
		o.Change(o.Service + " is stopped")
	}
	if err := m.Uninstall(); err != nil {
		return fmt.Errorf("remove the service from %s: %w", m.Platform(), err)
	}
	o.Change(m.Script() + " is removed")
	return nil
}
