package control

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Sizes of a picture.
const (
	screenColumns = 80 // where the terminal does not say
	screenRows    = 24
	leastColumns  = 20
	leastRows     = 6
	shortID       = 12 // characters of an id: a prefix that is unique in any fleet, and that every word takes
	nameColumn    = 16
)

// What a terminal is told.
const (
	toOther  = "\x1b[?1049h\x1b[?25l" // another screen, so that what was there comes back; no cursor
	toFirst  = "\x1b[?25h\x1b[?1049l"
	toHome   = "\x1b[H"
	clearEnd = "\x1b[K"
	clearAll = "\x1b[J"
	plain    = "\x1b[0m"
)

// colours is how a line of some tone is shown.
var colours = map[tone]string{toneHead: "\x1b[1m", toneNotice: "\x1b[36m", toneWarning: "\x1b[33m", toneAlert: "\x1b[1;31m", toneGood: "\x1b[32m", toneOld: "\x1b[2m"}

// tone is what a line is about; its words say the same.
type tone uint8

const (
	tonePlain tone = iota
	toneHead
	toneNotice
	toneWarning
	toneAlert
	toneGood
	toneOld
)

// row is one line of a picture.
type row struct {
	text string // escaped, without a line end
	tone tone
	// joined: it goes on where the row before ended, at the terminal's edge. The terminal wraps there by itself, so that who
	// copies the two has one line.
	joined bool
	full   bool // it is not cut, though it reaches the edge
}

func toned(text string, t tone) row { return row{text: text, tone: t} }

// whole is a text that must not be cut, in as many rows as it needs.
func whole(text string, columns int) []row {
	if width(text) < columns {
		return []row{{text: text}}
	}
	var out []row
	for text != "" {
		used, at := 0, len(text)
		for i, r := range text {
			if used += runeWidth(r); used > columns {
				at = i
				break
			}
		}
		out = append(out, row{text: text[:at], joined: len(out) > 0, full: true})
		text = text[at:]
	}
	return out
}

// screen draws pictures over one another.
type screen struct {
	out  io.Writer
	term *Terminal
}

func (s *screen) begin() error {
	_, err := io.WriteString(s.out, toOther+toHome+clearAll)
	return err
}

func (s *screen) end() { io.WriteString(s.out, toFirst) }

// draw writes one picture in one write, so that a slow line shows it whole.
func (s *screen) draw(w *watched, now time.Time) error {
	columns, rows := s.term.Size()
	if columns <= 0 || rows <= 0 {
		columns, rows = screenColumns, screenRows
	}
	var b strings.Builder
	b.WriteString(toHome)
	columns = max(columns, leastColumns)
	all := picture(w, now, columns, max(rows, leastRows))
	for i, r := range all {
		if i > 0 && !r.joined {
			b.WriteString("\r\n")
		}
		if r.full { // as it is; clearing behind a full row would take its last letter away
			b.WriteString(r.text)
			if width(r.text) < columns {
				b.WriteString(clearEnd)
			}
			continue
		}
		// The last column stays free: a terminal that is there wraps, and clearing to the end would take the letter away.
		text := cutTo(r.text, columns-1)
		if c := colours[r.tone]; s.term.Colour && c != "" {
			text = c + text + plain
		}
		b.WriteString(text + clearEnd)
	}
	b.WriteString(clearAll)
	_, err := io.WriteString(s.out, b.String())
	return err
}

// part is a part of a picture: its heading, its lines, and how many it is given where there is not room for all.
type part struct {
	head  row
	rows  []row
	share int // of the rows that are left, in twelfths
	last  bool
}

// picture is what a terminal of that size shows. Whatever has no room is counted.
func picture(w *watched, now time.Time, columns, rows int) []row {
	d := &w.doc
	out := []row{toned(fmt.Sprintf("fleet %s  leader %s  revision %d", Word(d.Cluster), machineText(d.Leader), d.View.Revision), toneHead)}
	state := row{text: "seen from " + machineText(&d.Node) + ": " + viewText(d.View), tone: tonePlain}
	switch {
	case w.failed != nil:
		state = toned(fmt.Sprintf("SILENT since %s: this is what was so then: %s", span(now.Sub(w.at).Milliseconds()), Sentence(w.failed.Reason)), toneAlert)
	case d.View.LeaderSilentMS > 0:
		state.tone = toneAlert
	}
	out = append(out, state)
	if d.View.VotersTotal > 1 {
		r := toned(fmt.Sprintf("voters %d of %d heard", d.View.VotersHeard, d.View.VotersTotal), tonePlain)
		if d.View.VotersHeard < d.View.VotersTotal {
			r.tone = toneWarning
		}
		out = append(out, r)
	}
	if d.Partial != "" {
		out = append(out, row{text: "note: " + Sentence(d.Partial), tone: toneNotice})
	}
	parts := []part{conditionPart(d, columns), waitingPart(d), queuePart(d), memberPart(d), eventPart(w.events)}
	left := rows - len(out)
	for i := range parts {
		if parts[i].head.text != "" {
			left--
		}
	}
	for i, room := range shared(parts, left) {
		p := &parts[i]
		if p.head.text == "" {
			continue
		}
		shown := upTo(p.rows, room)
		if p.last {
			shown = p.rows[len(p.rows)-len(shown):]
		} else if hidden := lineCount(p.rows[len(shown):]); hidden > 0 {
			p.head.text += fmt.Sprintf("  (%d more)", hidden)
		}
		out = append(append(out, p.head), shown...)
	}
	return upTo(out, rows)
}

// upTo returns at most n rows, and no part of a line that has more: half of a line to paste is worse than none.
func upTo(rows []row, n int) []row {
	n = min(max(n, 0), len(rows))
	for n > 0 && n < len(rows) && rows[n].joined {
		n--
	}
	return rows[:n]
}

// shared gives each part its room: each its share, and what one does not need to the others in their order.
func shared(parts []part, left int) []int {
	room := make([]int, len(parts))
	free := max(left, 0)
	for i, p := range parts {
		room[i] = min(len(p.rows), max(left, 0)*p.share/12, free)
		free -= room[i]
	}
	for i, p := range parts {
		more := min(len(p.rows)-room[i], free)
		room[i] += more
		free -= more
	}
	return room
}

// lineCount counts lines, of which each may have several rows.
func lineCount(rows []row) (n int) {
	for _, r := range rows {
		if !r.joined {
			n++
		}
	}
	return n
}

func conditionPart(d *WatchStatus, columns int) part {
	p := part{share: 4} // more than the others: it is what a person is to do
	if len(d.Conditions) == 0 {
		return p
	}
	p.head = row{text: "CONDITIONS", tone: toneHead}
	for _, c := range d.Conditions {
		p.rows = append(p.rows, toned(conditionText(c), severityTone(c.Severity)))
		if c.Remedy != "" {
			p.rows = append(p.rows, whole("  "+remedyName(c.Remedy)+" "+Sentence(c.Remedy), columns)...)
		}
	}
	return p
}

func waitingPart(d *WatchStatus) part {
	p := part{share: 2}
	armed := ""
	if d.Window.Armed {
		armed = fmt.Sprintf("  auto-approve, %d min left", minutesLeft(d.Window.LeftMS))
	}
	if len(d.Waiting) == 0 && armed == "" {
		return p
	}
	p.head = toned(countText(len(d.Waiting), "machine waits", "machines wait")+armed+"  (pacectl enroll list)", toneHead)
	for _, r := range d.Waiting {
		p.rows = append(p.rows, toned(columnsOf(column{Word(r.Name), nameColumn}, column{short(r.ID), shortID}, column{span(r.AgeMS), 6}, column{Word(r.Source), 0}), toneWarning),
			row{text: "  key " + Word(r.Key), tone: tonePlain})
	}
	return p
}

func queuePart(d *WatchStatus) part {
	p := part{share: 2}
	text := "QUEUE running"
	if d.Queue.Paused {
		text = "QUEUE paused " + Sentence(d.Queue.Why)
	}
	var counts []string
	for _, s := range QueueStates {
		if n := d.Queue.States[s]; n > 0 {
			counts = append(counts, strconv.Itoa(n)+" "+s)
		}
	}
	if len(counts) > 0 {
		text += "  " + strings.Join(counts, ", ")
	}
	p.head = toned(text, toneHead)
	for i := range d.Queue.Entries {
		e := &d.Queue.Entries[i]
		if e.State == "confirmed" || e.State == "none" {
			continue
		}
		due := nothing
		if e.DueMS != nil {
			due = dueText(*e.DueMS, "in ")
		}
		r := toned(columnsOf(column{Word(strings.ReplaceAll(e.State, " ", "-")), 11}, column{Word(e.Name), nameColumn}, column{short(e.ID), shortID},
			column{Word(e.Stage), 9}, column{"try " + strconv.Itoa(e.Attempt), 6}, column{due, 8}, column{Sentence(e.LastError), 0}), tonePlain)
		if e.LastError != "" {
			r.tone = toneWarning
		}
		p.rows = append(p.rows, r)
	}
	return p
}

func memberPart(d *WatchStatus) part {
	p := part{share: 3}
	var counts []string
	total := 0
	for _, role := range []string{"voter", "learner", "voter-pending", "leaving"} {
		if n := d.Roles[role]; n > 0 {
			counts = append(counts, countText(n, role, role+"s"))
			total += n
		}
	}
	text := "MEMBERS " + strings.Join(counts, ", ")
	if total > len(d.Members) {
		text += fmt.Sprintf("  (%d of them here)", len(d.Members))
	}
	p.head = toned(text, toneHead)
	for i := range d.Members {
		m := &d.Members[i]
		provisioning, _, _ := strings.Cut(m.Provisioning, ":")
		r := toned(columnsOf(column{Word(m.Name), nameColumn}, column{short(m.ID), shortID}, column{Word(m.Role), 7}, column{"heard " + m.heardText(), 12},
			column{Word(provisioning), 11}, column{Word(m.Version), 12}, column{Word(m.Endpoints.FC), 0}), tonePlain)
		if m.HeardMS == nil || *m.HeardMS > silentNotReady.Milliseconds() || provisioning == "parked" || provisioning == "failing" {
			r.tone = toneWarning
		}
		p.rows = append(p.rows, r)
	}
	return p
}

// eventPart shows the newest below: what is in reading order ends with what just happened.
func eventPart(events []Event) part {
	p := part{head: row{text: "EVENTS", tone: toneHead}, share: 3, last: true}
	for i := range events {
		e := &events[i]
		columns := []column{{time.Unix(e.At, 0).Format(time.TimeOnly), 8}, {Word(e.Kind), 9}, {Word(e.What), 11}}
		switch {
		case e.Name != "":
			columns = append(columns, column{Word(e.Name), nameColumn})
		case e.ID != "":
			columns = append(columns, column{short(e.ID), nameColumn})
		}
		p.rows = append(p.rows, toned(columnsOf(append(columns, column{e.detail(), 0})...), eventTone(e)))
	}
	return p
}

func eventTone(e *Event) tone {
	switch {
	case e.What == "cleared" || e.What == "provisioned":
		return toneGood
	case e.Kind == eventWatch && e.What == "silent":
		return toneAlert
	}
	return severityTone(e.Severity)
}

func severityTone(s string) tone {
	switch s {
	case Notice.String():
		return toneNotice
	case Warning.String():
		return toneWarning
	case Alert.String():
		return toneAlert
	}
	return tonePlain
}

func machineText(m *Machine) string {
	switch {
	case m == nil:
		return "none"
	case m.Name != "":
		return cutTo(Word(m.Name), nameColumn)
	}
	return short(m.ID)
}

// short is the beginning of an id, which every word takes in the place of the whole.
func short(id string) string {
	w := Word(id)
	return strings.ToValidUTF8(w[:min(len(w), shortID)], "") // an id has one byte a letter; what is none may be cut anywhere
}

// column is a text and the columns that it takes; 0: what is left.
type column struct {
	text  string
	width int
}

// columnsOf lines columns up, two of which a space parts. A text that is too long is cut, and says so.
func columnsOf(all ...column) string {
	var b strings.Builder
	for i, c := range all {
		if i > 0 {
			b.WriteByte(' ')
		}
		text := c.text
		if c.width > 0 {
			text = cutTo(text, c.width)
		}
		b.WriteString(text)
		if c.width > 0 && i < len(all)-1 {
			b.WriteString(strings.Repeat(" ", max(c.width-width(text), 0)))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// cut is what a text that was cut ends in.
const cutMark = "~"

// cutTo returns at most so many columns of a text.
func cutTo(s string, most int) string {
	if width(s) <= most {
		return s
	}
	used := 0
	for i, r := range s {
		if used+runeWidth(r) > most-len(cutMark) {
			return s[:i] + cutMark
		}
		used += runeWidth(r)
	}
	return s
}

// width is how many columns a text takes.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

// wide are the scripts whose letters take two columns.
var wide = []*unicode.RangeTable{unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Yi}

func runeWidth(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0xff01 && r <= 0xff60, slices.ContainsFunc(wide, func(t *unicode.RangeTable) bool { return unicode.Is(t, r) }):
		return 2
	}
	return 1
}
