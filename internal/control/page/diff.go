package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Ages grow by themselves: a document of which nothing but its ages has grown, as much as time has passed, is the same one.
// A page counts them on by itself. So each member whose name ends in _ms is compared as the moment that it stands for.

// ageSlack is by how much such a moment may move and be the same, milliseconds.
const ageSlack = 1500

// ages are the members that are not elapsed time, or move more than others; all other _ms are elapsed.
var ages = map[string]struct {
	left  bool    // what is left until a moment
	slack float64 // 0 = ageSlack
}{
	"due_ms":  {left: true},
	"left_ms": {left: true},
	// The age of a learner's picture starts anew with each heartbeat.
	"as_of_ms": {slack: 15_000},
	// Spans that do not grow.
	"took_ms": {slack: -1}, "life_ms": {slack: -1}, "for_ms": {slack: -1},
}

// same reports whether b, made passed milliseconds after a, says the same.
func same(name string, a, b any, passed float64) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for k, v := range x {
			w, ok := y[k]
			if !ok || !same(k, v, w, passed) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, func(v, w any) bool { return same("", v, w, passed) })
	case float64:
		y, ok := b.(float64)
		switch {
		case !ok:
			return false
		case x == y && (x == 0 || !strings.HasSuffix(name, "_ms")):
			return true // 0: now, however long it stays so
		case !strings.HasSuffix(name, "_ms") || x == 0 || y == 0:
			return false
		}
		row := ages[name]
		if row.slack < 0 {
			return x == y
		}
		if row.slack == 0 {
			row.slack = ageSlack
		}
		moved := y - x - passed
		if row.left {
			moved = y - x + passed
		}
		return moved <= row.slack && moved >= -row.slack
	}
	return a == b
}

// picture is a document taken apart: its rows, and what stands beside them.
type picture struct {
	head map[string]any
	rows map[string]any
	keys []string // of the rows, in the document's order
}

// take takes a document apart.
func take(kind docKind, doc json.RawMessage) (picture, error) {
	p := picture{rows: map[string]any{}}
	if err := json.Unmarshal(doc, &p.head); err != nil {
		return picture{}, err
	}
	list, _ := p.head[kind.List].([]any)
	if kind.List == "" || list == nil {
		return p, nil
	}
	delete(p.head, kind.List)
	for _, row := range list {
		key := rowKey(kind, row)
		for n := 2; p.rows[key] != nil; n++ {
			key = fmt.Sprintf("%s #%d", rowKey(kind, row), n)
		}
		p.rows[key] = row
		p.keys = append(p.keys, key)
	}
	return p, nil
}

func rowKey(kind docKind, row any) string {
	m, _ := row.(map[string]any)
	var parts []string
	for _, k := range kind.Key {
		parts = append(parts, fmt.Sprint(m[k]))
	}
	return strings.Join(parts, " ")
}

// Row is a row of a document, with what names it.
type Row struct {
	Key string `json:"key"`
	Row any    `json:"row"`
}

// Change is how a document has become another one. Ages in it count from the moment of the event that carries it.
type Change struct {
	Doc  string         `json:"doc"`
	Head map[string]any `json:"head,omitempty"` // left out: as before
	Rows []Row          `json:"rows,omitempty"` // new ones, and those that changed
	Gone []string       `json:"gone,omitempty"` // by their keys
}

// whole is a picture as a change from nothing.
func whole(kind docKind, p picture) Change {
	c := Change{Doc: kind.Name, Head: p.head}
	for _, k := range p.keys {
		c.Rows = append(c.Rows, Row{k, p.rows[k]})
	}
	return c
}

// sent is what every page that looks was sent of a document, each part with its moment (milliseconds).
type sent struct {
	head   map[string]any
	headAt int64
	rows   map[string]sentRow
}

type sentRow struct {
	row any
	at  int64
}

// update compares a new picture with what was sent, keeps it in its place, and says what changed.
func (s *sent) update(kind docKind, p picture, at int64) (c Change, changed bool) {
	c.Doc = kind.Name
	if s.head == nil || !same("", s.head, p.head, float64(at-s.headAt)) {
		s.head, s.headAt, c.Head, changed = p.head, at, p.head, true
	}
	if s.rows == nil {
		s.rows = map[string]sentRow{}
	}
	for _, k := range p.keys {
		old, ok := s.rows[k]
		if ok && same("", old.row, p.rows[k], float64(at-old.at)) {
			continue
		}
		s.rows[k] = sentRow{p.rows[k], at}
		c.Rows = append(c.Rows, Row{k, p.rows[k]})
		changed = true
	}
	for k := range s.rows {
		if _, still := p.rows[k]; !still {
			delete(s.rows, k)
			c.Gone = append(c.Gone, k)
			changed = true
		}
	}
	slices.Sort(c.Gone)
	return c, changed
}
