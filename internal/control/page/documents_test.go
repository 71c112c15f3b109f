package page

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"pace-node/internal/control"
)

// documentCells: what each document holds, its rows, and what names one.
var documentCells = []struct{ name, holds, list, key string }{
	{"node", `"uptime_ms":`, "", ""},
	{"fleet", `"pre_approved":`, "members", "id"},
	{"waiting", `"window":`, "rows", "id key"},
	{"queue", `"paused":`, "entries", "id"},
	{"follows", `"links":`, "links", "id"},
	{"audit", `"entries":`, "entries", "revision did what by"},
}

func checkDocuments(t *testing.T) error {
	p := newPage(t, &fakeNode{fleet: fleetOf(1), audit: control.AuditList{V: 1}})
	b := onLoopback(&browser{p: p})
	for _, c := range documentCells {
		w := b.ask(http.MethodGet, "/api/v1/"+c.name, "")
		kind := kindOf(c.name)
		if w.Code != 200 || !strings.Contains(w.Body.String(), c.holds) || kind.List != c.list || strings.Join(kind.Key, " ") != c.key {
			return fmt.Errorf("%s: %d %s", c.name, w.Code, w.Body)
		}
	}
	if len(documents) != len(documentCells) {
		return fmt.Errorf("%d documents, and %d cells", len(documents), len(documentCells))
	}
	return nil
}

func TestDocuments(t *testing.T) {
	if err := checkDocuments(t); err != nil {
		t.Fatal(err)
	}
}

func TestMutationDocuments(t *testing.T) {
	for i := range documents {
		was := documents[i]
		next := documents[(i+1)%len(documents)]
		for _, change := range []func(*docKind){
			func(d *docKind) { d.Of = next.Of },
			func(d *docKind) { d.List = "none" },
			func(d *docKind) { d.Key = []string{"none"} },
		} {
			change(&documents[i])
			if checkDocuments(t) == nil {
				t.Errorf("%s changed goes unseen", was.Name)
			}
			documents[i] = was
		}
	}
}

// TestAuditIsCut: a page is sent the newest entries.
func TestAuditIsCut(t *testing.T) {
	a := control.AuditList{V: 1}
	for i := range 3 * auditMost {
		a.Entries = append(a.Entries, control.AuditEntry{Revision: uint64(i)})
	}
	p := newPage(t, &fakeNode{audit: a})
	got := read[control.AuditList](t, onLoopback(&browser{p: p}).ask(http.MethodGet, "/api/v1/audit", ""))
	if len(got.Entries) != auditMost || got.Entries[auditMost-1].Revision != 3*auditMost-1 {
		t.Errorf("%d entries", len(got.Entries))
	}
}
