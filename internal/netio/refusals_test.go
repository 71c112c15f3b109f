package netio

import (
	"fmt"
	"testing"

	"pace-node/internal/wire"
)

// wantRefusals are the labels of the counter in the order of the refusals, with the code that the peer is told, if any.
var wantRefusals = []struct {
	label string
	code  wire.ErrorCode
}{
	{"handshakes-full", 0}, {"handshake-late", 0}, {"tls-version", 0}, {"protocol", 0}, {"no-certificate", 0}, {"certificate-kind", 0}, {"key", 0}, {"handshake", 0},
	{"source-full", 9}, {"strangers-full", 15}, {"summary-reserve", 15}, {"key-full", 0}, {"first-request-late", 0}, {"first-request-too-large", 4}, {"answer-late", 0},
	{"once-per-connection", 14}, {"streams-full", 15}, {"flood", 0},
	{"raft-header", 0}, {"raft-cluster", 0}, {"raft-target", 0}, {"raft-source", 0}, {"raft-epoch", 0}, {"raft-roster", 0}, {"raft-backlog", 0}, {"peer-key", 0},
}

func checkRefusals() error {
	if len(Refusals) != len(wantRefusals) || len(Refusals) != int(refusals)-1 {
		return fmt.Errorf("%d refusals", len(Refusals))
	}
	for i, w := range wantRefusals {
		row := Refusal(i + 1).Row()
		if row.Label != w.label || row.Code != w.code || row.Text == "" || (row.Code != 0) != (row.Hint != "") {
			return fmt.Errorf("refusal %d: %+v", i+1, row)
		}
	}
	return nil
}

func TestRefusalsTable(t *testing.T) {
	if err := checkRefusals(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationRefusals(t *testing.T) {
	for _, flip := range []func(*RefusalRow){
		func(r *RefusalRow) { r.Refusal = refusals },
		func(r *RefusalRow) { r.Label += "x" },
		func(r *RefusalRow) { r.Code++ },
		func(r *RefusalRow) { r.Text = "" },
	} {
		mutate(t, Refusals, flip, checkRefusals)
	}
}
