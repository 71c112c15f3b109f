package host

import (
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSetEnvFile(t *testing.T) {
	shipped, err := os.ReadFile("../../packaging/linux/pace-node.default")
	if err != nil {
		t.Fatal(err)
	}
	got, err := SetEnvFile("f", shipped, map[string]string{"PACE_FLEET_SEED": "a b", "PACE_DISCOVERY_REPLY_PORT": "0", "PACE_NAME": "x"})
	want := strings.NewReplacer("#PACE_FLEET_SEED=", `PACE_FLEET_SEED="a b"`, "PACE_DISCOVERY_REPLY_PORT=6682", "PACE_DISCOVERY_REPLY_PORT=0").Replace(string(shipped)) + "PACE_NAME=x\n"
	if d := cmp.Diff(want, string(got)); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	for _, c := range []struct{ before, after string }{
		{"", "A=1\n"},
		{"B=2", "B=2\nA=1\n"},
		{"B=2 \\", "B=2 \\\n\nA=1\n"},
		{"B=2 \\\n", "B=2 \\\n\nA=1\n"},
		{"A=0", "A=1\n"},
		{"export A='x\ny' # not a comment\nB=2\n", "A=1\nB=2\n"},
		{"A=0\nB=2\nA=0\n# end\n", "B=2\nA=1\n# end\n"},
		{"#A=\nA=0\n", "#A=\nA=1\n"},
		{"A=0\n#A=\n", "A=1\n#A=\n"},
		{"# A=\n", "A=1\n"},
		{"#A=0\n", "#A=0\nA=1\n"},
		{"  A = 0\r\nB=2\r\n", "A=1\nB=2\n"},
	} {
		if got, err := SetEnvFile("f", []byte(c.before), map[string]string{"A": "1"}); err != nil || string(got) != c.after {
			t.Errorf("%q: %q, %v, want %q", c.before, got, err, c.after)
		}
	}
	if _, err := SetEnvFile("f", []byte("nonsense\n"), nil); !errors.Is(err, ErrEnvFile) {
		t.Errorf("what is no file of settings: %v", err)
	}
}

// checkSetEnv is what holds for any file: the named values are read back, and the others stay.
func checkSetEnv(before []byte, values map[string]string) string {
	old, err := ParseEnvFile("f", before)
	if err != nil {
		return ""
	}
	after, err := SetEnvFile("f", before, values)
	if err != nil {
		return err.Error()
	}
	got, err := ParseEnvFile("f", after)
	if err != nil {
		return err.Error()
	}
	want := map[string]string{}
	for key, s := range old {
		want[key] = s.Value
	}
	maps.Copy(want, values)
	read := map[string]string{}
	for key, s := range got {
		read[key] = s.Value
	}
	if d := cmp.Diff(want, read); d != "" {
		return d
	}
	again, err := SetEnvFile("f", after, values)
	if err != nil || string(again) != string(after) {
		return "done again it changes the file"
	}
	return ""
}

func TestSetEnvFileKeepsWhatItIsNotTold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.StringOf(rapid.SampledFrom([]rune("AB=\n\n #'\"\\x \r"))).Draw(t, "before")
		value := rapid.StringOf(rapid.SampledFrom([]rune("a \"'\\$`\n#;é"))).Draw(t, "value")
		if d := checkSetEnv([]byte(before), map[string]string{"A": value, "C": "1"}); d != "" {
			t.Error(d)
		}
	})
}

func FuzzSetEnvFile(f *testing.F) {
	f.Add([]byte("A=1\n#B=\nC='x\ny'\n"), "v w")
	f.Add([]byte("A=1 \\\n"), "\\")
	f.Fuzz(func(t *testing.T, before []byte, value string) {
		if !strings.Contains(value, "\x00") && strings.ToValidUTF8(value, "") == value {
			if d := checkSetEnv(before, map[string]string{"A": value, "B": "1"}); d != "" {
				t.Error(d)
			}
		}
	})
}
