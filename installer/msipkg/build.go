package msipkg

import (
	"bytes"
	"crypto/sha1" // names of version 5 are made with it
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	name         = "pace-node"
	manufacturer = "pace-node maintainers"
	copyright    = "Apache License 2.0"
	upgradeCode  = "FB1179FA-5D81-4389-BFB0-CF452EE59A4D" // of every pace-node, for ever
	language     = "1033"
	database     = "pace-node.msi" // in the scratch folder
)

// Arch is one processor.
type Arch struct {
	Go string // as Go names it
	// Template is how the package's summary says it. wixl knows x64 only, whose database is the same but for this word.
	Template string
}

// Architectures are the processors that packages are built for.
var Architectures = []Arch{{"amd64", "x64"}, {"arm64", "Arm64"}}

// settings is Component.Attributes of the component with the remembered properties: permanent, 64-bit, known by a registry
// value.
const settings = 16 | 256 | 4

// vitalService is ServiceInstall.ErrorControl: an error is logged, and an install that cannot register the service fails. Of
// the second wixl takes no notice.
const vitalService = 1 | 0x8000

// Plan is what a package is built from.
type Plan struct {
	Version       Version
	Arch          Arch
	Time          time.Time // of the tree; every file has it
	Data          string    // the folder packaging/windows
	Program       []byte    // pace-node.exe, stamped, and signed if it is to be
	CheckSettings []byte    // checksettings.exe, likewise
	License       []byte
	Scratch       string // a folder of this build's own
}

// FileName is the package's.
func (p *Plan) FileName() string {
	return fmt.Sprintf("%s-%s-%s.msi", name, p.Version.Described, p.Arch.Go)
}

// Build returns the package, unsigned. Errors: ErrTool, ErrPlan, ErrDiffers.
func Build(p Plan) ([]byte, error) {
	values := map[string]string{
		"UpgradeCode": upgradeCode, "Version": p.Version.Shown, "Compared": p.Version.Compared, "Described": p.Version.Described,
	}
	source, err := os.ReadFile(filepath.Join(p.Data, "pace-node.wxs"))
	if err != nil {
		return nil, err
	}
	tables, err := readTables(filepath.Join(p.Data, "tables"), values)
	if err != nil {
		return nil, err
	}
	// Both codes follow from the contents: two packages that differ are two products, and one that is built again is itself.
	digest := sha256.New()
	for _, part := range [][]byte{[]byte(p.Version.Described), []byte(p.Arch.Go), source, p.Program, p.CheckSettings, p.License} {
		fmt.Fprintf(digest, "%d\x00", len(part))
		digest.Write(part)
	}
	for _, t := range tables {
		digest.Write(t.idt())
	}
	content := digest.Sum(nil)
	values["ProductCode"] = codeOf("product", content)

	for file, data := range map[string][]byte{"pace-node.exe": p.Program, "checksettings.exe": p.CheckSettings, "LICENSE.txt": windowsText(p.License)} {
		path := filepath.Join(p.Scratch, file)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return nil, err
		}
		if err := os.Chtimes(path, p.Time, p.Time); err != nil {
			return nil, err
		}
	}
	args := []string{"-a", "x64", "-o", database}
	for _, key := range []string{"UpgradeCode", "ProductCode", "Version", "Described"} {
		args = append(args, "-D", key+"="+values[key])
	}
	wxs, err := filepath.Abs(filepath.Join(p.Data, "pace-node.wxs"))
	if err != nil {
		return nil, err
	}
	if err := p.quiet("wixl", append(args, wxs)...); err != nil {
		return nil, err
	}
	if err := p.fill(tables, codeOf("package", content)); err != nil {
		return nil, err
	}
	if err := p.verify(tables); err != nil {
		return nil, err
	}
	msi, err := os.ReadFile(filepath.Join(p.Scratch, database))
	if err != nil {
		return nil, err
	}
	return msi, setTimes(msi, p.Time)
}

// readTables reads every table of a folder, in the order of their names.
func readTables(folder string, values map[string]string) ([]table, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.idt"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%w: no table is in %s", ErrPlan, folder)
	}
	var tables []table
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		t, err := parseTable(file, string(text), values)
		if err != nil {
			return nil, err
		}
		if t.name+".idt" != filepath.Base(file) {
			return nil, fmt.Errorf("%w: %s has the table %s", ErrPlan, file, t.name)
		}
		tables = append(tables, t)
	}
	return tables, nil
}

// changes are what wixl writes otherwise than it is wanted, as msibuild's SQL.
func (p *Plan) changes() []string {
	version := fmt.Sprintf("%d.%d.%d.%d", p.Version.File[0], p.Version.File[1], p.Version.File[2], p.Version.File[3])
	list := []string{
		fmt.Sprintf("UPDATE `Component` SET `Attributes`=%d WHERE `Component`='Settings'", settings),
		fmt.Sprintf("UPDATE `ServiceInstall` SET `ErrorControl`=%d", vitalService),
	}
	// Files with a version are compared by it, and have no hash.
	for _, file := range []string{"pace_node.exe", "pacectl.exe"} {
		list = append(list, fmt.Sprintf("UPDATE `File` SET `Version`='%s', `Language`='%s' WHERE `File`='%s'", version, language, file),
			fmt.Sprintf("DELETE FROM `MsiFileHash` WHERE `File_`='%s'", file))
	}
	return list
}

// fill adds to wixl's database what it lacks.
func (p *Plan) fill(tables []table, packageCode string) error {
	for _, t := range tables {
		file := t.name + ".idt"
		if err := os.WriteFile(filepath.Join(p.Scratch, file), t.idt(), 0o644); err != nil {
			return err
		}
		if err := p.quiet("msibuild", database, "-i", file); err != nil {
			return err
		}
	}
	for _, change := range p.changes() {
		if err := p.quiet("msibuild", database, "-q", change); err != nil {
			return err
		}
	}
	return p.quiet("msibuild", database, "-s", name+" "+p.Version.Described, manufacturer, p.Arch.Template+";"+language, "{"+packageCode+"}")
}

// verify reads back what was imported and changed.
func (p *Plan) verify(tables []table) error {
	for _, t := range tables {
		text, err := p.tool("msiinfo", "export", database, t.name)
		if err != nil {
			return err
		}
		if err := t.same(text); err != nil {
			return err
		}
	}
	for _, want := range []struct{ table, row string }{
		{"Property", "ProductVersion\t" + p.Version.Shown},
		{"Component", "Settings\t{919EC8C2-E53C-453F-85D2-9B2D80653E69}\tPaceFolder\t276\t"},
		{"File", fmt.Sprintf("pace_node.exe\tNode\tpace-node.exe\t%d\t%d.", len(p.Program), p.Version.File[0])},
		{"File", fmt.Sprintf("pacectl.exe\tTool\tpacectl.exe\t%d\t%d.", len(p.Program), p.Version.File[0])},
	} {
		text, err := p.tool("msiinfo", "export", database, want.table)
		if err != nil {
			return err
		}
		rows := strings.Split(strings.ReplaceAll(text, "\r", ""), "\n")
		if !slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, want.row) }) {
			return fmt.Errorf("%w: no row of table %s begins with %q", ErrDiffers, want.table, want.row)
		}
	}
	summary, err := p.tool("msiinfo", "suminfo", database)
	if err != nil {
		return err
	}
	if !strings.Contains(summary, "Template: "+p.Arch.Template+";"+language+"\n") {
		return fmt.Errorf("%w: its summary says %q", ErrDiffers, summary)
	}
	return nil
}

// quiet runs a tool that has nothing to say when all is well: wixl leaves out what it does not know with a warning, and ends
// well. Whatever is said fails the build.
func (p *Plan) quiet(tool string, args ...string) error {
	said, err := p.tool(tool, args...)
	if err == nil && strings.TrimSpace(said) != "" {
		err = fmt.Errorf("%w: %s says: %s", ErrTool, tool, strings.TrimSpace(said))
	}
	return err
}

// tool runs a program of others in the scratch folder, and returns all that it prints.
func (p *Plan) tool(tool string, args ...string) (string, error) {
	cmd := exec.Command(tool, args...)
	cmd.Dir = p.Scratch
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TZ=UTC") // a cabinet has local times
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("%w: %s is not installed: apt-get install wixl msitools", ErrTool, tool)
	case err != nil:
		return "", fmt.Errorf("%w: %s: %w: %s", ErrTool, tool, err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// codeOf is a code of Windows Installer's, a UUID of version 5 (RFC 9562) that follows from the contents.
func codeOf(kind string, content []byte) string {
	sum := sha1.Sum(append([]byte("pace-node msi "+kind+"\x00"), content...))
	id := sum[:16]
	id[6] = id[6]&0x0f | 0x50
	id[8] = id[8]&0x3f | 0x80
	return strings.ToUpper(fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]))
}

// windowsText has the line ends that every editor of Windows reads.
func windowsText(text []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\n"), []byte("\r\n"))
}
