package probe

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net"
	"time"

	"pace-node/internal/identity"
	"pace-node/internal/netio"
	"pace-node/internal/wire"
)

// Endpoint is what a machine's 0xFC endpoint answers to somebody whom nobody knows. Each error ends the look where it stands.
type Endpoint struct {
	Addresses  []string // of its name, or itself
	NameErr    error    // the name has no address
	ConnectErr error    // nothing takes a connection there
	TLSErr     error    // what takes it is no pace-node
	AnswerErr  error    // it does not answer what every machine may ask
	Key        identity.PublicKey
	Summary    wire.Summary
	Hello      wire.Hello
	Offset     time.Duration // of its clock to this machine's; positive: it is ahead
}

// AskEndpoint looks at an endpoint under a key that is made for it and used for nothing else, so that this machine's own
// sessions are not disturbed, and no second machine seems to hold its key.
func AskEndpoint(ctx context.Context, endpoint string) (e Endpoint) {
	host, port, err := net.SplitHostPort(endpoint)
	if err == nil {
		e.Addresses, err = net.DefaultResolver.LookupHost(ctx, host)
	}
	if e.NameErr = err; err != nil {
		return e
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if e.ConnectErr = plain(err); err != nil {
		return e
	}
	conn.Close()
	var seed [32]byte
	rand.Read(seed[:])
	hub := netio.NewHub(netio.HubConfig{Key: identity.NewPrivateKey(seed), Handler: nobody{}})
	defer hub.Close()
	s, err := hub.Dial(ctx, endpoint, nil)
	if e.TLSErr = plain(err); err != nil {
		return e
	}
	e.Key = s.Peer()
	e.AnswerErr = e.ask(ctx, s)
	return e
}

// ask asks who is there and for the fleet, which a machine proves under its key.
func (e *Endpoint) ask(ctx context.Context, s *netio.Session) error {
	var nonce [32]byte
	rand.Read(nonce[:])
	reply, err := netio.Call(ctx, s, wire.VerbFleetSummary, wire.AppendField(nil, nonce[:]))
	if err != nil {
		return err
	}
	a, err := wire.DecodeFleetSummaryAnswer(reply)
	if err != nil {
		return err
	}
	if key := identity.PublicKey(a.Key); key != e.Key || !identity.Verify(key, wire.FleetSummaryMessage(nonce, a.Raw, a.Key), a.Signature) {
		return errors.New("what it says of its fleet is not signed by its key")
	}
	e.Summary = a.Summary
	sent := time.Now()
	b, err := json.Marshal(wire.Hello{Wire: []int{wire.ProtocolVersion}, Format: 1, ClockMS: sent.UnixMilli()})
	if err != nil {
		return err
	}
	if reply, err = netio.Call(ctx, s, wire.VerbHello, b); err != nil {
		return err
	}
	if e.Hello, err = wire.DecodeDocument[wire.Hello](reply); err != nil {
		return err
	}
	e.Offset = time.UnixMilli(e.Hello.ClockMS).Sub(sent.Add(time.Since(sent) / 2).Round(0))
	return nil
}

// plain is an error of the network without the address, which the asker knows.
func plain(err error) error {
	var call *net.OpError
	if errors.As(err, &call) && call.Err != nil {
		return call.Err
	}
	return err
}

// Dials reports whether something takes a TCP connection.
func Dials(ctx context.Context, endpoint string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", endpoint)
	if err != nil {
		return plain(err)
	}
	return conn.Close()
}

// nobody serves nothing.
type nobody struct{}

// ServeStream implements netio.Handler.
func (nobody) ServeStream(context.Context, *netio.Session, net.Conn) {}

// SessionOpened implements netio.Handler.
func (nobody) SessionOpened(*netio.Session) {}

// SessionClosed implements netio.Handler.
func (nobody) SessionClosed(*netio.Session, error) {}
