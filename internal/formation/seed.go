package formation

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"pace-node/internal/wire"
)

// SRVService and SRVProto make, with a DNS suffix, the name at which a site's DNS names machines of its fleet.
const (
	SRVService = "pace"
	SRVProto   = "tcp"
)

// SRVName is the name that is asked for SRV records under a DNS suffix.
func SRVName(suffix string) string { return "_" + SRVService + "._" + SRVProto + "." + suffix }

// Origin is where a fleet was found. Lower is preferred when it is chosen whom to ask.
type Origin uint8

// Origins in the order of preference.
const (
	OriginSeed       Origin = iota // typed: --fleet-seed
	OriginRemembered               // the fleet's voters, kept after a join
	OriginSRV                      // DNS SRV
	OriginBeacon                   // a beacon's proof, or a pointer that was followed
)

// OriginRow is one row of the table of origins.
type OriginRow struct {
	Origin Origin
	Name   string
	Dialed int  // the order in which seeds are dialled, 0 for what is not a seed
	Wins   bool // a solitary fleet found here wins the tie-break whatever the ages
}

// Origins is the table of origins: preference by row, dial order by column.
var Origins = []OriginRow{
	{OriginSeed, "fleet-seed", 2, true},
	{OriginRemembered, "remembered", 1, false},
	{OriginSRV, "srv", 3, true},
	{OriginBeacon, "beacon", 0, false},
}

// Row returns the row of o; an unknown one ranks as a beacon, which anything on the segment can send.
func (o Origin) Row() OriginRow {
	for _, r := range Origins {
		if r.Origin == o {
			return r
		}
	}
	return OriginRow{Origin: o, Name: "unknown"}
}

// String returns the name of the origin.
func (o Origin) String() string { return o.Row().Name }

// Seed is an endpoint to ask for a fleet summary.
type Seed struct {
	Endpoint string // host:port, from ParseSeed
	Origin   Origin
}

// OrderSeeds returns the seeds in the order in which they are dialled: remembered, typed, SRV, each kept in its own order
// (SRV records come sorted by priority ascending, then weight descending). Of duplicates the earlier source stays. What is
// no seed's origin is left out.
func OrderSeeds(seeds ...Seed) []Seed {
	out := make([]Seed, 0, len(seeds))
	for _, s := range seeds {
		if s.Origin.Row().Dialed > 0 && s.Endpoint != "" {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Seed) int { return a.Origin.Row().Dialed - b.Origin.Row().Dialed })
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(s Seed) bool {
		key := seedKey(s.Endpoint)
		dup := seen[key]
		seen[key] = true
		return dup
	})
}

// seedKey is equal for two spellings of one endpoint: host names are equal whatever their case, and with the root's dot or
// without.
func seedKey(endpoint string) string {
	at := strings.LastIndexByte(endpoint, ':')
	if at < 0 {
		return strings.ToLower(endpoint)
	}
	return strings.ToLower(strings.TrimSuffix(endpoint[:at], ".") + endpoint[at:])
}

// SRVRecord is one answer of DNS.
type SRVRecord struct {
	Target           string // a host name; "." says that the service is not there
	Port             uint16
	Priority, Weight uint16
}

// SRVEndpoints are the endpoints of SRV records in the order in which they are asked: priority ascending, then weight
// descending, then by name. What cannot be dialled is left out, and what is beyond MaxSRV; left is how many those were.
func SRVEndpoints(records []SRVRecord) (endpoints []string, left int) {
	sorted := slices.Clone(records)
	slices.SortFunc(sorted, func(a, b SRVRecord) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Target, b.Target),
			cmp.Compare(a.Port, b.Port))
	})
	for _, r := range sorted {
		host := r.Target
		if trimmed := strings.TrimSuffix(host, "."); strings.Contains(trimmed, ".") {
			host = trimmed // a name of one label keeps the dot, or the resolver would search for it
		}
		endpoint, err := ParseSeed(host + ":" + strconv.Itoa(int(r.Port)))
		if err != nil || host == "." || len(endpoints) == MaxSRV {
			left++
			continue
		}
		endpoints = append(endpoints, endpoint)
	}
	return endpoints, left
}

// ParseSeed reads `<host>` or `<host>:<port>` and returns host:port; a host alone gets DefaultPort. Each refusal wraps its
// sentinel and shows the right form.
func ParseSeed(text string) (hostport string, err error) {
	if text == "" {
		return "", ErrSeedEmpty
	}
	refuse := func(err error) (string, error) { return "", fmt.Errorf("%w: %.80q", err, text) }
	switch {
	case strings.Contains(text, "://"):
		return refuse(ErrSeedScheme)
	case strings.ContainsAny(text, ",;"):
		return refuse(ErrSeedList)
	case strings.ContainsAny(text, "/\\?#"):
		return refuse(ErrSeedPath)
	case len(text) > MaxSeedText:
		return refuse(ErrSeedHost)
	}
	var host, port string
	hasPort := false
	if rest, ok := strings.CutPrefix(text, "["); ok {
		inner, after, closed := strings.Cut(rest, "]")
		if addr, err := netip.ParseAddr(inner); !closed || err != nil || !addr.Is6() {
			return refuse(ErrSeedBareIPv6)
		}
		host = "[" + inner + "]"
		if after != "" {
			if port, hasPort = strings.CutPrefix(after, ":"); !hasPort {
				return refuse(ErrSeedBareIPv6)
			}
		}
	} else {
		if strings.Count(text, ":") > 1 {
			return refuse(ErrSeedBareIPv6)
		}
		host, port, hasPort = strings.Cut(text, ":")
	}
	switch {
	case host == "":
		return refuse(ErrSeedNoHost)
	case len(host) > maxSeedHost:
		return refuse(ErrSeedHost)
	}
	if !hasPort {
		port = strconv.Itoa(DefaultPort)
	}
	n, err := strconv.ParseUint(port, 10, 64)
	switch {
	case err == nil && n == 0:
		return refuse(ErrSeedPortZero)
	case err != nil || n > 65535 || port[0] == '+' || port[0] == '0':
		return refuse(ErrSeedPort)
	}
	hostport = host + ":" + port
	if !wire.ValidEndpoint(hostport) {
		return refuse(ErrSeedHost)
	}
	if addr, ok := hostAddr(hostport); ok && addr.IsUnspecified() {
		return refuse(ErrSeedWildcard)
	}
	return hostport, nil
}

// splitHost returns the host of host:port without brackets.
func splitHost(endpoint string) string {
	at := strings.LastIndexByte(endpoint, ':')
	if at < 0 {
		return endpoint
	}
	return strings.TrimSuffix(strings.TrimPrefix(endpoint[:at], "["), "]")
}

// hostAddr returns the address of an endpoint whose host is one.
func hostAddr(endpoint string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(splitHost(endpoint))
	return addr.Unmap(), err == nil
}

// Unreachable reports whether an endpoint of another machine names loopback or the wildcard: whoever dials it reaches
// itself.
func Unreachable(endpoint string) bool {
	if addr, ok := hostAddr(endpoint); ok {
		return addr.IsLoopback() || addr.IsUnspecified()
	}
	host := strings.ToLower(strings.TrimSuffix(splitHost(endpoint), "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
