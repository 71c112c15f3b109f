package consensus

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"pace-node/internal/fleet"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// Files of one of raft's snapshots, and the checksum of its description beside them: raft checks the state only, and a log
// index or a configuration that a disk changed would be believed.
const (
	metaFile    = "meta.json"
	stateFile   = "state.bin"
	metaSumFile = "meta.sum"
	unfinished  = ".tmp"
)

// sealing gives each snapshot that is made the checksum of its description.
type sealing struct {
	raft.SnapshotSink
	dir  string
	step func(string) // tests only: told of each step of writing the checksum; may be nil
}

// Close implements raft.SnapshotSink. A crash before the checksum leaves a snapshot without one, as earlier versions did.
func (s sealing) Close() error {
	if err := s.SnapshotSink.Close(); err != nil {
		return err
	}
	dir := filepath.Join(s.dir, s.ID())
	b, err := os.ReadFile(filepath.Join(dir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // newer ones have pushed it out
	}
	if err != nil {
		return err
	}
	return statedir.WriteFileAtomic(filepath.Join(dir, metaSumFile), []byte(sumOfMeta(b)), 0o600, s.step)
}

func sumOfMeta(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]) + "\n"
}

// soundMeta reads a snapshot's description.
func soundMeta(dir string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(dir, metaFile))
	if err != nil {
		return nil, err
	}
	switch sum, err := os.ReadFile(filepath.Join(dir, metaSumFile)); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case string(sum) != sumOfMeta(raw):
		return nil, fmt.Errorf("%s: %w", metaFile, errSum)
	}
	return raw, nil
}

// soundSnapshot reads one of raft's snapshots as raft does, and more: its description must match its checksum, and its state
// must be a fleet's. The error may be fleet.ErrFormatNewer.
func soundSnapshot(dir string) (index uint64, err error) {
	raw, err := soundMeta(dir)
	if err != nil {
		return 0, err
	}
	var meta struct {
		raft.SnapshotMeta
		CRC []byte
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return 0, fmt.Errorf("%s: %w", metaFile, err)
	}
	path := filepath.Join(dir, stateFile)
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if info.Size() > wire.MaxState {
		return 0, fmt.Errorf("%s: %d bytes, and at most %d are read", stateFile, info.Size(), wire.MaxState)
	}
	state, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	sum := crc64.New(crc64.MakeTable(crc64.ECMA))
	sum.Write(state)
	if !slices.Equal(sum.Sum(nil), meta.CRC) {
		return 0, fmt.Errorf("%s: %w", stateFile, errSum)
	}
	if _, err := fleet.Restore(state); err != nil {
		return 0, fmt.Errorf("%s: %w", stateFile, err)
	}
	return meta.Index, nil
}

// checkSnapshots looks at every snapshot below a store's folder: the highest log index of one that reads, and what is wrong
// with the others.
func checkSnapshots(dir string) (index uint64, bad []string, err error) {
	root := filepath.Join(dir, snapshotsDir)
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil, nil
	}
	if err != nil {
		return 0, nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || strings.HasSuffix(e.Name(), unfinished) {
			continue
		}
		path := filepath.Join(root, e.Name())
		at, err := soundSnapshot(path)
		if errors.Is(err, fleet.ErrFormatNewer) {
			return 0, nil, fmt.Errorf("%w: the snapshot in %s: %w", ErrFormatNewer, path, err)
		}
		if err != nil {
			bad = append(bad, path+": "+err.Error())
			continue
		}
		index = max(index, at)
	}
	return index, bad, nil
}

// checkWhole refuses a store whose parts do not make up what was applied: a log that begins behind what a snapshot holds, or
// that ends before the last entry that was applied. What raft would make of either is a panic, or a fleet that lost what it
// had decided.
//
// culprit is what does not read where raft refuses the store all the same.
func checkWhole(cfg Config, path string, first, last uint64) (culprit string, err error) {
	at, bad, err := checkSnapshots(cfg.Dir)
	if err != nil {
		return "", err
	}
	if len(bad) > 0 {
		cfg.Logger.Warn("a snapshot does not read; what is kept beside it is used", "snapshot", strings.Join(bad, "; "))
	}
	culprit = path
	if len(bad) > 0 {
		culprit = strings.Join(bad, "; ")
	}
	if first > at+1 || first == 0 && at == 0 && len(bad) > 0 {
		return "", damaged(culprit, fmt.Errorf("the log in %s begins at entry %d, and no snapshot holds what is before", path, first))
	}
	if cfg.Seat {
		return culprit, nil // its leader fills it again
	}
	marked := filepath.Join(cfg.Dir, markFile)
	if upto := readMark(marked); upto > max(last, at) {
		return "", damaged(culprit, fmt.Errorf("it ends at entry %d, and %s shows that entry %d was applied", max(last, at), marked, upto))
	}
	return culprit, nil
}
