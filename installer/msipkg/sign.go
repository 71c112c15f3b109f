package msipkg

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Signer signs programs and packages by osslsigncode. The zero Signer leaves everything unsigned.
type Signer struct {
	Certificate string // a file: PEM, the chain behind it, or PKCS#7
	Key         string // a file: PEM
	Timestamp   string // the address of a time stamping service (RFC 3161); "" = none, and the signature ends with the certificate
}

// Sign returns the file signed, or as it is where there is no certificate. what is shown to whoever starts it.
func (s Signer) Sign(data []byte, what string, when time.Time) ([]byte, error) {
	if s.Certificate == "" {
		return data, nil
	}
	dir, err := os.MkdirTemp("", "msipkg-sign-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	from, to := filepath.Join(dir, "unsigned"), filepath.Join(dir, "signed")
	if err := os.WriteFile(from, data, 0o600); err != nil {
		return nil, err
	}
	args := []string{"sign", "-certs", s.Certificate, "-key", s.Key, "-h", "sha256", "-n", what, "-in", from, "-out", to}
	if s.Timestamp != "" {
		args = append(args, "-ts", s.Timestamp)
	} else {
		args = append(args, "-time", strconv.FormatInt(when.Unix(), 10)) // of signing, so that it is the same again
	}
	cmd := exec.Command("osslsigncode", args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); errors.Is(err, exec.ErrNotFound) {
		return nil, fmt.Errorf("%w: osslsigncode is not installed: apt-get install osslsigncode", ErrTool)
	} else if err != nil {
		return nil, fmt.Errorf("%w: osslsigncode: %w: %s", ErrTool, err, strings.TrimSpace(out.String()))
	}
	return os.ReadFile(to)
}
