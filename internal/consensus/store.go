package consensus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

// boltMagic and the offsets below are those of a bbolt file's meta page (bbolt's page.go and db.go): a 16-byte page
// header, then magic, version, page size, flags, root bucket (page, sequence), freelist page, first unused page.
const (
	boltMagic      = 0xED0CDAED
	metaAt         = 16
	metaPageSize   = metaAt + 8
	metaFirstFree  = metaAt + 40
	metaLen        = metaAt + 64
	openFileTimout = 2 * time.Second
)

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
func checkStore(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return damaged(path, err)
	}
	want, err := boltSize(path)
	if err != nil {
		return damaged(path, err)
	}
	if info.Size() < want {
		return damaged(path, fmt.Errorf("it is %d bytes long and says it holds %d", info.Size(), want))
	}
	if err := walkStore(path); err != nil {
		return damaged(path, err)
	}
	return nil
}

// boltSize is how many bytes the newest readable meta page says the file holds.
func boltSize(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var best int64
	page := int64(0)
	for i := range int64(2) {
		b := make([]byte, metaLen)
		if _, err := f.ReadAt(b, i*page); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if binary.NativeEndian.Uint32(b[metaAt:]) != boltMagic {
			if i == 0 {
				return 0, errors.New("it does not begin as a store does")
			}
			continue
		}
		page = int64(binary.NativeEndian.Uint32(b[metaPageSize:]))
		if page < 512 || page > 1<<20 {
			return 0, fmt.Errorf("it claims pages of %d bytes", page)
		}
		if free := binary.NativeEndian.Uint64(b[metaFirstFree:]); free < 1<<40/uint64(page) {
			best = max(best, int64(free)*page)
		} else {
			return 0, errors.New("it claims more pages than a disk holds")
		}
	}
	return best, nil
}

func walkStore(path string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("reading it failed: %v", r)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: openFileTimout})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		// Every page of both buckets is reached: the keys and the lengths of their values.
		return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
			return b.ForEach(func(_, v []byte) error {
				if len(v) > 0 {
					_ = v[len(v)-1]
				}
				return nil
			})
		})
	})
}
