package target

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/wire"
)

// TestLayout: every key of the body is in its file, and nothing else is there.
func TestLayout(t *testing.T) {
	dir := folder(t)
	tg := open(t, config(dir))
	b := body("one")
	d := configure(t, tg, b)
	want := map[string]string{
		"configuration.json":       "{\n  \"a\": \"1 <&>\",\n  \"b\": \"2 one\",\n  \"loglevel\": \"info\"\n}\n",
		"server_claims.json":       "{\n  \"exp\": 5,\n  \"note\": \"one\"\n}\n",
		"ssl/certificate.pem":      b.Certificate,
		"ssl/ca.pem":               b.CA,
		"ssl/private.pem":          b.Key,
		"policies/rpcutil.policy":  "policy default deny\n",
		"policies/main.rego":       "package main\n",
		"files/app/conf.d/one.ini": "x=one\n",
		"files/run.sh":             "#!/bin/sh\n",
		"files/plain":              "",
	}
	got := map[string]string{}
	for name := range below(tree(t, dir), currentDir) {
		if text, err := os.ReadFile(filepath.Join(dir, currentDir, filepath.FromSlash(name))); err == nil && name != manifestFile {
			got[name] = string(text)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	raw, err := os.ReadFile(filepath.Join(dir, currentDir, manifestFile))
	if err != nil {
		t.Fatal(err)
	}
	m, err := decodeManifest(raw)
	if err != nil || m.Cluster != clusterA || m.Node != nodeID || m.Digest != d || len(m.Files) != len(want) {
		t.Errorf("manifest %+v, %v", m, err)
	}
}

// TestEmptyFolders: the folders are there when nothing is in them.
func TestEmptyFolders(t *testing.T) {
	dir := folder(t)
	tg := open(t, config(dir))
	configure(t, tg, wire.ConfigureBody{Configuration: map[string]string{"a": "1"}, Cluster: clusterA})
	for _, name := range []string{sslDir, policiesDir, filesDir} {
		if entries, err := os.ReadDir(filepath.Join(dir, currentDir, name)); err != nil || len(entries) != 0 {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
	}
}

// TestDigest: the same content has the same digest, and each part of it counts; where certificates go does not.
func TestDigest(t *testing.T) {
	tg := open(t, config(folder(t)))
	base := configure(t, tg, body("one"))
	seen := map[string]string{base: "base"}
	for name, change := range map[string]func(*wire.ConfigureBody){
		"setting": func(b *wire.ConfigureBody) { b.Configuration["a"] = "2" },
		"claims":  func(b *wire.ConfigureBody) { b.ServerClaims = nil },
		"mode":    func(b *wire.ConfigureBody) { b.Files["run.sh"] = wire.WorkFile{Text: "#!/bin/sh\n", Mode: "0700"} },
		"name":    func(b *wire.ConfigureBody) { delete(b.Files, "plain"); b.Files["plainer"] = wire.WorkFile{} },
		"ca":      func(b *wire.ConfigureBody) { b.CA = "" },
		"policy":  func(b *wire.ConfigureBody) { b.OPAPolicies["main.rego"] = "package other\n" },
	} {
		b := body("one")
		change(&b)
		d := configure(t, tg, b)
		if seen[d] != "" {
			t.Errorf("%s has the digest of %s", name, seen[d])
		}
		seen[d] = name
	}
	for _, dir := range []string{"", "/somewhere/else", "../../etc"} {
		b := body("one")
		b.SSLDir = dir
		if d := configure(t, tg, b); d != base {
			t.Errorf("ssldir %q changes the digest", dir)
		}
	}
	for _, raw := range []string{`7`, `{"x":1}`, `null`, `["a"]`} {
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(encode(t, body("one")), &keys); err != nil {
			t.Fatal(err)
		}
		keys["ssldir"], keys["of_a_later_version"] = json.RawMessage(raw), json.RawMessage(raw)
		if a := tg.Work(t.Context(), wire.StepConfigure, encode(t, keys)); !a.OK || tg.Digest() != base {
			t.Errorf("ssldir %s: %+v", raw, a)
		}
	}
}

// TestPrevious: one configuration back is kept, whole.
func TestPrevious(t *testing.T) {
	dir := folder(t)
	tg := open(t, config(dir))
	var last map[string]string
	for _, mark := range []string{"one", "two", "three", "four"} {
		restart(t, tg, configure(t, tg, body(mark)))
		all := tree(t, dir)
		if d := cmp.Diff(last, below(all, previousDir)); d != "" && last != nil {
			t.Errorf("%s: %s", mark, d)
		}
		last = below(all, currentDir)
	}
}

// TestSwapFails: a move that fails is taken back, wherever it is; what was there is there.
func TestSwapFails(t *testing.T) {
	for _, m := range moves[:3] {
		dir := folder(t)
		cfg := config(dir)
		fail := false
		cfg.Point = func(p string) {
			if p == "target.swap."+m.Step+".before" && fail { // nothing can be renamed from a name that is not there
				if err := os.Rename(filepath.Join(dir, m.From), filepath.Join(dir, "hidden")); err != nil {
					t.Error(err)
				}
			}
		}
		tg := provisioned(t, cfg, "one")
		restart(t, tg, configure(t, tg, body("two")))
		tg.Confirmed(tg.Digest())
		if err := tg.Flush(); err != nil {
			t.Fatal(err)
		}
		was, d := tree(t, dir), tg.Digest()
		fail = true
		a := tg.Work(t.Context(), wire.StepConfigure, encode(t, body("three")))
		fail = false
		if a.OK || !a.Transient || tg.Refusals()[ReasonStorage] != 1 {
			t.Errorf("%s: %+v", m.Step, a)
		}
		if m.From != stagingDir { // put back what the test took away
			if err := os.Rename(filepath.Join(dir, "hidden"), filepath.Join(dir, m.From)); err != nil {
				t.Fatal(err)
			}
		} else if err := os.RemoveAll(filepath.Join(dir, "hidden")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(was, tree(t, dir)); diff != "" || tg.Digest() != d {
			t.Errorf("%s: %s", m.Step, diff)
		}
		if want, why := tg.Wants(); want {
			t.Errorf("%s: a failed step makes it want provisioning: %s", m.Step, why)
		}
		if configure(t, tg, body("three")) == d {
			t.Error("the next step does not do it")
		}
	}
}

// TestFolderGone: a folder that cannot be written is an answer, and nothing changes.
func TestFolderGone(t *testing.T) {
	dir := folder(t)
	tg := provisioned(t, config(dir), "one")
	if err := tg.Flush(); err != nil {
		t.Fatal(err)
	}
	was := tree(t, dir)
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	a := tg.Work(t.Context(), wire.StepConfigure, encode(t, body("two")))
	if err := os.Rename(dir+"-away", dir); err != nil {
		t.Fatal(err)
	}
	if a.OK || !a.Transient || !strings.Contains(a.Error, "cannot be written") || tg.Refusals()[ReasonStorage] != 1 {
		t.Errorf("%+v", a)
	}
	if d := cmp.Diff(was, tree(t, dir)); d != "" {
		t.Error(d)
	}
}

// TestSwapStuck: a swap that can be neither made nor taken back is ended by the next step.
func TestSwapStuck(t *testing.T) {
	dir := folder(t)
	cfg := config(dir)
	stuck := false
	cfg.Point = func(p string) {
		if p == "target.swap.current.before" && stuck {
			if err := os.MkdirAll(filepath.Join(dir, currentDir, "in the way"), 0o700); err != nil {
				t.Error(err)
			}
		}
	}
	tg := provisioned(t, cfg, "one")
	stuck = true
	a := tg.Work(t.Context(), wire.StepConfigure, encode(t, body("two")))
	stuck = false
	if a.OK || !a.Transient || !strings.Contains(a.Error, "neither put in place nor taken back") {
		t.Errorf("%+v", a)
	}
	if want, _ := tg.Wants(); !want || tg.Digest() != "" {
		t.Error("it does not say that its configuration is not there")
	}
	if err := os.RemoveAll(filepath.Join(dir, currentDir)); err != nil {
		t.Fatal(err)
	}
	d := configure(t, tg, body("three"))
	if tg = reopen(t, tg, nil); tg.Digest() != d {
		t.Error("the next step does not end it")
	}
}

// TestNothingSecretIsShown: no value, key or text of a file is in a log or an answer, whatever is wrong with the body.
func TestNothingSecretIsShown(t *testing.T) {
	var out strings.Builder
	cfg := config(folder(t))
	cfg.Logger = slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tg := open(t, cfg)
	secret := "hunter2hunter2"
	keyLine := strings.Split(pairOf("leaf").key, "\n")[1]
	spoil := append([]refusedBody{{name: "good", change: func(*wire.ConfigureBody) {}}}, refusedBodies()...)
	for _, c := range spoil {
		b := body("one")
		b.Configuration["password"] = secret
		b.Files["secret"] = wire.WorkFile{Text: secret}
		b.ServerClaims = json.RawMessage(`{"token":"` + secret + `"}`)
		c.change(&b)
		a := tg.Work(t.Context(), wire.StepConfigure, encode(t, b))
		out.WriteString(a.Error + string(a.Body))
	}
	a := tg.Work(t.Context(), wire.StepConfigure, []byte(`{"key":"`+secret+`","configuration":{"a":`+"\"x\"}} trailing"))
	out.WriteString(a.Error)
	if s := out.String(); strings.Contains(s, secret) || strings.Contains(s, keyLine) || strings.Contains(s, keyLine[20:40]) {
		t.Errorf("a secret is shown:\n%s", s)
	}
}

// TestFolderIsALink: a target works in the folder that it was given, and not where a link leads.
func TestFolderIsALink(t *testing.T) {
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "provisioned")
	if err := os.Symlink(real, link); err != nil {
		t.Skipf("this account may make no links: %v", err)
	}
	if tg, err := Open(config(link)); err == nil {
		tg.Close()
		t.Error("a link is taken for the folder")
	}
}
