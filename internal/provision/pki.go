package provision

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// DefaultDeny are the patterns of names that no machine gets a certificate for. --provision-deny adds to them.
var DefaultDeny = []string{"*.privileged.*", "*.mcollective", "*.choria", "*.pace"}

// Bounds of a certificate request.
const (
	// MaxCSR bounds the request and the key in it: one with a key of 16,384 bits has 6 KiB.
	MaxCSR = 64 << 10
	// MaxDeny is how many bytes a pattern has: no host's name is longer than 253.
	MaxDeny = 255
)

// ValidateDeny refuses a pattern that could not mean what somebody typed: names are matched whole, * stands for any run of
// characters, and upper and lower case are the same.
func ValidateDeny(pattern string) error {
	switch {
	case pattern == "":
		return errors.New("a pattern must not be empty: give one such as *.internal")
	case len(pattern) > MaxDeny:
		return fmt.Errorf("a pattern has at most %d bytes", MaxDeny)
	case !wire.ValidText(pattern) || strings.ContainsAny(pattern, " \t"):
		return fmt.Errorf("the pattern %s holds a blank or a control character", quote(pattern))
	}
	return nil
}

// denied returns the pattern that a name matches, "" if none does.
func denied(name string, patterns ...[]string) string {
	name = strings.ToLower(strings.TrimSuffix(name, ".")) // a name with the root's dot is the same name
	for _, list := range patterns {
		for _, pattern := range list {
			if glob(strings.ToLower(pattern), name) {
				return pattern
			}
		}
	}
	return ""
}

// glob matches a whole name. Its time is at most the product of the lengths.
func glob(pattern, name string) bool {
	p, n, star, mark := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, n
			p++
		case p < len(pattern) && pattern[p] == name[n]:
			p++
			n++
		case star >= 0:
			mark++
			p, n = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// csrFacts is a request as it was read.
type csrFacts struct {
	id     string
	answer wire.CSRAnswer
	deny   []string

	block   *pem.Block // nil: not PEM
	rest    []byte
	request *x509.CertificateRequest // nil: it does not read
	names   []string
	strange bool // it asks for a name of a kind that cannot be read
}

func readCSR(id string, answer wire.CSRAnswer, deny []string) csrFacts {
	f := csrFacts{id: id, answer: answer, deny: deny}
	if len(answer.CSR) > MaxCSR || len(answer.PublicKey) > MaxCSR {
		return f
	}
	f.block, f.rest = pem.Decode([]byte(answer.CSR))
	if f.block == nil || f.block.Type != "CERTIFICATE REQUEST" {
		return f
	}
	request, err := x509.ParseCertificateRequest(f.block.Bytes)
	if err != nil {
		return f
	}
	f.request = request
	for _, n := range request.Subject.Names {
		if n.Type.Equal(oidCommonName) {
			text, ok := n.Value.(string)
			f.strange = f.strange || !ok
			f.names = append(f.names, text)
		}
	}
	f.names = append(append(f.names, request.DNSNames...), request.EmailAddresses...)
	for _, a := range request.IPAddresses {
		f.names = append(f.names, a.String())
	}
	for _, u := range request.URIs {
		f.names = append(f.names, u.String(), u.Hostname())
	}
	f.strange = f.strange || strangeNames(request)
	return f
}

var (
	oidCommonName     = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidSubjectAltName = asn1.ObjectIdentifier{2, 5, 29, 17}
)

// readNames are the kinds of alternative names that are read above, by their tag in RFC 5280.
var readNames = map[int]bool{1: true, 2: true, 6: true, 7: true} // e-mail, host, URI, IP address

// strangeNames reports whether a request asks for an alternative name of a kind that nobody has looked at here.
func strangeNames(r *x509.CertificateRequest) bool {
	for _, e := range r.Extensions {
		if !e.Id.Equal(oidSubjectAltName) {
			continue
		}
		var list asn1.RawValue
		if rest, err := asn1.Unmarshal(e.Value, &list); err != nil || len(rest) > 0 || !list.IsCompound {
			return true
		}
		for rest := list.Bytes; len(rest) > 0; {
			var name asn1.RawValue
			var err error
			if rest, err = asn1.Unmarshal(rest, &name); err != nil || name.Class != asn1.ClassContextSpecific || !readNames[name.Tag] {
				return true
			}
		}
	}
	return false
}

// csrCheck is one row of what a certificate request must not be; Bad returns the sentence, "" if it passes.
type csrCheck struct {
	Name      string
	Permanent bool // the machine would ask for the same again
	Bad       func(f csrFacts) string
}

// csrChecks is asked in order. What is broken may be the moment's fault; what is asked for and must not be had is not.
var csrChecks = []csrCheck{
	{"size", false, func(f csrFacts) string {
		return when(len(f.answer.CSR) > MaxCSR || len(f.answer.PublicKey) > MaxCSR, fmt.Sprintf("it is larger than %d bytes", MaxCSR))
	}},
	{"pem", false, func(f csrFacts) string {
		return when(f.block == nil || f.block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(f.rest)) > 0, "it is not one PEM block CERTIFICATE REQUEST")
	}},
	{"form", false, func(f csrFacts) string { return when(f.request == nil, "what is in its PEM is no certificate request") }},
	{"signature", false, func(f csrFacts) string {
		return when(f.request.CheckSignature() != nil, "it is not signed by the key that it asks for")
	}},
	{"key", false, func(f csrFacts) string {
		return when(!samePublicKey(f.answer.PublicKey, f.request), "its public key is not the one that was given beside it")
	}},
	{"strange names", true, func(f csrFacts) string {
		return when(f.strange, "it asks for a name of a kind that cannot be judged")
	}},
	{"common name", true, func(f csrFacts) string {
		n := 0
		for _, a := range f.request.Subject.Names {
			if a.Type.Equal(oidCommonName) {
				n++
			}
		}
		return when(n != 1 || f.request.Subject.CommonName != f.id, fmt.Sprintf("its common name is %s and must be the machine's id %s", quote(f.request.Subject.CommonName), quote(f.id)))
	}},
	{"denied", true, func(f csrFacts) string {
		for _, name := range f.names {
			if pattern := denied(name, DefaultDeny, f.deny); pattern != "" {
				return fmt.Sprintf("it asks for the name %s, which the pattern %s denies (--provision-deny)", quote(name), quote(pattern))
			}
		}
		return ""
	}},
}

func when(bad bool, text string) string {
	if bad {
		return text
	}
	return ""
}

func samePublicKey(text string, r *x509.CertificateRequest) bool {
	block, _ := pem.Decode([]byte(text))
	return block != nil && block.Type == "PUBLIC KEY" && bytes.Equal(block.Bytes, r.RawSubjectPublicKeyInfo)
}

// csr asks a machine for a certificate request and judges it.
func (p *Provisioner) csr(r *run) *stepFailure {
	if !r.cfg.PKI {
		return nil
	}
	raw, f := p.ask1(r, queue.StageCSR, struct{}{})
	if f != nil {
		return f
	}
	var answer wire.CSRAnswer
	if err := json.Unmarshal(raw, &answer); err != nil {
		return &stepFailure{text: "its certificate request cannot be used: the answer is of another shape"}
	}
	facts := readCSR(r.job.ID, answer, r.cfg.Deny)
	for _, c := range csrChecks {
		if why := c.Bad(facts); why != "" {
			return &stepFailure{text: "its certificate request cannot be used: " + why, permanent: c.Permanent}
		}
	}
	r.csr = &HelperCSR{CSR: answer.CSR, PublicKey: answer.PublicKey, SSLDir: wire.Printable(answer.SSLDir)}
	return nil
}
