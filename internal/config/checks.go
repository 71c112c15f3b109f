package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/release"
	"pace-node/internal/wire"
)

// Bounds of texts, in bytes. Name and labels travel in an Announce of at most 16 KiB.
const (
	maxName       = 64
	maxLabelKey   = 64
	maxLabelValue = 256
	maxLabels     = 32
	maxText       = 4096
	maxAllow      = 64 // networks; all of them stand in each rule's command line
)

// What is wrong with a value. Each says the right form.
var (
	errEmpty      = errors.New("it is empty; leave it out to have the default")
	errControl    = errors.New("it holds a control character, or is not UTF-8")
	errQuote      = errors.New(`it holds a quotation mark: on Windows a backslash before the closing quote does that; leave the last backslash out`)
	errTooLong    = errors.New("it is too long")
	errSwitch     = errors.New("not true or false")
	errPortForm   = errors.New("not host:port, as in :6674, 10.1.0.2:6674 or [fd00::1]:6674")
	errListenHost = errors.New("the host of an address to listen on is an IP address of this machine, localhost, or empty for all; an IPv6 address stands in brackets, as in [::1]:6674")
	errPort       = errors.New("a port is a number from 0 to 65535; 0 lets the kernel choose")
	errDiscovery  = errors.New(`discovery is addr:port exactly, as in :6681, with an IPv4 address or none; the empty text turns it off`)
	errAdvertise  = errors.New("it is not host[:port] that others could dial, as in 10.1.0.2, node1:6674 or [fd00::1]:6674")
	errWildcard   = errors.New("that is every address of this machine, and nobody can dial it; name one")
	errPattern    = errors.New("not an interface: a name, a pattern such as eth* or enp[0-3]s*, or !name")
	errLabel      = errors.New("a label is key=value: a key of 1 to 64 of A-Z a-z 0-9 . _ - and a value of at most 256 bytes")
	errName       = errors.New("a name has 1 to 64 bytes, no control character, and no space at its ends")
	errComponent  = errors.New("a component is one word of at most 64 bytes without `.`, `>`, `*`, a space or a control character")
	errDeny       = errors.New("a pattern is one word of at most 255 bytes, as *.internal: names are matched whole, and * stands for any run of characters")
	errIDKey      = errors.New("write it as <id>@<key>, as --print-identity and --enroll-list print it")
	errID         = errors.New("an id is 1 to 64 of A-Z a-z 0-9 . _ -, as --cluster-status prints it")
	errAdmit      = errors.New("write it as <id>=<host>:<port>[@<key>], as --cluster-status and --print-identity print it")
	errSetting    = errors.New("write it as <name>=<value>")
	errWindow     = errors.New("write a duration above 0 and at most 24h, as in 15min, 30m or 24h, or off")
	errService    = errors.New("a service's name is 1 to 64 of A-Z a-z 0-9 . _ -, and begins with a letter or digit")
	errAllow      = errors.New("it is not an address or a network, as in 10.1.2.3, 10.0.0.0/8 or fd00::/8")
	errAllowAll   = errors.New("that is everybody, as leaving it out is; name the networks that may reach this machine")
	errAnswer     = errors.New("it begins with { as a helper's answer does, and is not one JSON document: a shell takes the quotation marks unless the whole stands in single quotes; or write it to a file and give its path")
	errCommand    = errors.New("a quotation mark in it is not closed")
)

// check asks everything about one value: its kind's bounds, then its own check.
func (o *Option) check(text string) error {
	if text == "" {
		switch {
		case o.EmptyOff:
			return nil
		case o.ownEmpty:
			return o.Check(text)
		}
		return errEmpty
	}
	if len(text) > maxText {
		return errTooLong
	}
	if !wire.ValidText(text) {
		return errControl
	}
	switch o.Kind {
	case KindSwitch:
		if _, err := parseSwitch(text); err != nil {
			return err
		}
	case KindChoice:
		if !slices.Contains(o.Choices, text) {
			return fmt.Errorf("it is one of %s%s", strings.Join(o.Choices, ", "), suggest(text, o.Choices))
		}
	case KindNumber:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < o.Min || n > o.Max {
			return fmt.Errorf("a number from %s belongs there", o.bounds())
		}
	case KindDuration:
		d, err := ParseDuration(text)
		if err != nil {
			return err
		}
		if int64(d) < o.Min || int64(d) > o.Max {
			return fmt.Errorf("a duration from %s belongs there", o.bounds())
		}
	}
	if o.Check != nil {
		return o.Check(text)
	}
	return nil
}

func parseSwitch(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		return true, nil
	case "false", "no", "off", "0":
		return false, nil
	}
	return false, errSwitch
}

func checkPath(text string) error {
	if strings.Contains(text, `"`) {
		return errQuote
	}
	return nil
}

// inlineAnswer reports whether a value is a helper's answer itself and no path.
func inlineAnswer(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }

// withheld is what a refusal shows of a value: all of it, but of what may be an answer, which holds whatever a
// configuration holds, nothing.
func (o *Option) withheld(text string) string {
	if o.Inline && strings.ContainsAny(text, "{}\"\n") {
		return ""
	}
	return text
}

func checkAnswer(text string) error {
	if !inlineAnswer(text) {
		return checkPath(text)
	}
	if !json.Valid([]byte(text)) {
		return errAnswer
	}
	return nil
}

func checkName(text string) error {
	if len(text) > maxName || strings.TrimSpace(text) != text {
		return errName
	}
	return nil
}

func checkLabel(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || !wire.ValidID(key) || len(value) > maxLabelValue {
		return errLabel
	}
	return nil
}

func checkLabels(values []string) error {
	seen := map[string]bool{}
	for _, v := range values {
		key, _, _ := strings.Cut(v, "=")
		if seen[key] {
			return fmt.Errorf("the label %s is given twice", clip(key))
		}
		seen[key] = true
	}
	if len(seen) > maxLabels {
		return fmt.Errorf("at most %d labels are told to the fleet", maxLabels)
	}
	return nil
}

// hostPort takes an address apart; host may be empty, and stands without its brackets.
func hostPort(text string) (host string, port uint16, err error) {
	at := strings.LastIndexByte(text, ':')
	if at < 0 {
		return "", 0, errPortForm
	}
	host = text[:at]
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok || !strings.Contains(host, ":") {
			return "", 0, errPortForm
		}
	} else if strings.ContainsAny(host, ":]") {
		return "", 0, errListenHost
	}
	n, err := strconv.ParseUint(text[at+1:], 10, 16)
	if err != nil {
		return "", 0, errPort
	}
	return host, uint16(n), nil
}

func checkListen(text string) error {
	host, _, err := hostPort(text)
	if err != nil {
		return err
	}
	if host == "" || host == "localhost" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err != nil {
		return errListenHost
	}
	return nil
}

func checkDiscovery(text string) error {
	host, port, err := hostPort(text)
	if err != nil || port == 0 {
		return errDiscovery
	}
	if host == "" {
		return nil
	}
	if addr, err := netip.ParseAddr(host); err != nil || !addr.Is4() {
		return errDiscovery
	}
	return nil
}

// checkAdvertise asks the seeds' own grammar, as other machines will.
func checkAdvertise(text string) error {
	_, err := formation.ParseSeed(text)
	switch {
	case errors.Is(err, formation.ErrSeedWildcard):
		return errWildcard
	case err != nil:
		return errAdvertise
	}
	return nil
}

func checkInterface(text string) error {
	name := strings.TrimPrefix(text, "!")
	if _, err := path.Match(name, ""); err != nil || name == "" || strings.ContainsAny(name, "/ ,") {
		return errPattern
	}
	return nil
}

func checkSeed(text string) error {
	_, err := formation.ParseSeed(text)
	return err
}

func seed(text string) string {
	hostport, _ := formation.ParseSeed(text)
	return hostport
}

func checkPin(text string) error {
	_, err := formation.ParsePin(text)
	return err
}

func checkServiceName(text string) error {
	first := text[0] | 0x20
	if !wire.ValidID(text) || (first < 'a' || first > 'z') && (text[0] < '0' || text[0] > '9') {
		return errService
	}
	return nil
}

// parseAllow reads an address, which stands for itself alone, or a network.
func parseAllow(text string) (netip.Prefix, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, errAllow
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if prefix.Addr().Is4In6() {
		bits := prefix.Bits() - 96
		if bits < 0 {
			return netip.Prefix{}, errAllow
		}
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), bits)
	}
	if prefix.Bits() == 0 || prefix.Addr().IsUnspecified() && prefix.IsSingleIP() {
		return netip.Prefix{}, errAllowAll
	}
	return prefix.Masked(), nil
}

func checkAllow(text string) error {
	_, err := parseAllow(text)
	return err
}

func checkAllows(values []string) error {
	if len(values) > maxAllow {
		return fmt.Errorf("at most %d networks fit into a rule", maxAllow)
	}
	return nil
}

func checkComponent(text string) error {
	if len(text) > wire.MaxID || strings.ContainsAny(text, ".>* ") {
		return errComponent
	}
	return nil
}

// checkDeny finds what provision.ValidateDeny does.
func checkDeny(text string) error {
	if len(text) > maxDeny || strings.ContainsAny(text, " \t") {
		return errDeny
	}
	return nil
}

func checkRepository(text string) error {
	_, err := release.ParseRepository(text)
	return err
}

func checkReleaseKey(text string) error {
	_, err := release.ParsePublicKey(text)
	return err
}

// checkCommand finds what can be found without splitting: provision does that.
func checkCommand(text string) error {
	var quote rune
	escaped := false
	for _, r := range text {
		switch {
		case escaped:
			escaped = false
		case r == '\\' && quote != '\'':
			escaped = true
		case quote == 0 && (r == '\'' || r == '"'):
			quote = r
		case r == quote:
			quote = 0
		}
	}
	if quote != 0 {
		return errCommand
	}
	return nil
}

func checkID(text string) error {
	if !wire.ValidID(text) {
		return errID
	}
	return nil
}

func checkIDKey(text string) error {
	if !strings.Contains(text, "@") {
		return errIDKey
	}
	_, _, err := identity.ParseAdmit(text)
	return err
}

func checkIDMaybeKey(text string) error {
	if strings.Contains(text, "@") {
		return checkIDKey(text)
	}
	return checkID(text)
}

func checkAdmit(text string) error {
	id, rest, found := strings.Cut(text, "=")
	if !found || !wire.ValidID(id) {
		return errAdmit
	}
	endpoint, key, keyed := strings.Cut(rest, "@")
	if keyed {
		if _, err := identity.ParsePublicKey(key); err != nil {
			return err
		}
	}
	if !wire.ValidEndpoint(endpoint) {
		return errAdmit
	}
	return nil
}

func checkSetting(text string) error {
	name, _, found := strings.Cut(text, "=")
	if !found || !wire.ValidID(name) {
		return errSetting
	}
	return nil
}

// checkWindow asks the form only: the leader holds the bound, and refuses by name.
func checkWindow(text string) error {
	if text == "off" {
		return nil
	}
	if d, err := ParseDuration(text); err != nil || d <= time.Duration(0) {
		return errWindow
	}
	return nil
}

// crossCheck is one row of what two options must not say together, asked in order. Key is the one named.
type crossCheck struct {
	Key string
	Bad func(c *Config) bool
	Why string
}

var crossChecks = []crossCheck{
	{"listen-raft", func(c *Config) bool { return samePort(c.Listen, c.ListenRaft) },
		"--listen has the same port; give one of them another"},
	{"admin-listen", func(c *Config) bool {
		return samePort(c.AdminListen, c.Listen) || samePort(c.AdminListen, c.ListenRaft)
	},
		"--listen or --listen-raft has the same port; give one of them another"},
	{"discovery-reply-port", func(c *Config) bool { return samePort(c.Discovery, ":"+strconv.Itoa(int(c.DiscoveryReplyPort))) },
		"--discovery has the same port, and two sockets on one port do not both hear what is sent to it; give one of them another"},
	{"admin-tls-cert", func(c *Config) bool { return c.AdminTLSCert != "" && c.AdminTLSKey == "" },
		"a certificate is given, and its key is not; give --admin-tls-key too"},
	{"admin-tls-key", func(c *Config) bool { return c.AdminTLSKey != "" && c.AdminTLSCert == "" },
		"a key is given, and its certificate is not; give --admin-tls-cert too"},
	{"provision-upgrades", func(c *Config) bool {
		return c.Provision.Upgrades != "off" && (c.Provision.Repository == "" || c.Provision.ReleaseKey == "")
	},
		"nothing says where releases come from and who signs them; give --provision-repository and --provision-release-key too"},
	{"advertise", func(c *Config) bool { return loopback(c.Advertise) && !c.DiscoveryLoopback },
		"other machines cannot dial this machine's loopback; name an address of a network, or give --discovery-loopback for several nodes on one machine"},
	{"fleet-seed", func(c *Config) bool { return c.DiscoveryLoopback && slices.ContainsFunc(c.FleetSeeds, elsewhere) },
		"--discovery-loopback keeps this node to its own machine, and this names an address of another one; leave one of the two out"},
}

// elsewhere says whether a seed is the address of another machine; of a name nobody knows it yet.
func elsewhere(seed string) bool {
	host, _, err := hostPort(seed)
	_, literal := netip.ParseAddr(host)
	return err == nil && literal == nil && !onLoopback(host)
}

// samePort says whether two addresses to listen on would collide: equal ports that are not 0, on hosts that overlap.
func samePort(a, b string) bool {
	ha, pa, errA := hostPort(a)
	hb, pb, errB := hostPort(b)
	return errA == nil && errB == nil && pa == pb && pa != 0 && (ha == hb || every(ha) || every(hb))
}

func every(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "" || err == nil && addr.IsUnspecified()
}

func loopback(advertise string) bool {
	hostport, err := formation.ParseSeed(advertise)
	if err != nil {
		return false
	}
	host, _, err := hostPort(hostport)
	if err != nil {
		return false
	}
	return onLoopback(host)
}
