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
	ActStop     Act = "stop"      // a clean end: a leader hands over first
	ActTrap     Act = "trap"      // power lost at a point of its code: trap m03 record.after
	ActCut      Act = "cut"       // it and the machines named reach only one another: cut m03 m04 m05
	ActHeal     Act = "heal"      // everybody reaches everybody
	ActLoss     Act = "loss"      // datagrams that are lost, in percent: loss m00 30
	ActClock    Act = "clock"     // its clock is set: clock m03 -2h
	ActDiskFull Act = "disk-full" // it takes nothing
	ActDiskFree Act = "disk-free"
	ActFreeze   Act = "freeze"  // its process stands still: freeze m03 20s
	ActDestroy  Act = "destroy" // it is lost for good, and another machine takes its place
)

// Acts of people, at the leader of the fleet that the machine is in or asks. Whom they are about is a name, or #n: the n-th,
// counted round, of those that it may be about.
const (
	ActApprove     Act = "approve" // one that waits: approve m03 #2
	ActReject      Act = "reject"  // the same
	ActGiveUp      Act = "give-up" // this machine's own ask
	ActWindow      Act = "window"  // window m03 10m
	ActWindowOff   Act = "window-off"
	ActAwait       Act = "await"       // one that is no member: await m03 m07
	ActSeat        Act = "seat"        // the same, to be a voter
	ActPromote     Act = "promote"     // a member: promote m03 #1
	ActDemote      Act = "demote"      // a member, or the leader itself
	ActForget      Act = "forget"      // another member: forget m03 #1
	ActLeave       Act = "leave"       // this machine itself
	ActLeaveAlone  Act = "leave-alone" // the same, without the fleet's word
	ActRecover     Act = "recover"     // this machine's fleet, where it has lost its quorum for good
	ActAccept      Act = "accept"      // by this machine, of who recovered its fleet
	ActSet         Act = "set"         // set m03 enrollment.per-source=6
	ActPause       Act = "pause"       // the queue, or resume
	ActReprovision Act = "reprovision" // a member: reprovision m03 #1
	ActRetry       Act = "retry"       // one that the queue knows: retry m03 #0
	ActDrop        Act = "drop"        // the same
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
	{ActStop, 8, (*drawing).one, func(_ *World, h *host, _ string) { h.stop() }},
	{ActTrap, 14, func(d *drawing) (int, string) { return d.any(), Points[d.IntN(len(Points))] }, func(_ *World, h *host, arg string) { h.trap = arg }},
	{ActCut, 8, (*drawing).group, doCut},
	{ActHeal, 12, (*drawing).one, func(w *World, _ *host, _ string) { w.heal() }},
	{ActLoss, 4, func(d *drawing) (int, string) { return 0, strconv.Itoa(10 * d.IntN(6)) }, doLoss},
	{ActClock, 4, (*drawing).skew, doClock},
	{ActDiskFull, 3, (*drawing).one, func(_ *World, h *host, _ string) { h.full = true }},
	{ActDiskFree, 9, (*drawing).one, func(_ *World, h *host, _ string) { h.full = false }},
	{ActFreeze, 6, func(d *drawing) (int, string) {
		return d.any(), d.between(time.Second, 40*time.Second).Truncate(time.Second).String()
	}, func(_ *World, h *host, arg string) {
		if d, err := time.ParseDuration(arg); err == nil {
			h.freeze(min(max(d, 0), time.Minute))
		}
	}},
	{ActApprove, 40, (*drawing).pick1, doApprove},
	{ActReject, 3, (*drawing).pick1, doReject},
	{ActGiveUp, 2, (*drawing).one, func(_ *World, h *host, _ string) {
		if p := h.proc; p != nil && p.form.Own().Mode == formation.Pending {
			p.step(formation.Event{Kind: formation.EvGiveUpAsk})
		}
	}},
	{ActWindow, 5, func(d *drawing) (int, string) {
		return d.any(), d.between(time.Minute, 20*time.Minute).Truncate(time.Second).String()
	}, doWindow},
	{ActWindowOff, 3, (*drawing).one, doWindowOff},
	{ActAwait, 8, (*drawing).pick1, func(w *World, h *host, arg string) { w.await(h, arg, false) }},
	{ActSeat, 4, (*drawing).pick1, func(w *World, h *host, arg string) { w.await(h, arg, true) }},
	{ActPromote, 30, (*drawing).pick1, doPromote},
	{ActDemote, 5, (*drawing).pick1, doDemote},
	{ActForget, 8, (*drawing).pick1, doForget},
	{ActLeave, 5, (*drawing).one, func(_ *World, h *host, _ string) {
		if h.proc != nil {
			h.proc.leave()
		}
	}},
	{ActLeaveAlone, 4, (*drawing).one, func(_ *World, h *host, _ string) {
		if h.proc != nil {
			h.proc.leaveAlone()
		}
	}},
	{ActDestroy, 3, (*drawing).one, func(w *World, h *host, _ string) { w.destroy(h) }},
	{ActRecover, 12, (*drawing).one, func(w *World, h *host, _ string) { w.recover(h) }},
	{ActAccept, 8, (*drawing).one, func(w *World, h *host, _ string) { w.accept(h) }},
	{ActSet, 3, func(d *drawing) (int, string) { return d.any(), "enrollment.per-source=" + strconv.Itoa(1+d.IntN(9)) }, doSet},
	{ActPause, 2, (*drawing).one, doPause},
	{ActReprovision, 5, (*drawing).pick1, doReprovision},
	{ActRetry, 4, (*drawing).pick1, func(w *World, h *host, arg string) { w.queueVerb(h, arg, (*work).retry) }},
	{ActDrop, 2, (*drawing).pick1, func(w *World, h *host, arg string) { w.queueVerb(h, arg, (*work).dropOne) }},
}

// surroundings are the acts that a process which stands still does not keep from happening.
var surroundings = map[Act]bool{ActBoot: true, ActCrash: true, ActTrap: true, ActCut: true, ActHeal: true, ActLoss: true, ActClock: true,
	ActDiskFull: true, ActDiskFree: true, ActFreeze: true, ActDestroy: true}

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
	if w.hosts[s.Who].frozen() && !surroundings[s.Act] {
		return // nobody is answered there
	}
	actRow(s.Act).do(w, w.hosts[s.Who], s.Arg)
}

func doCut(w *World, h *host, arg string) {
	w.islands++
	h.island = w.islands
	for _, n := range Group(arg) {
		if n < len(w.hosts) {
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

// which is whom an argument names among those that an act may be about; nil for none.
func (w *World) which(arg string, among []*host) *host {
	numbers := make([]int, len(among))
	for i, h := range among {
		numbers[i] = h.n
	}
	if n := Pick(arg, numbers); n >= 0 && n < len(w.hosts) {
		return w.hosts[n]
	}
	return nil
}

// Pick returns the machine that an argument names: by its name, or as #n, the n-th counted round of those that the act may
// be about; -1 for none.
func Pick(arg string, among []int) int {
	if n, ok := strings.CutPrefix(arg, "#"); ok {
		k, err := strconv.Atoi(n)
		if err != nil || k < 0 || len(among) == 0 {
			return -1
		}
		return among[k%len(among)]
	}
	n, err := machineOf(arg)
	if err != nil {
		return -1
	}
	return n
}

// Group returns the machines that an argument lists by their names.
func Group(arg string) []int {
	var out []int
	for _, name := range strings.Fields(arg) {
		if n, err := machineOf(name); err == nil {
			out = append(out, n)
		}
	}
	return out
}
