package target

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

const stateFormat = 1

// state is what state.json keeps beside the configuration: what is asked for and what is confirmed.
type state struct {
	Format    int    `json:"format"`
	Cluster   string `json:"cluster"`             // fleet that it is about
	Demand    uint64 `json:"demand"`              // number of the last demand; a manifest names the one it was made for
	Asked     string `json:"asked,omitempty"`     // why, while not confirmed
	Confirmed string `json:"confirmed,omitempty"` // digest that the fleet confirmed for that demand
}

// readState returns fs.ErrNotExist where there is none yet.
func readState(dir string) (state, error) {
	b, err := readSmall(filepath.Join(dir, stateFile), maxState)
	if err != nil {
		return state{}, err
	}
	return decodeState(b)
}

func decodeState(b []byte) (state, error) {
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return state{}, err
	}
	if s.Format != stateFormat {
		return state{}, fmt.Errorf("format %d, and this version reads %d", s.Format, stateFormat)
	}
	if !wire.ValidID(s.Cluster) || s.Demand == 0 || s.Confirmed != "" && !validDigest(s.Confirmed) || !wire.ValidText(s.Asked) {
		return state{}, errors.New("it holds what this program never writes")
	}
	return s, nil
}

// begin works out what this boot starts with. Every case in which the record and the folder do not agree becomes a new
// demand, for what is not known to be confirmed is not.
func begin(s state, readErr error, cur configured, cluster string, mode Mode) (state, bool) {
	was := s
	above := max(s.Demand, cur.manifest.Demand)
	ask := func(why string) { s.Demand, s.Asked, s.Confirmed = above+1, why, "" }
	switch {
	case errors.Is(readErr, fs.ErrNotExist):
		// The first configuration can be whole before the first record is: it answers the demand that it names.
		s = state{Cluster: cluster, Demand: max(above, 1), Asked: WhyFirstBoot}
	case readErr != nil:
		s.Cluster = cluster
		ask(WhyRecordUnread)
	case s.Cluster != cluster:
		s.Cluster = cluster
		ask(WhyFirstBoot)
	case s.Confirmed != "" && cur.missing():
		ask(WhyMissing)
	case s.Confirmed != "" && cur.damage != "":
		ask(WhyDamaged + ": " + cur.damage)
	case above > s.Demand:
		s.Demand, s.Asked, s.Confirmed = above, WhyUnconfirmed, ""
	}
	above = s.Demand
	switch {
	case mode == ModeAlways:
		ask(WhyAlways)
	case s.Confirmed == "" && s.Asked == WhyAlways:
		s.Asked = WhyUnconfirmed
	}
	s.Format = stateFormat
	return s, s != was
}

// keep marks the state as changed; the keeper writes it. The caller holds mu.
func (t *Target) keep() {
	t.version++
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

// keeper writes the state, so that whoever changes it never waits for a disk.
func (t *Target) keeper() {
	defer close(t.kept)
	retry := time.NewTimer(time.Hour)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-t.changed:
		case <-retry.C:
		case <-t.quit:
			return
		}
		if err := t.save(); err != nil {
			t.log.Error("record of provisioning not written; it is tried again", "error", err.Error())
			retry.Reset(saveRetry)
		}
	}
}

// save writes the state if it changed since it was written last.
func (t *Target) save() error {
	t.saving.Lock()
	defer t.saving.Unlock()
	if t.sealed {
		return ErrClosed // the folder may be another process's by now
	}
	t.mu.Lock()
	s, version := t.state, t.version
	t.mu.Unlock()
	if version == t.saved {
		return nil
	}
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	err = statedir.WriteFileAtomic(filepath.Join(t.cfg.Dir, stateFile), append(b, '\n'), secretMode, t.under("target.state."))
	if err != nil {
		return err
	}
	t.saved = version
	return nil
}

// Flush waits until what was asked for and confirmed so far is on disk. A verb that answers an operator calls it, off the
// event loop.
func (t *Target) Flush() error { return t.save() }
