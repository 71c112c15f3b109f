package wire

// Bounds of what a peer may send, in bytes unless said otherwise. Each stands
// here once; the decoders and the encoders read it from here.
const (
	// MaxID bounds a cluster id, node id, member id, step or component name:
	// twice the 32 hex characters that are minted.
	MaxID = 64
	// MaxEndpoint bounds host:port: a DNS name is at most 253, the rest is room
	// that the discovery wire grants.
	MaxEndpoint = 1024
	// MaxMembers is how many member ids a summary lists; with ten the worst
	// usual case is 1179 bytes, which still fits MaxDatagram.
	MaxMembers = 10
	// MaxVersionText bounds the text of a program version in a startup event.
	MaxVersionText = 128
	// MaxErrorText and MaxErrorHint bound the two texts of an error frame; a
	// signed dissolve order travels in the text and takes up to 3,800.
	MaxErrorText = 4096
	MaxErrorHint = 1024
	// MaxSnapshot is the whole of a snapshot over all its chunks: what a learner keeps of a fleet.
	MaxSnapshot = 64 << 20
	// MaxState is the whole of what a voter keeps of it: in its own store, from voter to voter, and in a backup.
	MaxState = 96 << 20
	// MaxSnapshotChunks bounds the chunk numbers: MaxSnapshot in chunks of 16 KiB.
	MaxSnapshotChunks = MaxSnapshot / (16 << 10)
	// MaxAnswer is the ceiling of one answer or push frame.
	MaxAnswer = 1 << 20
	// SnapshotChunkSize is the most snapshot bytes that fit one push beside the
	// other fields of a chunk.
	SnapshotChunkSize = MaxAnswer - snapshotChunkOverhead
	// MaxCommand is the most command bytes that fit one push beside its other fields.
	MaxCommand = MaxAnswer - commandOverhead
	// MaxRaftStreamHeader is the longest header of a raft stream.
	MaxRaftStreamHeader = 4*fieldHeader + 3*MaxID + 8

	fieldHeader   = 4 // u32 length before each field
	keySize       = 32
	nonceSize     = 32
	digestSize    = 32
	signatureSize = 64
	bootIDSize    = 16
	serialSize    = 16

	// kind, epoch, revision, index, count, digest, bytes
	snapshotChunkOverhead = 7*fieldHeader + 1 + 8 + 8 + 4 + 4 + digestSize
	// kind, epoch, previous revision, revision, bytes
	commandOverhead = 5*fieldHeader + 1 + 3*8
)
