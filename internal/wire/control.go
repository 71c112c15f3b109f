package wire

// ControlOp is the operation of EnrollControl.
type ControlOp uint8

// Operations of EnrollControl, by their byte.
const (
	ControlList      ControlOp = 3
	ControlReject    ControlOp = 5
	ControlWindow    ControlOp = 6
	ControlWindowOff ControlOp = 7
	ControlClear     ControlOp = 8
	ControlApprove   ControlOp = 9
)

// controlArgument is the shape of an operation's argument.
type controlArgument uint8

const (
	argumentEmpty   controlArgument = iota
	argumentSeconds                 // ASCII digits
	argumentMember                  // id‖key
	argumentTarget                  // id or id‖key
)

// ControlRow is one row of the table of operations.
type ControlRow struct {
	Op       ControlOp
	Name     string
	argument controlArgument
}

// ControlOps is the table of operations; a byte that is not in it is malformed,
// and so is an argument of another shape.
var ControlOps = []ControlRow{
	{ControlList, "list", argumentEmpty},
	{ControlReject, "reject", argumentTarget},
	{ControlWindow, "window", argumentSeconds},
	{ControlWindowOff, "window off", argumentEmpty},
	{ControlClear, "clear", argumentEmpty},
	{ControlApprove, "approve", argumentMember},
}

func (o ControlOp) row() *ControlRow {
	for i := range ControlOps {
		if ControlOps[i].Op == o {
			return &ControlOps[i]
		}
	}
	return nil
}

// String returns the name of the operation, "unknown" for any other byte.
func (o ControlOp) String() string {
	if r := o.row(); r != nil {
		return r.Name
	}
	return "unknown"
}

// maxWindowDigits: 86400 seconds, the longest window, has five; ten let a
// larger number arrive and be refused by name.
const maxWindowDigits = 10

// EnrollControl is the payload of EnrollControl.
type EnrollControl struct {
	Op       ControlOp
	Argument []byte // by Op; an alias of the input when decoded
}

// Append appends the two fields.
func (c *EnrollControl) Append(dst []byte) []byte {
	return AppendField(AppendU8(dst, uint8(c.Op)), c.Argument)
}

// DecodeEnrollControl reads the payload of EnrollControl and checks that the
// argument has the shape of its operation.
func DecodeEnrollControl(b []byte) (EnrollControl, error) {
	f := ReadFields(b)
	c := EnrollControl{Op: ControlOp(f.U8()), Argument: f.Bytes(0, MaxID+keySize)}
	row := c.Op.row()
	if row == nil || !row.argument.accepts(c.Argument) {
		f.Reject()
	}
	if err := f.End(); err != nil {
		return EnrollControl{}, err
	}
	return c, nil
}

func (a controlArgument) accepts(b []byte) (ok bool) {
	switch a {
	case argumentEmpty:
		ok = len(b) == 0
	case argumentSeconds:
		_, ok = WindowSeconds(b)
	case argumentMember:
		_, _, ok = ControlMember(b)
	case argumentTarget:
		_, _, _, ok = ControlTarget(b)
	}
	return ok
}

// AppendControlMember appends id‖key: the argument of approve, and of reject
// for one key only.
func AppendControlMember(dst []byte, id string, key [32]byte) []byte {
	return append(append(dst, id...), key[:]...)
}

// ControlMember splits id‖key. An argument that is letters of an id to the end is
// an id without a key, whatever its length, and refused.
func ControlMember(argument []byte) (id string, key [32]byte, ok bool) {
	n := len(argument) - keySize
	if n < 1 || n > MaxID || idLetters(argument) || !ValidID(string(argument[:n])) {
		return "", key, false
	}
	copy(key[:], argument[n:])
	return string(argument[:n]), key, true
}

// ControlTarget reads the argument of reject: an id, or id‖key. Letters of an id
// to the end are an id, and refused if they are too many: that the 32 bytes of a
// key are all such letters has a chance of 10⁻¹⁹.
func ControlTarget(argument []byte) (id string, key [32]byte, hasKey, ok bool) {
	if idLetters(argument) {
		id = string(argument)
		return id, key, false, ValidID(id)
	}
	id, key, ok = ControlMember(argument)
	return id, key, ok, ok
}

// WindowSeconds reads the argument of window: seconds as ASCII digits. The
// bounds of a window are for the leader to judge by name.
func WindowSeconds(argument []byte) (seconds uint64, ok bool) {
	if len(argument) < 1 || len(argument) > maxWindowDigits {
		return 0, false
	}
	for _, c := range argument {
		if c < '0' || c > '9' {
			return 0, false
		}
		seconds = seconds*10 + uint64(c-'0')
	}
	return seconds, true
}
