package release

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lab is a signed repository of version 1.2 for two systems.
type lab struct {
	root   string
	public PublicKey
	secret SecretKey
	bytes  map[string]string // by platform
}

func newLab(t *testing.T) *lab {
	t.Helper()
	public, secret, _, err := NewKey("")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{root: t.TempDir(), public: public, bytes: map[string]string{"linux-amd64": "the program", "windows-arm64": "another"}}
	if l.secret, err = ParseSecretKey("", secret); err != nil {
		t.Fatal(err)
	}
	l.add(t, "1.2")
	return l
}

func (l *lab) add(t *testing.T, version string) string {
	t.Helper()
	programs := map[string]string{}
	for platform, content := range l.bytes {
		file := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		programs[platform] = file
	}
	folder, err := New(l.root, version, programs)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Sign(l.root, version, l.secret); err != nil {
		t.Fatal(err)
	}
	return folder
}

// both runs a test over the folder and over http.
func both(t *testing.T, l *lab, test func(t *testing.T, r *Repository)) {
	t.Run("folder", func(t *testing.T) {
		r, err := ParseRepository(l.root)
		if err != nil {
			t.Fatal(err)
		}
		test(t, r)
	})
	t.Run("http", func(t *testing.T) {
		srv := httptest.NewServer(http.FileServer(http.Dir(l.root)))
		defer srv.Close()
		r, err := ParseRepository(srv.URL + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		test(t, r)
	})
}

func TestFetchesWhatWasSigned(t *testing.T) {
	l := newLab(t)
	l.add(t, "1:1.3~rc1+x^y")
	both(t, l, func(t *testing.T, r *Repository) {
		for _, version := range []string{"1.2", "1:1.3~rc1+x^y"} {
			for platform, want := range l.bytes {
				var got bytes.Buffer
				f, err := r.Fetch(t.Context(), l.public, version, platform, &got)
				if err != nil || got.String() != want || f.Size != int64(len(want)) {
					t.Errorf("%s %s: %q, %v, %v", version, platform, got.String(), f, err)
				}
			}
			if m, err := r.Verify(t.Context(), l.public, version); err != nil || m.Version != version || len(m.Files) != 2 {
				t.Errorf("%s: %v, %v", version, m, err)
			}
		}
	})
}

func TestRefusesWhatWasNotSigned(t *testing.T) {
	other := newLab(t)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, l *lab, folder string)
		want  error
	}{
		"no signature":       {func(t *testing.T, l *lab, d string) { remove(t, d, SignatureName) }, ErrSignature},
		"no manifest":        {func(t *testing.T, l *lab, d string) { remove(t, d, ManifestName) }, ErrNotFound},
		"no program":         {func(t *testing.T, l *lab, d string) { remove(t, d, "linux-amd64", "pace-node") }, ErrNotFound},
		"another key":        {func(t *testing.T, l *lab, d string) { l.public = other.public }, ErrSignature},
		"an altered program": {func(t *testing.T, l *lab, d string) { put(t, "the Program", d, "linux-amd64", "pace-node") }, ErrDigest},
		"a longer program":   {func(t *testing.T, l *lab, d string) { put(t, "the program.", d, "linux-amd64", "pace-node") }, ErrDigest},
		"a shorter program":  {func(t *testing.T, l *lab, d string) { put(t, "the progra", d, "linux-amd64", "pace-node") }, ErrDigest},
		"an empty signature": {func(t *testing.T, l *lab, d string) { put(t, "", d, SignatureName) }, ErrSignature},
		"a huge signature":   {func(t *testing.T, l *lab, d string) { put(t, strings.Repeat("x", MaxSignature+1), d, SignatureName) }, ErrRepository},
		"a huge manifest":    {func(t *testing.T, l *lab, d string) { put(t, strings.Repeat(" ", MaxManifest+1), d, ManifestName) }, ErrRepository},
		"an older under a newer name": {func(t *testing.T, l *lab, d string) {
			if err := os.Rename(l.add(t, "1.1"), filepath.Join(l.root, "gone")); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(os.RemoveAll(d), os.Rename(filepath.Join(l.root, "gone"), d)); err != nil {
				t.Fatal(err)
			}
		}, ErrManifest},
		"a folder for a program": {func(t *testing.T, l *lab, d string) {
			remove(t, d, "linux-amd64", "pace-node")
			if err := os.Mkdir(filepath.Join(d, "linux-amd64", "pace-node"), 0o755); err != nil {
				t.Fatal(err)
			}
		}, ErrRepository},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			c.spoil(t, l, filepath.Join(l.root, "1.2"))
			r, err := ParseRepository(l.root)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if _, err := r.Fetch(t.Context(), l.public, "1.2", "linux-amd64", &got); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestRefusesEachFlippedBit flips a bit of each byte of the manifest and of what is signed in the signature file.
func TestRefusesEachFlippedBit(t *testing.T) {
	l := newLab(t)
	manifest, err1 := os.ReadFile(filepath.Join(l.root, "1.2", ManifestName))
	signature, err2 := os.ReadFile(filepath.Join(l.root, "1.2", SignatureName))
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if _, err := l.public.Verify(manifest, signature); err != nil {
		t.Fatal(err)
	}
	for i := range manifest {
		b := bytes.Clone(manifest)
		b[i] ^= 1
		if _, err := l.public.Verify(b, signature); !errors.Is(err, ErrSignature) {
			t.Fatalf("byte %d of the manifest: %v", i, err)
		}
	}
	signed := bytes.IndexByte(signature, '\n') + 1 // the first line is the untrusted comment
	for i := signed; i < len(signature); i++ {
		b := bytes.Clone(signature)
		b[i] ^= 4
		if i+1 < len(signature) && (signature[i+1] == '=' || signature[i] == '=') || signature[i] == '\n' {
			continue // bits that base64 drops, or a line's end
		}
		if m, err := l.public.Verify(manifest, b); err == nil {
			t.Fatalf("byte %d of the signature (%q) taken as %q: %v", i, signature[i], b[i], m)
		}
	}
}

func TestDebiansMinisignVerifies(t *testing.T) {
	program, err := exec.LookPath("minisign")
	if err != nil {
		t.Skip("Debian's minisign is not installed: its own check of a release's signature is not run here")
	}
	l := newLab(t)
	folder := filepath.Join(l.root, "1.2")
	pub := filepath.Join(t.TempDir(), "key.pub")
	put(t, string(l.public.file()), pub)
	out, err := exec.Command(program, "-V", "-p", pub, "-m", filepath.Join(folder, ManifestName)).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "pace-node 1.2") {
		t.Fatalf("%v\n%s", err, out)
	}
	put(t, "{}", folder, ManifestName)
	if out, err := exec.Command(program, "-V", "-p", pub, "-m", filepath.Join(folder, ManifestName)).CombinedOutput(); err == nil {
		t.Fatalf("an altered manifest passed: %s", out)
	}

	// And the other way round: a key that minisign made, and its signature, are read here.
	key := filepath.Join(t.TempDir(), "theirs")
	if out, err := exec.Command(program, "-G", "-W", "-p", key+".pub", "-s", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	secret, err1 := os.ReadFile(key)
	public, err2 := os.ReadFile(key + ".pub")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	k, err := ParsePublicKey(string(public))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSecretKey("", secret)
	if err != nil || !s.Public().Equal(k) {
		t.Fatal(err)
	}
	m, err := Sign(l.root, "1.2", s)
	if err != nil || len(m.Files) != 2 {
		t.Fatal(m, err)
	}
	if out, err := exec.Command(program, "-S", "-s", key, "-m", filepath.Join(folder, ManifestName)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r, _ := ParseRepository(l.root)
	if _, err := r.Verify(t.Context(), k, "1.2"); err != nil {
		t.Fatal(err)
	}
}

func TestNewNeverChangesAVersion(t *testing.T) {
	l := newLab(t)
	program := filepath.Join(t.TempDir(), "p")
	put(t, "x", program)
	before := listing(t, l.root)
	for name, call := range map[string]func() error{
		"again":       func() error { _, err := New(l.root, "1.2", map[string]string{"linux-amd64": program}); return err },
		"no version":  func() error { _, err := New(l.root, "../1", map[string]string{"linux-amd64": program}); return err },
		"no platform": func() error { _, err := New(l.root, "2", map[string]string{"linux": program}); return err },
		"no programs": func() error { _, err := New(l.root, "2", nil); return err },
		"no file": func() error {
			_, err := New(l.root, "2", map[string]string{"linux-amd64": program, "linux-arm64": program + "x"})
			return err
		},
		"key there": func() error { _, err := WriteKey(program, ""); return err },
	} {
		if err := call(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	if after := listing(t, l.root); !slices.Equal(before, after) {
		t.Errorf("something was left behind: %q, before %q", after, before)
	}
}

func TestSignRefusesWhatIsNoProgram(t *testing.T) {
	l := newLab(t)
	put(t, "x", l.root, "1.2", "linux-amd64", "notes.txt")
	if _, err := Sign(l.root, "1.2", l.secret); !errors.Is(err, ErrManifest) {
		t.Errorf("got %v", err)
	}
	if _, err := Sign(l.root, "9", l.secret); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestParseRepository(t *testing.T) {
	for address, want := range map[string]bool{
		"/srv/releases": true, "http://repo/x": true, "https://repo:8443": true, "": false, "releases": false, "file:///srv": false,
		"ftp://repo": false, "http://": false, "http://a:b@repo": false, "http://repo?x=y": false, "http://repo#x": false,
	} {
		r, err := ParseRepository(address)
		if (err == nil) != want {
			t.Errorf("%q: %v", address, err)
		}
		if err != nil && (!errors.Is(err, ErrRepository) || strings.Contains(err.Error(), "a:b")) {
			t.Errorf("%q: %v", address, err)
		}
		if r != nil {
			r.Close()
		}
	}
}

func TestHTTPIsBounded(t *testing.T) {
	l := newLab(t)
	plain := httptest.NewServer(http.FileServer(http.Dir(l.root)))
	defer plain.Close()
	mux := http.NewServeMux()
	mux.Handle("/loop/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path, http.StatusFound) }))
	mux.Handle("/error/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusForbidden) }))
	mux.Handle("/down/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+strings.TrimPrefix(r.URL.Path, "/down"), http.StatusFound)
	}))
	srv := httptest.NewTLSServer(mux)
	defer srv.Close()
	for path, want := range map[string]string{"/loop": "sent on more", "/error": "403", "/down": "from https to http"} {
		r, err := ParseRepository(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		r.client.Transport = srv.Client().Transport
		if _, err := r.Manifest(t.Context(), l.public, "1.2"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
		r.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ := ParseRepository(l.root)
	if _, err := r.Fetch(ctx, l.public, "1.2", "linux-amd64", &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	digest := strings.Repeat("ab", 32)
	file := `{"path":"linux-amd64/pace-node","size":1,"sha256":"` + digest + `"}`
	if _, err := ParseManifest([]byte(`{"v":1,"version":"1","files":[` + file + `]}`)); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"not JSON":      `{`,
		"two documents": `{"v":1,"version":"1","files":[` + file + `]}{}`,
		"unknown key":   `{"v":1,"version":"1","files":[` + file + `],"x":1}`,
		"another form":  `{"v":2,"version":"1","files":[` + file + `]}`,
		"no version":    `{"v":1,"version":"","files":[` + file + `]}`,
		"no files":      `{"v":1,"version":"1","files":[]}`,
		"twice":         `{"v":1,"version":"1","files":[` + file + `,` + file + `]}`,
		"a way out":     `{"v":1,"version":"1","files":[` + strings.Replace(file, "linux-amd64/pace-node", "../pace-node", 1) + `]}`,
		"another name":  `{"v":1,"version":"1","files":[` + strings.Replace(file, "/pace-node", "/sh", 1) + `]}`,
		"no size":       `{"v":1,"version":"1","files":[` + strings.Replace(file, `"size":1`, `"size":0`, 1) + `]}`,
		"too large":     `{"v":1,"version":"1","files":[` + strings.Replace(file, `"size":1`, `"size":209715201`, 1) + `]}`,
		"short digest":  `{"v":1,"version":"1","files":[` + strings.Replace(file, "abab", "", 1) + `]}`,
		"upper digest":  `{"v":1,"version":"1","files":[` + strings.Replace(file, "abab", "ABAB", 1) + `]}`,
	} {
		if _, err := ParseManifest([]byte(text)); !errors.Is(err, ErrManifest) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"v":1,"version":"1","files":[{"path":"linux-amd64/pace-node","size":1,"sha256":"` + strings.Repeat("ab", 32) + `"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseManifest(b)
		if err != nil {
			return
		}
		again, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if n, err := ParseManifest(again); err != nil || n.Version != m.Version || !slices.Equal(n.Files, m.Files) {
			t.Fatal(n, err)
		}
	})
}

func FuzzParsePublicKey(f *testing.F) {
	f.Add("RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3")
	f.Fuzz(func(t *testing.T, text string) {
		if k, err := ParsePublicKey(text); err == nil {
			if again, err := ParsePublicKey(k.String()); err != nil || !again.Equal(k) {
				t.Fatal(again, err)
			}
		}
	})
}

func put(t *testing.T, content string, parts ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(parts...), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, parts ...string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(parts...)); err != nil {
		t.Fatal(err)
	}
}

func listing(t *testing.T, root string) []string {
	t.Helper()
	names := map[string]bool{}
	if err := filepath.Walk(root, func(path string, _ os.FileInfo, err error) error { names[path] = true; return err }); err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(names))
}
