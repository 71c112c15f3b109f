package config

import (
	"slices"
	"strings"
)

// Kept is one setting as an installer stores it.
type Kept struct {
	Key    string   // PACE_FLEET_SEED
	Values []string // as typed; several only of a repeatable option
	List   bool     // the option is repeatable
}

// Text is the one text that a store without lists holds. It reads back as the same values.
func (k Kept) Text() string {
	if !k.List {
		return k.Values[0]
	}
	if slices.ContainsFunc(k.Values, func(v string) bool { return strings.ContainsAny(v, " \t") }) {
		return strings.Join(k.Values, "\n") + "\n" // a line end tells that values are lines, also where there is only one
	}
	return strings.Join(k.Values, " ")
}

// Keep lists what was typed on the command line and may be stored, in the table's order. Paths are put through absolute,
// since whoever reads them starts in another folder.
func (c *Config) Keep(absolute func(string) (string, error)) ([]Kept, error) {
	var out []Kept
	for i := range Options {
		o := &Options[i]
		values, typed := c.Flags[o.Name]
		if !typed || slices.Contains(o.Except, OriginStored) {
			continue
		}
		values = slices.Clone(values)
		if o.Kind == KindPath {
			for i := range values {
				if o.Inline && inlineAnswer(values[i]) {
					continue // no path
				}
				path, err := absolute(values[i])
				if err != nil {
					return nil, &RefusedError{Where: onLine, Key: "--" + o.Name, Value: values[i], Why: err.Error(), Remedy: "give the whole path", Err: err}
				}
				values[i] = path
			}
		}
		out = append(out, Kept{Key: o.EnvName(), Values: values, List: o.Repeat})
	}
	return out, nil
}

// Unkept lists the options, as they are named in the environment, that the environment states and an install does not keep.
func Unkept(env func(string) (string, bool)) []string {
	var out []string
	for i := range Options {
		o := &Options[i]
		if text, ok := env(o.EnvName()); ok && text != "" && !o.Client() {
			out = append(out, o.EnvName())
		}
	}
	return out
}
