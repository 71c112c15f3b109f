package macpkg

import (
	"fmt"
	"regexp"
	"strconv"
)

// described is what `git describe --tags` prints: a tag, perhaps a stage before the release, perhaps commits since.
var described = regexp.MustCompile(`^v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:[-~](alpha|beta|rc)\.?(\d{1,3}))?(?:-(\d{1,6})-g[0-9a-f]{4,40})?(?:-dirty)?$`)

// untagged is what it prints with --always where no tag is in reach.
var untagged = regexp.MustCompile(`^[0-9a-f]{4,40}(?:-dirty)?$`)

// stages are where the fourth number of a version begins. A stage has room for the numbers up to the next one.
var stages = []struct {
	word string
	from int
}{
	{"alpha", 0}, {"beta", 200}, {"rc", 400}, {"", 1000},
}

const stageRoom = 199 // the highest number of a stage

// Version maps what git describes to a package's version, whose numbers macOS, MDM systems and Munki compare from left to
// right. They know no words, so the fourth number says where on the way to a release it stands, and the fifth counts
// commits:
//
//	1.2.3-beta2        1.2.3.202
//	1.2.3-rc1          1.2.3.401
//	1.2.3-rc1-5-gabcd  1.2.3.401.5
//	1.2.3              1.2.3.1000
//	1.2.3-5-gabcd      1.2.3.1000.5
//	abcd (no tag)      0.0.0.0       before every other
func Version(describe string) (string, error) {
	if untagged.MatchString(describe) {
		return "0.0.0.0", nil
	}
	m := described.FindStringSubmatch(describe)
	if m == nil {
		return "", fmt.Errorf("%w: %q is no version: 1.2.3, 1.2.3-rc1 (alpha, beta, rc), each with or without what git describe adds", ErrPlan, describe)
	}
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // digits, few enough
		return n
	}
	fourth := 0
	for _, s := range stages {
		if s.word == m[4] {
			fourth = s.from + number(m[5])
		}
	}
	if m[4] != "" && number(m[5]) > stageRoom {
		return "", fmt.Errorf("%w: %q counts its %s to %s, and there is room for %d", ErrPlan, describe, m[4], m[5], stageRoom)
	}
	v := fmt.Sprintf("%d.%d.%d.%d", number(m[1]), number(m[2]), number(m[3]), fourth)
	if m[6] != "" {
		v += fmt.Sprintf(".%d", number(m[6]))
	}
	return v, nil
}
