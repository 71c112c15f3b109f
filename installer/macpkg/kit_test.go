package macpkg

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
)

// TestMain: names in the packages are UTF-8, and others' programs take them for that in such a locale only.
func TestMain(m *testing.M) {
	os.Setenv("LC_ALL", "C.UTF-8")
	os.Exit(m.Run())
}

const made = 1790000000 // a second in 2026

var data = os.DirFS("../../packaging/macos")

// hello builds the same small program for both processors, once.
var hello = sync.OnceValues(func() (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "macpkg-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := map[string][]byte{}
	for _, arch := range []string{"amd64", "arm64"} {
		file := filepath.Join(dir, arch)
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", file, "testdata/hello/main.go")
		cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, errors.New(string(text))
		}
		if out[arch], err = os.ReadFile(file); err != nil {
			return nil, err
		}
	}
	return out, nil
})

func programs(t testing.TB) (amd64, arm64 []byte) {
	t.Helper()
	both, err := hello()
	if err != nil {
		t.Fatal(err)
	}
	return both["amd64"], both["arm64"]
}

func plan(t testing.TB) Plan {
	t.Helper()
	amd64, arm64 := programs(t)
	fat, err := Universal(arm64, amd64)
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{Describe: "1.2.3-5-gabcdef0", Made: made, Binary: fat, Data: data, Pages: map[string][]byte{}}
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	p.License = read("../../LICENSE")
	for _, page := range []string{"pacectl.1", "pace-node.8"} {
		p.Pages[page] = read("../../docs/" + page)
	}
	return p
}

// edited is the data with some files changed: edit gets a file's text; a nil result leaves the file out.
func edited(t testing.TB, edit func(name, text string) *string) fs.FS {
	t.Helper()
	out := fstest.MapFS{}
	err := fs.WalkDir(data, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(data, name)
		if err != nil {
			return err
		}
		if text := edit(name, string(b)); text != nil {
			out[name] = &fstest.MapFile{Data: []byte(*text)}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// replacing edits one file.
func replacing(t testing.TB, file, old, with string) fs.FS {
	t.Helper()
	return edited(t, func(name, text string) *string {
		if name == file {
			if strings.Count(text, old) == 0 {
				t.Fatalf("%s has no %q", file, old)
			}
			text = strings.ReplaceAll(text, old, with)
		}
		return &text
	})
}

var once struct {
	sync.Mutex
	pkg []byte
}

// built is the plan's package, which is built once.
func built(t testing.TB) []byte {
	t.Helper()
	once.Lock()
	defer once.Unlock()
	if once.pkg == nil {
		var err error
		if once.pkg, err = Build(plan(t)); err != nil {
			t.Fatal(err)
		}
	}
	return once.pkg
}

// tool finds a program of the machine's, or skips with a reason that says what is not seen then.
func tool(t *testing.T, name, pkg, unseen string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("%s is missing (Debian: %s), so %s was not seen", name, pkg, unseen)
	}
	return path
}

func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}
