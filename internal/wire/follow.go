package wire

// PushKind is the first field of a push of Follow.
type PushKind uint8

// Kinds of push.
const (
	PushSnapshot  PushKind = 1
	PushCommand   PushKind = 2
	PushHeartbeat PushKind = 3
)

// PushKindRow is one row of the table of push kinds.
type PushKindRow struct {
	Kind PushKind
	Name string
}

// PushKinds is the table of push kinds; a byte that is not in it is malformed.
var PushKinds = []PushKindRow{
	{PushSnapshot, "snapshot"},
	{PushCommand, "command"},
	{PushHeartbeat, "heartbeat"},
}

// String returns the name of the kind, "unknown" for any other byte.
func (k PushKind) String() string {
	for i := range PushKinds {
		if PushKinds[i].Kind == k {
			return PushKinds[i].Name
		}
	}
	return "unknown"
}

// ReadPushKind returns the kind of a push, which says how to decode it.
func ReadPushKind(b []byte) (PushKind, error) {
	f := ReadFields(b)
	k := PushKind(f.U8())
	for i := range PushKinds {
		if PushKinds[i].Kind == k && !f.bad {
			return k, nil
		}
	}
	return 0, ErrMalformed
}

// SnapshotChunk is one of the numbered pieces of a snapshot.
type SnapshotChunk struct {
	Epoch, Revision uint64
	Index, Count    uint32   // this piece, from 0, of so many (1..MaxSnapshotChunks)
	Digest          [32]byte // of the whole snapshot
	Bytes           []byte   // at most SnapshotChunkSize; an alias of the input when decoded
}

// Append appends the push, its kind first.
func (c *SnapshotChunk) Append(dst []byte) []byte {
	dst = AppendU8(dst, uint8(PushSnapshot))
	dst = AppendU64(dst, c.Epoch)
	dst = AppendU64(dst, c.Revision)
	dst = AppendU32(dst, c.Index)
	dst = AppendU32(dst, c.Count)
	dst = AppendField(dst, c.Digest[:])
	return AppendField(dst, c.Bytes)
}

// DecodeSnapshotChunk reads a push of kind snapshot. Count is a claim: a reader
// gathers pieces as they come, in order, and holds no more than MaxSnapshot.
func DecodeSnapshotChunk(b []byte) (SnapshotChunk, error) {
	f := ReadFields(b)
	kind := PushKind(f.U8())
	c := SnapshotChunk{Epoch: f.U64(), Revision: f.U64(), Index: f.U32(), Count: f.U32(), Digest: f.Key(), Bytes: f.Bytes(0, SnapshotChunkSize)}
	if kind != PushSnapshot || c.Count > MaxSnapshotChunks || c.Index >= c.Count {
		f.Reject()
	}
	if err := f.End(); err != nil {
		return SnapshotChunk{}, err
	}
	return c, nil
}

// CommandPush is one applied command.
type CommandPush struct {
	Epoch          uint64
	Prev, Revision uint64 // the state before and after it
	Bytes          []byte // at most MaxCommand; empty when the command is of others only; an alias of the input when decoded
}

// Append appends the push, its kind first.
func (c *CommandPush) Append(dst []byte) []byte {
	dst = AppendU8(dst, uint8(PushCommand))
	dst = AppendU64(dst, c.Epoch)
	dst = AppendU64(dst, c.Prev)
	dst = AppendU64(dst, c.Revision)
	return AppendField(dst, c.Bytes)
}

// DecodeCommandPush reads a push of kind command.
func DecodeCommandPush(b []byte) (CommandPush, error) {
	f := ReadFields(b)
	kind := PushKind(f.U8())
	c := CommandPush{Epoch: f.U64(), Prev: f.U64(), Revision: f.U64(), Bytes: f.Bytes(0, MaxCommand)}
	if kind != PushCommand {
		f.Reject()
	}
	if err := f.End(); err != nil {
		return CommandPush{}, err
	}
	return c, nil
}

// Heartbeat is what a voter tells those who follow it, every 5 s.
type Heartbeat struct {
	Epoch          uint64
	Cluster        string // 1..64 bytes
	Term           uint64
	LeaderID       string // empty during an election
	LeaderEndpoint string // 0xFC endpoint, or empty
	Revision       uint64 // of the sender's applied state
	WallMS         uint64 // the sender's clock, Unix milliseconds
	SilentMS       uint64 // for how long the sender has heard no leader; 0 when it hears one
}

// Append appends the push, its kind first.
func (h *Heartbeat) Append(dst []byte) []byte {
	dst = AppendU8(dst, uint8(PushHeartbeat))
	dst = AppendU64(dst, h.Epoch)
	dst = AppendText(dst, h.Cluster)
	dst = AppendU64(dst, h.Term)
	dst = AppendText(dst, h.LeaderID)
	dst = AppendText(dst, h.LeaderEndpoint)
	dst = AppendU64(dst, h.Revision)
	dst = AppendU64(dst, h.WallMS)
	return AppendU64(dst, h.SilentMS)
}

// DecodeHeartbeat reads a push of kind heartbeat.
func DecodeHeartbeat(b []byte) (Heartbeat, error) {
	f := ReadFields(b)
	kind := PushKind(f.U8())
	h := Heartbeat{Epoch: f.U64()}
	cluster := f.text(1, MaxID)
	h.Term = f.U64()
	leader, endpoint := f.text(0, MaxID), f.endpoint()
	h.Revision, h.WallMS, h.SilentMS = f.U64(), f.U64(), f.U64()
	if kind != PushHeartbeat {
		f.Reject()
	}
	if err := f.End(); err != nil {
		return Heartbeat{}, err
	}
	h.Cluster, h.LeaderID, h.LeaderEndpoint = string(cluster), string(leader), string(endpoint)
	return h, nil
}

// RaftStreamHeader opens each stream of the consensus port.
type RaftStreamHeader struct {
	Cluster, Source, Target string // 1..64 bytes each
	Epoch                   uint64 // recovery epoch
}

// Append appends the four fields.
func (h *RaftStreamHeader) Append(dst []byte) []byte {
	dst = AppendText(dst, h.Cluster)
	dst = AppendText(dst, h.Source)
	dst = AppendText(dst, h.Target)
	return AppendU64(dst, h.Epoch)
}

// DecodeRaftStreamHeader reads the header of a raft stream.
func DecodeRaftStreamHeader(b []byte) (RaftStreamHeader, error) {
	f := ReadFields(b)
	cluster, source, target := f.text(1, MaxID), f.text(1, MaxID), f.text(1, MaxID)
	h := RaftStreamHeader{Epoch: f.U64()}
	if err := f.End(); err != nil {
		return RaftStreamHeader{}, err
	}
	h.Cluster, h.Source, h.Target = string(cluster), string(source), string(target)
	return h, nil
}
