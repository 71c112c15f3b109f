package doctor

import (
	"net/netip"
	"time"
)

// Facts is what was found out about this machine. What could not be found out is left zero, with the reason beside it.
type Facts struct {
	OS       string    // GOOS
	Ordinary bool      // who asks is no administrator
	Now      time.Time // this machine's date
	Node     *Node     // nil: it does not answer
	Silent   Silent    // why it does not
	State    State
	Ports    []Port

	Interfaces     []Interface
	InterfacesErr  string // why they could not be listed
	Discovery      bool   // it is on
	Loopback       bool   // its beacons stay on this machine: --discovery-loopback; Discovery is false then
	Beacons        uint16 // UDP port of beacons
	Answers        uint16 // UDP port of challenges and proofs; 0: not known
	Watch          Watch
	Firewall       Firewall
	Seeds          []Seed
	Suffix         string // this machine's DNS suffix; "": it has none, and nobody is asked
	SRVErr         string // what DNS answered in place of records
	Unreachable    string // an own network to which sending failed as if there were no route; "": it does not
	GatewayAnswers bool   // the gateway's link address is known all the same
}

// Silent is why a node does not answer. It is zero where it does.
type Silent struct {
	Forbidden bool   // it is there, and this account may not ask it
	Service   string // the service's name; "" where none is installed
	Running   bool   // the service manager says that the service runs
	Start     string // command that starts it
	Log       string // command that shows its log
	Err       string
}

// Condition is one that the node has raised.
type Condition struct{ ID, Severity, Detail, Remedy string }

// Node is what the node says of itself, and what it has seen.
type Node struct {
	Mode, Name, Version string
	Uptime              time.Duration
	Conditions          []Condition
	Leader              bool // one is heard, or it leads itself
	Leads               bool
	VotersHeard         int // this node counts itself
	VotersTotal         int
	Members             int

	BeaconsSent, BeaconsHeard      uint64
	ChallengesSent, ProofsVerified uint64
	OtherVersions                  uint64
	Heard                          []Heard
	Authenticated                  int // peers proven under a roster key
	Pin                            string
	PinRefusals                    uint64
	Foreign                        []Foreign
	Sessions                       []Session
	Asks                           string // endpoint of the fleet that is asked, "" if none
	Advertised                     string // its 0xFC endpoint, as told to peers
}

// Heard is where beacons of another machine came from.
type Heard struct {
	From   netip.Addr
	Proven bool
}

// Foreign is another fleet that was proven on the segment.
type Foreign struct {
	Cluster, State, Address string
	Admitted                bool // by the pin
}

// Session is one to another machine.
type Session struct {
	ID, Address string
	ClockAhead  time.Duration // of the other's clock to this one's
	Seen        string        // the address that the other end says this machine came from; "" if it says none
}

// State is the state directory as it was looked at.
type State struct {
	Path    string
	Absent  bool   // nothing has run here yet
	Refused string // why a node would refuse it, "" if it would not
	Remedy  string
	Unknown string // why it could not be looked at
	Free    uint64 // bytes left for it; Size 0: not known
	Size    uint64
	Low     bool
}

// Port is one endpoint of this machine's settings, tried.
type Port struct {
	Surface string // its name, as --print-surfaces has it
	Proto   string // tcp, udp
	Number  uint16
	Flag    string // the option that says which
	Taken   bool
	Holder  string // program and process that has it, "" if unknown
	Err     string // why it could not be bound, where nobody has it
}

// Interface is an address of an interface, or an interface without any.
type Interface struct {
	Name      string
	Addr      netip.Prefix // invalid: it has none
	Broadcast netip.Addr   // where its beacons go; invalid where they do not
	Used      bool         // for beacons
	Virtual   bool         // it is named as those of containers and hypervisors are, and has no default route
	Up        bool         // and able to carry beacons, were it not for what Why says
	Why       string       // it is passed over
}

// Watch is what arrived on the interfaces while they were watched, before any firewall.
type Watch struct {
	For     time.Duration // 0: nobody watched
	Skipped string        // why nobody did: a person may not, or need not
	Beacons []Arrival     // of other machines
	Answers int           // challenges and proofs that arrived for the answering port
	// What the node's sockets got in that time.
	HeardThen, AnsweredThen uint64
}

// Arrival is a beacon that arrived, heard by the node or not.
type Arrival struct {
	From, To netip.Addr
	Version  byte
}

// Firewall is the one that filters on this machine.
type Firewall struct {
	Kind string // firewalld, ufw, nft, iptables, windows, macos; "": none is known
	// Chain is where nft drops: family, table and chain.
	Family, Table, Chain string
	Admits               bool // it is known to let the node's ports pass
	Program              string
}

// Seed is a machine that the node asks, as it was tried.
type Seed struct {
	Endpoint, Origin string
	Err              string // why it does not answer; "": it does
	Self             bool   // it is this machine
}
