package control

import "context"

// Dashboard is what `pacectl dashboard` prints: an address that opens the web page for changes, once.
type Dashboard struct {
	V int `json:"v"`
	// URL is the address. Its fragment holds the token, which a browser sends to nobody by itself.
	URL string `json:"url"`
	// LifeMS is for how long it may be opened.
	LifeMS int64 `json:"life_ms"`
	// Tunnel is the command that makes the address reachable from another machine; "" where it is reachable anyway.
	Tunnel string `json:"tunnel,omitempty"`
}

func (d *Dashboard) finish() { d.V = DocumentVersion }

// Text is the address, alone on its line, then what it is for.
func (d *Dashboard) Text() string {
	d.finish()
	var l lines
	l.add("%s", d.URL)
	l.add("note: open it in a browser within %s. It opens the page for changes once, and is for you alone", span(d.LifeMS))
	if d.Tunnel != "" {
		l.add("note: from another machine, keep this running there and open the same address: %s", d.Tunnel)
	}
	return l.String()
}

// dashboard asks this machine's node for a one-time address.
func (r *runner) dashboard(ctx context.Context, _ []string) (Printable, error) {
	d, err := status[Dashboard](r, ctx, "dashboard")
	return &d, err
}

// AdminRefusals are why a request to --admin-listen is refused.
var AdminRefusals = []string{"connections", "host", "origin", "method", "not-served", "path", "header", "body", "token", "tries", "session", "streams", "actions", "refused"}

func (d *FollowList) finish() {
	d.V = DocumentVersion
	d.Links = orEmpty(d.Links)
}

// Text is a line a machine: its id, and whom it follows.
func (d *FollowList) Text() string {
	d.finish()
	var l lines
	for _, f := range d.Links {
		l.words(Word(f.ID), "follows", Word(f.Follows))
	}
	return l.String()
}
