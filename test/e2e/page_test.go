//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/security"
	"github.com/chromedp/chromedp"

	"pace-node/internal/wire"
)

// pageAddress is where a node that is started with metered has its page, seen from its own host.
const pageAddress = "http://127.0.0.1:6690/"

func TestBrowserReachesOnlyWhatItIsSentTo(t *testing.T) {
	t.Parallel()
	needChromium(t)
	l := newLAN(t, 1)
	a := l.hosts[0].start(t, "alder", metered)
	b := l.hosts[0].browse(t)
	b.open(pageAddress + "healthz")
	b.waits("that the node is well", "document.body.innerText.includes('\"status\":\"ok\"')")
	if got := eval[string](b, "document.body.innerText"); !strings.Contains(got, a.id()) {
		t.Errorf("/healthz in a browser: %s", got)
	}
	// What the browser complains of is noticed.
	b.expects("404")
	b.open(pageAddress + "metrics/nowhere")
	until(t, "the browser complains of what is not there", func() (bool, string) { return len(b.complaints()) > 0, "" })
	if got := b.reached(); !slices.Equal(got, []string{"127.0.0.1:6690"}) {
		t.Errorf("the browser opened connections to %q", got)
	}
}

// dashboard types `pacectl dashboard` on the node and returns the address that it prints.
func (n *node) dashboard() string {
	n.t.Helper()
	out, err := n.pacectl("dashboard")
	address, _, _ := strings.Cut(out, "\n")
	if err != nil || !strings.HasPrefix(address, pageAddress+"#token=") {
		n.t.Fatalf("pacectl dashboard: %v: %s", err, out)
	}
	return address
}

// printedKey is the key that a person reads on the machine itself.
func (n *node) printedKey() string {
	n.t.Helper()
	_, rest, _ := strings.Cut(n.must("--print-identity"), "public-key ")
	key, _, _ := strings.Cut(rest, "\n")
	return key
}

func TestPageApprovesAMachineAndSeesItJoin(t *testing.T) {
	t.Parallel()
	needChromium(t)
	l := newLAN(t, 2)
	a := l.hosts[0].start(t, "alder", metered)
	nextSecond(t)
	n := l.hosts[1].start(t, "birch", metered)
	b := l.hosts[0].browse(t)
	b.open(pageAddress)
	b.shows("#waiting", "birch", n.printedKey(), "pace-node --enroll-approve="+n.id()+"@"+n.printedKey())
	if buttons := eval[int](b, "document.querySelectorAll('main button[aria-label^=Approve]').length"); buttons != 0 {
		t.Errorf("who only reads has %d buttons that approve", buttons)
	}
	address := a.dashboard()
	b.open(address)
	b.click(button("Approve birch"))
	b.shows("#sure", "birch", n.printedKey())
	b.click("#sure-yes")
	b.shows("#said", "is admitted")
	b.shows("#members tbody", "birch", n.id(), "learner")
	b.shows("#glance", "2: 1 voter, 1 learner")
	b.shows("#audit", "birch")
	n.inMode("learner", a)
	b.waits("birch heard", `[...document.querySelectorAll('#members tbody tr')].some((r) => r.textContent.includes('birch') && !r.classList.contains('silent'))`)
	b.shows("#glance", a.version()+" (2)")
	b.waits("that birch follows", `document.querySelectorAll('#picture line.follow').length === 1 && document.querySelectorAll('#picture line.vote').length === 0`)

	// The learner's own page shows the same fleet, and says who decides.
	other := l.hosts[1].browse(t)
	other.open(pageAddress)
	other.shows("#members tbody", "alder", "birch")
	other.shows("#glance", "of a learner at revision")
	other.waits("the whole of it", "document.querySelector('#waiting').textContent && document.querySelector('#queue').textContent && document.querySelector('#audit').textContent")
	other.axe("a learner's page")

	// No credential is in the address, in what scripts can read of the cookies, or in the log; and the address works once.
	_, token, _ := strings.Cut(address, "#token=")
	if at := eval[string](b, "location.href + document.cookie"); at != pageAddress {
		t.Errorf("the page shows to its scripts: %s", at)
	}
	if strings.Contains(a.log.String(), token) {
		t.Error("the one-time address is in the log")
	}
	again := l.hosts[0].browse(t)
	again.expects("401")
	again.expects("ERR_") // it looks on while the node restarts
	again.open(address)
	again.shows("#said", "used already", "pacectl dashboard")
	again.shows("#session", "reading only")
	if got := b.reached(); !slices.Equal(got, []string{"127.0.0.1:6690"}) {
		t.Errorf("the page opened connections to %q", got)
	}

	// A node that restarts is followed again without a hand, and who changed things before has to ask anew.
	b.expects("ERR_") // while nobody listens
	a.stop()
	b.shows("#live", "silent")
	a.start()
	a.ready()
	b.shows("#live", "live")
	b.shows("#members tbody", "birch", "learner")
}

// TestPageShowsHostileWordsAsWords: names, labels and messages of machines are a stranger's. Field case P40.
func TestPageShowsHostileWordsAsWords(t *testing.T) {
	t.Parallel()
	needChromium(t)
	const (
		script = `<img src=http://10.1.0.9/x onerror=document.title='owned'>`
		closes = `"'><b>bold</b></textarea><script>document.title='owned'</script>`
	)
	command, _ := helper(t, `case "$in" in *onerror*) printf '%s\n' "`+strings.NewReplacer(`"`, `\"`).Replace(closes)+`" >&2; exit 3;; esac
printf '{"configuration":{"log.level":"info"},"msg":"<b>done</b>"}'
`)
	l := newLAN(t, 3)
	a := l.hosts[0].start(t, "alder", metered, "--provision-helper="+command)
	nextSecond(t)
	b := l.hosts[0].browse(t)
	b.open(a.dashboard())

	// Refused by name: an id and an endpoint that are none.
	m := l.hosts[2].client(t, newKey(1))
	hello := wire.Hello{ID: strings.Repeat("e", 32), Name: closes, Platform: script, Version: closes}
	ask := func(r wire.EnrollRequest) wire.ErrorCode {
		r.Role, r.Key = wire.RoleLearner, m.key.Public()
		r.Signature = m.key.Sign(r.Message())
		s := m.greeted(a.endpoint(), hello)
		defer s.Close(nil)
		_, code := m.asksOn(s, wire.VerbEnroll, r.Append(nil))
		return code
	}
	for _, r := range []wire.EnrollRequest{{ID: script, Endpoint: "10.1.0.4:6674"}, {ID: hello.ID, Endpoint: closes}} {
		if code := ask(r); code != wire.CodeMalformed {
			t.Errorf("%q at %q: %s", r.ID, r.Endpoint, code)
		}
	}
	// Shown as they are: name, platform and version of a machine that waits.
	if code := ask(wire.EnrollRequest{ID: hello.ID, Endpoint: "10.1.0.4:6674"}); code != 0 {
		t.Fatal(code)
	}
	b.shows("#waiting", closes, script)
	b.click(button("Reject " + closes))
	b.shows("#sure", closes)
	b.click("#sure-yes")
	b.shows("#waiting", "rejected")

	// One that is approved and does not come: it is a member, and the page says that it did not arrive.
	gone := l.hosts[2].client(t, newKey(2))
	away := wire.EnrollRequest{ID: strings.Repeat("d", 32), Endpoint: "10.1.0.4:6674"}
	if _, code := gone.enroll(a.endpoint(), away); code != 0 {
		t.Fatal(code)
	}
	b.click(button("Approve of our own making"))
	b.click("#sure-yes")
	b.waits("who did not arrive", `[...document.querySelectorAll('#members tbody tr.silent')].some((r) => r.textContent.includes('`+away.ID+`') && r.textContent.includes('not arrived yet'))`)
	b.waits("one who was not heard", `[...document.querySelectorAll('#glance dt')].find((e) => e.textContent === 'Not heard lately').nextSibling.textContent === '1'`)
	b.click(button("Forget of our own making"))
	b.shows("#sure", "for ever")
	b.click("#sure-yes")
	b.waits("that it is gone", `![...document.querySelectorAll('#members tbody tr')].some((r) => r.textContent.includes('`+away.ID+`'))`)

	// And a member's, whose provisioning fails with a message of the same kind.
	n := l.hosts[1].start(t, script, "--label=rack="+closes)
	b.click(button("Approve " + script))
	b.click("#sure-yes")
	n.inMode("learner", a)
	b.shows("#members tbody", script, "rack="+closes)
	b.shows("#queue tbody", script, "bold")
	b.waits("where it failed and when it is due", `[...document.querySelectorAll('#queue tbody tr')].some((r) => r.textContent.includes('onerror') && ['backing off', 'running', 'waiting'].includes(r.querySelector('[data-title="State"]').textContent)
		&& r.querySelector('[data-title="Last error"]').textContent.includes('bold') && /^(in [0-9]+[sm].*|now)$/.test(r.querySelector('[data-title="Due"]').textContent))`)
	b.shows("#conditions", "bold")
	b.waits("who fails in the members' list", `[...document.querySelectorAll('#members tbody tr')].some((r) => r.textContent.includes('onerror') && r.textContent.includes('bold'))`)
	b.click(button("Retry " + script + " now"))
	b.shows("#said", n.id())
	b.look(phone, "light")
	b.fits("hostile words on a phone")
	if title := eval[string](b, "document.title"); !strings.Contains(title, "pace-node alder") || strings.Contains(title, "owned") {
		t.Errorf("the title has become %q", title)
	}
	if n := eval[int](b, "document.querySelectorAll('main img, main script, main b, main textarea').length"); n != 0 {
		t.Errorf("%d elements of strangers", n)
	}
	if got := b.reached(); !slices.Equal(got, []string{"127.0.0.1:6690"}) {
		t.Errorf("the page opened connections to %q", got)
	}
}

// TestAnotherSiteCannotUseThePage: a site that the operator visits with the browser that has the session, on another port of
// the same machine, and one that points its name at 127.0.0.1. Field case P42.
func TestAnotherSiteCannotUseThePage(t *testing.T) {
	t.Parallel()
	needChromium(t)
	l := newLAN(t, 1)
	a := l.hosts[0].start(t, "alder", metered)
	b := l.hosts[0].browse(t)
	b.names["evil.example"] = "127.0.0.1"
	b.open(a.dashboard())
	b.shows("#session", "you may change things")

	var site net.Listener
	var err error
	l.hosts[0].in(func() { site, err = net.Listen("tcp4", "127.0.0.1:8081") })
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `<!doctype html><title>kittens</title><iframe src="http://127.0.0.1:6690/"></iframe><script>
			const at = 'http://127.0.0.1:6690/api/v1/', body = JSON.stringify({minutes: '60'}), tries = [];
			for (const o of [{mode: 'no-cors', headers: {'Content-Type': 'text/plain'}}, {headers: {'Content-Type': 'application/json', 'X-Pace-Session': 'new'}}])
				tries.push(fetch(at + 'waiting/window', {method: 'POST', credentials: 'include', body, ...o}).then((r) => r.type + r.status, () => 'failed'));
			tries.push(fetch(at + 'fleet', {credentials: 'include'}).then((r) => r.type + r.status, () => 'failed'));
			Promise.all(tries).then((got) => { document.title = 'tried ' + got.join(' '); });
		</script>`)
	})}
	var serving sync.WaitGroup
	serving.Go(func() { server.Serve(site) })
	t.Cleanup(func() { server.Close(); serving.Wait() })

	refused := func(reason string) float64 {
		return a.metrics().of(t, fmt.Sprintf("pace_admin_requests_refused_total{reason=%q}", reason))
	}
	b.expects("") // Chromium says of each try what it stopped
	before := refused("origin")
	b.open("http://127.0.0.1:8081/")
	b.waits("that the other site has tried", "document.title.startsWith('tried')")
	// What is opaque was sent and cannot be read; the rest did not get as far.
	if got := eval[string](b, "document.title"); strings.Contains(got, "cors200") || strings.Contains(got, "basic") {
		t.Errorf("another site got %s", got)
	}
	if got := refused("origin"); got <= before {
		t.Errorf("%v requests of another origin are refused, %v before", got, before)
	}
	if framed := eval[string](b, `(() => { try { return document.querySelector('iframe').contentDocument ? 'open' : 'closed' } catch { return 'closed' } })()`); framed != "closed" {
		t.Errorf("the page in a frame of another site is %s", framed)
	}
	before = refused("host")
	b.open("http://evil.example:6690/")
	b.waits("that it is not called so", "document.body.innerText.includes('not called by that name')")
	if got := refused("host"); got <= before {
		t.Errorf("%v requests under another name are refused, %v before", got, before)
	}
	if out := a.must("--enroll-list"); !strings.HasPrefix(out, "enrollment: manual\n") {
		t.Errorf("another site armed the window: %s", out)
	}
	if got := b.reached(); !slices.Equal(got, []string{"127.0.0.1:6690", "127.0.0.1:8081", "evil.example:6690"}) {
		t.Errorf("the browser opened connections to %q", got)
	}
}

// credentials writes a certificate for an address, its key, and a token, and returns the flags that name them.
func credentials(t *testing.T, addr netip.Addr, token string) []string {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader) // no browser takes Ed25519 here
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour), IPAddresses: []net.IP{addr.AsSlice()}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir, flags := t.TempDir(), []string(nil)
	for flag, content := range map[string][]byte{
		"--admin-tls-cert":   pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		"--admin-tls-key":    pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
		"--admin-token-file": []byte(token + "\n"),
	} {
		path := filepath.Join(dir, strings.TrimLeft(flag, "-"))
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		flags = append(flags, flag+"="+path)
	}
	return flags
}

func TestPageFromAnotherMachineAsksForTheToken(t *testing.T) {
	t.Parallel()
	needChromium(t)
	const token = "twenty-characters-and-more-of-chance"
	l := newLAN(t, 2)
	at := netip.AddrPortFrom(l.hosts[0].addr, 6690).String()
	a := l.hosts[0].start(t, "alder", append(credentials(t, l.hosts[0].addr, token), "--admin-listen="+at)...)
	nextSecond(t)
	n := l.hosts[1].start(t, "birch")
	n.asks(a)
	b := l.hosts[1].browse(t)
	b.expects("401")
	b.expects("404")
	b.open("http://" + at + "/")
	b.waits("that it is served by https only", "document.body.innerText.includes('https')")
	// The certificate is nobody's that this browser knows; a person would be asked.
	if _, err := chromedp.Call(b.ctx, security.SetIgnoreCertificateErrors, security.SetIgnoreCertificateErrorsParams{Ignore: true}); err != nil {
		t.Fatal(err)
	}
	b.open("https://" + at + "/")
	b.waits("that it asks for a token", "!document.querySelector('#login').hidden")
	if text := eval[string](b, "document.body.innerText"); strings.Contains(text, "birch") {
		t.Errorf("who has no token reads:\n%s", text)
	}
	types := func(text string) {
		if err := chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("#token"), text+"\r", chromedp.NodeVisible)); err != nil {
			t.Fatal(err)
		}
	}
	types("guessed-guessed-guessed")
	b.waits("that it is wrong", "!document.querySelector('#said').hidden")
	types(token)
	b.shows("#session", "you may change things")
	b.shows("#waiting", "birch", n.printedKey())
	b.axe("the page beyond loopback")
	b.click(button("Approve birch"))
	b.click("#sure-yes")
	n.inMode("learner", a)
	b.shows("#members tbody", "birch")
	b.click(button("Leave: end this session"))
	b.waits("that it asks for a token again", "!document.querySelector('#login').hidden")
	if text := eval[string](b, "document.body.textContent"); strings.Contains(text, "birch") {
		t.Errorf("after leaving the page still holds:\n%s", text)
	}
	if strings.Contains(a.log.String(), token) {
		t.Error("the token is in the log")
	}
}
