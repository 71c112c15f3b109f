package doctor

// Facts is what was found out about this machine. What could not be found out is left zero, with the reason beside it.
type Facts struct {
	OS       string // GOOS
	Ordinary bool   // who asks is no administrator
	Node     *Node  // nil: it does not answer
	Silent   Silent // why it does not
	State    State
	Ports    []Port
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

// Node is what the node says of itself.
type Node struct {
	Mode, Name, Version string
	Conditions          []Condition
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
