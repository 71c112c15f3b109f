package windows

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"

	"pace-node/internal/host"
)

type system struct{ ready chan struct{} }

// New is this platform.
func New() host.Host { return &system{ready: make(chan struct{}, 1)} }

func (*system) StateDir(user bool) string {
	folder := windows.FOLDERID_ProgramData
	if user {
		folder = windows.FOLDERID_LocalAppData
	}
	path, err := windows.KnownFolderPath(folder, 0)
	if err != nil {
		return ""
	}
	return filepath.Join(path, folderName)
}

func (*system) Ordinary() bool { return !windows.GetCurrentProcessToken().IsElevated() }

func (*system) Installed() bool {
	manager, err := windows.OpenSCManager(nil, nil, windows.SC_MANAGER_CONNECT)
	if err != nil {
		return false
	}
	m := &mgr.Mgr{Handle: manager}
	defer m.Disconnect()
	name, err := windows.UTF16PtrFromString(serviceName)
	if err != nil {
		return false
	}
	service, err := windows.OpenService(manager, name, windows.SERVICE_QUERY_STATUS)
	if err != nil {
		return errors.Is(err, windows.ERROR_ACCESS_DENIED)
	}
	windows.CloseServiceHandle(service)
	return true
}

func (*system) Account() (uid, gid int, ok bool) { return 0, 0, false }
func (*system) AdminSocket(string) string        { return "" }

func (*system) Hardware() string {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, hardwareKey, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return ""
	}
	defer key.Close()
	id, _, err := key.GetStringValue(hardwareName)
	if err != nil || id == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(hardwareTag + id))
	return hex.EncodeToString(sum[:])
}

func (*system) StoredSettings() (map[string]host.Setting, error) {
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
	return settingsOf(values)
}

// Ready makes the service report that it runs; without a service manager nobody listens.
func (s *system) Ready() error {
	select {
	case s.ready <- struct{}{}:
	default: // said already
	}
	return nil
}

func (*system) Status(string) error          { return nil }
func (*system) Stopping() error              { return nil }
func (*system) WatchdogEvery() time.Duration { return 0 }
func (*system) WatchdogPing() error          { return nil }

func (s *system) RunService(run func(context.Context) error, exit func(error) int) error {
	service, err := svc.IsWindowsService()
	if err != nil {
		return fmt.Errorf("ask whether this is a service: %w", err)
	}
	if !service {
		return host.RunUnderSignals(run)
	}
	h := &handler{run: run, exit: exit, ready: s.ready}
	if err := svc.Run(serviceName, h); err != nil {
		return fmt.Errorf("speak with the service control manager: %w", err)
	}
	return h.err
}

// handler is the service's conversation with the service control manager.
type handler struct {
	run   func(context.Context) error
	exit  func(error) int
	ready <-chan struct{}
	err   error // what run returned, after Execute
}

// Execute reports running once Ready was called, and each second of stopping a checkpoint, so that no install and no
// shutdown waits for a service that says nothing.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, say chan<- svc.Status) (specific bool, code uint32) {
	status := svc.Status{State: svc.StartPending, WaitHint: uint32(stopHint / time.Millisecond)}
	say <- status
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- h.run(ctx) }()
	ready := h.ready
	beat := time.NewTicker(stopBeat)
	defer beat.Stop()
	for {
		select {
		case h.err = <-ended:
			if h.err != nil {
				return true, uint32(h.exit(h.err))
			}
			return false, 0
		case <-ready:
			ready = nil
			if status.State == svc.StartPending {
				status = svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
				say <- status
			}
		case request := <-requests:
			switch controlOf(uint32(request.Cmd)) {
			case controlInterrogate:
				say <- status
			case controlStop:
				status = svc.Status{State: svc.StopPending, WaitHint: uint32(stopHint / time.Millisecond)}
				say <- status
				cancel()
			}
		case <-beat.C:
			if status.State == svc.StartPending || status.State == svc.StopPending {
				status.CheckPoint++
				say <- status
			}
		}
	}
}
