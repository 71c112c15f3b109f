package windows

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"github.com/kardianos/service"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"

	"pace-node/internal/host"
	"pace-node/internal/statedir"
)

// eventKey holds the sources of the Event Log.
const eventKey = `SYSTEM\CurrentControlSet\Services\EventLog\Application\`

// machine implements manager.
type machine struct{}

// open opens a service; false: there is none of that name.
func open(name string, access uint32) (*mgr.Service, bool, error) {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return nil, false, fmt.Errorf("the service control manager: %w", err)
	}
	defer windows.CloseServiceHandle(manager)
	text, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, false, err
	}
	handle, err := windows.OpenService(manager, text, access)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("the service %s: %w", name, err)
	}
	return &mgr.Service{Handle: handle, Name: name}, true, nil
}

// with opens a service that must be there.
func with(name string, access uint32, do func(s *mgr.Service) error) error {
	s, there, err := open(name, access)
	if err != nil {
		return err
	}
	if !there {
		return fmt.Errorf("the service %s: %w", name, windows.ERROR_SERVICE_DOES_NOT_EXIST)
	}
	defer s.Close()
	return do(s)
}

// config2 reads one of the further configurations of a service.
func config2(s *mgr.Service, level uint32) ([]byte, error) {
	for n := uint32(1024); ; {
		b := make([]byte, n)
		err := windows.QueryServiceConfig2(s.Handle, level, &b[0], n, &n)
		if !errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) || n <= uint32(len(b)) {
			return b, err
		}
	}
}

func (machine) Query(name string) (registered, bool, error) {
	s, there, err := open(name, windows.SERVICE_QUERY_CONFIG)
	if err != nil || !there {
		return registered{}, false, err
	}
	defer s.Close()
	for n := uint32(1024); ; {
		b := make([]byte, n)
		p := (*windows.QUERY_SERVICE_CONFIG)(unsafe.Pointer(&b[0]))
		err := windows.QueryServiceConfig(s.Handle, p, n, &n)
		if errors.Is(err, windows.ERROR_INSUFFICIENT_BUFFER) && n > uint32(len(b)) {
			continue
		}
		if err != nil {
			return registered{}, false, fmt.Errorf("the service %s: %w", name, err)
		}
		out := registered{
			Command: windows.UTF16PtrToString(p.BinaryPathName), Start: p.StartType, Type: p.ServiceType,
			Account: windows.UTF16PtrToString(p.ServiceStartName), Display: windows.UTF16PtrToString(p.DisplayName),
		}
		if d, err := config2(s, windows.SERVICE_CONFIG_DESCRIPTION); err == nil {
			out.Description = windows.UTF16PtrToString((*windows.SERVICE_DESCRIPTION)(unsafe.Pointer(&d[0])).Description)
		}
		return out, true, nil
	}
}

// library is the service as kardianos/service has it.
func library(name, program string) (service.Service, error) {
	return service.New(nil, &service.Config{Name: name, DisplayName: displayName, Description: description, Executable: program})
}

func (machine) Create(name, program string) error {
	s, err := library(name, program)
	if err != nil {
		return err
	}
	return s.Install()
}

func (machine) Change(name string, to registered) error {
	return with(name, windows.SERVICE_CHANGE_CONFIG, func(s *mgr.Service) error {
		command, err := windows.UTF16PtrFromString(to.Command)
		if err != nil {
			return err
		}
		account, err := windows.UTF16PtrFromString(to.Account)
		if err != nil {
			return err
		}
		display, err := windows.UTF16PtrFromString(to.Display)
		if err != nil {
			return err
		}
		if err := windows.ChangeServiceConfig(s.Handle, to.Type, to.Start, windows.SERVICE_NO_CHANGE, command, nil, nil, nil, account, nil, display); err != nil {
			return err
		}
		text, err := windows.UTF16PtrFromString(to.Description)
		if err != nil {
			return err
		}
		d := windows.SERVICE_DESCRIPTION{Description: text}
		return windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_DESCRIPTION, (*byte)(unsafe.Pointer(&d)))
	})
}

// Delete is the library's removal. It also removes the source of the Event Log, whose absence is no failure here.
func (machine) Delete(name string) error {
	s, err := library(name, "")
	if err != nil {
		return err
	}
	failed := s.Uninstall()
	if _, err := s.Status(); errors.Is(err, service.ErrNotInstalled) || errors.Is(err, windows.ERROR_SERVICE_MARKED_FOR_DELETE) {
		return nil
	}
	return failed
}

func (machine) State(name string) (state uint32, err error) {
	return state, errors.Join(err, with(name, windows.SERVICE_QUERY_STATUS, func(s *mgr.Service) error {
		status, err := s.Query()
		state = uint32(status.State)
		return err
	}))
}

func (machine) Start(name string) error {
	s, err := library(name, "")
	if err != nil {
		return err
	}
	return s.Start()
}

// Stop asks, and does not wait: the library's own wait has no end.
func (machine) Stop(name string) error {
	return with(name, windows.SERVICE_STOP|windows.SERVICE_QUERY_STATUS, func(s *mgr.Service) error {
		var status windows.SERVICE_STATUS
		err := windows.ControlService(s.Handle, windows.SERVICE_CONTROL_STOP, &status)
		if errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) || errors.Is(err, windows.ERROR_SERVICE_CANNOT_ACCEPT_CTRL) {
			return nil // it ended by itself, or ends
		}
		return err
	})
}

func (machine) Recovery(name string) (out recovery, err error) {
	err = with(name, windows.SERVICE_QUERY_CONFIG, func(s *mgr.Service) error {
		actions, err := s.RecoveryActions()
		if err != nil {
			return err
		}
		for _, a := range actions {
			if a.Type != mgr.ServiceRestart {
				return nil // somebody else's, and not what is wanted
			}
			out.After = append(out.After, a.Delay)
		}
		reset, err := s.ResetPeriod()
		if err != nil {
			return err
		}
		out.ResetAfter = time.Duration(reset) * time.Second
		if out.OnError, err = s.RecoveryActionsOnNonCrashFailures(); err != nil {
			return err
		}
		b, err := config2(s, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO)
		if err != nil {
			return err
		}
		out.PreShutdown = time.Duration(*(*uint32)(unsafe.Pointer(&b[0]))) * time.Millisecond
		return nil
	})
	return out, err
}

func (machine) SetRecovery(name string, to recovery) error {
	// SERVICE_START: who lets the manager start a service must be allowed to.
	return with(name, windows.SERVICE_CHANGE_CONFIG|windows.SERVICE_START, func(s *mgr.Service) error {
		var actions []mgr.RecoveryAction
		for _, after := range to.After {
			actions = append(actions, mgr.RecoveryAction{Type: mgr.ServiceRestart, Delay: after})
		}
		wait := uint32(to.PreShutdown / time.Millisecond)
		return errors.Join(
			s.SetRecoveryActions(actions, uint32(to.ResetAfter/time.Second)),
			s.SetRecoveryActionsOnNonCrashFailures(to.OnError),
			windows.ChangeServiceConfig2(s.Handle, windows.SERVICE_CONFIG_PRESHUTDOWN_INFO, (*byte)(unsafe.Pointer(&wait))),
		)
	})
}

func (machine) EventSource(name string, wanted bool) (changed bool, err error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, eventKey+name, registry.QUERY_VALUE)
	there := err == nil
	if there {
		key.Close()
	}
	switch {
	case there == wanted:
		return false, nil
	case wanted:
		return true, eventlog.InstallAsEventCreate(name, eventlog.Error|eventlog.Warning|eventlog.Info)
	}
	return true, eventlog.Remove(name)
}

func (machine) Settings() ([]registryValue, error) { return readSettings() }

func (machine) Keep(v registryValue) error {
	key, _, err := registry.CreateKey(registry.LOCAL_MACHINE, settingsKey, registry.SET_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return err
	}
	defer key.Close()
	if v.Type == regMultiSZ {
		return key.SetStringsValue(v.Name, v.List)
	}
	return key.SetStringValue(v.Name, v.Text)
}

func (machine) Forget(name string) error {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, settingsKey, registry.SET_VALUE|registry.WOW64_64KEY)
	if errors.Is(err, registry.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer key.Close()
	if err := key.DeleteValue(name); !errors.Is(err, registry.ErrNotExist) {
		return err
	}
	return nil
}

// readSettings reads the values of the settings' key. A value of a type that is none of ours comes with its type alone.
func readSettings() ([]registryValue, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, settingsKey, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settingsName, err)
	}
	defer key.Close()
	names, err := key.ReadValueNames(-1)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settingsName, err)
	}
	var values []registryValue
	for _, name := range names {
		v := registryValue{Name: name}
		if _, v.Type, err = key.GetValue(name, nil); err == nil {
			switch v.Type {
			case regSZ, regExpandSZ:
				if v.Text, _, err = key.GetStringValue(name); err == nil && v.Type == regExpandSZ {
					v.Text, err = registry.ExpandString(v.Text)
				}
			case regMultiSZ:
				v.List, _, err = key.GetStringsValue(name)
			case regDWORD, regQWORD:
				v.Number, _, err = key.GetIntegerValue(name)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: value %q: %w", settingsName, name, err)
		}
		values = append(values, v)
	}
	return values, nil
}

// runNetsh runs netsh of the system folder.
func runNetsh(ctx context.Context, args ...string) (host.Result, error) {
	folder, err := windows.GetSystemDirectory()
	if err != nil {
		return host.Result{}, err
	}
	return host.Run(ctx, "", filepath.Join(folder, netshPath), args...)
}

// place names who else could change the program.
func place(program string) string {
	who, err := statedir.Outsider(program)
	if err != nil || who == "" {
		return ""
	}
	if sid, err := windows.StringToSid(who); err == nil {
		if name, domain, _, err := sid.LookupAccount(""); err == nil {
			who = strings.TrimPrefix(domain+`\`+name, `\`)
		}
	}
	return who + " can change " + program
}
