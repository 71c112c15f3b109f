package doctor

import (
	"fmt"
	"time"

	"pace-node/internal/wire"
)

// Remote is what was found out about another machine from here. Each error ends the look where it stands.
type Remote struct {
	OS       string // of this machine
	Endpoint string // host:port that was asked
	Port     string // its port
	Host     string

	Addresses  []string // of the name
	NameErr    string   // it has none
	ConnectErr string   // nothing takes a connection there
	TLSErr     string   // what takes it is no pace-node
	AnswerErr  string   // it does not answer what every machine may ask

	Key, ID, Name, Version string
	Cluster, State, Leader string
	Members                uint64
	Wire                   []int         // protocol versions that it speaks
	ClockAhead             time.Duration // of its clock to this machine's
	Raft, RaftErr          string        // its consensus endpoint, "" if it has none, and why it does not take a connection
	UDP                    bool          // it answered a beacon
	UDPErr                 string

	OwnCluster, OwnVersion string // of this machine's node, "" where none runs
}

// answered: a pace-node was spoken to.
func (r *Remote) answered() bool {
	return r.NameErr == "" && r.ConnectErr == "" && r.TLSErr == "" && r.AnswerErr == ""
}

// RemoteCheck is one row of what is looked at of another machine. A row that the look did not reach says nothing.
type RemoteCheck struct {
	Name, Looks string
	Judge       func(r *Remote) []Finding
}

// RemoteChecks is the table, in the order in which a connection meets them.
var RemoteChecks = []RemoteCheck{
	{"name", "whether its name has an address", judgeName},
	{"tcp", "whether its 0xFC endpoint takes a connection", judgeTCP},
	{"identity", "whether what takes the connection is a pace-node, and under which key", judgeIdentity},
	{"fleet", "which fleet it is in, against this machine's", judgeRemoteFleet},
	{"version", "which version it runs, and whether both speak one protocol", judgeRemoteVersion},
	{"clock", "its clock against this machine's", judgeRemoteClock},
	{"udp", "whether it hears a beacon, and its answer comes back", judgeUDP},
	{"consensus", "whether its consensus endpoint takes a connection", judgeRaft},
}

// ExamineRemote judges what was found of another machine, worst first, else in the table's order.
func ExamineRemote(r *Remote) []Finding {
	var out []Finding
	for _, c := range RemoteChecks {
		for _, f := range c.Judge(r) {
			f.Check = c.Name
			out = append(out, f)
		}
	}
	return worstFirst(out)
}

func judgeName(r *Remote) []Finding {
	if r.NameErr != "" {
		return []Finding{found(Problem, "no address is found for it: "+r.NameErr, "pacectl doctor ADDRESS # try its address; then look at DNS or the hosts file")}
	}
	if len(r.Addresses) == 0 {
		return nil
	}
	return []Finding{well(fmt.Sprintf("%q", r.Addresses))}
}

func judgeTCP(r *Remote) []Finding {
	switch {
	case r.NameErr != "":
		return nil
	case r.ConnectErr != "":
		return []Finding{found(Problem, "tcp port "+r.Port+" takes no connection: "+r.ConnectErr+". The machine is off, its node does not run, listens elsewhere, or a firewall is in between",
			"pacectl doctor # on that machine")}
	}
	return []Finding{well("tcp port " + r.Port + " takes a connection")}
}

func judgeIdentity(r *Remote) []Finding {
	switch {
	case r.NameErr != "" || r.ConnectErr != "":
		return nil
	case r.TLSErr != "":
		return []Finding{found(Problem, "what takes the connection at port "+r.Port+" does not speak as a pace-node does, or refuses this machine: "+r.TLSErr, "pace-node --print-surfaces # on that machine: the line node has its port")}
	case r.AnswerErr != "":
		return []Finding{found(Problem, "it is a pace-node of key "+r.Key+", and does not answer what every machine may ask: "+r.AnswerErr, "pacectl doctor # on that machine")}
	}
	return []Finding{well("it is " + r.ID + ", named " + r.Name + ", of key " + r.Key)}
}

func judgeRemoteFleet(r *Remote) []Finding {
	if !r.answered() {
		return nil
	}
	is := fmt.Sprintf("it is in fleet %s [%s, %d members]", r.Cluster, r.State, r.Members)
	switch {
	case r.State == wire.StatePending.String():
		return []Finding{found(Notice, is+" and waits to be approved by another", "pacectl enroll list # on a voter of the fleet that it asks")}
	case r.OwnCluster == "":
		return []Finding{well(is)}
	case r.OwnCluster == r.Cluster:
		return []Finding{well(is + ", as this machine")}
	}
	return []Finding{found(Notice, is+", and this machine in "+r.OwnCluster, "pacectl fleet status # here and there: established fleets stay apart")}
}

func judgeRemoteVersion(r *Remote) []Finding {
	if !r.answered() {
		return nil
	}
	speaks := false
	for _, v := range r.Wire {
		speaks = speaks || v == wire.ProtocolVersion
	}
	switch {
	case !speaks:
		return []Finding{found(Problem, fmt.Sprintf("it runs version %s, which does not speak version %d of the protocol", r.Version, wire.ProtocolVersion), "pacectl node # shows each one's version: bring both to the same")}
	case r.OwnVersion != "" && r.OwnVersion != r.Version:
		return []Finding{found(Notice, "it runs version "+r.Version+", and this machine "+r.OwnVersion, "")}
	}
	return []Finding{well("version " + r.Version)}
}

func judgeRemoteClock(r *Remote) []Finding {
	if !r.answered() {
		return nil
	}
	if r.ClockAhead.Abs() > clockSlack {
		return []Finding{found(Warning, fmt.Sprintf("its clock and this machine's differ by %s", r.ClockAhead.Abs().Truncate(time.Second)), setClock(r.OS))}
	}
	return []Finding{well("it agrees with this machine's")}
}

func judgeUDP(r *Remote) []Finding {
	switch {
	case r.NameErr != "":
		return nil
	case r.UDP:
		return []Finding{well("a beacon was answered")}
	case r.answered():
		return []Finding{found(Notice, "a beacon that was sent to its udp port 6681 was not answered ["+r.UDPErr+"]: discovery is off there, a router in between lets no UDP pass, or a firewall there or here drops it or the answer. Sessions do not need it, finding one another without a seed does",
			"pacectl doctor # on that machine: what its own look says of its firewall")}
	}
	return []Finding{found(Unknown, "a beacon was not answered either: "+r.UDPErr, "")}
}

func judgeRaft(r *Remote) []Finding {
	switch {
	case !r.answered():
		return nil
	case r.Raft == "":
		return []Finding{well("it has none: a learner needs none")}
	case r.RaftErr != "":
		return []Finding{found(Warning, "its consensus endpoint "+r.Raft+" takes no connection: "+r.RaftErr+". Voters have to reach it", "pacectl doctor # on that machine: its firewall has to let that tcp port pass")}
	}
	return []Finding{well(r.Raft + " takes a connection")}
}
