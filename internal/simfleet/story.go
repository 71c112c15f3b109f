package simfleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Step is one thing that happens in a story. Told in another state it may come to nothing, so that steps can be left out.
type Step struct {
	At  time.Duration
	Act Act
	Who int // the machine
	Arg string
}

// String is the step as a line of a story.
func (s Step) String() string {
	return strings.TrimRight(fmt.Sprintf("%s %s %s %s", s.At, s.Act, nameOf(s.Who), s.Arg), " ")
}

// Story is what happens to a set of machines; everything else follows from its seed.
type Story struct {
	Seed     uint64
	Machines int
	Segments int
	Span     time.Duration // until the calm
	Steps    []Step
}

// MostMachines bounds the machines of a story.
const MostMachines = 200

// String is the story as text, which ParseStory reads.
func (s *Story) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d\nmachines %d\nsegments %d\nspan %s\n", s.Seed, s.Machines, s.Segments, s.Span)
	for _, step := range s.Steps {
		fmt.Fprintln(&b, step)
	}
	return b.String()
}

// ParseStory reads a story; lines that begin with # are for people.
func ParseStory(text string) (*Story, error) {
	s := &Story{}
	heads := map[string]func(string) error{
		"seed":     func(v string) (err error) { s.Seed, err = strconv.ParseUint(v, 10, 64); return },
		"machines": func(v string) (err error) { s.Machines, err = strconv.Atoi(v); return },
		"segments": func(v string) (err error) { s.Segments, err = strconv.Atoi(v); return },
		"span":     func(v string) (err error) { s.Span, err = time.ParseDuration(v); return },
	}
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		var err error
		if head := heads[word]; head != nil {
			err = head(rest)
		} else {
			err = s.parseStep(line)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of the story, %q: %w", i+1, line, err)
		}
	}
	if s.Machines < 1 || s.Machines > MostMachines || s.Segments < 1 || s.Span <= 0 {
		return nil, fmt.Errorf("a story has 1 to %d machines, a segment and a span, and this one has %d, %d and %s", MostMachines, s.Machines, s.Segments, s.Span)
	}
	for _, step := range s.Steps {
		if step.Who >= s.Machines {
			return nil, fmt.Errorf("the story has %d machines, and %q names another one", s.Machines, step)
		}
	}
	return s, nil
}

func (s *Story) parseStep(line string) error {
	f := strings.SplitN(line, " ", 4)
	if len(f) < 3 {
		return fmt.Errorf("a step is <time> <act> <machine> [<argument>]")
	}
	at, err := time.ParseDuration(f[0])
	if err != nil {
		return err
	}
	who, err := machineOf(f[2])
	if err != nil {
		return err
	}
	step := Step{At: at, Act: Act(f[1]), Who: who}
	if len(f) == 4 {
		step.Arg = f[3]
	}
	if actRow(step.Act) == nil {
		return fmt.Errorf("no act is called %q", step.Act)
	}
	s.Steps = append(s.Steps, step)
	return nil
}

func machineOf(name string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(name, "m"))
	if err != nil || n < 0 || nameOf(n) != name {
		return 0, fmt.Errorf("%q is no machine: they are m00, m01, …", name)
	}
	return n, nil
}

// without is the story without some of its steps.
func (s *Story) without(from, to int) *Story {
	c := *s
	c.Steps = slices.Delete(slices.Clone(s.Steps), from, to)
	return &c
}
