package fleet

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"pace-node/internal/wire"
)

// SettingKind is the shape of a setting's value.
type SettingKind string

// Setting kinds.
const (
	SettingNumber  SettingKind = "number"
	SettingSwitch  SettingKind = "switch"  // true or false
	SettingProfile SettingKind = "profile" // a JSON object, option → text
)

// Names of the settings.
const (
	SettingPerSource       = "enrollment.per-source"
	SettingProvisionPaused = "provision.paused"
	SettingProvisioning    = "provision.profile"
)

// SettingRow is one row of the table of settings.
type SettingRow struct {
	Name     string
	Kind     SettingKind
	Min, Max int // of a number; of a profile, its bytes
	Default  string
	About    string
	Since    int // the format that brought it: who reads an older one would refuse it, and hold another state from then on
}

// Settings is the closed list of what may be set for the whole fleet.
var Settings = append([]SettingRow{
	{SettingPerSource, SettingNumber, 1, 64, "4", "undecided rows that one source network may hold in the waiting list", 1},
	{SettingProvisionPaused, SettingSwitch, 0, 0, "false", "the provisioning queue takes nothing while this is true", 1},
	{SettingProvisioning, SettingProfile, 2, 8192, "", `the provision- options that every voter uses, as {"provision-helper":"/path",…}`, 1},
}, laterSettings...)

func lookupSetting(name string) *SettingRow {
	for i := range Settings {
		if Settings[i].Name == name {
			return &Settings[i]
		}
	}
	return nil
}

func compareSetting(s settingValue, name string) int { return strings.Compare(s.Name, name) }

func unknownSetting(name string) *refusal {
	names := make([]string, len(Settings))
	for i := range Settings {
		names[i] = Settings[i].Name
	}
	return refuse("one of "+strings.Join(names, ", "), "there is no setting %q", clip(name))
}

// CheckSetting judges a setting before it is proposed; the error names the setting and its bounds.
func CheckSetting(name, value string) error {
	row := lookupSetting(name)
	r := unknownSetting(name)
	if row != nil {
		_, r = row.normal(value)
	}
	if r == nil {
		return nil
	}
	return wire.NewError(wire.CodeRefusedByRule, r.text, r.hint)
}

// normal returns the one spelling of a value; empty, or the default, is not kept.
func (s *SettingRow) normal(value string) (string, *refusal) {
	if value == "" {
		return "", nil
	}
	var r *refusal
	switch s.Kind {
	case SettingNumber:
		n, err := strconv.Atoi(value)
		if err != nil || n < s.Min || n > s.Max {
			r = refuse("give a number of "+strconv.Itoa(s.Min)+" to "+strconv.Itoa(s.Max), "%s=%q is out of bounds", s.Name, clip(value))
			break
		}
		value = strconv.Itoa(n)
	case SettingSwitch:
		if value != "true" && value != "false" {
			r = refuse("give true or false", "%s=%q is neither", s.Name, clip(value))
		}
	case SettingProfile:
		value, r = s.profile(value)
	}
	if r != nil {
		return "", r
	}
	if value == s.Default {
		return "", nil
	}
	return value, nil
}

const profilePrefix = "provision-"

func (s *SettingRow) profile(value string) (string, *refusal) {
	// Without braces: a remedy is shown with nothing in it that a shell would act upon.
	const form = "give a JSON object of options and texts, such as provision-helper and the helper's path, within single quotes"
	if len(value) > s.Max {
		return "", refuse("shorten it", "%s has %d bytes, at most %d are kept", s.Name, len(value), s.Max)
	}
	var options map[string]string
	dec := json.NewDecoder(strings.NewReader(value))
	if err := dec.Decode(&options); err != nil || dec.InputOffset() != int64(len(value)) || options == nil {
		return "", refuse(form, "%s is no JSON object of texts", s.Name)
	}
	keys := make([]string, 0, len(options))
	for key := range options {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !strings.HasPrefix(key, profilePrefix) || !wire.ValidID(key) {
			return "", refuse(form, "%s holds %q, which is no provision- option", s.Name, clip(key))
		}
		if !wire.ValidText(options[key]) {
			return "", refuse("take them out", "%s holds control characters under %q", s.Name, key)
		}
	}
	if len(keys) == 0 {
		return "", nil
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(options); err != nil { // keys are sorted by the encoder
		return "", refuse(form, "%s does not encode", s.Name)
	}
	return strings.TrimSuffix(buf.String(), "\n"), nil
}

// Setting returns what a setting is now: what was set, else its default. ok is false for a name that is not in the list.
func (v *View) Setting(name string) (value string, ok bool) {
	row := lookupSetting(name)
	if row == nil {
		return "", false
	}
	if at, found := slices.BinarySearchFunc(v.settings, name, compareSetting); found {
		return v.settings[at].Value, true
	}
	return row.Default, true
}

// SettingSet reports whether a setting was given a value that is not its default.
func (v *View) SettingSet(name string) bool {
	_, found := slices.BinarySearchFunc(v.settings, name, compareSetting)
	return found
}

// Number returns a setting of kind number.
func (v *View) Number(name string) int {
	text, _ := v.Setting(name)
	n, _ := strconv.Atoi(text)
	return n
}

// Switch returns a setting of kind switch.
func (v *View) Switch(name string) bool {
	text, _ := v.Setting(name)
	return text == "true"
}

// Profile returns the options of provision.profile.
func (v *View) Profile() map[string]string {
	text, _ := v.Setting(SettingProvisioning)
	return ParseProfile(text)
}

// ParseProfile returns the options of a value of provision.profile; nil for none and for what CheckSetting refuses.
func ParseProfile(text string) map[string]string {
	var options map[string]string
	if text != "" && json.Unmarshal([]byte(text), &options) != nil {
		return nil
	}
	return options
}
