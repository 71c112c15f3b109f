package node

import (
	"context"
	"slices"
	"sync"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/fleet"
	"pace-node/internal/formation"
	"pace-node/internal/identity"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// dialsOfVoter bounds how many endpoints of one voter are tried in one go: with a dial's time each, all of them together
// take less than the silence after which a learner goes on to another voter.
const dialsOfVoter = 4

// voterDials is where the fleet's voters were reached in this process, and what was remembered when it began. Where a
// machine is reached may be no endpoint that it announces: it stands on another segment, or behind a name.
type voterDials struct {
	mu     sync.Mutex
	at     map[identity.PublicKey]string
	before []string // of the record at the start; not changed afterwards
}

// reached keeps where a key answered, and reports whether that is news.
func (d *voterDials) reached(key identity.PublicKey, endpoint string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if endpoint == "" || d.at[key] == endpoint {
		return false
	}
	if d.at == nil {
		d.at = map[identity.PublicKey]string{}
	}
	d.at[key] = endpoint
	return true
}

// keep forgets every key but these, and returns where each was reached, empty for one that was not.
func (d *voterDials) keep(keys []identity.PublicKey) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = d.at[k]
	}
	for k := range d.at {
		if !slices.Contains(keys, k) {
			delete(d.at, k)
		}
	}
	return out
}

// candidates are the endpoints to try for a key, in order: those given, with where it was reached last in second place, and
// what is remembered and known to be nobody else's.
func (d *voterDials) candidates(key identity.PublicKey, given ...string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	add := func(e string) {
		if e != "" && !slices.Contains(out, e) && len(out) < dialsOfVoter {
			out = append(out, e)
		}
	}
	if len(given) > 0 {
		add(given[0])
	}
	add(d.at[key])
	for _, e := range given {
		add(e)
	}
	for _, e := range d.before {
		others := false
		for k, at := range d.at {
			others = others || at == e && k != key
		}
		if !others {
			add(e)
		}
	}
	return out
}

// rememberedOf are the endpoints to remember of voters: of each where it was reached and where it says it is.
func rememberedOf(reached, said []string) []string {
	var out []string
	for i := range said {
		for _, e := range []string{reached[i], said[i]} {
			if wire.ValidEndpoint(e) && !slices.Contains(out, e) && len(out) < formation.MaxRemembered {
				out = append(out, e)
			}
		}
	}
	return out
}

func rememberedSeeds(endpoints []string) []formation.Seed {
	out := make([]formation.Seed, len(endpoints))
	for i, e := range endpoints {
		out[i] = formation.Seed{Endpoint: e, Origin: formation.OriginRemembered}
	}
	return out
}

// remember keeps in the record where the fleet's voters are. It is a hint for a later start, which never waits for it.
func (n *Node) remember(now time.Time) {
	v := n.view.Load()
	own := n.form.Own()
	if n.inMove || v == nil || v.Cluster() != own.Cluster || own.Mode != formation.Learner && own.Mode != formation.Voter {
		return
	}
	var keys []identity.PublicKey
	var said []string
	for _, m := range v.Voters() {
		if m.ID != n.id {
			keys, said = append(keys, m.Key), append(said, m.Endpoints.FC)
		}
	}
	reached := n.voterDials.keep(keys)
	list := rememberedOf(reached, said)
	if slices.Contains(reached, "") { // what the last process found of the others still stands
		for _, e := range n.voterDials.before {
			if !slices.Contains(list, e) && len(list) < formation.MaxRemembered {
				list = append(list, e)
			}
		}
	}
	if len(keys) == 0 || slices.Equal(list, n.rec.Remembered) {
		return
	}
	n.keepRecord(func(rec *statedir.Record) {
		if rec.Cluster == own.Cluster {
			rec.Remembered = list
		}
	})
	n.step(now, formation.Event{Kind: formation.EvRemembered, Endpoints: list})
}

// lookupSRV asks DNS for seeds and feeds what it answered.
func (n *Node) lookupSRV(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, formation.DialTimeout)
	defer cancel()
	suffix, found, err := n.cfg.Network.(SeedFinder).LookupSRV(ctx, formation.SRVService, formation.SRVProto)
	e := formation.Event{Kind: formation.EvSRV}
	if suffix != "" {
		e.Endpoint = formation.SRVName(suffix)
	}
	left := 0
	if err != nil {
		e.Err = err.Error()
	} else {
		records := make([]formation.SRVRecord, len(found))
		for i, r := range found {
			records[i] = formation.SRVRecord(r)
		}
		e.Endpoints, left = formation.SRVEndpoints(records)
	}
	n.post(func(now time.Time) {
		n.srv = srvStatus{name: e.Endpoint, said: srvText(e, left)}
		if e.Err == "" && !slices.Equal(e.Endpoints, n.srvSeeds) {
			n.srvSeeds = e.Endpoints
			words := make([]string, len(e.Endpoints))
			for i, w := range e.Endpoints {
				words[i] = control.Word(w)
			}
			n.log.Info("DNS names seeds", "name", control.Word(e.Endpoint), "seeds", words, "left-out", left)
		}
		n.step(now, e)
	})
}

// srvStatus is what became of the last question to DNS, for people.
type srvStatus struct{ name, said string }

func srvText(e formation.Event, left int) string {
	switch {
	case e.Err != "":
		return formation.SaySRVFailed.String() + ": " + e.Err
	case len(e.Endpoints) == 0 && left == 0:
		return "DNS has no such records"
	case left > 0:
		return plural(len(e.Endpoints), "seed", "seeds") + ", " + plural(left, "record", "records") + " left out that cannot be dialled or are too many"
	}
	return plural(len(e.Endpoints), "seed", "seeds")
}

// seedStatus is every seed and what became of it; the name that DNS is asked for comes last.
func (n *Node) seedStatus() []control.SeedStatus {
	var out []control.SeedStatus
	for _, s := range n.form.Seeds() {
		status := control.SeedStatus{Endpoint: s.Endpoint, Origin: s.Origin.String()}
		if s.Say != 0 {
			status.Said = s.Say.String()
		}
		out = append(out, status)
	}
	if n.srv.name != "" {
		out = append(out, control.SeedStatus{Endpoint: n.srv.name, Origin: formation.OriginSRV.String(), Said: n.srv.said})
	}
	return out
}

// pinToPaste is the pin of the fleet that this machine is in, nil while none of its voters is known.
func (n *Node) pinToPaste() *formation.Pin {
	v := n.view.Load()
	cluster, voters := v.Cluster(), v.Voters()
	if b := n.serving.Load(); cluster == "" && b != nil && b.learner != nil { // before its first snapshot
		cluster, voters = b.cluster, b.learner.Voters()
	}
	pin := &formation.Pin{Cluster: cluster}
	for _, m := range voters[:min(len(voters), formation.MaxPinKeys)] {
		pin.Keys = append(pin.Keys, m.Key)
	}
	if len(pin.Keys) == 0 {
		return nil
	}
	return pin
}

// unpinnedText says which key stands against the pin, and what to do if it is no stranger's.
func unpinnedText(a formation.Action) string {
	text := " speaks under the key "
	switch a.Why {
	case formation.WhyAnswerUnpinned:
		text = " answers this machine's ask under the key "
	case formation.WhyLeaderUnpinned:
		text = " is to be led by a machine that answers under the key "
	case formation.WhyOrderUnpinned:
		text = " is where this fleet is told to dissolve into, by the key "
	case formation.WhyPinnedKey:
		if !a.Fleet.SpeakerKey.IsZero() && a.Fleet.SpeakerKey != a.PinKey {
			text = " is spoken for under the key " + a.Fleet.SpeakerKey.String() + ", which says that it is led under the key "
		}
	}
	return text + a.PinKey.String() + ", which --fleet-id does not name: add it there if it is that fleet's voter's, else somebody claims to be that fleet"
}

// memberEndpoints are where to try a member, best first: where it has proven to be, where it was reached last, where the
// roster has it, where its proof came from, and what was remembered at the start. The loop's.
func (n *Node) memberEndpoints(now time.Time, m fleet.Member) []string {
	proven, source := "", ""
	if e, _, ok := n.exchange.Lookup(m.ID); ok {
		proven = e
		for _, p := range n.exchange.Authenticated(now) {
			if p.ID == m.ID {
				source = formation.AtSource(e, p.Addr.Addr())
			}
		}
	}
	if proven == "" {
		proven = m.Endpoints.FC
	}
	return n.voterDials.candidates(m.Key, proven, m.Endpoints.FC, source)
}
