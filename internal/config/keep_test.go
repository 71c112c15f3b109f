package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestKeep(t *testing.T) {
	c := mustParse(t, sources{
		args: []string{"--install-service", "--json", "--state-dir=rel", "--fleet-seed=a", "--fleet-seed=[::1]:9", "--label=site=main hall", "--discovery=",
			"--discovery-loopback", "--firewall-allow=10.0.0.0/8", `--provision-default={"shutdown":true}`, "--service-name=Pace2", "--listen=:7000"},
		env: map[string]string{"PACE_LISTEN_RAFT": ":7001"}, stored: map[string]string{"PACE_NAME": "n"},
	})
	got, err := c.Keep(func(path string) (string, error) { return "/cwd/" + path, nil })
	want := []Kept{
		{"PACE_STATE_DIR", []string{"/cwd/rel"}, false}, {"PACE_LABEL", []string{"site=main hall"}, true}, {"PACE_LISTEN", []string{":7000"}, false},
		{"PACE_DISCOVERY", []string{""}, false}, {"PACE_DISCOVERY_LOOPBACK", []string{"true"}, false}, {"PACE_FLEET_SEED", []string{"a", "[::1]:9"}, true},
		{"PACE_PROVISION_DEFAULT", []string{`{"shutdown":true}`}, false}, // no path
		{"PACE_SERVICE_NAME", []string{"Pace2"}, false}, {"PACE_FIREWALL_ALLOW", []string{"10.0.0.0/8"}, true},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	_, err = c.Keep(func(string) (string, error) { return "", errors.New("no folder") })
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("%v, want the flag named", err)
	}
}

// TestKeptTextReadsBackTheSame: whatever is typed for a list, the one text that a store holds reads as the same values.
func TestKeptTextReadsBackTheSame(t *testing.T) {
	o := findOption(func(o *Option) bool { return o.Name == "label" })
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,3}=[a-z =,]{0,5}[a-z]`), 1, 4).Draw(t, "values")
		if d := cmp.Diff(values, o.split((Kept{Key: "PACE_LABEL", Values: values, List: true}).Text())); d != "" {
			t.Error(d)
		}
	})
}

// TestVerbsOfTheService: what a verb about the service reads. Its settings are those that the service reads, which has
// another environment; and what stands in them must not keep anybody from removing it.
func TestVerbsOfTheService(t *testing.T) {
	env := map[string]string{"PACE_NAME": "from-env", "PACE_LISTEN": "nonsense", "PACE_JSON": "1"}
	c, call, err := sources{args: []string{"--install-service", "--listen=:7000"}, env: env, stored: map[string]string{"PACE_LISTEN": "nonsense", "PACE_FLEET_SEED": "a"}}.parse()
	if err != nil || call.Name != "install-service" || c.Listen != ":7000" || c.Name != "" || !c.JSON || len(c.FleetSeeds) != 1 {
		t.Errorf("install: %+v, %+v, %v", c, call, err)
	}
	if _, _, err := (sources{args: []string{"--install-service"}, stored: map[string]string{"PACE_LISTEN": "nonsense"}}).parse(); !errors.Is(err, ErrRefused) {
		t.Errorf("install beside a stored value that the service refuses: %v", err)
	}
	c, _, err = sources{args: []string{"--uninstall-service", "--service-name=x"}, env: env, stored: map[string]string{"PACE_LISTEN": "nonsense", "PACE_OLD": "1"}, file: "no YAML: ["}.parse()
	if err != nil || c.ServiceName != "x" {
		t.Errorf("uninstall beside settings that are refused: %+v, %v", c, err)
	}
	if _, _, err := (sources{args: []string{"--uninstall-service", "--service-name=a/b"}}).parse(); !errors.Is(err, ErrRefused) {
		t.Errorf("uninstall of no name: %v", err)
	}
	getenv := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	if d := cmp.Diff([]string{"PACE_NAME", "PACE_LISTEN"}, Unkept(getenv)); d != "" {
		t.Error(d)
	}
}

// checkSurfaces writes out what is bound.
func checkSurfaces() string {
	n, s, l := "network", "segment", "loopback"
	for _, c := range []struct {
		args string
		want []Surface
	}{
		{"", []Surface{{"node", "tcp", 6674, "*", n}, {"raft", "tcp", 6680, "*", n}, {"discovery-beacon", "udp", 6681, "*", s}, {"discovery-reply", "udp", 0, "*", s},
			{"admin", "tcp", 6690, "127.0.0.1", l}}},
		{"--listen=10.1.0.2:7000 --listen-raft=[fd00::1]:0 --discovery=10.1.0.2:7002 --discovery-reply-port=6682 --admin-listen=0.0.0.0:9", []Surface{
			{"node", "tcp", 7000, "10.1.0.2", n}, {"raft", "tcp", 0, "fd00::1", n}, {"discovery-beacon", "udp", 7002, "10.1.0.2", s}, {"discovery-reply", "udp", 6682, "10.1.0.2", s},
			{"admin", "tcp", 9, "*", n}}},
		{"--listen=localhost:1 --listen-raft=[::1]:2 --discovery= --admin-listen=", []Surface{{"node", "tcp", 1, "localhost", l}, {"raft", "tcp", 2, "::1", l}}},
		{"--discovery-loopback --admin-listen=", []Surface{{"node", "tcp", 6674, "*", n}, {"raft", "tcp", 6680, "*", n}, {"discovery-beacon", "udp", 6681, "*", l},
			{"discovery-reply", "udp", 0, "*", l}}},
		{"--discovery=127.0.0.1:6681 --admin-listen=", []Surface{{"node", "tcp", 6674, "*", n}, {"raft", "tcp", 6680, "*", n}, {"discovery-beacon", "udp", 6681, "127.0.0.1", l},
			{"discovery-reply", "udp", 0, "127.0.0.1", l}}},
	} {
		cfg, _, err := sources{args: strings.Fields(c.args)}.parse()
		if err != nil {
			return err.Error()
		}
		if d := cmp.Diff(c.want, cfg.Surfaces()); d != "" {
			return c.args + "\n" + d
		}
	}
	return ""
}

func TestSurfaces(t *testing.T) {
	if d := checkSurfaces(); d != "" {
		t.Error(d)
	}
	if got := (Surface{Port: 0}).PortText() + (Surface{Port: 1}).PortText(); got != "any1" {
		t.Errorf("%q", got)
	}
	if (Surface{Scope: ScopeLoopback}).Beyond() || !(Surface{Scope: ScopeSegment}).Beyond() || !(Surface{Scope: ScopeNetwork}).Beyond() {
		t.Error("who is beyond loopback")
	}
}

func TestMutationSurfaces(t *testing.T) {
	for i := range surfaceRows {
		old := surfaceRows[i]
		for what, change := range map[string]func(*surfaceRow){
			"name": func(r *surfaceRow) { r.Name += "x" }, "protocol": func(r *surfaceRow) { r.Proto = "sctp" }, "scope": func(r *surfaceRow) { r.Scope = "world" },
			"address": func(r *surfaceRow) { r.Address = func(*Config) string { return ":4" } },
		} {
			change(&surfaceRows[i])
			if checkSurfaces() == "" {
				t.Errorf("row %d: another %s, and nothing noticed", i, what)
			}
			surfaceRows[i] = old
		}
	}
}
