package macpkg

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// versions in the order in which macOS must see them, each with what it must be.
var versions = [][2]string{
	{"ad5da2f", "0.0.0.0"},
	{"0.0.1-alpha0", "0.0.1.0"},
	{"0.0.1-alpha1", "0.0.1.1"},
	{"0.0.1", "0.0.1.1000"},
	{"v0.9.0-3-gad5da2f-dirty", "0.9.0.1000.3"},
	{"1.0.0-alpha2", "1.0.0.2"},
	{"1.0.0-alpha.199", "1.0.0.199"},
	{"1.0.0-beta1", "1.0.0.201"},
	{"1.0.0-rc1", "1.0.0.401"},
	{"1.0.0-rc1-1-gabcd", "1.0.0.401.1"},
	{"1.0.0-rc1-12-gabcdef01234", "1.0.0.401.12"},
	{"v1.0.0~rc2", "1.0.0.402"},
	{"1.0.0-rc10", "1.0.0.410"},
	{"1.0.0", "1.0.0.1000"},
	{"1.0.0-1-gabcd", "1.0.0.1000.1"},
	{"1.0.0-20-gabcd", "1.0.0.1000.20"},
	{"1.0.1-rc1", "1.0.1.401"},
	{"1.0.1", "1.0.1.1000"},
	{"1.2.0", "1.2.0.1000"},
	{"1.10.0", "1.10.0.1000"},
	{"10.0.0", "10.0.0.1000"},
}

func checkVersions() error {
	var last []int
	for _, v := range versions {
		got, err := Version(v[0])
		if err != nil || got != v[1] {
			return fmt.Errorf("%s: %q, %v, not %q", v[0], got, err, v[1])
		}
		var numbers []int
		for _, word := range strings.Split(got, ".") {
			n, err := strconv.Atoi(word)
			if err != nil {
				return err
			}
			numbers = append(numbers, n)
		}
		if slices.Compare(last, numbers) >= 0 {
			return fmt.Errorf("%s does not come behind the one before it", v[0])
		}
		last = numbers
	}
	return nil
}

func TestVersion(t *testing.T) {
	if err := checkVersions(); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "1", "1.2", "1.2.3.4", "1.2.3-", "1.2.3-rc", "1.2.3-final1", "1.2.3-rc200", "1.2.3-rc1000", "x1.2.3", "1.2.3 ", "12345.0.0", "soon"} {
		if v, err := Version(bad); !errors.Is(err, ErrPlan) {
			t.Errorf("%q is %q", bad, v)
		}
	}
}

func TestMutationStages(t *testing.T) {
	for i, s := range stages {
		stages[i].from++
		if checkVersions() == nil {
			t.Errorf("%q beginning elsewhere goes unseen", s.word)
		}
		stages[i] = s
		stages[i].word += "x"
		if checkVersions() == nil {
			t.Errorf("%q spelled otherwise goes unseen", s.word)
		}
		stages[i] = s
	}
}
