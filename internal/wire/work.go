package wire

import "encoding/json"

// Names of the steps of Work.
const (
	StepInventory = "inventory" // asks; the only one that needs no lease
	StepCSR       = "csr"
	StepConfigure = "configure"
	StepRestart   = "restart"
	StepShutdown  = "shutdown"
	StepUpgrade   = "upgrade"
)

// Components that a node says it is.
const (
	ComponentProvision = "provision_mode_server" // wants provisioning
	ComponentServer    = "server"                // runs its configuration
)

// Facts of an inventory that have a meaning beyond the helper's.
const (
	FactNotUpgradable = "not_upgradable" // why Upgradable is false; missing where it is true
	FactRolledBack    = "rolled_back"    // {"version", "why", "at"} of an upgrade that did not serve
)

// WantsAlways is the reason of a machine that wants provisioning at every boot:
// a new boot that wants it again is no failure of the last configuration.
const WantsAlways = "always"

// Inventory is the answer of the step inventory. Lists are never null.
type Inventory struct {
	Agents         []string       `json:"agents"`
	Classes        []string       `json:"classes"`
	Collectives    []string       `json:"collectives"`
	DataPlugins    []string       `json:"data_plugins"`
	Machines       []string       `json:"machines"`
	Facts          map[string]any `json:"facts"`
	MainCollective string         `json:"main_collective"`
	Upgradable     bool           `json:"upgradable"`
	Version        string         `json:"version"`
}

// CSRAnswer is the answer of the step csr.
type CSRAnswer struct {
	CSR       string `json:"csr"`        // PEM, PKCS #10
	PublicKey string `json:"public_key"` // PEM, PKIX
	SSLDir    string `json:"ssldir"`     // where that machine keeps what it is given for it
}

// WorkFile is one file of a configuration.
type WorkFile struct {
	Text string `json:"text"`
	Mode string `json:"mode,omitempty"` // four octal digits, as in "0644"; "": the machine's default
}

// ConfigureBody is the body of the step configure: the helper's keys as it gave
// them, without what the leader has already acted on.
type ConfigureBody struct {
	Configuration  map[string]string   `json:"configuration"`
	Certificate    string              `json:"certificate,omitempty"` // PEM, the machine's own first
	CA             string              `json:"ca,omitempty"`          // PEM
	Key            string              `json:"key,omitempty"`         // PEM
	SSLDir         string              `json:"ssldir,omitempty"`      // any value: certificates have one place
	ActionPolicies map[string]string   `json:"action_policies,omitempty"`
	OPAPolicies    map[string]string   `json:"opa_policies,omitempty"`
	ServerClaims   json.RawMessage     `json:"server_claims,omitempty"` // an object
	Files          map[string]WorkFile `json:"files,omitempty"`         // by relative path, parts joined by "/"
	Cluster        string              `json:"cluster"`                 // the fleet that it belongs to
}

// ConfigureAnswer is the answer of the step configure.
type ConfigureAnswer struct {
	Digest string `json:"digest"` // 64 hex digits, of the new configuration; the machine's Announce carries the same
}

// RestartBody is the body of the step restart.
type RestartBody struct {
	Digest string `json:"digest"` // of the configuration to come up with
}

// RestartAnswer is the answer of the step restart.
type RestartAnswer struct {
	Digest    string `json:"digest"`
	Component string `json:"component"`
	BootID    string `json:"boot_id"` // 32 hex digits; a restart keeps it
}

// ShutdownBody is the body of the step shutdown.
type ShutdownBody struct {
	Msg string `json:"msg,omitempty"`
}

// UpgradeBody is the body of the step upgrade.
type UpgradeBody struct {
	Version    string `json:"version"`
	Repository string `json:"repository"`      // a folder of that machine, or an http or https address
	Key        string `json:"key"`             // the release key, as --provision-release-key takes it
	Again      bool   `json:"again,omitempty"` // a person asked: also a program that was rolled back there
}

// UpgradeAnswer is the answer of the step upgrade. The process ends once it is sent, and comes back as this version.
type UpgradeAnswer struct {
	Version string `json:"version"`
}
