package control

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/wire"
)

func text(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

func TestPrintIdentity(t *testing.T) {
	d := Identity{NodeID: idA, PublicKey: testKey, Host: "10.1.0.2"}
	want := text(
		"node-id "+idA,
		"public-key "+testKey,
		"cluster-admit "+idA+"=10.1.0.2:6680@"+testKey,
	)
	if diff := cmp.Diff(want, d.Text()); diff != "" {
		t.Error(diff)
	}
	for _, host := range []string{"[fd00:1::2]", "fd00:1::2"} {
		d = Identity{NodeID: idA, PublicKey: testKey, Host: host, RaftPort: 7000}
		if want := "cluster-admit " + idA + "=[fd00:1::2]:7000@" + testKey + "\n"; !strings.HasSuffix(d.Text(), want) {
			t.Errorf("got %s", d.Text())
		}
	}
}

func TestEnrollList(t *testing.T) {
	for _, c := range []struct {
		name string
		doc  EnrollList
		want string
	}{
		{"manual, nothing waiting", EnrollList{}, text("enrollment: manual", "(nothing waiting)")},
		{"window, rounded up", EnrollList{Window: Window{Armed: true, LeftMS: 14*60_000 + 1}}, text("enrollment: auto-approve (15 min left)", "(nothing waiting)")},
		{"window, whole minutes", EnrollList{Window: Window{Armed: true, LeftMS: 14 * 60_000}}, text("enrollment: auto-approve (14 min left)", "(nothing waiting)")},
		{"window, its last second", EnrollList{Window: Window{Armed: true, LeftMS: 1}}, text("enrollment: auto-approve (1 min left)", "(nothing waiting)")},
		{"window, a day", EnrollList{Window: Window{Armed: true, LeftMS: 24 * 3600_000}}, text("enrollment: auto-approve (1440 min left)", "(nothing waiting)")},
		{
			"one that waits", EnrollList{Rows: []EnrollRow{{Decision: DecisionWaiting, ID: idA, Key: testKey, Name: "web1", Endpoint: "10.1.0.5:6674", Source: "10.1.0.5", AgeMS: 65_000, Attempts: 3}}},
			text("enrollment: manual",
				"waiting "+idA+" web1 10.1.0.5:6674 10.1.0.5 1m5s 3",
				"key "+testKey,
				"approve pace-node --enroll-approve="+idA+"@"+testKey),
		},
		{
			"address differs, no name", EnrollList{Rows: []EnrollRow{{Decision: DecisionWaiting, ID: "board", Key: testKey, Endpoint: "10.1.0.5:6674", Source: "10.9.0.5", AgeMS: 500, Attempts: 1, AddressDiffers: true}}},
			text("enrollment: manual",
				"waiting board - 10.1.0.5:6674 10.9.0.5 0s 1 ADDRESS-DIFFERS",
				"key "+testKey,
				"approve pace-node --enroll-approve=board@"+testKey),
		},
		{
			"one id, two keys, both marked", EnrollList{Rows: []EnrollRow{
				{Decision: DecisionWaiting, ID: idA, Key: testKey, Name: "web1", Endpoint: "10.1.0.5:6674", Source: "10.1.0.5", AgeMS: 7200_000, Attempts: 40, KeyConflict: true},
				{Decision: DecisionWaiting, ID: idA, Key: otherKey, Name: "web1", Endpoint: "10.1.0.5:6674", Source: "10.1.0.6", AgeMS: 2_000, Attempts: 1, AddressDiffers: true, KeyConflict: true},
			}},
			text("enrollment: manual",
				"waiting "+idA+" web1 10.1.0.5:6674 10.1.0.5 2h 40 KEY-CONFLICT",
				"key "+testKey,
				"approve pace-node --enroll-approve="+idA+"@"+testKey,
				"waiting "+idA+" web1 10.1.0.5:6674 10.1.0.6 2s 1 ADDRESS-DIFFERS KEY-CONFLICT",
				"key "+otherKey,
				"approve pace-node --enroll-approve="+idA+"@"+otherKey),
		},
		{
			"a key that was rejected under another id", EnrollList{Rows: []EnrollRow{
				{Decision: DecisionWaiting, ID: idA, Key: testKey, Name: "web1", Endpoint: "10.1.0.5:6674", Source: "10.1.0.5", AgeMS: 2_000, Attempts: 1, KeyConflict: true, KeyRejected: true},
			}},
			text("enrollment: manual",
				"waiting "+idA+" web1 10.1.0.5:6674 10.1.0.5 2s 1 KEY-CONFLICT KEY-REJECTED",
				"key "+testKey,
				"approve pace-node --enroll-approve="+idA+"@"+testKey),
		},
		{
			"decided: no approve line; the window says when it was armed", EnrollList{Window: Window{Armed: true, LeftMS: 60_000}, Rows: []EnrollRow{
				{Decision: DecisionApproved, ID: idA, Key: testKey, Name: "a", Endpoint: "10.1.0.5:6674", Source: "10.1.0.5", AgeMS: 1000, Attempts: 1},
				{Decision: DecisionAuto, ID: idB, Key: testKey, Name: "b", Endpoint: "10.1.0.6:6674", Source: "10.1.0.6", AgeMS: 1000, Attempts: 1, ArmedAt: 1767225600},
				{Decision: DecisionRejected, ID: idC, Key: testKey, Name: "c", Endpoint: "10.1.0.7:6674", Source: "10.1.0.7", AgeMS: 1000, Attempts: 1},
			}},
			text("enrollment: auto-approve (1 min left)",
				"approved "+idA+" a 10.1.0.5:6674 10.1.0.5 1s 1", "key "+testKey,
				"auto-approved "+idB+" b 10.1.0.6:6674 10.1.0.6 1s 1 armed=2026-01-01T00:00:00Z", "key "+testKey,
				"rejected "+idC+" c 10.1.0.7:6674 10.1.0.7 1s 1", "key "+testKey),
		},
		{
			"a member's name", EnrollList{Rows: []EnrollRow{{Decision: DecisionWaiting, ID: idA, Key: testKey, Name: "web1", Endpoint: "10.1.0.5:6674", Source: "10.1.0.5", AgeMS: 1000, Attempts: 1, NameOf: &NameClash{ID: idB, HeardMS: ms(90_000)}}}},
			text("enrollment: manual",
				"waiting "+idA+" web1 10.1.0.5:6674 10.1.0.5 1s 1",
				"key "+testKey,
				"note: the name web1 is also that of the member "+idB+", last heard 1m30s ago",
				"approve pace-node --enroll-approve="+idA+"@"+testKey),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.doc.Text()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func exampleCluster() ClusterStatus {
	return ClusterStatus{
		Cluster: cluster1, AgeMS: 3*86400_000 + 4*3600_000, Leader: &Machine{ID: idA, Name: "web1"},
		View: View{Mode: "voter", Leads: true, Revision: 42, VotersHeard: 2, VotersTotal: 3},
		Members: []MemberStatus{
			{ID: idA, Key: testKey, Name: "web1", Role: "voter", Platform: "linux/amd64", Version: "1.2.3", Provisioning: "done", Endpoints: wire.Endpoints{FC: "10.1.0.2:6674", Raft: "10.1.0.2:6680"}, Self: true, Arrived: true},
			{ID: idB, Key: otherKey, Name: "lap top", Role: "learner", Platform: "windows/amd64", Version: "1.2.2", Endpoints: wire.Endpoints{FC: "10.1.0.9:6674"}, HeardMS: ms(3_000), Arrived: true, Labels: map[string]string{"site": "office a", "rack": "4"}},
			{ID: idC, Key: otherKey, Role: "learner", AdmittedMS: 11 * 60_000},
		},
		PreApprove: []PreApproved{{ID: "board", Key: testKey}, {ID: "seat", Key: testKey, Seat: true}},
		Settings: []Setting{{Name: "enrollment.per-source", Value: "4", Default: true}, {Name: "provision.paused", Value: "true"},
			{Name: "provision.profile", Value: `{"provision-workers":"3","provision-helper":"/usr/local/bin/helper --for='$x'"}`}, {Name: "later", Value: `{"a":{}}`}},
		Conditions: []ConditionStatus{{ID: "single-voter-fleet", Severity: "notice", Detail: "2 members depend on one voter", Remedy: "pace-node --cluster-admit=" + idB + "=10.1.0.9:6680", SinceMS: 61_000}},
	}
}

func TestClusterStatus(t *testing.T) {
	d := exampleCluster()
	want := text(
		"fleet "+cluster1+" age 3d4h leader "+idA+" revision 42",
		"view of the leader itself, current",
		"voters 2 of 3 heard",
		idA+" web1 voter linux/amd64 1.2.3 done 10.1.0.2:6674 10.1.0.2:6680 self",
		idB+` lap\x20top learner windows/amd64 1.2.2 - 10.1.0.9:6674 10.1.0.9:6680 3s`,
		`labels rack=4 site=office\x20a`,
		"admit pace-node --cluster-admit="+idB+"=10.1.0.9:6680@"+otherKey,
		idC+" - learner - - - - - never arrived",
		"pre-approved board learner key "+testKey,
		"pre-approved seat voter key "+testKey,
		"setting enrollment.per-source 4 default",
		"setting provision.paused true",
		`setting provision.profile provision-helper=/usr/local/bin/helper\x20--for=\x27\x24x\x27 provision-workers=3`,
		`setting later \x7b\x22a\x22:\x7b\x7d\x7d`,
		"condition notice single-voter-fleet since 1m1s: 2 members depend on one voter",
		"remedy pace-node --cluster-admit="+idB+"=10.1.0.9:6680",
	)
	if diff := cmp.Diff(want, d.Text()); diff != "" {
		t.Error(diff)
	}
}

// TestAdmitLineIsOfTheAnnouncedEndpoint: the column and the line to paste name one consensus endpoint.
func TestAdmitLineIsOfTheAnnouncedEndpoint(t *testing.T) {
	for _, c := range []struct {
		said wire.Endpoints
		want string
	}{
		{wire.Endpoints{FC: "10.1.0.9:6674"}, "10.1.0.9:6680"},
		{wire.Endpoints{FC: "10.1.0.9:6674", Raft: "10.1.0.9:7011"}, "10.1.0.9:7011"},
		{wire.Endpoints{FC: "10.1.0.9:6674", Raft: "10.2.0.9:7011"}, "10.2.0.9:7011"},
		{wire.Endpoints{FC: "[fd00::9]:6674", Raft: "[fd00::9]:7011"}, "[fd00::9]:7011"},
		{wire.Endpoints{FC: "[fd00::9]:6674"}, "[fd00::9]:6680"},
	} {
		d := MemberList{Members: []MemberStatus{{ID: idB, Key: otherKey, Name: "b", Role: "learner", Endpoints: c.said, HeardMS: ms(0), Arrived: true}}}
		want := text("view of the leader itself, current", idB+" b learner - - - "+c.said.FC+" "+c.want+" 0s", "admit pace-node --cluster-admit="+idB+"="+c.want+"@"+otherKey)
		d.View.Leads = true
		if diff := cmp.Diff(want, d.Text()); diff != "" {
			t.Errorf("%+v: %s", c.said, diff)
		}
	}
}

// TestStaleView: a learner that was cut off says as of when, and that no leader is
// heard, in text and in JSON.
func TestStaleView(t *testing.T) {
	d := exampleCluster()
	d.Leader, d.View = nil, View{Mode: "learner", Revision: 41, AsOfMS: 95_000, LeaderSilentMS: 95_000, VotersHeard: 0, VotersTotal: 3}
	d.Conditions = []ConditionStatus{{ID: "consensus-leader-silent", Severity: "alert", Detail: "no leader for 95 s", Remedy: "pacectl fleet status"}}
	got := d.Text()
	for _, want := range []string{
		"leader none revision 41\n",
		"view of a learner's applied state, revision 41, as of 1m35s ago, no leader is heard since 1m35s\n",
		"voters 0 of 3 heard\n",
		"condition alert consensus-leader-silent since 0s: no leader for 95 s\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	b, err := marshal(&d)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"leader":null`, `"as_of_ms":95000`, `"leader_silent_ms":95000`, `"voters_heard":0`, `"voters_total":3`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	n := NodeStatus{View: d.View, Conditions: d.Conditions}
	for _, want := range []string{"leader  none\n", "view  of a learner's applied state, revision 41, as of 1m35s ago, no leader is heard since 1m35s\n", "voters  0 of 3 heard\n"} {
		if !strings.Contains(n.Text(), want) {
			t.Errorf("no %q in\n%s", want, n.Text())
		}
	}
}

func exampleNode() NodeStatus {
	return NodeStatus{
		Version: "1.2.3", Mode: "voter", NodeID: idA, Name: "web1", PublicKey: testKey, FleetID: cluster1 + "@" + testKey,
		Leader: &Machine{ID: idA, Name: "web1"}, View: View{Mode: "voter", Leads: true, Revision: 42, VotersTotal: 1, VotersHeard: 1}, Voters: 1, Learners: 2,
		Endpoints: Endpoints{Advertised: "10.1.0.2:6674", Listen: "[::]:6674", Raft: "[::]:6680", Admin: "127.0.0.1:6690"},
		Discovery: DiscoveryStatus{On: true, Listener: "0.0.0.0:6681", Answering: "0.0.0.0:40123", Interfaces: []InterfaceStatus{
			{Name: "eth0", Address: "10.1.0.2/24", Used: true}, {Name: "docker0", Address: "172.17.0.1/16", Why: "no port is attached"},
		}},
		Peers: PeersStatus{Heard: 3, Authenticated: 2, ForeignFleets: 1, Sessions: 2}, UptimeMS: 3600_000 + 120_000, StateDir: "/var/lib/pace-node",
	}
}

func TestNode(t *testing.T) {
	d := exampleNode()
	want := text(
		"version  1.2.3",
		"mode  voter",
		"node-id  "+idA,
		"name  web1",
		"public-key  "+testKey,
		"fleet-id  "+cluster1+"@"+testKey,
		"fleet-pin  none",
		"leader  "+idA+" web1",
		"members  1/2",
		"view  of the leader itself, current",
		"auto-approve  off",
		"endpoints  advertised 10.1.0.2:6674",
		"endpoints  listen [\\u003a\\u003a]:6674",
		"endpoints  raft [\\u003a\\u003a]:6680",
		"endpoints  admin 127.0.0.1:6690",
		"discovery  listener 0.0.0.0:6681",
		"discovery  answering 0.0.0.0:40123",
		"discovery  interface eth0 10.1.0.2/24 used",
		"discovery  interface docker0 172.17.0.1/16 passed over: no port is attached",
		"peers  3 heard, 2 authenticated, 1 foreign fleets, 2 sessions",
		"uptime  1h2m",
		"state-dir  /var/lib/pace-node",
		"conditions  none",
	)
	want = strings.ReplaceAll(want, `\u003a`, ":")
	if diff := cmp.Diff(want, d.Text()); diff != "" {
		t.Error(diff)
	}
	// Before a beacon period nobody says that there is none.
	d.Peers.ForeignFleets = 0
	for clear, say := range map[bool]string{false: " 0 foreign fleets so far,", true: " 0 foreign fleets,"} {
		if d.Peers.ForeignClear = clear; !strings.Contains(d.Text(), say) {
			t.Errorf("clear %v: no %q in\n%s", clear, say, d.Text())
		}
	}
	d.Window = Window{Armed: true, LeftMS: 59_001}
	d.Mode, d.Asks = "pending", &Asking{Cluster: cluster1, Endpoint: "10.1.0.9:6674", Outcome: "pending", AskedMS: 65_000, HeardMS: ms(4_000)}
	d.Discovery = DiscoveryStatus{Said: "--discovery is empty"}
	d.FleetPin = cluster1 + "@" + otherKey
	d.Conditions = []ConditionStatus{{ID: "enrollment-window-open", Severity: "notice", Detail: "armed", Remedy: "pace-node --enroll-auto-approve=off", SinceMS: 1000}}
	for _, want := range []string{
		"auto-approve  1 min left\n", "asks  fleet " + cluster1 + " at 10.1.0.9:6674 since 1m5s, last signed answer pending 4s ago\n",
		"discovery  off --discovery is empty\n", "fleet-pin  " + cluster1 + "@" + otherKey + "\n",
		"conditions  notice enrollment-window-open since 1s: armed\nremedy  pace-node --enroll-auto-approve=off\n",
	} {
		if !strings.Contains(d.Text(), want) {
			t.Errorf("no %q in\n%s", want, d.Text())
		}
	}
	for line := range strings.Lines(d.Text()) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "  "); !ok || name == "" || value == "" {
			t.Errorf("no name and value: %q", line)
		}
	}
}

func TestQueueTexts(t *testing.T) {
	d := QueueList{View: View{Leads: true}, Entries: []QueueEntry{
		{ID: idB, Name: "b", State: "backing off", Stage: "configure", Attempt: 3, LastError: "exit 3: no such host; try", DueMS: ms(90_000)},
		{ID: idA, Name: "a", State: "running", Stage: "helper", Attempt: 1},
		{ID: idC, Name: "c", State: "parked", Stage: "helper", Attempt: 1, LastError: "a\nreboot", DueMS: ms(-5)},
	}}
	want := text(
		"queue: running",
		"view of the leader itself, current",
		"running "+idA+" a helper 1 -",
		"backing-off "+idB+` b configure 3 in-1m30s exit 3: no such host, try`,
		"parked "+idC+` c helper 1 now a\x0areboot`,
	)
	if diff := cmp.Diff(want, d.Text()); diff != "" {
		t.Error(diff)
	}
	empty := QueueList{Paused: true, Why: "by an operator", View: View{Mode: "learner", Revision: 7}}
	if diff := cmp.Diff(text("queue: paused by an operator", "view of a learner's applied state, revision 7, current", "(nothing in the queue)"), empty.Text()); diff != "" {
		t.Error(diff)
	}
	paused := QueueList{Paused: true, Why: "an operator paused it (web1: a new \x1b[2Jrack; $(reboot))", View: View{Leads: true},
		By: &QueuePause{By: testKey, ByName: "web 1", At: 1767225600, Reason: "a new \x1b[2Jrack; $(reboot)"}, Note: "ask a voter; HOST"}
	want = text("queue: paused an operator paused it [web1: a new \\x1b[2Jrack, \\x24[reboot]]", "paused by "+testKey+" web\\x201, 2026-01-01T00:00:00Z", "view of the leader itself, current",
		"(nothing in the queue)", "note: ask a voter, HOST")
	if diff := cmp.Diff(want, paused.Text()); diff != "" {
		t.Error(diff)
	}
	show := QueueShow{View: View{Leads: true}, Entry: d.Entries[1], Outcomes: []QueueOutcome{{At: 1767225600, Outcome: "error", Stage: "configure", Error: "disk full"}}}
	for _, want := range []string{"state  backing off\n", "attempt  3\n", "due  in 1m30s\n", "last-success  never\n", "run  2026-01-01T00:00:00Z error configure disk full\n"} {
		if !strings.Contains(show.Text(), want) {
			t.Errorf("no %q in\n%s", want, show.Text())
		}
	}
}

func TestOtherTexts(t *testing.T) {
	if said := (&AuditList{View: View{Mode: "learner"}}).Text(); !strings.Contains(said, "ask a voter") || strings.Contains(said, "nothing recorded") {
		t.Errorf("a learner says of the record it does not hold: %s", said)
	}
	if said := (&AuditList{View: View{Mode: "learner", Revision: 7}, Note: "ask; alder"}).Text(); said != text("view of a learner's applied state, revision 7, current", "note: ask, alder") {
		t.Errorf("a learner says of the record it does not hold: %s", said)
	}
	audit := AuditList{View: View{Leads: true}, Entries: []AuditEntry{{At: 1767225600, By: testKey, Did: "approve", What: idA + " web1", Revision: 9}}}
	if diff := cmp.Diff(text("view of the leader itself, current", "2026-01-01T00:00:00Z 9 approve "+testKey+" "+idA+" web1"), audit.Text()); diff != "" {
		t.Error(diff)
	}
	done := Done{Said: "approved web1", Revision: 3}
	if diff := cmp.Diff(text("done: approved web1", "revision 3"), done.Text()); diff != "" {
		t.Error(diff)
	}
	cluster := exampleCluster()
	show := MemberShow{View: cluster.View, Member: cluster.Members[1]}
	show.Member.Labels = map[string]string{"room": "2", "rack": "a b"}
	for _, want := range []string{"role  learner\n", "consensus-endpoint  10.1.0.9:6680\n", "last-heard  3s\n", "label  rack=a\\x20b\nlabel  room=2\n", "admit  pace-node --cluster-admit=" + idB + "=10.1.0.9:6680@" + otherKey + "\n"} {
		if !strings.Contains(show.Text(), want) {
			t.Errorf("no %q in\n%s", want, show.Text())
		}
	}
}

func TestSpans(t *testing.T) {
	for _, c := range []struct {
		ms   int64
		want string
	}{{-5, "0s"}, {0, "0s"}, {59_999, "59s"}, {60_000, "1m"}, {3_599_000, "59m59s"}, {3_600_000, "1h"}, {86_399_000, "23h59m"}, {86_400_000, "1d"}, {90_000_000, "1d1h"}} {
		if got := span(c.ms); got != c.want {
			t.Errorf("span(%d) = %s, want %s", c.ms, got, c.want)
		}
	}
}

// TestHelpColumn: what is too long for its column has its meaning under it, in the column of all others.
func TestHelpColumn(t *testing.T) {
	var l lines
	l.column("pacectl node", "this machine's node")
	l.column("pacectl "+strings.Repeat("x", helpColumn), "long")
	want := "  pacectl node" + strings.Repeat(" ", helpColumn-len("pacectl node")+1) + "this machine's node\n" +
		"  pacectl " + strings.Repeat("x", helpColumn) + "\n" + strings.Repeat(" ", helpColumn+3) + "long\n"
	if l.String() != want {
		t.Errorf("%q, want %q", l.String(), want)
	}
}

// TestViewText: a picture is current only while somebody decides.
func TestViewText(t *testing.T) {
	for _, c := range []struct {
		v    View
		want string
	}{
		{View{Mode: "voter", Leads: true, Revision: 7}, "of the leader itself, current"},
		{View{Mode: "voter", Revision: 7}, "of a voter's applied state, revision 7, current"},
		{View{Mode: "voter", Revision: 7, LeaderSilentMS: 95_000}, "of a voter's applied state, revision 7, as of 1m35s ago, no leader is heard since 1m35s"},
		{View{Mode: "learner", Revision: 7, AsOfMS: 400, LeaderSilentMS: 20_000}, "of a learner's applied state, revision 7, as of 20s ago, no leader is heard since 20s"},
		{View{Mode: "learner", Revision: 7, AsOfMS: 40_000}, "of a learner's applied state, revision 7, as of 40s ago"},
	} {
		if got := viewText(c.v); got != c.want {
			t.Errorf("%+v: %q, want %q", c.v, got, c.want)
		}
	}
}
