package control

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/config"
	"pace-node/internal/wire"
)

func TestLeaveAsksBack(t *testing.T) {
	node := leaderNode()
	exit, _, errs := nodes{"": node}.run(t, words("fleet", "leave"), config.Config{}, cluster1+"\n")
	if exit != 0 || len(node.clusters) != 1 || !strings.Contains(errs, cluster1) {
		t.Errorf("%d %q %v", exit, errs, node.clusters)
	}
	node = leaderNode()
	if exit, _, _ = (nodes{"": node}).run(t, words("fleet", "leave"), config.Config{}, "no\n"); exit != 2 || len(node.clusters) != 0 {
		t.Errorf("%d %v", exit, node.clusters)
	}
	for args, want := range map[string]int{cluster1: 0, idA: 2} {
		if exit, _, errs := (nodes{"": leaderNode()}).run(t, words("fleet", "leave", args), config.Config{}, ""); exit != want {
			t.Errorf("%s: %d %q, want %d", args, exit, errs, want)
		}
		call := words("fleet", "leave")
		call.Flags = map[string]string{config.WordYes: args, config.WordForce: "true"}
		node := leaderNode()
		if exit, _, errs := (nodes{"": node}).run(t, call, config.Config{JSON: true}, ""); exit != want || want == 0 && !node.clusters[0].Force {
			t.Errorf("--yes=%s --force: %d %q %+v, want %d", args, exit, errs, node.clusters, want)
		}
	}
	// It is about the machine on which it is typed, whoever leads.
	other := leaderNode()
	other.fail = wire.NewError(wire.CodeNotLeader, "10.0.0.1:6674", "")
	if exit, _, _ := (nodes{"": other, "10.0.0.1:6674": leaderNode()}).run(t, words("fleet", "leave", cluster1), config.Config{}, ""); exit != config.ExitNobody {
		t.Errorf("it followed a redirect: %d", exit)
	}
	far := leaderNode()
	if exit, _, errs := (nodes{"10.0.0.1:6674": far}).run(t, words("fleet", "leave", cluster1), config.Config{Scheduler: "10.0.0.1:6674"}, ""); exit != 2 || len(far.clusters) != 0 {
		t.Errorf("through --scheduler: %d %q %v", exit, errs, far.clusters)
	}
}

// TestLeaveOfAPendingMachine: giving an ask up asks nothing back.
func TestLeaveOfAPendingMachine(t *testing.T) {
	node := leaderNode()
	asks := exampleNode()
	asks.Asks = &Asking{Cluster: cluster1}
	node.status["node"] = asks
	if exit, _, errs := (nodes{"": node}).run(t, words("fleet", "leave"), config.Config{}, ""); exit != 0 || len(node.clusters) != 1 {
		t.Errorf("%d %q %v", exit, errs, node.clusters)
	}
}

func TestRecoverAsksBack(t *testing.T) {
	heard := int64(90_000)
	preview := RecoverPreview{V: 1, Cluster: cluster1, Epoch: 1, Members: 3, Lost: []string{"what came later"},
		Voters: []RecoverVoter{{Machine: Machine{ID: idA, Name: "web1"}, HeardMS: &heard}, {Machine: Machine{ID: idB}}}}
	node := func() *fakeNode {
		n := leaderNode()
		n.status["recover"] = preview
		return n
	}
	one := node()
	exit, _, errs := nodes{"": one}.run(t, words("fleet", "recover"), config.Config{}, cluster1+"\n")
	if diff := cmp.Diff([]wire.ClusterRequest{{Op: "recover", ID: cluster1}}, one.clusters); exit != 0 || diff != "" {
		t.Errorf("%d %q %s", exit, errs, diff)
	}
	for _, say := range []string{"last heard 90s ago", "last heard never", "may be lost: what came later", "recovery epoch 1", cluster1} {
		if !strings.Contains(errs, say) && !strings.Contains(errs, strings.ReplaceAll(say, "90s", "1m30s")) {
			t.Errorf("it does not say %q:\n%s", say, errs)
		}
	}
	one = node()
	if exit, _, _ = (nodes{"": one}).run(t, words("fleet", "recover"), config.Config{}, "yes\n"); exit != 2 || len(one.clusters) != 0 {
		t.Errorf("%d %v", exit, one.clusters)
	}
	call := words("fleet", "recover")
	call.Flags = map[string]string{config.WordYes: cluster1}
	one = node()
	exit, out, _ := nodes{"": one}.run(t, call, config.Config{JSON: true}, "")
	if wantOneJSON(t, out); exit != 0 || len(one.clusters) != 1 {
		t.Errorf("%d %v", exit, one.clusters)
	}
	far := node()
	if exit, _, _ := (nodes{"10.0.0.1:6674": far}).run(t, call, config.Config{Scheduler: "10.0.0.1:6674"}, ""); exit != 2 || len(far.clusters) != 0 {
		t.Errorf("through --scheduler: %d %v", exit, far.clusters)
	}
}

func TestAcceptAsksBack(t *testing.T) {
	node := leaderNode()
	exit, _, errs := nodes{"": node}.run(t, words("fleet", "accept", testKey, "10.0.0.1:6674"), config.Config{}, cluster1+"\n")
	if diff := cmp.Diff([]wire.ClusterRequest{{Op: "accept", Key: testKey, Endpoint: "10.0.0.1:6674"}}, node.clusters); exit != 0 || diff != "" || !strings.Contains(errs, testKey) {
		t.Errorf("%d %q %s", exit, errs, diff)
	}
	for _, args := range [][]string{{"fleet", "accept"}, {"fleet", "accept", testKey[1:]}, {"fleet", "accept", testKey, "10.0.0.1"}, {"fleet", "accept", testKey, "a:1", "b"}} {
		node := leaderNode()
		if exit, _, errs := (nodes{"": node}).run(t, words(args...), config.Config{}, cluster1+"\n"); exit != 2 || len(node.clusters) != 0 {
			t.Errorf("%q: %d %q", args, exit, errs)
		}
	}
	node = leaderNode()
	if exit, _, _ := (nodes{"": node}).run(t, words("fleet", "accept", testKey), config.Config{}, "no\n"); exit != 2 || len(node.clusters) != 0 {
		t.Errorf("%d %v", exit, node.clusters)
	}
}

func TestBackupFetchesTheWholeState(t *testing.T) {
	state := bytes.Repeat([]byte("0123456789"), 100)
	node := leaderNode()
	var asked []wire.StatusRequest
	changes := 1 // how often another one is asked for in between
	node.statusOf = func(r wire.StatusRequest) (any, error) {
		if r.What != "backup" {
			return node.status[r.What], nil
		}
		asked = append(asked, r)
		if r.Offset > 0 && changes > 0 {
			changes--
			return nil, wire.NewError(wire.CodeBusy, "no longer held", "begin again")
		}
		end := min(int(r.Offset)+300, len(state))
		return BackupPart{V: 1, Cluster: cluster1, Epoch: 2, Revision: 9, Members: 3, Total: uint64(len(state)), Offset: r.Offset, Bytes: state[r.Offset:end]}, nil
	}
	var got FounderState
	var pass string
	deps := func(d *RunDeps) {
		d.Passphrase = func(file, _ string, twice bool) ([]byte, error) { return []byte(fmt.Sprint(file, twice)), nil }
		d.Backup = func(_ context.Context, file string, p []byte, s FounderState) (Done, error) {
			got, pass = s, string(p)
			return Done{Said: "sealed in " + file}, nil
		}
	}
	call := words("fleet", "backup", "x.backup")
	call.Flags = map[string]string{config.WordPass: "-"}
	exit, out, errs := nodes{"": node}.runWith(t, call, config.Config{}, "", deps)
	if exit != 0 || !strings.Contains(out, "sealed in x.backup") || pass != "-true" {
		t.Fatalf("%d %q %q %q", exit, out, errs, pass)
	}
	if !bytes.Equal(got.State, state) || got.Cluster != cluster1 || got.Epoch != 2 || got.Revision != 9 || got.Members != 3 {
		t.Errorf("%+v", got)
	}
	if len(asked) != 6 || asked[1].Revision != 9 || asked[5].Offset != 900 {
		t.Errorf("asked %+v", asked)
	}
	changes = 100
	if exit, _, errs := (nodes{"": node}).runWith(t, call, config.Config{}, "", deps); exit != config.ExitNobody {
		t.Errorf("for ever: %d %q", exit, errs)
	}
	for name, part := range map[string]BackupPart{
		"nothing": {Total: 5}, "too much": {Total: 2, Bytes: []byte("abc")}, "elsewhere": {Total: 9, Offset: 3, Bytes: []byte("abc")}, "without an end": {Total: wire.MaxState + 1, Bytes: []byte("abc")},
	} {
		node.statusOf = func(wire.StatusRequest) (any, error) { return part, nil }
		if exit, _, errs := (nodes{"": node}).runWith(t, call, config.Config{}, "", deps); exit != 1 || !strings.Contains(errs, "no part of a state") {
			t.Errorf("%s: %d %q", name, exit, errs)
		}
	}
	if exit, _, errs := (nodes{}).runWith(t, call, config.Config{}, "", deps); exit != config.ExitNobody {
		t.Errorf("without a node: %d %q", exit, errs)
	}
}

func TestRestoreAsksBack(t *testing.T) {
	restored := 0
	deps := func(d *RunDeps) {
		d.Passphrase = func(string, string, bool) ([]byte, error) { return []byte("p"), nil }
		d.Restore = func(_ context.Context, _ string, _ []byte, sure func(Restoring) error) (Done, error) {
			if err := sure(Restoring{Cluster: cluster1, ID: idA, Name: "web1", Epoch: 3, Revision: 7, Members: 4, At: 1_790_000_000}); err != nil {
				return Done{}, err
			}
			restored++
			return Done{Said: "it is " + idA}, nil
		}
	}
	exit, _, errs := nodes{}.runWith(t, words("fleet", "restore", "x"), config.Config{}, cluster1+"\n", deps)
	if exit != 0 || restored != 1 || !strings.Contains(errs, "recovery epoch 3") || !strings.Contains(errs, "revision 7, with 4 members") {
		t.Errorf("%d %q", exit, errs)
	}
	if exit, _, _ = (nodes{}).runWith(t, words("fleet", "restore", "x"), config.Config{}, "y\n", deps); exit != 2 || restored != 1 {
		t.Errorf("%d, restored %d", exit, restored)
	}
	call := words("fleet", "restore", "x")
	call.Flags = map[string]string{config.WordYes: cluster1}
	exit, out, _ := nodes{}.runWith(t, call, config.Config{JSON: true}, "", deps)
	if wantOneJSON(t, out); exit != 0 || restored != 2 {
		t.Errorf("%d, restored %d", exit, restored)
	}
	if exit, _, _ := (nodes{}).runWith(t, call, config.Config{Scheduler: "h:1"}, "", deps); exit != 2 || restored != 2 {
		t.Errorf("through --scheduler: %d", exit)
	}
}

func staleNode() *fakeNode {
	n := leaderNode()
	n.status["stale"] = StaleList{V: 1, Cluster: cluster1, ForMS: 3_600_000, ListenedMS: 60_000, Members: []StaleMember{
		{ID: idA, Name: "web1", Role: "learner", Key: testKey, SilentMS: 7_200_000}, {ID: idB, Name: "web2", Role: "voter", Key: otherKey, SilentMS: 7_200_000},
		{ID: idC, Role: "learner", Key: otherKey, SilentMS: 9_000_000, NeverArrived: true},
	}}
	return n
}

func TestStale(t *testing.T) {
	node := staleNode()
	var asked wire.StatusRequest
	node.statusOf = func(r wire.StatusRequest) (any, error) { asked = r; return node.status[r.What], nil }
	call := words("member", "stale")
	exit, out, errs := nodes{"": node}.run(t, call, config.Config{}, "")
	if exit != 0 || asked.ForMS != (30*24*time.Hour).Milliseconds() {
		t.Fatalf("%d %q, asked %+v", exit, errs, asked)
	}
	for _, say := range []string{idA + " web1 learner silent for at least 2h", idC + " - learner never arrived, admitted 2h30m ago", "listened for 1m"} {
		if !strings.Contains(out, say) {
			t.Errorf("%q is not in\n%s", say, out)
		}
	}
	call.Flags = map[string]string{config.WordStale: "90min"}
	exit, out, _ = nodes{"": node}.run(t, call, config.Config{JSON: true}, "")
	if wantOneJSON(t, out); exit != 0 || asked.ForMS != (90*time.Minute).Milliseconds() {
		t.Errorf("%d, asked %+v", exit, asked)
	}
	// The leader knows, so a member that does not lead names it.
	far := staleNode()
	near := leaderNode()
	near.fail = wire.NewError(wire.CodeNotLeader, "10.0.0.1:6674", "")
	if exit, _, errs := (nodes{"": near, "10.0.0.1:6674": far}).run(t, call, config.Config{}, ""); exit != 0 {
		t.Errorf("%d %q", exit, errs)
	}
}

// TestForgetManyAtOnce: after a preview, only learners, only with the fleet's id given back.
func TestForgetManyAtOnce(t *testing.T) {
	call := words("member", "forget")
	call.Flags = map[string]string{config.WordStale: "1h"}
	node := staleNode()
	exit, out, errs := nodes{"": node}.run(t, call, config.Config{}, cluster1+"\n")
	want := []wire.ClusterRequest{{Op: "forget", ID: idA}, {Op: "forget", ID: idC}}
	if diff := cmp.Diff(want, node.clusters); exit != 0 || diff != "" || !strings.Contains(out, "2 machines are forgotten") {
		t.Errorf("%d %q %q %s", exit, out, errs, diff)
	}
	for _, say := range []string{"web1", "web2", "1 of them vote and are left out", "forget 2 machines and revoke their keys for ever", cluster1} {
		if !strings.Contains(errs, say) {
			t.Errorf("%q is not in\n%s", say, errs)
		}
	}
	node = staleNode()
	if exit, _, _ = (nodes{"": node}).run(t, call, config.Config{}, "yes\n"); exit != 2 || len(node.clusters) != 0 {
		t.Errorf("%d %v", exit, node.clusters)
	}
	node = staleNode()
	if exit, _, _ = (nodes{"": node}).run(t, call, config.Config{JSON: true}, ""); exit != 2 || len(node.clusters) != 0 {
		t.Errorf("--json without --yes: %d %v", exit, node.clusters)
	}
	call.Flags[config.WordYes] = cluster1
	node = staleNode()
	exit, out, _ = nodes{"": node}.run(t, call, config.Config{JSON: true}, "")
	if wantOneJSON(t, out); exit != 0 || len(node.clusters) != 2 {
		t.Errorf("%d %v", exit, node.clusters)
	}
	none := leaderNode()
	none.status["stale"] = StaleList{V: 1, Cluster: cluster1}
	if exit, out, _ := (nodes{"": none}).run(t, call, config.Config{}, ""); exit != 0 || !strings.Contains(out, "nothing to do") || len(none.clusters) != 0 {
		t.Errorf("%d %q %v", exit, out, none.clusters)
	}
	for name, c := range map[string]struct {
		words []string
		flags map[string]string
	}{
		"neither": {nil, nil}, "both": {[]string{"web1"}, map[string]string{config.WordStale: "1h"}}, "an id for one": {[]string{"web1"}, map[string]string{config.WordYes: cluster1}},
		"an id for none": {nil, map[string]string{config.WordYes: cluster1}},
	} {
		call := words(append([]string{"member", "forget"}, c.words...)...)
		call.Flags = c.flags
		node := staleNode()
		if exit, _, errs := (nodes{"": node}).run(t, call, config.Config{}, ""); exit != 2 || len(node.clusters) != 0 {
			t.Errorf("%s: %d %q", name, exit, errs)
		}
	}
}

// TestMutationCauseRemedies: a condition that is raised for another cause has another remedy.
func TestMutationCauseRemedies(t *testing.T) {
	check := func() error {
		for _, c := range []struct {
			id   string
			args []string
			want string
		}{
			{"fleet-unreachable", nil, "pacectl fleet recover # or, to be a fleet of its own: pacectl fleet leave --force"},
			{"fleet-unreachable", []string{testKey}, "pacectl fleet accept " + testKey},
			{"provisioning-paused", []string{"operator"}, "pacectl queue resume"},
			{"provisioning-paused", nil, "pace-node --install-service --provision-helper=PATH # or --provision-default=FILE, and a node that was started by hand takes the flag itself"},
		} {
			b := NewBoard(nil)
			b.Raise(c.id, "so", c.args...)
			if got := strings.TrimPrefix(b.List()[0].Remedy, "sudo "); got != c.want { // Windows has another word for it
				return fmt.Errorf("%s of %q: %q, want %q", c.id, c.args, got, c.want)
			}
		}
		for _, row := range causeRemedies {
			if _, ok := conditionRow(row.ID); !ok || remedyName(row.Remedy) != "remedy" || Sentence(row.Remedy) != row.Remedy {
				return fmt.Errorf("%s: %q", row.ID, row.Remedy)
			}
		}
		return nil
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	for i := range causeRemedies {
		row := causeRemedies[i]
		causeRemedies[i].Remedy += "x"
		if check() == nil {
			t.Errorf("%s: another remedy is not noticed", row.ID)
		}
		causeRemedies[i] = row
	}
}

// TestMutationSystemRemedies: where another system than Linux types something else, its own words are given, and only for a
// condition of the table whose places they fill.
func TestMutationSystemRemedies(t *testing.T) {
	const another = ", or give the node another port: "
	want := map[string]string{
		"admin-endpoint-off windows":          "netstat -abno -p TCP # stop the program that has port {port}" + another + "pace-node --install-service --admin-listen=127.0.0.1:6691",
		"admin-endpoint-off darwin":           "sudo lsof -nP -iTCP:{port} -sTCP:LISTEN # stop the program that it shows" + another + "sudo pace-node --install-service --admin-listen=127.0.0.1:6691",
		"discovery-no-interface windows":      "pace-node --install-service --fleet-seed=HOST # finds the fleet without beacons, and a node that was started by hand takes the flag itself",
		"provisioning-paused windows":         "pace-node --install-service --provision-helper=PATH # or --provision-default=FILE, and a node that was started by hand takes the flag itself",
		"provisioning-helper-missing windows": "pace-node --install-service --provision-helper=PATH # or --provision-default=FILE, and a node that was started by hand takes the flag itself",
		"clock-skewed windows":                "w32tm /resync",
		"clock-skewed darwin":                 "sudo sntp -sS time.apple.com",
		"peers-never-authenticated windows":   `netsh advfirewall firewall add rule name="pace-node answers" dir=in action=allow protocol=UDP localport={port}`,
		"formation-move-refused windows":      "dir {folder}",
		"consensus-store-unwritable windows":  "dir {folder}",
		"state-dir-nearly-full windows":       "dir {folder}",
		"state-dir-lost windows":              "dir {folder}",
		"alert-exec-failing windows":          "dir {program}",
	}
	check := func() error {
		for _, row := range Conditions {
			for _, system := range []string{"linux", "windows", "darwin"} {
				expected := row.Remedy
				if w, ok := want[row.ID+" "+system]; ok {
					expected = w
				}
				if got := remedyOf(row, system, []string{"x"}).Remedy; got != expected {
					return fmt.Errorf("%s on %s: %q, want %q", row.ID, system, got, expected)
				}
			}
		}
		for _, row := range systemRemedies {
			if remedyName(row.Remedy) != "remedy" {
				return fmt.Errorf("%s on %s is no line to paste", row.ID, row.OS)
			}
		}
		if len(systemRemedies) != len(want) {
			return fmt.Errorf("%d rows, want %d", len(systemRemedies), len(want))
		}
		return nil
	}
	if err := check(); err != nil {
		t.Fatal(err)
	}
	for i := range systemRemedies {
		row := systemRemedies[i]
		systemRemedies[i].Remedy += "x"
		if check() == nil {
			t.Errorf("%s on %s: another remedy is not noticed", row.ID, row.OS)
		}
		systemRemedies[i] = row
	}
}
