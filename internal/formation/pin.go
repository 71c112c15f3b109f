package formation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"pace-node/internal/identity"
)

// Pin names the one fleet that a machine may join: its id, and the keys of its voters.
type Pin struct {
	Cluster string               // 32 lowercase hex
	Keys    []identity.PublicKey // 1..MaxPinKeys, none twice
}

// Admits reports whether p admits a fleet: there is no pin, or the id is equal (whole, case-sensitive) and one of the
// signers is among the keys. A pin and no signer is refused.
func (p *Pin) Admits(cluster string, signers ...identity.PublicKey) bool {
	if p == nil {
		return true
	}
	return p.Cluster == cluster && slices.ContainsFunc(signers, p.Holds)
}

// Holds reports whether key is one of the pinned keys.
func (p *Pin) Holds(key identity.PublicKey) bool {
	return p != nil && !key.IsZero() && slices.Contains(p.Keys, key)
}

// Way is a way into a fleet at which the pin is asked. After the join it is never asked: the fleet's applied state is the
// authority then.
type Way uint8

// Ways in.
const (
	WaySummary  Way = iota + 1 // the summary that is yielded to: by the key that spoke it
	WayAnswer                  // every enrollment answer: by the key that signed it
	WayRedirect                // whom a redirect, or the target's endpoint, leads to: by the key that answers there
	WayDissolve                // a dissolve order: by the key that signed it
	WayRecord                  // the record at every start: by the key that signed the admission
)

// WayRow is one row of the table of ways in.
type WayRow struct {
	Way   Way
	Name  string
	Asked bool
}

// Ways is the table of ways in.
var Ways = []WayRow{
	{WaySummary, "summary", true},
	{WayAnswer, "answer", true},
	{WayRedirect, "redirect", true},
	{WayDissolve, "dissolve", true},
	{WayRecord, "record", true},
}

// lets reports whether p lets this machine into a fleet by a way: it is not asked there, or it admits.
func (p *Pin) lets(w Way, cluster string, signers ...identity.PublicKey) bool {
	for _, r := range Ways {
		if r.Way == w && !r.Asked {
			return true
		}
	}
	return p.Admits(cluster, signers...)
}

// String returns the text that ParsePin reads, empty for no pin.
func (p *Pin) String() string {
	if p == nil {
		return ""
	}
	keys := make([]string, len(p.Keys))
	for i, k := range p.Keys {
		keys[i] = k.String()
	}
	return p.Cluster + "@" + strings.Join(keys, ",")
}

// ParsePin reads `<cluster-id>@<key>[,<key>…]`. Each refusal has its own sentence and wraps its sentinel.
func ParsePin(text string) (*Pin, error) {
	cluster, list, found := strings.Cut(text, "@")
	if !found || list == "" {
		return nil, fmt.Errorf("%w: %.80q", ErrPinNoKey, text)
	}
	if !identity.ValidMintedID(cluster) {
		if identity.ValidMintedID(strings.ToLower(cluster)) {
			return nil, fmt.Errorf("%w: %.80q", ErrPinUpperCase, cluster)
		}
		return nil, fmt.Errorf("%w: it has %d characters: %.80q", ErrPinCluster, len(cluster), cluster)
	}
	if strings.Count(list, ",") >= MaxPinKeys {
		return nil, fmt.Errorf("%w, and this one names %d", ErrPinTooMany, strings.Count(list, ",")+1)
	}
	p := &Pin{Cluster: cluster}
	for at, part := range strings.Split(list, ",") {
		key, err := identity.ParsePublicKey(part)
		if err != nil {
			return nil, fmt.Errorf("%w: the %s one, %.80q: %w", ErrPinKey, ordinal(at+1), part, err)
		}
		if slices.Contains(p.Keys, key) {
			return nil, fmt.Errorf("%w: %s", ErrPinRepeated, key)
		}
		p.Keys = append(p.Keys, key)
	}
	return p, nil
}

func ordinal(n int) string {
	switch n {
	case 1:
		return "1st"
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return fmt.Sprintf("%dth", n)
}

// Sentinels of this package.
var (
	ErrPinNoKey     = errors.New("a pin is <cluster-id>@<key>[,<key>…], and this names no key: a cluster id alone is a name that every beacon carries; paste the line `fleet-id` of `pacectl node` on a voter")
	ErrPinUpperCase = errors.New("a pin's cluster id is lower case; paste it as `pacectl node` prints it")
	ErrPinCluster   = errors.New("a pin's cluster id is 32 lowercase hex digits; paste it whole, as `pacectl node` prints it")
	ErrPinTooMany   = errors.New("a pin names at most 16 keys; name the voters' only")
	ErrPinKey       = errors.New("a pin's keys are 43 characters each, separated by commas")
	ErrPinRepeated  = errors.New("a pin names each key once, and this one comes twice")

	ErrSeedEmpty    = errors.New("a seed is <host> or <host>:<port>, and this one is empty; leave the flag out to name none")
	ErrSeedNoHost   = errors.New("a seed is <host> or <host>:<port>, and this one names no host")
	ErrSeedPortZero = errors.New("a seed's port is 1 to 65535, and 0 is no port that anybody answers at")
	ErrSeedPort     = errors.New("a seed's port is a number from 1 to 65535, as in office-a:6674")
	ErrSeedBareIPv6 = errors.New("an IPv6 seed stands in brackets, as in [fd00:1::1]:6674")
	ErrSeedScheme   = errors.New("a seed has no scheme: <host> or <host>:<port>, as in office-a:6674")
	ErrSeedPath     = errors.New("a seed has no path: <host> or <host>:<port>, as in office-a:6674")
	ErrSeedList     = errors.New("a seed is one machine: repeat the flag for each")
	ErrSeedHost     = errors.New("a seed's host is a name or an address, as in office-a:6674 or 10.1.0.2:6674")
	ErrSeedWildcard = errors.New("a seed names one machine, and the wildcard address names none")
)
