package windows

import "time"

// How the service control manager is kept waiting. It asks for a word at least every waitHint; a checkpoint at each beat
// says that something goes on. What takes longer than its limit is given up: systemd's unit has the same limits.
const (
	beatEvery  = time.Second
	waitHint   = 10 * time.Second
	startLimit = 90 * time.Second
	stopLimit  = 20 * time.Second
)

// States of a service, as winsvc.h numbers them.
const (
	stateStopped      = 1
	stateStartPending = 2
	stateStopPending  = 3
	stateRunning      = 4
)

// What a service accepts, as winsvc.h numbers it. Before a shutdown there is time to hand leadership over; at the shutdown
// itself there is little.
const (
	acceptStop        = 0x1
	acceptShutdown    = 0x4
	acceptPreShutdown = 0x100
)

// control is what a word of the service control manager asks for.
type control uint8

const (
	controlIgnore      control = iota // not for us
	controlInterrogate                // say the state again
	controlStop                       // end
)

// controlRow is one row of which words mean what. Codes are winsvc.h's.
type controlRow struct {
	Code    uint32
	Control control
}

var controls = []controlRow{
	{1, controlStop},        // SERVICE_CONTROL_STOP
	{4, controlInterrogate}, // SERVICE_CONTROL_INTERROGATE
	{5, controlStop},        // SERVICE_CONTROL_SHUTDOWN
	{15, controlStop},       // SERVICE_CONTROL_PRESHUTDOWN
}

func controlOf(code uint32) control {
	for _, row := range controls {
		if row.Code == code {
			return row.Control
		}
	}
	return controlIgnore
}

// report is what the service says of itself.
type report struct {
	State, Accepts, CheckPoint uint32
	WaitHint                   time.Duration
}

// talk is the service's side of its conversation with the service control manager. It has no clock: now is an argument.
type talk struct {
	report
	since time.Time // of the state
}

// begin is the first report: the manager hears it before anything else is done.
func begin(now time.Time) *talk {
	return &talk{report{State: stateStartPending, WaitHint: waitHint}, now}
}

// ready makes a service that starts a running one.
func (t *talk) ready(now time.Time) (say bool) {
	if t.State != stateStartPending {
		return false
	}
	t.report, t.since = report{State: stateRunning, Accepts: acceptStop | acceptShutdown | acceptPreShutdown}, now
	return true
}

// heard takes a word of the manager: whether to report, and whether this is the moment to end.
func (t *talk) heard(now time.Time, code uint32) (say, stop bool) {
	switch controlOf(code) {
	case controlInterrogate:
		return true, false
	case controlStop:
		if t.State == stateStopPending { // a shutdown after its announcement: it goes on ending
			return true, false
		}
		t.report, t.since = report{State: stateStopPending, WaitHint: waitHint}, now
		return true, true
	}
	return false, false
}

// beat is one more second: whether to report a checkpoint, and whether this takes too long.
func (t *talk) beat(now time.Time) (say, late bool) {
	limit := startLimit
	switch t.State {
	case stateStopPending:
		limit = stopLimit
	case stateStartPending:
	default:
		return false, false
	}
	t.CheckPoint++
	return true, now.Sub(t.since) >= limit
}
