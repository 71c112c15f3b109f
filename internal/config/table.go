package config

import (
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kinds of options.
const (
	KindText     = "text"
	KindPath     = "path"
	KindAddress  = "address"
	KindDuration = "duration"
	KindNumber   = "number"
	KindSwitch   = "switch"
	KindChoice   = "choice"
)

// Groups of options, in the order of the help.
const (
	GroupMachine   = "This machine"
	GroupNetwork   = "Endpoints"
	GroupDiscovery = "Finding the fleet"
	GroupAdmin     = "Metrics, health and the web page"
	GroupLog       = "Log"
	GroupProvision = "Provisioning"
	GroupService   = "The service, beside --install-service"
	GroupClient    = "Where a verb goes and how it answers"
)

// Groups lists them in order.
var Groups = []string{GroupMachine, GroupNetwork, GroupDiscovery, GroupAdmin, GroupLog, GroupProvision, GroupService, GroupClient}

// Option is one row: a flag, PACE_NAME in the environment and what the installer stored, and a key of the file.
type Option struct {
	Name     string // --name; PACE_NAME and name with underscores elsewhere
	Kind     string // one of Kinds
	Default  string // as it would be typed; "" = none, or what Shown says
	Shown    string // what the help says for a default that is not a fixed text
	Metavar  string // for the help
	Help     string // one sentence, without its end
	Group    string
	Repeat   bool     // may be given more than once
	EmptyOff bool     // an empty value is a value, and means off
	Except   []Origin // where it may not come from
	Tool     bool     // also a flag of pacectl
	Min, Max int64    // bounds of a number or (in nanoseconds) a duration
	Choices  []string // of a choice
	Inline   bool     // a path, or a document itself: no refusal repeats that
	Own      bool     // of this machine alone: provision.profile cannot hold it
	Check    func(string) error

	ownEmpty bool                 // Check has its own sentence for an empty value
	checkAll func([]string) error // what the values of a repeated one must not be together
	set      func(c *Config, values []string)
}

// Bounds that are nobody else's.
const (
	minInterval      = int64(time.Minute)    // provisioning.md: not below a minute
	maxInterval      = int64(24 * time.Hour) // a round a day at least, or a lost event is never made up for
	minHelperTimeout = int64(100 * time.Millisecond)
	maxHelperTimeout = int64(10 * time.Minute) // a lease's life: a helper beyond it answers for nothing
	maxWorkers       = 1024                    // goroutines with a process each
	maxQueue         = 1_000_000               // entries; some hundred megabytes
	maxDeny          = 255                     // bytes of a pattern: no host's name is longer than 253
	maxPort          = math.MaxUint16
)

// Options is the table. A test holds its text against the specification's.
var Options = []Option{
	{Name: "state-dir", Kind: KindPath, Metavar: "folder", Group: GroupMachine, Tool: true,
		Shown: "/var/lib/pace-node, %ProgramData%\\pace-node, /Library/Application Support/pace-node; an ordinary user's own state folder",
		Help:  "where identity and state are kept; refused if others can write it or read the key",
		Check: checkPath, set: func(c *Config, v []string) { c.StateDir = v[0] }},
	{Name: "config", Kind: KindPath, Metavar: "file", Group: GroupMachine, Tool: true, Except: []Origin{OriginFile},
		Help:  "a YAML file with these options as keys, underscores for dashes",
		Check: checkPath, set: func(c *Config, v []string) { c.File = v[0] }},
	{Name: "name", Kind: KindText, Metavar: "text", Group: GroupMachine, Shown: "the host name",
		Help:  "what people call this machine, in every list and in the helper's input",
		Check: checkName, set: func(c *Config, v []string) { c.Name = v[0] }},
	{Name: "label", Kind: KindText, Metavar: "key=value", Group: GroupMachine, Repeat: true,
		Help:  "something people sort machines by",
		Check: checkLabel, checkAll: checkLabels, set: setLabels},

	{Name: "listen", Kind: KindAddress, Default: ":6674", Metavar: "[host]:port", Group: GroupNetwork,
		Help:  "the 0xFC endpoint: members, joiners and verbs from other machines",
		Check: checkListen, set: func(c *Config, v []string) { c.Listen = v[0] }},
	{Name: "listen-raft", Kind: KindAddress, Default: ":6680", Metavar: "[host]:port", Group: GroupNetwork,
		Help:  "the consensus endpoint, opened by voters and fleets of one only",
		Check: checkListen, set: func(c *Config, v []string) { c.ListenRaft = v[0] }},
	{Name: "advertise", Kind: KindAddress, Metavar: "host[:port]", Group: GroupNetwork,
		Shown: "the address it routes from, followed as it moves",
		Help:  "what peers are told to dial",
		Check: checkAdvertise, set: func(c *Config, v []string) { c.Advertise = v[0] }},

	{Name: "discovery", Kind: KindAddress, Default: ":6681", Metavar: "[addr]:port", Group: GroupDiscovery, EmptyOff: true,
		Help:  "where beacons are heard (UDP, IPv4), on every eligible interface; empty turns discovery off",
		Check: checkDiscovery, set: func(c *Config, v []string) { c.Discovery = v[0] }},
	{Name: "discovery-interface", Kind: KindText, Metavar: "name", Group: GroupDiscovery, Repeat: true, Shown: "automatic",
		Help:  "an interface to beacon on: a name or a pattern (eth*), !name to leave one out",
		Check: checkInterface, set: func(c *Config, v []string) { c.DiscoveryInterfaces = slices.Clone(v) }},
	{Name: "discovery-reply-port", Kind: KindNumber, Max: maxPort, Metavar: "port", Group: GroupDiscovery,
		Shown: "chosen by the kernel; the packages pin 6682",
		Help:  "the UDP port that sends and receives challenges and proofs, one a node; 0 lets the kernel choose",
		set:   func(c *Config, v []string) { c.DiscoveryReplyPort = uint16(number(v[0])) }},
	{Name: "discovery-loopback", Kind: KindSwitch, Default: "false", Group: GroupDiscovery,
		Help: "several nodes on one machine: beacons on 127.255.255.255 only, and 127.0.0.1 may be announced",
		set:  func(c *Config, v []string) { c.DiscoveryLoopback = truth(v[0]) }},
	{Name: "fleet-seed", Kind: KindAddress, Metavar: "host[:port]", Group: GroupDiscovery, Repeat: true,
		Help:  "a machine of the fleet to ask before anything is decided",
		Check: checkSeed, ownEmpty: true, set: setSeeds},
	{Name: "fleet-id", Kind: KindText, Metavar: "<cluster-id>@<key>[,<key>…]", Group: GroupDiscovery,
		Help:  "the pin: join this fleet only, and only by what one of these keys signed",
		Check: checkPin, set: func(c *Config, v []string) { c.FleetID = v[0] }},

	{Name: "admin-listen", Kind: KindAddress, Default: "127.0.0.1:6690", Metavar: "[host]:port", Group: GroupAdmin, EmptyOff: true,
		Help:  "/metrics, /healthz and /readyz, in plain text without a password; the web page, on loopback or with the three options below; empty turns it off",
		Check: checkListen, set: func(c *Config, v []string) { c.AdminListen = v[0] }},
	{Name: "admin-tls-cert", Kind: KindPath, Metavar: "file", Group: GroupAdmin,
		Help:  "certificate (PEM) of the web page, which is served beyond loopback only with it, its key and a token",
		Check: checkPath, set: func(c *Config, v []string) { c.AdminTLSCert = v[0] }},
	{Name: "admin-tls-key", Kind: KindPath, Metavar: "file", Group: GroupAdmin,
		Help:  "key (PEM) of that certificate",
		Check: checkPath, set: func(c *Config, v []string) { c.AdminTLSKey = v[0] }},
	{Name: "admin-token-file", Kind: KindPath, Metavar: "file", Group: GroupAdmin,
		Help:  "file with the token that opens the web page beyond loopback: one line of 20 characters or more",
		Check: checkPath, set: func(c *Config, v []string) { c.AdminTokenFile = v[0] }},

	{Name: "log-level", Kind: KindChoice, Default: "info", Choices: []string{"debug", "info", "warn", "error"}, Group: GroupLog,
		Help: "the least that is logged", set: func(c *Config, v []string) { c.LogLevel = v[0] }},
	{Name: "log-format", Kind: KindChoice, Default: "text", Choices: []string{"text", "json"}, Group: GroupLog,
		Shown: "text (under a service manager: its own fields)",
		Help:  "how a line is written", set: func(c *Config, v []string) { c.LogFormat = v[0] }},

	{Name: "alert-exec", Kind: KindText, Metavar: "command", Group: GroupLog,
		Help:  "a program that is run when a person must act: JSON on stdin, 30 seconds; split like a shell does and run without one",
		Check: checkCommand, set: func(c *Config, v []string) { c.AlertExec = v[0] }},

	{Name: "provision-interval", Kind: KindDuration, Default: "1m", Min: minInterval, Max: maxInterval, Metavar: "duration", Group: GroupProvision,
		Help: "how often the leader asks its members who wants provisioning",
		set:  func(c *Config, v []string) { c.Provision.Interval = duration(v[0]) }},
	{Name: "provision-workers", Kind: KindNumber, Min: 1, Max: maxWorkers, Metavar: "n", Group: GroupProvision, Shown: "the number of cores",
		Help: "machines provisioned at once",
		set:  func(c *Config, v []string) { c.Provision.Workers = int(number(v[0])) }},
	{Name: "provision-queue", Kind: KindNumber, Default: "50000", Min: 1, Max: maxQueue, Metavar: "n", Group: GroupProvision,
		Help: "machines that may wait",
		set:  func(c *Config, v []string) { c.Provision.Queue = int(number(v[0])) }},
	{Name: "provision-helper", Kind: KindText, Metavar: "command", Group: GroupProvision,
		Help:  "the program that decides a machine's configuration: JSON in, JSON out; split like a shell does and run without one",
		Check: checkCommand, set: func(c *Config, v []string) { c.Provision.Helper = v[0] }},
	{Name: "provision-helper-timeout", Kind: KindDuration, Default: "10s", Min: minHelperTimeout, Max: maxHelperTimeout, Metavar: "duration", Group: GroupProvision,
		Help: "how long the helper may take",
		set:  func(c *Config, v []string) { c.Provision.HelperTimeout = duration(v[0]) }},
	{Name: "provision-default", Kind: KindPath, Metavar: "file", Inline: true, Group: GroupProvision,
		Help:  "a helper's answer (JSON) for every machine where no helper is given: a file, or the answer itself, beginning with {",
		Check: checkAnswer, set: func(c *Config, v []string) { c.Provision.Default = v[0] }},
	{Name: "provision-component", Kind: KindText, Default: "provision_mode_server", Metavar: "word", Group: GroupProvision,
		Help:  "the component whose startup events the leader listens for",
		Check: checkComponent, set: func(c *Config, v []string) { c.Provision.Component = v[0] }},
	{Name: "provision-pki", Kind: KindSwitch, Default: "false", Group: GroupProvision,
		Help: "ask each machine for a certificate request, and hand it to the helper",
		set:  func(c *Config, v []string) { c.Provision.PKI = truth(v[0]) }},
	{Name: "provision-deny", Kind: KindText, Metavar: "pattern", Group: GroupProvision, Repeat: true,
		Shown: "*.privileged.*, *.mcollective, *.choria and *.pace, which every other one is added to",
		Help:  "names that no machine may ask a certificate for; * stands for any run of characters",
		Check: checkDeny, set: func(c *Config, v []string) { c.Provision.Deny = slices.Clone(v) }},
	{Name: "provision-mode", Kind: KindChoice, Default: "auto", Choices: []string{"auto", "always", "never"}, Group: GroupProvision, Own: true,
		Help: "whether this machine wants to be provisioned: once and when its configuration is missing, at each boot, or never",
		set:  func(c *Config, v []string) { c.Provision.Mode = v[0] }},

	{Name: "provision-upgrades", Kind: KindChoice, Default: "off", Choices: []string{"off", "required", "optional"}, Group: GroupProvision,
		Help: "whether the leader upgrades a machine to the version that the helper names: a failure is an error (required), or a warning and the machine is configured as it is (optional)",
		set:  func(c *Config, v []string) { c.Provision.Upgrades = v[0] }},
	{Name: "provision-repository", Kind: KindText, Metavar: "folder|url", Group: GroupProvision,
		Help:  "where releases are fetched from: the whole path of a folder on each machine, or an http or https address; on a machine itself it takes the leader's place",
		Check: checkRepository, set: func(c *Config, v []string) { c.Provision.Repository = v[0] }},
	{Name: "provision-release-key", Kind: KindText, Metavar: "key", Group: GroupProvision,
		Help:  "the minisign key that signs releases, 56 characters that begin with RW; on a machine itself no other is trusted",
		Check: checkReleaseKey, set: func(c *Config, v []string) { c.Provision.ReleaseKey = v[0] }},

	{Name: "service-name", Kind: KindText, Metavar: "name", Group: GroupService, Except: []Origin{OriginFile},
		Shown: "PaceNode on Windows, pace-node on Linux, io.pace.node on macOS",
		Help:  "what the service is called on this machine; there is one service a machine",
		Check: checkServiceName, set: func(c *Config, v []string) { c.ServiceName = v[0] }},
	{Name: "firewall-allow", Kind: KindAddress, Metavar: "addr[/prefix]", Group: GroupService, Repeat: true, Except: []Origin{OriginFile},
		Shown: "everybody",
		Help:  "who may reach this machine through the firewall's rules",
		Check: checkAllow, checkAll: checkAllows, set: setAllows},

	{Name: "scheduler", Kind: KindAddress, Metavar: "host[:port]", Group: GroupClient, Tool: true, Except: []Origin{OriginFile, OriginStored},
		Shown: "this machine's node",
		Help:  "send a verb to another machine's 0xFC endpoint under this machine's key",
		Check: checkSeed, ownEmpty: true, set: func(c *Config, v []string) { c.Scheduler = seed(v[0]) }},
	{Name: "json", Kind: KindSwitch, Default: "false", Group: GroupClient, Tool: true, Except: []Origin{OriginFile, OriginStored},
		Help: "answer a verb with exactly one JSON value on stdout, in failure too",
		set:  func(c *Config, v []string) { c.JSON = truth(v[0]) }},
}

// Verb is one one-shot verb, typed as a flag of pace-node.
type Verb struct {
	Name    string
	Metavar string // "" = takes no argument
	Help    string
	Short   string // one letter, or ""
	Plain   bool   // reads no setting at all
	Deaf    bool   // passes over what the environment says of settings: it speaks for the service, which has another
	Blind   bool   // passes over what is stored and the file, which may be what is wrong
	Check   func(string) error
}

// Tool says whether pacectl takes it as a flag as well: it has words for the others.
func (v *Verb) Tool() bool { return v.Plain && v.Name != "check-arguments" }

// Verbs is the table of one-shot verbs.
var Verbs = []Verb{
	{Name: "print-identity", Help: "print node id, public key and the line that would admit this machine; mints them where nothing has run yet"},
	{Name: "print-surfaces", Help: "print what this machine's node binds: name, protocol and port, address, who can reach it; then the state directory, seeds and pin"},
	{Name: "check-arguments", Help: "check every other flag, reading and opening nothing: status 0, or 78 naming the flag", Plain: true},
	{Name: "reset-identity", Help: "put this machine's identity away under archive/; the next start mints a new one"},
	{Name: "install-service", Help: "register the service, keep the flags beside it as its settings, and start it; done twice, it changes nothing", Deaf: true},
	{Name: "uninstall-service", Help: "stop and remove the service and its firewall rules; state, key and settings stay", Deaf: true, Blind: true},
	{Name: "run-hooks", Help: "run the hooks of a configuration for the service that asks, and report to it; pace-node-hooks.service starts it, as root"},
	{Name: "apply-upgrade", Help: "put the release that this machine's service has staged in this program's place, restart the service, and roll back what does not serve; pace-node-upgrade.service starts it, as root"},
	{Name: "enroll-list", Help: "list the machines that wait, with the key each asked with and the line that approves it"},
	{Name: "enroll-approve", Metavar: "<id>@<key>", Help: "approve a waiting machine whose key you have compared", Check: checkIDKey},
	{Name: "enroll-reject", Metavar: "<id>[@<key>]", Help: "refuse a waiting machine", Check: checkIDMaybeKey},
	{Name: "enroll-clear", Help: "drop every waiting machine; they may ask again"},
	{Name: "enroll-auto-approve", Metavar: "<duration>|off", Help: "approve whoever asks, for at most 24h", Check: checkWindow},
	{Name: "cluster-status", Help: "print the fleet: members, settings, conditions"},
	{Name: "cluster-admit", Metavar: "<id>=<host>:<port>[@<key>]", Help: "make a machine a voter", Check: checkAdmit},
	{Name: "cluster-admit-learner", Metavar: "<id>[@<key>]", Help: "pre-approve a machine, or make a voter a learner", Check: checkIDMaybeKey},
	{Name: "cluster-forget", Metavar: "<id>", Help: "remove a machine and revoke its key for ever", Check: checkID},
	{Name: "cluster-set", Metavar: "<name>=<value>", Help: "change a setting of the fleet", Check: checkSetting},
	{Name: "version", Help: "print the version", Plain: true},
	{Name: "help", Short: "h", Help: "print this", Plain: true},
}

// EnvName is the option's name in the environment and among what the installer stored.
func (o *Option) EnvName() string {
	return "PACE_" + strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))
}

func (o *Option) excepts(origin Origin) bool { return slices.Contains(o.Except, origin) }

// Client reports that it is about the verb itself, and no setting of a node.
func (o *Option) Client() bool { return o.Group == GroupClient }

// FileName is the option's key in the file.
func (o *Option) FileName() string { return strings.ReplaceAll(o.Name, "-", "_") }

// shownDefault is what help, man page and docs say.
func (o *Option) shownDefault() string {
	switch {
	case o.Shown != "":
		return o.Shown
	case o.Kind == KindSwitch:
		return "off"
	case o.Default == "":
		return "none"
	}
	return o.Default
}

// bounds says what a value may be, or "".
func (o *Option) bounds() string {
	switch o.Kind {
	case KindNumber:
		return strconv.FormatInt(o.Min, 10) + " to " + strconv.FormatInt(o.Max, 10)
	case KindDuration:
		return showDuration(time.Duration(o.Min)) + " to " + showDuration(time.Duration(o.Max))
	case KindChoice:
		return strings.Join(o.Choices, ", ")
	}
	return ""
}

// The setters below see only texts that check has passed.

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func duration(s string) time.Duration {
	d, _ := ParseDuration(s)
	return d
}

func truth(s string) bool {
	t, _ := parseSwitch(s)
	return t
}

func setLabels(c *Config, values []string) {
	for _, v := range values {
		key, value, _ := strings.Cut(v, "=")
		c.Labels[key] = value
	}
}

func setAllows(c *Config, values []string) {
	for _, v := range values {
		prefix, _ := parseAllow(v)
		c.FirewallAllow = append(c.FirewallAllow, prefix.String())
	}
}

func setSeeds(c *Config, values []string) {
	for _, v := range values {
		c.FleetSeeds = append(c.FleetSeeds, seed(v))
	}
}

// defaults is a Config with what no row's text can say.
func defaults() Config {
	return Config{Labels: map[string]string{}, Typed: map[string]Origin{}, Flags: map[string][]string{}, Provision: ProvisionConfig{Workers: runtime.NumCPU()}}
}
