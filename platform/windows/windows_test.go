package windows

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/host"
)

func TestSettingsOf(t *testing.T) {
	where := `HKLM\Software\Pace\Node`
	got, err := settingsOf([]registryValue{
		{Name: "PACE_FLEET_SEED", Type: regSZ, Text: "office-a"},
		{Name: "PACE_STATE_DIR", Type: regExpandSZ, Text: `C:\state`},
		{Name: "PACE_LABEL", Type: regMultiSZ, List: []string{"a=b c", "d=e"}},
		{Name: "PACE_DISCOVERY_REPLY_PORT", Type: regDWORD, Number: 6682},
		{Name: "PACE_PROVISION_QUEUE", Type: regQWORD, Number: 7},
	})
	want := map[string]host.Setting{
		"PACE_FLEET_SEED": {Value: "office-a", Where: where}, "PACE_STATE_DIR": {Value: `C:\state`, Where: where},
		"PACE_LABEL": {Value: "a=b c\nd=e\n", Where: where}, "PACE_DISCOVERY_REPLY_PORT": {Value: "6682", Where: where},
		"PACE_PROVISION_QUEUE": {Value: "7", Where: where},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if _, err := settingsOf([]registryValue{{Name: "PACE_NAME", Type: 3}}); err == nil || !strings.Contains(err.Error(), `"PACE_NAME"`) || !strings.Contains(err.Error(), where) {
		t.Errorf("binary: %v", err)
	}
}
