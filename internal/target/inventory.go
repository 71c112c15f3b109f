package target

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"runtime"
	"slices"

	"pace-node/internal/wire"
)

// collective is the group that a machine is in while the leader works it, in the words of the reference's helpers.
const collective = "provisioning"

// Inventory is what this machine tells of itself: one JSON object of wire.Inventory's shape.
func (t *Target) Inventory() (json.RawMessage, error) {
	b, err := json.Marshal(t.describe())
	if err != nil {
		return nil, fmt.Errorf("target: the inventory cannot be written: %w", err)
	}
	if len(b) > MaxInventory {
		return nil, fmt.Errorf("target: the inventory has %d bytes and may have %d: give the machine fewer labels", len(b), MaxInventory)
	}
	return b, nil
}

func (t *Target) inventory(context.Context, json.RawMessage) (any, *refusal) {
	b, err := t.Inventory()
	if err != nil {
		return nil, refuse(ReasonFacts, wire.Printable(err.Error()))
	}
	return b, nil
}

func (t *Target) describe() wire.Inventory {
	facts := t.allFacts()
	upgradable := t.upgradeFacts(facts)
	return wire.Inventory{
		Agents: []string{}, Classes: []string{}, Collectives: []string{collective}, DataPlugins: []string{}, Machines: []string{},
		Facts: facts, MainCollective: collective, Upgradable: upgradable, Version: t.cfg.Version,
	}
}

// allFacts are read anew at each inventory: addresses and names change.
func (t *Target) allFacts() map[string]any {
	labels := t.cfg.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	f := map[string]any{
		"id":        t.cfg.NodeID,
		"name":      t.cfg.Name,
		"labels":    labels,
		"os":        runtime.GOOS,
		"arch":      runtime.GOARCH,
		"platform":  t.cfg.Platform,
		"cpus":      runtime.NumCPU(),
		"addresses": addresses(),
	}
	if host, err := os.Hostname(); err == nil {
		f["hostname"] = host
	}
	maps.Copy(f, systemFacts())
	if t.cfg.Facts != nil {
		maps.Copy(f, t.cfg.Facts())
	}
	return f
}

// addresses are this machine's own, without those that every machine has.
func addresses() []string {
	out := []string{}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return out
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() {
			continue
		}
		out = append(out, n.IP.String())
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), MaxAddresses)]
}
