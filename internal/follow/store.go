package follow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"pace-node/internal/fleet"
	"pace-node/internal/statedir"
)

// Files of a learner's folder. The snapshot checks itself; the log holds records of [u32 length][u32 CRC-32C][kind u8 …],
// each of a command that was applied after the snapshot, or of a term that a heartbeat confirmed. Records at or below the
// snapshot's position are passed over, so that a crash between the writing of the one and of the other costs nothing.
const (
	snapshotFile = "snapshot"
	logFile      = "log"

	recordHead    = 4 + 4
	recordCommand = 1 // epoch, previous revision, revision (u64 each), the command
	recordTerm    = 2 // epoch, term (u64 each)
	commandHead   = 1 + 3*8
	termSize      = 1 + 2*8
	// maxRecord bounds what a damaged length may claim.
	maxRecord = commandHead + fleet.MaxCommand
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Points names the places at which a test build may end the process.
var Points = points()

func points() []string {
	out := []string{"follow.append.before", "follow.append.written", "follow.append.after", "follow.truncate.before", "follow.truncate.after"}
	for _, step := range statedir.WriteSteps {
		out = append(out, "follow.snapshot."+step)
	}
	for _, step := range statedir.WriteSteps {
		out = append(out, "follow.log."+step)
	}
	return out
}

// term is the highest term that a heartbeat confirmed, in one recovery epoch.
type term struct{ epoch, term uint64 }

// store is a learner's folder. It has one user at a time.
type store struct {
	dir     string
	noSync  bool
	point   func(string)
	log     *os.File
	size    int64 // of the sound part of the log
	records int
	term    term
}

// openStore reads the folder, and cuts what a crash left at the end of the log. What does not read is refused by name and
// left as it is.
func openStore(dir string, noSync bool, point func(string)) (*store, *fleet.State, error) {
	s := &store{dir: dir, noSync: noSync, point: point}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, fmt.Errorf("make the folder of the followed state: %w", err)
	}
	state, err := s.readSnapshot()
	if err != nil {
		return nil, nil, err
	}
	f, err := os.OpenFile(s.path(logFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("open the log of the followed state: %w", err)
	}
	s.log = f
	if err := s.replay(state); err != nil {
		f.Close()
		return nil, nil, err
	}
	if err := statedir.SweepTemp(dir); err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("tidy the folder of the followed state: %w", err)
	}
	return s, state, nil
}

// State reads the state that a learner left in a folder that nobody has open, as a snapshot; nil where it never had one.
func State(dir string, point func(string)) (snapshot []byte, err error) {
	if point == nil {
		point = func(string) {}
	}
	s, state, err := openStore(dir, false, point)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if state.View().Cluster() == "" {
		return nil, nil
	}
	return state.Snapshot(), nil
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

func (s *store) remedy() string {
	return fmt.Sprintf("restore the state directory, or move %s away: a voter sends the state again", s.dir)
}

func (s *store) readSnapshot() (*fleet.State, error) {
	path := s.path(snapshotFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fleet.New(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the followed state: %w", err)
	}
	state, err := fleet.Restore(b)
	if errors.Is(err, fleet.ErrFormatNewer) {
		return nil, fmt.Errorf("%s was written by a later version: %w", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %v; %s", ErrDamaged, path, err, s.remedy())
	}
	return state, nil
}

// replay applies the log to the state of the snapshot. The first record that does not read or does not continue the state
// is where a crash ended the writing, and the log is cut there: a voter sends the rest again.
func (s *store) replay(state *fleet.State) error {
	b, err := os.ReadFile(s.path(logFile))
	if err != nil {
		return fmt.Errorf("read the log of the followed state: %w", err)
	}
	at := 0
	for {
		payload, ok := nextRecord(b[at:])
		if !ok {
			break
		}
		ok, err := s.applyRecord(state, payload)
		if err != nil {
			return fmt.Errorf("%s was written by a later version: %w", s.path(logFile), err)
		}
		if !ok {
			break
		}
		at += recordHead + len(payload)
		s.records++
	}
	s.size = int64(at)
	if at == len(b) {
		return nil
	}
	s.point("follow.truncate.before")
	if err := s.cut(); err != nil {
		return fmt.Errorf("cut the torn end of %s: %w", s.path(logFile), err)
	}
	s.point("follow.truncate.after")
	return nil
}

func (s *store) cut() error {
	if err := s.log.Truncate(s.size); err != nil {
		return err
	}
	return s.sync()
}

func (s *store) sync() error {
	if s.noSync {
		return nil
	}
	return s.log.Sync()
}

func nextRecord(b []byte) (payload []byte, ok bool) {
	if len(b) < recordHead {
		return nil, false
	}
	n := binary.BigEndian.Uint32(b)
	if n == 0 || n > maxRecord || uint64(len(b)-recordHead) < uint64(n) {
		return nil, false
	}
	payload = b[recordHead : recordHead+int(n)]
	return payload, crc32.Checksum(payload, castagnoli) == binary.BigEndian.Uint32(b[4:])
}

// applyRecord carries a record into the state; false means that it does not continue it.
func (s *store) applyRecord(state *fleet.State, payload []byte) (bool, error) {
	v := state.View()
	switch payload[0] {
	case recordTerm:
		if len(payload) != termSize {
			return false, nil
		}
		s.term = term{binary.BigEndian.Uint64(payload[1:]), binary.BigEndian.Uint64(payload[9:])}
		return true, nil
	case recordCommand:
		if len(payload) < commandHead {
			return false, nil
		}
		epoch, prev, revision := binary.BigEndian.Uint64(payload[1:]), binary.BigEndian.Uint64(payload[9:]), binary.BigEndian.Uint64(payload[17:])
		if fleet.ComparePosition(epoch, revision, v.Epoch(), v.Revision()) <= 0 {
			return true, nil // the snapshot holds it
		}
		if epoch != v.Epoch() || prev != v.Revision() {
			return false, nil
		}
		_, err := state.Apply(payload[commandHead:])
		if errors.Is(err, fleet.ErrFormatNewer) {
			return false, err
		}
		return err == nil && state.View().Revision() == revision, nil
	}
	return false, nil
}

func appendRecord(dst, payload []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(payload)))
	dst = binary.BigEndian.AppendUint32(dst, crc32.Checksum(payload, castagnoli))
	return append(dst, payload...)
}

func appendCommandRecord(dst []byte, epoch, prev, revision uint64, cmd []byte) []byte {
	p := make([]byte, 0, commandHead+len(cmd))
	p = append(p, recordCommand)
	p = binary.BigEndian.AppendUint64(p, epoch)
	p = binary.BigEndian.AppendUint64(p, prev)
	p = binary.BigEndian.AppendUint64(p, revision)
	return appendRecord(dst, append(p, cmd...))
}

func appendTermRecord(dst []byte, t term) []byte {
	p := make([]byte, 0, termSize)
	p = append(p, recordTerm)
	p = binary.BigEndian.AppendUint64(p, t.epoch)
	return appendRecord(dst, binary.BigEndian.AppendUint64(p, t.term))
}

// append writes records and makes them durable with one fsync. After an error the log is what it was before.
func (s *store) append(b []byte, records int) error {
	s.point("follow.append.before")
	_, err := s.log.WriteAt(b, s.size)
	if err == nil {
		s.point("follow.append.written")
		err = s.sync()
	}
	if err != nil {
		s.cut() // what is behind size is passed over anyway
		return fmt.Errorf("%w: %s: %w", ErrDisk, s.path(logFile), err)
	}
	s.size += int64(len(b))
	s.records += records
	s.point("follow.append.after")
	return nil
}

// setTerm remembers a confirmed term.
func (s *store) setTerm(t term) error {
	if err := s.append(appendTermRecord(nil, t), 1); err != nil {
		return err
	}
	s.term = t
	return nil
}

// full reports whether the log is to be folded into a snapshot.
func (s *store) full() bool { return s.records >= compactEntries || s.size >= compactBytes }

// install puts a snapshot in place and then begins the log anew. Either half alone is a folder that reads.
func (s *store) install(snapshot []byte) error {
	if err := s.write(snapshotFile, snapshot); err != nil {
		return err
	}
	// An open file is not replaced on every system.
	if err := s.log.Close(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDisk, s.path(logFile), err)
	}
	var fresh []byte
	records := 0
	if s.term != (term{}) {
		fresh, records = appendTermRecord(nil, s.term), 1
	}
	werr := s.write(logFile, fresh)
	f, err := os.OpenFile(s.path(logFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrDisk, s.path(logFile), err)
	}
	s.log = f
	if werr == nil {
		s.size, s.records = int64(len(fresh)), records
	}
	return werr
}

func (s *store) write(name string, b []byte) error {
	var err error
	if s.noSync {
		temp := s.path("." + name + ".tmp-x")
		if err = os.WriteFile(temp, b, 0o600); err == nil {
			err = os.Rename(temp, s.path(name))
		}
	} else {
		err = statedir.WriteFileAtomic(s.path(name), b, 0o600, func(step string) { s.point("follow." + name + "." + step) })
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDisk, err)
	}
	return nil
}

func (s *store) close() error {
	if err := s.log.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("close %s: %w", s.path(logFile), err)
	}
	return nil
}

// Install writes a state into a folder that nothing has open, in place of an older one: a voter that becomes a learner
// goes on from what it applied. term is the highest that it took part in, of the recovery epoch.
func Install(dir string, noSync bool, point func(string), snapshot []byte, epoch, confirmed uint64) error {
	s, state, err := openStore(dir, noSync, point)
	if err != nil {
		return err
	}
	defer s.close()
	fresh, err := fleet.Restore(snapshot)
	if err != nil {
		return err
	}
	was, v := state.View(), fresh.View()
	if was.Cluster() == v.Cluster() && fleet.ComparePosition(was.Epoch(), was.Revision(), v.Epoch(), v.Revision()) >= 0 {
		return nil
	}
	if t := (term{epoch, confirmed}); s.term.epoch < t.epoch || s.term.epoch == t.epoch && s.term.term < t.term {
		s.term = t
	}
	return s.install(snapshot)
}
