package simfleet

import (
	"strconv"
	"strings"
	"time"

	"pace-node/internal/formation"
)

// Act is what a step does.
type Act string

// Acts of the machines' surroundings.
const (
	ActBoot     Act = "boot"      // power
	ActCrash    Act = "crash"     // power lost
	ActTrap     Act = "trap"      // power lost at a point of its code: trap m03 record.after
	ActCut      Act = "cut"       // it and the machines named reach only one another: cut m03 m04 m05
	ActHeal     Act = "heal"      // everybody reaches everybody
	ActLoss     Act = "loss"      // datagrams that are lost, in percent: loss m00 30
	ActClock    Act = "clock"     // its clock is set: clock m03 -2h
	ActDiskFull Act = "disk-full" // it takes nothing
	ActDiskFree Act = "disk-free"
)

// Acts of people.
const (
	ActApprove   Act = "approve"    // this machine, where it waits
	ActReject    Act = "reject"     // the same
	ActGiveUp    Act = "give-up"    // this machine's ask
	ActWindow    Act = "window"     // on this machine's leader: window m03 10m
	ActWindowOff Act = "window-off" // the same
	ActAwait     Act = "await"      // pre-approve on this machine's leader: await m03 m07
	ActForget    Act = "forget"     // on this machine's leader: forget m03 m07
	ActSet       Act = "set"        // on this machine's leader: set m03 enrollment.per-source=6
)

// ActRow is one row of the table of acts.
type ActRow struct {
	Act    Act
	Weight int // how often it is drawn, against the others
	draw   func(d *drawing) (who int, arg string)
	do     func(w *World, h *host, arg string)
}

// Acts is the table of acts.
var Acts = []ActRow{
	{ActBoot, 30, (*drawing).one, func(_ *World, h *host, _ string) { h.start() }},
	{ActCrash, 14, (*drawing).one, func(_ *World, h *host, _ string) { h.kill("loses its power") }},
	{ActTrap, 14, func(d *drawing) (int, string) { return d.any(), Points[d.IntN(len(Points))] }, func(_ *World, h *host, arg string) { h.trap = arg }},
	{ActCut, 8, (*drawing).group, doCut},
	{ActHeal, 12, (*drawing).one, func(w *World, _ *host, _ string) { w.heal() }},
	{ActLoss, 4, func(d *drawing) (int, string) { return 0, strconv.Itoa(10 * d.IntN(6)) }, doLoss},
	{ActClock, 4, (*drawing).skew, doClock},
	{ActDiskFull, 3, (*drawing).one, func(_ *World, h *host, _ string) { h.full = true }},
	{ActDiskFree, 9, (*drawing).one, func(_ *World, h *host, _ string) { h.full = false }},
	{ActApprove, 40, (*drawing).one, func(w *World, h *host, _ string) { w.approve(h) }},
	{ActReject, 3, (*drawing).one, func(w *World, h *host, _ string) { w.reject(h) }},
	{ActGiveUp, 2, (*drawing).one, func(_ *World, h *host, _ string) {
		if p := h.proc; p != nil && p.form.Own().Mode == formation.Pending {
			p.step(formation.Event{Kind: formation.EvGiveUpAsk})
		}
	}},
	{ActWindow, 5, func(d *drawing) (int, string) {
		return d.any(), d.between(time.Minute, 20*time.Minute).Truncate(time.Second).String()
	}, doWindow},
	{ActWindowOff, 3, (*drawing).one, doWindowOff},
	{ActAwait, 8, (*drawing).pair, doAwait},
	{ActForget, 8, (*drawing).pair, doForget},
	{ActSet, 3, func(d *drawing) (int, string) { return d.any(), "enrollment.per-source=" + strconv.Itoa(1+d.IntN(9)) }, doSet},
}

func actRow(a Act) *ActRow {
	for i := range Acts {
		if Acts[i].Act == a {
			return &Acts[i]
		}
	}
	return nil
}

// perform does a step.
func (w *World) perform(s Step) {
	w.said = append(w.said, "            — "+s.String())
	actRow(s.Act).do(w, w.hosts[s.Who], s.Arg)
}

func doCut(w *World, h *host, arg string) {
	w.islands++
	h.island = w.islands
	for _, name := range strings.Fields(arg) {
		if n, err := machineOf(name); err == nil && n < len(w.hosts) {
			w.hosts[n].island = w.islands
		}
	}
	w.parted()
}

func (w *World) heal() {
	for _, h := range w.hosts {
		h.island = 0
	}
}

func doLoss(w *World, _ *host, arg string) {
	percent, _ := strconv.Atoi(arg)
	w.loss = float64(min(max(percent, 0), 90)) / 100
}

func doClock(_ *World, h *host, arg string) {
	if d, err := time.ParseDuration(arg); err == nil {
		h.skew = d
	}
}

// named is the machine that an argument names; nil for none.
func (w *World) named(arg string) *host {
	if n, err := machineOf(arg); err == nil && n < len(w.hosts) {
		return w.hosts[n]
	}
	return nil
}
