//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// The tests of the web page share one Chromium. It runs in a namespace that has nothing but its loopback, so that it
// reaches nobody by itself; each test has a browser context of its own (cookies, cache), whose proxy opens what the page
// asks for inside the host that the test browses from, and remembers it.

// needChromium skips a test by name where there is no Chromium.
func needChromium(t *testing.T) {
	t.Helper()
	needRoot(t)
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("needs chromium (Debian: apt install chromium)")
	}
}

// chromium is the running browser.
var chromium struct {
	sync.Mutex
	ns  string          // where it runs; empty before the first test that needs it
	ctx context.Context // of chromedp
	end []func()
}

// startBrowser starts Chromium for the first test that asks.
func startBrowser() (err error) {
	chromium.Lock()
	defer chromium.Unlock()
	if chromium.ns != "" {
		return nil
	}
	ns := fmt.Sprintf("pe%d-web", os.Getpid()%100000)
	for _, args := range [][]string{{"netns", "add", ns}, {"-n", ns, "link", "set", "lo", "up"}} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	chromium.end = append(chromium.end, func() { exec.Command("ip", "netns", "del", ns).Run() })
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath("chromium"),
		chromedp.NoSandbox, // Chromium starts as root only so; what it shows here is our own page
		chromedp.DisableGPU,
		chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-features", "Translate,AutofillServerCommunication,MediaRouter,OptimizationHints"),
		chromedp.Flag("hide-scrollbars", true), // as on a phone: no width of theirs in what is measured
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) {
			cmd.Args = append([]string{"ip", "netns", "exec", ns, cmd.Path}, cmd.Args[1:]...)
			cmd.Path, _ = exec.LookPath("ip")
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		}))
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	chromium.end = append(chromium.end, end)
	ctx, end := chromedp.NewContext(allocator)
	chromium.end = append(chromium.end, end)
	if err := chromedp.Do(ctx); err != nil {
		return fmt.Errorf("start chromium: %w", err)
	}
	chromium.ns, chromium.ctx = ns, ctx
	return nil
}

// closeBrowser ends Chromium, if one was started.
func closeBrowser() {
	chromium.Lock()
	defer chromium.Unlock()
	for _, end := range slices.Backward(chromium.end) {
		end()
	}
}

// tab is one tab in a context of its own.
type tab struct {
	t     *testing.T
	ctx   context.Context
	names map[string]string // what a name resolves to, beside localhost and addresses; a name that is not here is nobody's

	expected []string // what the browser may complain of

	mu     sync.Mutex
	asked  []string // endpoints that the page opened connections to
	faults []string // what the console and the policy complained of
}

// browse opens a tab whose connections leave from the host. At the end of the test whatever the browser complained of, a
// breach of the page's content security policy among it, fails the test.
func (h *host) browse(t *testing.T) *tab {
	t.Helper()
	needChromium(t)
	if err := startBrowser(); err != nil {
		t.Fatal(err)
	}
	b := &tab{t: t, names: map[string]string{}}
	proxy := b.proxy(h)
	ctx, end := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext(func(p *target.CreateBrowserContextParams) {
		p.ProxyServer, p.ProxyBypassList = "socks5://"+proxy, "<-loopback>"
	}))
	b.ctx = ctx
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	messages := chromedp.Console(ctx)
	var reading sync.WaitGroup
	reading.Go(func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			switch m.Type {
			case chromedp.ConsoleError, chromedp.ConsoleWarning, chromedp.ConsoleException:
				b.mu.Lock()
				b.faults = append(b.faults, fmt.Sprintf("%s: %s (%s:%d)", m.Type, m.Text, m.URL, m.Line))
				b.mu.Unlock()
			}
		}
	})
	t.Cleanup(func() {
		end()
		reading.Wait()
		for _, f := range b.complaints() {
			if !slices.ContainsFunc(b.expected, func(words string) bool { return strings.Contains(f, words) }) {
				t.Errorf("the browser says %s", f)
			}
		}
	})
	return b
}

// complaints are what the browser complained of so far.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.faults)
}

// expects says that the browser will complain of something in these words: a test that provokes it names it.
func (b *tab) expects(words string) { b.expected = append(b.expected, words) }

// reached are the endpoints that the page opened connections to, each once.
func (b *tab) reached() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Compact(slices.Sorted(slices.Values(b.asked)))
}

// proxy serves SOCKS 5 where the browser runs: it opens, as the host, what the page asks for.
func (b *tab) proxy(h *host) (endpoint string) {
	b.t.Helper()
	var l net.Listener
	var lerr error
	if err := inNamespace(chromium.ns, func() { l, lerr = net.Listen("tcp4", "127.0.0.1:0") }); err != nil || lerr != nil {
		b.t.Fatal(errors.Join(err, lerr))
	}
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { b.carry(ctx, h, c) })
		}
	})
	b.t.Cleanup(func() { l.Close(); cancel(); serving.Wait() })
	return l.Addr().String()
}

// carry serves one connection of the browser's (RFC 1928, command CONNECT without authentication).
func (b *tab) carry(ctx context.Context, h *host, c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	buf := make([]byte, 262)
	if _, err := io.ReadFull(c, buf[:2]); err != nil || buf[0] != 5 {
		return
	}
	if _, err := io.ReadFull(c, buf[:buf[1]]); err != nil {
		return
	}
	c.Write([]byte{5, 0})
	if _, err := io.ReadFull(c, buf[:4]); err != nil || buf[1] != 1 {
		return
	}
	var name string
	switch buf[3] {
	case 1:
		io.ReadFull(c, buf[:4])
		name = netip.AddrFrom4([4]byte(buf[:4])).String()
	case 4:
		io.ReadFull(c, buf[:16])
		name = netip.AddrFrom16([16]byte(buf[:16])).String()
	case 3:
		io.ReadFull(c, buf[:1])
		n := buf[0]
		io.ReadFull(c, buf[:n])
		name = string(buf[:n])
	}
	if _, err := io.ReadFull(c, buf[:2]); err != nil {
		return
	}
	port := strconv.Itoa(int(buf[0])<<8 | int(buf[1]))
	b.mu.Lock()
	b.asked = append(b.asked, net.JoinHostPort(name, port))
	resolved, known := b.names[name]
	b.mu.Unlock()
	if name == "localhost" {
		resolved, known = "127.0.0.1", true
	}
	if _, err := netip.ParseAddr(name); err == nil {
		resolved, known = name, true
	}
	var far net.Conn
	err := errors.New("no such name")
	if known {
		if nerr := inNamespace(h.ns, func() {
			far, err = (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(resolved, port))
		}); nerr != nil {
			err = nerr
		}
	}
	if err != nil {
		c.Write([]byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0}) // host unreachable
		return
	}
	defer far.Close()
	defer context.AfterFunc(ctx, func() { far.Close() })()
	c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	var both sync.WaitGroup
	both.Go(func() { io.Copy(far, c); far.(*net.TCPConn).CloseWrite() })
	both.Go(func() { io.Copy(c, far); c.(*net.TCPConn).CloseWrite() })
	both.Wait()
}

// open navigates, and waits until the page is loaded.
func (b *tab) open(url string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.Navigate(url)); err != nil {
		b.t.Fatalf("open %s: %v", url, err)
	}
}

// try evaluates an expression in the page.
func try[T any](b *tab, js string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](js, chromedp.EvalAwaitPromise))
}

// eval evaluates an expression in the page, which must succeed.
func eval[T any](b *tab, js string) T {
	b.t.Helper()
	v, err := try[T](b, js)
	if err != nil {
		b.t.Fatalf("%s: %v", js, err)
	}
	return v
}

// waits until an expression is true in the page. What is visible is told when it never is.
func (b *tab) waits(what, js string) {
	b.t.Helper()
	until(b.t, "the page shows "+what, func() (bool, string) {
		ok, err := try[bool](b, "Boolean("+js+")")
		if ok && err == nil {
			return true, ""
		}
		text, _ := try[string](b, "document.body.innerText")
		return false, fmt.Sprintf("%v; it shows:\n%s", err, text)
	})
}
