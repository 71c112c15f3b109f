package linux

import (
	"strings"
	"testing"

	"pace-node/internal/host"
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

func TestJournal(t *testing.T) {
	for stream, want := range map[string]bool{"8:4711": true, "8:4712": false, "9:4711": false, "": false, "8": false} {
		if got := journalled(stream, 8, 4711); got != want {
			t.Errorf("%q: %v", stream, got)
		}
	}
	for s, want := range map[host.Severity]string{host.SeverityDebug: "<7>a b\n", host.SeverityInfo: "<6>a b\n", host.SeverityWarning: "<4>a b\n", host.SeverityError: "<3>a b\n"} {
		if got := journalLine(s, "a\nb"); got != want {
			t.Errorf("%d: %q", s, got)
		}
	}
}
