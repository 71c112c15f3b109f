package target

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

const (
	requestType   = "CERTIFICATE REQUEST"
	publicKeyType = "PUBLIC KEY"
)

// csr makes a certificate request under a TLS key of this machine's own, which never leaves it. The key is kept until a
// configuration has a certificate for it, so that asking twice asks for the same.
func (t *Target) csr(ctx context.Context, _ json.RawMessage) (any, *refusal) {
	key, err := t.requestKey()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, failed(ctx, err)
	}
	template := x509.CertificateRequest{Subject: pkix.Name{CommonName: t.cfg.NodeID}}
	if dnsName(t.cfg.NodeID) {
		template.DNSNames = []string{t.cfg.NodeID} // programs of today look for a name nowhere else
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, key)
	if err != nil {
		return nil, refuse(ReasonFacts, "the certificate request cannot be made: "+wire.Printable(err.Error()))
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, refuse(ReasonFacts, "the certificate request cannot be made: "+wire.Printable(err.Error()))
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	return wire.CSRAnswer{CSR: text(requestType, der), PublicKey: text(publicKeyType, public), SSLDir: filepath.Join(t.store.path(currentDir), sslDir)}, nil
}

// dnsName reports whether an id can stand where a host's name does.
func dnsName(id string) bool {
	return !strings.Contains(id, "_") && strings.Trim(id, ".-") == id && !strings.Contains(id, "..")
}

// requestKey is the key that certificates are asked for with, made where there is none, or where a crash left one behind
// that is in use already.
func (t *Target) requestKey() (crypto.Signer, error) {
	text, err := t.keptKey(requestKeyFile)
	if err != nil {
		return nil, err
	}
	if text != "" && text != t.currentKey() {
		if key, why := privateKey(text); why == "" {
			return key, nil
		}
		t.log.Warn("key of certificate requests does not read; another one is made", "file", t.store.path(requestKeyFile))
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	b := pem.EncodeToMemory(&pem.Block{Type: keyTypes[0].Type, Bytes: der})
	return key, statedir.WriteFileAtomic(t.store.path(requestKeyFile), b, secretMode, t.under("target.csr."))
}

// keptKey is the text of a file with a key, "" where there is none that may be one.
func (t *Target) keptKey(name string) (string, error) {
	b, err := readSmall(t.store.path(name), MaxPEM)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(b), err
}

func (t *Target) currentKey() string {
	text, err := t.keptKey(filepath.Join(currentDir, filepath.FromSlash(keyFile)))
	if err != nil {
		return ""
	}
	return text
}

// ownKey gives a body that has a certificate and no key the key of this machine's own that the certificate is for: that of
// its request, or the one that it has in use.
func (t *Target) ownKey(b *wire.ConfigureBody) *refusal {
	if b.Certificate == "" || b.Key != "" {
		return nil
	}
	chain, why := certificates(b.Certificate)
	if why != "" {
		return nil // said by its own check
	}
	request, err := t.keptKey(requestKeyFile)
	if err != nil {
		return refuse(ReasonStorage, "the key of this machine's request cannot be read: "+plain(err))
	}
	candidates := false
	for _, text := range []string{request, t.currentKey()} {
		key, why := privateKey(text)
		if why != "" {
			continue
		}
		candidates = true
		if belong(key, chain[0]) {
			b.Key = text
			return nil
		}
	}
	if candidates {
		return refuse(ReasonPair, `the key "certificate" is for none of this machine's own keys, and there is no "key": make it from the request that this machine gave`)
	}
	return nil
}

// requestAnswered forgets the key of the request once a configuration that has it is in place.
func (t *Target) requestAnswered(key string) error {
	request, err := t.keptKey(requestKeyFile)
	if err != nil || request == "" || request != key {
		return err
	}
	if err := os.Remove(t.store.path(requestKeyFile)); err != nil {
		return err
	}
	return syncDir(t.store.dir)
}
