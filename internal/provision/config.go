package provision

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"pace-node/internal/process"
	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// Config is what the leader's side is configured with, on every voter alike.
type Config struct {
	Interval      time.Duration // between discovery rounds; 0: one minute; below it is refused
	Workers       int           // 0: the number of cores; below 1 is refused
	QueueCap      int           // entries of the queue; 0: its default
	Helper        string        // a command line, split as a shell does and run without one
	HelperTimeout time.Duration // 0: DefaultHelperTimeout
	Default       string        // a path to a helper's answer, or the answer itself, beginning with "{"
	Component     string        // "": DefaultComponent
	PKI           bool          // each machine asks for a certificate, which the helper may give it
	Deny          []string      // patterns of names that no machine gets a certificate for, beside DefaultDeny
	Upgrades      UpgradePolicy // "": off
	Repository    string        // of releases; needed unless Upgrades is off
	ReleaseKey    string        // that signs them; needed unless Upgrades is off
}

// Complete fills in what was left at zero and refuses what can't be, also a default that does not read; the error names the
// flag and the remedy.
func (c *Config) Complete() error {
	if err := c.check(); err != nil {
		return err
	}
	if c.Default != "" {
		if _, err := readDefault(c.Default); err != nil {
			return fmt.Errorf("--provision-default: %w", err)
		}
	}
	return nil
}

// check is Complete without a look at any file.
func (c *Config) check() error {
	if c.Interval == 0 {
		c.Interval = queue.MinInterval
	}
	if c.Workers == 0 {
		c.Workers = runtime.NumCPU()
	}
	if c.QueueCap == 0 {
		c.QueueCap = queue.DefaultCapacity
	}
	if c.HelperTimeout == 0 {
		c.HelperTimeout = DefaultHelperTimeout
	}
	if c.Component == "" {
		c.Component = DefaultComponent
	}
	if c.Upgrades == "" {
		c.Upgrades = UpgradesOff
	}
	if err := c.upgradesUsable(); err != nil {
		return err
	}
	switch {
	case c.Interval < queue.MinInterval:
		return fmt.Errorf("--provision-interval=%s is below %s: give %s or more", c.Interval, queue.MinInterval, queue.MinInterval)
	case c.Workers < 1:
		return fmt.Errorf("--provision-workers=%d: at least 1 machine must be worked at a time", c.Workers)
	case c.QueueCap < 1:
		return fmt.Errorf("--provision-queue=%d: the queue must hold at least 1 machine", c.QueueCap)
	case c.HelperTimeout < 0:
		return fmt.Errorf("--provision-helper-timeout=%s: give a time above 0", c.HelperTimeout)
	}
	if c.Helper != "" {
		if _, err := process.Split(c.Helper, runtime.GOOS == "windows"); err != nil {
			return fmt.Errorf("--provision-helper=%s: %w", quote(c.Helper), err)
		}
	}
	for _, pattern := range c.Deny {
		if err := ValidateDeny(pattern); err != nil {
			return fmt.Errorf("--provision-deny=%s: %w", quote(pattern), err)
		}
	}
	if err := ValidateComponent(c.Component); err != nil {
		return fmt.Errorf("--provision-component: %w", err)
	}
	return nil
}

// Errors of ValidateComponent.
var (
	errComponentEmpty = errors.New("a component must not be empty: name what a machine says it is, as in provision_mode_server")
	errComponentLong  = fmt.Errorf("a component has at most %d bytes", wire.MaxID)
)

// ValidateComponent refuses a component that would widen what the leader listens for: one with ".", ">", "*", a space or
// a control character.
func ValidateComponent(s string) error {
	switch {
	case s == "":
		return errComponentEmpty
	case len(s) > wire.MaxID:
		return errComponentLong
	case !wire.ValidText(s):
		return fmt.Errorf("the component %s holds a control character or is no UTF-8: use letters, digits, _ and -", quote(s))
	}
	if i := strings.IndexAny(s, ".>* \u00a0"); i >= 0 {
		return fmt.Errorf("the component %s holds %s, which would widen what the leader listens for: use letters, digits, _ and -",
			quote(s), quote(s[i:i+1]))
	}
	return nil
}

// readDefault reads the answer that stands in for a helper's.
func readDefault(text string) (*Answer, error) {
	doc := []byte(text)
	from := "the given document"
	if !strings.HasPrefix(strings.TrimSpace(text), "{") {
		from = "the file " + quote(text)
		f, err := os.Open(text)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be read (%w): give the path of a file that holds a helper's answer", from, errors.Unwrap(err))
		}
		defer f.Close()
		var b bytes.Buffer
		if _, err := b.ReadFrom(limit(f, MaxStdout+1)); err != nil {
			return nil, fmt.Errorf("%s cannot be read: %w", from, err)
		}
		doc = b.Bytes()
	}
	if len(doc) > MaxStdout {
		return nil, fmt.Errorf("%s is larger than 1 MiB", from)
	}
	// What an operator wrote may hold a password anywhere, and this is said in the log and in every status.
	a, failure := parseAnswer(doc, func([]byte) string { return "" })
	if failure != nil {
		return nil, fmt.Errorf("%s is no helper's answer: %s", from, failure.Text)
	}
	return a, nil
}

// usable says why this node could not provision a machine now; nil: it could.
func (c *Config) usable() error {
	switch {
	case c.Helper != "":
		argv, err := process.Split(c.Helper, runtime.GOOS == "windows")
		if err != nil {
			return err
		}
		if _, err := exec.LookPath(argv[0]); err != nil {
			return fmt.Errorf("the helper %s cannot be run: %w", quote(argv[0]), cause(err))
		}
		return nil
	case c.Default != "":
		_, err := readDefault(c.Default)
		return err
	}
	return ErrNothing
}

// cause is the innermost reason, without the path and the call that wrap it.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
