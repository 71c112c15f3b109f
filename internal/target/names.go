package target

import (
	"fmt"
	"slices"
	"strings"

	"pace-node/internal/wire"
)

// nameRow is one row of what a path from elsewhere must not be.
type nameRow struct {
	Name    string
	Windows bool // asked only there
	Bad     func(path string) bool
	Say     string
}

// nameRows is asked in order. A path is written with "/" on every system, so what any of them would read as another
// folder, or another drive, is refused on all of them.
var nameRows = []nameRow{
	{"empty", false, func(p string) bool { return p == "" }, "is empty"},
	{"text", false, func(p string) bool { return !wire.ValidText(p) }, "holds a control character"},
	{"long", false, func(p string) bool { return len(p) > MaxPath }, fmt.Sprintf("is longer than %d bytes", MaxPath)},
	{"deep", false, func(p string) bool { return strings.Count(p, "/") >= MaxDepth }, fmt.Sprintf("has more than %d parts", MaxDepth)},
	{"absolute", false, func(p string) bool { return p[0] == '/' }, "is absolute: paths are relative to the folder of files"},
	{"backslash", false, func(p string) bool { return strings.Contains(p, `\`) }, `holds a backslash: parts are joined by "/"`},
	{"dots", false, anyPart(func(s string) bool { return s == ".." || s == "." }), `holds the part "." or "..": paths stay inside the folder of files`},
	{"hollow", false, anyPart(func(s string) bool { return s == "" }), `holds an empty part: there is a "/" too many`},
	{"part", false, anyPart(func(s string) bool { return len(s) > MaxPart }), fmt.Sprintf("holds a part longer than %d bytes", MaxPart)},
	{"character", true, func(p string) bool { return strings.ContainsAny(p, `<>:"|?*`) }, `holds one of < > : " | ? *, which Windows keeps for itself`},
	{"ending", true, anyPart(func(s string) bool { return strings.HasSuffix(s, ".") || strings.HasSuffix(s, " ") }),
		"holds a part that ends with a dot or a blank, which Windows drops"},
	{"device", true, anyPart(device), "holds the name of a Windows device"},
}

// badName says what is wrong with a path on a system, "" if nothing is.
func badName(path, system string) string {
	for _, r := range nameRows {
		if (!r.Windows || system == "windows") && r.Bad(path) {
			return r.Say
		}
	}
	return ""
}

func anyPart(bad func(part string) bool) func(string) bool {
	return func(path string) bool { return slices.ContainsFunc(strings.Split(path, "/"), bad) }
}

// device reports whether Windows opens a device under this name, whatever follows its first dot.
func device(part string) bool {
	stem, _, _ := strings.Cut(part, ".")
	stem = strings.ToUpper(strings.TrimRight(stem, " "))
	switch stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	for _, prefix := range []string{"COM", "LPT"} {
		if n, ok := strings.CutPrefix(stem, prefix); ok && slices.Contains([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"}, n) {
			return true
		}
	}
	return false
}

// foldingSystems take two names that differ in case only for one file, as they are installed.
var foldingSystems = []string{"windows", "darwin"}

func fold(name, system string) string {
	if slices.Contains(foldingSystems, system) {
		return strings.ToLower(name)
	}
	return name
}
