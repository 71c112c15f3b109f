package macpkg

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Label is the daemon's, the package's and the receipt's name.
const Label = "io.pace.node"

// Component is the folder of the one package that the archive holds, as Distribution names it.
const Component = "pace-node.pkg"

// Root and wheel, which launchd asks of a daemon's plist.
const (
	ownerRoot  = 0
	groupWheel = 0
)

// Plan is what a package is built of.
type Plan struct {
	Describe string // the version as git describes it
	Made     uint32 // SOURCE_DATE_EPOCH: seconds since 1970, of every file in it
	Binary   []byte // the program, as Universal writes it
	Data     fs.FS  // packaging/macos
	// Pages are the manual's, by name ("pace-node.8"); License is the text that the installer shows.
	Pages   map[string][]byte
	License []byte
}

// row is a path of the payload.
type row struct {
	path string
	mode uint32
	from string // in Plan.Data; or a link's target; "" = by its own name
}

// payload is everything that is installed, beside the program's bytes and the manual's pages. Folders that macOS has are
// listed with the owner and mode that macOS gives them, since the installer sets both.
var payload = []row{
	{".", typeDir | 0o755, ""},
	{"./Library", typeDir | 0o755, ""},
	{"./Library/LaunchDaemons", typeDir | 0o755, ""},
	{"./Library/LaunchDaemons/io.pace.node.plist", typeFile | 0o644, "io.pace.node.plist"},
	{"./Library/LaunchDaemons/io.pace.node.rotate.plist", typeFile | 0o644, "io.pace.node.rotate.plist"},
	{"./opt", typeDir | 0o755, ""},
	{"./opt/pace-node", typeDir | 0o755, ""},
	{"./opt/pace-node/bin", typeDir | 0o755, ""},
	{"./opt/pace-node/bin/pace-node", typeFile | 0o755, ""},
	{"./opt/pace-node/bin/pace-node-uninstall", typeFile | 0o755, "pace-node-uninstall"},
	{"./opt/pace-node/bin/pacectl", typeLink | 0o755, "pace-node"},
	{"./opt/pace-node/libexec", typeDir | 0o755, ""},
	{"./opt/pace-node/libexec/launchd.sh", typeFile | 0o644, "launchd.sh"},
	{"./opt/pace-node/libexec/rotate-log", typeFile | 0o755, "rotate-log"},
	{"./opt/pace-node/share", typeDir | 0o755, ""},
	{"./opt/pace-node/share/LICENSE", typeFile | 0o644, ""},
	{"./opt/pace-node/share/man", typeDir | 0o755, ""},
	{"./opt/pace-node/share/pace-node.env", typeFile | 0o644, "pace-node.env"},
	{"./private", typeDir | 0o755, ""},
	{"./private/etc", typeDir | 0o755, ""},
	{"./private/etc/manpaths.d", typeDir | 0o755, ""},
	{"./private/etc/manpaths.d/io.pace.node", typeFile | 0o644, "manpath"},
}

// scripts are run by the installer, before and after the payload is laid out.
var scripts = []row{
	{".", typeDir | 0o755, ""},
	{"./postinstall", typeFile | 0o755, "scripts/postinstall"},
	{"./preinstall", typeFile | 0o755, "scripts/preinstall"},
}

// resources are shown by the installer's window.
var resources = []string{"conclusion.html"}

var page = regexp.MustCompile(`^[a-z][a-z0-9-]*\.([1-8])$`)

// Payload is what the plan installs, in order.
func Payload(p Plan) ([]Entry, error) {
	own := map[string][]byte{"./opt/pace-node/bin/pace-node": p.Binary, "./opt/pace-node/share/LICENSE": p.License}
	for name, data := range own {
		if len(data) == 0 {
			return nil, fmt.Errorf("%w: %s is empty", ErrPlan, name)
		}
	}
	out, err := entries(p, payload, own)
	if err != nil {
		return nil, err
	}
	sections := map[string]bool{}
	for name, data := range p.Pages {
		m := page.FindStringSubmatch(name)
		if m == nil || len(data) == 0 {
			return nil, fmt.Errorf("%w: %q is no page of a manual, as in pace-node.8", ErrPlan, name)
		}
		dir := "./opt/pace-node/share/man/man" + m[1]
		if !sections[dir] {
			sections[dir] = true
			out = append(out, Entry{Path: dir, Mode: typeDir | 0o755, UID: ownerRoot, GID: groupWheel, MTime: p.Made})
		}
		out = append(out, Entry{Path: dir + "/" + name, Mode: typeFile | 0o644, UID: ownerRoot, GID: groupWheel, MTime: p.Made, Data: data})
	}
	return sorted(out)
}

// entries reads the files of rows.
func entries(p Plan, rows []row, own map[string][]byte) ([]Entry, error) {
	var out []Entry
	for _, r := range rows {
		e := Entry{Path: r.path, Mode: r.mode, UID: ownerRoot, GID: groupWheel, MTime: p.Made}
		switch data, is := own[r.path]; {
		case e.dir():
		case e.link():
			e.Link = r.from
		case is:
			e.Data = data
		default:
			var err error
			if e.Data, err = fs.ReadFile(p.Data, r.from); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrPlan, err)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// Build writes the package. The same plan makes the same bytes.
func Build(p Plan) ([]byte, error) {
	version, err := Version(p.Describe)
	if err != nil {
		return nil, err
	}
	prog, err := inspect(p.Binary)
	if err != nil {
		return nil, err
	}
	files, err := Payload(p)
	if err != nil {
		return nil, err
	}
	if err := daemons(files); err != nil {
		return nil, err
	}
	programs, err := entries(p, scripts, nil)
	if err != nil {
		return nil, err
	}
	bom, err := WriteBom(files)
	if err != nil {
		return nil, err
	}
	var total int
	for _, e := range files {
		total += len(e.body())
	}
	words := map[string]string{
		"VERSION": version, "DESCRIBED": p.Describe, "ARCHS": prog.hostArchitectures(), "MACOS": prog.minimum,
		"FILES": strconv.Itoa(len(files)), "KBYTES": strconv.Itoa((total + 1023) / 1024),
	}
	at := func(name string, data []byte) Member {
		return Member{Path: name, Mode: 0o644, UID: ownerRoot, GID: groupWheel, MTime: int64(p.Made), Data: data}
	}
	in := func(name string) Member {
		return Member{Path: name, Dir: true, Mode: 0o755, UID: ownerRoot, GID: groupWheel, MTime: int64(p.Made)}
	}
	distribution, err := filled(p.Data, "Distribution", words)
	if err != nil {
		return nil, err
	}
	info, err := filled(p.Data, "PackageInfo", words)
	if err != nil {
		return nil, err
	}
	payloadPacked, err := packed(files)
	if err != nil {
		return nil, err
	}
	scriptsPacked, err := packed(programs)
	if err != nil {
		return nil, err
	}
	members := []Member{at("Distribution", distribution), in("Resources"), at("Resources/LICENSE", p.License)}
	for _, name := range resources {
		data, err := fs.ReadFile(p.Data, path.Join("Resources", name))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPlan, err)
		}
		members = append(members, at("Resources/"+name, data))
	}
	members = append(members, in(Component), at(Component+"/Bom", bom), at(Component+"/PackageInfo", info),
		at(Component+"/Payload", payloadPacked), at(Component+"/Scripts", scriptsPacked))
	return WriteXar(members, int64(p.Made))
}

// daemons checks each launchd plist of a payload: it reads, its label is its file's name, and what it starts is installed.
func daemons(files []Entry) error {
	programs := map[string]bool{}
	for _, e := range files {
		programs[strings.TrimPrefix(e.Path, ".")] = e.Mode&typeMask == typeFile && e.Mode&0o100 != 0
	}
	for _, e := range files {
		label, isPlist := strings.CutSuffix(path.Base(e.Path), ".plist")
		if !isPlist {
			continue
		}
		value, err := ReadPlist(e.Data)
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrPlan, e.Path, err)
		}
		dict, _ := value.(map[string]any)
		args, _ := dict["ProgramArguments"].([]any)
		switch {
		case dict["Label"] != label:
			return fmt.Errorf("%w: %s has the label %v", ErrPlan, e.Path, dict["Label"])
		case len(args) == 0:
			return fmt.Errorf("%w: %s starts nothing", ErrPlan, e.Path)
		}
		if program, _ := args[0].(string); !programs[program] {
			return fmt.Errorf("%w: %s starts %v, which is no program of the payload", ErrPlan, e.Path, args[0])
		}
	}
	return nil
}

var placeholder = regexp.MustCompile(`@[A-Z]+@`)

// filled puts words into a file of the data where it says @WORD@.
func filled(data fs.FS, name string, words map[string]string) ([]byte, error) {
	text, err := fs.ReadFile(data, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPlan, err)
	}
	var missing string
	out := placeholder.ReplaceAllFunc(text, func(found []byte) []byte {
		word, ok := words[strings.Trim(string(found), "@")]
		if !ok {
			missing = string(found)
		}
		return []byte(escape(word))
	})
	if missing != "" {
		return nil, fmt.Errorf("%w: %s asks for %s, which nothing fills", ErrPlan, name, missing)
	}
	return out, nil
}

// packed is entries as the installer takes them: cpio in gzip.
func packed(list []Entry) ([]byte, error) {
	archive, err := WriteCpio(list)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	z.ModTime = time.Time{} // none: the files in it have their own
	z.OS = 3                // Unix
	if _, err := z.Write(archive); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil { // before the bytes are taken: it writes the end
		return nil, err
	}
	return b.Bytes(), nil
}
