package linuxpkg

import (
	"fmt"
	"regexp"
	"strings"
)

// described is what `git describe --tags --always` prints beside a tag: tag, commits since, commit.
var described = regexp.MustCompile(`^v?(\d+(?:\.\d+)*)(?:-([0-9A-Za-z.]+?))?(?:-(\d+)-g([0-9a-f]+))?$`)

// hashed is what it prints where there is no tag.
var hashed = regexp.MustCompile(`^[0-9a-f]{7,40}$`)

// allowed is what Debian and RPM both take in a version without a revision: RPM forbids the dash.
var allowed = regexp.MustCompile(`^[0-9][0-9A-Za-z.+~]*$`)

// Version maps what git describes to a version that dpkg and rpm order as git does:
//
//	v1.2.3            1.2.3
//	v1.2.3-rc1        1.2.3~rc1            before 1.2.3
//	v1.2.3-5-gabc     1.2.3+5.gabc         after 1.2.3 and before 1.2.4
//	abc (no tag)      0.0.0+<commits>.gabc before every release
//
// and +dirty behind a tree that was changed. commits is how many the tree has, used where no tag counts them.
func Version(describe string, commits int) (string, error) {
	clean, changed := strings.CutSuffix(strings.TrimSpace(describe), "-dirty")
	mark := ""
	if changed {
		mark = "+dirty"
	}
	if hashed.MatchString(clean) {
		return fmt.Sprintf("0.0.0+%d.g%s%s", commits, clean, mark), nil
	}
	m := described.FindStringSubmatch(clean)
	if m == nil {
		return plain(clean)
	}
	v := m[1]
	if m[2] != "" {
		v += "~" + m[2]
	}
	if m[3] != "" {
		v += "+" + m[3] + ".g" + m[4]
	}
	return v + mark, nil
}

// plain is a version that is one already.
func plain(s string) (string, error) {
	if !allowed.MatchString(s) {
		return "", fmt.Errorf("%q is no version: it begins with a digit and has digits, letters and . + ~ only, as in 1.2.3 or 1.2.3~rc1", s)
	}
	return s, nil
}
