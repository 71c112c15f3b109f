//go:build e2e

package crash

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pace-node/internal/statedir"
)

// victim is the machine that crashes. Whenever a story looks at it, one that has ended is examined and started again.
type victim struct {
	*machine
	point   string // where it ends; "" is nowhere
	nth     int    // passing of the point
	gate    string // file from whose making on passings count
	crashes int
	limit   int // crashes before it is started without its point

	rng    *rand.Rand // kills it at random moments; nil: nobody does
	next   time.Time  // of the next one
	killed bool

	key   []byte // of the key file, once there was one
	last  record // newest record seen
	was   string // configuration before the story's, "" for none
	later string // the story's, "" for none
}

// begin starts it with its point.
func (v *victim) begin() error {
	v.gate = filepath.Join(v.dir+".gate", "open")
	if err := os.RemoveAll(filepath.Dir(v.gate)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(v.gate), 0o700); err != nil {
		return err
	}
	v.arm()
	return v.start(v.env()...)
}

func (v *victim) env() []string {
	if v.point == "" || v.crashes >= v.limit {
		return nil
	}
	at := v.point
	if v.crashes == 0 && v.nth > 1 {
		at = fmt.Sprintf("%s@%d", v.point, v.nth)
	}
	return []string{"PACE_CRASH_AT=" + at, "PACE_CRASH_WHEN=" + v.gate}
}

// open lets the point count from now on, and random kills begin.
func (v *victim) open() error {
	if v.rng != nil && v.next.IsZero() {
		v.arm()
	}
	return os.WriteFile(v.gate, nil, 0o600)
}

// arm chooses the moment of the next kill: within a move, which takes some milliseconds, or in the quiet after it.
func (v *victim) arm() {
	if v.rng == nil {
		return
	}
	d := v.rng.Int64N(int64(80 * time.Millisecond))
	if v.rng.IntN(2) == 0 {
		d = v.rng.Int64N(int64(800 * time.Millisecond))
	}
	v.next = time.Now().Add(time.Duration(d))
}

// soon brings the next kill forward, into a move that is about to begin.
func (v *victim) soon() {
	v.next = time.Now().Add(time.Duration(v.rng.Int64N(int64(30 * time.Millisecond))))
}

// look examines and revives a process that has ended. crashed tells that it had.
func (v *victim) look() (crashed bool, err error) {
	if v.rng != nil && v.crashes < v.limit && time.Now().After(v.next) {
		if _, ended := v.ended(); !ended {
			v.kill()
			v.killed = true
		}
	}
	status, ended := v.ended()
	if !ended {
		return false, nil
	}
	switch {
	case v.killed:
		v.killed = false
	case v.crashedAt(v.point):
	default:
		return false, fmt.Errorf("%s ended with %d, not at its point", v.name, status)
	}
	v.crashes++
	if err := v.examine(); err != nil {
		return true, fmt.Errorf("after crash %d: %w", v.crashes, err)
	}
	v.arm()
	return true, v.start(v.env()...)
}

// rest ends the machine. One that comes to its point on its way out is a crash as any other: what that leaves, the next start
// clears, which is without the point and ended in turn.
func (v *victim) rest() error {
	if err := v.stop(); err != nil {
		return err
	}
	if status, _ := v.ended(); status != crashStatus {
		return nil
	}
	v.limit = v.crashes
	if err := v.settled("it serves again", func() (bool, string) {
		_, err := v.status()
		return err == nil, fmt.Sprint(err)
	}); err != nil {
		return err
	}
	return v.stop()
}

// examine compares what is on disk with what was there before: who this machine is does not change.
func (v *victim) examine() error {
	key, err := os.ReadFile(filepath.Join(v.dir, statedir.KeyFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		key = nil
	case err != nil:
		return err
	}
	if v.key != nil && string(v.key) != string(key) {
		return errors.New("the key file has changed")
	}
	v.key = key
	r, err := v.record()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if v.last.NodeID != "" {
			return errors.New("the record is gone")
		}
		return nil
	case err != nil:
		return err
	}
	if v.last.NodeID != "" && (r.NodeID != v.last.NodeID || r.Key != v.last.Key || r.Boots < v.last.Boots) {
		return fmt.Errorf("the record says %+v, and said %+v", r, v.last)
	}
	v.last = r
	return nil
}

// betweenRenames is how long a busy machine may keep a process between two renames that follow one another.
const betweenRenames = 10 * time.Second

// whole checks a machine's configuration: the old one or the new one. Between two renames of a running one there is none.
func (v *victim) whole() (err error) {
	for limit := time.Now().Add(betweenRenames); ; time.Sleep(pollEvery) {
		_, ended := v.ended() // asked first: what it leaves does not change any more
		var got string
		if got, err = v.greeting(); err == nil {
			if got == v.was || got == v.later {
				return nil
			}
			err = fmt.Errorf("it is %q, and is to be %q or %q", got, v.was, v.later)
		}
		if ended || time.Now().After(limit) {
			return fmt.Errorf("configuration: %w", err)
		}
	}
}

// until polls a condition on a machine that may crash meanwhile. Before it is met the point must have come.
func (v *victim) until(what string, done func() (bool, string)) error {
	return v.poll(what, v.rng == nil && v.point != "", done)
}

// settled is until without the demand that the point came before.
func (v *victim) settled(what string, done func() (bool, string)) error {
	return v.poll(what, false, done)
}

func (v *victim) poll(what string, crashFirst bool, done func() (bool, string)) error {
	limit := time.Now().Add(patience)
	var state string
	revived := false
	for {
		crashed, err := v.look()
		if err != nil {
			return err
		}
		revived = revived || crashed
		if revived {
			if _, err := v.status(); err == nil {
				err := v.whole()
				// One that has come to its point again meanwhile is looked at when it was started anew.
				if _, ended := v.ended(); !ended {
					if err != nil {
						return fmt.Errorf("at the start after crash %d: %w", v.crashes, err)
					}
					revived = false
				}
			}
		}
		var ok bool
		if !revived {
			if ok, state = done(); ok && (v.crashes > 0 || !crashFirst) {
				return nil
			} else if ok {
				state = "it is, and the point never came"
			}
		}
		if time.Now().After(limit) {
			return fmt.Errorf("still not after %s: %s (%s; %d crashes)", patience, what, state, v.crashes)
		}
		time.Sleep(pollEvery)
	}
}

// inMode waits until the machine is in a mode, and of a fleet.
func (v *victim) inMode(mode, fleet string) (bool, string) {
	s, err := v.status()
	if err != nil {
		return false, err.Error()
	}
	c, err := v.cluster()
	if err != nil {
		return false, err.Error()
	}
	return s.Mode == mode && (fleet == "" || c.Cluster == fleet), "it is " + s.Mode + " of " + c.Cluster
}

// end stops the machine and looks at what it leaves: one identity, one fleet's store, every other store archived once,
// nothing half made. archived are the archives as <cluster>/<store>.
func (v *victim) end(mode, fleet string, archived ...string) error {
	if err := v.rest(); err != nil {
		return err
	}
	if err := v.examine(); err != nil {
		return err
	}
	var all []error
	fail := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if v.last.Mode != mode || fleet != "" && v.last.Cluster != fleet {
		fail("the record says %+v, and is to say %s of %s", v.last, mode, fleet)
	}
	stores := map[string]bool{statedir.ConsensusDir: mode != "learner", statedir.FollowDir: mode == "learner"}
	for store, want := range stores {
		text, err := os.ReadFile(filepath.Join(v.dir, store, "cluster"))
		if got := err == nil; got != want || want && string(text) != v.last.Cluster+"\n" {
			fail("%s: %s is of %q (%v)", mode, store, text, err)
		}
	}
	got, err := v.archives()
	slices.Sort(archived)
	if err != nil || !slices.Equal(got, archived) {
		fail("archived is %q (%v), and is to be %q", got, err, archived)
	}
	left, err := v.leftovers()
	if err != nil || len(left) > 0 {
		fail("left over: %q (%v)", left, err)
	}
	if err := v.whole(); err != nil {
		all = append(all, err)
	}
	return errors.Join(all...)
}
