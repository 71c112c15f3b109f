package machine

import (
	"context"
	"net"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/netio"
	"pace-node/internal/statedir"
)

// dialScheduler opens a session to another machine's 0xFC endpoint under this machine's key. No Hello is said on it: that
// is the node's word, and a second session of one key that says it looks like a copied identity.
func (m *Machine) dialScheduler(ctx context.Context, endpoint string) (control.Transport, error) {
	opt, err := m.State()
	if err != nil {
		return nil, noKey(err)
	}
	_, key, err := statedir.PeekKey(m.Config.StateDir, opt)
	if err != nil {
		return nil, noKey(err)
	}
	hub := netio.NewHub(netio.HubConfig{Key: key, Handler: nothing{}})
	s, err := hub.Dial(ctx, endpoint, nil)
	if err != nil {
		hub.Close()
		return nil, err
	}
	return &schedulerSession{hub, s}, nil
}

// noKey is a failure of this machine, not of the other one.
func noKey(err error) error {
	return &control.Failure{Code: "failed", Reason: "this machine's key speaks to the other one, and " + err.Error(),
		Remedy: "run it on a voter of the fleet, with its --state-dir and as an account that may read it", Exit: config.ExitFailed}
}

// schedulerSession is the one session of a verb.
type schedulerSession struct {
	hub     *netio.Hub
	session *netio.Session
}

// Open implements control.Transport.
func (s *schedulerSession) Open(ctx context.Context) (net.Conn, error) { return s.session.Open(ctx) }

// Close implements control.Transport.
func (s *schedulerSession) Close() error {
	s.hub.Close()
	return nil
}

// nothing serves nothing: a verb asks, and a stream that the other end opens is closed without an answer.
type nothing struct{}

// ServeStream implements netio.Handler.
func (nothing) ServeStream(context.Context, *netio.Session, net.Conn) {}

// SessionOpened implements netio.Handler.
func (nothing) SessionOpened(*netio.Session) {}

// SessionClosed implements netio.Handler.
func (nothing) SessionClosed(*netio.Session, error) {}
