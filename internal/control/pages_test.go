package control

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pace-node/internal/config"
)

// TestDocsPages holds pacectl's man page and the completions against the tables; PACE_WRITE_DOCS=1 writes them.
func TestDocsPages(t *testing.T) {
	for name, want := range Pages() {
		path := filepath.Join("..", "..", filepath.FromSlash(name))
		if os.Getenv("PACE_WRITE_DOCS") != "" {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b, err := os.ReadFile(path)
		if err != nil || strings.ReplaceAll(string(b), "\r\n", "\n") != want {
			t.Errorf("%s differs from the tables (%v): run make docs", name, err)
		}
	}
}

func TestToolManPageIsRoffAndWhole(t *testing.T) {
	page := ToolManPage()
	for _, v := range verbs {
		if v.words != "" && !strings.Contains(page, "\n.B pacectl "+roff.Replace(v.words)) {
			t.Errorf("pacectl %s is missing", v.words)
		}
		for _, e := range helpOf(&v).Examples {
			if v.words != "" && !strings.Contains(page, "\n"+roff.Replace(e)+"\n") {
				t.Errorf("the example %q of pacectl %s is missing", e, v.words)
			}
		}
	}
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed, so the man page is not formatted here")
	}
	cmd := exec.Command(groff, "-man", "-Tutf8", "-ww")
	cmd.Stdin = strings.NewReader(page)
	var warnings bytes.Buffer
	cmd.Stderr = &warnings
	if out, err := cmd.Output(); err != nil || warnings.Len() > 0 || !bytes.Contains(out, []byte("fleet")) {
		t.Errorf("groff: %v, %s", err, warnings.String())
	}
}

// TestBashCompletes runs the completion as bash does.
func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed, so its completion is not run here")
	}
	for _, c := range []struct{ function, words, want string }{
		{"_pace_node", "pace-node --fleet-s", "--fleet-seed="},
		{"_pace_node", "pace-node --enroll-l", "--enroll-list"},
		{"_pace_node", "pace-node --log-level = wa", "warn"},
		{"_pacectl", "pacectl enr", "enroll"},
		{"_pacectl", "pacectl enroll win", "window"},
		{"_pacectl", "pacectl --json queue res", "resume"},
		{"_pacectl", "pacectl --sch", "--scheduler="},
		{"_pacectl", "pacectl --state-dir = /x enr", "enroll"},
		{"_pacectl", "pacectl --state-dir = /x enroll win", "window"},
		{"_pacectl", "pacectl enroll --state-dir = /x win", "window"},
		{"_pacectl", "pacectl --state-dir = /x --sch", "--scheduler="},
		{"_pacectl", "pacectl --json --state-dir = /x --scheduler = h queue res", "resume"},
		{"_pacectl", "pacectl --state-dir = pages_te", "pages_test.go"},
		{"_pacectl", "pacectl fleet backup --passphrase-file = pages_te", "pages_test.go"},
		{"_pacectl", "pacectl --scheduler = h : 6674 queue res", "resume"},
		{"_pacectl", "pacectl --scheduler = enr", ""},
		{"_pacectl", "pacectl member show al", "alder"},
		{"_pacectl", "pacectl --state-dir = /x --json --scheduler = h : 6674 member show al", "alder/xh:6674"}, // of the node that is asked
		{"_pacectl", "pacectl member show --state-dir = /x al", "alder/x"},
		{"_pacectl", "pacectl --key = k --state-dir = /x fleet accept KEY h : 1 al", ""},
		{"_pacectl", "pacectl --scheduler =", ""},
	} {
		const node = "\npacectl() { local a name=alder; [[ \"${*: -2}\" == 'completion machines' ]] || return; for a in \"${@:1:$#-2}\"; do name+=${a#*=}; done; echo $name; }"
		script := bashCompletion() + node + "\ncompopt() { :; }\nCOMP_WORDS=(" + c.words + "); COMP_CWORD=$((${#COMP_WORDS[@]}-1)); " + c.function + "; echo \"${COMPREPLY[*]}\""
		out, err := exec.Command(bash, "-c", script).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.words, got, err, c.want)
		}
	}
}

func TestCompletionsNameEveryRow(t *testing.T) {
	pages := Pages()
	for _, name := range []string{"pace-node.bash", "_pace-node", "pace-node.fish"} {
		text := pages["packaging/linux/completions/"+name]
		for i := range config.Options {
			if n := config.Options[i].Name; !strings.Contains(text, "--"+n) && !strings.Contains(text, "-l "+n) {
				t.Errorf("%s: --%s is missing", name, n)
			}
		}
	}
	for shell, file := range map[string]string{"zsh": "_pace-node", "fish": "pace-node.fish"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed, so %s is not parsed here", shell, file)
			continue
		}
		cmd := exec.Command(path, "-n", "/dev/stdin")
		cmd.Stdin = strings.NewReader(pages["packaging/linux/completions/"+file])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s does not parse %s: %v, %s", shell, file, err, out)
		}
	}
}

func TestSurfacesText(t *testing.T) {
	d := Surfaces{Surfaces: []SurfaceRow{
		{"node", "tcp", 6674, "*", "network"}, {"discovery-reply", "udp", 0, "*", "segment"}, {"admin", "tcp", 6690, "::1", "loopback"},
		{"admin-socket", "unix", 0, "/Library/Application Support/pace-node/admin.sock", "loopback"}, {"admin-socket", "pipe", 0, `\\.\pipe\pace-node-0`, "loopback"},
	}, StateDir: `C:\ProgramData\pace-node`, Seeds: []string{"a:6674", "[fd00::1]:6674"}, Pin: "id@key"}
	want := `node tcp/6674 * network
discovery-reply udp/any * segment
admin tcp/6690 ::1 loopback
admin-socket unix/- "/Library/Application Support/pace-node/admin.sock" loopback
admin-socket pipe/- \\.\pipe\pace-node-0 loopback
state-dir C:\ProgramData\pace-node
seed a:6674
seed [fd00::1]:6674
pin id@key
`
	if got := d.Text(); got != want {
		t.Errorf("\n%s\nwant\n%s", got, want)
	}
	if got, want := (&Surfaces{StateDir: "/s\n"}).Text(), "state-dir \"/s\\n\"\nseed -\npin -\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestServiceChangeText(t *testing.T) {
	d := ServiceChange{Service: "PaceNode", Changed: []string{`C:\pace\pace-node.exe is registered`}, Notes: []string{"no firewall is told"}, StateDir: "/var/lib/pace-node", Settings: `HKLM\Software\Pace\Node`}
	want := "service PaceNode\nchanged C:\\pace\\pace-node.exe is registered\nnote no firewall is told\nstate-dir /var/lib/pace-node\nsettings HKLM\\Software\\Pace\\Node\n"
	if got := d.Text(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (&ServiceChange{Service: "s"}).Text(); got != "service s\nchanged nothing: all is as it was asked for\nstate-dir -\nsettings -\n" {
		t.Errorf("%q", got)
	}
}

// TestSilentNodeIsTheServiceManagersToExplain: what mends it is told by who knows how the service is.
func TestSilentNodeIsTheServiceManagersToExplain(t *testing.T) {
	var errs bytes.Buffer
	deps := RunDeps{AdminPaths: []string{filepath.Join(t.TempDir(), "none.sock")}, Silent: func(context.Context) string { return "sudo systemctl start corp" }}
	code := Run(t.Context(), config.VerbCall{Name: config.ToolVerb, Words: []string{"node"}}, config.Config{}, io.Discard, &errs, deps)
	if code != config.ExitNobody || !strings.Contains(errs.String(), "remedy: sudo systemctl start corp\n") {
		t.Errorf("status %d: %s", code, &errs)
	}
}
