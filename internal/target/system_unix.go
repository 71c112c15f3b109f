//go:build !windows

package target

import "os"

const hasModes = true

// rename moves a folder; syncDir makes it last.
func rename(from, to string) error { return os.Rename(from, to) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
