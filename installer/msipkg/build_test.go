package msipkg

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// tree is the folder packaging/windows.
var tree = filepath.Join("..", "..", "packaging", "windows")

// plan is a package around programs that are a few bytes.
func plan(t *testing.T, arch string) Plan {
	t.Helper()
	for _, tool := range []string{"wixl", "msibuild", "msiinfo"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed, so no package is built here: apt-get install wixl msitools", tool)
		}
	}
	at := slices.IndexFunc(Architectures, func(a Arch) bool { return a.Go == arch })
	return Plan{Version: stamped, Arch: Architectures[at], Time: time.Unix(1_800_000_000, 0), Data: tree,
		Program: []byte("a program"), CheckSettings: []byte("another"), License: []byte("a\nb\n"), Scratch: t.TempDir()}
}

// exported are tables of a package as msiinfo exports them, a list of rows each.
func exported(t *testing.T, msi []byte) func(table string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "x.msi")
	if err := os.WriteFile(file, msi, 0o600); err != nil {
		t.Fatal(err)
	}
	return func(table string) []string {
		t.Helper()
		args := []string{"export", file, table}
		if table == "" {
			args = []string{"suminfo", file}
		}
		out, err := exec.Command("msiinfo", args...).Output()
		if err != nil {
			t.Fatalf("msiinfo %v: %v", args, err)
		}
		lines := strings.Split(strings.TrimRight(strings.ReplaceAll(string(out), "\r", ""), "\n"), "\n")
		if table == "" {
			return lines
		}
		return lines[3:]
	}
}

// tables are the rows that install.md asks for, written out by hand.
var tables = []struct {
	table string
	rows  []string
}{
	{"Property", []string{
		"ALLUSERS\t1", // per machine
		"ProductName\tpace-node", "ProductVersion\t1.2.3.401", "UpgradeCode\t{FB1179FA-5D81-4389-BFB0-CF452EE59A4D}",
		"REBOOT\tReallySuppress", "REINSTALLMODE\tamus", "ARPCOMMENTS\tpace-node 1.2.3-rc1",
	}},
	{"Upgrade", []string{
		"{FB1179FA-5D81-4389-BFB0-CF452EE59A4D}\t0.0.0\t1.2.3\t\t768\t\tPACE_OLDER", // from 0.0.0 up to this one, both included
		"{FB1179FA-5D81-4389-BFB0-CF452EE59A4D}\t1.2.3\t\t\t2\t\tPACE_NEWER",        // above this one: found only
	}},
	{"File", []string{
		"pace_node.exe\tNode\tpace-node.exe\t9\t1.2.3.401\t1033\t512\t1",
		"pacectl.exe\tTool\tpacectl.exe\t9\t1.2.3.401\t1033\t512\t2",
	}},
	{"Directory", []string{"PaceFolder\tProgramFiles64Folder\tPace"}},
	{"ServiceInstall", []string{
		"PaceNode\tPaceNode\tPace fleet node\t16\t2\t32769\t\t\tLocalSystem\t\t\tNode\t", // own process, automatic, vital
	}},
	{"ServiceControl", []string{"PaceNode\tPaceNode\t163\t\t1\tNode"}}, // start and stop at install, stop and delete at uninstall; wait
	{"MsiServiceConfig", []string{
		"FailureOnError\tPaceNode\t5\t4\t1\tNode", // recovery also on an exit with an error
		"Preshutdown\tPaceNode\t5\t7\t25000\tNode",
	}},
	{"MsiServiceConfigFailureActions", []string{
		"Restart\tPaceNode\t5\t86400\t\t\t1[~]1[~]1\t1000[~]5000[~]30000\tNode", // 1 s, 5 s, 30 s, reset after a day
	}},
	{"MsiLockPermissionsEx", []string{
		"ProgramFolder\tPaceFolder\tCreateFolder\tO:SYG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)\t",
	}},
	{"CreateFolder", []string{"PaceFolder\tNode"}},
	{"Component", []string{"Settings\t{919EC8C2-E53C-453F-85D2-9B2D80653E69}\tPaceFolder\t276\t\treg"}}, // permanent, 64-bit, a registry value
	{"RegLocator", []string{
		`FleetSeed` + "\t2\t" + `Software\Pace\Node` + "\tPACE_FLEET_SEED\t18", // HKLM, raw and 64-bit
		`FleetId` + "\t2\t" + `Software\Pace\Node` + "\tPACE_FLEET_ID\t18",
		`ReplyPort` + "\t2\t" + `Software\Pace\Node` + "\tPACE_DISCOVERY_REPLY_PORT\t18",
		`FirewallAllow` + "\t2\t" + `Software\Pace\Node` + "\tPACE_FIREWALL_ALLOW\t18",
	}},
	{"AppSearch", []string{"PACE_FLEET_SEED\tFleetSeed", "PACE_FLEET_ID\tFleetId", "PACE_DISCOVERY_REPLY_PORT\tReplyPort", "PACE_FIREWALL_ALLOW\tFirewallAllow"}},
	{"CustomAction", []string{
		"SaveFleetSeed\t307\tCMD_FLEET_SEED\t[PACE_FLEET_SEED]\t", "RestoreFleetSeed\t51\tPACE_FLEET_SEED\t[CMD_FLEET_SEED]\t", "ClearFleetSeed\t51\tPACE_FLEET_SEED\t\t",
		"SaveFleetId\t307\tCMD_FLEET_ID\t[PACE_FLEET_ID]\t", "RestoreFleetId\t51\tPACE_FLEET_ID\t[CMD_FLEET_ID]\t", "ClearFleetId\t51\tPACE_FLEET_ID\t\t",
		"SaveReplyPort\t307\tCMD_REPLY_PORT\t[PACE_DISCOVERY_REPLY_PORT]\t", "RestoreReplyPort\t51\tPACE_DISCOVERY_REPLY_PORT\t[CMD_REPLY_PORT]\t",
		"ClearReplyPort\t51\tPACE_DISCOVERY_REPLY_PORT\t0\t", "DefaultReplyPort\t51\tPACE_DISCOVERY_REPLY_PORT\t6682\t",
		"SaveFirewallAllow\t307\tCMD_FIREWALL_ALLOW\t[PACE_FIREWALL_ALLOW]\t", "RestoreFirewallAllow\t51\tPACE_FIREWALL_ALLOW\t[CMD_FIREWALL_ALLOW]\t",
		"ClearFirewallAllow\t51\tPACE_FIREWALL_ALLOW\t\t",
		"CheckFleetSeed\t2\tCheckSettings\tPACE_FLEET_SEED=[PACE_FLEET_SEED]\t", "CheckFleetId\t2\tCheckSettings\tPACE_FLEET_ID=[PACE_FLEET_ID]\t",
		"CheckReplyPort\t2\tCheckSettings\tPACE_DISCOVERY_REPLY_PORT=[PACE_DISCOVERY_REPLY_PORT]\t", "CheckFirewallAllow\t2\tCheckSettings\tPACE_FIREWALL_ALLOW=[PACE_FIREWALL_ALLOW]\t",
		// Deferred and not as the user: 18 a file of the package, 1024 deferred, 2048 as the system, 256 at a rollback, 64 whatever it says.
		fmt.Sprintf("ApplyService\t%d\tpace_node.exe\t--install-service --service-name=PaceNode\t", 18+1024+2048),
		fmt.Sprintf("UndoService\t%d\tpace_node.exe\t--uninstall-service --service-name=PaceNode\t", 18+1024+2048+256+64),
		fmt.Sprintf("ForgetService\t%d\tpace_node.exe\t--uninstall-service --service-name=PaceNode\t", 18+1024+2048+64),
		fmt.Sprintf("RedoService\t%d\tpace_node.exe\t--install-service --service-name=PaceNode\t", 18+1024+2048+256+64),
	}},
	{"Registry", []string{
		"reg6867C32E83B052458F39C402B7DB14E0\t2\t" + `Software\Pace\Node` + "\tPACE_FLEET_SEED\t[PACE_FLEET_SEED]\tSettings",
	}},
	{"LaunchCondition", []string{"Installed OR NOT PACE_NEWER\tA newer pace-node is installed on this machine. Nothing is changed.", "Installed OR WINDOWS_MAJOR\t"}},
	{"Binary", []string{"CheckSettings\t"}},
	{"Error", []string{"1722\t"}},
}

// orders of InstallExecuteSequence: each list is to be met from left to right.
var orders = [][]string{
	{"FindRelatedProducts", "SaveFleetSeed", "AppSearch", "RestoreFleetSeed", "ClearFleetSeed", "LaunchConditions", "CheckFleetSeed"},
	{"SaveFleetId", "AppSearch", "RestoreFleetId", "ClearFleetId"},
	{"SaveReplyPort", "AppSearch", "RestoreReplyPort", "ClearReplyPort", "DefaultReplyPort", "LaunchConditions"},
	{"SaveFirewallAllow", "AppSearch", "RestoreFirewallAllow", "ClearFirewallAllow"},
	// Everything is judged before the first action that changes anything.
	{"LaunchConditions", "CheckFleetSeed", "CheckFleetId", "CheckReplyPort", "CheckFirewallAllow", "CostInitialize", "InstallValidate", "InstallInitialize"},
	{"ApplySettings", "CostInitialize"},
	// A new service is registered, told how to recover, given its rules, and started.
	{"StopServices", "InstallFiles", "WriteRegistryValues", "InstallServices", "MsiConfigureServices", "UndoService", "ApplyService", "StartServices"},
	{"StopServices", "DeleteServices", "RedoService", "ForgetService", "RemoveFiles"},
	// The old version goes once everything of the new one is there, and before the point from which nothing is taken back.
	{"StartServices", "InstallExecute", "RemoveExistingProducts", "InstallFinalize"},
}

// check compares a package's tables with what is written out above.
func check(rows func(string) []string) error {
	var found []error
	for _, c := range tables {
		have := rows(c.table)
		for _, want := range c.rows {
			if !slices.ContainsFunc(have, func(row string) bool { return strings.HasPrefix(row, want) }) {
				found = append(found, fmt.Errorf("table %s has no row %q", c.table, want))
			}
		}
	}
	at := map[string]string{}
	var order []string
	for _, row := range rows("InstallExecuteSequence") {
		cells := strings.Split(row, "\t")
		at[cells[0]] = fmt.Sprintf("%06s", cells[2])
		order = append(order, cells[0])
	}
	slices.SortFunc(order, func(a, b string) int { return strings.Compare(at[a], at[b]) })
	for _, want := range orders {
		last := -1
		for _, action := range want {
			i := slices.Index(order, action)
			if i <= last {
				found = append(found, fmt.Errorf("%s is action %d of %v", action, i, want))
			}
			last = i
		}
	}
	return errors.Join(found...)
}

func TestTables(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		p := plan(t, arch)
		msi, err := Build(p)
		if err != nil {
			t.Fatal(err)
		}
		rows := exported(t, msi)
		if err := check(rows); err != nil {
			t.Errorf("%s: %v", arch, err)
		}
		summary := strings.Join(rows(""), "\n")
		for _, want := range []string{
			map[string]string{"amd64": "Template: x64;1033", "arm64": "Template: Arm64;1033"}[arch],
			"Subject: pace-node 1.2.3-rc1", "Created: Fri Jan 15 08:00:00 2027", "Last saved: Fri Jan 15 08:00:00 2027", "Version: 500",
		} {
			if !strings.Contains(summary, want) {
				t.Errorf("%s: %q is not in\n%s", arch, want, summary)
			}
		}
		// Properties that are handed on: all that are searched for, saved, or found.
		secure := ""
		for _, row := range rows("Property") {
			if list, ok := strings.CutPrefix(row, "SecureCustomProperties\t"); ok {
				secure = ";" + list + ";"
			}
		}
		for _, table := range []string{"AppSearch", "CustomAction", "Upgrade"} {
			for _, name := range regexp.MustCompile(`\b(PACE|CMD|WINDOWS)_[A-Z_]+`).FindAllString(strings.Join(rows(table), "\n"), -1) {
				if !strings.Contains(secure, ";"+name+";") {
					t.Errorf("%s is in %s, and not in SecureCustomProperties", name, table)
				}
			}
		}
		// No text is longer than its column: tools that validate packages refuse it.
		for _, table := range []string{"LaunchCondition", "InstallExecuteSequence", "InstallUISequence", "CustomAction"} {
			for _, row := range rows(table) {
				for cell := range strings.SplitSeq(row, "\t") {
					if len(cell) > 255 {
						t.Errorf("table %s: %d characters: %s", table, len(cell), cell)
					}
				}
			}
		}
		if want := "pace-node-1.2.3-rc1-" + arch + ".msi"; p.FileName() != want {
			t.Errorf("%s, want %s", p.FileName(), want)
		}
	}
}

// TestMutationTables: each row of each table counts.
func TestMutationTables(t *testing.T) {
	msi, err := Build(plan(t, "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	rows := exported(t, msi)
	cache := map[string][]string{}
	read := func(table string) []string {
		if cache[table] == nil {
			cache[table] = rows(table)
		}
		return slices.Clone(cache[table])
	}
	if err := check(read); err != nil {
		t.Fatal(err)
	}
	for _, c := range tables {
		for _, want := range c.rows {
			without := func(table string) []string {
				have := read(table)
				if table == c.table {
					have = slices.DeleteFunc(have, func(row string) bool { return strings.HasPrefix(row, want) })
				}
				return have
			}
			if check(without) == nil {
				t.Errorf("without %q of %s nothing is noticed", want, c.table)
			}
		}
	}
	for _, list := range orders {
		for i := 1; i < len(list); i++ {
			swapped := func(table string) []string {
				have := read(table)
				if table != "InstallExecuteSequence" {
					return have
				}
				for n, row := range have {
					cells := strings.Split(row, "\t")
					switch cells[0] {
					case list[i-1]:
						cells[0] = list[i]
					case list[i]:
						cells[0] = list[i-1]
					}
					have[n] = strings.Join(cells, "\t")
				}
				return have
			}
			if check(swapped) == nil {
				t.Errorf("%s after %s is not noticed", list[i-1], list[i])
			}
		}
	}
}

// TestReproducible: the same input makes the same bytes, and another byte makes another product.
func TestReproducible(t *testing.T) {
	first, err := Build(plan(t, "amd64"))
	if err != nil {
		t.Fatal(err)
	}
	second, err := Build(plan(t, "amd64"))
	if err != nil || !bytes.Equal(first, second) {
		t.Errorf("two builds differ: %v", err)
	}
	p := plan(t, "amd64")
	p.Program = []byte("b program")
	other, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	codes := func(msi []byte) string {
		rows := exported(t, msi)
		code := ""
		for _, row := range append(rows("Property"), rows("")...) {
			if strings.HasPrefix(row, "ProductCode\t") || strings.HasPrefix(row, "Revision number") {
				code += row + "\n"
			}
		}
		return code
	}
	a, b := codes(first), codes(other)
	for line := range strings.Lines(a) {
		if strings.Contains(b, line) {
			t.Errorf("packages that differ share %q", line)
		}
	}
	if strings.Count(a, "\n") != 2 {
		t.Errorf("codes are %q", a)
	}
}

// TestBuildRefuses: wixl leaves out what it does not know, with a warning and status 0; that fails the build. So does a table
// that does not come back as it was given.
func TestBuildRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		file, old, new, want string
		is                   error
	}{
		"an attribute that is dropped": {"pace-node.wxs", `<CreateFolder/>`, `<CreateFolder/><RegistryKey Root="HKLM" Key="SOFTWARE\N" ForceDeleteOnUninstall="yes"><RegistryValue Name="x" Type="integer" Value="1"/></RegistryKey>`,
			"no property named 'ForceDeleteOnUninstall'", ErrTool},
		"an element that is not known":  {"pace-node.wxs", `<CreateFolder/>`, `<CreateFolder/><Environment Id="E" Name="X" Value="1"/>`, "wixl", ErrTool},
		"a value that is not known":     {"tables/Upgrade.idt", "$(var.Compared)", "$(var.Nothing)", "Nothing", ErrPlan},
		"a table of another name":       {"tables/Error.idt", "Error\tError", "Eror\tError", "Eror", ErrPlan},
		"a component that is not there": {"pace-node.wxs", `Id="Settings"`, `Id="Others"`, "Settings", ErrTool},
	} {
		t.Run(name, func(t *testing.T) {
			p := plan(t, "amd64")
			p.Data = t.TempDir()
			if err := os.CopyFS(p.Data, os.DirFS(tree)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(p.Data, c.file)
			text, err := os.ReadFile(file)
			if err != nil || !strings.Contains(string(text), c.old) {
				t.Fatalf("%q is not in %s: %v", c.old, c.file, err)
			}
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), c.old, c.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Build(p); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestSign: with a certificate programs and packages verify, and one byte more or less is noticed.
func TestSign(t *testing.T) {
	for _, tool := range []string{"osslsigncode", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed, so nothing is signed here", tool)
		}
	}
	dir := t.TempDir()
	s := Signer{Certificate: filepath.Join(dir, "c.pem"), Key: filepath.Join(dir, "k.pem")}
	if out, err := exec.Command("openssl", "req", "-x509", "-newkey", "rsa:3072", "-nodes", "-days", "3650", "-keyout", s.Key, "-out", s.Certificate, "-subj", "/CN=test of signing/",
		"-addext", "extendedKeyUsage=codeSigning", "-addext", "keyUsage=digitalSignature").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	now := time.Now() // within the certificate's time
	program, err := Stamp(hello(t, "amd64"), stamped, "pace-node.exe", "Pace fleet node")
	if err != nil {
		t.Fatal(err)
	}
	p := plan(t, "amd64")
	if p.Program, err = s.Sign(program, "pace-node", now); err != nil {
		t.Fatal(err)
	}
	msi, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(msi, "pace-node", now)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.Sign(msi, "pace-node", now); err != nil || !bytes.Equal(signed, again) {
		t.Errorf("signed twice it differs: %v", err)
	}
	for name, data := range map[string][]byte{"program.exe": p.Program, "package.msi": signed} {
		file := filepath.Join(dir, name)
		verify := func(data []byte) error {
			if err := os.WriteFile(file, data, 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command("osslsigncode", "verify", "-CAfile", s.Certificate, "-in", file).CombinedOutput()
			if err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		}
		if err := verify(data); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		data = slices.Clone(data)
		data[len(data)/2] ^= 1
		if verify(data) == nil {
			t.Errorf("%s: a changed byte is not noticed", name)
		}
	}
	if err := check(exported(t, signed)); err != nil && !strings.Contains(err.Error(), "File") {
		t.Errorf("signed: %v", err)
	}
	if got, err := (Signer{}).Sign(msi, "x", now); err != nil || !bytes.Equal(got, msi) {
		t.Errorf("without a certificate: %v", err)
	}
	if _, err := (Signer{Certificate: s.Certificate, Key: filepath.Join(dir, "none")}).Sign(msi, "x", now); !errors.Is(err, ErrTool) {
		t.Errorf("without a key: %v", err)
	}
}
