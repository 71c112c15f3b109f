package discovery

import (
	"net/netip"
	"time"
)

// Station is one node of a pumped segment.
type Station struct {
	Exchange  *Exchange
	Answering netip.AddrPort // its answering socket
	Listener  netip.AddrPort // its listener, for parcels that are sent to it alone
	// OnEvent sees each event, nil for nobody.
	OnEvent func(now time.Time, e Event)
}

// Parcel is a datagram on its way.
type Parcel struct {
	From, To netip.AddrPort
	// Broadcast: to the listener of every station, the sender's own too; To is
	// then unset.
	Broadcast bool
	Bytes     []byte
}

// PumpOnce is the loop over Handle and Tick by which tests run a whole segment
// in one goroutine: it hands every parcel of in to whom it is addressed, ticks
// every station that is due, and returns what they sent. What is lost, doubled
// or forged on the way is for the caller to do to the parcels between two calls.
func PumpOnce(now time.Time, stations []*Station, in []Parcel) (out []Parcel) {
	for _, p := range in {
		for _, s := range stations {
			switch {
			case p.Broadcast, p.To == s.Listener && p.To.IsValid():
				out = s.gather(now, s.Exchange.Handle(now, SocketListener, p.From, s.Answering.Addr(), p.Bytes), out)
			case p.To == s.Answering:
				out = s.gather(now, s.Exchange.Handle(now, SocketAnswering, p.From, s.Answering.Addr(), p.Bytes), out)
			}
		}
	}
	for _, s := range stations {
		if !now.Before(s.Exchange.Next(now)) {
			out = s.gather(now, s.Exchange.Tick(now), out)
		}
	}
	return out
}

// PumpNext returns when the next station is due.
func PumpNext(now time.Time, stations []*Station) (at time.Time) {
	for _, s := range stations {
		at = earliest(at, s.Exchange.Next(now))
	}
	return at
}

func (s *Station) gather(now time.Time, o Output, out []Parcel) []Parcel {
	if o.Beacon != nil {
		out = append(out, Parcel{From: s.Answering, Broadcast: true, Bytes: o.Beacon})
	}
	for _, d := range o.Send {
		out = append(out, Parcel{From: s.Answering, To: d.To, Bytes: d.Bytes})
	}
	if s.OnEvent != nil {
		for _, e := range o.Events {
			s.OnEvent(now, e)
		}
	}
	return out
}
