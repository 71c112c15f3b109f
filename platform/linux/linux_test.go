package linux

import (
	"strings"
	"testing"
)

func TestStateDir(t *testing.T) {
	for _, c := range []struct {
		user            bool
		xdg, home, want string
	}{
		{false, "/x", "/home/a", "/var/lib/pace-node"},
		{true, "", "/home/a", "/home/a/.local/state/pace-node"},
		{true, "/x/state", "/home/a", "/x/state/pace-node"},
		{true, "relative", "/home/a", "/home/a/.local/state/pace-node"}, // the XDG specification: relative ones are ignored
		{true, "", "", ""},
	} {
		if got := stateDir(c.user, c.xdg, c.home); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestAdminSocket(t *testing.T) {
	for _, c := range []struct {
		dir  string
		made bool
		want string
	}{
		{"/var/lib/pace-node", true, "/run/pace-node/admin.sock"},
		{"/var/lib/pace-node/", true, "/run/pace-node/admin.sock"},
		{"/var/lib/pace-node", false, ""}, // no package
		{"/srv/second", true, ""},         // another node beside the packaged one
	} {
		if got := adminSocket(c.dir, c.made); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestStatusLineIsOneBoundedLine(t *testing.T) {
	if got := statusLine("voter\nREADY=1\x7f"); got != "STATUS=voter READY=1 " {
		t.Errorf("%q", got)
	}
	if got := statusLine(strings.Repeat("é", 2000)); len(got) > len("STATUS=")+maxStatus || !strings.HasSuffix(got, "é") {
		t.Errorf("%d bytes, ends in %q", len(got), got[len(got)-3:])
	}
}
