package control

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/config"
)

// shellCase is a line that a person has typed and what the shell offers then, apart by a |; the same in every shell.
type shellCase struct{ line, want string }

const (
	allWords  = "audit|completion|dashboard|doctor|enroll|fleet|identity|member|node|queue|release|watch"
	theLevels = "debug|error|info|warn"
)

// shellCases: names are those of TestShells, files those of its working folder.
var shellCases = []shellCase{
	{"pacectl ", allWords},
	{"pacectl mem", "member"},
	{"pacectl member sh", "show"},
	{"pacectl --json queue res", "resume"},
	{"pacectl completion ", "bash|fish|powershell|zsh"},
	{"pacectl nosuch ", ""},
	{"pacectl member list ", ""},
	// Machines, of the node that is asked.
	{"pacectl member show ", "0123456789abcdef|[x]|a@b,c|d|e|foal|fox|h1"},
	{"pacectl member show fo", "foal|fox"},
	{"pacectl member show a@", "a@b,c"},
	{"pacectl member show foal ", ""},
	{"pacectl audit fo", "foal|fox"},
	{"pacectl audit --since 2h fo", "foal|fox"},
	{"pacectl queue run-helper --dry-run fo", "foal|fox"},
	{"pacectl --state-dir=/x member show fo", "foal/x|fox/x"},
	{"pacectl --state-dir /x member show fo", "foal/x|fox/x"},
	{"pacectl member --state-dir /x show fo", "foal/x|fox/x"},
	{"pacectl member show --state-dir=/x fo", "foal/x|fox/x"},
	{"pacectl --config /y --json member show fo", "foal/y|fox/y"},
	{"pacectl --scheduler=h --state-dir /x member show fo", "foalh/x|foxh/x"},
	{"pacectl --state-dir=$(touch-pwned) member show no", ""},
	// Flags, and behind them.
	{"pacectl --sch", "--scheduler"},
	{"pacectl --state-dir=/x --sch", "--scheduler"},
	{"pacectl --state-dir /x --sch", "--scheduler"},
	{"pacectl --state-dir=/x mem", "member"},
	{"pacectl --state-dir /x mem", "member"},
	{"pacectl --state-dir=/x member sh", "show"},
	{"pacectl --state-dir /x member sh", "show"},
	{"pacectl --scheduler fleet member sh", "show"},
	{"pacectl --scheduler=fleet member sh", "show"},
	// Their values.
	{"pacectl --scheduler=", ""},
	{"pacectl --scheduler ", ""},
	{"pacectl --since ", ""},
	{"pacectl --state-dir=fo", "folder/"},
	{"pacectl --state-dir fo", "folder/"},
	{"pacectl --config=pas", "pass word|passed"},
	{"pacectl --config pas", "pass word|passed"},
	{"pacectl fleet backup --passphrase-file=pas", "pass word|passed"},
	{"pacectl release sign --key pas", "pass word|passed"},
	{"pacectl fleet backup pas", "pass word|passed"},
	{"pacectl fleet restore --passphrase-file=/p pas", "pass word|passed"},
	{"pacectl release verify fo", "folder/"},
	{"pace-node --fleet-s", "--fleet-seed"},
	{"pace-node --enroll-l", "--enroll-list"},
	{"pace-node --log-level=wa", "warn"},
	{"pace-node --log-level wa", "warn"},
	{"pace-node --log-level ", theLevels},
	{"pace-node --log-level=", theLevels},
	{"pace-node --state-dir=/x --log-level=wa", "warn"},
	{"pace-node --state-dir /x --log-level wa", "warn"},
	{"pace-node --state-dir /x --fleet-s", "--fleet-seed"},
	{"pace-node --config=pas", "pass word|passed"},
	{"pace-node --config pas", "pass word|passed"},
	{"pace-node --state-dir=fo", "folder/"},
	{"pace-node --fleet-seed=", ""},
	{"pace-node --fleet-seed ", ""},
	{"pace-node --enroll-approve=", ""},
	{"pace-node --enroll-approve ", ""},
}

// offered is what a shell offers for a line, as in shellCase: sorted, without the = of a flag that takes a value, and without
// the --flag= that some shells repeat before each value.
func offered(line string, words []string) string {
	last := line[strings.LastIndexByte(line, ' ')+1:]
	var out []string
	for _, w := range words {
		if flag, _, valued := strings.Cut(last, "="); valued && strings.HasPrefix(last, "-") {
			w = strings.TrimPrefix(w, flag+"=")
		} else if strings.HasPrefix(w, "--") {
			w = strings.TrimSuffix(w, "=")
		}
		out = append(out, w)
	}
	slices.Sort(out)
	return strings.Join(out, "|")
}

// unquoted are the words of a line that a shell has completed, each as the program would get it.
func unquoted(text string) (words []string) {
	word, begun := "", false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			word, begun = word+string(text[i]), true
		case c != ' ':
			word, begun = word+string(c), true
		case begun:
			words, word, begun = append(words, word), "", false
		}
	}
	if begun {
		words = append(words, word)
	}
	return words
}

// shell is what the scripts are tried in: a folder of its own with files, scripts, and a pacectl that says what the tool said
// of a fleet with hostile names.
type shell struct {
	folder string
	env    []string
}

func newShell(t *testing.T, said string) *shell {
	t.Helper()
	s := &shell{folder: t.TempDir()}
	pages := Pages()
	write := func(name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(s.folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range pages {
		if strings.HasPrefix(name, "packaging/") {
			write(filepath.Join("scripts", filepath.Base(name)), text, 0o644)
		}
	}
	for name, make := range completions {
		write(filepath.Join("printed", name), make(), 0o644)
	}
	write("machines", said, 0o644)
	write("said", "", 0o644)
	// Its machines bear the values of the flags that say which node is asked, so that they show.
	write("bin/pacectl", `#!/bin/sh
[ "$*" != "${*%completion machines}" ] || exit 1
at=
for a in "$@"; do case $a in -*) at=$at${a#*=} ;; esac; done
while read -r name; do printf '%s\n' "$name$at"; done < `+s.folder+`/machines
`, 0o755)
	write("bin/pace-node", "#!/bin/sh\nexit 1\n", 0o755)
	write("bin/touch-pwned", "#!/bin/sh\n: > "+s.folder+"/pwned\n", 0o755)
	write("work/pass word", "", 0o644)
	write("work/passed", "", 0o644)
	write("work/folder/within", "", 0o644)
	var lines strings.Builder
	for _, c := range shellCases {
		lines.WriteString(c.line + "\n")
	}
	write("lines", lines.String(), 0o644)
	s.env = []string{"HOME=" + s.folder, "ZDOTDIR=" + s.folder, "TERM=dumb", "PATH=" + s.folder + "/bin:" + os.Getenv("PATH"), "AT=" + s.folder, "XDG_CONFIG_HOME=" + s.folder, "XDG_DATA_HOME=" + s.folder}
	return s
}

// run runs a program of the shell and returns what it wrote into the file "said" of the folder.
func (s *shell) run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env, cmd.Dir = s.env, filepath.Join(s.folder, "work")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v, %s", program, err, &out)
	}
	b, err := os.ReadFile(filepath.Join(s.folder, "said"))
	if err != nil {
		t.Fatalf("%v; %s", err, &out)
	}
	return string(b)
}

// zshSays are the lines of a zsh that completes each line of $AT/lines on a terminal of its own and writes what stands there
// then: all that it offers, as it inserts it. It begins when the editor does, so nothing waits for a prompt.
const (
	zshSays = `
unsetopt beep
zstyle ':completion:*' completer _complete
_all() { _main_complete; compstate[insert]=all compstate[list]= }
zle -C all complete-word _all
_every() {
	local line
	for line in "${(@f)$(<$AT/lines)}"; do
		BUFFER=$line CURSOR=$#line
		zle all
		print -r -- "$line"$'\t'"$BUFFER" >> $AT/said
	done
	exit
}
zle -N zle-line-init _every
`
	zshTerminal = `zmodload zsh/zpty && zpty inner 'zsh -d -i' && while zpty -r inner chunk; do last=$chunk; done; print -r -- $last`
)

// zshOffers is what zsh offers for each line.
func zshOffers(t *testing.T, s *shell, zsh, rc string) map[string]string {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.folder, ".zshrc"), []byte(rc+zshSays), 0o644); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for said := range strings.Lines(s.run(t, zsh, "-d", "-f", "-c", zshTerminal)) {
		line, now, _ := strings.Cut(strings.TrimSuffix(said, "\n"), "\t")
		before := line[:strings.LastIndexByte(line, ' ')+1]
		rest, same := strings.CutPrefix(now, before)
		if !same {
			t.Errorf("%q became %q", line, now)
		}
		words := unquoted(rest)
		if now == line {
			words = nil // nothing was offered
		}
		out[line] = offered(line, words)
	}
	return out
}

// fishOffers is what fish offers for each line.
func fishOffers(t *testing.T, s *shell, fish, setup string) map[string]string {
	t.Helper()
	const says = `
while read -l line
	for offer in (complete -C $line)
		printf '%s\t%s\n' $line $offer
	end
	printf '%s\t\n' $line
end < $AT/lines > $AT/said`
	words := map[string][]string{}
	for said := range strings.Lines(s.run(t, fish, "--no-config", "-c", setup+says)) {
		cells := strings.Split(strings.TrimSuffix(said, "\n"), "\t")
		words[cells[0]] = append(words[cells[0]], cells[1])
	}
	out := map[string]string{}
	for line, all := range words {
		out[line] = offered(line, all[:len(all)-1])
	}
	return out
}

// bashOffers is what bash's functions offer for each line, split as bash splits it. That a folder gets its slash and a file its
// quotes is bash's to do, and it is told so (compopt -o filenames).
func bashOffers(t *testing.T, s *shell, bash, setup string) map[string]string {
	t.Helper()
	const says = `
compopt() { [ "$*" != "-o filenames" ] || paths=1; }
offer() {
	local -a COMP_WORDS=("${@:2}") COMPREPLY=()
	local COMP_CWORD=$(($#-2)) paths=0 word
	case $2 in pacectl) _pacectl ;; *) _pace_node ;; esac
	for word in "${COMPREPLY[@]}"; do
		[ $paths -eq 0 ] || [ ! -d "$word" ] || word+=/
		printf '%s\t%s\n' "$1" "$word"
	done >> "$AT/said"
	printf '%s\t\n' "$1" >> "$AT/said"
}
`
	var script strings.Builder
	script.WriteString(setup + says)
	quoted := func(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
	for _, c := range shellCases {
		script.WriteString("offer " + quoted(c.line))
		for _, word := range strings.Split(c.line, " ") {
			for {
				i := strings.IndexAny(word, "=:")
				if i < 0 {
					break
				}
				if i > 0 {
					script.WriteString(" " + quoted(word[:i]))
				}
				script.WriteString(" " + quoted(word[i:i+1]))
				word = word[i+1:]
				if word == "" {
					break
				}
			}
			if word != "" || strings.HasSuffix(c.line, " ") {
				script.WriteString(" " + quoted(word))
			}
		}
		script.WriteString("\n")
	}
	words := map[string][]string{}
	for said := range strings.Lines(s.run(t, bash, "--norc", "--noprofile", "-c", script.String())) {
		cells := strings.Split(strings.TrimSuffix(said, "\n"), "\t")
		words[cells[0]] = append(words[cells[0]], cells[1])
	}
	out := map[string]string{}
	for line, all := range words {
		out[line] = offered(line, all[:len(all)-1])
	}
	return out
}

// TestShells runs the completions of bash, zsh and fish in those shells, as the packages bring them and as a person reads them in, on
// lines with flags, values and files, and in a fleet with hostile names: nothing of those is run, and none is offered.
func TestShells(t *testing.T) {
	n := leaderNode()
	cluster := exampleCluster()
	cluster.Members = []MemberStatus{{ID: "0123456789abcdef", Name: "foal"}, {ID: "d", Name: "$(touch-pwned)"}, {ID: "e", Name: "`touch-pwned`"},
		{ID: "fox", Name: "a b"}, {ID: "[x]", Name: "--force"}, {ID: "h1", Name: "no;touch-pwned"}, {ID: "a@b,c", Name: "no\ttouch-pwned"}}
	n.status["cluster"] = cluster
	exit, machines, errs := nodes{"": n}.run(t, words("completion", "machines"), config.Config{}, "")
	if exit != 0 {
		t.Fatal(errs)
	}
	// Whatever it is that answers, nothing that it says is run.
	const hostile = "$(touch-pwned)\n`touch-pwned`\nno;touch-pwned\n<(touch-pwned)\n(touch-pwned)\n${(e):-$(touch-pwned)}\n"

	const fpath = "fpath=($AT/scripts $fpath)\nautoload -Uz compinit && compinit -D -u\n"
	for _, c := range []struct {
		name, shell string
		offers      func(*testing.T, *shell, string, string) map[string]string
		setup       string
	}{
		{"bash, as packaged", "bash", bashOffers, "source $AT/scripts/pace-node.bash\n"},
		{"bash, as printed", "bash", bashOffers, "source $AT/printed/bash\n"},
		{"zsh, as packaged", "zsh", zshOffers, fpath},
		{"zsh, as printed", "zsh", zshOffers, "autoload -Uz compinit && compinit -D -u\nsource $AT/printed/zsh\n"},
		{"fish, as packaged", "fish", fishOffers, "set fish_complete_path $AT/scripts"},
		{"fish, as printed", "fish", fishOffers, "set fish_complete_path; source $AT/printed/fish"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			path, err := exec.LookPath(c.shell)
			if err != nil {
				t.Skipf("%s is not installed, so its completion is not run here", c.shell)
			}
			s := newShell(t, machines)
			got := c.offers(t, s, path, c.setup)
			for _, want := range shellCases {
				if offers, said := got[want.line]; !said || offers != want.want {
					t.Errorf("%q offers %q, %v; want %q", want.line, offers, said, want.want)
				}
			}
			s = newShell(t, hostile)
			c.offers(t, s, path, c.setup)
			if _, err := os.Stat(filepath.Join(s.folder, "pwned")); err == nil {
				t.Error("what another machine said was run")
			}
		})
	}
}
