package machine

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"strings"

	"pace-node/internal/control"
	"pace-node/internal/doctor"
	"pace-node/internal/formation"
)

// beaconPort is where other machines hear beacons, unless their --discovery says otherwise.
const beaconPort = 6681

// collectRemote looks at another machine from here.
func (m *Machine) collectRemote(ctx context.Context, host string, ask control.DoctorAsk, see eyes) (doctor.Remote, error) {
	endpoint, err := formation.ParseSeed(host)
	if err != nil {
		return doctor.Remote{}, &told{err, "it is no machine that could be looked at: " + err.Error(), "pacectl doctor HOST, or HOST:PORT where its 0xFC endpoint is not at tcp 6674"}
	}
	r := doctor.Remote{OS: runtime.GOOS, Endpoint: endpoint}
	r.Host, r.Port, _ = net.SplitHostPort(endpoint)
	if node, err := ask.Node(ctx); err == nil { // where none runs, there is nothing to compare with
		r.OwnCluster, _, _ = strings.Cut(node.FleetID, "@")
		r.OwnVersion = node.Version
	}
	ask.Progress("asking " + endpoint)
	limited, cancel := context.WithTimeout(ctx, seedTime)
	e := see.endpoint(limited, endpoint)
	cancel()
	r.NameErr, r.ConnectErr, r.TLSErr, r.AnswerErr = textOf(e.NameErr), textOf(e.ConnectErr), textOf(e.TLSErr), textOf(e.AnswerErr)
	if len(e.Addresses) != 1 || e.Addresses[0] != r.Host {
		r.Addresses = e.Addresses
	}
	if e.NameErr != nil {
		return r, nil
	}
	if e.ConnectErr == nil && e.TLSErr == nil {
		r.Key = e.Key.String()
	}
	r.ID, r.Name, r.Version, r.Wire, r.ClockAhead = e.Hello.ID, e.Hello.Name, e.Hello.Version, e.Hello.Wire, e.Offset
	r.Cluster, r.State, r.Leader, r.Members = e.Summary.Cluster, e.Summary.State.String(), e.Summary.Leader.ID, e.Summary.Total
	if _, port, err := net.SplitHostPort(e.Summary.RaftEndpoint); err == nil {
		r.Raft = net.JoinHostPort(r.Host, port) // nobody has this machine dial where another one says
		ask.Progress("trying " + r.Raft)
		limited, cancel := context.WithTimeout(ctx, seedTime)
		r.RaftErr = textOf(see.dials(limited, r.Raft))
		cancel()
	}
	ask.Progress("sending it a beacon")
	limited, cancel = context.WithTimeout(ctx, seedTime)
	defer cancel()
	r.UDPErr = textOf(see.beacon(limited, net.JoinHostPort(r.Host, strconv.Itoa(beaconPort))))
	r.UDP = r.UDPErr == ""
	return r, nil
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
