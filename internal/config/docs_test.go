package config

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// written holds the pages that are made from the table, below docs/.
var written = map[string]func() string{"flags.md": FlagsMarkdown, "pace-node.8": ManPage}

func TestDocsDrift(t *testing.T) {
	for name, text := range written {
		path := filepath.Join("..", "..", "docs", name)
		if os.Getenv("PACE_WRITE_DOCS") != "" {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(path)
		if err != nil || string(got) != text() {
			t.Errorf("docs/%s differs from the table of options (%v): run make docs", name, err)
		}
	}
}

func TestEveryRowIsInHelpManAndPage(t *testing.T) {
	var help bytes.Buffer
	if err := Help(&help); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"help": help.String(), "page": FlagsMarkdown(), "man": strings.ReplaceAll(ManPage(), `\-`, "-")} {
		for i := range Options {
			if !strings.Contains(text, "--"+Options[i].Name) {
				t.Errorf("%s: --%s is missing", name, Options[i].Name)
			}
		}
		for i := range Verbs {
			if !strings.Contains(text, "--"+Verbs[i].Name) {
				t.Errorf("%s: --%s is missing", name, Verbs[i].Name)
			}
		}
	}
	for line := range strings.Lines(help.String()) {
		if len(line) > 2*helpWidth {
			t.Errorf("a line of the help has %d columns", len(line))
		}
	}
}

func TestManPageIsRoff(t *testing.T) {
	man, err := exec.LookPath("groff")
	if err != nil {
		t.Skip("groff is not installed, so the man page is not formatted here")
	}
	cmd := exec.Command(man, "-man", "-Tutf8", "-ww")
	cmd.Stdin = strings.NewReader(ManPage())
	var warnings bytes.Buffer
	cmd.Stderr = &warnings
	out, err := cmd.Output()
	if err != nil || warnings.Len() > 0 || !bytes.Contains(out, []byte("fleet")) {
		t.Errorf("groff: %v, %s", err, warnings.String())
	}
}

func TestTableIsWellFormed(t *testing.T) {
	seen := map[string]bool{}
	for i := range Options {
		o := &Options[i]
		if seen[o.Name] || o.set == nil || o.Help == "" || strings.HasSuffix(o.Help, ".") {
			t.Errorf("row %q is not whole", o.Name)
		}
		seen[o.Name] = true
		if o.Default != "" && o.check(o.Default) != nil {
			t.Errorf("--%s refuses its own default: %v", o.Name, o.check(o.Default))
		}
		found := false
		for _, g := range Groups {
			found = found || g == o.Group
		}
		if !found {
			t.Errorf("--%s is in no group of the help", o.Name)
		}
	}
	for i := range Verbs {
		if seen[Verbs[i].Name] {
			t.Errorf("--%s is an option and a verb", Verbs[i].Name)
		}
	}
}

func TestExitStatus(t *testing.T) {
	for name, c := range map[string]struct{ got, want int }{
		"ok": {ExitOK, 0}, "failed": {ExitFailed, 1}, "usage": {ExitUsage, 2}, "refused": {ExitRefused, 4}, "nobody": {ExitNobody, 5}, "config": {ExitConfig, 78},
	} {
		if c.got != c.want {
			t.Errorf("%s is %d, want %d", name, c.got, c.want)
		}
	}
}
