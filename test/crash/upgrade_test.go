//go:build e2e

package crash

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	"pace-node/internal/config"
	"pace-node/internal/release"
)

// published is a signed repository of the newer test build, made once and removed with the test builds.
var published = sync.OnceValues(func() (args []string, err error) {
	dir := filepath.Join(filepath.Dir(newer), "releases")
	_, secret, _, err := release.NewKey("")
	if err != nil {
		return nil, err
	}
	key, err := release.ParseSecretKey("", secret)
	if err != nil {
		return nil, err
	}
	if _, err := release.New(dir, newerVersion, map[string]string{runtime.GOOS + "-" + runtime.GOARCH: newer}); err != nil {
		return nil, err
	}
	if _, err := release.Sign(dir, newerVersion, key); err != nil {
		return nil, err
	}
	return []string{"--provision-upgrades=required", "--provision-repository=" + dir, "--provision-release-key=" + key.Public().String()}, nil
})

// upgrading is a fleet of one that upgrades itself.
type upgrading struct {
	*victim
	settings string // its --config
	old      []byte
}

// upgrader makes one, with a program in a folder of its own.
func (l *lane) upgrader(c trial) (*upgrading, error) {
	args, err := published()
	if err != nil {
		return nil, err
	}
	l.made++
	name := fmt.Sprintf("u%03d", l.made)
	dir := filepath.Join(l.dir, name+".bin")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	document := filepath.Join(dir, "answer.json")
	b, err := json.Marshal(map[string]any{"configuration": map[string]string{"greeting": "up", "log.level": "info"}, "upgrade": newerVersion,
		"pace": map[string]any{"files": map[string]any{"motd": map[string]string{"text": "up\n"}}}})
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(dir, "settings.yaml")
	for path, data := range map[string][]byte{document: b, settings: nil} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return nil, err
		}
	}
	n, err := newMachine(name, l.dir, 0, append(args, "--provision-helper=cat "+document)...)
	if err != nil {
		return nil, err
	}
	n.args[0] = "--config=" + settings
	n.program = filepath.Join(dir, "pace-node")
	if err := os.Link(binary, n.program); err != nil {
		return nil, err
	}
	u := &upgrading{victim: &victim{machine: n, point: c.point, nth: c.nth, limit: c.limit, later: "up"}, settings: settings}
	u.old, err = os.ReadFile(binary)
	return u, err
}

func (u *upgrading) gone(err *error) {
	u.victim.gone(err)
	os.RemoveAll(filepath.Dir(u.program))
}

// runsOld says whether the old program is in place. Whatever happened, one of the two is.
func (u *upgrading) runsOld() (bool, error) {
	b, err := os.ReadFile(u.program)
	if err != nil {
		return false, fmt.Errorf("after crash %d there is no program: %w", u.crashes, err)
	}
	if bytes.Equal(b, u.old) {
		return true, nil
	}
	other, err := os.ReadFile(newer)
	if err == nil && !bytes.Equal(b, other) {
		err = fmt.Errorf("after crash %d the program is a mixture of %d bytes", u.crashes, len(b))
	}
	return false, err
}

// manage starts the machine as a service manager does, whenever it has ended as it may. before is asked at each.
func (u *upgrading) manage(before func(status int) error) error {
	status, ended := u.ended()
	if !ended {
		return nil
	}
	switch {
	case u.crashedAt(u.point):
		u.crashes++
		if err := u.examine(); err != nil {
			return fmt.Errorf("after crash %d: %w", u.crashes, err)
		}
	case status == config.ExitAgain, status == config.ExitConfig:
	default:
		return fmt.Errorf("%s ended with %d", u.name, status)
	}
	if err := before(status); err != nil {
		return err
	}
	return u.start(u.env()...)
}

// until polls a condition on a machine that is started again whenever it ends.
func (u *upgrading) until(what string, before func(int) error, done func() (bool, string)) error {
	var failed error
	if err := wait(what, func() (bool, string) {
		if failed = u.manage(before); failed != nil {
			return true, ""
		}
		return done()
	}); err != nil {
		return err
	}
	return failed
}

// beside are the files that an upgrade keeps beside the program.
func (u *upgrading) beside() string {
	var names []string
	all, _ := os.ReadDir(filepath.Dir(u.program))
	for _, e := range all {
		if strings.Contains(e.Name(), "pace-node") {
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

func upgraded(l *lane, c trial) (err error) {
	u, err := l.upgrader(c)
	if err != nil {
		return err
	}
	defer u.gone(&err)
	if err := u.begin(); err != nil {
		return err
	}
	if err := u.open(); err != nil {
		return err
	}
	nothing := func(int) error { _, err := u.runsOld(); return err }
	serves := func() (bool, string) {
		s, err := u.status()
		if err != nil {
			return false, err.Error()
		}
		greeting, err := u.greeting()
		return s.Version == newerVersion && greeting == "up" && err == nil, fmt.Sprintf("it is %s with %q (%v; %d crashes)", s.Version, greeting, err, u.crashes)
	}
	if err := u.until("the new program serves and is provisioned", nothing, serves); err != nil {
		return err
	}
	// A clean end of what serves settles it; a crash in that moment is one of a start, and the next clean end does.
	for {
		if err := u.stop(); err != nil {
			return err
		}
		if status, _ := u.ended(); status == config.ExitOK {
			break
		}
		if err := u.until("it serves again", nothing, serves); err != nil {
			return err
		}
	}
	if u.crashes == 0 {
		return fmt.Errorf("the point never came")
	}
	if got := u.beside(); got != "pace-node pace-node.previous" {
		return fmt.Errorf("left over: %s", got)
	}
	return u.examine()
}

// takenBack has the new program refuse its configuration, so that the old one comes back.
func takenBack(l *lane, c trial) (err error) {
	u, err := l.upgrader(c)
	if err != nil {
		return err
	}
	defer u.gone(&err)
	if err := u.begin(); err != nil {
		return err
	}
	if err := u.open(); err != nil {
		return err
	}
	swapped := false
	if err := u.until("the old program is back, and says why", func(int) error {
		old, err := u.runsOld()
		if err != nil {
			return err
		}
		swapped = swapped || !old
		text := "nonsense: 1\n"
		if old {
			text = "" // it has what it needs
		}
		return os.WriteFile(u.settings, []byte(text), 0o600)
	}, func() (bool, string) {
		s, err := u.status()
		if err != nil {
			return false, err.Error()
		}
		q, err := u.queueState(s.NodeID)
		state := fmt.Sprintf("%s, %+v (%v; %d crashes)", s.Version, q, err, u.crashes)
		return s.Version == "1.0.0" && strings.Contains(fmt.Sprintf("%+v", q), "was rolled back here"), state
	}); err != nil {
		return err
	}
	if u.crashes == 0 || !swapped {
		return fmt.Errorf("the point never came (swapped: %v)", swapped)
	}
	if !strings.Contains(u.log.String(), "last upgrade was rolled back") {
		return fmt.Errorf("its log does not say that it was rolled back")
	}
	if err := u.stop(); err != nil {
		return err
	}
	if got := u.beside(); got != ".pace-node.upgrade pace-node" {
		return fmt.Errorf("left over: %s", got)
	}
	return u.examine()
}
