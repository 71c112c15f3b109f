//go:build e2e

package crash

import (
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"pace-node/internal/statedir"
	"pace-node/internal/wire"
)

// The stories of machines whose ask ends because of what becomes of their target.

func init() {
	stories = append(stories,
		story{name: "its target closes", run: targetCloses, hits: []string{"statedir.record.rename.", "node.move.record."}},
		story{name: "its target asks it", run: targetAsks, hits: []string{"node.move.record.before@2", "node.move.record.after@2"}},
	)
}

// targetCloses has a machine ask another one, which then yields to the fleet that rejected that machine.
func targetCloses(l *lane, c trial) (err error) {
	other, err := l.fresh(trial{}, 0)
	if err != nil {
		return err
	}
	defer l.tidy(&err)
	defer other.gone(&err)
	if err := other.begin(); err != nil {
		return err
	}
	if err := other.ready(); err != nil {
		return err
	}
	founder := "--fleet-seed=" + l.founder.endpoint()
	v, err := l.fresh(c, 0, founder)
	if err != nil {
		return err
	}
	defer v.gone(&err)
	own, err := l.pending(v)
	if err != nil {
		return err
	}
	if err := l.founder.enroll(wire.ControlReject, []byte(v.last.NodeID)); err != nil {
		return err
	}
	if err := v.settled("it is rejected", func() (bool, string) { return v.inMode("solitary", own) }); err != nil {
		return err
	}
	if err := v.stop(); err != nil {
		return err
	}
	v.args[slices.Index(v.args, founder)] = "--fleet-seed=" + other.endpoint()
	if err := v.begin(); err != nil {
		return err
	}
	if err := v.settled("it asks the other machine", func() (bool, string) {
		r, ok, err := other.row(v.last.NodeID)
		return ok, fmt.Sprintf("%+v (%v)", r, err)
	}); err != nil {
		return err
	}
	if err := other.stop(); err != nil {
		return err
	}
	if err := v.open(); err != nil {
		return err
	}
	other.args = append(other.args, founder)
	if err := other.start(); err != nil {
		return err
	}
	if err := v.until("it is its own again", func() (bool, string) { return v.inMode("solitary", own) }); err != nil {
		return err
	}
	return v.end("solitary", own)
}

// yieldsWithin is when a story in which both are to yield is begun anew, since one did not.
const yieldsWithin = 10 * time.Second

// late passes connections on to an endpoint, and the first ones once it is opened.
type late struct {
	net.Listener
	to   string
	open <-chan struct{}
	wait sync.WaitGroup
	end  chan struct{}
}

func newLate(to string, open <-chan struct{}) (*late, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &late{Listener: l, to: to, open: open, end: make(chan struct{})}
	p.wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.wait.Go(func() { p.pass(c) })
		}
	})
	return p, nil
}

func (p *late) pass(c net.Conn) {
	defer c.Close()
	select {
	case <-p.open:
	case <-p.end:
		return
	}
	d, err := net.Dial("tcp4", p.to)
	if err != nil {
		return
	}
	defer d.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, d}, {d, c}} {
		both.Go(func() { io.Copy(way[0], way[1]); way[0].Close() })
	}
	over := make(chan struct{})
	go func() { both.Wait(); close(over) }()
	select {
	case <-over:
	case <-p.end:
		c.Close()
		d.Close()
		<-over
	}
}

func (p *late) close() {
	p.Listener.Close()
	close(p.end)
	p.wait.Wait()
}

// targetAsks has two machines that were typed on one another hear each other's word in the same moment, so that each asks
// the other. The elder, which takes its ask back, is ended at that.
func targetAsks(l *lane, c trial) (err error) {
	const age, tries = 10 * time.Second, 10
	for range tries {
		met, err := l.askEachOther(c, age)
		if met || err != nil {
			return err
		}
	}
	return fmt.Errorf("in %d tries one yielded before the other had heard it", tries)
}

// askEachOther reports whether both yielded; where one came too late to, the story did not begin.
func (l *lane) askEachOther(c trial, age time.Duration) (met bool, err error) {
	v, err := l.fresh(c, 0)
	if err != nil {
		return false, err
	}
	other, err := l.fresh(trial{}, 0)
	if err != nil {
		return false, err
	}
	defer func() {
		if !met { // what they said is of no use
			var none error
			v.gone(&none)
			other.gone(&none)
			return
		}
		v.gone(&err)
		other.gone(&err)
	}()
	open := make(chan struct{})
	for _, pair := range [][2]*victim{{v, other}, {other, v}} {
		p, err := newLate(pair[1].endpoint(), open)
		if err != nil {
			return false, err
		}
		defer p.close()
		pair[0].args = append(pair[0].args, "--fleet-seed="+p.Addr().String())
	}
	d, err := statedir.Open(v.dir, statedir.Options{})
	if err != nil {
		return false, err
	}
	if _, _, err = d.Load(statedir.Mint{Entropy: entropy, Now: time.Now().Add(-age)}); err == nil {
		err = d.Close()
	}
	if err != nil {
		return false, err
	}
	if err := v.examine(); err != nil {
		return false, err
	}
	own := v.last.Cluster
	if err := v.begin(); err != nil {
		return false, err
	}
	if err := v.open(); err != nil {
		return false, err
	}
	if err := other.start(); err != nil {
		return false, err
	}
	if err := v.ready(); err != nil {
		return false, err
	}
	if err := other.ready(); err != nil {
		return false, err
	}
	close(open)
	// Each yields half a second after it heard the other's word, or never.
	yields := func(n *victim) bool { return strings.Contains(n.log.String(), "because=yield-decided") }
	for began := time.Now(); !met && time.Since(began) < yieldsWithin; time.Sleep(pollEvery) {
		met = yields(v) && yields(other)
	}
	if !met {
		return false, nil
	}
	if err := other.examine(); err != nil {
		return met, err
	}
	if err := v.until("it is its own again, and the other waits for it", func() (bool, string) {
		if ok, state := v.inMode("solitary", own); !ok {
			return false, state
		}
		_, ok, err := v.row(other.last.NodeID)
		return ok, fmt.Sprint(err)
	}); err != nil {
		return met, err
	}
	return met, v.end("solitary", own)
}
