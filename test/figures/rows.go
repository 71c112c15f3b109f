package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// unit is what a row's values count.
type unit int

const (
	nanoseconds unit = iota
	allocations      // an operation
	bytes            // shown as MB
	kilobytes        // bytes, shown as kB
	percent          // of one core
	perSecond
)

// row is one line of the page. Its name is the page's, so a change of it is a change of docs/figures.md.
type row struct {
	id, name string
	group    string
	unit     unit
	goal     float64 // in unit; none is below 0
	atLeast  bool    // the goal is a least value
	beside   string  // the limit that it is compared with
	times    float64 // how many of that limit it is compared with; 0 is 1
	bench    string  // in a group of benchmarks: the benchmark
	metric   string  // and which of its metrics
}

const none = -1

// group is what is measured by one command.
type group struct {
	id, name string
	pkg      string // of benchmarks
	time     string // their -benchtime; empty: benchTime
	count    int    // their -count; 0: benchCount
	measure  func(context.Context, *measurer, group) error
}

// How the benchmarks are run.
const (
	benchTime  = "300ms"
	benchCount = 5
)

// powered are the sizes of the fleets that are powered on together, with the goal over the approvals.
var powered = []struct {
	nodes int
	goal  time.Duration
	runs  int
}{
	{10, time.Second, 5},
	{30, 1500 * time.Millisecond, 3},
	{100, 4 * time.Second, 2},
}

// idleFor is how long an idle node's processor time is watched.
const idleFor = 60 * time.Second

var groups = []group{
	{id: "wire", name: "benchmarks of the wire", pkg: "./internal/wire", measure: benchmarks},
	{id: "identity", name: "benchmarks of identity", pkg: "./internal/identity", measure: benchmarks},
	{id: "discovery", name: "benchmarks of discovery", pkg: "./internal/discovery", measure: benchmarks},
	{id: "fleet", name: "benchmarks of the fleet's state", pkg: "./internal/fleet", measure: benchmarks},
	{id: "consensus", name: "benchmarks of the log", pkg: "./internal/consensus", measure: benchmarks},
	{id: "feed", name: "1,000 learners over loopback", pkg: "./internal/node", time: "100x", measure: benchmarks},
	{id: "queue", name: "benchmarks of the queue", pkg: "./internal/queue", measure: benchmarks},
	{id: "cycles", name: "whole provisioning cycles", pkg: "./internal/provision", time: "1x", measure: benchmarks},
	{id: "size", name: "the binary", measure: binarySize},
	{id: "start", name: "starts", measure: starts},
	{id: "pair", name: "two nodes: ask, approval, provisioning", measure: pairs},
	{id: "power", name: "many nodes powered on together", measure: powerOn},
	{id: "idle", name: "idle nodes", measure: idle},
	{id: "failover", name: "three voters that lose their leader", measure: failover},
	{id: "flood", name: "a flood", measure: flood},
	{id: "provision", name: "the provisioning queue", measure: provisionQueue},
	{id: "scale", name: "idle learners over loopback", pkg: "./internal/node", time: "1x", count: 1, measure: benchmarks},
}

// rows is the table of docs/figures.md, in its order.
var rows = slices.Concat([]row{
	{id: "junk-magic", name: "refuse a junk datagram: wrong magic", group: "discovery", goal: 500, beside: "udp", bench: "BenchmarkRefuseJunk/magic"},
	{id: "junk-version", name: "refuse a junk datagram: another version", group: "discovery", goal: 500, beside: "udp", bench: "BenchmarkRefuseJunk/version"},
	{id: "junk-length", name: "refuse a junk datagram: wrong length", group: "discovery", goal: 500, beside: "udp", bench: "BenchmarkRefuseJunk/length"},
	{id: "junk-socket", name: "refuse a junk datagram: wrong socket", group: "discovery", goal: 500, beside: "udp", bench: "BenchmarkRefuseJunk/socket"},
	{id: "junk-fields", name: "refuse a junk datagram: fields that do not read", group: "discovery", goal: 500, beside: "udp", bench: "BenchmarkRefuseJunk/fields"},
	{id: "junk-allocs", name: "the same, allocations (the worst of them)", group: "discovery", unit: allocations, goal: 0, bench: "BenchmarkRefuseJunk", metric: "allocs/op"},
	{id: "beacon-proven", name: "handle a beacon of a proven peer", group: "discovery", goal: none, beside: "udp", bench: "BenchmarkBeacon/proven"},
	{id: "beacon-challenged", name: "handle a beacon and challenge it", group: "discovery", goal: none, beside: "udp", bench: "BenchmarkBeacon/challenged"},
	{id: "beacon-flood", name: "handle a beacon of a flood of sources", group: "discovery", goal: none, beside: "udp", bench: "BenchmarkBeacon/over-budget"},
	{id: "judge-proven", name: "judge a proof: proven", group: "discovery", goal: none, beside: "verify", bench: "BenchmarkJudge/proven"},
	{id: "judge-forged", name: "judge a proof: a nonce that was not issued", group: "discovery", goal: none, beside: "verify", bench: "BenchmarkJudge/not_issued"},
	{id: "judge-replayed", name: "judge a proof: replayed", group: "discovery", goal: none, beside: "verify", bench: "BenchmarkJudge/replayed"},
	{id: "answer-challenge", name: "answer a challenge", group: "discovery", goal: none, beside: "sign", bench: "BenchmarkChallengeAnswered"},
	{id: "sign-proof", name: "encode and sign a proof of the largest summary", group: "identity", goal: none, beside: "sign", bench: "BenchmarkSignProof"},
	{id: "verify-proof", name: "decode and verify it", group: "identity", goal: none, beside: "verify", bench: "BenchmarkVerifyProof"},
	{id: "encode-beacon", name: "encode a beacon of the largest summary", group: "wire", goal: none, bench: "BenchmarkEncodeBeacon"},
	{id: "decode-beacon", name: "decode it", group: "wire", goal: none, bench: "BenchmarkDecodeBeacon"},
	{id: "apply-announce", name: "apply a command to 1,000 members: announce", group: "fleet", goal: none, bench: "BenchmarkApply/announce"},
	{id: "apply-provision", name: "apply a command to 1,000 members: provisioning record", group: "fleet", goal: none, bench: "BenchmarkApply/provision"},
	{id: "apply-admit", name: "apply two commands to 1,000 members: admit, leave", group: "fleet", goal: none, bench: "BenchmarkApply/admit-and-forget"},
	{id: "commit", name: "commit a command to the log, durably", group: "consensus", goal: none, beside: "fsync", bench: "BenchmarkApply/fsync"},
	{id: "commit-memory", name: "commit a command to the log, without fsync", group: "consensus", goal: none, bench: "BenchmarkApply/no-fsync"},
	{id: "feed", name: "feed 1,000 learners one commit, TLS, yamux and Follow frames, until the last has it", group: "feed", goal: none, beside: "tls", times: 1000, bench: "BenchmarkFeedFollowers1000"},
	{id: "feed-heap", name: "the same: heap and stacks of the voter a learner", group: "feed", unit: kilobytes, goal: none, bench: "BenchmarkFeedFollowers1000", metric: "heap-B/session"},
	{id: "add-duplicate", name: "queue: `add` a duplicate", group: "queue", goal: none, bench: "BenchmarkAdd/duplicate"},
	{id: "add-round", name: "queue: `add`, take and finish 1,000 machines", group: "queue", goal: none, bench: "BenchmarkAdd/round_of_1000"},
	{id: "cycle-helper", name: "queue: whole cycles with an `sh` helper, 400 targets in memory", group: "cycles", unit: perSecond, goal: 200, atLeast: true, beside: "fork", bench: "BenchmarkMachines/sh_helper", metric: "machines/s"},
	{id: "cycle-default", name: "queue: whole cycles with a default, 400 targets in memory", group: "cycles", unit: perSecond, goal: none, bench: "BenchmarkMachines/default", metric: "machines/s"},

	{id: "size", name: "size of the stripped binary", group: "size", unit: bytes, goal: 20e6},
	{id: "start-first", name: "start → serving, first start (keys and a fleet of one are made)", group: "start", goal: ms(300), beside: "fork"},
	{id: "start-again", name: "start → serving, later start", group: "start", goal: ms(300), beside: "fork"},
	{id: "ask", name: "two idle nodes: start of the younger → it has asked", group: "pair", goal: ms(1200)},
	{id: "join", name: "approval → learner with the state applied", group: "pair", goal: ms(500), beside: "fsync"},
	{id: "provisioned", name: "→ provisioned by a trivial helper, after that", group: "pair", goal: ms(300), beside: "fork"},
}, poweredRows(), []row{
	{id: "rss-solitary", name: "RSS, idle: a fleet of one", group: "idle", unit: bytes, goal: 25e6},
	{id: "rss-founder", name: "RSS, idle: a founder with one learner", group: "idle", unit: bytes, goal: 25e6},
	{id: "rss-learner", name: "RSS, idle: a learner", group: "idle", unit: bytes, goal: 25e6},
	{id: "cpu-solitary", name: "CPU over 60 s, idle: a fleet of one", group: "idle", unit: percent, goal: 0.1},
	{id: "cpu-founder", name: "CPU over 60 s, idle: a founder with one learner", group: "idle", unit: percent, goal: 0.1},
	{id: "cpu-learner", name: "CPU over 60 s, idle: a learner", group: "idle", unit: percent, goal: 0.1},
	{id: "failover-kill", name: "three voters, the leader is killed → a write is committed again", group: "failover", goal: none, beside: "fsync"},
	{id: "failover-kill-p99", name: "the same: 99th percentile", group: "failover", goal: ms(3000)},
	{id: "failover-stop", name: "three voters, the leader is stopped → another one has committed a write", group: "failover", goal: ms(500), beside: "fsync"},
	{id: "failover-stop-p99", name: "the same: 99th percentile", group: "failover", goal: none},
	{id: "flood-tables", name: "heap under a flood of datagrams and silent connections: what full tables hold", group: "flood", unit: kilobytes, goal: none},
	{id: "flood-heap", name: "the same: growth over ten times as long a flood", group: "flood", unit: kilobytes, goal: 100e3},
	{id: "power-100-commit", name: "100 nodes: a setting is made on the founder → the last node has it on its disk", group: "power", goal: none, beside: "fsync", times: 100},
	{id: "prov-helper", name: "400 live machines over real sessions, an `sh` helper each, all on this machine: provisioned", group: "provision", unit: perSecond, goal: 200, atLeast: true, beside: "fork"},
	{id: "prov-default", name: "the same: with --provision-default", group: "provision", unit: perSecond, goal: none, beside: "fsync"},
	{id: "prov-memory", name: "the same: peak memory of the queue's process", group: "provision", unit: bytes, goal: 60e6},
	{id: "prov-cpu-leader", name: "the same: processor time of the queue's process a machine", group: "provision", goal: none},
	{id: "prov-cpu-machines", name: "the same: processor time of the machines' process a machine", group: "provision", goal: none},
	{id: "prov-ceiling", name: "the same: what all cores could do by those times and a fork for each", group: "provision", unit: perSecond, goal: none},
	{id: "prov-disk", name: "100 live machines, their state on this machine's one disk: provisioned", group: "provision", unit: perSecond, goal: none, beside: "fsync", times: machineFsyncs},
	{id: "prov-dead", name: "500 dead and 20 live machines, 4 workers: the last live one is provisioned", group: "provision", goal: ms(10_000)},
	{id: "prov-latency", name: "startup event → provisioned, idle fleet, without the helper", group: "provision", goal: ms(150), beside: "fsync"},
	{id: "prov-failover", name: "leader of three voters killed → another provisions", group: "provision", goal: ms(5000)},
	{id: "prov-failover-all", name: "the same: the last of 40 machines, a quarter of which were done before, is provisioned", group: "provision", goal: none},
}, learnerRows())

// machineFsyncs is how many fsyncs one machine makes while it is provisioned, of files and folders: two leases spent, the
// transaction, and the state that says what runs and is wanted. -only '^prov-disk' counts them anew.
const machineFsyncs = 20

// learners are the sizes of the fleets whose voter is watched; the goals are for the one of a thousand; no fleet has
// more than five thousand machines.
var learners = []struct {
	count     int
	cpu, heap float64 // percent of a core, bytes a learner
	commit    float64
}{
	{100, none, none, none},
	{300, none, none, none},
	{1000, 5, 40e3, ms(200)},
	{4999, none, none, none},
}

func learnerRows() []row {
	var out []row
	for _, l := range learners {
		bench := fmt.Sprintf("BenchmarkLearners/%d", l.count)
		out = append(out,
			row{id: fmt.Sprintf("learners-%d-cpu", l.count), name: fmt.Sprintf("a voter with %d learners, idle: CPU over 20 s", l.count), group: "scale", unit: percent, goal: l.cpu, bench: bench, metric: "core-%"},
			row{id: fmt.Sprintf("learners-%d-memory", l.count), name: "the same: heap and stacks a learner", group: "scale", unit: kilobytes, goal: l.heap, bench: bench, metric: "heap-B/learner"},
			row{id: fmt.Sprintf("learners-%d-commit", l.count), name: "the same: a commit until the last has it, the slowest of five", group: "scale", goal: l.commit, beside: "tls", times: float64(l.count), bench: bench, metric: "ns/commit"})
	}
	return out
}

func poweredRows() []row {
	var out []row
	for _, p := range powered {
		out = append(out,
			row{id: fmt.Sprintf("power-%d", p.nodes), name: fmt.Sprintf("%d nodes powered on together: approvals → all joined", p.nodes), group: "power",
				goal: float64(p.goal), beside: "handshake", times: float64(p.nodes - 1)},
			row{id: fmt.Sprintf("power-%d-all", p.nodes), name: fmt.Sprintf("%d nodes: power on → all joined, as soon as they had asked", p.nodes), group: "power", goal: none, beside: "fork", times: float64(p.nodes)})
	}
	return append(out, row{id: "power-100-rss", name: "RSS of the founder with 99 learners", group: "power", unit: bytes, goal: none})
}

func ms(n float64) float64 { return n * float64(time.Millisecond) }
