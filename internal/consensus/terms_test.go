package consensus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// voted is the folder of a voter that leads in term 2 and voted for itself there, closed, with its store changed by hand.
func voted(t *testing.T, change func(s *raftboltdb.BoltStore) error) (dir string) {
	t.Helper()
	dir, _ = stored(t, 3, false)
	store, err := openBolt(Config{}, filepath.Join(dir, storeFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(change(store), store.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTermAndVote: what raft must never forget is read only as it was written; a store of an earlier version, which wrote no
// checksum, is read, and what this one writes over it is checked from then on.
func TestTermAndVote(t *testing.T) {
	plain := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	for _, c := range []struct {
		name   string
		change func(s *raftboltdb.BoltStore) error
		want   string // in the refusal; empty: it starts
	}{
		{"as it was", func(*raftboltdb.BoltStore) error { return nil }, ""},
		{"of an earlier version", func(s *raftboltdb.BoltStore) error {
			term, err := summing{s}.GetUint64(keyTerm)
			vote, verr := summing{s}.Get(keyVote)
			return errors.Join(err, verr, s.SetUint64(keyTerm, term), s.SetUint64(keyVoteTerm, term), s.Set(keyVote, vote))
		}, ""},
		{"another term", func(s *raftboltdb.BoltStore) error {
			return s.Set(keyTerm, append(plain(99), valueSum(keyTerm, plain(9))[termLen:]...))
		}, "CurrentTerm"},
		{"the vote's term in the place of the term", func(s *raftboltdb.BoltStore) error { return s.Set(keyTerm, valueSum(keyVoteTerm, plain(9))) }, "CurrentTerm"},
		{"a term that is cut short", func(s *raftboltdb.BoltStore) error { return s.Set(keyTerm, plain(9)[1:]) }, "CurrentTerm"},
		{"a term of nothing", func(s *raftboltdb.BoltStore) error { return s.Set(keyTerm, valueSum(keyTerm, nil)) }, "CurrentTerm"},
		{"another vote", func(s *raftboltdb.BoltStore) error {
			return s.Set(keyVote, append([]byte("n-b"), valueSum(keyVote, []byte("n-a"))[3:]...))
		}, "LastVoteCand"},
		{"a vote for what is no voter", func(s *raftboltdb.BoltStore) error { return s.Set(keyVote, []byte("n a")) }, "LastVoteCand"},
		{"a term before its log's", func(s *raftboltdb.BoltStore) error { return summing{s}.SetUint64(keyTerm, 1) }, "its log ends in term 2"},
		{"a vote of a later term", func(s *raftboltdb.BoltStore) error { return summing{s}.SetUint64(keyVoteTerm, 7) }, "it voted in term 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := voted(t, c.change)
			sums := checksums(t, dir)
			_, err := reopened(t, dir)
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				store, err := openBolt(Config{}, filepath.Join(dir, storeFile))
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				for _, k := range [][]byte{keyTerm, keyVoteTerm, keyVote} {
					if raw, err := store.Get(k); err != nil || len(raw) < sumTail || !bytes.Equal(raw, valueSum(k, raw[:len(raw)-sumTail])) {
						t.Errorf("%s is written as %x, %v", k, raw, err)
					}
				}
				// An earlier version reads a term's first eight bytes, and takes the vote for another's.
				if term, err := store.GetUint64(keyTerm); err != nil || term < 2 {
					t.Errorf("to an earlier version its term is %d, %v", term, err)
				}
				return
			}
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), storeFile) {
				t.Errorf("%v", err)
			}
			if checksums(t, dir) != sums {
				t.Error("the refusal changed a file")
			}
		})
	}
}

// TestTurnedTermAndVote turns each bit of what is stored: none is read as another term or vote.
func TestTurnedTermAndVote(t *testing.T) {
	for _, c := range []struct {
		key, value []byte
	}{
		{keyTerm, binary.BigEndian.AppendUint64(nil, 7)},
		{keyVoteTerm, binary.BigEndian.AppendUint64(nil, 1<<40)},
		{keyVote, []byte("820179fa1a992682b5e72c6c02ead2f6")},
	} {
		whole := valueSum(c.key, c.value)
		for i := range 8 * len(whole) {
			raw := bytes.Clone(whole)
			raw[i/8] ^= 1 << (i % 8)
			plain := len(raw) == termLen
			if bytes.Equal(c.key, keyVote) {
				plain = plainVote(raw)
			}
			if v, err := checkValue(c.key, raw, plain); err == nil {
				t.Fatalf("%s with bit %d turned reads as %x", c.key, i, v)
			}
		}
		for n := range whole {
			if bytes.Equal(c.key, keyVote) && plainVote(whole[:n]) || n == termLen && !bytes.Equal(c.key, keyVote) {
				continue // as an earlier version would have written it: the page's own bounds hold its length
			}
			if v, err := checkValue(c.key, whole[:n], false); err == nil {
				t.Fatalf("%s cut to %d bytes reads as %x", c.key, n, v)
			}
		}
	}
}

var _ raft.StableStore = summing{}
