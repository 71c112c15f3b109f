package netio

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
)

const (
	// maxSuffix is the longest DNS suffix, in bytes: a name of 253 less the service's own labels.
	maxSuffix = 253 - len("_service._tcp.")
	// maxSuffixFile bounds what is read of a resolver's configuration, in bytes; real ones have a few hundred.
	maxSuffixFile = 64 << 10
	// multicastSuffix is multicast DNS's (RFC 6762): no name server is asked under it. A longer name that ends in it is a
	// site's own.
	multicastSuffix = "local"
)

// SRV is one service record.
type SRV struct {
	Target           string // with the root's dot
	Port             uint16
	Priority, Weight uint16
}

// LookupSRV asks the system's resolver for the records of a service under this machine's own DNS suffix. An empty suffix:
// the machine has none, and nobody was asked. A name without such records is no error.
func LookupSRV(ctx context.Context, service, proto string) (suffix string, records []SRV, err error) {
	if suffix = DNSSuffix(ctx); suffix == "" {
		return "", nil, nil
	}
	records, err = lookupSRV(ctx, net.DefaultResolver, service, proto, suffix)
	return suffix, records, err
}

func lookupSRV(ctx context.Context, r *net.Resolver, service, proto, suffix string) ([]SRV, error) {
	// With the root's dot: the name is whole, and is searched for nowhere else.
	_, found, err := r.LookupSRV(ctx, service, proto, suffix+".")
	var dns *net.DNSError
	switch {
	case len(found) > 0: // an error beside records tells of others that hold no name
	case errors.As(err, &dns) && dns.IsNotFound:
		return nil, nil
	case err != nil:
		return nil, err
	}
	out := make([]SRV, 0, len(found))
	for _, f := range found {
		out = append(out, SRV{Target: f.Target, Port: f.Port, Priority: f.Priority, Weight: f.Weight})
	}
	return out, nil
}

// plainSuffix is a suffix as it is asked under: without the dots around it. ok is false for what is none: the root,
// multicast DNS's, or no name at all.
func plainSuffix(text string) (suffix string, ok bool) {
	suffix = strings.Trim(text, ".")
	if suffix == "" || len(suffix) > maxSuffix || strings.EqualFold(suffix, multicastSuffix) {
		return "", false
	}
	for label := range strings.SplitSeq(suffix, ".") {
		if label == "" || len(label) > 63 {
			return "", false
		}
		for _, c := range []byte(label) {
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
				return "", false
			}
		}
	}
	return suffix, true
}

// firstSuffix is the first of several that is one.
func firstSuffix(list ...string) string {
	for _, text := range list {
		if suffix, ok := plainSuffix(text); ok {
			return suffix
		}
	}
	return ""
}

// resolvSuffix reads the text of a resolv.conf: the first domain of its last `search` or `domain` line, for the last one
// wins; without one the domain of the host's own name, as the system's resolver does it.
func resolvSuffix(text, host string) string {
	var list []string
	found := false
	lines := bufio.NewScanner(strings.NewReader(text[:min(len(text), maxSuffixFile)]))
	for lines.Scan() {
		line, _, _ := strings.Cut(lines.Text(), "#")
		line, _, _ = strings.Cut(line, ";")
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "search" && f[0] != "domain" {
			continue
		}
		found, list = true, f[1:]
		if f[0] == "domain" {
			list = f[1:2]
		}
	}
	if found {
		return firstSuffix(list...)
	}
	_, domain, _ := strings.Cut(host, ".")
	return firstSuffix(domain)
}

// scutilSuffix reads what macOS's `scutil --dns` prints: the search domains of the first resolver, which is the primary
// service's, then its domain. Those for scoped queries and for multicast DNS come after it.
func scutilSuffix(text string) string {
	var search []string
	domain := ""
	inFirst := false
	lines := bufio.NewScanner(strings.NewReader(text[:min(len(text), maxSuffixFile)]))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if strings.HasPrefix(line, "resolver #") {
			if inFirst {
				break
			}
			inFirst = true
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		if !ok || !inFirst {
			continue
		}
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case strings.HasPrefix(key, "search domain["):
			search = append(search, value)
		case key == "domain":
			domain = value
		case key == "options" && strings.Contains(value, "mdns"):
			return ""
		}
	}
	return firstSuffix(append(search, domain)...)
}

// adapterSuffix is the connection's own suffix of one Windows adapter.
type adapterSuffix struct {
	Name, Suffix string
	Up           bool
}

// windowsSuffixes is what Windows keeps of its DNS suffixes. Lists are separated by commas or spaces.
type windowsSuffixes struct {
	PolicyList   string // of the group policy: it replaces everything else
	List         string // of the advanced TCP/IP settings: the same
	Primary      string // of the domain that the machine is joined to
	Adapters     []adapterSuffix
	DefaultRoute string // adapter that has it, or empty
}

// windowsSuffixRows are the places in the order in which Windows itself takes them.
var windowsSuffixRows = []struct {
	About string
	From  func(w *windowsSuffixes) []string
}{
	{"the policy's search list", func(w *windowsSuffixes) []string { return splitSuffixes(w.PolicyList) }},
	{"the machine's search list", func(w *windowsSuffixes) []string { return splitSuffixes(w.List) }},
	{"the primary suffix", func(w *windowsSuffixes) []string { return []string{w.Primary} }},
	{"the connection with the default route", func(w *windowsSuffixes) []string {
		return adapterSuffixes(w, func(a adapterSuffix) bool { return a.Up && a.Name == w.DefaultRoute })
	}},
	{"any other connection", func(w *windowsSuffixes) []string {
		return adapterSuffixes(w, func(a adapterSuffix) bool { return a.Up })
	}},
}

func (w *windowsSuffixes) suffix() string {
	for _, row := range windowsSuffixRows {
		if s := firstSuffix(row.From(w)...); s != "" {
			return s
		}
	}
	return ""
}

func splitSuffixes(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

func adapterSuffixes(w *windowsSuffixes, fits func(adapterSuffix) bool) (out []string) {
	for _, a := range w.Adapters {
		if fits(a) {
			out = append(out, a.Suffix)
		}
	}
	return out
}
