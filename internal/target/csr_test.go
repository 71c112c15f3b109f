package target

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/wire"
)

// asked has a target make a certificate request, and reads it.
func asked(t *testing.T, tg *Target) (wire.CSRAnswer, *x509.CertificateRequest) {
	t.Helper()
	a := tg.Work(t.Context(), wire.StepCSR, []byte(`{}`))
	if !a.OK {
		t.Fatalf("csr: %s", a.Error)
	}
	var out wire.CSRAnswer
	if err := json.Unmarshal(a.Body, &out); err != nil {
		t.Fatal(err)
	}
	b, rest := pem.Decode([]byte(out.CSR))
	if b == nil || len(rest) > 0 || b.Type != "CERTIFICATE REQUEST" {
		t.Fatalf("%q", out.CSR)
	}
	r, err := x509.ParseCertificateRequest(b.Bytes)
	if err != nil || r.CheckSignature() != nil {
		t.Fatalf("%v, %v", err, r.CheckSignature())
	}
	p, _ := pem.Decode([]byte(out.PublicKey))
	if p == nil || p.Type != "PUBLIC KEY" || !cmp.Equal(p.Bytes, r.RawSubjectPublicKeyInfo) {
		t.Fatalf("%q is not the key of the request", out.PublicKey)
	}
	return out, r
}

// signed is a configuration with a certificate for a request, and no key.
func signed(mark string, r *x509.CertificateRequest) wire.ConfigureBody {
	b := body(mark)
	b.Key, b.Certificate = "", certificateOf(r.PublicKey)
	return b
}

// certificateOf is a certificate for a public key, by an authority of the test's.
func certificateOf(public any) string {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	ca := template("ca")
	leaf := template("leaf")
	der, err := x509.CreateCertificate(rand.Reader, &leaf, &ca, public, k)
	if err != nil {
		panic(err)
	}
	return block(certificateType, der)
}

// TestCertificateOfItsOwnKey walks a machine from its request to its certificate, and to the next one.
func TestCertificateOfItsOwnKey(t *testing.T) {
	dir := folder(t)
	tg := open(t, config(dir))
	key := filepath.Join(dir, requestKeyFile)
	a, r := asked(t, tg)
	if r.Subject.String() != "CN="+nodeID || !slices.Equal(r.DNSNames, []string{nodeID}) || len(r.IPAddresses)+len(r.EmailAddresses)+len(r.URIs) > 0 {
		t.Errorf("it asks for %s %q", r.Subject, r.DNSNames)
	}
	if a.SSLDir != filepath.Join(dir, "current", "ssl") {
		t.Errorf("ssldir %s", a.SSLDir)
	}
	if info, err := os.Stat(key); err != nil || hasModes && info.Mode().Perm() != 0o600 {
		t.Errorf("its key: %v %v", info, err)
	}
	if strings.Contains(string(encode(t, a)), "PRIVATE") {
		t.Error("the key leaves the machine")
	}
	tg = reopen(t, tg, nil)
	if again, _ := asked(t, tg); again.PublicKey != a.PublicKey {
		t.Error("asked again, it has another key")
	}

	// A configuration without a certificate leaves the key, and so does one that is refused.
	plain := body("plain")
	plain.Certificate, plain.Key = "", ""
	configure(t, tg, plain)
	_, other := ownRequest(t)
	was := atRest(t, tg)
	foreign := signed("foreign", other)
	if a := tg.Work(t.Context(), wire.StepConfigure, encode(t, foreign)); a.OK || !strings.Contains(a.Error, "none of this machine's own keys") || tg.Refusals()[ReasonPair] != 1 {
		t.Errorf("a certificate for another machine: %+v", a)
	}
	if d := cmp.Diff(was, tree(t, dir)); d != "" {
		t.Error(d)
	}
	secret := contents1(t, key)
	restart(t, tg, configure(t, tg, signed("one", r)))
	if got := contents1(t, filepath.Join(dir, currentDir, keyFile)); got != secret {
		t.Error("the configuration has another key than the request's")
	}
	if _, err := os.Stat(key); !os.IsNotExist(err) {
		t.Error("the key is kept beside the configuration that has it")
	}
	if row := below(tree(t, dir), currentDir)[keyFile]; hasModes && !strings.HasPrefix(row, "-rw------- ") {
		t.Errorf("its mode: %s", row)
	}

	// A helper may give the certificate again that it gave before; the next request has a new key.
	restart(t, tg, configure(t, tg, signed("two", r)))
	b, r2 := asked(t, tg)
	if b.PublicKey == a.PublicKey {
		t.Error("a new request has the key that is in use")
	}
	restart(t, tg, configure(t, tg, signed("three", r2)))
	if got := contents1(t, filepath.Join(dir, currentDir, keyFile)); got == secret {
		t.Error("the new certificate came with the old key")
	}
	// A helper that makes keys itself is served too.
	configure(t, tg, body("four"))
}

func contents1(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ownRequest is the request of another machine.
func ownRequest(t *testing.T) (wire.CSRAnswer, *x509.CertificateRequest) {
	return asked(t, open(t, config(folder(t))))
}

// TestKeyOfARequestThatDoesNotRead: another one is made.
func TestKeyOfARequestThatDoesNotRead(t *testing.T) {
	dir := folder(t)
	tg := open(t, config(dir))
	a, _ := asked(t, tg)
	for _, text := range []string{"", "nonsense", pairOf("leaf").cert} {
		if err := os.WriteFile(filepath.Join(dir, requestKeyFile), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		b, _ := asked(t, tg)
		if b.PublicKey == a.PublicKey {
			t.Error("the key came back")
		}
		a = b
	}
	// One that is in use already: a crash left it.
	restart(t, tg, configure(t, tg, body("one")))
	if err := os.WriteFile(filepath.Join(dir, requestKeyFile), []byte(pairOf("leaf").key), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, _ := asked(t, tg); strings.Contains(contents1(t, filepath.Join(dir, requestKeyFile)), pairOf("leaf").key) || b.PublicKey == a.PublicKey {
		t.Error("the key in use was taken for a request")
	}
	if err := os.Remove(filepath.Join(dir, requestKeyFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, requestKeyFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if a := tg.Work(t.Context(), wire.StepCSR, nil); a.OK || !a.Transient || tg.Refusals()[ReasonStorage] != 1 {
		t.Errorf("a folder in the key's place: %+v", a)
	}
}

func TestNamesInRequests(t *testing.T) {
	for id, want := range map[string]bool{nodeID: true, "web-1.example": true, "a_b": false, ".a": false, "a.": false, "-a": false, "a..b": false} {
		if dnsName(id) != want {
			t.Errorf("%s: %v", id, !want)
		}
	}
}

// TestCrashInARequestOfACertificate: a crash at each point leaves the configuration as it was, and a key or none.
func TestCrashInARequestOfACertificate(t *testing.T) {
	first := prepare(t, 1)
	var reached []string
	for _, point := range Points {
		if !strings.HasPrefix(point, "target.csr.") {
			continue
		}
		s := first.copy(t)
		crashed, _ := child(t, "csr", s.dir, "", point+"@1")
		if !crashed {
			t.Errorf("%s was not reached", point)
		}
		reached = append(reached, point)
		tg := open(t, config(s.dir))
		if !maps.Equal(below(tree(t, s.dir), currentDir), s.current) {
			t.Errorf("%s: the configuration changed", point)
		}
		_, r := asked(t, tg)
		configure(t, tg, signed("after", r))
	}
	if len(reached) == 0 {
		t.Error("no point")
	}
}
