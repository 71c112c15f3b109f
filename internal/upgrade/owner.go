package upgrade

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"pace-node/internal/host"
)

// managerRow is one package manager and how it is asked whom a file belongs to: status 0 is a package's.
type managerRow struct {
	Name    string
	Program string
	Args    []string
}

var managers = []managerRow{
	{"dpkg", "dpkg-query", []string{"--search"}},
	{"rpm", "rpm", []string{"--query", "--file"}},
}

// managerDirs are where they are; PATH is the caller's.
var managerDirs = []string{"/usr/bin", "/bin"}

// PackageOwner returns the package manager that owns a file, "" where none does or none is there.
func PackageOwner(ctx context.Context, run host.Runner, program string) (string, error) {
	for _, m := range managers {
		for _, dir := range managerDirs {
			path := filepath.Join(dir, m.Program)
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				continue
			}
			r, err := run(ctx, "", path, append(append([]string{}, m.Args...), program)...)
			if err != nil {
				return "", fmt.Errorf("%s: %w", m.Name, err)
			}
			if r.Code == 0 {
				return m.Name, nil
			}
			break
		}
	}
	return "", nil
}
