// Package config holds one table of options and one of one-shot verbs, and makes from them the flags, the environment's
// names, the installer's and the file's keys, the help, the man page and docs/flags.md. Its one job is to turn what was
// typed into a Config, or to say by file, line and key why not.
//
// It must never open a file, a socket or the state directory: what it reads is handed to it.
package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Exit status of every program and verb of ours.
const (
	ExitOK      = 0  // done
	ExitFailed  = 1  // failed
	ExitUsage   = 2  // the command line is not one
	ExitRefused = 4  // the fleet said no
	ExitNobody  = 5  // nobody answered
	ExitAgain   = 75 // the program changed under the node: it ended so that the service manager starts it again (EX_TEMPFAIL)
	ExitConfig  = 78 // the configuration is refused (EX_CONFIG); a service manager does not retry it
)

// Origin says where a value came from. A default that cannot be met stands down; a typed value refuses the start.
type Origin uint8

// The origins, lowest first in number only: Precedence is the order that counts.
const (
	OriginDefault Origin = iota // nobody typed it
	OriginFile                  // --config
	OriginStored                // what the installer stored
	OriginEnv                   // PACE_…
	OriginFlag                  // the command line
)

var originNames = []string{"default", "file", "stored", "env", "flag"}

// String is the origin's word: flag, env, stored, file, default.
func (o Origin) String() string {
	if int(o) < len(originNames) {
		return originNames[o]
	}
	return "origin " + strconv.Itoa(int(o))
}

// Precedence is who wins, first first; the default is what is left.
var Precedence = []Origin{OriginFlag, OriginEnv, OriginStored, OriginFile}

// Config is what the program runs under. A value that nobody gave and that has no fixed default is zero: the platform's
// state directory, the host's name.
type Config struct {
	StateDir string            // "" = the platform's
	Name     string            // "" = the host name
	Labels   map[string]string // never nil

	Listen, ListenRaft string // host:port; host may be empty, port 0 = chosen by the kernel
	Advertise          string // host or host:port; "" = followed

	Discovery           string   // host:port with an IPv4 host or none; "" = off
	DiscoveryInterfaces []string // name, !name, globs; empty = automatic
	DiscoveryReplyPort  uint16   // 0 = chosen by the kernel
	DiscoveryLoopback   bool

	FleetSeeds []string // host:port each
	FleetID    string   // the pin as typed; "" = none

	AdminListen    string // host:port; "" = off
	AdminTLSCert   string // path
	AdminTLSKey    string // path
	AdminTokenFile string // path

	LogLevel  string // debug, info, warn, error
	LogFormat string // text, json
	AlertExec string // a command line; "" = none

	Provision ProvisionConfig

	ServiceName   string   // "" = the platform's
	FirewallAllow []string // networks as netip.Prefix writes them, masked; empty = everybody

	Scheduler string // host:port of another machine's 0xFC endpoint; "" = this machine's node
	JSON      bool
	File      string // --config; "" = none

	Typed map[string]Origin   // by option name; every option has an entry
	Flags map[string][]string // by option name: what the command line said, as typed
}

// ProvisionConfig is the provisioning part of Config.
type ProvisionConfig struct {
	Interval      time.Duration
	Workers       int // at least 1
	Queue         int // entries
	Helper        string
	HelperTimeout time.Duration
	Default       string // path of a helper's answer; "" = none
	Component     string
	Mode          string // auto, always, never
	Upgrades      string // off, required, optional
	Repository    string // of releases: a folder, or an http or https address; "" = none
	PKI           bool
	Deny          []string // patterns, beside the ones that are always denied
	ReleaseKey    string   // minisign's text of the key that signs them; "" = none
}

// VerbCall is what was asked of the program. Name is "" for the service, a row of Verbs, or ToolVerb for pacectl with its
// words.
type VerbCall struct {
	Name  string
	Arg   string            // of a verb with a metavar
	Words []string          // of pacectl
	Flags map[string]string // those of WordFlags that were typed beside the words; nil: none
}

// ToolVerb is VerbCall.Name for pacectl.
const ToolVerb = "pacectl"

// Stored is one value that the installer stored, and where: "/etc/default/pace-node line 3", `HKLM\Software\Pace\Node`.
type Stored = struct{ Value, Where string }

// ErrUsage is what every *UsageError is.
var ErrUsage = errors.New("usage")

// ErrRefused is what every *RefusedError is.
var ErrRefused = errors.New("the configuration is refused")

// UsageError is a command line that is not one: ExitUsage.
type UsageError struct{ What, Remedy string }

func (e *UsageError) Error() string { return e.What + "; " + e.Remedy }
func (e *UsageError) Unwrap() error { return ErrUsage }

// ExitCode is ExitUsage.
func (e *UsageError) ExitCode() int { return ExitUsage }

// RefusedError is a value, a key or a file that the start is refused for: ExitConfig.
type RefusedError struct {
	Where  string // "the command line", "the environment", "/etc/pace-node/pace-node.yaml line 3"
	Key    string // as it is spelled there: --listen, PACE_LISTEN, listen; "" for the file itself
	Value  string // as typed
	Why    string
	Remedy string // may be empty where Why says it
	Err    error  // sentinel beneath, or nil
}

func (e *RefusedError) Error() string {
	if e.Remedy != "" {
		return e.Reason() + "; " + e.Remedy
	}
	return e.Reason()
}

// Reason is where, which and why, without the remedy.
func (e *RefusedError) Reason() string {
	var b strings.Builder
	b.WriteString(e.Where)
	if e.Key != "" {
		fmt.Fprintf(&b, ": %s", e.Key)
	}
	if e.Value != "" {
		fmt.Fprintf(&b, " = %s", clip(e.Value))
	}
	fmt.Fprintf(&b, ": %s", e.Why)
	return b.String()
}

// Way is the remedy, never empty.
func (e *RefusedError) Way() string {
	if e.Remedy != "" {
		return e.Remedy
	}
	return "correct the value that is named, or leave it out"
}

func (e *RefusedError) Unwrap() []error { return []error{ErrRefused, e.Err} }

// ExitCode is ExitConfig.
func (e *RefusedError) ExitCode() int { return ExitConfig }

// maxShown is how much of a refused value an error repeats, in bytes.
const maxShown = 80

func clip(s string) string {
	if len(s) > maxShown {
		return strconv.Quote(s[:maxShown]) + "…"
	}
	return strconv.Quote(s)
}
