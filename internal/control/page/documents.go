package page

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"pace-node/internal/control"
	"pace-node/internal/wire"
)

// docKind is one document that the page shows: that of a verb.
type docKind struct {
	Name string
	// List is the member that holds its rows, and Key what names a row; "" where it is sent whole.
	List string
	Key  []string
	Of   func(ctx context.Context, p *Page) (control.Printable, error)
}

// auditMost is how many entries of the audit the page is sent, the newest.
const auditMost = 200

// documents is the table of them.
var documents = []docKind{
	{"node", "", nil, func(ctx context.Context, p *Page) (control.Printable, error) {
		return statusOf[control.NodeStatus](ctx, p, "node")
	}},
	{"fleet", "members", []string{"id"}, func(ctx context.Context, p *Page) (control.Printable, error) {
		return statusOf[control.ClusterStatus](ctx, p, "cluster")
	}},
	{"waiting", "rows", []string{"id", "key"}, func(ctx context.Context, p *Page) (control.Printable, error) {
		c := wire.EnrollControl{Op: wire.ControlList}
		d, err := ask[control.EnrollList](ctx, p, wire.VerbEnrollControl, c.Append(nil), func() ([]byte, error) { return p.cfg.Backend.EnrollControl(ctx, local, c) })
		return &d, err
	}},
	{"queue", "entries", []string{"id"}, func(ctx context.Context, p *Page) (control.Printable, error) {
		req := wire.QueueRequest{Op: "list"}
		d, err := askJSON[control.QueueList](ctx, p, wire.VerbQueue, req, func() ([]byte, error) { return p.cfg.Backend.Queue(ctx, local, req) })
		return &d, err
	}},
	{"follows", "links", []string{"id"}, func(ctx context.Context, p *Page) (control.Printable, error) {
		return statusOf[control.FollowList](ctx, p, "follows")
	}},
	{"audit", "entries", []string{"revision", "did", "what", "by"}, func(ctx context.Context, p *Page) (control.Printable, error) {
		d, err := statusOf[control.AuditList](ctx, p, "audit")
		if a, ok := d.(*control.AuditList); ok && len(a.Entries) > auditMost {
			a.Entries = a.Entries[len(a.Entries)-auditMost:]
		}
		return d, err
	}},
}

func statusOf[T any](ctx context.Context, p *Page, what string) (control.Printable, error) {
	b, err := p.cfg.Backend.Status(ctx, local, wire.StatusRequest{What: what})
	if err != nil {
		return nil, err
	}
	d, err := wire.DecodeDocument[T](b)
	if err != nil {
		return nil, err
	}
	doc, ok := any(&d).(control.Printable)
	if !ok {
		return nil, errors.New("page: no document")
	}
	return doc, nil
}

func kindOf(name string) docKind {
	for _, d := range documents {
		if d.Name == name {
			return d
		}
	}
	return docKind{}
}

// document is one document as JSON, or why there is none as a FailureDocument.
func (p *Page) document(ctx context.Context, name string) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	d, err := kindOf(name).Of(ctx, p)
	var b []byte
	if err == nil {
		b, err = control.Encode(d)
	}
	if err != nil {
		b, _ = control.Encode(&control.FailureDocument{V: control.DocumentVersion, Error: control.FailureOf(err)})
	}
	return b
}

func (p *Page) showDocument(w http.ResponseWriter, q *request, name string) {
	ctx, cancel := context.WithTimeout(q.r.Context(), readTime)
	defer cancel()
	d, err := kindOf(name).Of(ctx, p)
	if err != nil {
		p.failed(w, err)
		return
	}
	p.answer(w, http.StatusOK, d)
}
