package netio

import (
	"context"
	"errors"
	"os"
	"sync"

	"golang.org/x/sys/windows"
)

// linkWatchers are those who wait for the system's word. Its callback can't be taken back, so there is one for the process.
var linkWatchers = struct {
	mu   sync.Mutex
	next uint64
	all  map[uint64]func()
}{all: map[uint64]func(){}}

var linkCallback = sync.OnceValue(func() uintptr {
	return windows.NewCallback(func(_, _, _ uintptr) uintptr {
		linkWatchers.mu.Lock()
		defer linkWatchers.mu.Unlock()
		for _, changed := range linkWatchers.all {
			changed()
		}
		return 0
	})
})

// WatchLinks calls changed whenever the system tells that a link, an address or a route changed, until ctx ends, and then
// returns nil. What changed is not read: many changes come at once, and the list is asked for anew. changed must not block.
func WatchLinks(ctx context.Context, changed func()) error {
	linkWatchers.mu.Lock()
	linkWatchers.next++
	id := linkWatchers.next
	linkWatchers.all[id] = changed
	linkWatchers.mu.Unlock()
	defer func() {
		linkWatchers.mu.Lock()
		defer linkWatchers.mu.Unlock()
		delete(linkWatchers.all, id)
	}()
	var addresses, routes windows.Handle
	if err := windows.NotifyUnicastIpAddressChange(windows.AF_UNSPEC, linkCallback(), nil, false, &addresses); err != nil {
		return os.NewSyscallError("notifyunicastipaddresschange", err)
	}
	if err := windows.NotifyRouteChange2(windows.AF_UNSPEC, linkCallback(), nil, false, &routes); err != nil {
		return errors.Join(os.NewSyscallError("notifyroutechange2", err), windows.CancelMibChangeNotify2(addresses))
	}
	<-ctx.Done()
	// Each waits for a callback that runs, so no lock is held here.
	return errors.Join(windows.CancelMibChangeNotify2(addresses), windows.CancelMibChangeNotify2(routes))
}
