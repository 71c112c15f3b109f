package windows

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pace-node/internal/config"
	"pace-node/internal/host"
)

// newMark ends the name of a rule that is being tried before its like of the same name goes.
const newMark = " (new)"

// groupOf is what the rules of a service have in common, in front of each rule's description: netsh gives a rule no group of
// its own.
func groupOf(service string) string { return "pace-node: " + service }

// rule is one rule of the firewall: what netsh is told.
type rule struct {
	Name string
	Args []string // name=value, the name left out
}

// rulesOf lists a rule for each surface that another machine can reach, for this program run as this service and nothing
// else, in every profile: which one is in force changes with the network.
func rulesOf(service, program string, surfaces []config.Surface, allow []string) []rule {
	from := "any"
	if len(allow) > 0 {
		from = strings.Join(allow, ",")
	}
	var out []rule
	for _, s := range surfaces {
		if !s.Beyond() {
			continue
		}
		out = append(out, rule{
			Name: service + " " + s.Name + " " + s.Proto + "/" + s.PortText(),
			Args: []string{"dir=in", "action=allow", "program=" + program, "service=" + service, "protocol=" + s.Proto, "localport=" + s.PortText(),
				"remoteip=" + from, "profile=any", "enable=yes", "description=" + groupOf(service) + ", " + s.Name + " (" + s.Scope + ")"},
		})
	}
	return out
}

// Argument lists of netsh, which is judged by its exit status: what it prints is translated.
func addArgs(name string, r rule) []string {
	return append([]string{"advfirewall", "firewall", "add", "rule", "name=" + name}, r.Args...)
}

func deleteArgs(name string) []string {
	return []string{"advfirewall", "firewall", "delete", "rule", "name=" + name}
}

func showArgs(name string) []string {
	return []string{"advfirewall", "firewall", "show", "rule", "name=" + name}
}

// recordOf is a rule as it is remembered, so that it can be deleted by its exact name later, and told from another one.
func recordOf(r rule) string { return strings.Join(append([]string{r.Name}, r.Args...), "|") }

func recordName(record string) string {
	name, _, _ := strings.Cut(record, "|")
	return name
}

// netsh runs netsh and tells its exit status.
type netsh func(ctx context.Context, args ...string) (host.Result, error)

// applyRules makes the firewall's rules of ours these ones. held is what was remembered of those that were made before; what
// is to be remembered now is returned. A rule is deleted by its exact name and added anew, and one that cannot be added
// leaves the old one: it is tried under another name first. Rules that were made and are not wanted any more go.
func applyRules(ctx context.Context, run netsh, want []rule, held []string, o *host.Outcome) (remember []string, err error) {
	ok := func(args []string) (bool, error) {
		r, err := run(ctx, args...)
		return err == nil && r.Code == 0, err
	}
	keepOld := func(name string) { // what is remembered of a rule that stays
		for _, old := range held {
			if recordName(old) == name {
				remember = append(remember, old)
			}
		}
	}
	broken := func(also string, err error) ([]string, error) { // what was made is remembered, and what was there before
		all := remember
		for _, r := range append(slices.Clone(held), also) {
			if r != "" && !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
		return all, err
	}
	for _, w := range want {
		record := recordOf(w)
		if slices.Contains(held, record) {
			there, err := ok(showArgs(w.Name))
			if err != nil {
				return broken("", err)
			}
			if there {
				remember = append(remember, record)
				continue
			}
		}
		added, err := ok(addArgs(w.Name+newMark, w))
		if err != nil {
			return broken(w.Name+newMark, err)
		}
		if !added {
			o.Note(fmt.Sprintf("the firewall does not take the rule %q; what was there stays. See whether Windows Defender Firewall runs, and whether a policy manages it", w.Name))
			keepOld(w.Name)
			continue
		}
		if _, err := ok(deleteArgs(w.Name)); err != nil { // one that is not there is deleted already
			return broken(w.Name+newMark, err)
		}
		if added, err = ok(addArgs(w.Name, w)); err != nil {
			return broken(w.Name+newMark, err)
		}
		if !added { // the like of it was just taken: it stays under the name it was tried by
			o.Note(fmt.Sprintf("the firewall's rule %q is called %q", w.Name, w.Name+newMark))
			keepOld(w.Name) // where it could not be deleted either
			remember = append(remember, w.Name+newMark)
			continue
		}
		tried, err := ok(deleteArgs(w.Name + newMark))
		if err != nil {
			remember = append(remember, record)
			return broken(w.Name+newMark, err)
		}
		if !tried {
			remember = append(remember, w.Name+newMark) // the next time it goes
		}
		o.Change(fmt.Sprintf("the firewall has the rule %q", w.Name))
		remember = append(remember, record)
	}
	for _, old := range held {
		name := recordName(old)
		if slices.ContainsFunc(remember, func(r string) bool { return recordName(r) == name }) {
			continue
		}
		gone, err := ok(deleteArgs(name))
		if err != nil {
			return broken("", err)
		}
		if gone {
			o.Change(fmt.Sprintf("the firewall's rule %q is gone", name))
		} else if there, err := ok(showArgs(name)); err != nil || there {
			o.Note(fmt.Sprintf("the firewall's rule %q does not go", name))
			remember = append(remember, old)
		}
	}
	return remember, nil
}
