package probe

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"pace-node/internal/host"
)

// Firewall is the one that filters what arrives at this machine.
type Firewall struct {
	Kind                 string // firewalld, ufw, nft, iptables, windows, macos; "": none is known to filter
	Family, Table, Chain string // of nft's chain that drops
	Admits               bool   // it is known to let the node's ports pass
}

// Programs that are asked.
const (
	firewallCmd = "firewall-cmd"
	ufw         = "ufw"
	nft         = "nft"
	iptables    = "iptables"
	socketFw    = "/usr/libexec/ApplicationFirewall/socketfilterfw"
	netsh       = "netsh"
	ruleName    = "PaceNode node tcp/6674"
)

// AskFirewall asks the firewalls of a system, the ones that manage others first. program is the node's.
func AskFirewall(ctx context.Context, goos, program string, run host.Runner) Firewall {
	says := func(name string, args ...string) (string, bool) {
		r, err := run(ctx, "", name, args...)
		return r.Out, err == nil && r.Code == 0
	}
	switch goos {
	case "linux":
		return linuxFirewall(says)
	case "windows":
		_, there := says(netsh, "advfirewall", "firewall", "show", "rule", "name="+ruleName)
		return Firewall{Kind: "windows", Admits: there}
	case "darwin":
		if out, ok := says(socketFw, "--getglobalstate"); ok && strings.Contains(out, "enabled") {
			list, _ := says(socketFw, "--listapps")
			return Firewall{Kind: "macos", Admits: strings.Contains(list, program)}
		}
	}
	return Firewall{}
}

func linuxFirewall(says func(string, ...string) (string, bool)) Firewall {
	if _, ok := says(firewallCmd, "--state"); ok {
		_, admits := says(firewallCmd, "--query-service=pace-node")
		return Firewall{Kind: "firewalld", Admits: admits}
	}
	if out, ok := says(ufw, "status"); ok && strings.Contains(out, "Status: active") {
		return Firewall{Kind: "ufw", Admits: strings.Contains(out, "pace-node") || strings.Contains(out, "6681")}
	}
	if out, ok := says(nft, "-j", "list", "ruleset"); ok && json.Valid([]byte(out)) {
		return dropsIn(out)
	} else if ok { // too long to be kept whole: the chains alone tell of their policies
		out, _ = says(nft, "-j", "list", "chains")
		return dropsIn(out)
	}
	if out, ok := says(iptables, "-S", "INPUT"); ok && (strings.Contains(out, "-P INPUT DROP") || strings.Contains(out, "-j DROP") || strings.Contains(out, "-j REJECT")) {
		return Firewall{Kind: "iptables"}
	}
	return Firewall{}
}

// maxRuleset bounds what is read of nft's rules, in bytes.
const maxRuleset = 8 << 20

// dropsIn finds the first chain of nft's rules that filters what arrives and drops some of it. What does not read is no
// chain.
func dropsIn(ruleset string) Firewall {
	var doc struct {
		Rows []struct {
			Chain *struct{ Family, Table, Name, Hook, Policy string }
			Rule  *struct {
				Family, Table, Chain string
				Expr                 []map[string]json.RawMessage
			}
		} `json:"nftables"`
	}
	if len(ruleset) > maxRuleset || json.Unmarshal([]byte(ruleset), &doc) != nil {
		return Firewall{}
	}
	type place struct{ family, table, chain string }
	var inputs []place
	for _, r := range doc.Rows {
		if c := r.Chain; c != nil && c.Hook == "input" && slices.Contains([]string{"ip", "inet"}, c.Family) {
			at := place{c.Family, c.Table, c.Name}
			if c.Policy == "drop" {
				return Firewall{Kind: nft, Family: at.family, Table: at.table, Chain: at.chain}
			}
			inputs = append(inputs, at)
		}
	}
	for _, r := range doc.Rows {
		if r.Rule == nil || !slices.Contains(inputs, place{r.Rule.Family, r.Rule.Table, r.Rule.Chain}) {
			continue
		}
		for _, e := range r.Rule.Expr {
			_, drop := e["drop"]
			_, reject := e["reject"]
			if drop || reject {
				return Firewall{Kind: nft, Family: r.Rule.Family, Table: r.Rule.Table, Chain: r.Rule.Chain}
			}
		}
	}
	return Firewall{}
}
