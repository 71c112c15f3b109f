package config

import (
	"fmt"
	"strings"
)

// What the page and the man page show; a test reads each as the program would.
const (
	fileExample = `name: reception-1
label: {rack: 7, site: north}
fleet_seed: [alder.example.net, "[2001:db8::7]:6674"]
provision_interval: 5m
`
	storedExample = `PACE_NAME=reception-1
PACE_LABEL="rack=7 site=north"
PACE_FLEET_SEED="alder.example.net [2001:db8::7]:6674"
PACE_DISCOVERY_REPLY_PORT=6682
`
)

type example struct{ Command, Does string }

// commandExamples are commands and what each does.
func commandExamples() []example {
	return []example{
		{"pace-node --check-arguments --fleet-seed=alder.example.net --label=rack=7 --label=site=north", "say whether the service would take these settings, without starting or reading anything"},
		{"pace-node --print-surfaces --listen=192.0.2.7:6674", "what a node with this setting would bind"},
		{"pace-node --print-identity --json", "this machine's id and key, for an inventory"},
	}
}

func examplesMarkdown() string {
	var b strings.Builder
	b.WriteString("\n## Examples\n\nThe file of --config:\n\n```yaml\n" + fileExample + "```\n\nThe same among what the installer stored on Linux:\n\n```ini\n" + storedExample + "```\n\n```sh run=by-hand\n")
	for _, e := range commandExamples() {
		fmt.Fprintf(&b, "%s   # %s\n", e.Command, e.Does)
	}
	b.WriteString("```\n")
	return b.String()
}

func examplesRoff() string {
	var b strings.Builder
	b.WriteString(".SH EXAMPLES\n")
	for _, e := range commandExamples() {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s.\n", roff(e.Command), roff(e.Does))
	}
	b.WriteString(".PP\nThe file of --config:\n.PP\n.nf\n" + roff(fileExample) + ".fi\n")
	return b.String()
}
