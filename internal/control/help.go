package control

import (
	"fmt"
	"slices"
	"strings"

	"pace-node/internal/config"
	"pace-node/internal/fleet"
)

// HelpRow is what the help of one verb says beside its line: more of it, and how it is typed.
type HelpRow struct {
	Words    string // of pacectl
	More     string // sentences; may be empty
	Examples []string
}

// Helps is the table of those, one row a verb, in the verbs' order.
var Helps = []HelpRow{
	{"identity", "It mints what the service will use where nothing has run yet.", []string{"pacectl identity"}},
	{"node", "members counts voters/learners; fleet-id is what --fleet-id of another machine pins it to; asks is there while it waits to be admitted.", []string{"pacectl node", "pacectl node --json"}},
	{"fleet status", "On a machine that does not lead it says how old its picture is. Below a learner is the line that would make it a voter.", []string{"pacectl fleet status", "pacectl fleet status --scheduler=HOST"}},
	{"fleet transfer", "A leader that is stopped hands over by itself: this is for choosing who leads.", []string{"pacectl fleet transfer", "pacectl fleet transfer MACHINE"}},
	{"fleet leave", "It is typed on the machine that leaves, and asks for the fleet's id back.", []string{"pacectl fleet leave", "pacectl fleet leave --yes=FLEET-ID", "pacectl fleet leave --force"}},
	{"fleet recover", "It says first what may be lost, and asks for the fleet's id back. Only where the voters never come back: two machines that each recover a fleet make two of it.", []string{"pacectl fleet recover"}},
	{"fleet accept", "Compare the key with what pacectl node prints on the machine that recovered the fleet.", []string{"pacectl fleet accept KEY", "pacectl fleet accept KEY HOST:PORT"}},
	{"fleet backup", "The file holds this machine's key: keep it and its passphrase apart.", []string{"pacectl fleet backup FILE"}},
	{"fleet restore", "The node has to be stopped, and the machine that the backup is of never started again.", []string{"pacectl fleet restore FILE"}},
	{"enroll list", "", []string{"pacectl enroll list"}},
	{"enroll approve", "Compare the key with what pacectl identity prints on that machine. The line to paste is in the list. A name does in place of ID where one machine alone waits under it.", []string{"pacectl enroll approve ID@KEY"}},
	{"enroll reject", "Without a key every row of that id is refused. A name does in place of ID where one machine alone waits under it. The machine asks this fleet again after an hour at the earliest.", []string{"pacectl enroll reject MACHINE", "pacectl enroll reject ID@KEY"}},
	{"enroll clear", "Nobody is refused by it: each may ask again.", []string{"pacectl enroll clear"}},
	{"enroll window", "Whoever waits already is admitted too, and nobody compares a key: only where everything that is plugged in is known. It ends with its time, by off, or when another machine leads.", []string{"pacectl enroll window 15m", "pacectl enroll window off"}},
	{"enroll preapprove", "Who is a member already stays what it is, so that a whole inventory may be given again.", []string{"pacectl enroll preapprove ID@KEY", "pacectl enroll preapprove -"}},
	{"member admit", "The line to paste is in pacectl fleet status. A name does in place of ID where only one member has it and no KEY is given. A fleet has one voter, three or five: two are worse than one.", []string{"pacectl member admit ID=HOST:PORT"}},
	{"member demote", "It stays a member, under the same key.", []string{"pacectl member demote MACHINE"}},
	{"member list", "", []string{"pacectl member list", "pacectl member list --json"}},
	{"member show", "", []string{"pacectl member show MACHINE"}},
	{"member stale", "Without --stale-for: for 30 days. A leader knows of no silence that is longer than it leads, and says so.", []string{"pacectl member stale", "pacectl member stale --stale-for=720h"}},
	{"member forget", "The machine is a fleet of its own again, and comes back under a new identity only (pace-node --reset-identity there).", []string{"pacectl member forget MACHINE", "pacectl member forget --stale-for=720h"}},
	{"fleet set", settingsHelp(), []string{"pacectl fleet set enrollment.per-source=8", "pacectl fleet set enrollment.per-source="}},
	{"queue list", "The leader's, wherever it is typed; a learner knows its own row only.", []string{"pacectl queue list"}},
	{"queue show", "", []string{"pacectl queue show MACHINE"}},
	{"queue history", "", []string{"pacectl queue history MACHINE"}},
	{"queue retry", "For one that failed or is parked: it does not wait for its next turn.", []string{"pacectl queue retry MACHINE"}},
	{"queue drop", "For one that nobody needs to wait for; a run of it is ended. It comes back when it asks to be provisioned.", []string{"pacectl queue drop MACHINE"}},
	{"queue reprovision", "For one that is configured already and shall be configured anew.", []string{"pacectl queue reprovision MACHINE"}},
	{"queue pause", "What runs is finished. The pause outlives restarts and leaders.", []string{"pacectl queue pause", "pacectl queue pause new rack"}},
	{"queue resume", "", []string{"pacectl queue resume"}},
	{"queue run-helper", "It prints what the helper was given and what it answered.", []string{"pacectl queue run-helper MACHINE --dry-run"}},
	{"release key", "Keep the secret one off the machines that it upgrades; they are told the public one by --provision-release-key.", []string{"pacectl release key release.key"}},
	{"release new", "REPOSITORY is a folder, which a web server hands out or which lies at the same path on every machine. A version never changes once it is there.", []string{"pacectl release new /srv/releases 1.4.0 linux-amd64=build/linux-amd64/pace-node"}},
	{"release sign", "", []string{"pacectl release sign --key=release.key /srv/releases 1.4.0"}},
	{"release verify", "", []string{"pacectl release verify --key=release.key.pub /srv/releases 1.4.0"}},
	{"watch", "On a terminal it is one picture that is drawn anew each second; written to a file or a pipe, a line an event: date, kind, what, id, name, severity, detail. Ctrl-C ends it.", []string{"pacectl watch", "pacectl watch --json", "pacectl watch --scheduler=HOST"}},
	{"audit", "By is the key of the machine at which it was typed.", []string{"pacectl audit", "pacectl audit MACHINE", "pacectl audit --since=24h --limit=20"}},
	{"dashboard", "The address is for whoever typed this: it opens the page once, within five minutes.", []string{"pacectl dashboard"}},
	{"doctor", "Its node may run or not. Each finding stands with the command that mends it.", []string{"pacectl doctor", "pacectl doctor HOST"}},
	{"completion", "It is read by the shell where that starts; packages bring it for bash, zsh and fish. In zsh the file is sourced behind compinit.", []string{"pacectl completion bash > /etc/bash_completion.d/pacectl", "pacectl completion zsh > ~/.pacectl.zsh", "pacectl completion fish | source", "pacectl completion powershell | Out-String | Invoke-Expression"}},
}

// meansMachine says what MACHINE stands for.
var meansMachine = fmt.Sprintf("MACHINE is a name where it is unique, an id, or the start of one id, of %d characters or more.", minPrefix)

// settingsHelp says what may be set for the whole fleet.
func settingsHelp() string {
	var l strings.Builder
	l.WriteString("An empty value is the default again. NAME is")
	for i, row := range fleet.Settings {
		if i > 0 {
			l.WriteString("; or")
		}
		fmt.Fprintf(&l, " %s: %s", row.Name, row.About)
	}
	l.WriteString(".")
	return l.String()
}

// helpWidth is how wide a sentence of the help is, in columns.
const helpWidth = 78

// ToolHelp is pacectl's help: of all words, of a group, or of one verb. The error is a word that there is not.
func ToolHelp(words []string) (string, error) {
	if len(words) == 0 {
		return wholeHelp(), nil
	}
	var of []*verb
	for i := range verbs {
		first, second, two := strings.Cut(verbs[i].words, " ")
		if verbs[i].words == "" || first != words[0] || two && len(words) > 1 && second != words[1] {
			continue
		}
		of = append(of, &verbs[i])
	}
	if len(of) == 0 {
		_, _, err := findWords(words[:min(len(words), 2)])
		return "", err
	}
	var l lines
	if len(of) > 1 {
		l.add("pacectl %s: pacectl help %s WORD says more of one.\n", words[0], words[0])
		for _, v := range of {
			l.column("pacectl "+v.synopsis(), v.about)
		}
		return l.String(), nil
	}
	of[0].help(&l)
	return l.String(), nil
}

// help is all that there is to say of one verb.
func (v *verb) help(l *lines) {
	l.add("pacectl %s\n", v.synopsis())
	l.wrapped(strings.ToUpper(v.about[:1]) + v.about[1:] + ".")
	row := helpOf(v)
	if row.More != "" {
		l.wrapped(row.More)
	}
	if v.alone {
		first, _, _ := strings.Cut(v.words, " ")
		l.wrapped("pacectl " + first + " alone does the same.")
	}
	if strings.Contains(v.args, "MACHINE") {
		l.wrapped(meansMachine)
	}
	if v.flag != "" {
		l.wrapped("pace-node --" + v.flag + " does the same.")
	}
	own := false
	for i := range config.WordFlags {
		if f := &config.WordFlags[i]; f.Takes(strings.Fields(v.words)) {
			if !own {
				l.add("")
			}
			own = true
			l.column(typedWord(f), f.Help)
		}
	}
	l.add("\nExamples")
	for _, e := range row.Examples {
		l.add("  %s", e)
	}
	l.add("\nFlags of every word")
	toolOptions(l)
}

// helpOf is a verb's row of Helps.
func helpOf(v *verb) HelpRow {
	if at := slices.IndexFunc(Helps, func(h HelpRow) bool { return h.Words == v.words }); at >= 0 {
		return Helps[at]
	}
	return HelpRow{}
}

func toolOptions(l *lines) {
	for i := range config.Options {
		if o := &config.Options[i]; o.Tool {
			l.column(typed(o), o.Help)
		}
	}
}

// wrapped writes sentences, broken at words.
func (l *lines) wrapped(text string) {
	line := ""
	for _, w := range strings.Fields(text) {
		if line != "" && len(line)+1+len(w) > helpWidth {
			l.add("%s", line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + w)
	}
	l.add("%s", line)
}

// wholeHelp lists pacectl's words, a line a verb, and its flags.
func wholeHelp() string {
	var l lines
	l.add("pacectl: what an operator asks of pace-node.\n%s", meansMachine)
	l.add("pacectl help WORD says more of one, with examples.\n")
	for _, v := range verbs {
		if v.words != "" {
			l.column("pacectl "+v.synopsis(), v.about)
		}
	}
	l.add("")
	toolOptions(&l)
	for _, v := range config.Verbs {
		if v.Tool() {
			l.column("--"+v.Name, v.Help)
		}
	}
	l.add("")
	for i := range config.WordFlags {
		f := &config.WordFlags[i]
		l.column(typedWord(f), fmt.Sprintf("%s [%s]", f.Help, f.Words()))
	}
	l.add("\nExit status")
	for _, e := range config.ToolExits() {
		l.add("  %d  %s", e.Code, e.Text)
	}
	return l.String()
}
