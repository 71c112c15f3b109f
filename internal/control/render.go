package control

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// finisher fills in what is worked out from other members of a document when it
// is printed.
type finisher interface{ finish() }

// Finish fills in what a document says when it is shown: its version, lists that are not null, and commands to paste.
func Finish(doc Printable) {
	if f, ok := doc.(finisher); ok {
		f.finish()
	}
}

func (d *Identity) finish() {
	d.V = DocumentVersion
	if d.RaftPort == 0 {
		d.RaftPort = DefaultRaftPort
	}
	d.ClusterAdmit = admitValue(d.NodeID, d.Host, d.RaftPort, d.PublicKey)
}

// Text is three lines: node-id, public-key, cluster-admit.
func (d *Identity) Text() string {
	d.finish()
	var l lines
	l.words("node-id", Word(d.NodeID))
	l.words("public-key", Word(d.PublicKey))
	l.words("cluster-admit", Word(d.ClusterAdmit))
	return l.String()
}

func (d *EnrollList) finish() {
	d.V = DocumentVersion
	if d.Rows == nil {
		d.Rows = []EnrollRow{}
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		r.Approve = ""
		if r.Decision == DecisionWaiting {
			r.Approve = approveCommand(r.ID, r.Key)
		}
	}
}

// Text is the window, then each machine that asked. A machine's line is:
// decision, id, name, claimed endpoint, address it came from, age, attempts,
// marks.
func (d *EnrollList) Text() string {
	d.finish()
	return d.words()
}

func (d *EnrollList) words() string {
	var l lines
	if d.Window.Armed {
		l.add("enrollment: auto-approve (%d min left)", minutesLeft(d.Window.LeftMS))
	} else {
		l.add("enrollment: manual")
	}
	if len(d.Rows) == 0 {
		l.add("(nothing waiting)")
	}
	for _, r := range d.Rows {
		columns := []string{Word(r.Decision), Word(r.ID), Word(r.Name), Word(r.Endpoint), Word(r.Source), span(r.AgeMS), strconv.FormatUint(r.Attempts, 10)}
		if r.AddressDiffers {
			columns = append(columns, "ADDRESS-DIFFERS")
		}
		if r.KeyConflict {
			columns = append(columns, "KEY-CONFLICT")
		}
		if r.KeyRejected {
			columns = append(columns, "KEY-REJECTED")
		}
		if r.Decision == DecisionAuto {
			columns = append(columns, "armed="+date(r.ArmedAt))
		}
		l.words(columns...)
		l.words("key", Word(r.Key))
		if r.NameOf != nil {
			l.add("note: the name %s is also that of the member %s, last heard %s", Word(r.Name), Word(r.NameOf.ID), ago(r.NameOf.HeardMS))
		}
		switch {
		case r.Approve != "":
			l.words("approve", r.Approve)
		case r.Decision == DecisionWaiting:
			l.add("note: this id cannot be pasted, so it is not offered for approval; reject it, or clear the list")
		}
	}
	return l.String()
}

func ago(ms *int64) string {
	if ms == nil {
		return "never"
	}
	return span(*ms) + " ago"
}

// Text is the sentence, behind a word of ours: the sentence comes from the node
// that was asked, and a line must not begin with it.
func (d *Done) Text() string {
	d.V = DocumentVersion
	var l lines
	l.add("done: %s", Sentence(d.Said))
	if d.Revision != 0 {
		l.add("revision %d", d.Revision)
	}
	return l.String()
}

func (d *Done) finish() { d.V = DocumentVersion }

// viewText says how old a picture is, and whether a leader is heard.
func viewText(v View) string {
	var s string
	switch {
	case v.Leads:
		s = "of the leader itself, current"
	case v.AsOfMS < 1000 && v.LeaderSilentMS > 0: // its source answers, and nobody decides anything any more
		s = fmt.Sprintf("of a %s's applied state, revision %d, as of %s ago", Word(v.Mode), v.Revision, span(v.LeaderSilentMS))
	case v.AsOfMS < 1000:
		s = fmt.Sprintf("of a %s's applied state, revision %d, current", Word(v.Mode), v.Revision)
	default:
		s = fmt.Sprintf("of a %s's applied state, revision %d, as of %s ago", Word(v.Mode), v.Revision, span(v.AsOfMS))
	}
	if v.LeaderSilentMS > 0 {
		s += ", no leader is heard since " + span(v.LeaderSilentMS)
	}
	return s
}

func leaderText(m *Machine) string {
	if m == nil {
		return "none"
	}
	return Word(m.ID) + " " + Word(m.Name)
}

func (d *ClusterStatus) finish() {
	d.V = DocumentVersion
	d.Members = orEmpty(d.Members)
	d.PreApprove = orEmpty(d.PreApprove)
	d.Settings = orEmpty(d.Settings)
	d.Conditions = orEmpty(d.Conditions)
	for i := range d.Members {
		d.Members[i].finish()
	}
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// Text is the fleet's line, the age of the picture, a line a member, then
// settings, then conditions.
func (d *ClusterStatus) Text() string {
	d.finish()
	return d.words()
}

func (d *ClusterStatus) words() string {
	var l lines
	l.add("fleet %s age %s leader %s revision %d", Word(d.Cluster), span(d.AgeMS), leaderID(d.Leader), d.View.Revision)
	l.add("view %s", viewText(d.View))
	if d.View.VotersTotal > 1 {
		l.add("voters %d of %d heard", d.View.VotersHeard, d.View.VotersTotal)
	}
	if d.Said != "" {
		l.add("note: %s", Sentence(d.Said))
	}
	for i := range d.Members {
		d.Members[i].line(&l)
	}
	for _, p := range d.PreApprove {
		as := "learner"
		if p.Seat {
			as = "voter"
		}
		l.words("pre-approved", Word(p.ID), as, "key", Word(p.Key))
	}
	for _, s := range d.Settings {
		columns := append([]string{"setting", Word(s.Name)}, settingWords(s.Value)...)
		if s.Default {
			columns = append(columns, "default")
		}
		l.words(columns...)
	}
	conditionLines(&l, d.Conditions)
	return l.String()
}

// settingWords are a setting's value as columns: one, or of an object an option each, whose braces and quotes would be escaped.
func settingWords(value string) []string {
	var options map[string]string
	if json.Unmarshal([]byte(value), &options) != nil || len(options) == 0 {
		return []string{Word(value)}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(options)) {
		out = append(out, Word(name+"="+options[name]))
	}
	return out
}

func leaderID(m *Machine) string {
	if m == nil {
		return "none"
	}
	return Word(m.ID)
}

// conditionLines writes two lines a condition: what is the matter, and what to
// paste. Remedies are made safe where they are made, and once more here, for they
// may come from another machine.
func conditionLines(l *lines, raised []ConditionStatus) {
	for _, c := range raised {
		l.add("condition %s", conditionText(c))
		if c.Remedy != "" {
			l.words(remedyName(c.Remedy), Sentence(c.Remedy))
		}
	}
}

// remedyCommands are the programs that a remedy may begin with. A line "remedy" is
// there to be pasted, so what begins otherwise is a "note".
var remedyCommands = []string{"pace-node ", "pacectl ", "timedatectl ", "df ", "ls ", "dir ", "w32tm ", "netsh ", "netstat ", "sudo "}

func remedyName(remedy string) string {
	for _, c := range remedyCommands {
		if strings.HasPrefix(remedy, c) {
			return "remedy"
		}
	}
	return "note"
}

func conditionText(c ConditionStatus) string {
	return fmt.Sprintf("%s %s since %s: %s", Word(c.Severity), Word(c.ID), span(c.SinceMS), Sentence(c.Detail))
}

func (d *NodeStatus) finish() {
	d.V = DocumentVersion
	d.Conditions = orEmpty(d.Conditions)
	d.Discovery.Interfaces = orEmpty(d.Discovery.Interfaces)
}

// Text is "name  value" lines; a name with several values has a line for each.
func (d *NodeStatus) Text() string {
	d.finish()
	var l lines
	say := func(name, format string, args ...any) { l.add("%s  "+format, append([]any{name}, args...)...) }
	say("version", "%s", Word(d.Version))
	say("mode", "%s", Word(d.Mode))
	say("node-id", "%s", Word(d.NodeID))
	say("name", "%s", Word(d.Name))
	say("public-key", "%s", Word(d.PublicKey))
	say("fleet-id", "%s", wordOr(d.FleetID, "none"))
	say("fleet-pin", "%s", wordOr(d.FleetPin, "none"))
	say("leader", "%s", leaderText(d.Leader))
	say("members", "%d/%d", d.Voters, d.Learners)
	say("view", "%s", viewText(d.View))
	if d.View.VotersTotal > 1 {
		say("voters", "%d of %d heard", d.View.VotersHeard, d.View.VotersTotal)
	}
	if d.Window.Armed {
		say("auto-approve", "%d min left", minutesLeft(d.Window.LeftMS))
	} else {
		say("auto-approve", "off")
	}
	if a := d.Asks; a != nil {
		say("asks", "fleet %s at %s since %s, last signed answer %s %s", Word(a.Cluster), Word(a.Endpoint), span(a.AskedMS), Word(a.Outcome), ago(a.HeardMS))
	}
	say("endpoints", "advertised %s", wordOr(d.Endpoints.Advertised, "nothing"))
	say("endpoints", "listen %s", wordOr(d.Endpoints.Listen, "closed"))
	say("endpoints", "raft %s", wordOr(d.Endpoints.Raft, "closed"))
	say("endpoints", "admin %s", wordOr(d.Endpoints.Admin, "off"))
	if d.Discovery.On {
		say("discovery", "listener %s", Word(d.Discovery.Listener))
		say("discovery", "answering %s", Word(d.Discovery.Answering))
	} else {
		say("discovery", "off %s", Sentence(d.Discovery.Said))
	}
	for _, i := range d.Discovery.Interfaces {
		if i.Used {
			say("discovery", "interface %s %s used", Word(i.Name), Word(i.Address))
		} else {
			say("discovery", "interface %s %s passed over: %s", Word(i.Name), Word(i.Address), Sentence(i.Why))
		}
	}
	for _, s := range d.Seeds {
		say("seed", "%s %s %s", Word(s.Endpoint), Word(s.Origin), Sentence(s.Said))
	}
	far := ""
	if d.Peers.ForeignFleets == 0 && !d.Peers.ForeignClear {
		far = " so far"
	}
	say("peers", "%d heard, %d authenticated, %d foreign fleets%s, %d sessions", d.Peers.Heard, d.Peers.Authenticated, d.Peers.ForeignFleets, far, d.Peers.Sessions)
	say("uptime", "%s", span(d.UptimeMS))
	say("state-dir", "%s", Sentence(d.StateDir))
	if len(d.Conditions) == 0 {
		say("conditions", "none")
	}
	for _, c := range d.Conditions {
		say("conditions", "%s", conditionText(c))
		if c.Remedy != "" {
			say(remedyName(c.Remedy), "%s", Sentence(c.Remedy))
		}
	}
	return trimLines(l.String())
}

func wordOr(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return Word(s)
}

// trimLines takes spaces at line ends away, where a last value was empty.
func trimLines(s string) string {
	all := strings.Split(s, "\n")
	for i := range all {
		all[i] = strings.TrimRight(all[i], " ")
	}
	return strings.Join(all, "\n")
}

func (d *ConditionList) finish() {
	d.V = DocumentVersion
	d.Conditions = orEmpty(d.Conditions)
}

// Text is a line a condition.
func (d *ConditionList) Text() string {
	d.finish()
	var l lines
	if len(d.Conditions) == 0 {
		l.add("(no condition raised)")
	}
	conditionLines(&l, d.Conditions)
	return l.String()
}

func (d *AuditList) finish() {
	d.V = DocumentVersion
	d.Entries = orEmpty(d.Entries)
}

// Text is a line an entry: when, revision, what was done, by whom, to what. By whom is a key: names may change hands.
func (d *AuditList) Text() string {
	d.finish()
	var l lines
	l.add("view %s", viewText(d.View))
	switch {
	case len(d.Entries) > 0:
	case d.Note != "":
		l.add("note: %s", Sentence(d.Note))
	case d.View.Mode == "learner":
		l.add("(a learner does not hold the record: ask a voter, pacectl audit --scheduler=HOST)")
	default:
		l.add("(nothing recorded)")
	}
	if d.LeftOut > 0 {
		l.add("note: %s left out", countText(d.LeftOut, "entry is", "entries are"))
	}
	for _, e := range d.Entries {
		l.words(date(e.At), strconv.FormatUint(e.Revision, 10), Word(e.Did), Word(e.By), Chosen(e.What))
	}
	return trimLines(l.String())
}

func (d *QueueList) finish() {
	d.V = DocumentVersion
	d.Entries = orEmpty(d.Entries)
	SortQueue(d.Entries)
}

// SortQueue puts entries into the order of QueueStates, then by id.
func SortQueue(entries []QueueEntry) {
	slices.SortStableFunc(entries, func(a, b QueueEntry) int {
		return cmp.Or(cmp.Compare(stateRank(a.State), stateRank(b.State)), cmp.Compare(a.ID, b.ID))
	})
}

func stateRank(s string) int {
	if i := slices.Index(QueueStates, s); i >= 0 {
		return i
	}
	return len(QueueStates)
}

// line is: state, id, name, stage, attempt, time due, last error.
func (e *QueueEntry) line(l *lines) {
	due := nothing
	if e.DueMS != nil {
		due = dueText(*e.DueMS, "in-")
	}
	l.words(Word(strings.ReplaceAll(e.State, " ", "-")), Word(e.ID), Word(e.Name), Word(e.Stage), strconv.Itoa(e.Attempt), due, Sentence(e.LastError))
}

func dueText(ms int64, in string) string {
	if ms <= 0 {
		return "now"
	}
	return in + span(ms)
}

// Text is whether the queue runs, then a line a machine, by state.
func (d *QueueList) Text() string {
	d.finish()
	var l lines
	if d.Paused {
		l.add("queue: paused %s", Sentence(d.Why))
	} else {
		l.add("queue: running")
	}
	if d.By != nil {
		l.add("paused by %s %s, %s", Word(d.By.By), Word(d.By.ByName), date(d.By.At))
	}
	l.add("view %s", viewText(d.View))
	if len(d.Entries) == 0 {
		l.add("(nothing in the queue)")
	}
	for i := range d.Entries {
		d.Entries[i].line(&l)
	}
	if d.Note != "" {
		l.add("note: %s", Sentence(d.Note))
	}
	return trimLines(l.String())
}

func (d *QueueShow) finish() {
	d.V = DocumentVersion
	d.Outcomes = orEmpty(d.Outcomes)
}

// Text is "name  value" lines, then the past runs, oldest first.
func (d *QueueShow) Text() string {
	d.finish()
	var l lines
	e := d.Entry
	say := func(name, value string) { l.add("%s  %s", name, value) }
	say("id", Word(e.ID))
	say("name", Word(e.Name))
	say("state", Sentence(e.State))
	say("stage", Word(e.Stage))
	say("attempt", strconv.Itoa(e.Attempt))
	if e.DueMS != nil {
		say("due", dueText(*e.DueMS, "in "))
	}
	say("last-error", Sentence(e.LastError))
	say("last-success", ago(e.LastSuccessMS))
	if d.Wants != "" {
		say("wants", Sentence(d.Wants))
	}
	say("component", Word(d.Component))
	say("boot-id", Word(d.BootID))
	say("config-digest", Word(d.Digest))
	say("view", viewText(d.View))
	for _, o := range d.Outcomes {
		say("run", fmt.Sprintf("%s %s %s %s", date(o.At), Word(o.Outcome), Word(o.Stage), Sentence(o.Error)))
	}
	return trimLines(l.String())
}

func (d *HelperRun) finish() { d.V = DocumentVersion }

// Text is what the helper was given and what it said.
func (d *HelperRun) Text() string {
	d.finish()
	var l lines
	l.add("nothing was configured; the helper took %s", span(d.TookMS))
	l.add("input %s", oneLine(d.Input))
	l.add("output %s", oneLine(d.Output))
	return l.String()
}

// oneLine returns a JSON value without line breaks and safe to paste; what is no
// JSON is escaped as text.
func oneLine(raw json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return Chosen(string(raw))
	}
	return string(quietJSON(b.Bytes()))
}

// Encode is a document as it is shown: filled in, and one line of JSON that is safe to paste and to show.
func Encode(doc any) ([]byte, error) {
	if d, ok := doc.(Printable); ok {
		Finish(d)
	}
	return marshal(doc)
}
