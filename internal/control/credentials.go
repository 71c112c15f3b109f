package control

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"pace-node/internal/config"
)

// Bounds of what opens the page beyond loopback.
const (
	// tokenLeast is how long a token is at least, bytes: 20 characters that were drawn at random cannot be guessed.
	tokenLeast = 20
	tokenMost  = 512
	// credentialEvery is how often it is looked whether a file has changed: certificates are renewed under a node that runs.
	credentialEvery = 10 * time.Second
)

// Credentials are the certificate and the token of --admin-listen. Files that change are read again; one that does not read
// leaves what was in use. It may be used from many goroutines.
type Credentials struct {
	cert, key, token string // paths; "" = none
	logger           *slog.Logger

	mu      sync.Mutex
	looked  time.Time
	stamps  [3]stamp
	pair    *tls.Certificate
	digest  [sha256.Size]byte
	failing string // what was said of it last
}

type stamp struct {
	at   time.Time
	size int64
}

// OpenCredentials reads them. Its error is a *config.RefusedError that names the flag.
func OpenCredentials(cfg config.Config, logger *slog.Logger) (*Credentials, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	c := &Credentials{cert: cfg.AdminTLSCert, key: cfg.AdminTLSKey, token: cfg.AdminTokenFile, logger: logger}
	if c.cert != "" {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err != nil {
			return nil, unreadable("--admin-tls-cert", c.cert, err, "give the files of a certificate and of its key (PEM) that this node's account may read")
		}
		c.pair = &pair
	}
	if c.token != "" {
		digest, err := readToken(c.token)
		if err != nil {
			return nil, unreadable("--admin-token-file", c.token, err, "one line of at least 20 characters drawn at random, in a file that only this node's account and its group may read")
		}
		c.digest = digest
	}
	c.stamps, c.looked = c.look(), time.Now()
	return c, nil
}

func unreadable(flag, value string, err error, remedy string) error {
	why := err.Error()
	var path *fs.PathError
	if errors.As(err, &path) {
		why = path.Err.Error() // which file it is stands before
	}
	return &config.RefusedError{Where: "the settings", Key: flag, Value: value, Why: why, Remedy: remedy, Err: err}
}

// readToken returns the digest of a token.
func readToken(path string) (digest [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return digest, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return digest, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o007 != 0 {
		return digest, fmt.Errorf("everybody on this machine can use it (mode %04o); chmod 640", info.Mode().Perm())
	}
	b, err := io.ReadAll(io.LimitReader(f, tokenMost+2))
	if err != nil {
		return digest, err
	}
	b = bytes.TrimSpace(b)
	switch {
	case len(b) < tokenLeast:
		return digest, fmt.Errorf("a token of %d bytes can be guessed; it has at least %d", len(b), tokenLeast)
	case len(b) > tokenMost:
		return digest, fmt.Errorf("a token has at most %d bytes", tokenMost)
	case bytes.ContainsAny(b, " \t\r\n\x00"):
		return digest, errors.New("a token is one line, and one word")
	}
	return sha256.Sum256(b), nil
}

// HasToken reports whether a token opens the page.
func (c *Credentials) HasToken() bool { return c != nil && c.token != "" }

// Opens reports whether text is the token.
func (c *Credentials) Opens(text string) bool {
	if !c.HasToken() {
		return false
	}
	got := sha256.Sum256([]byte(text))
	c.mu.Lock()
	c.refresh()
	want := c.digest
	c.mu.Unlock()
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// TLS is what the endpoint speaks TLS with, nil without a certificate.
func (c *Credentials) TLS() *tls.Config {
	if c == nil || c.cert == "" {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.refresh()
		return c.pair, nil
	}}
}

// Name is what the certificate is for, "" if it does not say.
func (c *Credentials) Name() string {
	if c == nil || c.pair == nil {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	leaf := c.pair.Leaf
	switch {
	case leaf == nil:
	case len(leaf.DNSNames) > 0 && leaf.DNSNames[0] != "" && leaf.DNSNames[0][0] != '*':
		return leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		return leaf.IPAddresses[0].String()
	}
	return ""
}

func (c *Credentials) look() (s [3]stamp) {
	for i, path := range []string{c.cert, c.key, c.token} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			s[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return s
}

// refresh reads again what has changed. c.mu is held.
func (c *Credentials) refresh() {
	now := time.Now()
	if now.Sub(c.looked) < credentialEvery {
		return
	}
	c.looked = now
	s := c.look()
	if s == c.stamps {
		return
	}
	var failed error
	if c.cert != "" && (s[0] != c.stamps[0] || s[1] != c.stamps[1]) {
		pair, err := tls.LoadX509KeyPair(c.cert, c.key)
		if err == nil {
			c.pair = &pair
			c.logger.Info("certificate of the web page read again", "file", c.cert)
		}
		failed = err
	}
	if c.token != "" && s[2] != c.stamps[2] {
		digest, err := readToken(c.token)
		if err == nil {
			c.digest = digest
			c.logger.Info("token of the web page read again", "file", c.token)
		}
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		c.stamps, c.failing = s, ""
		return
	}
	if text := failed.Error(); text != c.failing {
		c.failing = text
		c.logger.Warn("certificate or token of the web page cannot be read again; the one before stays in use", "error", text)
	}
}
