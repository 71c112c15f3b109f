package wire

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// vector is one entry of testdata/discovery.json; each names what it has.
type vector struct {
	Name, Bytes, Message, Signature, Nonce, Of, By, Text                string
	SeedA, SeedB, PublicA, PublicB, TextA, TextB                        string
	Cluster, Challenger, Node, Leader, LeaderEndpoint, LeaderKey        string
	OwnEndpoint, RaftEndpoint, Endpoint, Challenge, Key, Roster         string
	EpochKey, Host, Serial0, Serial7, TargetCluster, TargetNode, BootID string
	TargetRaftEndpoint, Component, Version                              string
	Members                                                             []string
	State, Role, Outcome                                                uint8
	Created, Total, At, AgeMs, Sequence                                 uint64
	Length, ProofSize                                                   int
}

func vectors(tb testing.TB) map[string]vector {
	tb.Helper()
	b, err := os.ReadFile("testdata/discovery.json")
	if err != nil {
		tb.Fatal(err)
	}
	var list []vector
	if err := json.Unmarshal(b, &list); err != nil {
		tb.Fatal(err)
	}
	m := map[string]vector{}
	for _, v := range list {
		m[v.Name] = v
	}
	return m
}

func unhex(tb testing.TB, s string) []byte {
	tb.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func hex32(tb testing.TB, s string) (a [32]byte) { return [32]byte(unhex(tb, s)) }
func hex64(tb testing.TB, s string) (a [64]byte) { return [64]byte(unhex(tb, s)) }

// mutate changes each row of a decision table in turn, in each of the given
// ways, and demands that check notices; then it restores the row.
func mutate[T any](t *testing.T, table []T, check func() error, flips map[string]func(*T)) {
	t.Helper()
	if err := guarded(check); err != nil {
		t.Fatalf("the table is wrong before any change: %v", err)
	}
	for i := range table {
		kept := table[i]
		for name, flip := range flips {
			flip(&table[i])
			if err := guarded(check); err == nil {
				t.Errorf("row %d (%+v): change %q goes unnoticed", i, kept, name)
			}
			table[i] = kept
		}
	}
	if err := guarded(check); err != nil {
		t.Fatalf("the table was not restored: %v", err)
	}
}

// guarded takes a panic of a mutated table for a failed check.
func guarded(check func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	return check()
}

// Generators of what an honest node sends.

func genBytes(n int) *rapid.Generator[[]byte] {
	return rapid.SliceOfN(rapid.Byte(), n, n)
}

func gen32() *rapid.Generator[[32]byte] {
	return rapid.Custom(func(t *rapid.T) [32]byte { return [32]byte(genBytes(32).Draw(t, "b")) })
}

func gen64() *rapid.Generator[[64]byte] {
	return rapid.Custom(func(t *rapid.T) [64]byte { return [64]byte(genBytes(64).Draw(t, "b")) })
}

// genText is any UTF-8 of min..max bytes.
func genText(min, max int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return cut(rapid.String().Filter(func(s string) bool { return len(s) >= min }).Draw(t, "text"), max)
	}).Filter(func(s string) bool { return len(s) >= min })
}

func genEndpoint() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z][a-z0-9.-]{0,40}:[1-9][0-9]{0,3}`),
		rapid.StringMatching(`10\.[1-9]\.[1-9]\.[1-9]:6674`),
		rapid.StringMatching(`\[fe80::[1-9a-f]{1,4}\]:6674`),
	)
}

func genMaybeEndpoint() *rapid.Generator[string] {
	return rapid.OneOf(rapid.Just(""), genEndpoint())
}

func genSummary(maxMembers int) *rapid.Generator[Summary] {
	return rapid.Custom(func(t *rapid.T) Summary {
		s := Summary{
			Cluster:      genText(1, MaxID).Draw(t, "cluster"),
			State:        rapid.SampledFrom([]SummaryState{StateSolitary, StateEstablished, StatePending}).Draw(t, "state"),
			Created:      rapid.Uint64().Draw(t, "created"),
			Node:         genText(0, MaxID).Draw(t, "node"),
			RaftEndpoint: genMaybeEndpoint().Draw(t, "raft"),
			OwnEndpoint:  genMaybeEndpoint().Draw(t, "own"),
		}
		lead := Leader{ID: genText(0, MaxID).Draw(t, "leader"), Endpoint: genMaybeEndpoint().Draw(t, "leader endpoint")}
		if lead.HasKey = rapid.Bool().Draw(t, "has key"); lead.HasKey {
			lead.Key = gen32().Draw(t, "leader key")
		}
		if s.State == StatePending {
			s.Pointer = lead
		} else {
			s.Leader = lead
		}
		if m := rapid.SliceOfNDistinct(genText(1, MaxID), 0, maxMembers, rapid.ID[string]).Draw(t, "members"); len(m) > 0 {
			s.Members = m
		}
		s.Total = rapid.Uint64Min(uint64(len(s.Members))).Draw(t, "total")
		return s
	})
}

// worstSummary has 64-byte ids, ten members, three 21-character endpoints and a
// leader key.
func worstSummary() Summary {
	id := func(i int) string { return fmt.Sprintf("%02d", i) + strings.Repeat("x", MaxID-2) }
	const endpoint = "255.255.255.255:65535"
	s := Summary{
		Cluster: id(90), State: StateEstablished, Created: 1790000000,
		Leader: Leader{ID: id(91), Endpoint: endpoint, Key: [32]byte{9}, HasKey: true},
		Node:   id(92), RaftEndpoint: endpoint, OwnEndpoint: endpoint, Total: 1000,
	}
	for i := range MaxMembers {
		s.Members = append(s.Members, id(i))
	}
	return s
}
