//go:build !race

package release

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Not under the race detector: minisign's scrypt takes a gigabyte and a second, and minutes there. Nothing of it is concurrent.

const password = "for this test alone"

func TestKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "release.key")
	public, err := WriteKey(path, password) // sealed once and opened once: each takes a second and a gigabyte
	if err != nil {
		t.Fatal(err)
	}
	secret, err1 := os.ReadFile(path)
	file, err2 := os.ReadFile(path + ".pub")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{public.String(), string(file), " " + public.String() + "\n"} {
		if k, err := ParsePublicKey(text); err != nil || !k.Equal(public) {
			t.Errorf("%q: %v, %v", text, k, err)
		}
	}
	if k, err := ParseSecretKey(password, secret); err != nil || !k.Public().Equal(public) {
		t.Errorf("%v, %v", k.Public(), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the secret key's mode is %v, %v", info.Mode(), err)
	}
	for _, text := range []string{"", "RW", public.String()[1:], strings.Repeat("R", MaxSignature+1)} {
		if _, err := ParsePublicKey(text); !errors.Is(err, ErrKey) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
