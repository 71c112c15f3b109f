//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// signingHelper builds the Go example, and gives it an authority of its own.
func signingHelper(t *testing.T) (command string, authority *x509.Certificate) {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "helper")
	if out, err := exec.Command("go", "build", "-o", program, "pace-node/docs/examples/helper-go").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority"}, NotBefore: time.Now().Add(-24 * time.Hour),
		NotAfter: time.Now().Add(2 * 365 * 24 * time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if authority, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	put := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return program + " -ca " + put("ca.pem", "CERTIFICATE", der) + " -ca-key " + put("ca-key.pem", "PRIVATE KEY", secret), authority
}

// certificate is what a machine was given, with the key of its own that it is for; nil: none.
func (n *node) certificate() *x509.Certificate {
	ssl := filepath.Join(n.dir, "provisioned", "current", "ssl")
	pair, err := tls.LoadX509KeyPair(filepath.Join(ssl, "certificate.pem"), filepath.Join(ssl, "private.pem"))
	if err != nil {
		return nil
	}
	c, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		n.t.Fatalf("%s: %v", n.name, err)
	}
	return c
}

// TestCertificates: a fleet whose profile asks for certificates has each machine request one under a key of its own, which
// a real helper signs. Who asks for a name that is denied gets none, keeps what it had, and the operator reads which pattern it was.
func TestCertificates(t *testing.T) {
	t.Parallel()
	command, authority := signingHelper(t)
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered, "--provision-helper="+command)
	a.configured("identity", a.id())
	if c := a.certificate(); c != nil {
		t.Fatalf("a certificate for %s, and nobody asked for any", c.Subject)
	}
	// What cannot be is refused by name before any voter has it, and the whole of it.
	for value, says := range map[string]string{
		`{"provision-pki":"perhaps"}`:        "provision-pki",
		`{"provision-pki":"true","pki":"x"}`: "pki",
		`{"provision-upgrades":"required"}`:  "provision-repository",
	} {
		if out, err := a.pacectl("fleet", "set", "provision.profile="+value); err == nil || !strings.Contains(out, says) {
			t.Errorf("%s: %v\n%s", value, err, out)
		}
	}
	profile := func(text string) {
		t.Helper()
		if out, err := a.pacectl("fleet", "set", "provision.profile="+text); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	profile(`{"provision-pki":"true"}`)
	nextSecond(t)
	b := l.hosts[1].joined(t, a, "birch")
	b.configured("identity", b.id())
	a.provisioned(b)
	roots := x509.NewCertPool()
	roots.AddCert(authority)
	first := b.certificate()
	if first == nil {
		t.Fatal("it has no certificate that its key is for")
	}
	if _, err := first.Verify(x509.VerifyOptions{Roots: roots, DNSName: b.id(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err != nil || first.Subject.CommonName != b.id() {
		t.Errorf("for %s: %v", first.Subject, err)
	}
	provisioned := filepath.Join(b.dir, "provisioned")
	for path, mode := range map[string]os.FileMode{"current/ssl": 0o700, "current/ssl/private.pem": 0o600, "current/ssl/certificate.pem": 0o644, "current/ssl/ca.pem": 0o644} {
		if st, err := os.Stat(filepath.Join(provisioned, path)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, st, err)
		}
	}
	if _, err := os.Stat(filepath.Join(provisioned, "request-key.pem")); !os.IsNotExist(err) {
		t.Errorf("the key of a request that was answered is still there: %v", err)
	}
	secret, err := os.ReadFile(filepath.Join(provisioned, "current/ssl/private.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []*node{a, b} {
		if strings.Contains(n.log.String(), "PRIVATE KEY") || strings.Contains(n.log.String(), strings.Split(string(secret), "\n")[1]) {
			t.Errorf("%s logs a key", n.name)
		}
	}

	profile(`{"provision-pki":"true","provision-deny":"*.lan ` + b.id()[:8] + `*"}`)
	if out, err := a.pacectl("queue", "reprovision", "birch"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "the refusal is shown with its pattern", func() (bool, string) {
		s := a.queued(b.id())
		return strings.HasPrefix(s, "parked ") && strings.Contains(s, b.id()[:8]+"*") && strings.Contains(s, "--provision-deny"), s
	})
	if c := b.certificate(); c == nil || !c.Equal(first) {
		t.Error("what it had is not what it has")
	}
	until(t, "the refusal is counted", func() (bool, string) {
		got := a.metrics().of(t, `pace_provision_errors_total{stage="csr"}`)
		return got == 1, fmt.Sprint(got)
	})
	// Without the pattern it is served again, under another key.
	profile(`{"provision-pki":"true"}`)
	if out, err := a.pacectl("queue", "retry", "birch"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	until(t, "it has another certificate", func() (bool, string) {
		c := b.certificate()
		return c != nil && !c.Equal(first) && !c.PublicKey.(*ecdsa.PublicKey).Equal(first.PublicKey), ""
	})
	a.provisioned(b)
}
