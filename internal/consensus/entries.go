package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// An entry carries a checksum in the field that raft leaves to whoever stores it: sumMark, then CRC-32C over index, term,
// type and data. bbolt has none, so a bit that a disk turned would change what the fleet decided without a word. Entries of
// earlier versions carry none.
const sumMark = "pc1"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errSum = errors.New("its bytes do not match their checksum")

func entrySum(l *raft.Log) []byte {
	head := binary.BigEndian.AppendUint64(nil, l.Index)
	head = binary.BigEndian.AppendUint64(head, l.Term)
	sum := crc32.Update(crc32.Checksum(append(head, byte(l.Type)), castagnoli), castagnoli, l.Data)
	return binary.BigEndian.AppendUint32([]byte(sumMark), sum)
}

// summed are copies of entries with their checksums: raft goes on using those that it gave.
func summed(logs []*raft.Log) []*raft.Log {
	out := make([]*raft.Log, len(logs))
	for i, l := range logs {
		c := *l
		c.Extensions = entrySum(l)
		out[i] = &c
	}
	return out
}

func checkEntry(index uint64, l *raft.Log) error {
	if l.Index != index || len(l.Extensions) > 0 && !slices.Equal(l.Extensions, entrySum(l)) {
		return fmt.Errorf("entry %d of its log: %w", index, errSum)
	}
	return nil
}

// summing is a store whose entries carry checksums.
type summing struct{ *raftboltdb.BoltStore }

// StoreLog implements raft.LogStore.
func (s summing) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore.
func (s summing) StoreLogs(l []*raft.Log) error { return s.BoltStore.StoreLogs(summed(l)) }

// GetLog implements raft.LogStore.
func (s summing) GetLog(index uint64, l *raft.Log) error {
	if err := s.BoltStore.GetLog(index, l); err != nil {
		return err
	}
	return checkEntry(index, l)
}

// checkLog reads every entry of a log, and gives its bounds.
func checkLog(logs raft.LogStore) (first, last uint64, err error) {
	if first, err = logs.FirstIndex(); err != nil {
		return 0, 0, err
	}
	if last, err = logs.LastIndex(); err != nil || first == 0 {
		return first, last, err
	}
	for i := first; i <= last; i++ {
		var l raft.Log
		if err := logs.GetLog(i, &l); err != nil {
			if errors.Is(err, raft.ErrLogNotFound) {
				err = fmt.Errorf("entry %d of its log is missing", i)
			}
			return first, last, err
		}
	}
	return first, last, nil
}
