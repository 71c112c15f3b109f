package control

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"pace-node/internal/identity"
)

// Severity of a condition.
type Severity uint8

// Severities, mildest first.
const (
	Notice Severity = iota
	Warning
	Alert
	severityCount
)

// String returns the severity's word.
func (s Severity) String() string { return [severityCount]string{"notice", "warning", "alert"}[s] }

// ConditionRow is one row of the table of conditions.
type ConditionRow struct {
	ID       string
	Severity Severity
	// Remedy is what a person can paste. Each {name} stands for an argument of
	// Raise, in order; one that cannot be pasted is shown escaped behind the
	// template instead.
	Remedy string
	About  string // for the page of conditions
}

// Conditions is the table of conditions: every one that this node can raise.
var Conditions = []ConditionRow{
	{"foreign-fleet-visible", Warning, "pace-node --cluster-status", "Another fleet was proven on this network and neither yields, or a pin refused it. It goes 5 minutes after the last proof of that fleet. The detail names the fleet, and with a pin the key to add to it."},
	{"fleet-split-healing", Alert, "pacectl fleet status", "Another established fleet holds a machine of this one. Under a voter's key the younger fleet's leader dissolves it into the older: its machines keep their ids and keys, archive its state, ask the other fleet, and wait there for approval unless its roster holds them. Under a learner's key, or where this machine once asked that fleet, nothing happens by itself: forget that machine here, or send this one there. A key that was stolen is ended by forgetting its member; a pin keeps a machine from being sent elsewhere."},
	{"enrollment-window-open", Notice, "pace-node --enroll-auto-approve=off", "Machines that ask to join are admitted without a person comparing keys, until the window ends."},
	{"enrollment-requests-waiting", Notice, "pace-node --enroll-list", "Machines wait for a person's word. Compare each key with what --print-identity printed on that machine."},
	{"own-key-revoked", Alert, "pace-node --reset-identity", "The fleet named in the detail has forgotten this machine: its key is never admitted there again. The reset makes it a new machine, which can ask anew."},
	{"pin-disagrees", Alert, "pacectl node # shows the pin of this fleet as fleet-id, and the one that is set as fleet-pin", "The pin that is set does not admit the fleet that this machine is in. It serves on, takes no work, and the pin or the membership has to be set right: pacectl node prints the pin of this fleet."},
	{"fleet-unreachable", Alert, "pacectl fleet accept {key}", "No voter of this machine's fleet was heard for a day: if they are lost for good, one machine recovers the fleet (pacectl fleet recover), and who is to be alone leaves it. Or machines speak for this fleet whose keys its roster here does not hold, while none of its own voters is heard: the detail names the keys, and one is followed only at a person's word, after it was compared."},
	{"fleet-recovered-elsewhere", Alert, "pacectl fleet accept {key} # where that was not meant: pacectl member forget {id}", "A member of this fleet speaks for it in a later recovery epoch, or leads it in this very one: somebody recovered the fleet there, as after the loss of its voters, or restored an old backup beside a recovery. This machine follows that only at a person's word, typed on it: compare the key with what pacectl node prints on the machine that recovered. Where nobody meant it, forget that member while this fleet has a leader."},
	{"formation-move-refused", Alert, "df -h {folder}", "A move from one mode to another could not be written to the state directory, or its store could not be opened. Nothing was changed, or the move goes on by itself once that works; it is tried again every few seconds. Look at the disk and at who owns the state directory."},
	{"consensus-leader-silent", Alert, "pacectl fleet status", "No leader of the fleet has been heard for the time that the detail says. What is shown is this node's own picture, which grows old."},
	{"consensus-store-unwritable", Alert, "df -h {folder}", "This voter cannot write the fleet's log, as on a full disk: it leads nothing, admits nobody and provisions nobody until it can, and then goes on by itself. What it holds is kept."},
	{"single-voter-fleet", Notice, "pace-node --cluster-admit={id}={endpoint}", "The fleet has members and one voter: what the voter holds is held once. Promote two machines that stay on."},
	{"two-voter-fleet", Warning, "pace-node --cluster-admit={id}={endpoint}", "The fleet has two voters: with either of them gone nothing can be decided, which is worse than one voter. Promote a third machine that stays on, or make one of the two a learner again."},
	{"promotion-stalled", Warning, "pace-node --cluster-admit={id}={endpoint}", "A machine that was to become a voter does not get there; the detail names its consensus port (TCP 6680), which the voters must reach. After ten minutes it stays a learner, and the line tries again."},
	{"clock-skewed", Warning, "timedatectl status", "This machine's clock and the leader's differ by more than the detail says. Nothing here depends on dates, but leases are judged on the leader's clock and people read the log's."},
	{"identity-clash", Alert, "pacectl member show {id} # on the copy, and nowhere else: pace-node --reset-identity", "Two machines with different keys answer for one id. Neither is provisioned. Run the reset on the copy, which need not be the machine that says so."},
	{"identity-cloned", Alert, "pacectl member show {id} # on the copy, and nowhere else: pace-node --reset-identity", "One key is spoken from two live machines: a copied disk or image. Both are kept out of provisioning. Run the reset on the copy, which need not be the machine that says so: the detail says whose key it is and from where it is spoken."},
	{"peers-never-authenticated", Warning, "pacectl doctor # names the rule that the firewall here lacks for UDP port {port}", "Beacons of other machines are heard and none of them completes its proof. Challenges and proofs come to the answering port, which a firewall here or over there does not let pass; the detail names it, and --discovery-reply-port fixes it. It goes with the first proof."},
	{"discovery-no-interface", Warning, "sudo pace-node --install-service --fleet-seed=HOST # finds the fleet without beacons, and a node that was started by hand takes the flag itself", "No network interface can carry a beacon: they need IPv4 with a broadcast address. The detail lists each interface and why it was passed over. A seed finds the fleet without a beacon."},
	{"mixed-node-versions", Notice, "pacectl member list", "Members run different versions; the one that the detail names holds the fleet's command format back."},
	{"wire-version-seen", Notice, "pacectl node", "Datagrams of another version of the discovery wire were heard: an older or newer node on this network that this one cannot see. Upgrade the nodes of a network together."},
	{"admin-endpoint-off", Warning, "sudo ss -ltnp sport = :{port} # stop the program that it shows, or give the node another port: sudo pace-node --install-service --admin-listen=127.0.0.1:6691", "Metrics and health are not served: the address of --admin-listen is taken or cannot be bound. The command shows who has its port. It is tried again every 30 seconds."},
	{"alert-exec-failing", Warning, "ls -l {program}", "Nobody could be called when a person had to act: the program of --alert-exec is not there, may not be run by this service, takes longer than 30 seconds, or ends with another status than 0, as the detail says. A call is tried five times, a minute apart. It goes when the program can be run again, or with its next run that ends well."},
	{"provisioning-paused", Warning, "sudo pace-node --install-service --provision-helper=PATH # or --provision-default=FILE, and a node that was started by hand takes the flag itself", "The fleet has members and its leader has nothing that it could provision them with: it parks nobody, has a voter lead that can, and goes on by itself. Or an operator paused the queue: pacectl queue resume."},
	{"provisioning-helper-missing", Warning, "sudo pace-node --install-service --provision-helper=PATH # or --provision-default=FILE, and a node that was started by hand takes the flag itself", "This voter could not provision if it led: its helper cannot be run or its default does not read, as the detail says, or it has neither while the fleet is provisioned by another. The setting provision.profile gives every voter the same."},
	{"provisioning-failing", Warning, "pacectl queue show {id}", "Machines are parked, or have failed three times in a row and more; the detail names one, its last error, and how many there are beside it. A machine that is away or was deferred by the helper is not meant."},
	{"state-dir-lost", Alert, "ls -ld {folder}", "The state directory, or the key or the record in it, was removed or replaced while the node runs. What the node holds in memory serves on; what it keeps from now on is lost, its lock keeps nobody out, and the next start mints a new machine. Put the directory back where it was, or stop the node and restore it from a copy."},
	{"state-dir-nearly-full", Warning, "df -h {folder}", "The disk of the state directory has less than 64 MiB left, or less than a tenth of it where it is small. A voter that cannot write leads nothing, and a machine that cannot write is not provisioned."},
	{"fleet-state-differs", Alert, "pacectl fleet leave", "This voter holds another state than the fleet's leader at one entry of the log, as after the disks of several voters were put back to copies of different moments. It has stopped voting and keeps its store. Leave: it asks to join again after an hour, or at once after a reset of its identity. Where most voters say so, nothing is decided any more: all but the one whose state is to go on leave by force, and that one recovers the fleet."},
	{"fleet-format-newer", Alert, "pacectl node", "The fleet writes a format that this version does not read. It keeps what it has and serves on, and follows again after its own upgrade."},
}

// causeRemedies are the remedies of conditions that have another one for one of their causes: what they are raised with
// first, "" where it is nothing.
var causeRemedies = []struct{ ID, Cause, Remedy string }{
	{"fleet-unreachable", "", "pacectl fleet recover # or, to be a fleet of its own: pacectl fleet leave --force"},
	{"provisioning-paused", PausedByOperator, "pacectl queue resume"},
}

// PausedByOperator is what provisioning-paused is raised with where an operator paused it.
const PausedByOperator = "operator"

// systemRemedies are those that another system than Linux types differently.
var systemRemedies = []struct{ ID, OS, Remedy string }{
	{"admin-endpoint-off", "windows", "netstat -abno -p TCP # stop the program that has port {port}, or give the node another port: pace-node --install-service --admin-listen=127.0.0.1:6691"},
	{"admin-endpoint-off", "darwin", "sudo lsof -nP -iTCP:{port} -sTCP:LISTEN # stop the program that it shows, or give the node another port: sudo pace-node --install-service --admin-listen=127.0.0.1:6691"},
	{"discovery-no-interface", "windows", "pace-node --install-service --fleet-seed=HOST # finds the fleet without beacons, and a node that was started by hand takes the flag itself"},
	{"provisioning-paused", "windows", "pace-node --install-service --provision-helper=PATH # or --provision-default=FILE, and a node that was started by hand takes the flag itself"},
	{"provisioning-helper-missing", "windows", "pace-node --install-service --provision-helper=PATH # or --provision-default=FILE, and a node that was started by hand takes the flag itself"},
	{"clock-skewed", "windows", "w32tm /resync"},
	{"clock-skewed", "darwin", "sudo sntp -sS time.apple.com"},
	{"peers-never-authenticated", "windows", `netsh advfirewall firewall add rule name="pace-node answers" dir=in action=allow protocol=UDP localport={port}`},
	{"formation-move-refused", "windows", "dir {folder}"},
	{"consensus-store-unwritable", "windows", "dir {folder}"},
	{"state-dir-nearly-full", "windows", "dir {folder}"},
	{"state-dir-lost", "windows", "dir {folder}"},
	{"alert-exec-failing", "windows", "dir {program}"},
}

// remedyOf is the row whose remedy fits the system and what a condition is raised with.
func remedyOf(row ConditionRow, system string, args []string) ConditionRow {
	for _, s := range systemRemedies {
		if s.ID == row.ID && s.OS == system {
			row.Remedy = s.Remedy
		}
	}
	cause := ""
	if len(args) > 0 {
		cause = args[0]
	}
	for _, c := range causeRemedies {
		if c.ID == row.ID && c.Cause == cause {
			row.Remedy = c.Remedy
		}
	}
	return row
}

// conditionRow returns the row of an id.
func conditionRow(id string) (ConditionRow, bool) {
	for _, r := range Conditions {
		if r.ID == id {
			return r, true
		}
	}
	return ConditionRow{}, false
}

// sayEvery is how often one condition is said to be raised, to be cleared, and to
// have another detail. What changes faster, as by a member that says now this and now
// that, is said afterwards, with how often it changed.
const sayEvery = time.Minute

// Board holds the conditions that are raised. It may be used from many
// goroutines.
type Board struct {
	logger *slog.Logger
	feed   *Feed // is told what the log is told; nil: it is not
	mu     sync.Mutex
	raised map[string]*raised
	spoken map[string]*spoken // never more than the table has rows
}

type raised struct {
	row            ConditionRow
	detail, remedy string
	since, said    time.Time
}

// spoken is what the log was told of one condition.
type spoken struct {
	raised, cleared time.Time // last said so
	held            int       // raisings and clearings since that it was not told of
	stood           time.Duration
}

// NewBoard makes an empty board. A nil logger logs nothing.
func NewBoard(logger *slog.Logger) *Board {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Board{logger: logger, raised: map[string]*raised{}, spoken: map[string]*spoken{}}
}

// Feed has what the log is told of conditions added to a feed. It is called before the board is used.
func (b *Board) Feed(f *Feed) { b.feed = f }

// Raise raises a condition, or gives a raised one another detail. args fill the
// remedy's places in order. It is logged when it is raised and when its detail
// changes, each at most once a minute. An id that is not in the table is an error of
// the program: it is logged and nothing is raised.
func (b *Board) Raise(id, detail string, args ...string) {
	row, ok := conditionRow(id)
	if !ok {
		b.logger.Error("condition without a row", "id", id)
		return
	}
	remedy := Remedy(remedyOf(row, runtime.GOOS, args), args...)
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.raised[id]
	if r == nil {
		b.raised[id] = &raised{row: row, detail: detail, remedy: remedy, since: now, said: now}
		b.changed(now, id)
		return
	}
	if r.detail == detail && r.remedy == remedy {
		return
	}
	r.detail, r.remedy = detail, remedy
	if now.Sub(r.said) >= sayEvery {
		r.said = now
		b.log("condition changed", r)
	}
}

// Clear takes a condition back; one that is not raised is left alone.
func (b *Board) Clear(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.raised[id]
	if r == nil {
		return
	}
	now := time.Now()
	delete(b.raised, id)
	if s := b.spoken[id]; s != nil {
		s.stood = now.Sub(r.since)
	}
	b.changed(now, id)
}

// Say says what was held back and may be said now. The node calls it every second.
func (b *Board) Say() {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for id, s := range b.spoken {
		if s.held > 0 {
			b.say(now, id, s)
		}
	}
}

// changed is called when a condition was raised or cleared.
func (b *Board) changed(now time.Time, id string) {
	s := b.spoken[id]
	if s == nil {
		s = &spoken{}
		b.spoken[id] = s
	}
	s.held++
	b.say(now, id, s)
}

// say tells the log how a condition stands, unless it was told so within sayEvery.
func (b *Board) say(now time.Time, id string, s *spoken) {
	r := b.raised[id]
	last := &s.cleared
	if r != nil {
		last = &s.raised
	}
	if !last.IsZero() && now.Sub(*last) < sayEvery {
		return
	}
	var more []any
	if s.held > 1 {
		more = []any{"stands-for", s.held}
	}
	*last, s.held = now, 0
	if r != nil {
		r.said = now
		b.log("condition raised", r, more...)
		b.feed.Add(Event{Kind: EventCondition, What: "raised", Severity: r.row.Severity.String(), Detail: id + ": " + r.detail})
		return
	}
	row, _ := conditionRow(id)
	b.feed.Add(Event{Kind: EventCondition, What: "cleared", Severity: row.Severity.String(), Detail: id})
	b.logger.Info("condition cleared", append([]any{"id", id, "severity", row.Severity.String(), "after", s.stood.Round(time.Second).String()}, more...)...)
}

// Set raises or clears by a flag.
func (b *Board) Set(on bool, id, detail string, args ...string) {
	if on {
		b.Raise(id, detail, args...)
	} else {
		b.Clear(id)
	}
}

func (b *Board) log(msg string, r *raised, more ...any) {
	level := slog.LevelWarn
	if r.row.Severity == Notice {
		level = slog.LevelInfo
	}
	b.logger.Log(context.Background(), level, msg, append([]any{"id", r.row.ID, "severity", r.row.Severity.String(), "detail", Sentence(r.detail), "remedy", r.remedy}, more...)...)
}

// List returns what is raised, worst first, then in the table's order.
func (b *Board) List() []ConditionStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]ConditionStatus, 0, len(b.raised))
	for _, row := range Conditions {
		if r := b.raised[row.ID]; r != nil {
			out = append(out, ConditionStatus{ID: row.ID, Severity: row.Severity.String(), Detail: r.detail, Remedy: r.remedy, SinceMS: time.Since(r.since).Milliseconds()})
		}
	}
	slices.SortStableFunc(out, func(a, c ConditionStatus) int { return cmp.Compare(rank(c.Severity), rank(a.Severity)) })
	return out
}

// Raised reports whether a condition is raised.
func (b *Board) Raised(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.raised[id] != nil
}

func rank(severity string) int {
	for s := range severityCount {
		if s.String() == severity {
			return int(s)
		}
	}
	return -1
}

// Remedy fills the places of a row's remedy. Where an argument is missing or
// cannot be pasted, the template keeps the place's name in capitals and the
// argument follows as a shell comment, escaped.
func Remedy(row ConditionRow, args ...string) string {
	var out, after strings.Builder
	rest, at := row.Remedy, 0
	for {
		before, inner, ok := strings.Cut(rest, "{")
		out.WriteString(before)
		if !ok {
			break
		}
		name, tail, _ := strings.Cut(inner, "}")
		switch {
		case at >= len(args) || args[at] == "":
			out.WriteString(strings.ToUpper(name))
		case Pasteable(args[at]), name == "key" && pasteableKey(args[at]):
			out.WriteString(args[at])
		default:
			out.WriteString(strings.ToUpper(name))
			fmt.Fprintf(&after, " # %s is %s, which cannot be pasted", strings.ToUpper(name), Word(args[at]))
		}
		at++
		rest = tail
	}
	return out.String() + after.String()
}

// pasteableKey: one key text in 64 begins with a dash, and pacectl takes it for the key that it is.
func pasteableKey(s string) bool {
	_, err := identity.ParsePublicKey(s)
	return err == nil
}

// ConditionsMarkdown is docs/conditions.md.
func ConditionsMarkdown() string {
	var b strings.Builder
	b.WriteString("# Conditions\n\nWritten from the table in the code by `make docs`; a test fails where the two differ.\n\n" +
		"A raised condition is in `pacectl node`, in `pacectl fleet status`, in the metric `pace_condition{id,severity}`, and in the log when it is raised and when it is cleared, each at most once a minute.\n\n" +
		"For those of severity alert, and for `enrollment-requests-waiting`, a person must act: `--alert-exec` names a program that is run then ([alerts.md](alerts.md)).\n\n" +
		"| Condition | Severity | What it means | Remedy |\n|---|---|---|---|\n")
	for _, r := range Conditions {
		fmt.Fprintf(&b, "| `%s` | %s | %s | `%s` |\n", r.ID, r.Severity, r.About, r.Remedy)
	}
	return b.String()
}
