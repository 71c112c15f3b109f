//go:build unix

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/control"
)

// alarm is what a program of --alert-exec is given, with words that another machine chose.
var alarm = control.AlertDocument{V: control.DocumentVersion, Condition: "identity-clash", Severity: "alert", Detail: "two keys answer for $(touch pwned)", Remedy: "pacectl member show " + ExampleID,
	RaisedAt: 1_796_000_000, NodeID: ExampleID, Name: "`touch pwned`", FleetID: OtherFleet, Mode: "voter", Version: "1.0.0", Platform: "linux/amd64"}

// workshop is a folder in which a program of a page runs: in front of its path stand-ins that keep how they were called and
// what they were given.
type workshop struct {
	t   *testing.T
	dir string
	env []string
}

func (w *workshop) standIn(name, body string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte("#!/bin/sh\nprintf '%s\\n' \"$@\" >'"+w.dir+"/"+name+".args'\n"+body+"\n"), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

func (w *workshop) runs(program, stdin string) {
	w.t.Helper()
	path := filepath.Join(w.dir, "program")
	if err := os.WriteFile(path, []byte(program), 0o700); err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(path)
	cmd.Dir, cmd.Stdin = w.dir, strings.NewReader(stdin)
	cmd.Env = append(w.env, "PATH="+w.dir+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(w.dir, "pwned")); err == nil {
		w.t.Error("what another machine chose was run")
	}
}

func (w *workshop) has(name string) string {
	w.t.Helper()
	b, err := os.ReadFile(filepath.Join(w.dir, name))
	if err != nil {
		w.t.Fatal(err)
	}
	return string(b)
}

// programs are what runs the programs of the pages: by page, in the page's order.
var programs = map[string][]func(w *workshop, text string){
	"docs/alerts.md": {func(w *workshop, text string) {
		in, env := called(w)
		w.env = env
		w.standIn("curl", "cat >posted")
		w.runs(text, in)
		if got := w.has("posted"); got != in {
			w.t.Errorf("posted: %s, want %s", got, in)
		}
		args := strings.Split(strings.TrimSpace(w.has("curl.args")), "\n")
		for _, want := range []string{"Content-Type: application/json", "@-", "https://chat.example/hooks/pace"} {
			if !slices.Contains(args, want) {
				w.t.Errorf("curl is called with %q, without %q", args, want)
			}
		}
		// It fails where the chat does, so that the node tries again.
		w.standIn("curl", "cat >posted; exit 22")
		cmd := exec.Command(filepath.Join(w.dir, "program"))
		cmd.Dir, cmd.Env = w.dir, append(w.env, "PATH="+w.dir+":"+os.Getenv("PATH"))
		if err := cmd.Run(); err == nil || cmd.ProcessState.ExitCode() != 22 {
			w.t.Errorf("it ends with %v where curl ends with 22", err)
		}
	}, func(w *workshop, text string) {
		in, env := called(w)
		w.env = env
		w.standIn("sendmail", "cat >mail")
		w.runs(text, in)
		said := func(name string) string {
			for _, line := range env {
				if value, ok := strings.CutPrefix(line, "PACE_ALERT_"+name+"="); ok {
					return value
				}
			}
			return "no " + name
		}
		want := fmt.Sprintf("Subject: pace-node: identity-clash on %s\n\n%s\n\nOn that machine: %s\n", said("NAME"), said("DETAIL"), alarm.Remedy)
		if got := w.has("mail"); got != want {
			w.t.Errorf("mailed:\n%s\nwant:\n%s", got, want)
		}
		if got := w.has("sendmail.args"); got != "root\n" {
			w.t.Errorf("sendmail is called with %q", got)
		}
	}},
	"docs/install/linux.md": {func(w *workshop, text string) {
		w.standIn("jq", `sed -n 's/.*"motd":"\([^"]*\)".*/\1/p'; echo`)
		w.env = []string{}
		w.runs(strings.ReplaceAll(text, "/etc/motd", w.dir+"/motd"), `{"configuration":{"motd":"hello"}}`)
		if got, args := w.has("motd"), w.has("jq.args"); strings.TrimSpace(got) != "hello" || args != "-r\n.configuration.motd\n" {
			w.t.Errorf("%q by jq %q", got, args)
		}
	}},
	"docs/install/macos.md": {func(w *workshop, text string) {
		state := filepath.Join(w.dir, "Application Support", "pace-node")
		w.runs(strings.ReplaceAll(text, "/Library/Application Support/pace-node", state), "")
		path := filepath.Join(state, "pace-node.env")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			w.t.Fatalf("%v, %v", info, err)
		}
		known := map[string]bool{}
		for _, o := range config.Options {
			known["PACE_"+strings.ToUpper(strings.ReplaceAll(o.Name, "-", "_"))] = true
		}
		b, err := os.ReadFile(path)
		for line := range strings.Lines(string(b)) {
			if name, _, ok := strings.Cut(line, "="); err != nil || !ok || !known[name] {
				w.t.Errorf("%v: no setting: %s", err, line)
			}
		}
	}},
}

// called is what the node gives to a program of --alert-exec: stdin and environment.
func called(w *workshop) (stdin string, env []string) {
	w.t.Helper()
	in, err := alarm.Input()
	if err != nil {
		w.t.Fatal(err)
	}
	return string(in), alarm.Environment()
}

// TestProgramsOfThePages runs every program that a page gives to be kept (a block that begins with #!), with stand-ins for what
// it calls.
func TestProgramsOfThePages(t *testing.T) {
	pages, err := Read("../..")
	if err != nil {
		t.Fatal(err)
	}
	ran := map[string]int{}
	for _, p := range pages {
		for _, b := range p.Blocks {
			if len(b.Lines) == 0 || !strings.HasPrefix(b.Lines[0], "#!") {
				continue
			}
			n := ran[p.Path]
			ran[p.Path]++
			if n >= len(programs[p.Path]) {
				t.Errorf("%s: nobody runs this program", b.Where())
				continue
			}
			t.Run(fmt.Sprintf("%s:%d", p.Path, n+1), func(t *testing.T) {
				programs[p.Path][n](&workshop{t: t, dir: t.TempDir()}, strings.Join(b.Lines, "\n")+"\n")
			})
		}
	}
	for page, list := range programs {
		if ran[page] != len(list) {
			t.Errorf("%s has %d programs, and %d are run", page, ran[page], len(list))
		}
	}
}
