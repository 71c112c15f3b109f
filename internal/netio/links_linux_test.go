package netio

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestWatchLinks changes a link, an address and a route in a namespace of its own, and wants word of each.
func TestWatchLinks(t *testing.T) {
	needNamespaces(t)
	name := fmt.Sprintf("pn-%d-links", os.Getpid())
	ip(t, "netns", "add", name)
	t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	ip(t, "-n", name, "link", "add", "br0", "type", "bridge")
	changes := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		// The thread is not unlocked: it ends with this goroutine, and its namespace with it.
		runtime.LockOSThread()
		if err := enterNamespace("/var/run/netns/" + name); err != nil {
			ended <- err
			return
		}
		ended <- WatchLinks(ctx, func() {
			select {
			case changes <- struct{}{}:
			default:
			}
		})
	}()
	told := func(within time.Duration) bool {
		select {
		case <-changes:
			time.Sleep(50 * time.Millisecond) // what else comes of the same change
			for len(changes) > 0 {
				<-changes
			}
			return true
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-time.After(within):
		}
		return false
	}
	listens := false
	for n, begun := 0, time.Now(); !listens && time.Since(begun) < patience; n++ { // until it listens, nobody is told
		ip(t, "-n", name, "link", "set", "br0", "mtu", fmt.Sprint(1400+n%100))
		listens = told(200 * time.Millisecond)
	}
	if !listens {
		t.Fatal("nobody is told of a link")
	}
	for _, change := range []string{"address add 10.9.0.1/24 brd + dev br0", "link set br0 up", "route add 10.8.0.0/24 dev br0", "address del 10.9.0.1/24 dev br0"} {
		ip(t, append([]string{"-n", name}, strings.Fields(change)...)...)
		if !told(patience) {
			t.Errorf("nobody is told of: ip %s", change)
		}
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("its end: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}
