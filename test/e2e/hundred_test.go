//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"pace-node/internal/control"
	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// asked is a document of the node's, over its administrators' socket: a process for each look at a hundred nodes would
// measure the processes.
func asked[T any](n *node, verb wire.Verb, request any) (doc T, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 35*time.Second) // as a verb gives a node
	defer cancel()
	payload, err := json.Marshal(request)
	if err != nil {
		return doc, err
	}
	b, err := control.DialAdmin(statedir.SocketPath(n.dir)).Call(ctx, verb, payload)
	if err != nil {
		return doc, err
	}
	return doc, json.Unmarshal(b, &doc)
}

// TestHundredMachinesGetACommit: a hundred real processes in ten hosts are one fleet. What is committed reaches every one
// of them, also those of a host whose cable was pulled meanwhile.
func TestHundredMachinesGetACommit(t *testing.T) {
	// Not beside other tests: a hundred processes that start take the machine from whoever waits for an answer.
	const hosts, each = 10, 10
	l := newLAN(t, hosts)
	began := time.Now()
	founder := l.hosts[0].start(t, "founder", "--discovery=")
	founder.must("--enroll-auto-approve=1h")
	var learners []*node
	for i, h := range l.hosts {
		for k := range each {
			if i == 0 && k == 0 {
				continue // the founder's place
			}
			n := h.newNode(t, fmt.Sprintf("m%d-%d", i, k), "--discovery=", "--fleet-seed="+founder.endpoint(), "--log-level=warn",
				fmt.Sprintf("--listen=:%d", 7000+10*k), fmt.Sprintf("--listen-raft=:%d", 7001+10*k))
			n.start()
			learners = append(learners, n)
		}
	}
	all := func(what string, revision uint64, of []*node) {
		t.Helper()
		for _, n := range of {
			until(t, n.name+" has "+what, func() (bool, string) {
				d, err := asked[control.ClusterStatus](n, wire.VerbStatus, wire.StatusRequest{What: "cluster"})
				return err == nil && d.View.Mode == "learner" && d.View.Revision >= revision && len(d.Members) == hosts*each,
					fmt.Sprintf("it is a %s at revision %d of %d with %d members, %v", d.View.Mode, d.View.Revision, revision, len(d.Members), err)
			}, 3*patience)
		}
		t.Logf("%s: all within %s of the first start", what, time.Since(began).Round(time.Second))
	}
	all("joined, and everybody's record", 0, learners)
	set := func(value string) uint64 {
		t.Helper()
		a, err := asked[wire.ClusterAnswer](founder, wire.VerbCluster, wire.ClusterRequest{Op: "set", Name: "enrollment.per-source", Value: value})
		if err != nil {
			t.Fatal(err)
		}
		return a.Revision
	}
	all("the first commit", set("8"), learners)
	apart, rest := learners[len(learners)-each:], learners[:len(learners)-each]
	l.hosts[hosts-1].cut()
	revision := set("9")
	all("the second commit", revision, rest)
	l.hosts[hosts-1].join()
	all("the second commit, after its cable was back", revision, apart)
}
