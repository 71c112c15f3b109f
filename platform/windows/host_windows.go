package windows

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"

	"pace-node/internal/host"
)

type system struct {
	ready  chan struct{}
	events *host.Queue // to the Event Log; nil: the manager did not start this process
}

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

// Installed implements host.Host. An ordinary user may not always look, and is told then that there is one.
func (*system) Installed() bool {
	name := serviceName
	if values, err := readSettings(); err == nil {
		for _, v := range values {
			if v.Name == "PACE_SERVICE_NAME" && v.Text != "" {
				name = v.Text
			}
		}
	}
	s, there, err := open(name, windows.SERVICE_QUERY_STATUS)
	if there {
		s.Close()
	}
	return there || errors.Is(err, windows.ERROR_ACCESS_DENIED)
}

// State implements host.Host.
func (s *system) State(context.Context) (host.State, error) { return s.services().status() }

func (s *system) services() *services {
	return &services{admin: !s.Ordinary(), state: s.StateDir(false), manager: machine{}, netsh: runNetsh, place: place}
}

// Install implements host.Host.
func (s *system) Install(ctx context.Context, r host.Registration) (host.Outcome, error) {
	return s.services().install(ctx, r)
}

// Uninstall implements host.Host.
func (s *system) Uninstall(ctx context.Context, name string) (host.Outcome, error) {
	return s.services().uninstall(ctx, name)
}

func (*system) Account() (uid, gid int, ok bool) { return 0, 0, false }

// Hooks are beside the state: the service is LocalSystem, and runs them itself.
func (*system) Hooks(stateDir string) host.Hooks {
	return host.Hooks{Dir: filepath.Join(stateDir, host.HooksDir)}
}

func (*system) AdminSocket(string) string { return "" }

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
	values, err := readSettings()
	if err != nil {
		return nil, err
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

// Refuse tells the manager of a start that is refused, with its status, and the Event Log why.
func (s *system) Refuse(why error, exit int) {
	_ = s.RunService(func(context.Context) error { return why }, func(error) int { return exit })
}

// Log is the Event Log, once the manager runs the program.
func (s *system) Log(level slog.Leveler, format string) (slog.Handler, bool) {
	if s.events == nil {
		return nil, true
	}
	return host.NewLines(level, format, s.events.Say), false
}

// startedByManager reports whether the service control manager started this process. Windows' own answer wants the manager
// to be in session 0, which it is not everywhere; its name alone is enough, since whoever is no service is told so by it.
func startedByManager() bool {
	if is, err := svc.IsWindowsService(); err == nil && is {
		return true
	}
	snapshot, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return false
	}
	defer windows.CloseHandle(snapshot)
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	names, parent := map[uint32]string{}, uint32(0)
	for err = windows.Process32First(snapshot, &entry); err == nil; err = windows.Process32Next(snapshot, &entry) {
		names[entry.ProcessID] = windows.UTF16ToString(entry.ExeFile[:])
		if entry.ProcessID == windows.GetCurrentProcessId() {
			parent = entry.ParentProcessID
		}
	}
	return strings.EqualFold(names[parent], managerFile)
}

// RunService speaks with the service control manager, or, where that did not start this process, obeys signals.
func (s *system) RunService(run func(context.Context) error, exit func(error) int) error {
	if !startedByManager() {
		return host.RunUnderSignals(run)
	}
	h := &handler{system: s, run: run, exit: exit}
	err := svc.Run(serviceName, h)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return host.RunUnderSignals(run)
	}
	if err != nil {
		return fmt.Errorf("speak with the service control manager: %w", err)
	}
	return h.err
}

// handler is the service's conversation with the service control manager.
type handler struct {
	*system
	run  func(context.Context) error
	exit func(error) int
	err  error // what run returned, after Execute
}

// Execute reports running once Ready was called, and each second of starting and ending a checkpoint, so that no install and
// no shutdown waits for a service that says nothing. The manager's words are only taken here: what they set off runs beside.
func (h *handler) Execute(args []string, requests <-chan svc.ChangeRequest, say chan<- svc.Status) (specific bool, code uint32) {
	talk := begin(time.Now())
	report := func() {
		say <- svc.Status{State: svc.State(talk.State), Accepts: svc.Accepted(talk.Accepts), CheckPoint: talk.CheckPoint, WaitHint: uint32(talk.WaitHint / time.Millisecond)}
	}
	report()
	name := serviceName
	if len(args) > 0 && args[0] != "" {
		name = args[0]
	}
	defer h.openEvents(name)()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- h.run(ctx) }()
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		select {
		case h.err = <-ended:
			return h.end()
		case <-h.ready:
			if talk.ready(time.Now()) {
				report()
			}
		case request := <-requests:
			tell, stop := talk.heard(time.Now(), uint32(request.Cmd))
			if tell {
				report()
			}
			if stop {
				cancel()
			}
		case <-beat.C:
			tell, late := talk.beat(time.Now())
			if tell {
				report()
			}
			if late {
				h.err = errLate
				return h.end()
			}
		}
	}
}

// errLate: what is still running ends with the process.
var errLate = errors.New("the service took too long to start or to end, and was given up")

func (h *handler) end() (specific bool, code uint32) {
	if h.err == nil {
		return false, 0
	}
	if h.events != nil {
		_ = h.events.Say(host.SeverityError, "pace-node ends: "+h.err.Error())
	}
	return true, uint32(h.exit(h.err))
}

// openEvents opens the Event Log's source, and returns how to close it.
func (s *system) openEvents(name string) func() {
	log, err := eventlog.Open(name)
	if err != nil {
		return func() {} // nobody could be told of it
	}
	s.events = host.NewQueue(eventQueue, func(severity host.Severity, line string) error {
		switch eventOf(severity) {
		case eventError:
			return log.Error(eventID, line)
		case eventWarning:
			return log.Warning(eventID, line)
		}
		return log.Info(eventID, line)
	})
	return func() {
		if s.events.Close(eventWait) {
			log.Close()
		}
	}
}

// stream is a standard stream that may lead nowhere: an installer starts this program without any, and what was done is
// done all the same.
type stream struct{ file *os.File }

// Output is a standard stream of this process to write to.
func Output(f *os.File) io.Writer { return stream{f} }

func (s stream) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	if errors.Is(err, windows.ERROR_INVALID_HANDLE) {
		return len(p), nil
	}
	return n, err
}
