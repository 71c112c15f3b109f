package target

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"pace-node/internal/wire"
)

// FuzzConfigureBody: whatever comes, it is a refusal with a reason of the table and a printable sentence, or files that
// stay inside their folder.
func FuzzConfigureBody(f *testing.F) {
	f.Add([]byte(encode(f, body("one"))))
	for _, c := range refusedBodies() {
		b := body("one")
		c.change(&b)
		if raw := encode(f, b); len(raw) < 10_000 {
			f.Add([]byte(raw))
		}
	}
	for _, c := range refusedDocuments() {
		if len(c.raw) < 10_000 {
			f.Add(c.raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, system := range []string{"linux", "darwin", "windows"} {
			b, r := parseBody(raw)
			if r == nil {
				r = judge(b, setting{clusterA, system})
			}
			if r != nil {
				if _, ok := transientByHand[r.reason]; !ok || r.text == "" || !wire.ValidText(r.text) || len(r.text) > 1024 {
					t.Fatalf("%s: %q", r.reason, r.text)
				}
				continue
			}
			files, err := plan(b)
			if err != nil {
				t.Fatalf("a body that was judged good: %v", err)
			}
			checkPlan(t, files)
			m := makeManifest(clusterA, nodeID, 1, files)
			text, err := encodeManifest(m)
			if err != nil {
				t.Fatal(err)
			}
			back, err := decodeManifest(text)
			if err != nil {
				t.Fatalf("its manifest does not read: %v", err)
			}
			if d := cmp.Diff(m, back); d != "" {
				t.Fatal(d)
			}
		}
	})
}

// checkPlan: each file is in its place, once, and under a mode that is allowed.
func checkPlan(t interface{ Fatalf(string, ...any) }, files []planned) {
	for i, f := range files {
		top, rest, _ := strings.Cut(f.path, "/")
		inside := filepath.IsLocal(f.path) && filepath.ToSlash(filepath.Clean(f.path)) == f.path && !strings.Contains(f.path, `\`)
		known := rest == "" && (top == configurationFile || top == claimsFile) || rest != "" && (top == sslDir || top == policiesDir || top == filesDir)
		if !inside || !known || i > 0 && files[i-1].path >= f.path || f.mode&^fileModeMax != 0 || f.mode&fileModeMin == 0 {
			t.Fatalf("planned %q with mode %04o", f.path, f.mode)
		}
	}
}

func FuzzManifest(f *testing.F) {
	b := body("one")
	files, err := plan(&b)
	if err != nil {
		f.Fatal(err)
	}
	text, err := encodeManifest(makeManifest(clusterA, nodeID, 1, files))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":1}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := decodeManifest(raw)
		if err != nil {
			return
		}
		for _, r := range m.Files {
			if !filepath.IsLocal(r.Path) || r.Size < 0 {
				t.Fatalf("%+v", r)
			}
		}
		again, err := encodeManifest(m)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := decodeManifest(again); err != nil || !cmp.Equal(m, back) {
			t.Fatalf("%v", err)
		}
	})
}

func FuzzState(f *testing.F) {
	f.Add([]byte(`{"format":1,"cluster":"`+clusterA+`","demand":3,"asked":"x"}`), []byte(`{"format":1,"digest":"00"}`))
	f.Fuzz(func(t *testing.T, raw, swap []byte) {
		_, _ = decodeIntent(swap)
		s, err := decodeState(raw)
		for _, cur := range []configured{nothing, wholeA, damagedA, foreignA} {
			for _, mode := range Modes {
				got, _ := begin(s, err, cur, clusterA, mode)
				if got.Cluster != clusterA || got.Demand == 0 || got.Confirmed != "" && (mode == ModeAlways || cur.damage != "" || cur.missing()) {
					t.Fatalf("%+v from %s", got, raw)
				}
			}
		}
	})
}

// TestPropertyFilesStayInside writes names that are made of everything that leads elsewhere, and looks at what changed
// outside the configuration.
func TestPropertyFilesStayInside(t *testing.T) {
	parts := rapid.SampledFrom([]string{"..", ".", "", "a", "b", "A", "current", "ssl", "con", "nul.txt", "x:y", `..\..`, "manifest.json", "é", "e\u0301", " ", "a.", "~", "$HOME", "-rf", "\x00", "…"})
	outer := t.TempDir()
	dir := filepath.Join(outer, "state", "provisioned")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	tg := open(t, config(dir))
	restart(t, tg, configure(t, tg, body("zero")))
	if err := tg.Flush(); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		b := wire.ConfigureBody{Configuration: map[string]string{"a": "1"}, Cluster: clusterA, Files: map[string]wire.WorkFile{}, ActionPolicies: map[string]string{}}
		for range rapid.IntRange(1, 4).Draw(r, "files") {
			b.Files[strings.Join(rapid.SliceOfN(parts, 1, 4).Draw(r, "path"), "/")] = wire.WorkFile{Text: "x"}
		}
		b.ActionPolicies[rapid.SampledFrom([]string{"../", "", "a/", `\`}).Draw(r, "policy")+"x.policy"] = "y"
		was := tree(t, dir)
		a := tg.Work(t.Context(), wire.StepConfigure, encode(t, b))
		now := tree(t, dir)
		delete(was, stateFile)
		delete(now, stateFile)
		if !a.OK {
			if d := cmp.Diff(was, now); d != "" {
				r.Fatalf("refused (%s), and changed: %s", a.Error, d)
			}
			return
		}
		if d := cmp.Diff(below(was, currentDir), below(now, previousDir)); d != "" {
			r.Fatal(d)
		}
		restart(t, tg, tg.Digest())
		if err := tg.Flush(); err != nil {
			r.Fatal(err)
		}
		files := 0
		for name, row := range below(now, currentDir) {
			if strings.HasPrefix(row, "-") && strings.HasPrefix(name, filesDir+"/") {
				files++
			}
		}
		if files != len(b.Files) {
			r.Fatalf("%d files of %q", files, sorted(b.Files))
		}
	})
	all := tree(t, outer)
	for name := range all {
		if name != "." && name != "state" && !strings.HasPrefix(name, "state/provisioned") {
			t.Errorf("%s was written outside", name)
		}
	}
}
