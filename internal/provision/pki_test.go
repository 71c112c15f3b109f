package provision

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

var csrKey, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)

// request makes a certificate request as a machine would, with what change makes of it.
func request(change func(*x509.CertificateRequest)) wire.CSRAnswer {
	template := x509.CertificateRequest{Subject: pkix.Name{CommonName: "m1"}, DNSNames: []string{"m1"}}
	if change != nil {
		change(&template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &template, csrKey)
	if err != nil {
		panic(err)
	}
	public, err := x509.MarshalPKIXPublicKey(csrKey.Public())
	if err != nil {
		panic(err)
	}
	return wire.CSRAnswer{CSR: pemText("CERTIFICATE REQUEST", der), PublicKey: pemText("PUBLIC KEY", public), SSLDir: "/var/lib/pace-node/provisioned/current/ssl"}
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// altNames makes an extension of alternative names by hand, as no library would.
func altNames(names ...asn1.RawValue) func(*x509.CertificateRequest) {
	return func(r *x509.CertificateRequest) {
		value, err := asn1.Marshal(names)
		if err != nil {
			panic(err)
		}
		r.DNSNames, r.ExtraExtensions = nil, []pkix.Extension{{Id: oidSubjectAltName, Value: value}}
	}
}

// judgeCSR is the check that refuses a request, "" if none does.
func judgeCSR(a wire.CSRAnswer, deny ...string) (name, why string) {
	f := readCSR("m1", a, deny)
	for _, c := range csrChecks {
		if why := c.Bad(f); why != "" {
			return c.Name, why
		}
	}
	return "", ""
}

// checkCSRs writes out which requests are refused, and by what; each that is refused by a check also has what later ones refuse.
func checkCSRs() error {
	good := request(nil)
	with := func(a wire.CSRAnswer, change func(*wire.CSRAnswer)) wire.CSRAnswer { change(&a); return a }
	_, other, _ := ed25519.GenerateKey(rand.Reader)
	otherPublic, _ := x509.MarshalPKIXPublicKey(other.Public())
	der, _ := pem.Decode([]byte(good.CSR))
	unsigned := slices.Clone(der.Bytes)
	unsigned[len(unsigned)-1] ^= 1
	bad := request(func(r *x509.CertificateRequest) {
		r.Subject.CommonName, r.DNSNames = "root.pace", []string{"a.choria"}
	})
	two := func(r *x509.CertificateRequest) {
		r.Subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: oidCommonName, Value: "m1"}, {Type: oidCommonName, Value: "m1"}}
	}
	for _, c := range []struct {
		name   string
		answer wire.CSRAnswer
		deny   []string
		want   string
	}{
		{"good", good, nil, ""},
		{"without alternative names", request(func(r *x509.CertificateRequest) { r.DNSNames = nil }), nil, ""},
		{"large", with(good, func(a *wire.CSRAnswer) { a.CSR = strings.Repeat("x", MaxCSR+1) }), nil, "size"},
		{"large key", with(bad, func(a *wire.CSRAnswer) { a.PublicKey = strings.Repeat("x", MaxCSR+1) }), nil, "size"},
		{"nothing", wire.CSRAnswer{}, nil, "pem"},
		{"no PEM", with(good, func(a *wire.CSRAnswer) { a.CSR = "-----BEGIN CERTIFICATE REQUEST-----\n%%%" }), nil, "pem"},
		{"cut", with(good, func(a *wire.CSRAnswer) { a.CSR = a.CSR[:len(a.CSR)/2] }), nil, "pem"},
		{"another block", with(bad, func(a *wire.CSRAnswer) { a.CSR = pemText("CERTIFICATE", der.Bytes) }), nil, "pem"},
		{"two blocks", with(good, func(a *wire.CSRAnswer) { a.CSR += a.CSR }), nil, "pem"},
		{"another form", with(good, func(a *wire.CSRAnswer) { a.CSR = pemText("CERTIFICATE REQUEST", []byte("nonsense")) }), nil, "form"},
		{"not signed by its key", with(good, func(a *wire.CSRAnswer) {
			a.CSR, a.PublicKey = pemText("CERTIFICATE REQUEST", unsigned), ""
		}), nil, "signature"},
		{"another key", with(bad, func(a *wire.CSRAnswer) { a.PublicKey = pemText("PUBLIC KEY", otherPublic) }), nil, "key"},
		{"no key", with(good, func(a *wire.CSRAnswer) { a.PublicKey = "" }), nil, "key"},
		{"key as another block", with(good, func(a *wire.CSRAnswer) { a.PublicKey = strings.ReplaceAll(a.PublicKey, "PUBLIC", "PRIVATE") }), nil, "key"},
		{"other name", request(func(r *x509.CertificateRequest) {
			altNames(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 8, Bytes: []byte{42}})(r)
			r.Subject.CommonName = "root.pace"
		}), nil, "strange names"},
		{"broken names", request(func(r *x509.CertificateRequest) {
			r.DNSNames, r.ExtraExtensions = nil, []pkix.Extension{{Id: oidSubjectAltName, Value: []byte{0x30, 0x05, 0x82}}}
		}), nil, "form"}, // the library refuses it already
		{"another common name", request(func(r *x509.CertificateRequest) {
			r.Subject.CommonName, r.DNSNames = "m2", []string{"x.pace"}
		}), nil, "common name"},
		{"no common name", request(func(r *x509.CertificateRequest) { r.Subject.CommonName = "" }), nil, "common name"},
		{"two common names", request(two), nil, "common name"},
		{"host denied", request(func(r *x509.CertificateRequest) { r.DNSNames = []string{"m1", "a.privileged.b"} }), nil, "denied"},
		{"in capitals, with the root's dot", request(func(r *x509.CertificateRequest) { r.DNSNames = []string{"Box.CHORIA."} }), nil, "denied"},
		{"e-mail denied", request(func(r *x509.CertificateRequest) { r.EmailAddresses = []string{"root@x.mcollective"} }), nil, "denied"},
		{"address denied", request(func(r *x509.CertificateRequest) { r.IPAddresses = []net.IP{net.IPv4(10, 1, 2, 3)} }), []string{"10.*"}, "denied"},
		{"host of a URI denied", request(func(r *x509.CertificateRequest) {
			r.URIs = []*url.URL{{Scheme: "https", Host: "x.pace:8443", Path: "/a"}}
		}), nil, "denied"},
		{"by an added pattern", good, []string{"*.lan", "m?", "M1"}, "denied"},
		{"by all", good, []string{"*"}, "denied"},
		{"beside the patterns", request(func(r *x509.CertificateRequest) {
			r.DNSNames = []string{"m1", "privileged.a", "pace", "a.pace.b", "choria.example"}
		}), []string{"*.lan", "m2", "m"}, ""},
	} {
		if got, why := judgeCSR(c.answer, c.deny...); got != c.want {
			return fmt.Errorf("%s: refused by %q (%s), want %q", c.name, got, why, c.want)
		}
	}
	permanent := map[string]bool{"size": false, "pem": false, "form": false, "signature": false, "key": false, "strange names": true, "common name": true, "denied": true}
	for _, c := range csrChecks {
		if want, ok := permanent[c.Name]; !ok || want != c.Permanent {
			return fmt.Errorf("%s is permanent: %v", c.Name, c.Permanent)
		}
	}
	return nil
}

func TestCSRChecks(t *testing.T) {
	if err := checkCSRs(); err != nil {
		t.Error(err)
	}
}

func TestMutationCSRChecks(t *testing.T) {
	rows := csrChecks
	defer func() { csrChecks = rows }()
	for i, r := range rows {
		for what, change := range map[string]func(*csrCheck){
			"permanent": func(c *csrCheck) { c.Permanent = !r.Permanent },
			"left out":  func(c *csrCheck) { c.Bad = func(csrFacts) string { return "" } },
			"always":    func(c *csrCheck) { c.Bad = func(csrFacts) string { return "x" } },
		} {
			if what == "left out" && r.Name == "form" {
				continue // what comes after it reads what it found
			}
			csrChecks = slices.Clone(rows)
			change(&csrChecks[i])
			func() {
				defer func() { _ = recover() }() // a check that is left out may be what keeps the next one from what is not there
				if checkCSRs() == nil {
					t.Errorf("the row %q %s goes unseen", r.Name, what)
				}
			}()
		}
	}
}

func TestDenyPatterns(t *testing.T) {
	if want := []string{"*.privileged.*", "*.mcollective", "*.choria", "*.pace"}; !slices.Equal(DefaultDeny, want) {
		t.Errorf("denied by default: %q, want %q", DefaultDeny, want)
	}
	for pattern, want := range map[string]string{"*.internal": "", "": "empty", "a b": "blank", "a\tb": "blank", strings.Repeat("x", 256): "255"} {
		if err := ValidateDeny(pattern); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", pattern, err, want)
		}
		c := Config{Deny: []string{pattern}}
		if err := c.Complete(); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), "--provision-deny=") {
			t.Errorf("%q at the start: %v", pattern, err)
		}
	}
}

// TestPropertyGlob holds the matcher against the plain meaning of a pattern.
func TestPropertyGlob(t *testing.T) {
	var plain func(p, n string) bool
	plain = func(p, n string) bool {
		switch {
		case p == "":
			return n == ""
		case p[0] == '*':
			return plain(p[1:], n) || n != "" && plain(p, n[1:])
		}
		return n != "" && p[0] == n[0] && plain(p[1:], n[1:])
	}
	rapid.Check(t, func(r *rapid.T) {
		p, n := rapid.StringMatching(`[ab.*]{0,8}`).Draw(r, "pattern"), rapid.StringMatching(`[ab.]{0,8}`).Draw(r, "name")
		if glob(p, n) != plain(p, n) {
			r.Fatalf("%q %q", p, n)
		}
	})
	if glob(strings.Repeat("*a", 10_000)+"b", strings.Repeat("a", 10_000)) {
		t.Error("matched")
	}
}

func FuzzCSR(f *testing.F) {
	good := request(nil)
	f.Add(good.CSR, good.PublicKey)
	block, _ := pem.Decode([]byte(request(altNames(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 4, IsCompound: true, Bytes: []byte{0x30, 0}})).CSR))
	f.Add(pemText("CERTIFICATE REQUEST", block.Bytes), "")
	f.Fuzz(func(t *testing.T, csr, public string) {
		if name, why := judgeCSR(wire.CSRAnswer{CSR: csr, PublicKey: public}); name == "" {
			facts := readCSR("m1", wire.CSRAnswer{CSR: csr, PublicKey: public}, nil)
			if facts.request.Subject.CommonName != "m1" {
				t.Errorf("%+v", facts.names)
			}
		} else if !printable(why) {
			t.Errorf("%q", why)
		}
	})
}

// TestPKIInTheCycle: the request comes after the inventory, under a lease, and the helper reads it.
func TestPKIInTheCycle(t *testing.T) {
	denied := request(func(r *x509.CertificateRequest) { r.Subject.CommonName, r.DNSNames = "a", []string{"x.pace"} })
	ok := request(func(r *x509.CertificateRequest) { r.Subject.CommonName, r.DNSNames = "a", []string{"a"} })
	raw := func(a any) wire.WorkAnswer { b, _ := json.Marshal(a); return wire.WorkAnswer{OK: true, Body: b} }
	for _, c := range []struct {
		name   string
		answer wire.WorkAnswer
		state  queue.State
		say    string
	}{
		{"good", raw(ok), queue.StateHeld, ""},
		{"denied", raw(denied), queue.StateParked, `it asks for the name "x.pace", which the pattern "*.pace" denies (--provision-deny)`},
		{"broken", raw(wire.CSRAnswer{CSR: "-----BEGIN CERTIFICATE REQUEST-----\nMII\x1b[2J"}), queue.StateBackingOff, "it is not one PEM block CERTIFICATE REQUEST"},
		{"another shape", raw([]int{1}), queue.StateBackingOff, "the answer is of another shape"},
		{"an older machine", wire.WorkAnswer{Error: "no such step"}, queue.StateParked, "csr failed there: no such step"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, Config{Workers: 2, Default: trivial, PKI: true})
				defer f.close()
				f.add("a", func(m *machine) { m.csr = &c.answer })
				f.p.Lead(true)
				time.Sleep(time.Second)
				synctest.Wait()
				if e := f.state("a"); e.State != c.state && !(c.state == queue.StateHeld && e.State == queue.StateConfirmed) || !strings.Contains(e.LastError, c.say) || !printable(e.LastError) {
					t.Fatalf("%s: %q, want %s: %q", e.State, e.LastError, c.state, c.say)
				}
				want := []string{"inventory", "csr"}
				if c.say == "" {
					want = append(want, "configure", "restart")
					f.want("provisioned_total", "", 1)
				} else {
					f.want("errors_total", "csr", 1)
				}
				if log := f.get("a").log; !slices.Equal(log, want) {
					t.Errorf("steps %v, want %v", log, want)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // off by default
		f := newFleet(t, Config{Workers: 2, Default: trivial})
		defer f.close()
		f.add("a")
		f.p.Lead(true)
		f.provisioned(1, time.Second)
		if log := f.get("a").log; slices.Contains(log, "csr") {
			t.Error(log)
		}
	})
}
