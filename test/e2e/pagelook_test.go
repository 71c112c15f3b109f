//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"pace-node/internal/control"
)

// Widths at which the page is looked at, CSS pixels: the narrowest phone that is sold, and a desk.
const (
	phone = 360
	desk  = 1280
)

// look sets the window's width and the colours that the person prefers.
func (b *tab) look(width int64, scheme string) {
	b.t.Helper()
	var options []chromedp.EmulateViewportOption
	height := int64(900)
	if width == phone {
		options, height = []chromedp.EmulateViewportOption{chromedp.EmulateMobile, chromedp.EmulateTouch}, 780
	}
	if err := chromedp.Do(b.ctx, chromedp.EmulateViewport(width, height, options...)); err != nil {
		b.t.Fatal(err)
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	if err != nil {
		b.t.Fatal(err)
	}
}

// fits reports what is wider than the window.
func (b *tab) fits(what string) {
	b.t.Helper()
	type box struct {
		Width, Page int
		Out         []string
	}
	got := eval[box](b, `(() => {
		const width = document.documentElement.clientWidth, out = [];
		for (const e of document.querySelectorAll('body *')) {
			const r = e.getBoundingClientRect();
			if (r.width && r.right > width + 1 && out.length < 5) out.push(e.tagName + '.' + e.className + ' ' + Math.round(r.right) + ': ' + e.textContent.slice(0, 40));
		}
		return {Width: width, Page: document.documentElement.scrollWidth, Out: out};
	})()`)
	if got.Page > got.Width || len(got.Out) > 0 {
		b.t.Errorf("%s: the page is %d pixels wide in a window of %d: %q", what, got.Page, got.Width, got.Out)
	}
}

// axe has axe-core judge the page: nothing that it calls serious or critical may be there.
func (b *tab) axe(what string) {
	b.t.Helper()
	if !eval[bool](b, "typeof axe === 'object'") {
		path := filepath.Join("..", "..", "build", "axe", "axe.min.js")
		source, err := os.ReadFile(path)
		if err != nil {
			b.t.Fatalf("%v: make build/axe/axe.min.js fetches it", err)
		}
		eval[chromedp.Void](b, string(source))
	}
	type finding struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	found := eval[[]finding](b, `axe.run(document, {resultTypes: ['violations']}).then((r) => r.violations.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help,
		Nodes: v.nodes.slice(0, 3).map((n) => ({HTML: n.html.slice(0, 200), FailureSummary: n.failureSummary}))})))`)
	for _, f := range found {
		text := fmt.Sprintf("%s: axe: %s (%s): %s", what, f.ID, f.Impact, f.Help)
		for _, n := range f.Nodes {
			text += "\n    " + n.HTML + "\n    " + n.FailureSummary
		}
		if f.Impact == "serious" || f.Impact == "critical" {
			b.t.Error(text)
		} else {
			b.t.Log(text)
		}
	}
}

// press sends keys to whatever has the focus.
func (b *tab) press(keys string) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, chromedp.KeyEvent(keys)); err != nil {
		b.t.Fatal(err)
	}
}

// focused is the label, or else the text, of what has the focus.
const focused = `(document.activeElement.getAttribute('aria-label') || document.activeElement.textContent || '').trim()`

// tabTo presses Tab until what has this label has the focus.
func (b *tab) tabTo(label string) {
	b.t.Helper()
	var passed []string
	for range 200 {
		b.press(kb.Tab)
		at := eval[string](b, focused)
		if at == label {
			return
		}
		passed = append(passed, at)
	}
	b.t.Fatalf("Tab never comes to %q; it comes to %q", label, slices.Compact(passed))
}

// button is the selector of the button of this label.
func button(label string) chromedp.CSS {
	return chromedp.CSS(`button[aria-label="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(label) + `"]`)
}

// click clicks with the mouse, once it can be clicked. What a page that is live shows moves under the mouse: a click that came
// to something else is made again.
func (b *tab) click(on chromedp.CSS) {
	b.t.Helper()
	b.waits(string(on), fmt.Sprintf("document.querySelector(%s)", quoted(string(on))))
	watch := fmt.Sprintf(`(() => { document.removeEventListener('click', window.paceWatch, true); window.paceHit = false;
		window.paceWatch = (e) => { window.paceHit ||= e.target.closest(%s) !== null; }; document.addEventListener('click', window.paceWatch, true); return true; })()`, quoted(string(on)))
	until(b.t, "a click on "+string(on), func() (bool, string) {
		if _, err := try[bool](b, watch); err != nil {
			return false, err.Error()
		}
		ctx, cancel := context.WithTimeout(b.ctx, patience/4)
		defer cancel()
		if err := chromedp.Do(ctx, chromedp.Click(on, chromedp.NodeVisible)); err != nil {
			return false, err.Error()
		}
		hit, err := try[bool](b, "window.paceWatch === undefined || window.paceHit") // undefined: it led to another page
		return hit && err == nil, fmt.Sprintf("it came to something else (%v)", err)
	})
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// shows waits until a part of the page has all words in it.
func (b *tab) shows(part string, words ...string) {
	b.t.Helper()
	list, _ := json.Marshal(words)
	b.waits(fmt.Sprintf("%q in %s", words, part), fmt.Sprintf("%s.every((w) => document.querySelector(%s).textContent.includes(w))", list, quoted(part)))
}

// pictured writes what the window shows into the folder that PACE_SCREENSHOTS names: make screenshots. part is where the window
// begins, a selector; empty where it stands.
func (b *tab) pictured(name, part string) {
	b.t.Helper()
	folder := os.Getenv("PACE_SCREENSHOTS")
	if folder == "" {
		return
	}
	if part != "" {
		eval[chromedp.Void](b, "document.querySelector("+quoted(part)+").scrollIntoView()")
	}
	shot, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		shot, err = fewerColours(shot)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, name+".png"), shot, 0o644)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// fewerColours writes a picture with the 256 colours that it has most of, each other one as the nearest of them: a third of the bytes.
func fewerColours(in []byte) ([]byte, error) {
	whole, err := png.Decode(bytes.NewReader(in))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	area := whole.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA) }
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	most := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int {
		return cmp.Or(count[b]-count[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	for _, c := range most[:min(256, len(most))] {
		palette = append(palette, c)
	}
	nearest := map[color.RGBA]uint8{}
	for c := range count {
		nearest[c] = uint8(palette.Index(c))
	}
	small := image.NewPaletted(area, palette)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			small.SetColorIndex(x, y, nearest[at(x, y)])
		}
	}
	var out bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}

// saysWhatADayHas holds that a double's busy day is on the page as it is: who follows whom, versions, when who is due, what failed,
// and who did not come.
func (b *tab) saysWhatADayHas() {
	b.t.Helper()
	// One line from each who follows to whom it follows, between the middles of their circles.
	type drawn struct{ From, To, Kind string }
	lines := eval[[]drawn](b, `(() => {
		const name = (x, y) => { for (const g of document.querySelectorAll('#picture g')) { const c = g.querySelector('circle');
			if (c.getAttribute('cx') === x && c.getAttribute('cy') === y) return g.querySelector('title').textContent.split(',')[0]; } return ''; };
		return [...document.querySelectorAll('#picture line')].map((l) => { const at = (n) => l.getAttribute(n);
			return {From: name(at('x1'), at('y1')), To: name(at('x2'), at('y2')), Kind: l.getAttribute('class')}; });
	})()`)
	var got, want []string
	for _, l := range lines {
		got = append(got, l.From+" "+l.Kind+" "+l.To)
	}
	for i := 1; i < 12; i++ {
		kind := "follow"
		if i < 3 {
			kind = "vote"
		}
		want = append(want, trees[i]+" "+kind+" "+trees[whom(i)])
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("the picture has the lines %q, want %q", got, want)
	}
	if got := eval[string](b, `[...document.querySelectorAll('#glance dt')].find((e) => e.textContent === 'Versions').nextSibling.textContent`); got != "1.4.0 (9), unknown (2), 1.5.0 (1)" {
		b.t.Errorf("the versions are said as %q", got)
	}
	// Cells by the machine and the column, as they are read.
	cell := func(table, machine, column, want string) {
		b.t.Helper()
		got := eval[string](b, fmt.Sprintf(`[...document.querySelectorAll('%s tbody tr')].find((r) => r.cells[0].textContent.startsWith(%q)).querySelector('[data-title="%s"]').textContent`, table, machine, column))
		if !regexp.MustCompile("^(?:" + want + ")$").MatchString(got) {
			b.t.Errorf("%s of %s is %q, want %s", column, machine, got, want)
		}
	}
	cell("#member-table", "larch", "Heard", "not arrived yet")
	cell("#member-table", "maple", "Heard", "never arrived")
	cell("#member-table", "birch", "Heard", "now")
	for i, state := range control.QueueStates[:len(control.QueueStates)-1] {
		stage, failed, due := "–", "–", "–"
		switch state {
		case "running":
			stage = "configure"
		case "backing off":
			stage, failed, due = "helper", "the helper ended with status 3: no profile for rack 2", "in 1m[0-9]+s|in [0-9]+s" // it counts down as the test goes on
		case "parked":
			stage, failed = "configure", "write provisioned/current: no space left on device"
		case "deferred":
			due = "in (?:10m|[0-9]m[0-9]*s?)"
		}
		for column, want := range map[string]string{"State": state, "Stage": stage, "Last error": failed, "Due": due} {
			cell("#queue-table", trees[i], column, want)
		}
	}
}

// dues holds that who is due is shown so, once the time has come.
func (b *tab) dues(d *double) {
	b.t.Helper()
	d.become(func(docs *doubleDocs) {
		entries := slices.Clone(docs.queue.Entries)
		for i := range entries {
			if entries[i].State == "deferred" {
				entries[i].DueMS = ms(0)
			}
		}
		docs.queue.Entries = entries
	})
	b.waits("that the time has come", `[...document.querySelectorAll('#queue-table tbody tr')].some((r) => r.textContent.includes('deferred') && r.querySelector('[data-title="Due"]').textContent === 'now')`)
}

func TestPageLooksRightEverywhere(t *testing.T) {
	t.Parallel()
	needChromium(t)
	l := newLAN(t, 1)
	d := &double{docs: fleetOf(12)}
	d.docs.busy()
	ticket := d.serve(t, l.hosts[0])
	b := l.hosts[0].browse(t)
	each := func(what string, widths []int64, schemes ...string) {
		for _, w := range widths {
			for _, s := range schemes {
				b.look(w, s)
				here := fmt.Sprintf("%s, %d pixels, %s", what, w, s)
				b.fits(here)
				b.axe(here)
			}
		}
	}
	b.look(desk, "light")
	b.open(pageAddress)
	b.shows("#members", "birch")
	b.shows("#waiting", "pace-node --enroll-approve=")
	each("reading only", []int64{phone}, "dark")
	b.open(ticket())
	b.waits("that changes may be made", "document.querySelector('button[aria-label=\"Approve ivy\"]')")
	if at := eval[string](b, "location.href"); at != pageAddress {
		t.Errorf("the address still holds the token: %s", at)
	}
	b.saysWhatADayHas()
	each("a busy day", []int64{phone, desk}, "dark", "light")
	b.pictured("desk", "header")
	b.pictured("members", "#h-members")
	b.look(phone, "dark")
	b.pictured("phone", "#h-waiting")
	b.click(button("Approve ivy"))
	b.shows("#sure", keyOf(8))
	each("a question", []int64{phone}, "light", "dark")
	b.pictured("question", "")
	b.press(kb.Escape)
	b.waits("that the question is gone", "!document.querySelector('#sure').open")
	if got := d.asked(); len(got) > 0 {
		t.Errorf("Escape did %q", got)
	}
	b.dues(d)
	d.become(func(docs *doubleDocs) { *docs = fleetOf(1) })
	b.shows("#conditions", "none is raised")
	each("a fleet of one", []int64{phone}, "light")
	if got := b.reached(); !slices.Equal(got, []string{"127.0.0.1:6690"}) {
		t.Errorf("the page opened connections to %q", got)
	}
}

func TestPageByKeyboardAlone(t *testing.T) {
	t.Parallel()
	needChromium(t)
	l := newLAN(t, 1)
	d := &double{docs: fleetOf(12)}
	d.docs.busy()
	ticket := d.serve(t, l.hosts[0])
	b := l.hosts[0].browse(t)
	b.open(ticket())
	b.waits("that changes may be made", "document.querySelector('button[aria-label=\"Approve ivy\"]')")
	b.press(kb.Tab)
	if at := eval[string](b, focused); !strings.Contains(at, "Skip") {
		t.Errorf("the first stop is %q", at)
	}
	b.tabTo("Approve ivy")
	// Another machine asks meanwhile: the focus stays where it is.
	d.become(func(docs *doubleDocs) {
		docs.waiting.Rows = append([]control.EnrollRow{{Decision: control.DecisionWaiting, ID: idOf(10), Key: keyOf(10), Name: "larch", Endpoint: "192.0.2.11:6674", Source: "192.0.2.11"}}, docs.waiting.Rows...)
	})
	b.shows("#waiting", "larch")
	if at := eval[string](b, focused); at != "Approve ivy" {
		t.Errorf("when another machine asked the focus went to %q", at)
	}
	b.press(kb.Enter)
	b.shows("#sure", "ivy", keyOf(8))
	if at := eval[string](b, focused); at != "Cancel" {
		t.Errorf("a question begins at %q", at)
	}
	b.press(kb.Enter)
	b.waits("that the question is gone", "!document.querySelector('#sure').open")
	b.waits("where one was before it", focused+" === 'Approve ivy'")
	if len(d.asked()) > 0 {
		t.Errorf("after no the node was asked %q", d.asked())
	}
	// A question that is put in the moment in which another is closed keeps its words.
	if got := eval[string](b, `new Promise((done) => {
		const approve = document.querySelector('button[aria-label="Approve ivy"]'), sure = document.querySelector('#sure');
		sure.addEventListener('close', () => { const text = sure.textContent; sure.addEventListener('close', () => done(text), {once: true}); sure.close('no'); }, {once: true});
		approve.click(); sure.close('no'); approve.click();
	})`); !strings.Contains(got, keyOf(8)) {
		t.Errorf("the question has become %q", got)
	}
	b.waits("that the question is gone", "!document.querySelector('#sure').open")
	b.waits("where one was before", focused+" === 'Approve ivy'")
	b.press(kb.Enter)
	b.shows("#sure", keyOf(8))
	b.press(kb.Tab)
	b.press(kb.Enter)
	b.shows("#said", "is admitted")
	if got := d.asked(); len(got) != 1 || !strings.HasSuffix(got[0], idOf(8)) {
		t.Errorf("the node was asked %q", got)
	}
	b.waits("that ivy is approved", `[...document.querySelectorAll('#waiting article')].some((a) => a.textContent.includes('ivy') && a.textContent.includes('approved'))`)
	b.waits("where one is after the button has gone", focused+`.includes('ivy')`)
	// On to a machine that is parked, tried again from the keyboard.
	b.tabTo("Retry " + treeOf(5) + " now")
	b.press(" ")
	b.shows("#said", "retry of "+idOf(5))
}

func TestPageWithAThousandMembers(t *testing.T) {
	t.Parallel()
	needChromium(t)
	l := newLAN(t, 1)
	d := &double{docs: fleetOf(1000)}
	d.serve(t, l.hosts[0])
	b := l.hosts[0].browse(t)
	b.look(desk, "light")
	b.open(pageAddress)
	b.shows("#glance", "1000", "997")
	b.shows("#members", "100 of 1000")
	b.waits("a picture of all of them", "document.querySelectorAll('#picture circle').length === 1000")
	b.axe("a thousand machines")
	b.look(phone, "dark")
	b.fits("a thousand machines on a phone")
	last := treeOf(997)
	if err := chromedp.Do(b.ctx, chromedp.SendKeys(chromedp.CSS("#filter"), last, chromedp.NodeVisible)); err != nil {
		t.Fatal(err)
	}
	b.shows("#members", "1 machine")
	b.waits("the one that was looked for", "document.querySelectorAll('#members tbody tr').length === 1")
	b.shows("#members tbody", last, idOf(997), "provisioned")
	// One of a thousand changes: it is shown without the page being loaded again.
	d.become(func(docs *doubleDocs) {
		members := slices.Clone(docs.fleet.Members)
		for i := range members {
			if members[i].Name == last {
				members[i].Provisioning = "backing off"
			}
		}
		docs.fleet.Members = members
	})
	b.shows("#members tbody", last, "backing off")
}
