package host

import (
	"fmt"
	"io/fs"
	"testing"
)

// checkPlaces writes out from where a service may run.
func checkPlaces() error {
	const path = "/usr/local/bin/pace-node"
	root := func(path string, mode fs.FileMode) PlaceFacts { return PlaceFacts{path, 0, mode} }
	good := []PlaceFacts{root("/usr/local/bin", fs.ModeDir|0o775), root("/usr/local", fs.ModeDir|0o755), root("/", fs.ModeDir|0o755)}
	for _, c := range []struct {
		program PlaceFacts
		folders []PlaceFacts
		want    string
	}{
		{root(path, 0o755), good, ""},
		{root(path, 0o700), good, ""},
		{root(path, fs.ModeDir|0o755), good, path + " is no file"},
		{PlaceFacts{path, 501, 0o777}, good, path + " is not root's"},
		{root(path, 0o775), good, path + " can be written by others than root"},
		{root(path, 0o757), good, path + " can be written by others than root"},
		{root(path, 0o755), []PlaceFacts{good[0], {"/usr/local", 501, fs.ModeDir | 0o777}, good[2]}, "the folder /usr/local is not root's"},
		{root(path, 0o755), []PlaceFacts{root("/tmp", fs.ModeDir|fs.ModeSticky|0o777), good[2]}, "the folder /tmp can be written by everybody"},
	} {
		if got := JudgePlace(c.program, c.folders); got != c.want {
			return fmt.Errorf("%+v below %+v: %q, want %q", c.program, c.folders, got, c.want)
		}
	}
	return nil
}

func TestJudgePlace(t *testing.T) {
	if err := checkPlaces(); err != nil {
		t.Error(err)
	}
	if got := above("/usr/bin/x"); fmt.Sprint(got) != "[/usr/bin /usr /]" {
		t.Errorf("%q", got)
	}
}

func TestMutationPlace(t *testing.T) {
	for i := range placeChecks {
		old := placeChecks[i]
		placeChecks[i].Bad = func(PlaceFacts) bool { return false }
		if checkPlaces() == nil {
			t.Errorf("row %q asked nothing, and nothing noticed", old.Name)
		}
		placeChecks[i] = old
		placeChecks[i].Folder = !old.Folder
		if checkPlaces() == nil {
			t.Errorf("row %q asked of the other kind, and nothing noticed", old.Name)
		}
		placeChecks[i] = old
	}
}
