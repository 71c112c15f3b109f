package consensus

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// transport is raft's network transport, with one door more: a fleet of one tells itself to lead.
type transport struct {
	*raft.NetworkTransport
	rpc  chan raft.RPC
	done chan struct{}
	wait sync.WaitGroup
	once sync.Once
	err  error
}

// streams makes raft's addresses, which are node ids here, the layer's.
type streams struct{ Layer }

// Dial implements raft.StreamLayer.
func (s streams) Dial(id raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	ctx := context.Background()
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return s.Layer.Dial(ctx, string(id))
}

// named is the address that raft writes into its messages: the node id, never where it is.
type named struct {
	streams
	id string
}

type idAddr string

func (a idAddr) Network() string { return "node" }
func (a idAddr) String() string  { return string(a) }

// Addr implements net.Listener.
func (n named) Addr() net.Addr { return idAddr(n.id) }

func newTransport(layer Layer, id string, logger hclog.Logger) *transport {
	t := &transport{
		NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
			Stream: named{streams{layer}, id}, MaxPool: 2, Timeout: transportTimeout, Logger: logger,
		}),
		rpc:  make(chan raft.RPC),
		done: make(chan struct{}),
	}
	t.wait.Add(1)
	go t.pump()
	return t
}

func (t *transport) pump() {
	defer t.wait.Done()
	for {
		select {
		case <-t.done:
			return
		case r := <-t.NetworkTransport.Consumer():
			select {
			case t.rpc <- r:
			case <-t.done:
				return
			}
		}
	}
}

// Consumer implements raft.Transport.
func (t *transport) Consumer() <-chan raft.RPC { return t.rpc }

// Close implements raft.WithClose; it may be called twice.
func (t *transport) Close() error {
	t.once.Do(func() {
		close(t.done)
		t.err = t.NetworkTransport.Close()
		t.wait.Wait()
	})
	return t.err
}

// timeoutNowToSelf hands raft the message with which a leader passes its seat on, so that a lone voter stands for
// election at once instead of after an election timeout.
func (t *transport) timeoutNowToSelf(ctx context.Context) error {
	answer := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: &raft.TimeoutNowRequest{RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax}}, RespChan: answer}
	select {
	case t.rpc <- rpc:
	case <-ctx.Done():
		return ctx.Err()
	case <-t.done:
		return ErrClosed
	}
	select {
	case r := <-answer:
		return r.Error
	case <-ctx.Done():
		return ctx.Err()
	case <-t.done:
		return ErrClosed
	}
}
