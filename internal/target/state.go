package target

import (
	"cmp"
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
	Used      string `json:"used,omitempty"`      // digest of the last configuration that was taken into use, its hooks run
}

// inUse is the digest of the last configuration that was taken into use.
func (s state) inUse() string { return cmp.Or(s.Confirmed, s.Used) }

// used reports whether a configuration was taken into use. What was confirmed was; an earlier version kept no more.
func (s state) used(digest string) bool {
	return digest != "" && (s.Used == digest || s.Confirmed == digest)
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
	if !wire.ValidID(s.Cluster) || !validDemand(s.Demand) || s.Confirmed != "" && !validDigest(s.Confirmed) || s.Used != "" && !validDigest(s.Used) || !wire.ValidText(s.Asked) {
		return state{}, errors.New("it holds what this program never writes")
	}
	return s, nil
}

// validDemand refuses numbers that counting by one never comes to, and that one more would make 0.
func validDemand(n uint64) bool { return n > 0 && n < 1<<62 }

// found is what a boot finds: the record, or why it does not read, and what is in the folder.
type found struct {
	record  state
	err     error
	current configured
	cluster string
	highest uint64 // number that the record or the manifest names
}

// beginRow is one row of what a boot begins with; the first whose When holds decides, and a record
// that no row is about stands.
type beginRow struct {
	Name string
	When func(f found) bool
	New  bool // it is a new demand, which nothing that is there answers; else what is there may
	Why  func(f found) string
}

func always(text string) func(found) string { return func(found) string { return text } }

// beginRows is asked in order. Every case in which the record and the folder do not agree makes the machine want
// provisioning, for what is not known to be confirmed is not.
var beginRows = []beginRow{
	// The first configuration can be whole before the first record is: it answers the demand that it names.
	{"no record", func(f found) bool { return errors.Is(f.err, fs.ErrNotExist) }, false, always(WhyFirstBoot)},
	{"unread", func(f found) bool { return f.err != nil }, true, always(WhyRecordUnread)},
	{"other fleet", func(f found) bool { return f.record.Cluster != f.cluster }, true, always(WhyFirstBoot)},
	{"missing", func(f found) bool { return f.record.Confirmed != "" && f.current.missing() }, true, always(WhyMissing)},
	{"damaged", func(f found) bool { return f.record.Confirmed != "" && f.current.damage != "" }, true,
		func(f found) string { return WhyDamaged + ": " + f.current.damage }},
	// A crash came between a configuration that nobody had asked for and the record of it.
	{"not recorded", func(f found) bool { return f.highest > f.record.Demand }, false, always(WhyUnconfirmed)},
}

// begin works out what this boot starts with, and whether that differs from what is on disk.
func begin(record state, readErr error, cur configured, cluster string, mode Mode) (state, bool) {
	f := found{record, readErr, cur, cluster, max(record.Demand, cur.manifest.Demand)}
	s := record
	for _, r := range beginRows {
		if !r.When(f) {
			continue
		}
		s = state{Cluster: cluster, Demand: max(f.highest, 1), Asked: r.Why(f)}
		if r.New {
			s.Demand = f.highest + 1
		}
		break
	}
	switch {
	case mode == ModeAlways:
		s.Demand, s.Asked, s.Confirmed = max(s.Demand, f.highest)+1, WhyAlways, ""
	case s.Confirmed == "" && s.Asked == WhyAlways:
		s.Asked = WhyUnconfirmed // the mode was always, and is not any more
	}
	if s.Confirmed == "" { // what was confirmed is not confirmed for what is asked now, and is in use all the same
		s.Used = record.inUse()
	}
	if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) && cur.whole() {
		s.Used = cur.manifest.Digest // nobody knows, and what runs must not be lost
	}
	s.Format = stateFormat
	return s, s != record
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
