package windows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/host"
)

const (
	displayName = "Pace fleet node"
	description = "Finds the machines of its fleet, follows the fleet's state, and is provisioned by its leader."
	programFile = "pace-node.exe"
	netshPath   = `netsh.exe`          // in the system folder, by its full path: PATH is the caller's
	rulesValue  = "FirewallRules"      // of the settings' key: what was made, so that it can be deleted by its exact name
	startType   = 2                    // SERVICE_AUTO_START
	serviceType = 0x10                 // SERVICE_WIN32_OWN_PROCESS
	accountName = "LocalSystem"        // so spelled: other spellings of it are not understood everywhere
	stopWait    = stopLimit + waitHint // for a service to end
	startWait   = startLimit + waitHint
	statePause  = 200 * time.Millisecond // between two looks
)

// recovery is what the manager does when the service fails, also when it ends by itself with an error: it starts it again,
// later each time. A day without a failure begins anew.
type recovery struct {
	After       []time.Duration
	ResetAfter  time.Duration
	OnError     bool // also on an exit with an error
	PreShutdown time.Duration
}

var wantedRecovery = recovery{
	After: []time.Duration{time.Second, 5 * time.Second, 30 * time.Second}, ResetAfter: 24 * time.Hour, OnError: true,
	PreShutdown: stopLimit + waitHint/2, // a little more than the service gives itself
}

func (r recovery) equal(other recovery) bool {
	return slices.Equal(r.After, other.After) && r.ResetAfter == other.ResetAfter && r.OnError == other.OnError && r.PreShutdown == other.PreShutdown
}

// registered is a service as the manager knows it.
type registered struct {
	Command     string // the command line
	Start, Type uint32
	Account     string
	Display     string
	Description string
}

func wanted(program string) registered {
	return registered{Command: commandLine(program), Start: startType, Type: serviceType, Account: accountName, Display: displayName, Description: description}
}

// commandLine is the program alone: what it is to do stands in the settings. It is quoted also where it has no blank, so that
// no folder above it can be taken for it.
func commandLine(program string) string { return `"` + program + `"` }

// commandProgram is the program of a command line.
func commandProgram(command string) string {
	if rest, quoted := strings.CutPrefix(command, `"`); quoted {
		program, _, _ := strings.Cut(rest, `"`)
		return program
	}
	program, _, _ := strings.Cut(command, " -")
	return program
}

func isOurs(command string) bool {
	program := strings.ToLower(commandProgram(command))
	return program == programFile || strings.HasSuffix(program, `\`+programFile)
}

// differences are what a registered service has otherwise than it is wanted, as sentences.
func differences(have, want registered) (out []string) {
	if !sameProgram(have.Command, want.Command) {
		out = append(out, "it runs "+commandProgram(want.Command))
	}
	if have.Start != want.Start {
		out = append(out, "it starts with the machine")
	}
	if have.Type != want.Type {
		out = append(out, "it has a process of its own")
	}
	if !strings.EqualFold(have.Account, want.Account) {
		out = append(out, "it runs as "+want.Account)
	}
	if have.Display != want.Display || have.Description != want.Description {
		out = append(out, "its description is this version's")
	}
	return out
}

// sameProgram tells command lines that mean the same apart from those that do not: a manager may keep one without quotes.
func sameProgram(a, b string) bool {
	return strings.EqualFold(strings.Trim(strings.TrimSpace(a), `"`), strings.Trim(strings.TrimSpace(b), `"`))
}

// manager is the service control manager, and what else of Windows a service is made of.
type manager interface {
	// Query is a service as it is registered; false: there is none of that name.
	Query(name string) (registered, bool, error)
	Create(name, program string) error
	Change(name string, to registered) error
	Delete(name string) error
	// State is one of the states of a service.
	State(name string) (uint32, error)
	Start(name string) error
	Stop(name string) error
	Recovery(name string) (recovery, error)
	SetRecovery(name string, to recovery) error
	// EventSource makes or removes the source of the Event Log, and reports whether it had to.
	EventSource(name string, wanted bool) (changed bool, err error)

	// Settings is what is stored, by name; Keep stores one value, and Forget removes one.
	Settings() ([]registryValue, error)
	Keep(v registryValue) error
	Forget(name string) error
}

// services registers and removes the service.
type services struct {
	admin   bool
	state   string // the platform's state directory
	manager manager
	netsh   netsh
	place   func(program string) string // who else than an administrator can change it, or ""
}

func (s *services) stored() (map[string]host.Setting, []registryValue, error) {
	values, err := s.manager.Settings()
	if err != nil {
		return nil, nil, err
	}
	out := map[string]host.Setting{}
	for _, v := range values {
		out[v.Name] = host.Setting{Value: v.Text, Where: settingsName}
	}
	return out, values, nil
}

// valueOf is a setting as the registry holds it: text, as the package keeps and reads it, with blanks between the values of a
// list; a list where a value has a blank itself.
func valueOf(k config.Kept) registryValue {
	if k.List && !slices.ContainsFunc(k.Values, blank) {
		return registryValue{Name: k.Key, Type: regSZ, Text: strings.Join(k.Values, " ")}
	}
	if k.List {
		return registryValue{Name: k.Key, Type: regMultiSZ, List: k.Values}
	}
	return registryValue{Name: k.Key, Type: regSZ, Text: k.Values[0]}
}

func blank(s string) bool { return s == "" || strings.ContainsAny(s, " \t\r\n") }

func (v registryValue) same(other registryValue) bool {
	return v.Name == other.Name && v.Type == other.Type && v.Text == other.Text && slices.Equal(v.List, other.List) && v.Number == other.Number
}

// keep stores settings.
func (s *services) keep(o *host.Outcome, r host.Registration, held []registryValue) error {
	var names []string
	for _, k := range r.Keep {
		v := valueOf(k)
		if slices.ContainsFunc(held, v.same) {
			continue
		}
		if err := s.manager.Keep(v); err != nil {
			return fmt.Errorf("store %s in %s: %w", k.Key, settingsName, err)
		}
		names = append(names, k.Key)
	}
	if names != nil {
		o.Change(settingsName + " holds " + strings.Join(names, ", "))
	}
	return nil
}

// install registers the service, makes the firewall's rules, and starts it.
func (s *services) install(ctx context.Context, r host.Registration) (host.Outcome, error) {
	o := host.Outcome{StateDir: s.state, Settings: settingsName}
	if r.StateDir != "" {
		o.StateDir = r.StateDir
	}
	if !s.admin {
		return o, host.ErrPrivilege
	}
	if strings.HasPrefix(r.Program, `\\`) && !strings.HasPrefix(r.Program, `\\?\`) || strings.Contains(r.Program, `"`) {
		return o, &host.Refusal{Err: host.ErrPlace, Wrong: r.Program + " is not on this machine, and the service starts before the network",
			Mended: `copy it to C:\Program Files\Pace, and run that one`}
	}
	stored, held, err := s.stored()
	if err != nil {
		return o, err
	}
	o.Service = host.KeptName(r.Name, stored, serviceName)
	have, there, err := s.manager.Query(o.Service)
	if err != nil {
		return o, err
	}
	if there && !isOurs(have.Command) {
		return o, &host.Refusal{Err: host.ErrOther, Wrong: "the service " + o.Service + " is there, and runs " + have.Command, Mended: "give another --service-name"}
	}
	for _, other := range []string{serviceName, stored["PACE_SERVICE_NAME"].Value} {
		if other == "" || strings.EqualFold(other, o.Service) {
			continue
		}
		if is, there, err := s.manager.Query(other); err != nil {
			return o, err
		} else if there && isOurs(is.Command) {
			return o, &host.Refusal{Err: host.ErrOther, Wrong: "the service is registered as " + other + ", and there is one a machine",
				Mended: "leave --service-name out, or first: pace-node --uninstall-service --service-name=" + other}
		}
	}
	if why := s.place(r.Program); why != "" {
		o.Note(why + ", and the service runs it as the system: keep it in a folder that only administrators change, such as " + `C:\Program Files\Pace`)
	}
	if err := s.keep(&o, r, held); err != nil {
		return o, err
	}
	if err := s.register(&o, r.Program, have, there); err != nil {
		return o, err
	}
	restart := len(o.Did) > 0 // the firewall alone is no reason
	if err := s.firewall(ctx, &o, rulesOf(o.Service, r.Program, r.Surfaces, r.Allow), held); err != nil {
		return o, err
	}
	return o, s.bringUp(ctx, &o, restart)
}

// status asks the manager. The name is the stored one, which everybody may read.
func (s *services) status() (host.State, error) {
	stored, _, err := s.stored()
	name := host.KeptName("", stored, serviceName)
	st := host.State{Name: name, Start: "sc start " + name, Stop: "sc stop " + name,
		Log: "the Event Log, Windows Logs, Application, source " + name}
	if err != nil {
		return st, err
	}
	if _, st.Installed, err = s.manager.Query(name); err != nil || !st.Installed {
		return st, err
	}
	state, err := s.manager.State(name)
	st.Running = state == stateRunning
	return st, err
}

// register makes the manager know the service as it is wanted.
func (s *services) register(o *host.Outcome, program string, have registered, there bool) error {
	want := wanted(program)
	if !there {
		if err := s.manager.Create(o.Service, program); err != nil {
			return fmt.Errorf("register the service %s: %w", o.Service, err)
		}
		o.Change("the service " + o.Service + " runs " + program)
		var err error
		if have, _, err = s.manager.Query(o.Service); err != nil {
			return err
		}
	}
	if diffs := differences(have, want); len(diffs) > 0 {
		if err := s.manager.Change(o.Service, want); err != nil {
			return fmt.Errorf("change the service %s: %w", o.Service, err)
		}
		if there {
			o.Change("the service " + o.Service + ": " + strings.Join(diffs, ", "))
		}
	}
	known, err := s.manager.Recovery(o.Service)
	if err != nil || !known.equal(wantedRecovery) {
		failed := s.manager.SetRecovery(o.Service, wantedRecovery)
		switch {
		case failed != nil:
			o.Note(fmt.Sprintf("what is done when %s fails could not be set (%v): see it with sc qfailure %s", o.Service, failed, o.Service))
		case err == nil && there:
			o.Change("the service " + o.Service + " is started again when it fails, after 1, 5 and 30 seconds")
		}
	}
	if made, err := s.manager.EventSource(o.Service, true); err != nil {
		o.Note(fmt.Sprintf("the Event Log has no source %s (%v): its entries are shown without their sentence", o.Service, err))
	} else if made && there {
		o.Change("the Event Log has the source " + o.Service)
	}
	return nil
}

// firewall makes the rules, and remembers them.
func (s *services) firewall(ctx context.Context, o *host.Outcome, want []rule, held []registryValue) error {
	var before []string
	for _, v := range held {
		if v.Name == rulesValue {
			before = v.List
		}
	}
	after, err := applyRules(ctx, s.netsh, want, before, o)
	if !slices.Equal(before, after) {
		var failed error
		if len(after) == 0 {
			failed = s.manager.Forget(rulesValue)
		} else {
			failed = s.manager.Keep(registryValue{Name: rulesValue, Type: regMultiSZ, List: after})
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("remember the firewall's rules in %s: %w", settingsName, failed))
		}
	}
	if err != nil {
		o.Note("the firewall was not told: " + err.Error() + ". Other machines may not reach this one")
	}
	return nil
}

// bringUp starts the service, or starts it anew.
func (s *services) bringUp(ctx context.Context, o *host.Outcome, restart bool) error {
	state, err := s.manager.State(o.Service)
	if err != nil {
		return err
	}
	if state == stateStopPending && !restart { // somebody asked it to end: what is waited for next is another process
		if err := s.stop(ctx, o.Service); err != nil {
			return err
		}
		state = stateStopped
	}
	done := "started"
	if state != stateStopped {
		if !restart {
			return s.comesTo(ctx, o.Service, stateRunning, startWait)
		}
		if err := s.stop(ctx, o.Service); err != nil {
			return err
		}
		done = "restarted"
	}
	err = s.manager.Start(o.Service)
	if err == nil {
		err = s.comesTo(ctx, o.Service, stateRunning, startWait)
	}
	if err != nil {
		return &host.Refusal{Err: errors.Join(host.ErrNotStarted, err), Wrong: "the service " + o.Service + " is registered and does not run: " + err.Error(),
			Mended: "the Event Log, Windows Logs, Application, source " + o.Service + ", says why; after mending that: sc start " + o.Service}
	}
	o.Change("the service " + o.Service + " is " + done)
	return nil
}

// stop ends the service and waits for it.
func (s *services) stop(ctx context.Context, name string) error {
	err := s.manager.Stop(name)
	if err == nil {
		err = s.comesTo(ctx, name, stateStopped, stopWait)
	}
	if err != nil {
		return &host.Refusal{Err: errors.Join(host.ErrNotStopped, err), Wrong: "the service " + name + " does not end: " + err.Error(),
			Mended: "end its process with the Task Manager, then this again"}
	}
	return nil
}

// comesTo waits for a state. A service that is waited for to run and ends is waited for no longer.
func (s *services) comesTo(ctx context.Context, name string, want uint32, limit time.Duration) error {
	for waited := time.Duration(0); ; waited += statePause {
		state, err := s.manager.State(name)
		switch {
		case err != nil:
			return err
		case state == want:
			return nil
		case want == stateRunning && state == stateStopped && waited > 0:
			return errors.New("it ended right after its start")
		case waited >= limit:
			return fmt.Errorf("not in %s", limit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(statePause):
		}
	}
}

// uninstall ends and removes the service and its rules.
func (s *services) uninstall(ctx context.Context, name string) (host.Outcome, error) {
	o := host.Outcome{StateDir: s.state, Settings: settingsName}
	if !s.admin {
		return o, host.ErrPrivilege
	}
	stored, held, err := s.stored()
	if err != nil {
		o.Note("what is stored does not read, and stays as it is: " + err.Error())
	}
	if dir := stored["PACE_STATE_DIR"].Value; dir != "" {
		o.StateDir = dir
	}
	o.Service = host.KeptName(name, stored, serviceName)
	have, there, err := s.manager.Query(o.Service)
	if err != nil {
		return o, err
	}
	if there && !isOurs(have.Command) {
		return o, &host.Refusal{Err: host.ErrOther, Wrong: "the service " + o.Service + " runs " + have.Command + ", which is none of ours", Mended: "give the --service-name that it was installed under"}
	}
	if there {
		state, err := s.manager.State(o.Service)
		if err != nil {
			return o, err
		}
		if state != stateStopped {
			if err := s.stop(ctx, o.Service); err != nil {
				return o, err
			}
			o.Change("the service " + o.Service + " is stopped")
		}
		if err := s.manager.Delete(o.Service); err != nil {
			return o, fmt.Errorf("remove the service %s: %w", o.Service, err)
		}
		o.Change("the service " + o.Service + " is removed")
	}
	if removed, err := s.manager.EventSource(o.Service, false); err != nil {
		o.Note(fmt.Sprintf("the source %s of the Event Log stays: %v", o.Service, err))
	} else if removed {
		o.Change("the Event Log's source " + o.Service + " is removed")
	}
	return o, s.firewall(ctx, &o, nil, held)
}
