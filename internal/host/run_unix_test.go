//go:build unix

package host

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	sh := func(input, script string) Result {
		t.Helper()
		r, err := Run(t.Context(), input, "/bin/sh", "-c", script)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := sh("a b\n", `cat; echo " said" >&2; exit 3`); r.Code != 3 || r.Out != "a b\n said" {
		t.Errorf("%+v", r)
	}
	if r := sh("", `echo "$LC_ALL $SYSTEMD_COLORS"`); r.Code != 0 || r.Out != "C 0" {
		t.Errorf("%+v", r)
	}
	if r := sh("", `i=0; while [ $i -lt 4000 ]; do echo 0123456789; i=$((i+1)); done`); len(r.Out) < runOutput-1 || len(r.Out) > runOutput {
		t.Errorf("%d bytes are kept", len(r.Out))
	}
	if r := sh("", `printf 'a\377b'`); r.Out != "ab" {
		t.Errorf("%q", r.Out)
	}
	if _, err := Run(t.Context(), "", "/no/such/program"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, "", "/bin/sh", "-c", "sleep 60"); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "/bin/sh") {
		t.Errorf("%v", err)
	}
	// What it leaves running holds its pipes, and nobody waits for that.
	if r := sh("", `sleep 5 & echo left`); r.Out != "left" {
		t.Errorf("%+v", r)
	}
}

func TestCheckPlaceOfThisMachine(t *testing.T) {
	path := t.TempDir() + "/program"
	if err := os.WriteFile(path, nil, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o777); err != nil {
		t.Fatal(err)
	}
	if why, err := CheckPlace(path); err != nil || !strings.HasPrefix(why, path) {
		t.Errorf("%q, %v", why, err)
	}
	if _, err := CheckPlace(path + "/none"); err == nil {
		t.Error("what is not there was looked at")
	}
}
