package statedir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pace-node/internal/identity"
)

// Peek reads the record and the public key without the lock, beside a running node. It waits up to 2 s for one that is
// just starting. ErrEmpty: no node has run here; otherwise the refusals of Open and Load.
func Peek(path string) (Record, identity.PublicKey, error) {
	record, key, err := peek(path, nil, peekWait)
	if err != nil {
		return Record{}, identity.PublicKey{}, err
	}
	return record, key.Public(), nil
}

// PeekKey is Peek with the private key: for a verb that speaks to another machine as this one.
func PeekKey(path string, opt Options) (Record, identity.PrivateKey, error) {
	return peek(path, ownerOf(opt), peekWait)
}

// ownerOf is the account that root writes for.
func ownerOf(opt Options) *owner {
	if opt.Account == nil || os.Geteuid() != 0 {
		return nil
	}
	return &owner{uid: opt.Account.UID, gid: opt.Account.GID}
}

func peek(path string, who *owner, wait time.Duration) (Record, identity.PrivateKey, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return Record{}, identity.PrivateKey{}, err
	}
	again := true
	for end := time.Now().Add(wait); ; time.Sleep(pollEvery) {
		record, key, err := peekOnce(path, who)
		if err == nil {
			return record, key, nil
		}
		if again && !errors.Is(err, ErrEmpty) {
			// Key and record are two files: one that is written between the two looks makes them disagree, once.
			again = false
			continue
		}
		// Only what a start in progress looks like is worth waiting for, and a start has made the lock's file first.
		_, locked := os.Lstat(filepath.Join(path, LockFile))
		if !errors.Is(err, ErrEmpty) || locked != nil || time.Now().After(end) {
			return Record{}, identity.PrivateKey{}, err
		}
	}
}

func peekOnce(path string, who *owner) (Record, identity.PrivateKey, error) {
	d := &Dir{path: path, who: who}
	err := d.distrust(kindSecret)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, identity.PrivateKey{}, empty(path)
	}
	if err != nil {
		return Record{}, identity.PrivateKey{}, err
	}
	if _, err := os.Lstat(d.file(restoringDir)); err == nil {
		return Record{}, identity.PrivateKey{}, refuse(ErrDamaged, "a restore into "+path+" was interrupted", "start the node, which finishes it: sudo systemctl start pace-node")
	}
	record, key, err := read(path)
	if missing, ok := err.(*missingError); ok {
		if missing.store != "" {
			return Record{}, identity.PrivateKey{}, damaged(d.file(missing.name), errors.New("it is missing"))
		}
		return Record{}, identity.PrivateKey{}, empty(path)
	}
	if err != nil {
		return Record{}, identity.PrivateKey{}, err
	}
	return record, key, nil
}

func empty(path string) error {
	return refuse(ErrEmpty, fmt.Sprintf("no node has run in %s yet", path), "start it, or mint its identity with: pace-node --print-identity")
}

// Identity is what --print-identity shows: the identity that is there, or, where nothing has run yet, the one that it
// mints and the service will use. It never disturbs a node that runs or is just starting.
func Identity(path string, opt Options, mint Mint) (Record, identity.PublicKey, error) {
	who := ownerOf(opt)
	record, key, err := peek(path, who, 0)
	if !errors.Is(err, ErrEmpty) {
		return record, publicOf(key, err), err
	}
	d, err := Open(path, opt)
	if errors.Is(err, ErrInUse) {
		record, key, err = peek(path, who, peekWait)
		return record, publicOf(key, err), err
	}
	if err != nil {
		return Record{}, identity.PublicKey{}, err
	}
	record, key, err = d.Load(mint)
	if err := errors.Join(err, d.Close()); err != nil {
		return Record{}, identity.PublicKey{}, err
	}
	return record, key.Public(), nil
}

// publicOf is nothing where there is no key: a zero private key has no public half.
func publicOf(key identity.PrivateKey, err error) identity.PublicKey {
	if err != nil {
		return identity.PublicKey{}
	}
	return key.Public()
}
