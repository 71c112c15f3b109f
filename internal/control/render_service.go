package control

import (
	"strconv"
	"strings"
	"unicode"
)

func (d *Surfaces) finish() {
	d.V = DocumentVersion
	if d.Surfaces == nil {
		d.Surfaces = []SurfaceRow{}
	}
	if d.Seeds == nil {
		d.Seeds = []string{}
	}
}

// Text is a line a surface, name proto/port bind scope, then state-dir, a line a seed, and pin. A port that the kernel
// chooses is any, and one that there is not is -.
func (d *Surfaces) Text() string {
	d.finish()
	var l lines
	for _, s := range d.Surfaces {
		port := strconv.Itoa(s.Port)
		switch {
		case s.Proto != "tcp" && s.Proto != "udp":
			port = nothing
		case s.Port == 0:
			port = "any"
		}
		l.words(s.Name, s.Proto+"/"+port, ownWord(s.Bind), s.Scope)
	}
	l.words("state-dir", ownPath(d.StateDir))
	for _, seed := range d.Seeds {
		l.words("seed", Word(seed))
	}
	if len(d.Seeds) == 0 {
		l.words("seed", nothing)
	}
	l.words("pin", Word(d.Pin))
	return l.String()
}

func (d *ServiceChange) finish() {
	d.V = DocumentVersion
	if d.Changed == nil {
		d.Changed = []string{}
	}
	if d.Notes == nil {
		d.Notes = []string{}
	}
}

// Text is the service's name, a line a change, a line a note, and where state and settings are.
func (d *ServiceChange) Text() string {
	d.finish()
	var l lines
	l.words("service", ownWord(d.Service))
	for _, change := range d.Changed {
		l.words("changed", ownPath(change))
	}
	if len(d.Changed) == 0 {
		l.words("changed", "nothing: all is as it was asked for")
	}
	for _, note := range d.Notes {
		l.words("note", ownPath(note))
	}
	l.words("state-dir", ownPath(d.StateDir))
	l.words("settings", ownPath(d.Settings))
	return l.String()
}

// ownPath is text of this machine as the rest of a line: it is no other's, so only what would end or hide the line is
// escaped.
func ownPath(s string) string {
	if s == "" {
		return nothing
	}
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return strconv.Quote(s)
		}
	}
	return s
}

// ownWord is the same as one column.
func ownWord(s string) string {
	if strings.Contains(s, " ") {
		return strconv.Quote(s)
	}
	return ownPath(s)
}
