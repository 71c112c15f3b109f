package probe

import (
	"context"
	"errors"
	"strings"
	"testing"

	"pace-node/internal/host"
)

const (
	nftDrops = `{"nftables":[{"metainfo":{"version":"1.1"}},{"table":{"family":"inet","name":"fw"}},
		{"chain":{"family":"inet","table":"fw","name":"out","hook":"output","policy":"drop"}},
		{"chain":{"family":"inet","table":"fw","name":"in","hook":"input","policy":"accept"}},
		{"rule":{"family":"inet","table":"fw","chain":"in","expr":[{"match":{}},{"drop":null}]}}]}`
	nftPolicy = `{"nftables":[{"chain":{"family":"ip","table":"filter","name":"INPUT","hook":"input","policy":"drop"}}]}`
	nftCounts = `{"nftables":[{"chain":{"family":"inet","table":"seen","name":"in","hook":"input","policy":"accept"}},
		{"rule":{"family":"inet","table":"seen","chain":"in","expr":[{"counter":{}},{"accept":null}]}},
		{"rule":{"family":"inet","table":"seen","chain":"other","expr":[{"drop":null}]}}]}`
)

func TestAskFirewall(t *testing.T) {
	for _, c := range []struct {
		what, goos string
		says       map[string]string // by the command; what is not there fails
		want       Firewall
	}{
		{"nothing", "linux", nil, Firewall{}},
		{"firewalld", "linux", map[string]string{"firewall-cmd --state": "running", "nft -j list ruleset": nftDrops}, Firewall{Kind: "firewalld"}},
		{"firewalld with the service", "linux", map[string]string{"firewall-cmd --state": "running", "firewall-cmd --query-service=pace-node": "yes"}, Firewall{Kind: "firewalld", Admits: true}},
		{"ufw", "linux", map[string]string{"ufw status": "Status: active\n22/tcp ALLOW Anywhere"}, Firewall{Kind: "ufw"}},
		{"ufw with the profile", "linux", map[string]string{"ufw status": "Status: active\npace-node ALLOW Anywhere"}, Firewall{Kind: "ufw", Admits: true}},
		{"ufw, off", "linux", map[string]string{"ufw status": "Status: inactive", "nft -j list ruleset": nftDrops}, Firewall{Kind: "nft", Family: "inet", Table: "fw", Chain: "in"}},
		{"nft by its policy", "linux", map[string]string{"nft -j list ruleset": nftPolicy}, Firewall{Kind: "nft", Family: "ip", Table: "filter", Chain: "INPUT"}},
		{"nft that counts", "linux", map[string]string{"nft -j list ruleset": nftCounts}, Firewall{}},
		{"nft with many rules", "linux", map[string]string{"nft -j list ruleset": nftDrops[:99], "nft -j list chains": nftPolicy}, Firewall{Kind: "nft", Family: "ip", Table: "filter", Chain: "INPUT"}},
		{"nft that says nonsense", "linux", map[string]string{"nft -j list ruleset": "{"}, Firewall{}},
		{"iptables", "linux", map[string]string{"iptables -S INPUT": "-P INPUT DROP"}, Firewall{Kind: "iptables"}},
		{"iptables that accepts", "linux", map[string]string{"iptables -S INPUT": "-P INPUT ACCEPT"}, Firewall{}},
		{"Windows", "windows", nil, Firewall{Kind: "windows"}},
		{"Windows with the rules", "windows", map[string]string{"netsh advfirewall firewall show rule name=PaceNode node tcp/6674": ""}, Firewall{Kind: "windows", Admits: true}},
		{"macOS, off", "darwin", map[string]string{socketFw + " --getglobalstate": "Firewall is disabled. (State = 0)"}, Firewall{}},
		{"macOS", "darwin", map[string]string{socketFw + " --getglobalstate": "Firewall is enabled. (State = 1)"}, Firewall{Kind: "macos"}},
		{"macOS that was told", "darwin", map[string]string{socketFw + " --getglobalstate": "Firewall is enabled. (State = 1)", socketFw + " --listapps": "1 : /opt/pace-node/bin/pace-node"}, Firewall{Kind: "macos", Admits: true}},
	} {
		run := func(_ context.Context, _, program string, args ...string) (host.Result, error) {
			out, ok := c.says[strings.Join(append([]string{program}, args...), " ")]
			if !ok {
				return host.Result{Code: 1}, errors.New("no such program")
			}
			return host.Result{Out: out}, nil
		}
		if got := AskFirewall(context.Background(), c.goos, "/opt/pace-node/bin/pace-node", run); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func FuzzDropsIn(f *testing.F) {
	f.Add(nftDrops)
	f.Add(nftPolicy)
	f.Fuzz(func(t *testing.T, ruleset string) {
		if got := dropsIn(ruleset); got.Kind != "" && got.Kind != "nft" {
			t.Errorf("%+v", got)
		}
	})
}

func TestGatewayAnswers(t *testing.T) {
	const route = "   route to: default\ndestination: default\n    gateway: 10.1.255.254\n  interface: en0"
	for arp, want := range map[string]bool{
		"? (10.1.255.254) at 0:1:2:3:4:5 on en0 ifscope [ethernet]": true,
		"? (10.1.255.254) at (incomplete) on en0 ifscope":           false,
		"10.1.255.254 (10.1.255.254) -- no entry":                   false,
	} {
		run := func(_ context.Context, _, program string, args ...string) (host.Result, error) {
			if program == "/sbin/route" {
				return host.Result{Out: route}, nil
			}
			if args[1] != "10.1.255.254" {
				t.Errorf("asked for %q", args)
			}
			return host.Result{Out: arp}, nil
		}
		if got := GatewayAnswers(context.Background(), run); got != want {
			t.Errorf("%q: %t", arp, got)
		}
	}
	if gatewayIn("route: writing to routing socket: not in table") != "" {
		t.Error("a gateway where there is none")
	}
}
