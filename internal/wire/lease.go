package wire

// LeaseVersion is the format of lease that this build writes and reads.
const LeaseVersion uint8 = 1

// maxLeaseClaims is the longest claims: ten fields at their bounds.
const maxLeaseClaims = 10*fieldHeader + 1 + serialSize + 4*MaxID + digestSize + 3*8

// LeaseClaims is what a lease grants: one step, with one body, on one machine,
// until a moment.
type LeaseClaims struct {
	Version      uint8    // LeaseVersion
	Serial       [16]byte // random; a machine takes each once
	Target, Step string   // node id and step, 1..64 bytes each
	Digest       [32]byte // SHA-256 of the step's body
	Expiry       uint64   // Unix seconds on the leader's clock
	Cluster      string   // 1..64 bytes
	Epoch, Term  uint64   // recovery epoch, and the leader's term in it
	Signer       string   // the leader's node id, 1..64 bytes
}

// Append appends the ten fields of the claims.
func (l *LeaseClaims) Append(dst []byte) []byte {
	dst = AppendU8(dst, l.Version)
	dst = AppendField(dst, l.Serial[:])
	dst = AppendText(dst, l.Target)
	dst = AppendText(dst, l.Step)
	dst = AppendField(dst, l.Digest[:])
	dst = AppendU64(dst, l.Expiry)
	dst = AppendText(dst, l.Cluster)
	dst = AppendU64(dst, l.Epoch)
	dst = AppendU64(dst, l.Term)
	return AppendText(dst, l.Signer)
}

// DecodeLeaseClaims reads the claims. Another format version is ErrLeaseVersion,
// judged before the other fields since it may lay them out otherwise.
func DecodeLeaseClaims(b []byte) (LeaseClaims, error) {
	f := ReadFields(b)
	l := LeaseClaims{Version: f.U8()}
	if !f.bad && l.Version != LeaseVersion {
		return LeaseClaims{}, ErrLeaseVersion
	}
	l.Serial = f.bytes16()
	target, step := f.text(1, MaxID), f.text(1, MaxID)
	l.Digest, l.Expiry = f.Key(), f.U64()
	cluster := f.text(1, MaxID)
	l.Epoch, l.Term = f.U64(), f.U64()
	signer := f.text(1, MaxID)
	if err := f.End(); err != nil {
		return LeaseClaims{}, err
	}
	l.Target, l.Step, l.Cluster, l.Signer = string(target), string(step), string(cluster), string(signer)
	return l, nil
}

// Lease is signed claims. Raw is the claims' bytes; the grammar has one
// spelling only, so Claims.Append gives exactly Raw.
type Lease struct {
	Claims    LeaseClaims
	Raw       []byte // an alias of the input when decoded
	Signature [64]byte
}

// EncodeLease returns fields(claims, signature). The signature is over
// claims.Message().
func EncodeLease(claims *LeaseClaims, sig [64]byte) []byte {
	b := AppendField(nil, claims.Append(nil))
	return AppendField(b, sig[:])
}

// DecodeLease reads a lease; it judges its shape only.
func DecodeLease(b []byte) (Lease, error) {
	f := ReadFields(b)
	l := Lease{Raw: f.Bytes(0, maxLeaseClaims), Signature: f.Signature()}
	if err := f.End(); err != nil {
		return Lease{}, err
	}
	var err error
	if l.Claims, err = DecodeLeaseClaims(l.Raw); err != nil {
		return Lease{}, err
	}
	return l, nil
}
