package target

import (
	"fmt"
	"io/fs"
	"strings"

	"pace-node/internal/wire"
)

// bodyCheck is one row of what a body must not be. Bad returns the sentence, "" if the body passes.
type bodyCheck struct {
	Reason Reason
	Bad    func(b *wire.ConfigureBody, c setting) string
}

// setting is what the checks know beside the body.
type setting struct {
	cluster string
	system  string // GOOS of the machine that will hold the files
}

// bodyChecks is asked in order, cheap before dear; the first that is bad is the answer.
var bodyChecks = []bodyCheck{
	{ReasonOtherCluster, checkCluster},
	{ReasonEmpty, checkEmpty},
	{ReasonTooMany, checkCounts},
	{ReasonSettingName, checkSettings},
	{ReasonTooLong, checkSizes},
	{ReasonPolicyName, checkPolicyNames},
	{ReasonFileName, checkFileNames},
	{ReasonFileMode, checkFileModes},
	{ReasonNameClash, checkClashes},
	{ReasonCertificate, func(b *wire.ConfigureBody, _ setting) string { return checkCertificates("certificate", b.Certificate) }},
	{ReasonCA, func(b *wire.ConfigureBody, _ setting) string { return checkCertificates("ca", b.CA) }},
	{ReasonKey, func(b *wire.ConfigureBody, _ setting) string { return checkKey(b.Key) }},
	{ReasonPair, func(b *wire.ConfigureBody, _ setting) string { return checkPair(b.Certificate, b.Key) }},
}

// judge asks the checks.
func judge(b *wire.ConfigureBody, c setting) *refusal {
	for _, check := range bodyChecks {
		if text := check.Bad(b, c); text != "" {
			return refuse(check.Reason, text)
		}
	}
	return nil
}

func checkCluster(b *wire.ConfigureBody, c setting) string {
	if b.Cluster == c.cluster {
		return ""
	}
	return fmt.Sprintf("the key \"cluster\" names the fleet %s, and this machine is in %s", shown(b.Cluster), shown(c.cluster))
}

func checkEmpty(b *wire.ConfigureBody, _ setting) string {
	if len(b.Configuration) > 0 {
		return ""
	}
	return `the key "configuration" is empty: it must hold at least one setting`
}

// countRow is one row of how many there may be.
type countRow struct {
	Key string
	Max int
	Of  func(b *wire.ConfigureBody) int
}

var countRows = []countRow{
	{"configuration", MaxSettings, func(b *wire.ConfigureBody) int { return len(b.Configuration) }},
	{"action_policies", MaxPolicies, func(b *wire.ConfigureBody) int { return len(b.ActionPolicies) }},
	{"opa_policies", MaxPolicies, func(b *wire.ConfigureBody) int { return len(b.OPAPolicies) }},
	{"files", MaxFiles, func(b *wire.ConfigureBody) int { return len(b.Files) }},
}

func checkCounts(b *wire.ConfigureBody, _ setting) string {
	for _, r := range countRows {
		if n := r.Of(b); n > r.Max {
			return fmt.Sprintf("the key %q holds %d entries and may hold %d", r.Key, n, r.Max)
		}
	}
	return ""
}

func checkSettings(b *wire.ConfigureBody, _ setting) string {
	for _, name := range sorted(b.Configuration) {
		switch {
		case name == "":
			return `the key "configuration" holds a setting without a name`
		case len(name) > MaxSettingName:
			return fmt.Sprintf("the name of the setting %s has %d bytes and may have %d", shown(name), len(name), MaxSettingName)
		case !wire.ValidText(name):
			return fmt.Sprintf("the name of the setting %s holds a control character", shown(name))
		}
	}
	return ""
}

// sizeRow is one row of how long a text may be.
type sizeRow struct {
	Key  string
	Max  int
	Each func(b *wire.ConfigureBody, yield func(name, text string) bool) // name "": the key itself
}

func one(of func(b *wire.ConfigureBody) string) func(*wire.ConfigureBody, func(string, string) bool) {
	return func(b *wire.ConfigureBody, yield func(string, string) bool) { yield("", of(b)) }
}

func all(of func(b *wire.ConfigureBody) map[string]string) func(*wire.ConfigureBody, func(string, string) bool) {
	return func(b *wire.ConfigureBody, yield func(string, string) bool) {
		m := of(b)
		for _, name := range sorted(m) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

var sizeRows = []sizeRow{
	{"configuration", MaxSettingValue, all(func(b *wire.ConfigureBody) map[string]string { return b.Configuration })},
	{"certificate", MaxPEM, one(func(b *wire.ConfigureBody) string { return b.Certificate })},
	{"ca", MaxCA, one(func(b *wire.ConfigureBody) string { return b.CA })},
	{"key", MaxPEM, one(func(b *wire.ConfigureBody) string { return b.Key })},
	{"action_policies", MaxPolicy, all(func(b *wire.ConfigureBody) map[string]string { return b.ActionPolicies })},
	{"opa_policies", MaxPolicy, all(func(b *wire.ConfigureBody) map[string]string { return b.OPAPolicies })},
	{"server_claims", MaxClaims, one(func(b *wire.ConfigureBody) string { return string(b.ServerClaims) })},
	{"files", MaxFile, func(b *wire.ConfigureBody, yield func(string, string) bool) {
		for _, name := range sorted(b.Files) {
			if !yield(name, b.Files[name].Text) {
				return
			}
		}
	}},
}

func checkSizes(b *wire.ConfigureBody, _ setting) string {
	for _, r := range sizeRows {
		for name, text := range func(yield func(string, string) bool) { r.Each(b, yield) } {
			if len(text) <= r.Max {
				continue
			}
			key := fmt.Sprintf("%q", r.Key)
			if name != "" {
				key = r.Key + "[" + shown(name) + "]"
			}
			return fmt.Sprintf("the key %s has %d bytes and may have %d", key, len(text), r.Max)
		}
	}
	return ""
}

func checkPolicyNames(b *wire.ConfigureBody, c setting) string {
	for _, kind := range []struct {
		key, suffix string
		names       map[string]string
	}{{"action_policies", actionSuffix, b.ActionPolicies}, {"opa_policies", opaSuffix, b.OPAPolicies}} {
		for _, name := range sorted(kind.names) {
			why := badName(name, c.system)
			switch {
			case why != "":
			case strings.Contains(name, "/"):
				why = "is a path: policies have one folder"
			case !strings.HasSuffix(name, kind.suffix) || name == kind.suffix:
				why = "must end in " + kind.suffix + " after a name"
			default:
				continue
			}
			return fmt.Sprintf("the key %s holds the name %s, which %s", kind.key, shown(name), why)
		}
	}
	return ""
}

func checkFileNames(b *wire.ConfigureBody, c setting) string {
	for _, name := range sorted(b.Files) {
		if why := badName(name, c.system); why != "" {
			return fmt.Sprintf("the key files holds the path %s, which %s", shown(name), why)
		}
	}
	return ""
}

// modeRow is one row of what a file's mode must not be.
type modeRow struct {
	Name string
	Bad  func(text string, m fs.FileMode, ok bool) bool
	Say  string
}

var modeRows = []modeRow{
	{"form", func(_ string, _ fs.FileMode, ok bool) bool { return !ok }, `is not four octal digits, as in "0640"`},
	{"open", func(_ string, m fs.FileMode, _ bool) bool { return m&^fileModeMax != 0 }, "lets others write: 0755 is the most"},
	{"unreadable", func(_ string, m fs.FileMode, _ bool) bool { return m&fileModeMin == 0 }, "does not let its owner read: 0400 is the least"},
}

func checkFileModes(b *wire.ConfigureBody, _ setting) string {
	for _, name := range sorted(b.Files) {
		text := b.Files[name].Mode
		if text == "" {
			continue
		}
		m, ok := parseMode(text)
		for _, r := range modeRows {
			if r.Bad(text, m, ok) {
				return fmt.Sprintf("the file %s has the mode %s, which %s", shown(name), shown(text), r.Say)
			}
		}
	}
	return ""
}

// checkClashes refuses two names for one file, and a file that is another one's folder.
func checkClashes(b *wire.ConfigureBody, c setting) string {
	for _, group := range [][]string{append(sorted(b.ActionPolicies), sorted(b.OPAPolicies)...), sorted(b.Files)} {
		taken := map[string]string{}
		for _, name := range group {
			if other, ok := taken[fold(name, c.system)]; ok {
				return fmt.Sprintf("the names %s and %s are the same file on this machine", shown(other), shown(name))
			}
			taken[fold(name, c.system)] = name
		}
		for _, name := range group {
			for i := range len(name) {
				if name[i] != '/' {
					continue
				}
				if other, ok := taken[fold(name[:i], c.system)]; ok {
					return fmt.Sprintf("the path %s goes through %s, which is a file", shown(name), shown(other))
				}
			}
		}
	}
	return ""
}
