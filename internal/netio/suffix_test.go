package netio

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

func TestResolvSuffix(t *testing.T) {
	for _, c := range []struct{ name, text, host, want string }{
		{"search", "nameserver 10.1.0.1\nsearch corp.test lab.test\n", "", "corp.test"},
		{"domain", "domain corp.test\n", "", "corp.test"},
		{"the last line wins", "search a.test\ndomain b.test\nsearch c.test d.test", "", "c.test"},
		{"domain takes one", "domain\tb.test ignored.test", "", "b.test"},
		{"comments", "# search a.test\n; domain b.test\nsearch c.test # not d.test\n", "", "c.test"},
		{"root's dots", "search . corp.test.\n", "", "corp.test"},
		{"multicast DNS's own", "search local corp.test", "", "corp.test"},
		{"a site's own below local", "search corp.local", "", "corp.local"},
		{"of the host name", "nameserver 10.1.0.1\n", "host1.corp.test", "corp.test"},
		{"a line wins over the host name", "search lab.test", "host1.corp.test", "lab.test"},
		{"a host name of macOS", "", "Mac.local", ""},
		{"nothing", "nameserver 10.1.0.1\noptions edns0\n", "host1", ""},
		{"search without a name", "search\n", "host1", ""},
		{"not a name", "search $(x) a..b -", "", "-"},
		{"too long", "search " + strings.Repeat("a.", 130) + "test", "", ""},
		{"another keyword", "searching corp.test", "", ""},
	} {
		if got := resolvSuffix(c.text, c.host); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

const scutilText = `DNS configuration

resolver #1
  search domain[0] : corp.test
  search domain[1] : lab.test
  nameserver[0] : 10.1.0.1
  if_index : 14 (en0)
  flags    : Request A records
  reach    : 0x00020002 (Reachable,Directly Reachable Address)

resolver #2
  domain   : local
  options  : mdns
  timeout  : 5
  flags    : Request A records
  order    : 300000

DNS configuration (for scoped queries)

resolver #1
  search domain[0] : scoped.test
  nameserver[0] : 10.9.0.1
`

func TestScutilSuffix(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"search domains", scutilText, "corp.test"},
		{"domain alone", strings.Replace(scutilText, "  search domain[0] : corp.test\n  search domain[1] : lab.test\n", "  domain   : only.test\n", 1), "only.test"},
		{"no search domain", strings.Replace(scutilText, "  search domain[0] : corp.test\n  search domain[1] : lab.test\n", "", 1), ""},
		{"multicast DNS alone", "DNS configuration\n\nresolver #1\n  domain   : local\n  options  : mdns\n", ""},
		{"no network", "No DNS configuration available\n", ""},
		{"nothing", "", ""},
	} {
		if got := scutilSuffix(c.text); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func allWindowsSuffixes() windowsSuffixes {
	return windowsSuffixes{PolicyList: "policy.test,b.test", List: "list.test b.test", Primary: "ad.test", DefaultRoute: "Ethernet",
		Adapters: []adapterSuffix{{"Off", "off.test", false}, {"VPN", "vpn.test", true}, {"Ethernet", "dhcp.test", true}}}
}

// checkWindowsSuffixes takes what wins away, one after the other.
func checkWindowsSuffixes() error {
	w := allWindowsSuffixes()
	for _, step := range []struct {
		want string
		drop func()
	}{
		{"policy.test", func() { w.PolicyList = "" }},
		{"list.test", func() { w.List = " , " }},
		{"ad.test", func() { w.Primary = "" }},
		{"dhcp.test", func() { w.DefaultRoute = "" }},
		{"vpn.test", func() { w.Adapters[1].Up = false }},
		{"dhcp.test", func() { w.Adapters[2].Suffix = "" }},
		{"", func() {}},
	} {
		if got := w.suffix(); got != step.want {
			return errors.New(got + " wins, want " + step.want)
		}
		step.drop()
	}
	return nil
}

func TestWindowsSuffixes(t *testing.T) {
	if err := checkWindowsSuffixes(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationWindowsSuffixes(t *testing.T) {
	for i := range windowsSuffixRows {
		old := slices.Clone(windowsSuffixRows)
		windowsSuffixRows = slices.Delete(slices.Clone(old), i, i+1)
		gone := checkWindowsSuffixes()
		windowsSuffixRows = slices.Clone(old)
		other := (i + 1) % len(old)
		windowsSuffixRows[i], windowsSuffixRows[other] = old[other], old[i]
		swapped := checkWindowsSuffixes()
		windowsSuffixRows = old
		if gone == nil || swapped == nil {
			t.Errorf("row %d, %s: deleted %v, swapped with the next %v", i, old[i].About, gone, swapped)
		}
	}
}

func FuzzResolvSuffix(f *testing.F) {
	f.Add("search corp.test\n", "host1.corp.test")
	f.Add("domain\x00", ".")
	f.Fuzz(func(t *testing.T, text, host string) { checkSuffix(t, resolvSuffix(text, host)) })
}

func FuzzScutilSuffix(f *testing.F) {
	f.Add(scutilText)
	f.Fuzz(func(t *testing.T, text string) { checkSuffix(t, scutilSuffix(text)) })
}

func checkSuffix(t *testing.T, got string) {
	t.Helper()
	if got == "" {
		return
	}
	if again, ok := plainSuffix(got); !ok || again != got {
		t.Fatalf("%q is no suffix", got)
	}
	if _, err := dnsmessage.NewName("_service._tcp." + got + "."); err != nil {
		t.Fatalf("%q cannot be asked under: %v", got, err)
	}
}

// nameServer answers SRV questions on a loopback socket, and nothing else.
func nameServer(t *testing.T, answer func(name string) ([]dnsmessage.SRVResource, dnsmessage.RCode)) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		for b := make([]byte, 1500); ; {
			n, from, err := conn.ReadFrom(b)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(b[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			q := m.Questions[0]
			reply := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, Authoritative: true, RecursionAvailable: true}, Questions: m.Questions}
			records, code := answer(q.Name.String())
			reply.RCode = code
			for _, r := range records {
				reply.Answers = append(reply.Answers, dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1}, Body: &r})
			}
			if out, err := reply.Pack(); err == nil {
				conn.WriteTo(out, from)
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestLookupSRV(t *testing.T) {
	name := func(s string) dnsmessage.Name { return dnsmessage.MustNewName(s) }
	var mu sync.Mutex
	var asked []string
	r := nameServer(t, func(n string) ([]dnsmessage.SRVResource, dnsmessage.RCode) {
		mu.Lock()
		asked = append(asked, n)
		mu.Unlock()
		switch n {
		case "_pace._tcp.corp.test.":
			return []dnsmessage.SRVResource{{Priority: 1, Weight: 2, Port: 6674, Target: name("host1.corp.test.")}}, 0
		case "_pace._tcp.mixed.test.":
			return []dnsmessage.SRVResource{{Port: 1, Target: name("ho st.")}, {Port: 2, Target: name("host2.test.")}}, 0
		case "_pace._tcp.empty.test.":
			return nil, 0
		case "_pace._tcp.broken.test.":
			return nil, dnsmessage.RCodeServerFailure
		}
		return nil, dnsmessage.RCodeNameError
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, c := range []struct {
		suffix string
		want   []SRV
		fails  bool
	}{
		{"corp.test", []SRV{{"host1.corp.test.", 6674, 1, 2}}, false},
		{"mixed.test", []SRV{{"host2.test.", 2, 0, 0}}, false},
		{"empty.test", nil, false},
		{"none.test", nil, false},
		{"broken.test", nil, true},
	} {
		got, err := lookupSRV(ctx, r, "pace", "tcp", c.suffix)
		if (err != nil) != c.fails || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v", c.suffix, got, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for _, n := range asked {
		if strings.Count(n, "test") != 1 {
			t.Errorf("%s was asked: the name is whole", n)
		}
	}
	gone, stop := context.WithCancel(ctx)
	stop()
	if got, err := lookupSRV(gone, r, "pace", "tcp", "corp.test"); err == nil {
		t.Errorf("after its time: %v", got)
	}
}

// TestDNSSuffixOfThisMachine asks this very system: whatever it has can be asked under, and it is the same twice.
func TestDNSSuffixOfThisMachine(t *testing.T) {
	got := DNSSuffix(t.Context())
	checkSuffix(t, got)
	if again := DNSSuffix(t.Context()); again != got {
		t.Errorf("%q, then %q", got, again)
	}
	t.Logf("%q", got)
}
