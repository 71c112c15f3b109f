package wire

import "encoding/binary"

// The discovery datagram: magic, version, kind, u32 payload length, payload.
const (
	Magic           = 0xFD
	DatagramVersion = 0x03
	// MaxDatagram is the IPv6 minimum MTU (1280) less the IPv6 (40) and UDP (8)
	// headers: what crosses every segment unfragmented. Nothing longer is sent,
	// and nothing longer is read.
	MaxDatagram = 1232
	// HeaderSize is the bytes before the payload.
	HeaderSize = 7

	// proofOverhead is a proof less its summary: header, four field headers,
	// nonce, key and signature.
	proofOverhead = HeaderSize + 4*fieldHeader + nonceSize + keySize + signatureSize
)

// Kind is the third byte of a datagram.
type Kind uint8

// The three kinds of datagram.
const (
	KindBeacon    Kind = 1
	KindChallenge Kind = 2
	KindProof     Kind = 3
)

// KindRow is one row of the table of kinds.
type KindRow struct {
	Kind Kind
	Name string
}

// Kinds is the table of datagram kinds; a kind that is not in it is malformed.
var Kinds = []KindRow{
	{KindBeacon, "beacon"},
	{KindChallenge, "challenge"},
	{KindProof, "proof"},
}

// String returns the name of the kind, "unknown" for any other.
func (k Kind) String() string {
	for i := range Kinds {
		if Kinds[i].Kind == k {
			return Kinds[i].Name
		}
	}
	return "unknown"
}

// Verdict says what became of a datagram's header. It is a value and no error:
// anything may arrive on a segment, and the receiver counts it.
type Verdict uint8

// Verdicts of ParseDatagram.
const (
	VerdictOK        Verdict = iota // the payload may be decoded as its kind
	VerdictMalformed                // magic, kind or length is wrong
	VerdictVersion                  // another version of the wire; it is b[1]
)

// ParseDatagram reads the header of b and returns the kind and the payload, a
// sub-slice of b. It allocates nothing. The version is judged before kind and
// length, since another version may lay those out otherwise.
func ParseDatagram(b []byte) (Kind, []byte, Verdict) {
	if len(b) < 2 || b[0] != Magic {
		return 0, nil, VerdictMalformed
	}
	if b[1] != DatagramVersion {
		return 0, nil, VerdictVersion
	}
	if len(b) < HeaderSize || len(b) > MaxDatagram {
		return 0, nil, VerdictMalformed
	}
	k := Kind(b[2])
	known := false
	for i := range Kinds {
		known = known || Kinds[i].Kind == k
	}
	if !known || uint64(binary.BigEndian.Uint32(b[3:])) != uint64(len(b)-HeaderSize) {
		return 0, nil, VerdictMalformed
	}
	return k, b[HeaderSize:], VerdictOK
}

// ProofSize is the size in bytes of the proof, and so of the beacon and the
// challenge, of a summary of summaryLen bytes.
func ProofSize(summaryLen int) int { return proofOverhead + summaryLen }

// Beacon is a decoded beacon. Raw is the summary's bytes, an alias of the input.
type Beacon struct {
	Summary Summary
	Raw     []byte
}

// Challenge is a decoded challenge.
type Challenge struct {
	Cluster string // the challenger's
	Nonce   [32]byte
}

// Proof is a decoded proof. Nothing in it is believed before its signature
// verifies. Raw is the summary's bytes, an alias of the input.
type Proof struct {
	Summary   Summary
	Raw       []byte
	Nonce     [32]byte
	Key       [32]byte
	Signature [64]byte
}

// DecodeBeacon reads the payload of a beacon.
func DecodeBeacon(payload []byte) (Beacon, error) {
	f := ReadFields(payload)
	raw := f.Bytes(0, MaxDatagram)
	f.Bytes(0, MaxDatagram) // padding: there, ignored
	if err := f.End(); err != nil {
		return Beacon{}, err
	}
	s, err := DecodeSummary(raw)
	if err != nil {
		return Beacon{}, err
	}
	return Beacon{Summary: s, Raw: raw}, nil
}

// DecodeChallenge reads the payload of a challenge.
func DecodeChallenge(payload []byte) (Challenge, error) {
	f := ReadFields(payload)
	cluster := f.text(1, MaxID)
	nonce := f.Nonce()
	f.Bytes(0, MaxDatagram) // padding: there, ignored
	if err := f.End(); err != nil {
		return Challenge{}, err
	}
	return Challenge{Cluster: string(cluster), Nonce: nonce}, nil
}

// DecodeProof reads the payload of a proof.
func DecodeProof(payload []byte) (Proof, error) {
	f := ReadFields(payload)
	raw := f.Bytes(0, MaxDatagram)
	p := Proof{Raw: raw, Nonce: f.Nonce(), Key: f.Key(), Signature: f.Signature()}
	if err := f.End(); err != nil {
		return Proof{}, err
	}
	var err error
	if p.Summary, err = DecodeSummary(raw); err != nil {
		return Proof{}, err
	}
	return p, nil
}

func appendHeader(dst []byte, k Kind, payload int) []byte {
	dst = append(dst, Magic, DatagramVersion, byte(k))
	return binary.BigEndian.AppendUint32(dst, uint32(payload))
}

// appendPadding appends a field of zeros that brings dst to size bytes.
func appendPadding(dst []byte, size int) []byte {
	n := size - len(dst) - fieldHeader
	dst = binary.BigEndian.AppendUint32(dst, uint32(n))
	return append(dst, make([]byte, n)...)
}

// EncodeBeacon returns the beacon of a summary, padded to its own proof's size.
func EncodeBeacon(summaryRaw []byte) []byte {
	size := ProofSize(len(summaryRaw))
	b := appendHeader(make([]byte, 0, size), KindBeacon, size-HeaderSize)
	b = AppendField(b, summaryRaw)
	return appendPadding(b, size)
}

// EncodeChallenge returns a challenge padded to exactly size bytes, the size of
// the beacon it answers. ok is false if it is larger even without padding, or
// size is beyond MaxDatagram: then nothing may be sent.
func EncodeChallenge(cluster string, nonce [32]byte, size int) (b []byte, ok bool) {
	if size > MaxDatagram || HeaderSize+3*fieldHeader+len(cluster)+nonceSize > size {
		return nil, false
	}
	b = appendHeader(make([]byte, 0, size), KindChallenge, size-HeaderSize)
	b = AppendText(b, cluster)
	b = AppendField(b, nonce[:])
	return appendPadding(b, size), true
}

// EncodeProof returns a proof; its size is ProofSize(len(summaryRaw)).
func EncodeProof(summaryRaw []byte, nonce, key [32]byte, sig [64]byte) []byte {
	size := ProofSize(len(summaryRaw))
	b := appendHeader(make([]byte, 0, size), KindProof, size-HeaderSize)
	b = AppendField(b, summaryRaw)
	b = AppendField(b, nonce[:])
	b = AppendField(b, key[:])
	return AppendField(b, sig[:])
}
