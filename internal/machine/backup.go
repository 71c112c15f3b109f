package machine

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/term"

	"pace-node/internal/config"
	"pace-node/internal/consensus"
	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/statedir"
	"pace-node/internal/version"
)

// sealed says what is wrong with a backup's file as far as that is seen without a passphrase.
func sealed(file string, made bool) error {
	if !made {
		_, err := statedir.ReadBackup(file)
		return err
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	return statedir.FreeForBackup(path)
}

// backup seals this machine: its record and key as they are on disk, and the fleet's state as its node gave it.
func (m *Machine) backup(_ context.Context, file string, passphrase []byte, s control.FounderState) (control.Done, error) {
	opt, err := m.State()
	if err != nil {
		return control.Done{}, err
	}
	record, key, err := statedir.PeekKey(m.Config.StateDir, opt)
	if err != nil {
		return control.Done{}, err
	}
	if err := statedir.Restorable(record); err != nil {
		return control.Done{}, err
	}
	state, err := fleet.Restore(s.State)
	if err != nil {
		return control.Done{}, err
	}
	v := state.View()
	if v.Cluster() != record.Cluster || !v.Holds(record.NodeID, key.Public()) {
		return control.Done{}, &told{nil, "the state that the node gave is not that of the machine in " + m.Config.StateDir, "give the --state-dir that the node runs with"}
	}
	b := statedir.Backup{Record: record, Seed: key.Seed(), State: s.State, At: time.Now().Unix(), Version: version.Version, Epoch: v.Epoch()}
	sealed, err := b.Seal(passphrase, func(p []byte) { rand.Read(p) })
	if err != nil {
		return control.Done{}, err
	}
	path, err := filepath.Abs(file)
	if err != nil {
		return control.Done{}, err
	}
	if err := statedir.WriteBackup(path, sealed); err != nil {
		return control.Done{}, err
	}
	// What can't be read back is no backup.
	if got, err := statedir.ReadBackup(path); err != nil || !bytes.Equal(got, sealed) {
		return control.Done{}, errors.Join(&told{err, path + " does not read back as it was written", "look at that disk, and write the backup elsewhere"}, os.Remove(path))
	}
	return control.Done{Revision: v.Revision(), Said: fmt.Sprintf("this machine and fleet %s with %d members are sealed in %s; it holds this machine's key, so keep it and its passphrase apart from each other and from this machine", v.Cluster(), v.Len(), strconv.Quote(path))}, nil
}

// restore puts a backup in the place of this machine's identity.
func (m *Machine) restore(_ context.Context, file string, passphrase []byte, sure func(control.Restoring) error) (control.Done, error) {
	opt, err := m.State()
	if err != nil {
		return control.Done{}, err
	}
	sealed, err := statedir.ReadBackup(file)
	if err != nil {
		return control.Done{}, err
	}
	b, err := statedir.OpenBackup(sealed, passphrase)
	if err != nil {
		return control.Done{}, err
	}
	state, err := fleet.Restore(b.State)
	if err != nil {
		return control.Done{}, err
	}
	v := state.View()
	self, held := v.Member(b.Record.NodeID)
	if v.Cluster() != b.Record.Cluster || !held || self.Key.String() != b.Record.PublicKey {
		return control.Done{}, &told{statedir.ErrBackup, "the backup's state does not hold the backup's machine", "take another copy of it"}
	}
	s := control.Restoring{Cluster: v.Cluster(), Name: self.Name, ID: self.ID, Epoch: v.Epoch() + 1, Revision: v.Revision(), Members: v.Len(), At: b.At, Version: b.Version}
	b.Epoch = v.Epoch()
	if err := sure(s); err != nil {
		return control.Done{}, err
	}
	to, err := statedir.Restore(m.Config.StateDir, opt, b, m.host.Hardware(), func(dir string) error {
		return consensus.Build{Dir: dir, NodeID: self.ID, Cluster: v.Cluster(), Epoch: s.Epoch, Logger: slog.New(slog.DiscardHandler)}.FromState(b.State)
	})
	if errors.Is(err, statedir.ErrInUse) {
		return control.Done{}, &told{err, "a node runs on this machine, and a verb does not disturb it", m.busy()}
	}
	if err != nil {
		return control.Done{}, err
	}
	said := fmt.Sprintf("this machine is %s now; start its node, which leads fleet %s in recovery epoch %d; on each other machine of the fleet: pacectl fleet accept %s", self.ID, s.Cluster, s.Epoch, b.Record.PublicKey)
	if to != "" {
		said += "; its own identity is in " + strconv.Quote(to)
	}
	return control.Done{Said: said}, nil
}

// errNoTerminal: nobody can be asked.
var errNoTerminal error = &told{nil, "there is no terminal to ask for the passphrase", "give --" + config.WordPass + "=FILE, or --" + config.WordPass + "=- to have it read from stdin"}

// passphrase reads one line from a file, or from the terminal without showing it. It never comes from the command line,
// which every account of the machine can read.
func (m *Machine) passphrase(file, prompt string, twice bool) ([]byte, error) {
	switch file {
	case "":
		return typedPassphrase(prompt, twice)
	case "-":
		return firstLine(os.Stdin)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, &told{err, fmt.Sprintf("the passphrase's file cannot be read: %v", err), "give a file that this account may read"}
	}
	defer f.Close()
	return firstLine(f)
}

// firstLine reads a line byte by byte: what follows it is somebody else's.
func firstLine(r io.Reader) ([]byte, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		n, err := r.Read(b)
		if n == 1 && b[0] == '\n' {
			break
		}
		if n == 1 {
			if line = append(line, b[0]); len(line) > statedir.MaxPassphrase+1 {
				break
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	line = bytes.TrimSuffix(line, []byte("\r"))
	return line, statedir.CheckPassphrase(line)
}

func typedPassphrase(prompt string, twice bool) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return nil, errNoTerminal
	}
	ask := func(prompt string) ([]byte, error) {
		fmt.Fprint(os.Stderr, prompt)
		p, err := term.ReadPassword(fd)
		fmt.Fprintln(os.Stderr)
		return p, err
	}
	p, err := ask(prompt)
	if err != nil {
		return nil, err
	}
	if err := statedir.CheckPassphrase(p); err != nil || !twice {
		return p, err
	}
	again, err := ask("Once more: ")
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(p, again) {
		return nil, &told{statedir.ErrPassphrase, "the two passphrases differ, so nothing was done", "type the same one twice"}
	}
	return p, nil
}
