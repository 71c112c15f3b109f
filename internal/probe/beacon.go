package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"time"

	"pace-node/internal/wire"
)

const (
	beaconTries = 3
	beaconWait  = time.Second // for an answer, a try
	maxAnswer   = 2048        // bytes of a datagram that are read
)

var errUnanswered = errors.New("no answer")

// AskBeacon sends a machine the beacon of a fleet that is nobody's, and reports nil once it answers with a challenge. That
// is never answered: nothing is proven, and nothing comes of it over there.
func AskBeacon(ctx context.Context, address string) error {
	var b [16]byte
	rand.Read(b[:])
	id := hex.EncodeToString(b[:])
	raw, ok := wire.FitSummary(&wire.Summary{Cluster: id, State: wire.StateSolitary, Created: uint64(time.Now().Unix()), Node: id, Members: []string{id}, Total: 1})
	if !ok {
		return errors.New("the beacon does not fit")
	}
	to, err := net.ResolveUDPAddr("udp4", address)
	if err != nil {
		return plain(err)
	}
	c, err := net.ListenUDP("udp4", nil) // the answer comes from another port than the one that is asked
	if err != nil {
		return plain(err)
	}
	defer c.Close()
	for range beaconTries {
		if _, err := c.WriteToUDP(wire.EncodeBeacon(raw), to); err != nil {
			return plain(err)
		}
		if err := c.SetReadDeadline(time.Now().Add(beaconWait)); err != nil {
			return err
		}
		for answer := make([]byte, maxAnswer); ; {
			n, from, err := c.ReadFromUDP(answer)
			if err != nil {
				break // the next try
			}
			if kind, _, verdict := wire.ParseDatagram(answer[:n]); verdict == wire.VerdictOK && kind == wire.KindChallenge && from.IP.Equal(to.IP) {
				return nil
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errUnanswered
}
