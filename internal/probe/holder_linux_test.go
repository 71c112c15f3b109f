package probe

import (
	"slices"
	"strings"
	"testing"
)

const socketTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:1A12 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 0100007F:1A12 0100007F:D431 01 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 20 4 30 10 -1
   2: 00000000:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
   3: 00000000:1A12 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 0 1 0000000000000000 100 0 0 10 0
`

func TestInodesOf(t *testing.T) {
	for _, c := range []struct {
		port      uint16
		listening bool
		want      []string
	}{
		{6674, true, []string{"4711"}},
		{6674, false, []string{"4711", "4712"}},
		{22, true, []string{"4713"}},
		{6680, true, nil},
	} {
		if got := inodesOf(strings.NewReader(socketTable), c.port, c.listening); !slices.Equal(got, c.want) {
			t.Errorf("port %d, listening %t: %q, want %q", c.port, c.listening, got, c.want)
		}
	}
}

func FuzzInodesOf(f *testing.F) {
	f.Add(socketTable, uint16(6674), true)
	f.Fuzz(func(t *testing.T, table string, port uint16, listening bool) {
		for _, inode := range inodesOf(strings.NewReader(table), port, listening) {
			if inode == "" || inode == "0" {
				t.Errorf("inode %q", inode)
			}
		}
	})
}
