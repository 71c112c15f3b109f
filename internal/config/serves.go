package config

import (
	"path/filepath"
	"strings"
)

// Serves says whether a command line (the program's name first) would run the node, before anything is parsed: it names no
// verb, and the program is not called as the operator's tool.
func Serves(argv []string) bool {
	if IsTool(argv[0]) {
		return false
	}
	for _, arg := range beforeDashes(argv[1:]) {
		for i := range Verbs {
			v := &Verbs[i]
			if arg == "--"+v.Name || strings.HasPrefix(arg, "--"+v.Name+"=") || v.Short != "" && arg == "-"+v.Short {
				return false
			}
		}
	}
	return true
}

// IsTool says whether the program was called as the operator's tool.
func IsTool(name string) bool {
	return strings.TrimSuffix(strings.ToLower(filepath.Base(name)), ".exe") == ToolVerb
}

// Words are the settings that stand beside the command line, each PACE_NAME=value as check-arguments takes them: what the
// installer stored, and over it the environment. What only a command line may say, and what another program stored, is left
// out.
func Words(env func(string) (string, bool), stored func() (map[string]Stored, error)) ([]string, error) {
	values := map[string]Stored{}
	if stored != nil {
		var err error
		if values, err = stored(); err != nil {
			return nil, err
		}
	}
	var out []string
	for i := range Options {
		o := &Options[i]
		if o.excepts(OriginStored) {
			continue
		}
		text, ok := env(o.EnvName())
		if !ok || o.excepts(OriginEnv) {
			s, there := values[o.EnvName()]
			text, ok = s.Value, there
		}
		if ok {
			out = append(out, o.EnvName()+"="+text)
		}
	}
	return out, nil
}
