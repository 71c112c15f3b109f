package doctor

import (
	"fmt"
	"strconv"
)

// Checks is the table of what is looked at on this machine, in the order in which a start meets it.
var Checks = []Check{
	{"node", "whether the node runs and answers", nil, judgeNode},
	{"state-directory", "who may change and read the state directory, whether it can be read, and whether it is still there", []string{"state-dir-lost", "formation-move-refused"}, judgeState},
	{"disk", "the room on the disk of the state directory", []string{"state-dir-nearly-full", "consensus-store-unwritable"}, judgeDisk},
	{"ports", "whether the endpoints can be bound, and who has them", []string{"admin-endpoint-off"}, judgePorts},
	{"interfaces", "which interfaces carry beacons", []string{"discovery-no-interface"}, judgeInterfaces},
	{"netmask", "whether this machine and the others take the same address for the segment's broadcast address", nil, judgeNetmask},
	{"segment", "whether own beacons leave and others' arrive", nil, judgeSegment},
	{"firewall", "whether what arrives reaches the node, and answers come back", []string{"peers-never-authenticated"}, judgeFirewall},
	{"wire-version", "whether the machines of the segment speak one version of the discovery wire", []string{"wire-version-seen"}, judgeVersion},
	{"clock", "this machine's clock against those of the machines that it is connected to", []string{"clock-skewed"}, judgeClock},
	{"names", "whether DNS answers when it is asked for seeds", nil, judgeNames},
	{"seeds", "whether each seed, typed or of DNS, answers", nil, judgeSeeds},
	{"nat", "under which address other machines see this one", nil, judgeNAT},
	{"pin", "whether --fleet-id admits a fleet that is heard", []string{"pin-disagrees"}, judgePin},
	{"voters", "whether enough voters answer, and are enough", []string{"single-voter-fleet", "two-voter-fleet", "promotion-stalled", "consensus-leader-silent", "fleet-unreachable"}, judgeVoters},
	{"provisioning", "whether machines are provisioned", []string{"provisioning-paused", "provisioning-helper-missing", "provisioning-failing"}, judgeProvisioning},
	{"fleet", "everything else that the node reports of its fleet", nil, judgeFleet},
}

func judgeNode(f *Facts) []Finding {
	s := f.Silent
	switch {
	case f.Node != nil:
		return []Finding{well("it answers as " + f.Node.Mode + ", version " + f.Node.Version)}
	case s.Forbidden:
		return []Finding{found(Unknown, "the node is there and does not talk to this account: "+s.Err, "sudo pacectl doctor")}
	case s.Service == "":
		return []Finding{found(Problem, "no node answers, and no service is installed: "+s.Err, "sudo pace-node --install-service # or start it by hand: pace-node")}
	case s.Running:
		return []Finding{found(Problem, "the service "+s.Service+" runs and its node does not answer: "+s.Err, s.Log)}
	}
	return []Finding{found(Problem, "the service "+s.Service+" does not run: "+s.Err, s.Start)}
}

func judgeState(f *Facts) []Finding {
	s := f.State
	switch {
	case s.Unknown != "":
		return []Finding{found(Unknown, "the state directory could not be looked at: "+s.Unknown, "sudo pacectl doctor")}
	case s.Refused != "":
		return []Finding{found(Problem, s.Refused, s.Remedy)}
	case s.Absent:
		return []Finding{{Verdict: OK, Detail: "there is none yet: the first start makes it"}}
	}
	return []Finding{well("it is its owner's alone, and whole")}
}

func judgeDisk(f *Facts) []Finding {
	s := f.State
	switch {
	case s.Size == 0:
		return []Finding{found(Unknown, "the system does not tell how much room there is", "")}
	case s.Low:
		return []Finding{found(Problem, fmt.Sprintf("%d MiB of %d MiB are free: what a node keeps may not be written", s.Free>>20, s.Size>>20), "df -h {folder}", s.Path)}
	}
	return []Finding{well(fmt.Sprintf("%d MiB of %d MiB are free", s.Free>>20, s.Size>>20))}
}

// holders shows who has a port, on each system.
var holders = []struct {
	OS, TCP, UDP string
}{
	{"linux", "sudo ss -ltnp sport = :{port}", "sudo ss -lunp sport = :{port}"},
	{"darwin", "sudo lsof -nP -iTCP:{port} -sTCP:LISTEN", "sudo lsof -nP -iUDP:{port}"},
	{"windows", "netstat -abno -p TCP", "netstat -abno -p UDP"},
}

func showHolder(os, proto string) string {
	for _, h := range holders {
		if h.OS == os {
			if proto == "tcp" {
				return h.TCP
			}
			return h.UDP
		}
	}
	return ""
}

func judgePorts(f *Facts) (out []Finding) {
	for _, p := range f.Ports {
		port := strconv.Itoa(int(p.Number))
		what := fmt.Sprintf("%s port %s (%s, --%s)", p.Proto, port, p.Surface, p.Flag)
		switch {
		case p.Taken && p.Holder != "":
			out = append(out, found(Problem, what+" is taken by "+p.Holder, showHolder(f.OS, p.Proto)+" # then stop that program, or give the node another port", port))
		case p.Taken:
			out = append(out, found(Problem, what+" is taken by another program", showHolder(f.OS, p.Proto)+" # then stop that program, or give the node another port", port))
		case p.Err != "":
			out = append(out, found(Problem, what+" cannot be bound: "+p.Err, "pace-node --print-surfaces # and set --"+p.Flag))
		}
	}
	if out == nil && f.Node != nil {
		return []Finding{well("the node has them")}
	}
	if out == nil {
		return []Finding{well("they are free for a node")}
	}
	return out
}
