// Command helper-go is a provisioning helper that signs certificates: it answers the certificate request of a machine
// (--provision-pki) with one of an authority of yours, and configures a machine that sends none without.
//
//	go build -o /usr/local/lib/pace/helper ./docs/examples/helper-go
//	pace-node --provision-pki --provision-helper='/usr/local/lib/pace/helper -ca /etc/pace/ca.pem -ca-key /etc/pace/ca-key.pem'
//
// One JSON document comes in on stdin, one goes out on stdout (docs/schema/helper-input.json, helper-answer.json).
package main

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/big"
	"os"
	"time"
)

const (
	validity = 365 * 24 * time.Hour
	// backdated is how far a machine's clock may be behind this one's.
	backdated = time.Hour
)

// request is what this helper reads of its input.
type request struct {
	Identity string `json:"identity"`
	CSR      *struct {
		CSR string `json:"csr"` // PEM
	} `json:"csr"`
	Inventory string `json:"inventory"` // holds JSON
}

// answer is what it prints.
type answer struct {
	Configuration map[string]string `json:"configuration"`
	Certificate   string            `json:"certificate,omitempty"` // PEM
	CA            string            `json:"ca,omitempty"`          // PEM
}

func main() {
	caFile := flag.String("ca", "", "certificate of the authority, PEM")
	keyFile := flag.String("ca-key", "", "its private key, PEM, PKCS #8")
	flag.Parse()
	if err := run(os.Stdin, os.Stdout, *caFile, *keyFile); err != nil {
		fmt.Fprintln(os.Stderr, err) // in the error that the operator reads
		os.Exit(1)
	}
}

func run(in io.Reader, out io.Writer, caFile, keyFile string) error {
	var r request
	if err := json.NewDecoder(in).Decode(&r); err != nil {
		return fmt.Errorf("the input does not read: %w", err)
	}
	var inventory struct {
		Facts struct {
			Hostname, Platform string
		} `json:"facts"`
	}
	if err := json.Unmarshal([]byte(r.Inventory), &inventory); err != nil {
		return fmt.Errorf("the inventory does not read: %w", err)
	}
	a := answer{Configuration: map[string]string{"identity": r.Identity, "hostname": inventory.Facts.Hostname, "platform": inventory.Facts.Platform}}
	if r.CSR != nil && caFile != "" {
		var err error
		if a.Certificate, a.CA, err = sign(r, caFile, keyFile); err != nil {
			return err
		}
	}
	return json.NewEncoder(out).Encode(a)
}

// sign makes a certificate for the name that the leader knows the machine by, and for no other that it asks for.
func sign(r request, caFile, keyFile string) (certificate, ca string, err error) {
	authority, key, err := load(caFile, keyFile)
	if err != nil {
		return "", "", err
	}
	block, _ := pem.Decode([]byte(r.CSR.CSR))
	if block == nil {
		return "", "", errors.New("the certificate request is no PEM")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature()
	}
	switch {
	case err != nil:
		return "", "", fmt.Errorf("the certificate request of %q: %w", r.Identity, err)
	case csr.Subject.CommonName != r.Identity:
		return "", "", fmt.Errorf("%q asks for a certificate of %q", r.Identity, csr.Subject.CommonName)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return "", "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: r.Identity}, NotBefore: now.Add(-backdated), NotAfter: now.Add(validity),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames: []string{r.Identity},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, authority, csr.PublicKey, key)
	if err != nil {
		return "", "", err
	}
	return text(der), text(authority.Raw), nil
}

func text(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func load(caFile, keyFile string) (*x509.Certificate, crypto.Signer, error) {
	certificate, err := decode(caFile)
	if err != nil {
		return nil, nil, err
	}
	authority, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", caFile, err)
	}
	der, err := decode(keyFile)
	if err != nil {
		return nil, nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("%s: a key of this kind signs nothing", keyFile)
	}
	return authority, signer, nil
}

func decode(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM", path)
	}
	return block.Bytes, nil
}
