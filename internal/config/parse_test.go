package config

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sources is what each origin says; a nil map is an origin that says nothing.
type sources struct {
	args   []string
	env    map[string]string
	stored map[string]string
	file   string // "" = no --config
	tool   bool
}

const (
	fileName  = "/etc/pace-node/pace-node.yaml"
	storeName = "/etc/default/pace-node"
)

func (s sources) parse() (Config, VerbCall, error) {
	args := s.args
	if s.file != "" {
		args = append(append([]string{}, args...), "--config="+fileName)
	}
	env := func(k string) (string, bool) { v, ok := s.env[k]; return v, ok }
	stored := func() (map[string]Stored, error) {
		out := map[string]Stored{}
		for k, v := range s.stored {
			out[k] = Stored{Value: v, Where: storeName + " line 3"}
		}
		return out, nil
	}
	read := func(name string) ([]byte, error) {
		if name != fileName {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return []byte(s.file), nil
	}
	if s.tool {
		return ParseTool(args, env, stored, read)
	}
	return Parse(args, env, stored, read)
}

func mustParse(t *testing.T, s sources) Config {
	t.Helper()
	c, _, err := s.parse()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDefaults(t *testing.T) {
	c := mustParse(t, sources{})
	if c.Provision.Workers < 1 {
		t.Errorf("workers = %d, want the cores", c.Provision.Workers)
	}
	want := Config{
		Labels: map[string]string{}, Flags: map[string][]string{}, Listen: ":6674", ListenRaft: ":6680", Discovery: ":6681", AdminListen: "127.0.0.1:6690",
		LogLevel: "info", LogFormat: "text",
		Provision: ProvisionConfig{Interval: time.Minute, Workers: c.Provision.Workers, Queue: 50000, HelperTimeout: 10 * time.Second,
			Component: "provision_mode_server", Mode: "auto", Upgrades: "off"},
	}
	for _, name := range []string{"state-dir", "config", "name", "label", "listen", "listen-raft", "advertise", "discovery", "discovery-interface",
		"discovery-reply-port", "discovery-loopback", "fleet-seed", "fleet-id", "admin-listen", "admin-tls-cert", "admin-tls-key",
		"admin-token-file", "log-level", "log-format", "alert-exec", "provision-interval", "provision-workers", "provision-queue", "provision-helper",
		"provision-helper-timeout", "provision-default", "provision-component", "provision-pki", "provision-deny", "provision-mode", "provision-upgrades",
		"provision-repository", "provision-release-key", "service-name", "firewall-allow",
		"scheduler", "json"} {
		if want.Typed == nil {
			want.Typed = map[string]Origin{}
		}
		want.Typed[name] = OriginDefault
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
}

const (
	keyA = "dVxMuSVsp83ErP3Gz-7ahJAX5bn5UU6ZGRvWfgsNQnY"
	keyB = "u1xnJIKw3MqRohpO1jsVr96KoTeNpyzQGzSVidbn3Wo"
	fleA = "0123456789abcdef0123456789abcdef"
)

// releaseKey is minisign's own, as its manual gives it.
const releaseKey = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3"

func TestEveryOptionIsSetByItsFlag(t *testing.T) {
	c := mustParse(t, sources{args: []string{
		"--state-dir=/s", "--name=Büro 1", "--label=site=north", "--label", "note=a b=c", "--listen=10.1.0.2:7000", "--listen-raft=[::1]:7001",
		"--advertise=node1", "--discovery=10.1.0.2:7002", "--discovery-interface=eth*", "--discovery-interface=!docker0",
		"--discovery-reply-port=6682", "--discovery-loopback", "--fleet-seed=a", "--fleet-seed=[::1]:9", "--fleet-id=" + fleA + "@" + keyA,
		"--admin-listen=", "--admin-tls-cert=/c", "--admin-tls-key=/k", "--admin-token-file=/t", "--log-level=debug", "--log-format=json", "--alert-exec=/bin/call 'a b'",
		"--provision-interval=15min", "--provision-workers=3", "--provision-queue=7", "--provision-helper=/bin/h 'a b'",
		"--provision-helper-timeout=1m30s", "--provision-default=/d.json", "--provision-component=other", "--provision-mode=never", "--provision-pki", "--provision-deny=*.lan", "--provision-deny=root",
		"--provision-upgrades=optional", "--provision-repository=https://r.example/pace", "--provision-release-key=" + releaseKey,
		"--service-name=Pace.2", "--firewall-allow=10.1.2.3/8", "--firewall-allow=::ffff:10.1.2.3", "--firewall-allow=fd00::1", "--scheduler=leader", "--json", "--cluster-status",
	}})
	want := Config{
		StateDir: "/s", Name: "Büro 1", Labels: map[string]string{"site": "north", "note": "a b=c"}, Listen: "10.1.0.2:7000", ListenRaft: "[::1]:7001",
		Advertise: "node1", Discovery: "10.1.0.2:7002", DiscoveryInterfaces: []string{"eth*", "!docker0"}, DiscoveryReplyPort: 6682,
		DiscoveryLoopback: true, FleetSeeds: []string{"a:6674", "[::1]:9"}, FleetID: fleA + "@" + keyA, AdminListen: "",
		AdminTLSCert: "/c", AdminTLSKey: "/k", AdminTokenFile: "/t", LogLevel: "debug", LogFormat: "json", AlertExec: "/bin/call 'a b'",
		Provision:   ProvisionConfig{15 * time.Minute, 3, 7, "/bin/h 'a b'", 90 * time.Second, "/d.json", "other", "never", "optional", "https://r.example/pace", true, []string{"*.lan", "root"}, releaseKey},
		ServiceName: "Pace.2", FirewallAllow: []string{"10.0.0.0/8", "10.1.2.3/32", "fd00::1/128"},
		Scheduler: "leader:6674", JSON: true, Typed: c.Typed, Flags: c.Flags,
	}
	if d := cmp.Diff(want, c); d != "" {
		t.Error(d)
	}
	for name, origin := range c.Typed {
		if want := OriginFlag; name != "config" && origin != want {
			t.Errorf("--%s came from %v", name, origin)
		}
	}
}

// checkPrecedence writes the order out: flag > env > stored > file > default, for a scalar, a list and a value that may
// be empty.
func checkPrecedence() error {
	file := "listen: ':4'\nfleet_seed: [d1, d2]\ndiscovery: ':14'\n"
	stored := map[string]string{"PACE_LISTEN": ":3", "PACE_FLEET_SEED": "c1 c2", "PACE_DISCOVERY": ":13"}
	env := map[string]string{"PACE_LISTEN": ":2", "PACE_FLEET_SEED": "b1\nb2", "PACE_DISCOVERY": ""}
	args := []string{"--listen=:1", "--fleet-seed=a1", "--fleet-seed=a2", "--discovery=:11"}
	rows := []struct {
		name      string
		s         sources
		listen    string
		seeds     string
		discovery string
		typed     string
	}{
		{"all five", sources{args: args, env: env, stored: stored, file: file}, ":1", "a1:6674 a2:6674", ":11", "flag"},
		{"no flag", sources{env: env, stored: stored, file: file}, ":2", "b1:6674 b2:6674", "", "env"},
		{"no environment", sources{stored: stored, file: file}, ":3", "c1:6674 c2:6674", ":13", "stored"},
		{"file alone", sources{file: file}, ":4", "d1:6674 d2:6674", ":14", "file"},
		{"nobody", sources{}, ":6674", "", ":6681", "default"},
		{"flag over stored", sources{args: args, stored: stored}, ":1", "a1:6674 a2:6674", ":11", "flag"},
		{"flag over file", sources{args: args, file: file}, ":1", "a1:6674 a2:6674", ":11", "flag"},
		{"environment over file", sources{env: env, file: file}, ":2", "b1:6674 b2:6674", "", "env"},
	}
	for _, r := range rows {
		c, _, err := r.s.parse()
		if err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
		got := []string{c.Listen, strings.Join(c.FleetSeeds, " "), c.Discovery, c.Typed["listen"].String(), c.Typed["fleet-seed"].String(), c.Typed["discovery"].String()}
		want := []string{r.listen, r.seeds, r.discovery, r.typed, r.typed, r.typed}
		if d := cmp.Diff(want, got); d != "" {
			return fmt.Errorf("%s (-want +got):\n%s", r.name, d)
		}
	}
	return nil
}

func TestPrecedence(t *testing.T) {
	if err := checkPrecedence(); err != nil {
		t.Error(err)
	}
}

func TestMutationPrecedence(t *testing.T) {
	for i := range len(Precedence) - 1 {
		Precedence[i], Precedence[i+1] = Precedence[i+1], Precedence[i]
		if checkPrecedence() == nil {
			t.Errorf("rows %d and %d swapped, and nothing noticed", i, i+1)
		}
		Precedence[i], Precedence[i+1] = Precedence[i+1], Precedence[i]
	}
}

func TestEmptyInTheEnvironmentIsNotSetUnlessItMeansOff(t *testing.T) {
	c := mustParse(t, sources{env: map[string]string{"PACE_NAME": "", "PACE_FLEET_SEED": " \t", "PACE_ADMIN_LISTEN": ""},
		stored: map[string]string{"PACE_LISTEN": "", "PACE_NAME": "stored"}})
	if c.Name != "stored" || c.Listen != ":6674" || c.AdminListen != "" || c.FleetSeeds != nil ||
		c.Typed["admin-listen"] != OriginEnv || c.Typed["fleet-seed"] != OriginDefault {
		t.Errorf("%+v", c)
	}
}

func TestConfigFileNamedByEnvironmentOrStore(t *testing.T) {
	read := func(string) ([]byte, error) { return []byte("name: from-file\n"), nil }
	for _, c := range []struct{ env, stored string }{{fileName, ""}, {"", fileName}} {
		got, _, err := Parse(nil, func(k string) (string, bool) { return c.env, k == "PACE_CONFIG" && c.env != "" },
			func() (map[string]Stored, error) {
				if c.stored == "" {
					return nil, nil
				}
				return map[string]Stored{"PACE_CONFIG": {c.stored, "registry"}}, nil
			}, read)
		if err != nil || got.Name != "from-file" || got.File != fileName {
			t.Errorf("%+v: %v, name %q", c, err, got.Name)
		}
	}
}

func TestStoredKeysOfOthersAreLeftAlone(t *testing.T) {
	mustParse(t, sources{stored: map[string]string{"PACE_FIREWALL_ALLOW": "10.0.0.0/8", "PACE_SERVICE_NAME": "x", "LANG": "C", "GODEBUG": ""}})
}

func TestVerbs(t *testing.T) {
	for _, c := range []struct {
		args []string
		want VerbCall
	}{
		{nil, VerbCall{}},
		{[]string{"--print-identity", "--state-dir=/x"}, VerbCall{Name: "print-identity"}},
		{[]string{"--enroll-approve=" + fleA + "@" + keyA}, VerbCall{Name: "enroll-approve", Arg: fleA + "@" + keyA}},
		{[]string{"--enroll-reject", "some.id"}, VerbCall{Name: "enroll-reject", Arg: "some.id"}},
		{[]string{"--enroll-auto-approve=15min"}, VerbCall{Name: "enroll-auto-approve", Arg: "15min"}},
		{[]string{"--enroll-auto-approve=off"}, VerbCall{Name: "enroll-auto-approve", Arg: "off"}},
		{[]string{"--enroll-auto-approve=48h"}, VerbCall{Name: "enroll-auto-approve", Arg: "48h"}}, // the leader refuses by name
		{[]string{"--cluster-admit=n1=10.1.0.2:6680@" + keyB}, VerbCall{Name: "cluster-admit", Arg: "n1=10.1.0.2:6680@" + keyB}},
		{[]string{"--cluster-admit=n1=h:6680"}, VerbCall{Name: "cluster-admit", Arg: "n1=h:6680"}},
		{[]string{"--cluster-set=enrollment.per-source=8"}, VerbCall{Name: "cluster-set", Arg: "enrollment.per-source=8"}},
		{[]string{"--help"}, VerbCall{Name: "help"}},
		{[]string{"-h", "--listen=nonsense"}, VerbCall{Name: "help"}},
		{[]string{"--version"}, VerbCall{Name: "version"}},
		{[]string{"--check-arguments", "--cluster-forget=x", "--listen=:1"}, VerbCall{Name: "check-arguments"}},
	} {
		_, call, err := sources{args: c.args}.parse()
		if d := cmp.Diff(c.want, call); err != nil || d != "" {
			t.Errorf("%q: %v\n%s", c.args, err, d)
		}
	}
}

func TestToolWords(t *testing.T) {
	c, call, err := sources{tool: true, args: []string{"enroll", "window", "--json", "30m", "--state-dir=/x"}}.parse()
	if d := cmp.Diff(VerbCall{Name: "pacectl", Words: []string{"enroll", "window", "30m"}}, call); err != nil || d != "" || !c.JSON || c.StateDir != "/x" {
		t.Errorf("%v %s %+v", err, d, c)
	}
	var usage *UsageError
	if _, _, err := (sources{tool: true, args: []string{"--listen=:1"}}).parse(); !errors.As(err, &usage) {
		t.Errorf("pacectl --listen: %v, want a usage error", err)
	}
	for _, args := range [][]string{{"--version"}, {"version"}, {"version", "--json"}} {
		if _, call, err := (sources{tool: true, args: args}).parse(); err != nil || call.Name != "version" {
			t.Errorf("%q: %+v %v", args, call, err)
		}
	}
	for _, args := range [][]string{{"--help"}, {"-h"}, {"help"}, {"help", "member"}, {"member", "--help"}, {"member", "forget", "web1", "-h"}} {
		if _, call, err := (sources{tool: true, args: args}).parse(); err != nil || call.Name != "help" {
			t.Errorf("pacectl %s: %v %v", args, call, err)
		}
	}
	if _, _, err := (sources{tool: true, args: []string{"--version", "member"}}).parse(); !errors.As(err, &usage) || strings.Contains(err.Error(), "flags only") {
		t.Errorf("pacectl --version member: %v, want a usage error of pacectl", err)
	}
}

// TestKeyThatBeginsWithADash: one key in 64 does, or with two, and is a word wherever it stands.
func TestKeyThatBeginsWithADash(t *testing.T) {
	for _, key := range []string{"-" + keyA[1:], "--" + keyA[2:]} {
		for _, args := range [][]string{{"fleet", "accept", key, "--yes=" + fleA}, {"--yes", fleA, "fleet", "accept", key}} {
			_, call, err := sources{tool: true, args: args}.parse()
			if d := cmp.Diff(VerbCall{Name: "pacectl", Words: []string{"fleet", "accept", key}, Flags: map[string]string{"yes": fleA}}, call); err != nil || d != "" {
				t.Errorf("%q: %v %s", args, err, d)
			}
		}
		if _, _, err := (sources{args: []string{key}}).parse(); err == nil {
			t.Error("pace-node takes a word")
		}
	}
	if _, _, err := (sources{tool: true, args: []string{"fleet", "accept", "-" + keyA}}).parse(); err == nil {
		t.Error("a word of 44 characters is taken for a key")
	}
}

// TestDryRun: it is taken where nothing is changed anyway, and never passed over where something would be.
func TestDryRun(t *testing.T) {
	_, call, err := sources{tool: true, args: []string{"queue", "run-helper", "web1", "--dry-run"}}.parse()
	if d := cmp.Diff(VerbCall{Name: "pacectl", Words: []string{"queue", "run-helper", "web1"}, Flags: map[string]string{"dry-run": "true"}}, call); err != nil || d != "" {
		t.Errorf("%v %s", err, d)
	}
	for _, words := range [][]string{{"queue", "pause", "--dry-run"}, {"--dry-run", "queue", "drop", "web1"}, {"member", "forget", "web1", "--dry-run"}, {"--dry-run"}} {
		var usage *UsageError
		if _, call, err := (sources{tool: true, args: words}).parse(); !errors.As(err, &usage) || !strings.Contains(err.Error(), "queue run-helper") {
			t.Errorf("%q: %v %v, want a usage error that says where it belongs", words, call, err)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"run"}, []string{`"run" is not a flag`, "pacectl"}},
		{[]string{"--fleet-sed=x"}, []string{"--fleet-sed", "did you mean --fleet-seed?"}},
		{[]string{"--nonsense-entirely"}, []string{"--nonsense-entirely", "--help"}},
		{[]string{"-x"}, []string{"-x"}},
		{[]string{"--listen"}, []string{"--listen needs a value"}},
		{[]string{"--listen=:1", "--listen=:2"}, []string{"--listen is given 2 times"}},
		{[]string{"--print-identity", "--reset-identity"}, []string{"--print-identity and --reset-identity are two verbs"}},
		{[]string{"--print-identity=x"}, []string{"--print-identity takes no argument"}},
		{[]string{"--enroll-approve=" + fleA}, []string{"--enroll-approve", "<id>@<key>"}},
		{[]string{"--enroll-approve=" + fleA + "@" + keyA[1:]}, []string{"--enroll-approve", "43 characters"}},
		{[]string{"--enroll-reject=a b"}, []string{"--enroll-reject", "an id is 1 to 64"}},
		{[]string{"--enroll-auto-approve=0"}, []string{"above 0", "off"}},
		{[]string{"--enroll-auto-approve=soon"}, []string{"15min", "off"}},
		{[]string{"--cluster-admit=x"}, []string{"<id>=<host>:<port>"}},
		{[]string{"--cluster-admit=x=h:0"}, []string{"<id>=<host>:<port>"}},
		{[]string{"--cluster-forget=$(touch x)"}, []string{"an id is 1 to 64"}},
		{[]string{"--cluster-set=x"}, []string{"<name>=<value>"}},
		{[]string{"--scheduler=h"}, []string{"no verb", `pace-node --cluster-status --scheduler="h"`}},
		{[]string{"--listen=:1", "--json", "--scheduler=[::1]:7"}, []string{"no verb"}},
	} {
		_, _, err := sources{args: c.args}.parse()
		var usage *UsageError
		if !errors.As(err, &usage) || usage.ExitCode() != 2 || usage.Remedy == "" {
			t.Errorf("%q: %v, want a usage error with a remedy", c.args, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %q does not say %q", c.args, err, want)
			}
		}
	}
}

func TestCheckArgumentsOpensNothing(t *testing.T) {
	never := func(what string) { t.Errorf("%s was asked", what) }
	parse := func(args ...string) error {
		_, _, err := Parse(append(args, "--check-arguments"), func(string) (string, bool) { never("the environment"); return "", false },
			func() (map[string]Stored, error) { never("the store"); return nil, nil },
			func(string) ([]byte, error) { never("the file"); return nil, nil })
		return err
	}
	for _, args := range [][]string{
		{}, {"--config=/not/there", "--state-dir=/not/there"}, {"--fleet-seed=[::1]:6674", "--provision-default=/not/there"},
		{`--name=two words`, "--admin-tls-cert=/not", "--admin-tls-key=/not"}, {"--enroll-list"},
	} {
		if err := parse(args...); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
	for _, c := range []struct{ arg, want string }{
		{"--fleet-seed=", "--fleet-seed"}, {"--fleet-seed=http://x", "--fleet-seed"}, {"--fleet-id=x", "--fleet-id"}, {"--listen=6674", "--listen"},
		{"--nonsense", "--nonsense"}, {"word", "word"}, {"--enroll-approve=x", "--enroll-approve"}, {"--provision-interval=59s", "--provision-interval"},
		{`--state-dir=C:\pace\"`, "--state-dir"}, {"--discovery-loopback=maybe", "--discovery-loopback"},
	} {
		err := parse(c.arg)
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.ExitCode() != 78 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want a refusal (78) naming it", c.arg, err)
		}
	}
}

func TestJSONIsKnownInFailure(t *testing.T) {
	for args, want := range map[string]bool{"--json --nonsense": true, "--nonsense --json": true, "--nonsense": false, "--listen=x --json": true, "--nonsense -- --json": false,
		"--json=true --nonsense": true, "--json=yes --listen=x": true, "--json=false --nonsense": false} {
		if c, _, err := (sources{args: strings.Fields(args)}).parse(); err == nil || c.JSON != want {
			t.Errorf("%s: %v, JSON %v, want %v", args, err, c.JSON, want)
		}
	}
	env := map[string]string{"PACE_JSON": "1"}
	for args, want := range map[string]bool{"--nonsense": true, "--json=no --nonsense": false, "--check-arguments --nonsense": false} {
		if c, _, err := (sources{args: strings.Fields(args), env: env}).parse(); err == nil || c.JSON != want {
			t.Errorf("PACE_JSON=1 %s: %v, JSON %v, want %v", args, err, c.JSON, want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"15min": 15 * time.Minute, "15m": 15 * time.Minute, "24h": 24 * time.Hour, "1h30min": 90 * time.Minute, "1.5min": 90 * time.Second,
		"10s": 10 * time.Second, "2min30s": 150 * time.Second, "0": 0, "250ms": 250 * time.Millisecond,
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "-1d": -24 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "15", "min", "15 min", "15mins", "d", "1h1d", "1dd", "1D", "99999999999999999999d", "soon", "15minutes"} {
		if got, err := ParseDuration(text); !errors.Is(err, ErrDuration) {
			t.Errorf("%q: %v, %v, want ErrDuration", text, got, err)
		}
	}
}

func FuzzParseDuration(f *testing.F) {
	f.Add("15min")
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(showDuration(d)); err != nil || again != d {
				t.Errorf("%q is %v, shown as %q, read as %v, %v", s, d, showDuration(d), again, err)
			}
		}
	})
}
