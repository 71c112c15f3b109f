package probe

import (
	"context"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestBindTellsWhatIsTaken(t *testing.T) {
	ctx := context.Background()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for proto, address := range map[string]string{"tcp": l.Addr().String(), "udp": c.LocalAddr().String()} {
		b := Bind(ctx, proto, address, false)
		if !b.Taken || b.Err != nil {
			t.Errorf("%s %s: %+v", proto, address, b)
		}
		if comm, _ := os.ReadFile("/proc/self/comm"); runtime.GOOS == "linux" && !strings.HasPrefix(b.Holder, strings.TrimSpace(string(comm))+", process ") {
			t.Errorf("%s %s is held by %q, and this is %s", proto, address, b.Holder, comm)
		}
	}
	if b := Bind(ctx, "tcp", "192.0.2.1:6674", false); b.Taken || b.Err == nil {
		t.Errorf("an address of nobody here: %+v", b)
	}
}

func TestBindLetsGo(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		proto  string
		shared bool
	}{{"tcp", false}, {"udp", false}, {"udp", true}} {
		address := free(t, c.proto)
		for range 2 {
			if b := Bind(ctx, c.proto, address, c.shared); b.Taken || b.Err != nil {
				t.Errorf("%s %s: %+v", c.proto, address, b)
			}
		}
	}
}

func free(t *testing.T, proto string) string {
	t.Helper()
	if proto == "tcp" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.LocalAddr().String()
}
