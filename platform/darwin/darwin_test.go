package darwin

import "testing"

func TestStateDir(t *testing.T) {
	for _, c := range []struct {
		user       bool
		home, want string
	}{
		{false, "/Users/a", "/Library/Application Support/pace-node"},
		{true, "/Users/a", "/Users/a/Library/Application Support/pace-node"},
		{true, "", ""},
	} {
		if got := stateDir(c.user, c.home); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

func TestUUIDOf(t *testing.T) {
	out := "+-o Mac15,3  <class IOPlatformExpertDevice, id 0x100000263>\n    {\n      \"IOPlatformSerialNumber\" = \"XX\"\n" +
		"      \"IOPlatformUUID\" = \"0A1B2C3D-1111-2222-3333-444455556666\"\n    }\n"
	if got := uuidOf([]byte(out)); got != "0A1B2C3D-1111-2222-3333-444455556666" {
		t.Errorf("%q", got)
	}
	if got := uuidOf([]byte("nothing")); got != "" {
		t.Errorf("%q", got)
	}
}
