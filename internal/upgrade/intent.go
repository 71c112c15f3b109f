package upgrade

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"pace-node/internal/statedir"
)

const (
	intentMagic  = "pace-node-upgrade"
	intentFormat = 1
	intentMode   = 0o644 // who looks for the reason of a program that changed need not be root
	maxIntent    = 64 << 10
)

// Phase is how far an upgrade has come.
type Phase string

// The phases. There is no file before the first, and none once the new program has settled.
const (
	PhaseSwapped    Phase = "swapped"     // the new program takes the place, or has taken it and is watched
	PhaseRolledBack Phase = "rolled_back" // the old one takes its place back, or has it
)

// Intent is the file beside the program that outlives every process of an upgrade.
type Intent struct {
	Phase  Phase  `json:"phase"`
	From   string `json:"from"` // version of the old program
	To     string `json:"to"`   // version of the new one
	Old    string `json:"old"`  // hex SHA-256 of the old program's file
	New    string `json:"new"`  // hex SHA-256 of the new one's
	Args   string `json:"args"` // hex SHA-256 of the arguments of the process that is watched; "" = of none
	Starts int    `json:"starts"`
	At     int64  `json:"at"`            // Unix seconds, when the phase began
	Why    string `json:"why,omitempty"` // of the roll-back
}

// readIntent reads the file; os.ErrNotExist: no upgrade is under way and the last one went well.
func readIntent(path string) (Intent, error) {
	f, err := os.Open(path)
	if err != nil {
		return Intent{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxIntent))
	if err != nil {
		return Intent{}, err
	}
	return parseIntent(raw)
}

func parseIntent(raw []byte) (Intent, error) {
	var in Intent
	body, err := statedir.Unseal(intentMagic, intentFormat, raw)
	if err != nil {
		return in, err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(&in); err != nil {
		return Intent{}, err
	}
	switch {
	case in.Phase != PhaseSwapped && in.Phase != PhaseRolledBack:
		return Intent{}, fmt.Errorf("the phase %q is not known", in.Phase)
	case !digestText(in.Old) || !digestText(in.New):
		return Intent{}, errors.New("it names no program by its digest")
	}
	return in, nil
}

func digestText(s string) bool {
	b, err := hex.DecodeString(s)
	return err == nil && len(b) == sha256.Size
}

func writeIntent(path string, in Intent, point func(string)) error {
	body, err := json.MarshalIndent(in, "", "  ")
	if err != nil {
		return err
	}
	return statedir.WriteFileAtomic(path, statedir.Seal(intentMagic, intentFormat, append(body, '\n')), intentMode, point)
}

// digestOf is the hex SHA-256 of a file.
func digestOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// digestArgs is what tells the processes of one program on a machine apart.
func digestArgs(args []string) string {
	sum := sha256.Sum256([]byte(strings.Join(args, "\x00")))
	return hex.EncodeToString(sum[:])
}
