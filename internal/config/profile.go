package config

import (
	"maps"
	"slices"
	"strings"
)

// The fleet's setting provision.profile gives every voter the same options of the group Provisioning. What a machine was given
// itself, by whatever origin, stands before it; it stands before the defaults.

// ProfileName is the fleet's setting.
const ProfileName = "provision.profile"

// profiled is the row of an option that the profile may hold; nil: it may not.
func profiled(name string) *Option {
	return findOption(func(o *Option) bool { return o.Name == name && o.Group == GroupProvision && !o.Own })
}

// ProfileOptions are the names of the options that the profile may hold, in the table's order.
func ProfileOptions() []string {
	var out []string
	for i := range Options {
		if profiled(Options[i].Name) != nil {
			out = append(out, Options[i].Name)
		}
	}
	return out
}

// CheckProfile judges a profile before it is set: by name, the first option that is none, may not be there, or has a value
// that the command line would be refused for. It returns a *RefusedError.
func CheckProfile(options map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if err := checkProfiled(name, options[name]); err != nil {
			return err
		}
	}
	if u := options["provision-upgrades"]; sourceless(u, options["provision-repository"], options["provision-release-key"]) {
		return unsourced(u)
	}
	return nil
}

// sourceless reports whether upgrades are asked for and nothing says where they come from, or who signs them.
func sourceless(upgrades, repository, key string) bool {
	return upgrades != "" && upgrades != "off" && (repository == "" || key == "")
}

func unsourced(upgrades string) *RefusedError {
	return &RefusedError{Where: ProfileName, Key: "provision-upgrades", Value: upgrades, Why: "nothing says where releases come from and who signs them",
		Remedy: "put provision-repository and provision-release-key into the profile too"}
}

func checkProfiled(name, text string) error {
	o := profiled(name)
	if o == nil {
		refused := &RefusedError{Where: ProfileName, Key: name, Why: "there is no such option of provisioning" + suggest(name, ProfileOptions()),
			Remedy: "it holds " + strings.Join(ProfileOptions(), ", ")}
		if other := findOption(func(o *Option) bool { return o.Name == name && o.Own }); other != nil {
			refused.Why = "it is each machine's own"
		}
		return refused
	}
	values := o.split(text)
	if len(values) == 0 {
		values = []string{""}
	}
	for _, v := range values {
		if err := o.check(v); err != nil {
			return &RefusedError{Where: ProfileName, Key: name, Value: o.withheld(v), Why: err.Error(), Err: err}
		}
	}
	if o.checkAll != nil {
		if err := o.checkAll(values); err != nil {
			return &RefusedError{Where: ProfileName, Key: name, Why: err.Error(), Err: err}
		}
	}
	return nil
}

// WithProfile is the provisioning part of a configuration as the profile completes it. faults are the options that this
// version does not know or refuses, each a *RefusedError; the others apply.
func (c *Config) WithProfile(options map[string]string) (out ProvisionConfig, faults []error) {
	with := *c
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if err := checkProfiled(name, options[name]); err != nil {
			faults = append(faults, err)
			continue
		}
		if c.Typed[name] != OriginDefault {
			continue
		}
		o := profiled(name)
		o.set(&with, o.split(options[name]))
	}
	// Together they may say what none says alone, where a machine was given one of them itself.
	if p := &with.Provision; sourceless(p.Upgrades, p.Repository, p.ReleaseKey) {
		faults = append(faults, unsourced(p.Upgrades))
		p.Upgrades = "off"
	}
	return with.Provision, faults
}
