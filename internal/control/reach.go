package control

import (
	"slices"
	"strings"

	"pace-node/internal/config"
)

// pasted is a document with commands to paste: remedies, and lines that approve or promote a machine. They are there once
// the document is finished.
type pasted interface{ commands() []*string }

// worded is a document whose Text finishes it first: words is that text of one that is finished already.
type worded interface{ words() string }

// reach is what was typed so that a verb reaches the node that it asks: the flags, which a command that is pasted into the
// same shell needs as well. What the environment says is there for the next command anyway.
type reach struct{ dir, scheduler string }

func reachOf(cfg *config.Config) (r reach) {
	if cfg.Typed["state-dir"] == config.OriginFlag {
		r.dir = "--state-dir=" + cfg.StateDir
	}
	if cfg.Typed["scheduler"] == config.OriginFlag {
		r.scheduler = "--scheduler=" + cfg.Scheduler
	}
	return r
}

// fill finishes a document and makes its commands reach the node that was asked.
func (r reach) fill(doc Printable) {
	Finish(doc)
	if d, ok := doc.(pasted); ok {
		for _, command := range d.commands() {
			*command = r.of(*command)
		}
	}
}

// of is a command that reaches the node that was asked. A verb that asks no other machine is meant for that one: it is left
// as it is where another was asked.
func (r reach) of(command string) string {
	typed, _, _ := strings.Cut(command, " # ")
	switch words := strings.Fields(typed); {
	case r.scheduler == "":
	case len(words) < 2 || hereOf(words[1:]) != nil:
		return command
	default:
		command = addFlag(command, r.scheduler)
	}
	return addFlag(command, r.dir)
}

// addFlag puts a flag behind a command of ours that has none of that name, before what explains it. What is to be typed on
// another machine stays as it is.
func addFlag(remedy, flag string) string {
	if !Pasteable(strings.TrimLeft(flag, "-")) {
		return remedy
	}
	command, after, explained := strings.Cut(remedy, " # ")
	program, _, _ := strings.Cut(strings.TrimPrefix(command, "sudo "), " ")
	name, _, _ := strings.Cut(flag, "=")
	elsewhere := strings.HasPrefix(after, "on a ") || strings.HasPrefix(after, "on that machine")
	if program != "pace-node" && program != "pacectl" || strings.Contains(command, name) || elsewhere {
		return remedy
	}
	if command += " " + flag; explained {
		command += " # " + after
	}
	return command
}

// HereRow is a verb that asks no other machine.
type HereRow struct {
	Verb    string // words of pacectl, or a flag of pace-node
	Instead string // what to do where another machine is meant
	// Asks: it changes this machine through its node. Where the environment names another machine it is refused too, since
	// that one may be meant; the others pass over the environment.
	Asks bool
}

// Heres is the table of them: --scheduler beside one is refused.
var Heres = []HereRow{
	{"identity", "type pacectl identity on that machine, or read its key in pacectl member list", false},
	{"print-identity", "type pace-node --print-identity on that machine, or read its key in pacectl member list", false},
	{"reset-identity", "type pace-node --reset-identity on that machine", false},
	{"print-surfaces", "type pace-node --print-surfaces on that machine", false},
	{"install-service", "type pace-node --install-service on that machine; a node finds others by --fleet-seed=HOST", false},
	{"uninstall-service", "type pace-node --uninstall-service on that machine", false},
	{"apply-upgrade", "leave it out: pace-node --apply-upgrade serves this machine's service", false},
	{"run-hooks", "leave it out: pace-node --run-hooks serves this machine's service", false},
	{"fleet leave", "type pacectl fleet leave there, without --scheduler; to remove another machine: pacectl member forget MACHINE", true},
	{"fleet recover", "type pacectl fleet recover there, without --scheduler", true},
	{"fleet accept", "type pacectl fleet accept there, without --scheduler", true},
	{"fleet backup", "type pacectl fleet backup there, without --scheduler", true},
	{"fleet restore", "type pacectl fleet restore there, without --scheduler", true},
	{"dashboard", "type pacectl dashboard on that machine: the address opens its own page", true},
	{"doctor", "pacectl doctor HOST looks at another machine from here, and pacectl doctor typed there at that one itself", false},
	{"release key", "leave it out: pacectl release works on files", false},
	{"release new", "leave it out: pacectl release works on files", false},
	{"release sign", "leave it out: pacectl release works on files", false},
	{"release verify", "leave it out: pacectl release works on files", false},
}

// hereOf is the row of what was typed, words or a flag of pace-node first; nil: it goes to another machine where one is named.
func hereOf(typed []string) *HereRow {
	flag, _, _ := strings.Cut(strings.TrimPrefix(typed[0], "--"), "=")
	for i := range Heres {
		verb := strings.Fields(Heres[i].Verb)
		if Heres[i].Verb == flag || len(typed) >= len(verb) && slices.Equal(typed[:len(verb)], verb) {
			return &Heres[i]
		}
	}
	return nil
}

// here judges a verb that asks no other machine, where one is named.
func (r *runner) here(v *verb, typed []string) error {
	row := hereOf(typed)
	if row == nil || r.cfg.Scheduler == "" {
		return nil
	}
	if r.cfg.Typed["scheduler"] == config.OriginEnv && !row.Asks {
		r.cfg.Scheduler = ""
		return nil
	}
	name, program := v.words, config.ToolVerb+" "
	if !r.tool {
		name, program = v.flag, "pace-node --"
	}
	return usageFailure(row.Instead, "%s%s is about the machine that it is typed on, and --scheduler=%s names another", program, name, r.cfg.Scheduler)
}

func approvals(rows []EnrollRow) (out []*string) {
	for i := range rows {
		out = append(out, &rows[i].Approve)
	}
	return out
}

func promotions(members []MemberStatus) (out []*string) {
	for i := range members {
		out = append(out, &members[i].Admit)
	}
	return out
}

func (d *EnrollList) commands() []*string { return approvals(d.Rows) }
func (d *MemberList) commands() []*string { return promotions(d.Members) }
func (d *MemberShow) commands() []*string { return []*string{&d.Member.Admit} }
func (d *NodeStatus) commands() []*string { return remediesOf(d.Conditions) }
func (d *ClusterStatus) commands() []*string {
	return append(promotions(d.Members), remediesOf(d.Conditions)...)
}
func (d *WatchStatus) commands() []*string {
	return append(approvals(d.Waiting), append(promotions(d.Members), remediesOf(d.Conditions)...)...)
}

func remediesOf(raised []ConditionStatus) (out []*string) {
	for i := range raised {
		out = append(out, &raised[i].Remedy)
	}
	return out
}
