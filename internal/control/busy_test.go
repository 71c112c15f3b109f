package control

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

// TestBackupAndRestoreTellThatTheyGoOn: what takes its time is told, and nothing is drawn while a person types.
func TestBackupAndRestoreTellThatTheyGoOn(t *testing.T) {
	const long = 2500 * time.Millisecond
	fleetState := []byte("state")
	part := BackupPart{V: 1, Cluster: cluster1, Total: uint64(len(fleetState)), Bytes: fleetState}
	for _, terminal := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			out := &collector{}
			quiet := func(while string) {
				before := out.text()
				time.Sleep(long)
				synctest.Wait()
				if out.text() != before {
					t.Errorf("written while %s: %q", while, out.text()[len(before):])
				}
			}
			node := leaderNode()
			node.statusOf = func(wire.StatusRequest) (any, error) { return part, nil }
			node.slow = func(context.Context) error { time.Sleep(long); return nil }
			server := NewServer(ServerConfig{Backend: node})
			defer server.Close()
			r := &runner{
				stderr: out,
				flags:  map[string]string{},
				client: NewClient(pipeTransport{server, Peer{}}, "alder"),
				deps: RunDeps{
					Terminal: func() bool { return terminal },
					Stdin:    slowReader{func() { quiet("the fleet's id is typed") }, strings.NewReader(cluster1 + "\n")},
					Passphrase: func(string, string, bool) ([]byte, error) {
						quiet("the passphrase is typed")
						return []byte("p"), nil
					},
					Backup: func(context.Context, string, []byte, FounderState) (Done, error) {
						time.Sleep(long)
						return Done{}, nil
					},
					Restore: func(_ context.Context, _ string, _ []byte, sure func(Restoring) error) (Done, error) {
						time.Sleep(long)
						err := sure(Restoring{Cluster: cluster1, ID: idA})
						time.Sleep(long)
						return Done{}, err
					},
				},
			}
			told := func(what string, by func() error, steps ...string) {
				before := len(out.text())
				if err := by(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				said := out.text()[before:]
				for _, step := range steps {
					if n := strings.Count(said, step); terminal && n != 2 || !terminal && n != 0 {
						t.Errorf("%s, terminal %v: %q is told %d times in 2.5 s: %q", what, terminal, step, n, said)
					}
				}
				if terminal && !strings.HasSuffix(said, "\r\x1b[K") {
					t.Errorf("%s: it is left there: %q", what, said)
				}
			}
			told("backup", func() error { _, err := r.backup(t.Context(), []string{"x"}); return err }, "fetching the fleet's state from alder", "sealing the backup")
			told("restore", func() error { _, err := r.restore(t.Context(), []string{"x"}); return err }, "opening the backup", "putting the backup in this machine's place")
			r.deps.Stdin = strings.NewReader("no\n")
			if _, err := r.restore(t.Context(), []string{"x"}); failureOf(err, true).Exit != config.ExitUsage {
				t.Errorf("without the fleet's id: %v", err)
			}
		})
	}
}

// TestBackupFileIsLookedAtFirst: nobody types a passphrase for a file that cannot be used.
func TestBackupFileIsLookedAtFirst(t *testing.T) {
	for verb, made := range map[string]bool{"backup": true, "restore": false} {
		node := leaderNode()
		deps := func(d *RunDeps) {
			d.Sealed = func(file string, m bool) error {
				if file != "x.backup" || m != made {
					t.Errorf("%s looks at %s, to be made %v", verb, file, m)
				}
				return &Failure{Code: "failed", Exit: config.ExitFailed, Reason: "it cannot be used", Remedy: "give another"}
			}
			d.Passphrase = func(string, string, bool) ([]byte, error) {
				t.Errorf("%s asks for the passphrase", verb)
				return nil, nil
			}
			d.Backup = func(context.Context, string, []byte, FounderState) (Done, error) { return Done{}, nil }
			d.Restore = func(context.Context, string, []byte, func(Restoring) error) (Done, error) { return Done{}, nil }
		}
		exit, out, errs := nodes{"": node}.runWith(t, words("fleet", verb, "x.backup"), config.Config{}, "", deps)
		if exit != config.ExitFailed || out != "" || !strings.Contains(errs, "it cannot be used") || len(node.seen()) != 0 {
			t.Errorf("%s: %d %q %q, asked %v", verb, exit, out, errs, node.seen())
		}
	}
}

// slowReader is a person: first is what goes by until they type.
type slowReader struct {
	first func()
	io.Reader
}

func (s slowReader) Read(p []byte) (int, error) {
	s.first()
	return s.Reader.Read(p)
}
