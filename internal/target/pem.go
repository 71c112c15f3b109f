package target

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
)

const certificateType = "CERTIFICATE"

// keyTypes are the PEM types of a private key, and how each is read.
var keyTypes = []struct {
	Type string
	Read func(der []byte) (any, error)
}{
	{"PRIVATE KEY", x509.ParsePKCS8PrivateKey},
	{"EC PRIVATE KEY", func(der []byte) (any, error) { return x509.ParseECPrivateKey(der) }},
	{"RSA PRIVATE KEY", func(der []byte) (any, error) { return x509.ParsePKCS1PrivateKey(der) }},
}

// parametersType stands before a key that openssl made; it says nothing that the key does not.
const parametersType = "EC PARAMETERS"

// blocks reads every block of a PEM text. A block that is cut or garbled is an error: the decoder would pass over it.
// Other text between blocks is passed over, as programs that write bundles put names there.
func blocks(text string) (out []*pem.Block, whole bool) {
	rest := []byte(text)
	for {
		b, r := pem.Decode(rest)
		if b == nil {
			break
		}
		out, rest = append(out, b), r
	}
	return out, strings.Count(text, "-----BEGIN ") == len(out) && strings.Count(text, "-----END ") == len(out)
}

// certificates reads a text of certificates; why says what is wrong with it. The text itself is never part of why.
func certificates(text string) (out []*x509.Certificate, why string) {
	all, whole := blocks(text)
	switch {
	case len(all) == 0:
		return nil, "is not PEM"
	case !whole:
		return nil, "holds a PEM block that is cut or garbled"
	}
	for i, b := range all {
		if b.Type != certificateType {
			return nil, fmt.Sprintf("holds a block %s where only certificates belong", shown(b.Type))
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			return nil, fmt.Sprintf("holds a block, number %d, that is no certificate", i+1)
		}
		out = append(out, c)
	}
	return out, ""
}

// privateKey reads a text with one private key. Errors of the decoders are not passed on: no byte of a key is shown.
func privateKey(text string) (key crypto.Signer, why string) {
	all, whole := blocks(text)
	switch {
	case len(all) == 0:
		return nil, "is not PEM"
	case !whole:
		return nil, "holds a PEM block that is cut or garbled"
	}
	all = slices.DeleteFunc(all, func(b *pem.Block) bool { return b.Type == parametersType })
	if len(all) != 1 {
		return nil, fmt.Sprintf("holds %d keys and must hold one", len(all))
	}
	b := all[0]
	if b.Type == "ENCRYPTED PRIVATE KEY" || b.Headers["DEK-Info"] != "" {
		return nil, "is encrypted, and this machine has no passphrase for it"
	}
	for _, t := range keyTypes {
		if t.Type != b.Type {
			continue
		}
		k, err := t.Read(b.Bytes)
		signer, ok := k.(crypto.Signer)
		if err != nil || !ok {
			return nil, "is not a private key that signs"
		}
		return signer, ""
	}
	return nil, fmt.Sprintf("is a block %s and no private key", shown(b.Type))
}

func checkCertificates(name, text string) string {
	if text == "" {
		return ""
	}
	if _, why := certificates(text); why != "" {
		return fmt.Sprintf("the key %q %s", name, why)
	}
	return ""
}

func checkKey(text string) string {
	if text == "" {
		return ""
	}
	if _, why := privateKey(text); why != "" {
		return `the key "key" ` + why
	}
	return ""
}

// checkPair wants both or neither, and that they belong together.
func checkPair(certificate, key string) string {
	switch {
	case certificate == "" && key == "":
		return ""
	case key == "":
		return `there is a "certificate" and no "key" for it: give both or neither`
	case certificate == "":
		return `there is a "key" and no "certificate" for it: give both or neither`
	}
	chain, why := certificates(certificate)
	if why != "" {
		return `the key "certificate" ` + why
	}
	private, why := privateKey(key)
	if why != "" {
		return `the key "key" ` + why
	}
	if !belong(private, chain[0]) {
		return `the keys "key" and "certificate" do not belong together: the first certificate must be the key's own`
	}
	return ""
}

// belong reports whether a certificate is for a key.
func belong(key crypto.Signer, c *x509.Certificate) bool {
	public, ok := key.Public().(interface{ Equal(crypto.PublicKey) bool })
	return ok && public.Equal(c.PublicKey)
}
