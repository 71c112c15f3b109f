package msipkg

import (
	"fmt"
	"regexp"
	"strconv"
)

// Version is one version in the forms that Windows has.
type Version struct {
	Described string    // as git describes it, and as the program says it
	Shown     string    // of Apps and Features
	Compared  string    // what Windows Installer compares: three numbers
	File      [4]uint16 // of the programs' version resource
}

// described is what `git describe --tags` prints: a tag, perhaps a stage before the release, perhaps commits since.
var described = regexp.MustCompile(`^v?(\d{1,3})\.(\d{1,3})\.(\d{1,5})(?:[-~](alpha|beta|rc)\.?(\d{1,3}))?(?:-(\d{1,5})-g[0-9a-f]{4,40})?(?:-dirty)?$`)

// untagged is what it prints with --always where no tag is in reach.
var untagged = regexp.MustCompile(`^[0-9a-f]{4,40}(?:-dirty)?$`)

// Bounds of a version: Windows Installer keeps the first two numbers in a byte each.
const (
	maxMajor  = 255
	maxPatch  = 65535
	maxFourth = 65535
)

// stages are where the fourth number begins, which Windows Installer does not compare, and people and inventories read. A
// stage has room for the numbers up to the next one. macOS's package counts the same way.
var stages = []struct {
	word string
	from int
}{
	{"alpha", 0}, {"beta", 200}, {"rc", 400}, {"", 1000},
}

const stageRoom = 199 // the highest number of a stage

// ParseVersion maps what git describes:
//
//	          Apps and Features   compared   version resource
//	1.2.3               1.2.3        1.2.3     1.2.3.1000
//	1.2.3-rc1           1.2.3.401    1.2.3     1.2.3.401
//	1.2.3-5-gabcd       1.2.3.1005   1.2.3     1.2.3.1005
//	1.2.3-rc1-5-gabcd   1.2.3.401    1.2.3     1.2.3.401
//	abcd (no tag)       0.0.0        0.0.0     0.0.0.0
//
// Packages that compare equal replace one another, in either direction; a lower one never replaces a higher one.
func ParseVersion(describe string) (Version, error) {
	v := Version{Described: describe}
	if untagged.MatchString(describe) {
		v.Shown, v.Compared = "0.0.0", "0.0.0"
		return v, nil
	}
	m := described.FindStringSubmatch(describe)
	if m == nil {
		return Version{}, fmt.Errorf("%w: %q is no version: 1.2.3, 1.2.3-rc1 (alpha, beta, rc), each with or without what git describe adds", ErrPlan, describe)
	}
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // digits, few enough
		return n
	}
	major, minor, patch, stage, since := number(m[1]), number(m[2]), number(m[3]), number(m[5]), number(m[6])
	if major > maxMajor || minor > maxMajor || patch > maxPatch {
		return Version{}, fmt.Errorf("%w: Windows has room for %d.%[2]d.%d, and not for %q", ErrPlan, maxMajor, maxPatch, describe)
	}
	if stage > stageRoom {
		return Version{}, fmt.Errorf("%w: %q counts its %s to %d, and there is room for %d", ErrPlan, describe, m[4], stage, stageRoom)
	}
	fourth := 0
	for _, s := range stages {
		if s.word == m[4] {
			fourth = s.from + stage
		}
	}
	v.Compared = fmt.Sprintf("%d.%d.%d", major, minor, patch)
	v.Shown = v.Compared
	if m[4] == "" {
		fourth = min(fourth+since, maxFourth)
	}
	if m[4] != "" || since > 0 {
		v.Shown = fmt.Sprintf("%s.%d", v.Compared, fourth)
	}
	v.File = [4]uint16{uint16(major), uint16(minor), uint16(patch), uint16(fourth)}
	return v, nil
}
