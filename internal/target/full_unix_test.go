//go:build unix

package target

import (
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pace-node/internal/wire"
)

// fullFrom makes every write fail from a point on: no file may grow any more. "" makes them fail beyond 4 KiB from the
// start, so that the first files of a configuration can be written and a later one cannot.
func fullFrom(stop string) func(string) {
	signal.Ignore(syscall.SIGXFSZ)
	limit := func(n uint64) {
		childFatal(unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: n, Max: unix.RLIM_INFINITY}))
	}
	if stop == "" {
		limit(4 << 10)
	}
	return func(p string) {
		if p == stop {
			limit(0)
		}
	}
}

// TestDiskFull: wherever writing begins to fail, the answer says so and the old configuration is there, or the new one is.
func TestDiskFull(t *testing.T) {
	first := prepare(t, 2)
	for _, point := range append([]string{""}, Points...) {
		if strings.HasPrefix(point, "target.hooks.") || strings.HasPrefix(point, "target.csr.") {
			continue // no configuration comes there
		}
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			fullAt(t, first, point)
		})
	}
}

func fullAt(t *testing.T, first stand, point string) {
	s := first.copy(t)
	was := tree(t, s.dir)
	if point == "" {
		b := body("mark2")
		b.Files["z/large"] = wire.WorkFile{Text: strings.Repeat("x", 64<<10)}
		s.nextBody = filepath.Join(t.TempDir(), "large.json")
		if err := os.WriteFile(s.nextBody, encode(t, b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, out := child(t, "full", s.dir, s.nextBody, point)
	var a wire.WorkAnswer
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	// The intent and the state are the last things that are written, and the way back is not gone.
	fails := !after(point) && point != "target.intent.write.after"
	for _, later := range []string{"target.state.", "target.intent.sync.", "target.intent.rename."} {
		fails = fails && !strings.HasPrefix(point, later)
	}
	if a.OK == fails {
		t.Errorf("%+v", a)
	}
	if !a.OK {
		if !a.Transient || !strings.Contains(a.Error, "make room") || !strings.Contains(a.Error, "untouched") {
			t.Errorf("%+v", a)
		}
		if d := cmp.Diff(was, tree(t, s.dir)); d != "" {
			t.Errorf("the folder changed before the next start:\n%s", d)
		}
	}
	want := "new"
	if fails {
		want = "old"
	}
	if got := s.settled(t, "full from "+point); got != want {
		t.Errorf("the %s configuration is there, want the %s one", got, want)
	}
}

// TestModesOnDisk: exact modes, whatever the umask.
func TestModesOnDisk(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o377} {
		dir := folder(t)
		old := syscall.Umask(mask)
		tg := open(t, config(dir))
		d := configure(t, tg, body("one"))
		err := tg.Flush()
		syscall.Umask(old)
		if err != nil || d == "" {
			t.Fatal(err)
		}
		want := map[string]string{
			".": "drwx------", "state.json": "-rw-------", "current": "drwx------", "current/configuration.json": "-rw-------", "current/server_claims.json": "-rw-------",
			"current/manifest.json": "-rw-------", "current/ssl": "drwx------", "current/ssl/certificate.pem": "-rw-r--r--", "current/ssl/ca.pem": "-rw-r--r--",
			"current/ssl/private.pem": "-rw-------", "current/policies": "drwx------", "current/policies/rpcutil.policy": "-rw-------", "current/policies/main.rego": "-rw-------",
			"current/files": "drwx------", "current/files/app": "drwx------", "current/files/app/conf.d": "drwx------", "current/files/app/conf.d/one.ini": "-rw-r-----",
			"current/files/run.sh": "-rwxr-xr-x", "current/files/plain": "-rw-------",
		}
		got := map[string]string{}
		for name, row := range tree(t, dir) {
			got[name], _, _ = strings.Cut(row, " ")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("umask %04o: %s", mask, diff)
		}
	}
}

// TestOpenerKey: a key that others may read is damage; one that is stricter is not.
func TestOpenerKey(t *testing.T) {
	tg := provisioned(t, config(folder(t)), "one")
	key := filepath.Join(tg.cfg.Dir, currentDir, filepath.FromSlash(keyFile))
	for mode, why := range map[os.FileMode]string{0o400: "", 0o640: WhyDamaged + `: "ssl/private.pem" is open to more than it may (mode 0640, not 0600)`} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		if c := load(filepath.Join(tg.cfg.Dir, currentDir)); c.damage != strings.TrimPrefix(why, WhyDamaged+": ") {
			t.Errorf("%04o: %s", mode, c.damage)
		}
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/hostname", key); err != nil {
		t.Fatal(err)
	}
	if c := load(filepath.Join(tg.cfg.Dir, currentDir)); c.damage != `"ssl/private.pem" is no file (L---------)` {
		t.Errorf("a link: %s", c.damage)
	}
}
