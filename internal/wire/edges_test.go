package wire

import (
	"errors"
	"strings"
	"testing"
)

// TestSummaryThatJustFits: a proof of 1232 bytes is sent whole, and for one of 1233 a member is left out.
func TestSummaryThatJustFits(t *testing.T) {
	s := Summary{Cluster: strings.Repeat("c", 64), State: StateEstablished, Node: strings.Repeat("n", 64), Total: 10}
	for _, c := range "abcdefghij" {
		s.Members = append(s.Members, strings.Repeat(string(c), 64))
	}
	empty := ProofSize(len(AppendSummary(nil, &s)))
	host := func(n int) string { return strings.Repeat(strings.Repeat("h", 49)+".", 20)[:n-1] + "h:6674" }
	for size, listed := range map[int]int{1232: 10, 1233: 9} {
		s.OwnEndpoint = host(size - empty - len(":6674"))
		raw, ok := FitSummary(&s)
		got, err := DecodeSummary(raw)
		if !ok || err != nil || len(got.Members) != listed || got.Total != 10 {
			t.Errorf("of %d bytes: %d members are listed, want %d (%v)", size, len(got.Members), listed, err)
		}
	}
}

// TestAnswerWithoutASummary: an answer to FleetSummary whose summary does not read is none, however it is signed.
func TestAnswerWithoutASummary(t *testing.T) {
	a := FleetSummaryAnswer{Raw: []byte("no summary"), Key: [32]byte{1}}
	if _, err := DecodeFleetSummaryAnswer(a.Append(nil)); !errors.Is(err, ErrMalformed) {
		t.Errorf("%v, want ErrMalformed", err)
	}
}
