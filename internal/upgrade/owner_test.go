package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pace-node/internal/host"
	"pace-node/internal/release"
)

// checkOwners: dpkg is asked before rpm, each by its own words, where it is there at all; status 0 is a package's.
func checkOwners(dir string) error {
	for _, c := range []struct {
		there string // programs, by blanks
		owns  string // which of them says yes
		want  string
		asked string
	}{
		{"", "", "", ""},
		{"dpkg-query", "", "", "dpkg-query --search /usr/bin/x"},
		{"dpkg-query", "dpkg-query", "dpkg", "dpkg-query --search /usr/bin/x"},
		{"rpm", "rpm", "rpm", "rpm --query --file /usr/bin/x"},
		{"dpkg-query rpm", "rpm", "rpm", "dpkg-query --search /usr/bin/x; rpm --query --file /usr/bin/x"},
		{"dpkg-query rpm", "dpkg-query rpm", "dpkg", "dpkg-query --search /usr/bin/x"},
	} {
		for _, name := range []string{"dpkg-query", "rpm"} {
			os.Remove(filepath.Join(dir, name))
			if strings.Contains(c.there, name) {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o700); err != nil {
					return err
				}
			}
		}
		var asked []string
		got, err := PackageOwner(context.Background(), func(_ context.Context, _, program string, args ...string) (host.Result, error) {
			name := filepath.Base(program)
			asked = append(asked, name+" "+strings.Join(args, " "))
			if strings.Contains(c.owns, name) {
				return host.Result{}, nil
			}
			return host.Result{Code: 1}, nil
		}, "/usr/bin/x")
		if err != nil || got != c.want || strings.Join(asked, "; ") != c.asked {
			return fmt.Errorf("%+v: %q, asked %q, %w", c, got, asked, err)
		}
	}
	return nil
}

func withManagersIn(t *testing.T) string {
	dir, was := t.TempDir(), managerDirs
	managerDirs = []string{dir}
	t.Cleanup(func() { managerDirs = was })
	return dir
}

func TestPackageOwner(t *testing.T) {
	dir := withManagersIn(t)
	if err := checkOwners(dir); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rpm"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := PackageOwner(t.Context(), func(context.Context, string, string, ...string) (host.Result, error) {
		return host.Result{}, errors.New("it hangs")
	}, "/x")
	if err == nil || !strings.Contains(err.Error(), "rpm: it hangs") && !strings.Contains(err.Error(), "dpkg: it hangs") {
		t.Error(err)
	}
}

func TestMutationManagers(t *testing.T) {
	dir := withManagersIn(t)
	for i := range managers {
		was := managers[i]
		for _, change := range []managerRow{{"other", was.Program, was.Args}, {was.Name, "other", was.Args}, {was.Name, was.Program, nil}} {
			managers[i] = change
			if checkOwners(dir) == nil {
				t.Errorf("%s as %+v, and nothing noticed", was.Name, change)
			}
		}
		managers[i] = was
	}
}

// checkFaults: what a person has to mend is permanent; what a copy or a server may mend by itself is not.
func checkFaults() error {
	for err, permanent := range map[error]bool{
		release.ErrSignature: true, release.ErrManifest: true, release.ErrVersion: true, release.ErrKey: true,
		release.ErrNotFound: false, release.ErrDigest: false, release.ErrRepository: false, errors.New("connection refused"): false,
		// A manifest whose signature has not been copied yet.
		fmt.Errorf("%w: %w", release.ErrSignature, release.ErrNotFound): false,
	} {
		var e *Error
		if !errors.As(fetchError(err), &e) || e.Permanent() != permanent {
			return fmt.Errorf("%w: permanent is %v", err, e.Permanent())
		}
	}
	return nil
}

func TestFaults(t *testing.T) {
	if err := checkFaults(); err != nil {
		t.Error(err)
	}
}

func TestMutationFaults(t *testing.T) {
	nothing := errors.New("nothing")
	for i, was := range permanentFaults {
		permanentFaults[i] = nothing
		if checkFaults() == nil {
			t.Errorf("%v is not permanent any more, and nothing noticed", was)
		}
		permanentFaults[i] = was
	}
	was := transientFaults
	transientFaults = nil
	if checkFaults() == nil {
		t.Error("nothing wins over a permanent fault any more, and nothing noticed")
	}
	transientFaults = was
}
