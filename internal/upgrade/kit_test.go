package upgrade

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"pace-node/internal/config"
	"pace-node/internal/release"
	"pace-node/internal/wire"
)

// rig is one machine with a program of version 1.0, and a signed repository that holds 2.0 for it. Programs are only bytes
// here; what they say when they are run is said for them.
type rig struct {
	t       *testing.T
	dir     string // of the program
	program string
	repo    string
	secret  release.SecretKey
	key     string
	args    []string
	stderr  *output
	exits   []int

	mu  sync.Mutex
	ran []string
	say map[string]answer // by the first argument
}

type answer struct {
	code int
	said string
	err  error
}

// output keeps what a guard says.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

const oldBytes, newBytes = "the program of 1.0", "the program of 2.0, which is longer"

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), repo: filepath.Join(t.TempDir(), "repo"), args: []string{"--state-dir=/x"}, stderr: &output{},
		say: map[string]answer{"--version": {0, "pace-node 2.0 linux/amd64", nil}, "--check-arguments": {}}}
	r.program = filepath.Join(r.dir, "pace-node")
	r.write(r.program, oldBytes)
	public, secret, _, err := release.NewKey("")
	if err == nil {
		r.secret, err = release.ParseSecretKey("", secret)
	}
	if err != nil {
		t.Fatal(err)
	}
	r.key = public.String()
	r.publish("2.0", newBytes)
	return r
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
}

// publish puts a version into the repository.
func (r *rig) publish(version, program string) {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), "program")
	r.write(file, program)
	if _, err := release.New(r.repo, version, map[string]string{platformOf(): file}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := release.Sign(r.repo, version, r.secret); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) upgrader(change func(*Config)) *Upgrader {
	r.t.Helper()
	cfg := Config{Program: r.program, Args: r.args, Words: []string{"PACE_NAME=alder"}, Version: "1.0",
		Run: func(_ context.Context, program string, args ...string) (int, string, error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.ran = append(r.ran, filepath.Base(program)+" "+strings.Join(args, " "))
			a := r.say[args[0]]
			return a.code, a.said, a.err
		}}
	if change != nil {
		change(&cfg)
	}
	u, err := New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	return u
}

func (r *rig) body() wire.UpgradeBody {
	return wire.UpgradeBody{Version: "2.0", Repository: r.repo, Key: r.key}
}

// upgraded has the rig upgraded to 2.0.
func (r *rig) upgraded() {
	r.t.Helper()
	if _, err := r.upgrader(nil).Upgrade(r.t.Context(), r.body()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) exit(code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exits = append(r.exits, code)
}

// ended are the statuses that the process ended with.
func (r *rig) ended() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.exits)
}

// begin is a start of the machine's program.
func (r *rig) begin(change func(*Watch)) *Guard {
	r.t.Helper()
	w := Watch{Args: append([]string{"pace-node"}, r.args...), Stderr: r.stderr, Exit: r.exit,
		Self: func() (string, error) { return r.program, nil }}
	if change != nil {
		change(&w)
	}
	return Begin(w)
}

// files are what is beside the program, with their bytes; of the intent its phase and starts.
func (r *rig) files() map[string]string {
	r.t.Helper()
	all, err := os.ReadDir(r.dir)
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range all {
		path := filepath.Join(r.dir, e.Name())
		if in, err := readIntent(path); err == nil {
			out[e.Name()] = fmt.Sprint(in.Phase, " ", in.Starts)
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

// again is what a service manager is told to do.
const again = config.ExitAgain
