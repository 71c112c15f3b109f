package node

import (
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"pace-node/internal/control"
	"pace-node/internal/discovery"
)

// conditionProof is a test that raises a condition and clears it by a real cause.
type conditionProof struct {
	ID   string
	Test string // a test of this package over simulate: its log is looked at when it ends; else one of File
	File string // below the repository; empty: this package
	// Restart: the cause is in the settings or in the identity, so the node that is started without it raises nothing.
	Restart bool
}

// conditionProofs has a row for each condition. TestEveryConditionIsProven walks them.
var conditionProofs = []conditionProof{
	{ID: "foreign-fleet-visible", Test: "TestSimEstablishedFleetsStay"},
	{ID: "fleet-split-healing", Test: "TestSimSplitHeals"},
	{ID: "enrollment-window-open", Test: "TestSimWindow"},
	{ID: "enrollment-requests-waiting", Test: "TestSimWindow"},
	{ID: "own-key-revoked", Test: "TestSimRevokedUntilReset", Restart: true},
	{ID: "pin-disagrees", Test: "TestSimPinThatDisagrees/another_key", Restart: true},
	{ID: "fleet-unreachable", Test: "TestSimUnreachableOverRestarts"},
	{ID: "fleet-recovered-elsewhere", Test: "TestSimAccept"},
	{ID: "formation-move-refused", Test: "TestSimRecordNotWritten"},
	{ID: "consensus-leader-silent", Test: "TestSimLearnerAlone"},
	{ID: "consensus-store-unwritable", Test: "TestFullDiskInEveryMode", File: "test/e2e/disk_test.go"},
	{ID: "single-voter-fleet", Test: "TestSimFewVoters"},
	{ID: "two-voter-fleet", Test: "TestSimFewVoters"},
	{ID: "promotion-stalled", Test: "TestSimPromotionStalls"},
	{ID: "clock-skewed", Test: "TestClocksThatJumpWhileTheFleetWrites", File: "test/e2e/clock_test.go"},
	{ID: "identity-clash", Test: "TestIdentityClash", File: "internal/provision/discover_test.go"},
	{ID: "identity-cloned", Test: "TestSimClone"},
	{ID: "peers-never-authenticated", Test: "TestAnsweringPortIsFiltered", File: "test/e2e/cases_test.go"},
	{ID: "discovery-no-interface", Test: "TestHundredsOfInterfacesOfWhichSomeVanish", File: "test/e2e/cases_test.go"},
	{ID: "mixed-node-versions", Test: "TestRollingUpgrade", File: "test/e2e/voters_test.go"},
	{ID: "wire-version-seen", Test: "TestSimOtherWireVersion"},
	{ID: "admin-endpoint-off", Test: "TestTakenAddressStandsDown", File: "internal/control/http_test.go"},
	{ID: "alert-exec-failing", Test: "TestAlertExecFails"},
	{ID: "provisioning-paused", Test: "TestSimOperatorPauses"},
	{ID: "provisioning-helper-missing", Test: "TestSimLeaderWithoutMeansHandsOver"},
	{ID: "provisioning-failing", Test: "TestSimHelperFailsAndIsMended"},
	{ID: "state-dir-lost", Test: "TestSimRecordNotWritten"},
	{ID: "state-dir-nearly-full", Test: "TestFullDiskInEveryMode", File: "test/e2e/disk_test.go"},
	{ID: "fleet-state-differs", Test: "TestSimVoterOfAnotherHistory"},
	{ID: "fleet-format-newer", Test: "TestRollingUpgrade", File: "test/e2e/voters_test.go"},
}

// unproven lists the conditions without a row, the rows without a condition, and the rows whose test is not there or does
// not look at the condition.
func unprovenConditions(t *testing.T) (out []string) {
	t.Helper()
	known := map[string]bool{}
	for _, row := range control.Conditions {
		known[row.ID] = true
	}
	for _, p := range conditionProofs {
		if !known[p.ID] {
			out = append(out, p.ID+" has a row and is no condition, or has two rows")
		}
		delete(known, p.ID)
		root, _, _ := strings.Cut(p.Test, "/")
		if p.File == "" {
			if files, _ := filepath.Glob("*_test.go"); !declared(t, files, root) {
				out = append(out, p.ID+": there is no "+root)
			}
			continue
		}
		path := filepath.Join("..", "..", p.File)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !declared(t, []string{path}, root) || !strings.Contains(string(b), `"`+p.ID+`"`) {
			out = append(out, p.ID+": "+root+" of "+p.File+" does not look at it")
		}
	}
	for id := range known {
		out = append(out, id+" has no row: no test raises and clears it")
	}
	return out
}

func declared(t *testing.T, files []string, test string) bool {
	t.Helper()
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\nfunc "+test+"(t *testing.T) {") {
			return true
		}
	}
	return false
}

func TestEveryConditionIsProven(t *testing.T) {
	for _, fault := range unprovenConditions(t) {
		t.Error(fault)
	}
}

func TestMutationConditionProofs(t *testing.T) {
	for i := range conditionProofs {
		was := conditionProofs[i]
		for name, flip := range map[string]func(*conditionProof){
			"the id":   func(p *conditionProof) { p.ID = "x-" + p.ID },
			"the test": func(p *conditionProof) { p.Test = "TestNothing" },
		} {
			flip(&conditionProofs[i])
			if len(unprovenConditions(t)) == 0 {
				t.Errorf("%s: %s flipped passes", was.ID, name)
			}
			conditionProofs[i] = was
		}
	}
}

var conditionLine = regexp.MustCompile(`msg="condition (raised|cleared)".* id=([a-z-]+)`)

// note keeps what a line says of a condition.
func (s *story) note(line string) {
	m := conditionLine.FindStringSubmatch(line)
	if m == nil {
		return
	}
	if s.marks == nil {
		s.marks = map[string]mark{}
	}
	was := s.marks[m[2]]
	s.marks[m[2]] = mark{was.raised || m[1] == "raised", was.cleared || m[1] == "cleared"}
}

// checkProofs holds the log of a test against the rows that name it.
func (s *sim) checkProofs() {
	for _, p := range conditionProofs {
		if p.File != "" || p.Test != s.t.Name() {
			continue
		}
		s.log.mu.Lock()
		m := s.log.marks[p.ID]
		s.log.mu.Unlock()
		for _, n := range s.nodes {
			if p.Restart && n != nil && n.board.Raised(p.ID) {
				s.t.Errorf("%s still raises %s", n.name, p.ID)
			}
		}
		if !m.raised || !m.cleared && !p.Restart {
			s.t.Errorf("%s is to be raised and cleared here, and the log says %+v", p.ID, m)
		}
	}
}

// TestClonedDetail: the address stands beside the places, and what to do ends the sentence.
func TestClonedDetail(t *testing.T) {
	got := clonedDetail(discovery.Event{ID: "n-a", From: netip.MustParseAddrPort("10.1.0.9:51038"), Reason: "another machine holds a copy; on the copy run pace-node --reset-identity"})
	want := "the key of n-a is proven from two places, the last time from 10.1.0.9:51038: another machine holds a copy, on the copy run pace-node --reset-identity"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
