package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Parse reads what pace-node was called with (args without the program's name), and, beneath it, the environment, what
// the installer stored and the file of --config. stored and readFile may be nil. Of a Config that comes with an error only
// JSON counts. Errors: *UsageError for a command line that is not one, *RefusedError for a value, key or file, naming where.
// The verb check-arguments calls none of env, stored and readFile, and every error is a *RefusedError then; version and help
// call none either. Its words, each PACE_NAME=value, are judged as what an installer would store.
func Parse(args []string, env func(string) (string, bool), stored func() (map[string]Stored, error), readFile func(string) ([]byte, error)) (Config, VerbCall, error) {
	return whole(args, false, env, stored, readFile)
}

// ParseTool is Parse for pacectl: the flags of a verb's whereabouts, and the words of the verb in VerbCall.Words.
func ParseTool(args []string, env func(string) (string, bool), stored func() (map[string]Stored, error), readFile func(string) ([]byte, error)) (Config, VerbCall, error) {
	return whole(args, true, env, stored, readFile)
}

// whole is parse whose Config says in failure too whether the answer is to be JSON.
func whole(args []string, tool bool, env func(string) (string, bool), stored func() (map[string]Stored, error), readFile func(string) ([]byte, error)) (Config, VerbCall, error) {
	c, call, err := parse(args, tool, env, stored, readFile)
	if err != nil {
		if row := findVerb(call.Name); row != nil && row.Plain {
			env = nil
		}
		c = Config{JSON: jsonWanted(args, env)}
	}
	return c, call, err
}

// jsonWanted reads --json and PACE_JSON where nothing else may read.
func jsonWanted(args []string, env func(string) (string, bool)) bool {
	const flag = "--json"
	for _, arg := range slices.Backward(beforeDashes(args)) {
		switch value, typed := strings.CutPrefix(arg, flag+"="); {
		case arg == flag:
			return true
		case typed:
			return truth(value)
		}
	}
	if o := findOption(func(o *Option) bool { return "--"+o.Name == flag }); env != nil && o != nil {
		text, _ := env(o.EnvName())
		return truth(text)
	}
	return false
}

// given is what one origin said of one option.
type given struct {
	values     []string
	key, where string // for the refusal
}

// layer is what one origin said, by option name.
type layer map[string]given

func parse(args []string, tool bool, env func(string) (string, bool), stored func() (map[string]Stored, error), readFile func(string) ([]byte, error)) (Config, VerbCall, error) {
	flags, call, err := parseFlags(args, tool)
	checking := call.Name == "check-arguments"
	if err != nil {
		if usage := (*UsageError)(nil); checking && errors.As(err, &usage) {
			err = &RefusedError{Where: onLine, Why: usage.What, Remedy: usage.Remedy, Err: ErrUsage}
		}
		return Config{}, call, err
	}
	layers := map[Origin]layer{OriginFlag: flags}
	if checking {
		if layers[OriginStored], err = fromWords(call.Words); err != nil {
			return Config{}, call, err
		}
		call.Words = nil
	}
	if row := findVerb(call.Name); row != nil && row.Plain {
		env, stored, readFile = nil, nil, nil
		if !checking {
			c := defaults()
			c.JSON = len(flags["json"].values) > 0 && truth(flags["json"].values[0])
			return c, call, nil
		}
	}
	row := findVerb(call.Name)
	deaf, blind := row != nil && row.Deaf, row != nil && row.Blind
	if blind {
		stored, readFile = nil, nil
	}
	if env != nil {
		layers[OriginEnv] = fromEnv(env)
		if deaf {
			maps.DeleteFunc(layers[OriginEnv], func(name string, _ given) bool {
				return !findOption(func(o *Option) bool { return o.Name == name }).Client()
			})
		}
	}
	if stored != nil {
		values, err := stored()
		if err != nil {
			return Config{}, call, &RefusedError{Where: "what the installer stored", Why: err.Error(), Err: err}
		}
		if layers[OriginStored], err = fromStored(values); err != nil {
			return Config{}, call, err
		}
		if deaf { // what is typed takes the place of what is stored, which may be what is wrong
			for name := range flags {
				delete(layers[OriginStored], name)
			}
		}
	}
	c := defaults()
	// Everything above the file is judged first, since it says which file.
	if err := judgeAll(layers); err != nil {
		return Config{}, call, err
	}
	if name, ok := pick(layers, "config"); ok && readFile != nil {
		data, err := readFile(name.values[0])
		if err != nil {
			return Config{}, call, &RefusedError{Where: name.where, Key: name.key, Value: name.values[0], Why: err.Error(),
				Remedy: "name a file that is there and can be read", Err: err}
		}
		if layers[OriginFile], err = fromFile(name.values[0], data); err != nil {
			return Config{}, call, err
		}
		if err := judgeAll(layers); err != nil {
			return Config{}, call, err
		}
	}
	assign(&c, layers)
	for name, g := range flags {
		c.Flags[name] = g.values
	}
	if err := cross(&c, layers); err != nil {
		return Config{}, call, err
	}
	if c.Typed["scheduler"] == OriginFlag && call.Name == "" { // a person forgot the verb, and would start a node
		return Config{}, call, &UsageError{"--scheduler names the machine that a verb is sent to, and no verb is given",
			"add one, such as pace-node --cluster-status --scheduler=" + clip(flags["scheduler"].values[0]) + ", or leave it out to run the node"}
	}
	return c, call, nil
}

const onLine = "the command line"

// rawFlag collects an option's texts as they were typed; judging them is the same for every origin.
type rawFlag struct {
	values *[]string
	kind   string
}

func (f rawFlag) String() string     { return "" }
func (f rawFlag) Set(s string) error { *f.values = append(*f.values, s); return nil }
func (f rawFlag) Type() string       { return f.kind }

// parseFlags also tells the verb where it fails, as far as it is known.
func parseFlags(args []string, tool bool) (layer, VerbCall, error) {
	set := pflag.NewFlagSet("pace-node", pflag.ContinueOnError)
	set.SortFlags = false
	set.SetInterspersed(true)
	set.Usage = func() {}
	typed := map[string]*[]string{}
	register := func(name, short string, takesValue bool) {
		values := &[]string{}
		typed[name] = values
		flag := set.VarPF(rawFlag{values, "text"}, name, short, "")
		if !takesValue {
			flag.NoOptDefVal = "true"
		}
	}
	for i := range Options {
		if o := &Options[i]; !tool || o.Tool {
			register(o.Name, "", o.Kind != KindSwitch)
		}
	}
	for i := range Verbs {
		if v := &Verbs[i]; !tool || v.Tool() {
			register(v.Name, v.Short, v.Metavar != "")
		}
	}
	for i := range WordFlags {
		if tool {
			register(WordFlags[i].Name, "", WordFlags[i].Metavar != "")
		}
	}
	if tool {
		args = shieldKeys(args)
	}
	parseErr := set.Parse(args)
	words := unshield(set.Args())
	for _, values := range typed {
		unshield(*values)
	}
	call, verbErr := chosenVerb(typed)
	if call.Name == "" && slices.Contains(beforeDashes(args), "--check-arguments") {
		call.Name = "check-arguments" // pflag stopped before it
	}
	if parseErr != nil {
		return nil, call, flagError(parseErr, tool)
	}
	if verbErr != nil {
		return nil, call, verbErr
	}
	if err := torn(typed, set.NArg()); err != nil {
		return nil, call, err
	}
	if tool && call.Name == "" {
		if call = (VerbCall{Name: ToolVerb, Words: words}); len(call.Words) > 0 && call.Words[0] == "help" {
			call = VerbCall{Name: "help", Words: call.Words[1:]} // a person's first try
		} else if slices.Equal(call.Words, []string{"version"}) {
			call = VerbCall{Name: "version"} // their second
		}
		var err error
		if call.Name == ToolVerb {
			call.Flags, err = wordFlags(call.Words, typed)
		}
		if err != nil {
			return nil, call, err
		}
	} else if tool && call.Name == "help" {
		call.Words = words // what the person wants to know about
	} else if call.Name == "check-arguments" {
		call.Words = words
	} else if set.NArg() > 0 {
		if tool {
			return nil, call, &UsageError{fmt.Sprintf("pacectl --%s takes no word, and was given %s", call.Name, clip(words[0])), "leave one of them out"}
		}
		return nil, call, &UsageError{fmt.Sprintf("%s is not a flag", clip(words[0])),
			"pace-node takes flags only (pace-node --help); an operator's words belong to pacectl"}
	}
	flags := layer{}
	for i := range Options {
		o := &Options[i]
		values := typed[o.Name]
		if values == nil || len(*values) == 0 {
			continue
		}
		if len(*values) > 1 && !o.Repeat {
			return nil, call, &UsageError{fmt.Sprintf("--%s is given %d times", o.Name, len(*values)), "give it once"}
		}
		flags[o.Name] = given{values: *values, key: "--" + o.Name, where: onLine}
	}
	return flags, call, nil
}

// One key text in 64 begins with a dash, and a person pastes it as a word. No flag is as long as a key and made of a key's
// letters only, so such a word is shielded while flags are parsed. So is one that begins like a number below zero: no flag
// of ours is a digit, and the verb says better what it takes.
const shield = "\x00"

func shieldKeys(args []string) []string {
	const keyText = 43 // characters of 32 bytes in unpadded base64url
	out := slices.Clone(args)
	for i, arg := range beforeDashes(args) {
		number := len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9'
		if number || len(arg) == keyText && arg[0] == '-' && strings.Trim(arg, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == "" {
			out[i] = shield + arg
		}
	}
	return out
}

func unshield(words []string) []string {
	for i, w := range words {
		words[i] = strings.TrimPrefix(w, shield)
	}
	return words
}

func beforeDashes(args []string) []string {
	if at := slices.Index(args, "--"); at >= 0 {
		return args[:at]
	}
	return args
}

// torn finds a document that a shell took apart at its blanks. What is left over is not shown: it is whatever the
// document holds.
func torn(typed map[string]*[]string, words int) error {
	for i := range Options {
		o := &Options[i]
		if values := typed[o.Name]; o.Inline && words > 0 && values != nil && len(*values) > 0 && inlineAnswer((*values)[0]) && !json.Valid([]byte((*values)[0])) {
			return &UsageError{"--" + o.Name + " ends before its document does", "put the whole of it in single quotes, or write it to a file and give its path"}
		}
	}
	return nil
}

// chosenVerb finds the one verb that was typed. Beside check-arguments others are checked and not done.
func chosenVerb(typed map[string]*[]string) (VerbCall, error) {
	var call VerbCall
	var failed error
	checking := typed["check-arguments"] != nil && len(*typed["check-arguments"]) > 0
	if help := typed["help"]; help != nil && len(*help) > 0 {
		return VerbCall{Name: "help"}, nil
	}
	for i := range Verbs {
		v := &Verbs[i]
		values := typed[v.Name]
		if values == nil || len(*values) == 0 {
			continue
		}
		arg := (*values)[len(*values)-1]
		switch {
		case failed != nil:
		case len(*values) > 1:
			failed = &UsageError{fmt.Sprintf("--%s is given %d times", v.Name, len(*values)), "give it once"}
		case v.Metavar == "" && arg != "true":
			failed = &UsageError{fmt.Sprintf("--%s takes no argument, and was given %s", v.Name, clip(arg)), "leave it out"}
		case call.Name != "" && !checking:
			failed = &UsageError{fmt.Sprintf("--%s and --%s are two verbs", call.Name, v.Name), "give one at a time"}
		case v.Check != nil && v.Check(arg) != nil:
			failed = &UsageError{fmt.Sprintf("--%s=%s cannot be used", v.Name, clip(arg)), v.Check(arg).Error()}
		}
		if call.Name == "" {
			call.Name = v.Name
			if v.Metavar != "" {
				call.Arg = arg
			}
		}
	}
	if checking {
		call = VerbCall{Name: "check-arguments"}
	}
	return call, failed
}

func findVerb(name string) *Verb {
	for i := range Verbs {
		if Verbs[i].Name == name {
			return &Verbs[i]
		}
	}
	return nil
}

func findOption(match func(o *Option) bool) *Option {
	for i := range Options {
		if match(&Options[i]) {
			return &Options[i]
		}
	}
	return nil
}

// flagError turns pflag's error into ours, with the nearest name.
func flagError(err error, tool bool) error {
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		for i := range Options {
			if !tool || Options[i].Tool {
				names = append(names, Options[i].Name)
			}
		}
		for i := range Verbs {
			if v := &Verbs[i]; !tool || v.Tool() {
				names = append(names, v.Name)
			}
		}
		for i := range WordFlags {
			if tool {
				names = append(names, WordFlags[i].Name)
			}
		}
		name := unknown.GetSpecifiedName()
		dashes := "--"
		if unknown.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return &UsageError{fmt.Sprintf("there is no flag %s%s", clip(dashes+name), suggestFlag(name, names)), helpOf(tool)}
	}
	var valueless *pflag.ValueRequiredError
	if errors.As(err, &valueless) {
		return &UsageError{fmt.Sprintf("--%s needs a value", valueless.GetSpecifiedName()),
			fmt.Sprintf("write --%s=<value>", valueless.GetSpecifiedName())}
	}
	return &UsageError{err.Error(), helpOf(tool)}
}

func fromEnv(env func(string) (string, bool)) layer {
	out := layer{}
	for i := range Options {
		o := &Options[i]
		if slices.Contains(o.Except, OriginEnv) {
			continue
		}
		if text, ok := env(o.EnvName()); ok {
			out.add(o, text, o.EnvName(), "the environment")
		}
	}
	return out
}

// add takes one text of an environment or a store. An empty one is a line that somebody left blank, unless it means off.
func (l layer) add(o *Option, text, key, where string) {
	if values := o.split(text); len(values) > 0 && (text != "" || o.EmptyOff) {
		l[o.Name] = given{values: values, key: key, where: where}
	}
}

// split takes a list's one text apart: at line ends where it has some, otherwise at white space.
func (o *Option) split(text string) []string {
	if !o.Repeat {
		return []string{text}
	}
	if strings.Contains(text, "\n") {
		return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' })
	}
	return strings.Fields(text)
}

func fromStored(values map[string]Stored) (layer, error) {
	out := layer{}
	var names []string
	for i := range Options {
		if !slices.Contains(Options[i].Except, OriginStored) {
			names = append(names, Options[i].EnvName())
		}
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		s := values[key]
		if !strings.HasPrefix(key, "PACE_") {
			continue // another program's
		}
		o := findOption(func(o *Option) bool { return o.EnvName() == key })
		if o == nil || slices.Contains(o.Except, OriginStored) {
			return nil, &RefusedError{Where: s.Where, Key: key, Why: "there is no such setting" + suggest(key, names),
				Remedy: "remove the line, or spell it as docs/flags.md does"}
		}
		out.add(o, s.Value, key, s.Where)
	}
	return out, nil
}

// fromWords reads the words beside check-arguments, each PACE_NAME=value as an installer would store it.
func fromWords(words []string) (layer, error) {
	values := map[string]Stored{}
	for _, word := range words {
		name, value, found := strings.Cut(word, "=")
		if !found || !strings.HasPrefix(name, "PACE_") {
			return nil, &RefusedError{Where: onLine, Why: clip(word) + " is not a flag", Remedy: "give flags, and settings as PACE_NAME=value", Err: ErrUsage}
		}
		if _, twice := values[name]; twice {
			return nil, &RefusedError{Where: onLine, Key: name, Why: "it is given twice", Remedy: "give it once", Err: ErrUsage}
		}
		values[name] = Stored{Value: value, Where: onLine}
	}
	return fromStored(values)
}

// judgeAll asks every value of every origin, in the table's order: one that a higher origin hides is refused as well,
// since it would come to light when that origin goes.
func judgeAll(layers map[Origin]layer) error {
	for i := range Options {
		o := &Options[i]
		for _, origin := range Precedence {
			g, ok := layers[origin][o.Name]
			if !ok {
				continue
			}
			for _, v := range g.values {
				if err := o.check(v); err != nil {
					return &RefusedError{Where: g.where, Key: g.key, Value: o.withheld(v), Why: err.Error(), Err: err}
				}
			}
			if o.checkAll != nil {
				if err := o.checkAll(g.values); err != nil {
					return &RefusedError{Where: g.where, Key: g.key, Why: err.Error(), Err: err}
				}
			}
		}
	}
	return nil
}

// pick finds the value that wins.
func pick(layers map[Origin]layer, name string) (given, bool) {
	for _, origin := range Precedence {
		if g, ok := layers[origin][name]; ok {
			return g, true
		}
	}
	return given{}, false
}

func assign(c *Config, layers map[Origin]layer) {
	for i := range Options {
		o := &Options[i]
		c.Typed[o.Name] = OriginDefault
		for _, origin := range Precedence {
			if g, ok := layers[origin][o.Name]; ok {
				c.Typed[o.Name] = origin
				if len(g.values) > 0 {
					o.set(c, g.values)
				}
				break
			}
		}
		if c.Typed[o.Name] == OriginDefault && o.Default != "" {
			o.set(c, []string{o.Default})
		}
	}
}

func cross(c *Config, layers map[Origin]layer) error {
	for _, row := range crossChecks {
		if !row.Bad(c) {
			continue
		}
		g, ok := pick(layers, row.Key)
		if !ok {
			g = given{key: "--" + row.Key, where: "the default"}
			if o := findOption(func(o *Option) bool { return o.Name == row.Key }); o != nil && o.Default != "" {
				g.values = []string{o.Default}
			}
		}
		r := &RefusedError{Where: g.where, Key: g.key, Why: row.Why}
		if len(g.values) > 0 {
			r.Value = g.values[0]
		}
		return r
	}
	return nil
}

// helpOf is the command that lists what there is.
func helpOf(tool bool) string {
	if tool {
		return "pacectl help"
	}
	return "pace-node --help"
}
