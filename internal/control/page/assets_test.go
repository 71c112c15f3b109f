package page

import (
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"strings"
	"testing"

	"pace-node/internal/control"
)

// TestAssetsObeyThePolicy: nothing from outside, no script or style inside the page, no markup made of text.
func TestAssetsObeyThePolicy(t *testing.T) {
	p := newPage(t, &fakeNode{})
	b := &browser{p: p}
	forbidden := map[string][]string{
		".html": {`<script>`, `<style`, `\sstyle=`, `\son[a-z]+=`, `https?://`, `<base`, `<iframe`, `javascript:`, `src="//`},
		".js":   {`innerHTML`, `outerHTML`, `insertAdjacentHTML`, `document\.write`, `\beval\(`, `new Function`, `setAttribute\('style'`, `\.cssText`, `createContextualFragment`, `DOMParser`, `https?://[^w]`, `import\(`},
		".css":  {`@import`, `url\(`, `https?://`},
		".svg":  {`<script`, `\son[a-z]+=`, `href=`, `<foreignObject`},
	}
	files, err := fs.ReadDir(assets, "assets")
	if err != nil || len(files) < 4 {
		t.Fatalf("%v: %d files", err, len(files))
	}
	for _, f := range files {
		name := f.Name()
		w := b.ask(http.MethodGet, "/"+name, "")
		if w.Code != 200 || w.Header().Get("Content-Type") != types[path.Ext(name)] || w.Body.Len() == 0 {
			t.Errorf("%s: %d %s", name, w.Code, w.Header().Get("Content-Type"))
		}
		if _, known := forbidden[path.Ext(name)]; !known {
			t.Errorf("%s: nothing is known of such files", name)
		}
		for _, pattern := range forbidden[path.Ext(name)] {
			if m := regexp.MustCompile(pattern).FindString(w.Body.String()); m != "" {
				t.Errorf("%s holds %q", name, m)
			}
		}
	}
}

// TestHeaders: at every path, refused or not.
func TestHeaders(t *testing.T) {
	p := newPage(t, &fakeNode{})
	b := onLoopback(&browser{p: p})
	for _, c := range []struct {
		path   string
		status int
	}{{"/", 200}, {"/page.js", 200}, {"/nothing", 404}, {"/assets/page.js", 404}, {"/../page.go", 404}, {"/api/v1/fleet", 200}, {"/api/v1/none", 404}, {"/api/", 404}} {
		w := b.ask(http.MethodGet, c.path, "")
		if w.Code != c.status {
			t.Errorf("%s: %d", c.path, w.Code)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Frame-Options":         "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", c.path, name, got)
			}
		}
		if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("%s: other origins may read it: %q", c.path, got)
		}
	}
}

// TestHostileText: P40. What a machine says of itself is data in every answer: JSON under its own type, with nothing in it that
// a page, a shell or a terminal would act on.
func TestHostileText(t *testing.T) {
	const hostile = "<img src=x onerror=document.title='owned'>\"'><b>$(touch pwned)\u202e\x1b[31m"
	f := &fakeNode{fleet: control.ClusterStatus{V: 1, Members: []control.MemberStatus{{ID: idA, Name: hostile, Platform: hostile, Version: hostile, Provisioning: hostile, Labels: map[string]string{hostile: hostile}}}},
		waiting: control.EnrollList{V: 1, Rows: []control.EnrollRow{{Decision: control.DecisionWaiting, ID: hostile, Key: keyA, Name: hostile, Endpoint: hostile, Version: hostile}}}}
	p := newPage(t, f)
	b := onLoopback(&browser{p: p})
	for _, path := range []string{"/api/v1/fleet", "/api/v1/waiting"} {
		w := b.ask(http.MethodGet, path, "")
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if i := strings.IndexAny(w.Body.String(), "<>&'$`\x1b\u202e"); i >= 0 {
			t.Errorf("%s: %q", path, w.Body.String()[i:])
		}
	}
	rows := read[control.EnrollList](t, b.ask(http.MethodGet, "/api/v1/waiting", "")).Rows
	if rows[0].Name != hostile || rows[0].Approve != "" {
		t.Errorf("%+v", rows[0]) // the text itself arrives, and no command with it
	}
}
