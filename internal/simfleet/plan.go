package simfleet

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// drawing is a story being drawn.
type drawing struct {
	chance
	machines int
}

func (d *drawing) any() int { return d.IntN(d.machines) }

func (d *drawing) one() (int, string) { return d.any(), "" }

// pick1 draws a machine, and which of those that an act may be about there.
func (d *drawing) pick1() (int, string) { return d.any(), "#" + strconv.Itoa(d.IntN(d.machines)) }

// group draws a machine and some others.
func (d *drawing) group() (int, string) {
	perm := d.Perm(d.machines)
	var names []string
	for _, n := range perm[1:min(len(perm), 1+d.IntN(d.machines))] {
		names = append(names, nameOf(n))
	}
	slices.Sort(names)
	return perm[0], strings.Join(names, " ")
}

func (d *drawing) skew() (int, string) {
	to := []time.Duration{0, 0, d.between(-10*time.Minute, 10*time.Minute), d.between(-72*time.Hour, 72*time.Hour), -epochStart.Sub(time.Unix(0, 0))}
	return d.any(), to[d.IntN(len(to))].Truncate(time.Second).String()
}

// Kind is what stories are drawn for.
type Kind struct {
	Least, Most int           // machines
	Span        time.Duration // until the calm
	Gap         time.Duration // between two steps, at most
	Without     []Act         // acts that whoever tells the story cannot do
}

// Draw makes a story of a seed. Each story leaves some acts out and favours others, so that rare things meet.
func Draw(seed uint64, k Kind) *Story {
	d := &drawing{chance: chanceOf(seed, chancePlan)}
	d.machines = k.Least + d.IntN(k.Most-k.Least+1)
	s := &Story{Seed: seed, Machines: d.machines, Segments: d.segments(), Span: k.Span}
	weights := make([]int, len(Acts))
	for i, row := range Acts {
		if slices.Contains(k.Without, row.Act) {
			continue
		}
		if row.Act == ActBoot || row.Act == ActHeal || !d.one4() {
			weights[i] = row.Weight * (1 + d.IntN(4))
		}
	}
	together := d.IntN(d.machines + 1) // are powered on together, the others one by one
	for n := range d.machines {
		at := d.between(0, 2*time.Second)
		if n >= together {
			at = d.between(0, k.Span/2)
		}
		s.Steps = append(s.Steps, Step{At: at, Act: ActBoot, Who: n})
	}
	gap := d.between(k.Gap/10, k.Gap)
	for at := d.between(0, 2*gap); at < k.Span; at += d.between(0, 2*gap) {
		row := &Acts[d.pick(weights)]
		who, arg := row.draw(d)
		s.Steps = append(s.Steps, Step{At: at, Act: row.Act, Who: who, Arg: arg})
	}
	for i := range s.Steps {
		s.Steps[i].At = s.Steps[i].At.Truncate(time.Millisecond)
	}
	slices.SortStableFunc(s.Steps, func(a, b Step) int { return int(a.At - b.At) })
	return s
}

// segments draws how many segments there are: mostly with a handful of machines on each, since what a segment costs grows
// with the square of its machines.
func (d *drawing) segments() int {
	if d.chance.one(40) {
		return 1
	}
	least := (d.machines + 7) / 8
	return least + d.IntN(1+d.machines/4)
}

func (d *drawing) one4() bool { return d.chance.one(4) }

func (d *drawing) pick(weights []int) int {
	total := 0
	for _, w := range weights {
		total += w
	}
	n := d.IntN(total)
	for i, w := range weights {
		if n -= w; n < 0 {
			return i
		}
	}
	return 0
}
