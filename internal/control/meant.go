package control

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"pace-node/internal/wire"
)

// MeantRow is a word that people type and that there is not, and what they mean by it.
type MeantRow struct {
	Typed string // as it is typed behind pacectl: one word, or two
	Words string // of pacectl
	Why   string // what that does, behind it; "" where the words say so
}

// Meants is the table of them. The second words of the table of verbs, typed alone, need no row.
var Meants = []MeantRow{
	{"member promote", "member admit ID=HOST:PORT", "makes a member a voter; pacectl fleet status prints the line for each"},
	{"member approve", "enroll approve ID@KEY", "admits a machine that waits; pacectl enroll list prints the line for each"},
	{"member accept", "enroll approve ID@KEY", "admits a machine that waits; pacectl enroll list prints the line for each"},
	{"member add", "enroll approve ID@KEY", "admits a machine that waits; pacectl enroll list prints the line for each"},
	{"member reject", "enroll reject MACHINE", "refuses a machine that waits"},
	{"member remove", "member forget MACHINE", "removes a member and revokes its key for ever"},
	{"member delete", "member forget MACHINE", "removes a member and revokes its key for ever"},
	{"member revoke", "member forget MACHINE", "removes a member and revokes its key for ever"},
	{"member status", "member show MACHINE", ""},
	{"promote", "member admit ID=HOST:PORT", "makes a member a voter; pacectl fleet status prints the line for each"},
	{"remove", "member forget MACHINE", "removes a member and revokes its key for ever"},
	{"delete", "member forget MACHINE", "removes a member and revokes its key for ever"},
	{"join", "enroll list", "shows the machines that wait: one whose node runs finds the fleet and asks by itself"},
	{"fleet join", "enroll list", "shows the machines that wait: one whose node runs finds the fleet and asks by itself"},
	{"fleet list", "member list", ""},
	{"fleet members", "member list", ""},
	{"fleet show", "fleet status", ""},
	{"fleet get", "fleet status", "lists the settings"},
	{"fleet settings", "fleet status", "lists the settings"},
	{"fleet unset", "fleet set NAME=", "puts a setting back to its default"},
	{"members", "member list", ""},
	{"nodes", "member list", ""},
	{"machines", "member list", ""},
	{"list", "member list", ""},
	{"status", "fleet status", ""},
	{"info", "node", ""},
	{"conditions", "fleet status", "shows what is raised"},
	{"settings", "fleet status", "lists the settings"},
	{"config", "fleet status", "lists the settings; pace-node --help lists those of one machine"},
	{"logs", "watch", "shows what happens; the log of this machine is the service manager's"},
	{"events", "watch", ""},
	{"history", "queue history MACHINE", "shows a machine's past runs; pacectl audit shows who did what"},
	{"waiting", "enroll list", ""},
	{"pending", "enroll list", ""},
	{"enroll add", "enroll preapprove ID@KEY", "admits a machine before it asks"},
	{"enroll accept", "enroll approve ID@KEY", ""},
	{"enroll deny", "enroll reject MACHINE", ""},
	{"enroll auto-approve", "enroll window 15m", "admits whoever asks meanwhile"},
	{"provision", "queue reprovision MACHINE", "provisions a machine anew"},
	{"queue run", "queue retry MACHINE", "tries a machine again now"},
	{"queue stop", "queue pause", ""},
	{"queue start", "queue resume", ""},
	{"queue add", "queue reprovision MACHINE", "provisions a machine anew"},
	{"queue remove", "queue drop MACHINE", ""},
	{"start", "doctor", "says how the service is started here, where its node does not run"},
	{"stop", "doctor", "says how the service is; the service manager stops it"},
}

// meant is the remedy for words that there are not, where people mean others by them; "" where nobody knows. Words are two at most.
func meant(words []string) string {
	typed := strings.ToLower(strings.Join(words[:min(len(words), 2)], " "))
	first, _, _ := strings.Cut(typed, " ")
	for _, row := range Meants {
		if row.Typed == typed || row.Typed == first {
			return sayMeant("pacectl "+row.Words, row.Why)
		}
	}
	var all []string
	for i := range verbs {
		if _, second, two := strings.Cut(verbs[i].words, " "); two && second == first {
			all = append(all, "pacectl "+verbs[i].words)
		}
	}
	if all == nil {
		return ""
	}
	return sayMeant(strings.Join(all, " or "), "")
}

func sayMeant(command, why string) string {
	if why == "" {
		return "did you mean: " + command + "?"
	}
	return command + " " + why
}

// seat is where a machine is to serve consensus, as somebody typed it, and what is known beside it.
type seat struct {
	id, host string // the machine; the host without brackets
	endpoint string
	address  netip.Addr // zero: the host is a name
	members  []MemberStatus
}

// SeatRow is a reason why a consensus endpoint cannot be right.
type SeatRow struct {
	Name string
	Bad  func(s *seat) bool
	Why  string
	Ends bool // Why ends in whose it is
}

// Seats is the ordered list of them.
var Seats = []SeatRow{
	{"unspecified", func(s *seat) bool { return s.address.IsUnspecified() }, "that is every address of a machine, and none that another could dial", false},
	{"multicast", func(s *seat) bool {
		return s.address.IsMulticast() || s.address == netip.AddrFrom4([4]byte{255, 255, 255, 255})
	}, "that is the address of many machines", false},
	{"loopback", func(s *seat) bool { return s.loopback() && s.spread() }, "every machine is that to itself, and no other reaches it there", false},
	{"node-port", func(s *seat) bool { return s.holder(MemberStatus.fc) != "" }, "that is the 0xFC endpoint, which is another port than the consensus endpoint, of ", true},
	{"taken", func(s *seat) bool { h := s.holder(MemberStatus.seated); return h != "" && h != s.id }, "that is the consensus endpoint of another machine already, ", true},
}

func (m MemberStatus) fc() string { return m.Endpoints.FC }

// seated is a voter's consensus endpoint; a learner has none yet.
func (m MemberStatus) seated() string {
	if m.Role == "learner" {
		return ""
	}
	return m.Endpoints.Raft
}

func (s *seat) loopback() bool {
	return s.address.IsLoopback() || strings.EqualFold(s.host, "localhost")
}

// spread says that machines of the fleet are reached by other addresses than loopback: it is not all on one machine.
func (s *seat) spread() bool {
	return slices.ContainsFunc(s.members, func(m MemberStatus) bool {
		a, err := netip.ParseAddr(strings.Trim(hostOf(m.Endpoints.FC), "[]"))
		return err == nil && !a.IsLoopback()
	})
}

// holder is the machine that has the endpoint, by id; "" if none has.
func (s *seat) holder(of func(MemberStatus) string) string {
	for _, m := range s.members {
		if of(m) == s.endpoint {
			return m.ID
		}
	}
	return ""
}

// judgeSeat refuses a consensus endpoint that cannot be right, by the first reason.
func judgeSeat(id, endpoint string, members []MemberStatus) error {
	s := seat{id: id, host: strings.Trim(hostOf(endpoint), "[]"), endpoint: endpoint, members: members}
	if a, err := netip.ParseAddr(s.host); err == nil {
		s.address = a.Unmap()
	}
	for _, row := range Seats {
		if !row.Bad(&s) {
			continue
		}
		why := row.Why
		if row.Ends {
			who := s.holder(MemberStatus.fc)
			if row.Name == "taken" {
				who = s.holder(MemberStatus.seated)
			}
			why += Word(who)
		}
		remedy := "pacectl fleet status prints the line that makes a learner a voter"
		for i := range members {
			if m := &members[i]; m.ID == id {
				if host, port := m.futureRaft(); admitValue(id, host, port, "") != "" {
					remedy = "pacectl member admit " + admitValue(id, host, port, "") + " is where it says that it is"
				}
			}
		}
		return usageFailure(remedy, "%s cannot be where %s serves consensus: %s", endpoint, id, why)
	}
	return nil
}

// settingFailure is what a refused setting is answered with: where there is none of that name, those that there are and the
// nearest.
func settingFailure(err error, name string, settings []Setting) error {
	var names []string
	for _, s := range settings {
		names = append(names, s.Name)
	}
	if len(names) == 0 || slices.Contains(names, name) {
		return err
	}
	near := nearest(name, names)
	for _, n := range names {
		if near == "" && len(name) >= 3 && strings.Contains(n, strings.ToLower(name)) {
			near = n
		}
	}
	f := failureOf(err, false)
	out := &Failure{Code: f.Code, Exit: f.Exit, Reason: fmt.Sprintf("there is no setting %q", name),
		Remedy: "pacectl fleet set NAME=VALUE takes " + strings.Join(names, ", ")}
	if near != "" {
		out.Remedy = "did you mean " + near + "? " + out.Remedy
	}
	return out
}

// knownSettings asks for the settings that there are, to say which; none where that fails too.
func knownSettings(s ClusterStatus, err error) []Setting {
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(s.Settings, func(s Setting) bool { return !wire.ValidID(s.Name) })
}
