//go:build unix

package node

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSimHelperFailsAndIsMended: a machine that a helper fails for again and again is named with the error, until the helper
// is mended.
func TestSimHelperFailsAndIsMended(t *testing.T) {
	helper := filepath.Join(t.TempDir(), "helper")
	write := func(body string) {
		if err := os.WriteFile(helper, []byte("#!/bin/sh\ncat >/dev/null\n"+body+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write("echo 'no such role' >&2; exit 3")
	simulate(t, 248, func(t *testing.T, s *sim) {
		a := s.boot(0, func(c *Config) { c.Settings.Provision.Helper = helper })
		time.Sleep(2 * time.Second)
		b := s.boot(1)
		s.joined(a, b)
		s.want(time.Hour, "it is said", func() bool {
			detail, ok := condition(a, "provisioning-failing")
			return ok && (strings.HasPrefix(detail, a.id+": ") || strings.HasPrefix(detail, b.id+": ")) && strings.Contains(detail, "no such role")
		})
		for _, c := range a.board.List() {
			if about, _, _ := strings.Cut(c.Detail, ":"); c.ID == "provisioning-failing" && c.Remedy != "pacectl queue show "+about {
				t.Errorf("the remedy is %q", c.Remedy)
			}
		}
		write(`echo '{"configuration":{"role":"web"}}'`)
		s.want(2*time.Hour, "it is provisioned and nothing is said", func() bool { _, ok := condition(a, "provisioning-failing"); return !ok && provisioned(b, a) })
	})
}
