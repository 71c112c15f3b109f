package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pace-node/internal/schema"
)

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// authority writes an authority's certificate and key.
func authority(t *testing.T) (caFile, keyFile string) {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, NotBefore: time.Now().Add(-2 * time.Hour),
		NotAfter: time.Now().Add(2 * validity), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return write("ca.pem", "CERTIFICATE", der), write("ca-key.pem", "PRIVATE KEY", secret)
}

// input is a helper's input with a certificate request of a common name; "": with none. It is held against its schema.
func input(t *testing.T, commonName string) string {
	t.Helper()
	doc := map[string]any{"identity": "birch", "csr": nil, "jwt": nil, "inventory": `{"facts":{"hostname":"h1","platform":"linux/amd64"}}`,
		"ed25519_pubkey": map[string]string{"public_key": strings.Repeat("0f", 32), "directory": "", "signature": ""},
		"pace": map[string]any{"attempt": 1, "first_seen": "", "last_error": "", "boot_id": "", "cluster_id": "", "platform": "linux/amd64", "name": "birch",
			"labels": map[string]string{}}}
	if commonName != "" {
		key := newKey(t)
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: commonName}, DNSNames: []string{"other.example"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		doc["csr"] = map[string]string{"csr": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), "public_key": "", "ssldir": ""}
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	conforms(t, "helper-input", b)
	return string(b)
}

func conforms(t *testing.T, name string, doc []byte) {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", "schema", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Check(page, doc, true); err != nil {
		t.Errorf("%s: %v\n%s", name, err, doc)
	}
}

func TestSigns(t *testing.T) {
	ca, key := authority(t)
	var out bytes.Buffer
	if err := run(strings.NewReader(input(t, "birch")), &out, ca, key); err != nil {
		t.Fatal(err)
	}
	conforms(t, "helper-answer", out.Bytes())
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	block, _ := pem.Decode([]byte(a.Certificate))
	if block == nil || !roots.AppendCertsFromPEM([]byte(a.CA)) {
		t.Fatalf("%+v", a)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: roots, DNSName: "birch"}); err != nil {
		t.Error(err)
	}
	if c.VerifyHostname("other.example") == nil {
		t.Error("a name that nobody vouches for is in the certificate")
	}
}

func TestRefuses(t *testing.T) {
	ca, key := authority(t)
	for name, c := range map[string]struct{ in, ca, key, want string }{
		"another name": {input(t, "alder"), ca, key, `asks for a certificate of "alder"`},
		"no PEM":       {strings.ReplaceAll(input(t, "birch"), "-----BEGIN", "X"), ca, key, "is no PEM"},
		"no JSON":      {"", ca, key, "does not read"},
		"no authority": {input(t, "birch"), "/does/not/exist", key, "no such file"},
		"no key":       {input(t, "birch"), ca, ca, "ca.pem"},
	} {
		var out bytes.Buffer
		if err := run(strings.NewReader(c.in), &out, c.ca, c.key); err == nil || !strings.Contains(err.Error(), c.want) || out.Len() > 0 {
			t.Errorf("%s: %v, want an error with %q; printed %q", name, err, c.want, out.String())
		}
	}
}

func TestWithoutRequest(t *testing.T) {
	var out bytes.Buffer
	if err := run(strings.NewReader(input(t, "")), &out, "", ""); err != nil {
		t.Fatal(err)
	}
	conforms(t, "helper-answer", out.Bytes())
	if !strings.Contains(out.String(), `"hostname":"h1"`) || strings.Contains(out.String(), "certificate") {
		t.Errorf("%s", out.String())
	}
}
