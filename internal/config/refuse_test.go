package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pace-node/internal/formation"
)

// checkRefused writes out, for each option, values out of bounds or of another form, and what the refusal must say. A
// good value beside them must pass.
func checkRefused() error {
	pin := fleA + "@" + keyA
	rows := []struct {
		option string
		good   []string
		bad    map[string]string // value → part of the sentence
	}{
		{"state-dir", []string{"/x y", `C:\x`, "rel"}, map[string]string{"a\nb": "control", `C:\x"`: "quotation", strings.Repeat("x", 4097): "too long"}},
		{"name", []string{"a", strings.Repeat("n", 64), "Büro"}, map[string]string{strings.Repeat("n", 65): "64 bytes", " a": "space", "a\x1b[2J": "control", "\xff": "UTF-8"}},
		{"label", []string{"a=", "a=b=c", "a=b c"}, map[string]string{"a": "key=value", "=b": "key=value", "a b=c": "key=value", "a=" + strings.Repeat("v", 257): "256 bytes"}},
		{"listen", []string{":6674", ":0", "10.1.0.2:1", "[::1]:1", "localhost:1", "0.0.0.0:65535", "[fe80::1%eth0]:1"},
			map[string]string{"6674": "host:port", ":65536": "0 to 65535", ":-1": "0 to 65535", ":x": "0 to 65535", "::1:6674": "brackets", "node1:6674": "IP address", "[1.2.3.4]:5": "host:port"}},
		{"listen-raft", []string{":6681"}, map[string]string{"6680": "host:port"}},
		{"advertise", []string{"10.1.0.2", "node1:7000", "[fd00::1]", "[fd00::1]:1"}, map[string]string{"0.0.0.0": "every address", "[::]:1": "every address",
			"http://x": "host[:port]", "a,b": "host[:port]", "fd00::1": "host[:port]", "h:0": "host[:port]", "127.0.0.1": "loopback", "[::1]:6674": "loopback", "localhost": "loopback"}},
		{"discovery", []string{"", ":6681", "0.0.0.0:1", "127.0.0.1:6681"}, map[string]string{"off": "empty text turns it off", "6681": "addr:port", ":0": "addr:port", "[::]:6681": "IPv4", "eth0:6681": "IPv4"}},
		{"discovery-interface", []string{"eth0", "!docker0", "e?p[0-9]*"}, map[string]string{"!": "not an interface", "[": "not an interface", "a,b": "not an interface", "a b": "not an interface"}},
		{"discovery-reply-port", []string{"0", "6682", "65535"}, map[string]string{"65536": "0 to 65535", "-1": "0 to 65535", "6682x": "0 to 65535", "6681": "--discovery has the same port"}},
		{"discovery-loopback", []string{"true", "false", "on", "OFF", "yes", "0"}, map[string]string{"maybe": "true or false", "2": "true or false"}},
		{"admin-listen", []string{"", ":0", "[::]:6690"}, map[string]string{"6690": "host:port", ":6674": "--listen or --listen-raft has the same port", ":6680": "same port"}},
		{"admin-tls-cert", nil, map[string]string{`x"`: "quotation", "/c": "its key is not"}},
		{"admin-tls-key", nil, map[string]string{`x"`: "quotation", "/k": "its certificate is not"}},
		{"admin-token-file", []string{"/t"}, map[string]string{`x"`: "quotation"}},
		{"log-level", []string{"debug", "info", "warn", "error"}, map[string]string{"warning": "did you mean warn?", "Info": "one of debug"}},
		{"alert-exec", []string{"/bin/call", `/bin/call "a b" 'c"d' e\"f`}, map[string]string{`/bin/call "a`: "not closed", "call 'a": "not closed"}},
		{"log-format", []string{"text", "json"}, map[string]string{"xml": "one of text, json"}},
		{"provision-interval", []string{"1m", "1min", "60s", "24h"}, map[string]string{"59s": "1m to 24h", "0": "1m to 24h", "-1h": "1m to 24h", "24h1s": "1m to 24h", "1": "not a duration", "": "empty"}},
		{"provision-workers", []string{"1", "1024"}, map[string]string{"0": "1 to 1024", "1025": "1 to 1024", "-3": "1 to 1024", "two": "1 to 1024"}},
		{"provision-queue", []string{"1", "1000000"}, map[string]string{"0": "1 to 1000000", "1000001": "1 to 1000000", "9999999999999999999": "1 to 1000000"}},
		{"provision-helper", []string{"/bin/h", `/bin/h "a b" 'c"d' e\"f`}, map[string]string{`/bin/h "a`: "not closed", "h 'a": "not closed"}},
		{"provision-helper-timeout", []string{"100ms", "10min"}, map[string]string{"99ms": "100ms to 10m", "10m1s": "100ms to 10m"}},
		{"provision-default", []string{"/d", `{"configuration":{"role":"web"}}`, ` {"shutdown":true}`}, map[string]string{`x"`: "quotation", `{configuration:{role:web}}`: "single quotes", `{"a":1}{`: "not one JSON"}},
		{"provision-component", []string{"provision_mode_server", "x-y"}, map[string]string{"a.b": "component", "a>": "component", "*": "component", "a b": "component", "a\tb": "control", strings.Repeat("c", 65): "component"}},
		{"provision-pki", []string{"true", "no"}, map[string]string{"maybe": "true or false"}},
		{"provision-deny", []string{"*.internal", "root", "*"}, map[string]string{"": "empty", "a b": "one word", "a\tb": "control", strings.Repeat("x", 256): "255 bytes"}},
		{"provision-mode", []string{"auto", "always", "never"}, map[string]string{"once": "one of auto, always, never"}},
		{"provision-upgrades", []string{"off"}, map[string]string{"maybe": "one of off, required, optional", "required": "where releases come from", "optional": "where releases come from"}},
		{"provision-repository", []string{"/srv/releases", "http://r", "https://r.example:8443/pace/"}, map[string]string{"releases": "absolute path", "ftp://r/x": "http or https", "https://a:b@r/": "with a user", "http://r/?x": "a query"}},
		{"provision-release-key", []string{releaseKey}, map[string]string{"RW": "56 characters", releaseKey[:55]: "56 characters", "/etc/key.pub": "56 characters"}},
		{"service-name", []string{"PaceNode", "io.pace.node", "2nd", strings.Repeat("s", 64)}, map[string]string{"-x": "begins with", ".x": "begins with", "_x": "begins with",
			"a b": "A-Z", `a\b`: "A-Z", "a/b": "A-Z", "é": "A-Z", strings.Repeat("s", 65): "1 to 64"}},
		{"firewall-allow", []string{"10.1.2.3", "10.1.2.3/8", "fd00::/8", "::1", "0.0.0.0/1"}, map[string]string{"0.0.0.0/0": "everybody", "10.0.0.0/0": "everybody", "::/0": "everybody",
			"0.0.0.0": "everybody", "::": "everybody", "::ffff:0.0.0.0/96": "everybody", "any": "not an address", "10.0.0": "not an address", "10.0.0.0/33": "not an address",
			"fe80::1%eth0": "not an address", "::ffff:0.0.0.0/90": "not an address", "LocalSubnet": "not an address", "10.0.0.1-10.0.0.9": "not an address"}},
		{"scheduler", []string{"h", "[::1]:5"}, map[string]string{"h:0": "port"}},
		{"json", []string{"true"}, map[string]string{"x": "true or false"}},
		{"config", nil, map[string]string{`x"`: "quotation", "/not/there": "not exist"}},
		{"fleet-id", []string{pin, pin + "," + keyB}, map[string]string{fleA: "no key", pin + "," + keyA: "twice"}},
		{"fleet-seed", []string{"h"}, map[string]string{":6674": "no host"}},
	}
	covered := map[string]bool{}
	for _, r := range rows {
		covered[r.option] = true
		if !slices.Contains(r.good, "") {
			r.bad[""] = "empty"
		}
		for _, good := range r.good {
			args := []string{"--" + r.option + "=" + good}
			if o := findOption(func(o *Option) bool { return o.Name == r.option }); o.Client() {
				args = append(args, "--cluster-status") // it is about a verb
			}
			if _, _, err := (sources{args: args}).parse(); err != nil {
				return fmt.Errorf("--%s=%q is refused: %w", r.option, good, err)
			}
		}
		for bad, say := range r.bad {
			_, _, err := sources{args: []string{"--" + r.option + "=" + bad}}.parse()
			var refused *RefusedError
			if !errors.As(err, &refused) || refused.Key != "--"+r.option || refused.Way() == "" {
				return fmt.Errorf("--%s=%.60q: %v, want a refusal naming the flag", r.option, bad, err)
			}
			if !strings.Contains(err.Error(), say) {
				return fmt.Errorf("--%s=%.60q: %q does not say %q", r.option, bad, err, say)
			}
		}
	}
	for i := range Options {
		if !covered[Options[i].Name] {
			return fmt.Errorf("--%s has no refusals here", Options[i].Name)
		}
	}
	return nil
}

func TestRefused(t *testing.T) {
	if err := checkRefused(); err != nil {
		t.Error(err)
	}
}

// TestAnswerIsNotRepeated: an answer that is given inline holds passwords, and no refusal says a part of it, whatever a
// shell made of it.
func TestAnswerIsNotRepeated(t *testing.T) {
	stored := func(text string) func() (map[string]Stored, error) {
		return func() (map[string]Stored, error) {
			return map[string]Stored{"PACE_PROVISION_DEFAULT": {Value: text, Where: "line 3"}}, nil
		}
	}
	for _, text := range []string{`{"configuration":{"password":"hunter2"}`, `{configuration:{password:hunter2}}`, `"password":"hunter2"`, "hunter2\n{}", `{"hunter2`} {
		env := func(name string) (string, bool) { return text, name == "PACE_PROVISION_DEFAULT" }
		_, _, byFlag := Parse([]string{"--provision-default=" + text}, nil, nil, nil)
		_, _, checked := Parse([]string{"--check-arguments", "PACE_PROVISION_DEFAULT=" + text}, nil, nil, nil)
		_, _, byEnv := Parse(nil, env, nil, nil)
		_, _, byStore := Parse(nil, nil, stored(text), nil)
		_, _, byFile := Parse([]string{"--config=/f"}, nil, nil, func(string) ([]byte, error) { return fmt.Appendf(nil, "provision_default: %q\n", text), nil })
		for from, err := range map[string]error{"flag": byFlag, "check": checked, "env": byEnv, "store": byStore, "file": byFile, "profile": CheckProfile(map[string]string{"provision-default": text})} {
			if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(strings.ToLower(strings.NewReplacer("-", "_").Replace(err.Error())), "provision_default") {
				t.Errorf("%s: %q: %v", from, text, err)
			}
		}
	}
	for _, words := range [][]string{{`--provision-default={configuration:`, `{password:`, `hunter2}}`}, {"--check-arguments", `--provision-default={"a":`, `hunter2}`}} {
		_, _, err := Parse(words, nil, nil, nil)
		if err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "{") || !strings.Contains(err.Error(), "single quotes") {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestMutationOptions(t *testing.T) {
	for i := range Options {
		old := Options[i]
		notice := func(what string) {
			t.Helper()
			if checkRefused() == nil {
				t.Errorf("--%s %s, and nothing noticed", old.Name, what)
			}
			Options[i] = old
		}
		if old.Check != nil {
			Options[i].Check = func(string) error { return nil }
			notice("checked nothing")
		}
		switch old.Kind {
		case KindNumber, KindDuration:
			step := int64(1)
			if old.Kind == KindDuration {
				step = int64(2 * time.Second) // the rows are a second or less beyond
			}
			Options[i].Min += step
			notice("had a higher least")
			Options[i].Max -= step
			notice("had a lower most")
			Options[i].Min -= step
			notice("had a lower least")
			Options[i].Max += step
			notice("had a higher most")
		case KindChoice:
			Options[i].Choices = old.Choices[1:]
			notice("lost a choice")
		}
		Options[i].EmptyOff = !old.EmptyOff
		notice("changed what an empty value means")
	}
}

// checkCross writes out what two options must not say together, and which of them is named.
func checkCross() error {
	for _, c := range []struct{ args, key, say string }{
		{"--listen=:6680", "--listen-raft", "--listen has the same port"},
		{"--listen=:1 --listen-raft=127.0.0.1:1", "--listen-raft", "--listen has the same port"},
		{"--admin-listen=127.0.0.1:6674", "--admin-listen", "same port"},
		{"--admin-listen=127.0.0.1:6680", "--admin-listen", "same port"},
		{"--discovery-reply-port=6681", "--discovery-reply-port", "--discovery has the same port"},
		{"--admin-tls-cert=/c", "--admin-tls-cert", "its key is not"},
		{"--admin-tls-key=/k", "--admin-tls-key", "its certificate is not"},
		{"--provision-upgrades=required --provision-repository=/r", "--provision-upgrades", "--provision-release-key"},
		{"--provision-upgrades=optional --provision-release-key=" + releaseKey, "--provision-upgrades", "--provision-repository"},
		{"--advertise=127.0.0.1", "--advertise", "loopback"},
		{"--discovery-loopback --fleet-seed=127.0.0.1:1 --fleet-seed=10.1.0.2", "--fleet-seed", "another one"},
		{"--discovery-loopback --fleet-seed=[fd00::1]", "--fleet-seed", "another one"},
	} {
		_, _, err := sources{args: strings.Fields(c.args)}.parse()
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Key != c.key || !strings.Contains(err.Error(), c.say) {
			return fmt.Errorf("%s: %v, want %s named with %q", c.args, err, c.key, c.say)
		}
	}
	for _, args := range []string{"", "--provision-upgrades=required --provision-repository=/r --provision-release-key=" + releaseKey, "--provision-repository=/r", "--discovery-loopback --fleet-seed=127.0.0.1:1 --fleet-seed=[::1]:2 --fleet-seed=host1", "--fleet-seed=10.1.0.2", "--listen=:0 --listen-raft=:0", "--advertise=127.0.0.1 --discovery-loopback", "--admin-tls-cert=/c --admin-tls-key=/k",
		"--discovery= --discovery-reply-port=6681", "--listen=10.1.0.2:1 --listen-raft=10.1.0.3:1"} {
		if _, _, err := (sources{args: strings.Fields(args)}).parse(); err != nil {
			return fmt.Errorf("%q: %w", args, err)
		}
	}
	return nil
}

func TestCrossChecks(t *testing.T) {
	if err := checkCross(); err != nil {
		t.Error(err)
	}
}

func TestMutationCrossChecks(t *testing.T) {
	for i := range crossChecks {
		old := crossChecks[i]
		crossChecks[i].Bad = func(*Config) bool { return false }
		if checkCross() == nil {
			t.Errorf("row %d (%s) taken out, and nothing noticed", i, old.Key)
		}
		crossChecks[i].Bad = func(c *Config) bool { return !old.Bad(c) }
		if checkCross() == nil {
			t.Errorf("row %d (%s) turned round, and nothing noticed", i, old.Key)
		}
		crossChecks[i] = old
	}
}

func TestSamePort(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{":1", ":1", true}, {":1", ":2", false}, {":0", ":0", false}, {"127.0.0.1:1", ":1", true}, {"[::]:1", "127.0.0.1:1", true},
		{"10.1.0.2:1", "10.1.0.3:1", false}, {"10.1.0.2:1", "10.1.0.2:1", true}, {"", ":1", false},
	} {
		if got := samePort(c.a, c.b); got != c.want || samePort(c.b, c.a) != c.want {
			t.Errorf("samePort(%q, %q) = %v", c.a, c.b, got)
		}
	}
	_, _, err := sources{args: []string{"--listen=:6680"}}.parse()
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Key != "--listen-raft" || refused.Where != "the default" || refused.Value != ":6680" {
		t.Errorf("%v, want the default of --listen-raft named", err)
	}
}

// Every refusal of seeds and pins is formation's own sentence.
func TestSeedAndPinRefusalsAreFormations(t *testing.T) {
	for text, want := range map[string]error{
		"": formation.ErrSeedEmpty, ":6674": formation.ErrSeedNoHost, "h:0": formation.ErrSeedPortZero, "h:65536": formation.ErrSeedPort,
		"fd00::1": formation.ErrSeedBareIPv6, "http://h": formation.ErrSeedScheme, "h/x": formation.ErrSeedPath, "a,b": formation.ErrSeedList,
		"0.0.0.0": formation.ErrSeedWildcard,
	} {
		for where, s := range map[string]sources{
			"flag": {args: []string{"--fleet-seed=good", "--fleet-seed=" + text}},
			"file": {file: fmt.Sprintf("fleet_seed: [good, %q]\n", text)},
		} {
			if _, _, err := s.parse(); !errors.Is(err, want) || !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%s %q: %v, want %v", where, text, err, want)
			}
		}
	}
	for text, want := range map[string]error{
		fleA: formation.ErrPinNoKey, fleA + "@": formation.ErrPinNoKey, strings.ToUpper(fleA) + "@" + keyA: formation.ErrPinUpperCase,
		fleA[1:] + "@" + keyA: formation.ErrPinCluster, fleA + "@" + keyA[1:]: formation.ErrPinKey, fleA + "@" + keyA + "," + keyA: formation.ErrPinRepeated,
		fleA + "@" + strings.Repeat(keyA+",", 16) + keyB: formation.ErrPinTooMany,
	} {
		if _, _, err := (sources{env: map[string]string{"PACE_FLEET_ID": text}}).parse(); !errors.Is(err, want) || !strings.Contains(err.Error(), "the environment: PACE_FLEET_ID") {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

func TestFileRefusalsNameFileLineAndKey(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want []string
	}{
		"unknown key":         {"name: a\n\n# c\nfleet_sed: x\n", []string{fileName + " line 4", `"fleet_sed"`, "did you mean fleet_seed?"}},
		"dashes":              {"fleet-seed: x\n", []string{fileName + " line 1", `"fleet-seed"`, "did you mean fleet_seed?"}},
		"out of bounds":       {"name: a\nprovision_interval: 5s\n", []string{fileName + " line 2", "provision_interval", `"5s"`, "1m to 24h"}},
		"in a list":           {"fleet_seed:\n  - a\n  - http://b\n", []string{fileName + " line 1", "fleet_seed", "http://b", "no scheme"}},
		"twice":               {"name: a\nlisten: ':1'\nname: b\n", []string{fileName + " line 3", "name", "second time"}},
		"nothing":             {"name:\n", []string{fileName + " line 1", "name", "no value"}},
		"nothing, off":        {"discovery:\n", []string{fileName + " line 1", `""`}},
		"a list for one":      {"name: [a, b]\n", []string{fileName + " line 1", "name", "one plain value"}},
		"a map":               {"listen: {a: b}\n", []string{fileName + " line 1", "listen", "one plain value"}},
		"a list in a list":    {"fleet_seed:\n- a\n- [b]\n", []string{fileName + " line 3", "fleet_seed", "plain value"}},
		"alias":               {"name: &x a\nlog_level: *x\n", []string{fileName + " line 2", "alias"}},
		"not a map":           {"- a\n", []string{fileName + " line 1", "not a list of keys"}},
		"two documents":       {"name: a\n---\nname: b\n", []string{fileName, "second document"}},
		"no YAML":             {"name: a\n\tlisten: x\n", []string{fileName + " line 2", "not YAML"}},
		"a key of ours alone": {"config: /x\n", []string{fileName + " line 1", `"config"`, "no such key"}},
		"client's":            {"scheduler: x\n", []string{fileName + " line 1", `"scheduler"`, "no such key"}},
		"control character":   {"name: \"a\\x1b\"\n", []string{fileName + " line 1", "name", `"a\x1b"`, "control"}},
		"label twice":         {"label: [a=1, a=2]\n", []string{fileName + " line 1", "label", `"a" is given twice`}},
		"hidden by a flag":    {"listen: nonsense\n", []string{fileName + " line 1", "listen"}},
		"too large":           {strings.Repeat("#", 1<<20+1), []string{fileName, "bytes"}},
	} {
		_, _, err := sources{args: []string{"--listen=:1"}, file: c.file}.parse()
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.ExitCode() != 78 || refused.Way() == "" {
			t.Errorf("%s: %v, want a refusal with a remedy", name, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q does not say %q", name, err, want)
			}
		}
	}
}

func TestFileForms(t *testing.T) {
	c := mustParse(t, sources{file: "# all\nname: \"two words\"\nlabel:\n  site: north\n  rack: 3\nfleet_seed: one\ndiscovery: \"\"\nprovision_workers: 2\n" +
		"discovery_loopback: true\nprovision_interval: 15min\ndiscovery_interface: []\n"})
	if c.Name != "two words" || c.Labels["site"] != "north" || c.Labels["rack"] != "3" || c.FleetSeeds[0] != "one:6674" || c.Discovery != "" ||
		c.Provision.Workers != 2 || !c.DiscoveryLoopback || c.Provision.Interval.Minutes() != 15 || c.Typed["discovery-interface"] != OriginFile {
		t.Errorf("%+v", c)
	}
	for _, empty := range []string{"", "\n", "# nothing\n", "---\n", "null\n"} {
		if _, err := fromFile(fileName, []byte(empty)); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestStoredRefusalsNameWhere(t *testing.T) {
	for name, c := range map[string]struct {
		stored map[string]string
		want   []string
	}{
		"unknown":       {map[string]string{"PACE_FLEETSEED": "x"}, []string{storeName + " line 3", "PACE_FLEETSEED", "did you mean PACE_FLEET_SEED?"}},
		"out of bounds": {map[string]string{"PACE_PROVISION_WORKERS": "0"}, []string{storeName + " line 3", "PACE_PROVISION_WORKERS", `"0"`, "1 to 1024"}},
		"client's":      {map[string]string{"PACE_JSON": "true"}, []string{storeName + " line 3", "PACE_JSON", "no such setting"}},
	} {
		_, _, err := sources{stored: c.stored}.parse()
		for _, want := range c.want {
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
		}
	}
	broken := errors.New("registry is locked")
	_, _, err := Parse(nil, func(string) (string, bool) { return "", false }, func() (map[string]Stored, error) { return nil, broken }, nil)
	if !errors.Is(err, broken) || !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
}

// FuzzFile: any bytes are settings or a refusal that names the file; never a panic.
func FuzzFile(f *testing.F) {
	f.Add([]byte("name: a\nfleet_seed: [b]\nlabel: {c: d}\n"))
	f.Add([]byte("a: &a [*a]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := fromFile("f", data); err != nil && !strings.HasPrefix(err.Error(), "f") {
			t.Errorf("%v does not name the file", err)
		}
	})
}

// FuzzArgs: any words are a Config, a usage error or a refusal; never a panic, and never another error.
func FuzzArgs(f *testing.F) {
	f.Add("--listen\n:1\n--fleet-seed=x")
	f.Add("--check-arguments\n--label=a")
	f.Fuzz(func(t *testing.T, text string) {
		for _, tool := range []bool{false, true} {
			_, _, err := sources{args: strings.Split(text, "\n"), tool: tool}.parse()
			if err != nil && !errors.Is(err, ErrUsage) && !errors.Is(err, ErrRefused) {
				t.Errorf("%v is neither usage nor refusal", err)
			}
		}
	})
}
