package simfleet

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// model is what the seeds' stories are drawn for.
var model = Kind{Least: 4, Most: 32, Span: time.Hour, Gap: time.Minute}

// fewSeeds is how many seeds a plain test run tells; PACE_SIM_SEEDS asks for others.
const fewSeeds = 10

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q is no number above 0", name, text)
	}
	return n
}

// tellAll tells stories on every processor until a moment, where that is not zero, and returns how many were told, their sum,
// and the first that failed.
func tellAll(stories []*Story, until time.Time) (told int, sum Sum, failed *Outcome) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // a story holds little and makes much
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := 0
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				mu.Lock()
				if next == len(stories) || failed != nil || !until.IsZero() && time.Now().After(until) {
					mu.Unlock()
					return
				}
				s := stories[next]
				next++
				mu.Unlock()
				o := Run(s, Breaks{})
				mu.Lock()
				told++
				sum.Add(o.Sum)
				if o.Violation != nil && (failed == nil || o.Story.Seed < failed.Story.Seed) {
					failed = o
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return told, sum, failed
}

// TestSimModel tells a story for each seed, until the time is over that PACE_SIM_FOR gives. One that fails is made shorter and
// told; SEED=n tells that one alone.
func TestSimModel(t *testing.T) {
	kind := model
	kind.Span = time.Duration(number(t, "PACE_SIM_HOURS", 1)) * time.Hour
	var stories []*Story
	var until time.Time
	if text := os.Getenv("PACE_SIM_FOR"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("PACE_SIM_FOR=%q is no time such as 10m", text)
		}
		until = time.Now().Add(d)
	}
	if seed := os.Getenv("PACE_SIM_SEED"); seed != "" {
		stories = append(stories, Draw(uint64(number(t, "PACE_SIM_SEED", 0)), kind))
	} else {
		first := number(t, "PACE_SIM_FIRST", 1)
		for seed := range number(t, "PACE_SIM_SEEDS", fewSeeds/slowed) {
			stories = append(stories, Draw(uint64(first+seed), kind))
		}
	}
	began := time.Now()
	told, sum, failed := tellAll(stories, until)
	t.Logf("%d seeds, %.1f virtual hours, %d steps, %d events: %d machines let in, %d provisioned, %d terms led, %d processes killed; at rest at most %s after the last step; in %s",
		told, sum.Virtual.Hours(), sum.Steps, sum.Events, sum.Admitted, sum.Provisioned, sum.Leaders, sum.Killed, sum.Worst.Round(time.Second), time.Since(began).Round(time.Millisecond))
	if failed != nil {
		t.Logf("seed %d: %v", failed.Story.Seed, failed.Violation)
		t.Fatal(report(failed, Breaks{}))
	}
}

// report is what is said of a story that fails: it alone replays it.
func report(o *Outcome, breaks Breaks) string {
	short := Shrink(o, breaks, ShrinkRuns)
	return fmt.Sprintf("seed %d fails; make sim SEED=%d tells it again, and the story below, kept in testdata/stories, for ever (%d of %d steps are left):\n%s",
		o.Story.Seed, o.Story.Seed, len(short.Story.Steps), len(o.Story.Steps), short.Tell())
}

// TestStories tells every story that is kept: each broke a rule once.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/stories/*.story")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".story"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := ParseStory(string(b))
			if err != nil {
				t.Fatal(err)
			}
			if o := Run(s, Breaks{}); o.Violation != nil {
				t.Fatal(o.Tell())
			}
		})
	}
}
