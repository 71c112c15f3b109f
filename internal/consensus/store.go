package consensus

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
)

const openFileTimout = 2 * time.Second

func boltOptions() *bbolt.Options {
	o := *bbolt.DefaultOptions
	o.Timeout = openFileTimout
	o.NoFreelistSync = true
	return &o
}

func damaged(path string, err error) error {
	return fmt.Errorf("%w: %s: %v; nothing was changed: put the file back from a backup, or move the state directory away and let this machine join again", ErrDamaged, path, err)
}

// checkStore reads the whole file once before bbolt maps it for writing. bbolt trusts its file: one that was cut short
// ends the process with a fault at the first page that is not there, where an operator needs a sentence.
// It gives the bounds of its log.
func checkStore(path string) (first, last uint64, err error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err == nil {
		err = checkPages(b)
	}
	if err == nil {
		first, last, err = readLog(path)
	}
	if err != nil {
		return 0, 0, damaged(path, err)
	}
	return first, last, nil
}

// readLog reads every entry of a store whose pages were checked, without writing to it.
func readLog(path string) (first, last uint64, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading it failed: %v", r)
		}
	}()
	store, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{ReadOnly: true, Timeout: openFileTimout}})
	if err != nil {
		return 0, 0, err
	}
	defer store.Close()
	if first, last, err = checkLog(summing{store}); err != nil {
		return first, last, err
	}
	var end *raft.Log
	if last > 0 {
		end = &raft.Log{}
		if err := store.GetLog(last, end); err != nil {
			return first, last, err
		}
	}
	return first, last, checkTerms(summing{store}, end)
}
