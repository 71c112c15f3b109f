//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"pace-node/internal/schema"
	"pace-node/internal/statedir"
)

// The scripts in testdata/script type what an operator types, against real nodes that talk over loopback only. Their expected
// text is what the manual promises, not what was once printed.

const (
	awaitLimit = 90 * time.Second       // a step takes well under a second on an idle machine
	awaitFirst = 20 * time.Millisecond  // between two looks, doubling
	awaitMost  = 200 * time.Millisecond // at most
	endLimit   = 45 * time.Second       // a stop lets a provisioning cycle come to a stage's end, 10 s at most, and then the disk takes its time
	firstPort  = 20000                  // below what kernels hand to outgoing connections
	lastPort   = 32000
)

func TestMain(m *testing.M) {
	command := func() { os.Exit(run(bare{newHost()}, os.Args, os.Stdout, os.Stderr, nil)) }
	testscript.Main(m, map[string]func(){"pace-node": command, "pacectl": command})
}

// formats is the folder of frozen state directories; scripts run in others. docs is the folder of the written pages, and
// goHelper the built example of it.
var formats, docs, goHelper string

func TestScripts(t *testing.T) {
	var err error
	if formats, err = filepath.Abs(filepath.Join("testdata", "format-1")); err != nil {
		t.Fatal(err)
	}
	if docs, err = filepath.Abs(filepath.Join("..", "..", "docs")); err != nil {
		t.Fatal(err)
	}
	goHelper = filepath.Join(t.TempDir(), "helper")
	if out, err := exec.Command("go", "build", "-o", goHelper, "pace-node/docs/examples/helper-go").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			port, err := freePort()
			env.Setenv("BEACONS", strconv.Itoa(port))
			env.Setenv("EXAMPLES", filepath.Join(docs, "examples"))
			env.Setenv("GOHELPER", goHelper)
			env.Setenv("PACE_STATE_DIR", filepath.Join(env.WorkDir, "none")) // never this machine's own node
			if env.Getenv("GORACE") == "" {
				env.Setenv("GORACE", "atexit_sleep_ms=10") // else each command waits for a second under the race detector
			}
			env.Values[nodesKey{}] = map[string]*process{}
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"start": start, "again": again, "term": term, "at": at, "exits": exits, "answers": answers, "await": await, "capture": capture, "prints": prints, "onejson": oneJSON, "mode": mode, "frozen": frozen, "conforms": conforms,
		},
		RequireUniqueNames: true,
	})
}

type nodesKey struct{}

// process is one node that a script started.
type process struct {
	args []string
	cmd  *exec.Cmd
	errs *bytes.Buffer
	done chan struct{}
}

var ports struct {
	sync.Mutex
	next int
}

// freePort hands out each port once, and only one that nothing holds.
func freePort() (int, error) {
	ports.Lock()
	defer ports.Unlock()
	if ports.next == 0 {
		ports.next = firstPort + os.Getpid()*37%(lastPort-firstPort)
	}
	for range lastPort - firstPort {
		p := ports.next
		if ports.next++; ports.next >= lastPort {
			ports.next = firstPort
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err != nil {
			continue
		}
		l.Close()
		u, err := net.ListenPacket("udp", fmt.Sprintf(":%d", p))
		if err != nil {
			continue
		}
		u.Close()
		return p, nil
	}
	return 0, errors.New("no port is free")
}

// start runs a node in the background and returns when it answers: start NAME [flags]. It sets $NAME_AT to its 0xFC
// endpoint, $NAME_ADMIN to that of metrics and health, and turns the verbs to it. Only what is given here decides where
// it finds others: beacons go to 127.255.255.255, to the port that this script alone uses.
func start(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: start name [flags]")
	}
	name, upper := args[0], strings.ToUpper(args[0])
	var endpoint [3]string
	for i := range endpoint {
		port, err := freePort()
		ts.Check(err)
		endpoint[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	ts.Setenv(upper+"_AT", endpoint[0])
	ts.Setenv(upper+"_RAFT", endpoint[1])
	ts.Setenv(upper+"_ADMIN", endpoint[2])
	given := []string{
		"--state-dir=" + ts.MkAbs(name), "--name=" + name, "--listen=" + endpoint[0], "--listen-raft=" + endpoint[1], "--admin-listen=" + endpoint[2],
		"--discovery=:" + ts.Getenv("BEACONS"), "--discovery-loopback",
	}
	for _, flag := range args[1:] { // what the script gives wins
		option, _, _ := strings.Cut(flag, "=")
		given = slices.DeleteFunc(given, func(g string) bool { return strings.HasPrefix(g, option+"=") })
	}
	launch(ts, name, append(given, args[1:]...))
}

// again starts a node that was ended, with the same flags: again NAME.
func again(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: again name")
	}
	p := nodes(ts)[args[0]]
	if p == nil || p.running() {
		ts.Fatalf("%s was not started and ended", args[0])
	}
	launch(ts, args[0], p.args)
}

func nodes(ts *testscript.TestScript) map[string]*process {
	return ts.Value(nodesKey{}).(map[string]*process)
}

func (p *process) running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

func launch(ts *testscript.TestScript, name string, args []string) {
	all := nodes(ts)
	if p := all[name]; p != nil && p.running() {
		ts.Fatalf("%s runs already", name)
	}
	binary, err := exec.LookPath("pace-node")
	ts.Check(err)
	p := &process{args: args, cmd: exec.Command(binary, args...), errs: &bytes.Buffer{}, done: make(chan struct{})}
	p.cmd.Stderr, p.cmd.Dir = p.errs, ts.MkAbs(".")
	p.cmd.Env = []string{"HOME=/no-home", "TMPDIR=" + ts.Getenv("TMPDIR"), "PATH=" + ts.Getenv("PATH"), "GOCOVERDIR=" + ts.Getenv("GOCOVERDIR"), "GORACE=" + ts.Getenv("GORACE")}
	ts.Check(p.cmd.Start())
	all[name] = p
	go func() { p.cmd.Wait(); close(p.done) }()
	ts.Defer(func() {
		if p.running() {
			p.cmd.Process.Kill()
			<-p.done
		}
	})
	socket := statedir.SocketPath(ts.MkAbs(name))
	soon(ts, "an answer of "+name, func() bool {
		if !p.running() {
			ts.Fatalf("%s ended at once:\n%s", name, p.errs)
		}
		c, err := net.Dial("unix", socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	turn(ts, name)
}

// soon looks again and again until there is what a script waits for.
func soon(ts *testscript.TestScript, what string, look func() bool) {
	end := time.Now().Add(awaitLimit)
	for pause := awaitFirst; !look(); pause = min(2*pause, awaitMost) {
		if time.Now().After(end) {
			ts.Fatalf("%s: not within %s", what, awaitLimit)
		}
		time.Sleep(pause)
	}
}

// term ends a node the way a service manager does and asks for a clean end, whose log is stderr then: term NAME.
func term(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: term name")
	}
	p := nodes(ts)[args[0]]
	if p == nil || !p.running() {
		ts.Fatalf("%s does not run", args[0])
	}
	ts.Check(p.cmd.Process.Signal(syscall.SIGTERM))
	select {
	case <-p.done:
	case <-time.After(endLimit):
		ts.Fatalf("%s has not ended within %s of SIGTERM", args[0], endLimit)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]+".log"), p.errs.Bytes(), 0o600))
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		ts.Fatalf("%s ended with status %d:\n%s", args[0], code, p.errs)
	}
}

// at turns the verbs that follow to a node, as its own machine would have it: at NAME.
func at(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: at name")
	}
	turn(ts, args[0])
}

func turn(ts *testscript.TestScript, name string) { ts.Setenv("PACE_STATE_DIR", ts.MkAbs(name)) }

// exits runs a command that must end with a status: exits CODE COMMAND….
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := code(ts.Exec(args[1], args[2:]...)); got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

// answers runs a command with --json: it must end with a status, say one JSON value of the documents' version on stdout, in failure
// its code, reason, remedy and status, and nothing but notes beside it: answers CODE COMMAND….
func answers(ts *testscript.TestScript, neg bool, args []string) {
	exits(ts, neg, append(slices.Clone(args), "--json"))
	want := []string{"v=1"}
	if args[0] != "0" {
		want = append(want, "error.exit="+args[0], "error.code", "error.reason", "error.remedy")
	}
	oneJSON(ts, false, want)
	for line := range strings.Lines(ts.ReadFile("stderr")) {
		if !strings.HasPrefix(line, "note: ") {
			ts.Fatalf("beside the answer stands %q", line)
		}
	}
}

func code(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// await runs a command again and again until it succeeds and its stdout matches: await PATTERN COMMAND….
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await pattern command")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	soon(ts, strings.Join(args, " "), func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && re.MatchString(ts.ReadFile("stdout"))
	})
}

// capture keeps what the first group of a pattern finds in stdout: capture NAME PATTERN.
func capture(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: capture name pattern")
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	found := re.FindStringSubmatch(ts.ReadFile("stdout"))
	if len(found) < 2 {
		ts.Fatalf("%s finds nothing in\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], found[1])
}

// kinds are what a line of expected text may leave open, each in braces.
var kinds = map[string]string{
	"id": `[0-9a-f]{32}`, "key": `[A-Za-z0-9_-]{43}`, "n": `[0-9]+`, "span": `[0-9]+[smhd](?:[0-9]+[smh])?`, "word": `\S+`, "any": `.*`,
	"date": `[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z`, "digest": `[0-9a-f]{64}`,
}

var openPart = regexp.MustCompile(`\$[A-Z0-9_]+|\{[a-z]+\}`)

// prints compares the last output with a file, line by line: prints [stderr] FILE. $NAME stands for its value, {kind} for any text
// of that kind, and a line … for any number of lines.
func prints(ts *testscript.TestScript, neg bool, args []string) {
	from := "stdout"
	if len(args) == 2 && args[0] == "stderr" {
		from, args = args[0], args[1:]
	}
	if neg || len(args) != 1 {
		ts.Fatalf("usage: prints [stderr] file")
	}
	var whole strings.Builder
	whole.WriteString(`\A`)
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		if line == "…\n" {
			whole.WriteString(`(?:.*\n)*`)
			continue
		}
		at := 0
		for _, open := range openPart.FindAllStringIndex(line, -1) {
			whole.WriteString(regexp.QuoteMeta(line[at:open[0]]))
			part := line[open[0]:open[1]]
			if name, env := strings.CutPrefix(part, "$"); env {
				value := ts.Getenv(name)
				if value == "" {
					ts.Fatalf("%s: nothing is called %s", args[0], part)
				}
				whole.WriteString(regexp.QuoteMeta(value))
			} else if kind, ok := kinds[part[1:len(part)-1]]; ok {
				whole.WriteString("(?:" + kind + ")")
			} else {
				whole.WriteString(regexp.QuoteMeta(part))
			}
			at = open[1]
		}
		whole.WriteString(regexp.QuoteMeta(line[at:]))
	}
	whole.WriteString(`\z`)
	re, err := regexp.Compile(whole.String())
	ts.Check(err)
	if got := ts.ReadFile(from); !re.MatchString(got) {
		ts.Fatalf("%s is\n%s\nand not as %s has it:\n%s", from, got, args[0], ts.ReadFile(args[0]))
	}
}

// frozen copies a state directory of testdata/format-1 to where a node of that name has its own, with the modes that it was
// written with, which git does not keep: frozen NAME.
func frozen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: frozen name")
	}
	to := ts.MkAbs(args[0])
	from := filepath.Join(formats, args[0])
	ts.Check(filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || d.IsDir() {
			return errors.Join(err, os.Mkdir(filepath.Join(to, rel), 0o700))
		}
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(filepath.Join(to, rel), data, 0o600))
	}))
}

// conforms holds a document of stdout against a page of docs/schema: conforms SCHEMA [PATH [text]]. The document is what
// stands at the path; with text, it is the JSON that the string there holds.
func conforms(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 3 {
		ts.Fatalf("usage: conforms schema [path [text]]")
	}
	page, err := os.ReadFile(filepath.Join(docs, "schema", args[0]+".json"))
	ts.Check(err)
	document := []byte(ts.ReadFile("stdout"))
	if len(args) > 1 {
		var whole any
		ts.Check(json.Unmarshal(document, &whole))
		part, err := member(whole, args[1])
		ts.Check(err)
		if len(args) == 3 {
			text, _ := part.(string)
			document = []byte(text)
		} else {
			document, err = json.Marshal(part)
			ts.Check(err)
		}
	}
	if err := schema.Check(page, document, true); err != nil {
		ts.Fatalf("%s: %v in\n%s", args[0], err, document)
	}
}

// mode asks for the permissions of a file: mode 700 FILE.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode octal file")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// oneJSON asks that stdout is exactly one JSON value, and of members of it what they are: onejson [path=value | path]….
// Parts of a path are separated by points; a number is an index.
func oneJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: onejson [path=value | path]…")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	var doc any
	ts.Check(dec.Decode(&doc))
	var more any
	if err := dec.Decode(&more); err != io.EOF {
		ts.Fatalf("stdout goes on after one JSON value: %v", more)
	}
	for _, arg := range args {
		path, want, compared := strings.Cut(arg, "=")
		got, err := member(doc, path)
		if err != nil {
			ts.Fatalf("%s: %v in\n%s", path, err, ts.ReadFile("stdout"))
		}
		switch {
		case compared && fmt.Sprint(got) != want:
			ts.Fatalf("%s is %v, want %s", path, got, want)
		case !compared && got == "":
			ts.Fatalf("%s is empty", path)
		}
	}
}

func member(doc any, path string) (any, error) {
	for _, part := range strings.Split(path, ".") {
		switch d := doc.(type) {
		case map[string]any:
			next, ok := d[part]
			if !ok {
				return nil, fmt.Errorf("no %q among %v", part, slices.Sorted(maps.Keys(d)))
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(d) {
				return nil, fmt.Errorf("no item %q of %d", part, len(d))
			}
			doc = d[i]
		default:
			return nil, fmt.Errorf("nothing below %q", part)
		}
	}
	return doc, nil
}
