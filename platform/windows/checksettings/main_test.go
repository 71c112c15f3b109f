package main

import (
	"strings"
	"testing"

	"pace-node/internal/config"
)

func TestCheck(t *testing.T) {
	const program = `C:\Windows\Installer\MSI7097.tmp`
	for _, c := range []struct {
		line   string
		status int
		says   string // "" = nothing is refused
	}{
		{program + ` PACE_FLEET_SEED=fleet.example`, config.ExitOK, ""},
		{`"` + program + `" PACE_FLEET_SEED=fleet.example`, config.ExitOK, ""},
		{`"C:\Program Files\x.exe"   PACE_FLEET_SEED=[::1]:6674`, config.ExitOK, ""},
		{program + ` PACE_FLEET_SEED=a.example [::1]:6674	10.1.2.3`, config.ExitOK, ""},
		{program + ` PACE_FLEET_SEED=`, config.ExitOK, ""},
		{program + ` PACE_DISCOVERY_REPLY_PORT=6682`, config.ExitOK, ""},
		{program + ` PACE_DISCOVERY_REPLY_PORT=0`, config.ExitOK, ""},
		{program + ` PACE_DISCOVERY_REPLY_PORT=6681`, config.ExitConfig, "PACE_DISCOVERY_REPLY_PORT"},
		{program + ` PACE_DISCOVERY_REPLY_PORT=66820`, config.ExitConfig, "PACE_DISCOVERY_REPLY_PORT"},
		{program + ` PACE_FLEET_SEED=a.example "b c" d`, config.ExitConfig, `"\"b"`},
		{program + ` PACE_FLEET_SEED=a.example\`, config.ExitConfig, `a.example\\`},
		{program + ` PACE_FLEET_SEED="a.example`, config.ExitConfig, `\"a.example`},
		{program + ` PACE_FLEET_SEED=a" --name="b`, config.ExitConfig, "PACE_FLEET_SEED"},
		{program + ` PACE_FLEET_ID=0123`, config.ExitConfig, "PACE_FLEET_ID"},
		{program + ` PACE_FLEET_SED=a`, config.ExitConfig, "PACE_FLEET_SEED"},
		{program + ` words`, config.ExitConfig, "words"},
		{program, config.ExitConfig, "not a flag"},
		{`"` + program, config.ExitConfig, "not a flag"},
	} {
		said := ""
		status := check(c.line, func(text string) { said += text })
		if status != c.status || (said != "") != (c.says != "") || !strings.Contains(said, c.says) {
			t.Errorf("%s: status %d, want %d; said %q, want %q", c.line, status, c.status, said, c.says)
		}
		if c.status != config.ExitOK && !strings.Contains(said, "nothing is changed") {
			t.Errorf("%s: said %q", c.line, said)
		}
	}
}
