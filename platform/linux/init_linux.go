package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/kardianos/service"
)

// odd is an init system other than systemd, by kardianos/service.
type odd struct {
	service.Service
	name, script string
}

func newInit(name, program string) (initSystem, error) {
	s, err := service.New(nil, &service.Config{Name: name, DisplayName: "Pace fleet node", Description: "Pace fleet node", Executable: program})
	if err != nil {
		return nil, err
	}
	return odd{s, name, scriptOf(s.Platform(), name)}, nil
}

func (o odd) Script() string { return o.script }

func (o odd) Running() bool {
	status, err := o.Status()
	return err == nil && status == service.StatusRunning
}

// Uninstall also removes the links of System V's run levels, which the library makes and leaves.
func (o odd) Uninstall() error {
	err := o.Service.Uninstall()
	links, _ := filepath.Glob("/etc/rc[0-6].d/[SK][0-9][0-9]" + o.name)
	for _, link := range links {
		if to, failed := os.Readlink(link); failed == nil && to == o.script {
			err = errors.Join(err, os.Remove(link))
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
