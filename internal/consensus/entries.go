package consensus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"pace-node/internal/wire"
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

// A term and a vote carry one behind their value: two bytes of zero, then CRC-32C over the key and the value. Earlier
// versions wrote the value alone, and read only its first eight bytes of a term; a vote for what they do not know is to them a
// vote for somebody else, so that they give none twice.
var sumGap = []byte{0, 0}

const (
	sumTail = 2 + 4
	termLen = 8
)

func valueSum(k, v []byte) []byte {
	sum := crc32.Update(crc32.Checksum(k, castagnoli), castagnoli, v)
	return binary.BigEndian.AppendUint32(slices.Concat(v, sumGap), sum)
}

// plainVote reports whether a vote is one of an earlier version: the id of a voter, which holds no byte of zero.
func plainVote(raw []byte) bool { return wire.ValidID(string(raw)) }

// checkValue gives the value of what is stored under a key; plain says that it carries no checksum.
func checkValue(k, raw []byte, plain bool) ([]byte, error) {
	if plain {
		return raw, nil
	}
	v := raw[:max(0, len(raw)-sumTail)]
	if !slices.Equal(raw, valueSum(k, v)) {
		return nil, fmt.Errorf("%s: %w", k, errSum)
	}
	return v, nil
}

// summing is a store whose entries, term and vote carry checksums.
type summing struct{ *raftboltdb.BoltStore }

// Set implements raft.StableStore.
func (s summing) Set(k, v []byte) error {
	if bytes.Equal(k, keyVote) {
		v = valueSum(k, v)
	}
	return s.BoltStore.Set(k, v)
}

// Get implements raft.StableStore.
func (s summing) Get(k []byte) ([]byte, error) {
	raw, err := s.BoltStore.Get(k)
	if err != nil || !bytes.Equal(k, keyVote) {
		return raw, err
	}
	return checkValue(k, raw, plainVote(raw))
}

// SetUint64 implements raft.StableStore.
func (s summing) SetUint64(k []byte, v uint64) error {
	return s.BoltStore.Set(k, valueSum(k, binary.BigEndian.AppendUint64(nil, v)))
}

// GetUint64 implements raft.StableStore.
func (s summing) GetUint64(k []byte) (uint64, error) {
	raw, err := s.BoltStore.Get(k)
	if err != nil {
		return 0, err
	}
	v, err := checkValue(k, raw, len(raw) == termLen)
	if err != nil || len(v) != termLen {
		return 0, fmt.Errorf("%s: %w", k, errSum)
	}
	return binary.BigEndian.Uint64(v), nil
}

// checkTerms reads what raft must never forget: its term, and whom it voted for in which. last is the log's last entry, nil
// where there is none: nothing is ever written of a later term than the store's own.
func checkTerms(s raft.StableStore, last *raft.Log) error {
	found := func(err error) (bool, error) {
		if errors.Is(err, raftboltdb.ErrKeyNotFound) {
			return false, nil
		}
		return err == nil, err
	}
	term, err := s.GetUint64(keyTerm)
	known, err := found(err)
	if err != nil {
		return err
	}
	if last != nil && (!known || last.Term > term) {
		return fmt.Errorf("its log ends in term %d, and it says that no term after %d has begun", last.Term, term)
	}
	voted, err := s.GetUint64(keyVoteTerm)
	if _, err = found(err); err != nil {
		return err
	}
	if voted > term {
		return fmt.Errorf("it voted in term %d, and says that no term after %d has begun", voted, term)
	}
	_, err = s.Get(keyVote)
	_, err = found(err)
	return err
}

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
