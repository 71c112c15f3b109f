package control

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

// RunDeps is what the verbs need of this machine.
type RunDeps struct {
	// AdminPaths is where this machine's administrators' socket may be, in order
	// (AdminPaths).
	AdminPaths []string
	// DialScheduler opens a session to another machine's 0xFC endpoint under this
	// machine's key. Its error names the endpoint.
	DialScheduler func(ctx context.Context, endpoint string) (Transport, error)
	// PeekIdentity reads this machine's identity, minting it where nothing has
	// run yet.
	PeekIdentity func(ctx context.Context) (Identity, error)
	// ResetIdentity archives this machine's identity; Said tells where.
	ResetIdentity func(ctx context.Context) (Done, error)
	// Passphrase reads one from a file, "-" for stdin, or, where the file is "", from the terminal without showing it; twice
	// has it typed a second time.
	Passphrase func(file, prompt string, twice bool) ([]byte, error)
	// Sealed says why a backup cannot be read from a file, or, where it is to be made, written to it, before anybody is asked
	// for a passphrase; nil: that is not looked at.
	Sealed func(file string, made bool) error
	// Backup seals this machine with its fleet's state into a file that does not exist yet.
	Backup func(ctx context.Context, file string, passphrase []byte, s FounderState) (Done, error)
	// Restore opens a backup, has sure confirm what it holds, and puts it in the place of this machine's identity.
	Restore func(ctx context.Context, file string, passphrase []byte, sure func(Restoring) error) (Done, error)
	// Silent says what to do where this machine's node does not answer.
	Silent func(ctx context.Context) string
	// Surfaces tells what a node of this machine's settings binds.
	Surfaces func(ctx context.Context) (Surfaces, error)
	// Install registers the service, or brings what is registered to what was
	// asked for, and starts it.
	Install func(ctx context.Context) (ServiceChange, error)
	// RunHooks runs the hooks that this machine's service asks for.
	RunHooks func(ctx context.Context) (Done, error)
	// Uninstall stops and removes the service.
	Uninstall func(ctx context.Context) (ServiceChange, error)
	// ApplyUpgrade does what this machine's service has asked root for.
	ApplyUpgrade func(ctx context.Context) (Done, error)
	// Doctor looks at this machine, or, where host is not "", at that one from here.
	Doctor func(ctx context.Context, host string, ask DoctorAsk) (DoctorReport, error)
	// Terminal tells whether stderr is one; nil: it is not.
	Terminal func() bool
	Stdin    io.Reader // nil: nothing is asked back
	// Screen is what stdout is; nil: no terminal.
	Screen *Terminal
	// Election is how long a verb waits until another machine leads, where the
	// fleet is electing one: ElectionPatience, or 0 in tests.
	Election time.Duration
}

// redirects is how many times a not-leader redirect is followed: to the leader,
// and once more where leadership moved meanwhile.
const redirects = 2

// runner carries out one verb.
type runner struct {
	cfg     config.Config
	deps    RunDeps
	stdout  io.Writer // of the verbs that go on; the others return a document
	stderr  io.Writer
	said    map[string]bool // leaders that a person was told of
	began   time.Time
	scripts map[string]func() string // completions
	tool    bool                     // pacectl: words may be names and prefixes
	flags   map[string]string        // config.WordFlags beside the words
	client  *Client
	socket  bool
	guess   guess
}

// verb is one row of the table of verbs.
type verb struct {
	flag  string // of pace-node; "" if it has none
	words string // of pacectl; "" if it has none
	alone bool   // the second word may be left out
	args  string // for the usage
	least int
	most  int // -1: any number
	about string
	run   func(r *runner, ctx context.Context, args []string) (Printable, error)
}

// verbs is the table of verbs: a flag of pace-node and words of pacectl reach the
// same function.
var verbs = []verb{
	{"print-identity", "identity", false, "", 0, 0, "node id, public key and the line that would admit this machine", (*runner).identity},
	{"reset-identity", "", false, "", 0, 0, "archive this machine's identity; the next start makes a new one", (*runner).resetIdentity},
	{"print-surfaces", "", false, "", 0, 0, "what this machine's node binds", (*runner).surfaces},
	{"install-service", "", false, "", 0, 0, "register the service and start it", (*runner).install},
	{"apply-upgrade", "", false, "", 0, 0, "put the release that this machine's service has staged in this program's place", (*runner).applyUpgrade},
	{"uninstall-service", "", false, "", 0, 0, "stop and remove the service", (*runner).uninstall},
	{"run-hooks", "", false, "", 0, 0, "run the hooks that this machine's service asks for", (*runner).runHooks},
	{"", "node", false, "", 0, 0, "what this machine's node says of itself: its mode, key, fleet and endpoints, and what is wrong", (*runner).node},
	{"cluster-status", "fleet status", true, "", 0, 0, "the fleet, its members, settings and conditions", (*runner).clusterStatus},
	{"", "fleet transfer", false, "[MACHINE]", 0, 1, "have another voter lead the fleet: the one named, or any", (*runner).transfer},
	{"", "fleet leave", false, "[FLEET-ID]", 0, 1, "take this machine out of its fleet, or give up what it asks; its key is not revoked", (*runner).leave},
	{"", "fleet recover", false, "[FLEET-ID]", 0, 1, "make this machine the only voter of its fleet, whose voters are lost for good", (*runner).recover},
	{"", "fleet accept", false, "KEY [HOST:PORT]", 1, 2, "follow the machine of that key, which recovered this machine's fleet", (*runner).accept},
	{"", "fleet backup", false, "FILE", 1, 1, "seal this voter, its key and the fleet's state into a file", (*runner).backup},
	{"", "fleet restore", false, "FILE", 1, 1, "make this machine, whose node is stopped, the one that a backup holds: the only voter of its fleet", (*runner).restore},
	{"enroll-list", "enroll list", true, "", 0, 0, "the machines that wait, each with its key", (*runner).enrollList},
	{"enroll-approve", "enroll approve", false, "ID@KEY", 1, 1, "admit a waiting machine whose key you have compared", (*runner).enrollApprove},
	{"enroll-reject", "enroll reject", false, "ID[@KEY]", 1, 1, "refuse a waiting machine", (*runner).enrollReject},
	{"enroll-clear", "enroll clear", false, "", 0, 0, "drop every row of the waiting list", (*runner).enrollClear},
	{"enroll-auto-approve", "enroll window", false, "DURATION|off", 1, 1, "admit whoever asks, unseen, for at most 24h", (*runner).enrollWindow},
	{"cluster-admit-learner", "enroll preapprove", false, "ID@KEY... (or - for a list on stdin)", 1, -1, "admit machines before they ask", (*runner).preapprove},
	{"cluster-admit", "member admit", false, "ID=HOST:PORT[@KEY]", 1, 1, "make a machine a voter, or record where a voter moved", (*runner).admit},
	{"", "member demote", false, "MACHINE", 1, 1, "make a voter a learner again, or take a promotion back", (*runner).demote},
	{"", "member list", true, "", 0, 0, "the members of the fleet", (*runner).memberList},
	{"", "member show", false, "MACHINE", 1, 1, "one member", (*runner).memberShow},
	{"", "member stale", false, "", 0, 0, "the members that were not heard for long", (*runner).stale},
	{"cluster-forget", "member forget", false, "[MACHINE]", 0, 1, "remove a member and revoke its key for ever", (*runner).forget},
	{"cluster-set", "fleet set", false, "NAME=VALUE", 1, 1, "change a setting of the fleet", (*runner).set},
	{"", "queue list", true, "", 0, 0, "the provisioning queue", (*runner).queueList},
	{"", "queue show", false, "MACHINE", 1, 1, "one machine of the queue", (*runner).queueShow},
	{"", "queue history", false, "MACHINE", 1, 1, "the past runs of one machine", (*runner).queueHistory},
	{"", "queue retry", false, "MACHINE", 1, 1, "try a machine again now", queueVerb("retry")},
	{"", "queue drop", false, "MACHINE", 1, 1, "take a machine out of the queue", queueVerb("drop")},
	{"", "queue reprovision", false, "MACHINE", 1, 1, "provision a machine anew", queueVerb("reprovision")},
	{"", "queue pause", false, "[REASON]", 0, -1, "hold the queue: no further run is begun", queueVerb("pause")},
	{"", "queue resume", false, "", 0, 0, "let a queue that was paused go on", queueVerb("resume")},
	{"", "queue run-helper", false, "MACHINE", 1, 1, "ask the helper about a machine and configure nothing", (*runner).runHelper},
	{"", "release key", false, "FILE", 1, 1, "make a release key: the secret one sealed in FILE, the public one in FILE.pub", (*runner).releaseKey},
	{"", "release new", false, "REPOSITORY VERSION OS-ARCH=FILE...", 3, -1, "put a version's programs into a release repository", (*runner).releaseNew},
	{"", "release sign", false, "REPOSITORY VERSION", 2, 2, "sign a version of a release repository", (*runner).releaseSign},
	{"", "release verify", false, "REPOSITORY VERSION", 2, 2, "check a version's signature and each of its programs", (*runner).releaseVerify},
	{"", "watch", false, "", 0, 0, "what happens in the fleet, live, until it is interrupted; with --json one picture", (*runner).watch},
	{"", "audit", false, "[MACHINE]", 0, 1, "who did what in this fleet, or what was done at or to one machine", (*runner).audit},
	{"", "doctor", false, "[HOST]", 0, 1, "what is wrong with this machine, or, from here, with another one; status 1 if something is", (*runner).doctor},
	{"", "dashboard", false, "", 0, 0, "an address that opens the web page for changes, once", (*runner).dashboard},
	{"", "completion", false, "bash|zsh|fish|powershell", 1, 1, "what a shell reads to complete words, flags and machines", (*runner).completion},
}

// Run carries out one verb, typed as a flag of pace-node or as words of pacectl,
// and returns the exit status. stdout gets the document, with --json exactly one
// JSON value in success and in failure; notices and, without --json, failures go
// to stderr. VerbCalls that need no node (version, help, check-arguments) are the
// command's own.
func Run(ctx context.Context, call config.VerbCall, cfg config.Config, stdout, stderr io.Writer, deps RunDeps) int {
	r := &runner{cfg: cfg, deps: deps, stdout: stdout, stderr: stderr, said: map[string]bool{}, began: time.Now(), scripts: completions, tool: call.Name == config.ToolVerb, flags: call.Flags}
	doc, err := r.do(ctx, call)
	if r.client != nil {
		r.client.Close()
	}
	if err == nil && doc == nil {
		return config.ExitOK // it has written what there was
	}
	if err == nil {
		if err = write(stdout, doc, cfg.JSON, reachOf(&cfg)); err == nil {
			if d, ok := doc.(interface{ exit() int }); ok {
				return d.exit()
			}
			return config.ExitOK
		}
	}
	f := failureOf(err, r.socket)
	if f.Remedy == silentRemedy && deps.Silent != nil {
		f.Remedy = deps.Silent(ctx)
	}
	if f.Code == wire.CodeRefusedByRule.String() { // the node does not know the machine either
		f.meant(r.guess.near, r.guess.lister)
	}
	f.Remedy = nextCommand(f, call)
	return printFailure(f, cfg.JSON, r.tool, stdout, stderr)
}

// PrintFailure prints an error that ended the program before a verb was begun,
// the way Run prints a verb's, and returns the exit status. tool says that the
// program was called pacectl.
func PrintFailure(err error, asJSON, tool bool, stdout, stderr io.Writer) int {
	f := failureOf(err, false)
	call := config.VerbCall{}
	if tool {
		call.Name = config.ToolVerb
	}
	f.Remedy = nextCommand(f, call)
	return printFailure(f, asJSON, tool, stdout, stderr)
}

func printFailure(f *Failure, asJSON, tool bool, stdout, stderr io.Writer) int {
	if asJSON {
		if b, err := marshal(FailureDocument{V: DocumentVersion, Error: *f}); err == nil {
			stdout.Write(b)
		}
		return f.Exit
	}
	name := "pace-node"
	if tool {
		name = config.ToolVerb
	}
	fmt.Fprintf(stderr, "%s: %s\n%s\n", name, Sentence(f.Reason), remedyLine(f.Remedy))
	return f.Exit
}

// Print prints the document of a verb that needs no node, the way Run prints a verb's.
func Print(doc Printable, asJSON bool, stdout io.Writer) error {
	return write(stdout, doc, asJSON, reach{})
}

func remedyLine(s string) string { return "remedy: " + Sentence(s) }

// write prints a document.
func write(w io.Writer, doc Printable, asJSON bool, at reach) error {
	at.fill(doc)
	if !asJSON {
		text := doc.Text
		if d, ok := doc.(worded); ok {
			text = d.words
		}
		_, err := io.WriteString(w, text())
		return err
	}
	b, err := marshal(doc)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// do finds the verb and runs it.
func (r *runner) do(ctx context.Context, call config.VerbCall) (Printable, error) {
	if !r.tool {
		for _, v := range verbs {
			if v.flag != "" && v.flag == call.Name {
				var args []string
				if v.most != 0 {
					args = []string{call.Arg}
				}
				if err := r.here(&v, []string{"--" + v.flag}); err != nil {
					return nil, err
				}
				return v.run(r, ctx, args)
			}
		}
		return nil, usageFailure("pace-node --help lists them", "--%s is no verb", call.Name)
	}
	v, args, err := findWords(call.Words)
	if err == nil {
		err = r.here(&v, call.Words)
	}
	if err != nil {
		return nil, err
	}
	return v.run(r, ctx, args)
}

// findWords finds the row of pacectl's words, and what follows them.
func findWords(words []string) (verb, []string, error) {
	if len(words) == 0 {
		return verb{}, nil, usageFailure("one of: "+strings.Join(firstWords(), ", "), "pacectl needs a word")
	}
	var group []string
	for _, v := range verbs {
		first, second, two := strings.Cut(v.words, " ")
		if v.words == "" || first != words[0] {
			continue
		}
		if two {
			group = append(group, second)
		}
		switch {
		case !two:
			return counted(v, words[1:])
		case len(words) > 1 && words[1] == second:
			return counted(v, words[2:])
		case len(words) == 1 && v.alone:
			return v, nil, nil
		}
	}
	switch {
	case group == nil:
		return verb{}, nil, usageFailure(didYouMean(words, 0, firstWords()), "%q is no word of pacectl", words[0])
	case len(words) == 1:
		return verb{}, nil, usageFailure("one of: "+strings.Join(group, ", "), "pacectl %s needs another word", words[0])
	}
	return verb{}, nil, usageFailure(didYouMean(words, 1, group), "%q is no word of pacectl %s", words[1], words[0])
}

// ofOne are the words that show one machine, beside those that show them all, or this one, and take none.
var ofOne = map[string]string{"node": "member show", "fleet status": "member show", "member list": "member show", "queue list": "queue show"}

func counted(v verb, args []string) (verb, []string, error) {
	if len(args) < v.least || v.most >= 0 && len(args) > v.most {
		remedy := "pacectl " + strings.ReplaceAll(v.synopsis(), "|", " or ")
		if more := ofOne[v.words]; more != "" && v.most == 0 {
			remedy += "; of one machine: pacectl " + more + " MACHINE"
		}
		return verb{}, nil, usageFailure(remedy, "pacectl %s takes %s", v.words, argsText(v))
	}
	return v, args, nil
}

func argsText(v verb) string {
	if v.most == 0 {
		return "nothing more"
	}
	return strings.ReplaceAll(v.args, "|", " or ")
}

// didYouMean is the remedy where one of the words is none of the candidates.
func didYouMean(words []string, at int, candidates []string) string {
	if m := meant(words); m != "" { // before the nearest: remove is two letters from demote
		return m
	}
	return nearestOf(words[:at+1], candidates)
}

func nearestOf(words, candidates []string) string {
	last := len(words) - 1
	if n := nearest(words[last], candidates); n != "" {
		return "did you mean: " + strings.Join(append(append([]string{"pacectl"}, words[:last]...), n), " ") + "?"
	}
	return "one of: " + strings.Join(candidates, ", ")
}

func firstWords() []string {
	var out []string
	for _, v := range verbs {
		first, _, _ := strings.Cut(v.words, " ")
		if first != "" && !slices.Contains(out, first) {
			out = append(out, first)
		}
	}
	return out
}

// synopsis is how a verb's words are typed, with the flags that belong to them.
func (v *verb) synopsis() string {
	out := strings.TrimSpace(v.words + " " + v.args)
	for i := range config.WordFlags {
		if f := &config.WordFlags[i]; f.Takes(strings.Fields(v.words)) {
			out += " [" + typedWord(f) + "]"
		}
	}
	return out
}

func typedWord(f *config.WordFlag) string {
	if f.Metavar == "" {
		return "--" + f.Name
	}
	return "--" + f.Name + "=" + f.Metavar
}

// notice says something beside the answer.
func (r *runner) notice(format string, args ...any) {
	fmt.Fprintf(r.stderr, "note: %s\n", Sentence(fmt.Sprintf(format, args...)))
}

// connect chooses whom to ask: --scheduler's machine, or this machine's node.
func (r *runner) connect(ctx context.Context) error {
	if r.client != nil {
		return nil
	}
	if r.cfg.Scheduler == "" {
		r.client, r.socket = DialAdmin(r.deps.AdminPaths...), true
		return nil
	}
	return r.dialScheduler(ctx, r.cfg.Scheduler)
}

func (r *runner) dialScheduler(ctx context.Context, endpoint string) error {
	if r.deps.DialScheduler == nil {
		return errors.New("this program cannot reach another machine's endpoint")
	}
	r.socket = false // from here on it is another machine that does not answer
	dial, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	t, err := r.deps.DialScheduler(dial, endpoint)
	if err != nil {
		var e *wire.Error
		var f *Failure
		if errors.As(err, &e) || errors.As(err, &f) {
			return err
		}
		return &NobodyError{Where: "the machine at " + endpoint, Err: err}
	}
	if r.client != nil {
		r.client.Close()
	}
	r.client = NewClient(t, "the machine at "+endpoint)
	return nil
}

// call asks one verb and follows not-leader redirects. Where nobody leads at the
// moment, or the one that is named is gone, the first machine is asked again until
// the others have elected another.
func (r *runner) call(ctx context.Context, v wire.Verb, payload []byte) ([]byte, error) {
	for began := time.Now(); ; {
		done := r.busy("asking " + r.asked())
		b, err, again := r.follow(ctx, v, payload, r.said)
		done()
		if !again || time.Since(began)+electionStep > r.deps.Election {
			return b, err
		}
		done = r.busy("waiting until the fleet has a leader")
		select {
		case <-ctx.Done():
			done()
			return nil, err
		case <-time.After(electionStep):
		}
		done()
		r.client.Close()
		r.client = nil
	}
}

// ElectionPatience is how long a verb waits out an election: several times what
// one takes.
const ElectionPatience = 10 * time.Second

// electionStep is the wait before the next try.
const electionStep = 500 * time.Millisecond

// follow is one way from the machine that is asked first to the leader. again says
// that the fleet may have another leader in a moment; nothing was done then.
func (r *runner) follow(ctx context.Context, v wire.Verb, payload []byte, said map[string]bool) (b []byte, err error, again bool) {
	if err := r.connect(ctx); err != nil {
		return nil, err, false
	}
	asked := map[string]bool{r.cfg.Scheduler: true}
	for hop := 0; ; hop++ {
		b, err := r.client.Call(ctx, v, payload)
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.CodeNotLeader {
			return b, err, false
		}
		endpoint := e.Text
		if endpoint == "" {
			return nil, err, true
		}
		if hop == redirects || asked[endpoint] || !wire.ValidEndpoint(endpoint) {
			return nil, &Failure{
				Code: e.Code.String(), Exit: config.ExitNobody,
				Reason: "no leader was found: the last one asked names " + Word(endpoint),
				Remedy: "try again in a few seconds; pacectl fleet status shows the leader",
			}, true
		}
		asked[endpoint] = true
		if !said[endpoint] {
			said[endpoint] = true
			r.notice("not the leader, asking the leader at %s", endpoint)
		}
		if err := r.dialScheduler(ctx, endpoint); err != nil {
			return nil, err, true
		}
	}
}

// confirm makes sure that a person means this fleet.
func (r *runner) confirm(args []string, cluster, what string) error {
	typed := ""
	switch {
	case len(args) > 0:
		typed = args[0]
	case r.deps.Stdin != nil && !r.cfg.JSON:
		fmt.Fprintf(r.stderr, "This will %s. Type the fleet's id %s to go on: ", what, Word(cluster))
		line, err := bufio.NewReader(io.LimitReader(r.deps.Stdin, 4096)).ReadString('\n')
		if err != nil {
			fmt.Fprintln(r.stderr) // nobody ended the line of the question
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		typed = strings.TrimSpace(line)
	}
	if typed == cluster && cluster != "" {
		return nil
	}
	return usageFailure("give the fleet's id back: "+Word(cluster), "the fleet's id was not given back, so nothing was done")
}
