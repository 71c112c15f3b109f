package linuxpkg

import (
	"os/exec"
	"testing"
)

func TestVersion(t *testing.T) {
	for describe, want := range map[string]string{
		"v1.2.3": "1.2.3", "1.2.3": "1.2.3", "v1.2.3-rc1": "1.2.3~rc1", "v1.2.3-rc.1": "1.2.3~rc.1",
		"v1.2.3-5-gabcdef0": "1.2.3+5.gabcdef0", "v1.2.3-rc1-5-gabcdef0": "1.2.3~rc1+5.gabcdef0",
		"v1.2.3-dirty": "1.2.3+dirty", "v1.2.3-5-gabcdef0-dirty": "1.2.3+5.gabcdef0+dirty",
		"abcdef0": "0.0.0+42.gabcdef0", "1234567-dirty": "0.0.0+42.g1234567+dirty", "1.2.3~rc1": "1.2.3~rc1", "0.0.1": "0.0.1",
	} {
		if got, err := Version(describe, 42); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", describe, got, err, want)
		}
	}
	for _, bad := range []string{"", "main", "1.2.3-x y", "v", "-1", "1:2", "1.2_3"} {
		if got, err := Version(bad, 42); err == nil {
			t.Errorf("%q became %q", bad, got)
		}
	}
}

// TestVersionOrder asks dpkg, whose order rpm shares for what Version returns.
func TestVersionOrder(t *testing.T) {
	dpkg, err := exec.LookPath("dpkg")
	if err != nil {
		t.Skip("dpkg is not installed, so the order is not asked")
	}
	history := []string{"abcdef0", "v0.1.0", "v1.2.3-rc1", "v1.2.3-rc1-4-gabcdef0", "v1.2.3-rc2", "v1.2.3", "v1.2.3-2-gabcdef0", "v1.2.3-10-gabcdef0", "v1.2.4", "v1.10.0"}
	for i := 1; i < len(history); i++ {
		older, _ := Version(history[i-1], 42)
		newer, _ := Version(history[i], 42)
		if err := exec.Command(dpkg, "--compare-versions", older, "lt", newer).Run(); err != nil {
			t.Errorf("%s is not before %s: %v", older, newer, err)
		}
	}
}
