package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// reports are threads of others' users about installers and services. Each taught something that is a test here, or that no
// machine here can show.
var reports = []string{
	"kardianos/service#337", "kardianos/service#420", "kardianos/service#418", "kardianos/service#375", "kardianos/service#271",
	"kardianos/service#374", "kardianos/service#324", "k0sproject/k0s#7053", "prometheus-community/windows_exporter#653", "navidrome/navidrome#5333",
	"ironmansoftware/powershell-universal#419", "ConSol-Monitoring/snclient#23", "saltstack/salt-windows-msi#19", "fleetdm/fleet#13175",
	"fleetdm/fleet#13186", "fleetdm/fleet#45076", "fleetdm/fleet#26811", "wazuh/wazuh#38182", "wazuh/wazuh#38277", "LanternOps/breeze#2747",
	"glpi-project/glpi-agent#607", "glpi-project/glpi-agent#602", "glpi-project/glpi-agent#584", "wazuh/wazuh#8643", "DataDog/datadog-agent#20769",
	"OpenIdentityPlatform/OpenDJ#769", "OpenVPN/openvpnserv2#29", "google/cloud-print-connector#312", "Icinga/icinga2#10092", "wixtoolset/issues#6450",
	"xkevas24/ZhengHuo#2", "MPExtended/MPExtended#389", "erikdarlingdata/PerformanceMonitor#2436", "erikdarlingdata/PerformanceMonitor#1773",
	"aelassas/servy#357", "DataDog/datadog-agent#32117", "notepad-plus-plus/notepad-plus-plus#5199", "CrossPaste/crosspaste-desktop#4401",
	"rustfs/rustfs#8011", "open-telemetry/opentelemetry-collector-releases#799", "Velocidex/velociraptor#4097", "ntop/ntopng#2267",
	"redis/redis-rpm#30", "grafana/mimir#4801", "goreleaser/nfpm#356", "netbirdio/netbird#5711", "netbirdio/netbird#5524", "netbirdio/netbird#3520",
	"wazuh/wazuh#27318", "pixelated/puppet-pixelated#33", "scylladb/scylladb#5748", "systemd/systemd#11329", "systemd/systemd#12131",
	"systemd/systemd#9835", "tracewayapp/traceway#361", "systemd/systemd#9467", "systemd/systemd#14260", "systemd/systemd#22360",
	"nteract/nteract#1187", "DeterminateSystems/nix-installer#1157", "evcc-io/docs#1146", "cdzombak/runner#4", "christgau/wsdd#215",
	"firewalld/firewalld#848", "h2o/h2o#2264", "godotengine/godot#87723", "jellyfin/jellyfin-sdk-kotlin#484", "wazuh/wazuh#15565",
	"hashicorp/consul#8720", "exo-explore/exo#1332", "hashicorp/raft#524", "rqlite/rqlite#1293", "hashicorp/nomad#12926",
}

// verified reads the page that says what ran where.
func verified(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root(t), "docs", "verified.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// chapter is what stands below a heading of the second order.
func chapter(t *testing.T, page, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(page, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("docs/verified.md has no chapter %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// TestVerifiedReports: each report is in the table, and its row names a test (TestWords holds that it is there), or says that
// it is not verified, with steps for somebody who can.
func TestVerifiedReports(t *testing.T) {
	table := chapter(t, verified(t), "What others' users reported")
	report := regexp.MustCompile(`\[([\w.-]+/[\w.-]+#\d+)\]\(https://github\.com/([\w.-]+/[\w.-]+)/(?:issues|pull)/(\d+)\)`)
	var found []string
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		named := report.FindAllStringSubmatch(line, -1)
		if len(named) == 0 {
			continue
		}
		for _, m := range named {
			if m[1] != m[2]+"#"+m[3] {
				t.Errorf("%s leads to %s/%s", m[1], m[2], m[3])
			}
			if slices.Contains(found, m[1]) {
				t.Errorf("%s has two rows", m[1])
			}
			found = append(found, m[1])
		}
		if here := cells[len(cells)-1]; len(cells) != 3 || !test.MatchString(here) && !strings.Contains(here, "*not verified*") {
			t.Errorf("this row names no test, and does not say that it is not verified: %s", line)
		}
	}
	for _, id := range reports {
		if !slices.Contains(found, id) {
			t.Errorf("docs/verified.md does not say what became of %s", id)
		}
	}
	for _, id := range found {
		if !slices.Contains(reports, id) {
			t.Errorf("docs/verified.md has a row for %s, which this test does not know", id)
		}
	}
}

// TestVerifiedFieldCases: each field case of formation has one row, in order, which names a test (TestWords holds that it is
// there), or says that it is not verified and why.
func TestVerifiedFieldCases(t *testing.T) {
	const cases = 36
	row := regexp.MustCompile(`(?m)^\| (P\d\d) \| ([^|]+) \| ([^|]+) \|$`)
	var found []string
	for _, m := range row.FindAllStringSubmatch(chapter(t, verified(t), "Field cases of formation"), -1) {
		found = append(found, m[1])
		if !test.MatchString(m[3]) && !strings.Contains(m[3], "*not verified*") {
			t.Errorf("%s names no test, and does not say that it is not verified: %s", m[1], m[3])
		}
	}
	var want []string
	for i := 1; i <= cases; i++ {
		want = append(want, fmt.Sprintf("P%02d", i))
	}
	if !slices.Equal(found, want) {
		t.Errorf("the rows are %q, want %q", found, want)
	}
}

// TestVerifiedQueue: each row of the chapters about the provisioning queue names a test (TestWords holds that it is there).
func TestVerifiedQueue(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| (.+) \| (.+) \|$`)
	for heading, least := range map[string]int{"The provisioning queue on the leader": 25, "The provisioning queue: machine, helper, upgrades, operator": 30} {
		rows := row.FindAllStringSubmatch(chapter(t, verified(t), heading), -1)
		if len(rows) < least {
			t.Errorf("%s has %d rows, want %d and more", heading, len(rows), least)
		}
		for _, m := range rows {
			if m[1] != "What" && !test.MatchString(m[2]) {
				t.Errorf("%s: this row names no test: %s", heading, m[1])
			}
		}
	}
}

// TestVerifiedFiles: every file that only Windows or macOS compiles is in the table with what ran it, and no other.
func TestVerifiedFiles(t *testing.T) {
	table := chapter(t, verified(t), "Files that only another system compiles")
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (.+) \\|$")
	listed := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(table, -1) {
		listed[m[1]] = true
		if what := strings.TrimSpace(m[2]); len(what) < 10 {
			t.Errorf("%s: %q does not say what ran it", m[1], what)
		}
	}
	there := map[string]bool{}
	err := filepath.WalkDir(root(t), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "build" || d.Name() == "dist") {
			return filepath.SkipDir
		}
		if name := d.Name(); strings.HasSuffix(name, "_windows.go") || strings.HasSuffix(name, "_darwin.go") {
			rel, err := filepath.Rel(root(t), path)
			if err != nil {
				return err
			}
			there[filepath.ToSlash(rel)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(there) < 10 {
		t.Fatalf("found %d files only: this test looks in the wrong place", len(there))
	}
	for file := range there {
		if !listed[file] {
			t.Errorf("docs/verified.md does not say what ran %s", file)
		}
	}
	for file := range listed {
		if !there[file] {
			t.Errorf("docs/verified.md lists %s, which is gone", file)
		}
	}
}

// TestServiceLibrary: the platforms use kardianos/service behind package host, so that it can be left without anybody
// else noticing.
func TestServiceLibrary(t *testing.T) {
	users := 0
	for _, goos := range []string{"linux", "windows", "darwin"} {
		for _, p := range load(t, goos) {
			name, isOurs := ours(p.ImportPath)
			if !isOurs || !slices.Contains(p.Imports, "github.com/kardianos/service") {
				continue
			}
			users++
			if !strings.HasPrefix(name, "platform/") {
				t.Errorf("on %s %s imports kardianos/service: only platform/* may", goos, name)
			}
		}
	}
	if users == 0 {
		t.Error("nobody imports kardianos/service: this test looks in the wrong place")
	}
}
