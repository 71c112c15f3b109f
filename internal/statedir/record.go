package statedir

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// RecordFormat is the format that this version writes, and the latest that it reads. A field that an older version
// must not lose raises it.
const RecordFormat = 1

// Record is what a node knows of itself across starts, beside its key. It is written whole before the node acts on it.
type Record struct {
	Format      int         `json:"format"`                // RecordFormat
	NodeID      string      `json:"node_id"`               // 32 lowercase hex, minted once
	PublicKey   string      `json:"public_key"`            // public half of the key file, 43 characters
	BootCounter uint64      `json:"boot_counter"`          // starts of this node so far
	Mode        string      `json:"mode"`                  // one of Modes
	Cluster     string      `json:"cluster"`               // the fleet this node is in: 32 lowercase hex
	Created     uint64      `json:"created"`               // when that fleet was founded, as its summary carries it
	Established bool        `json:"established"`           // the fleet has once recorded another machine
	Target      *Target     `json:"target,omitempty"`      // the fleet asked; present exactly while pending
	Joined      *Joined     `json:"joined,omitempty"`      // how this node was admitted; nil for a founder
	Rejections  []Rejection `json:"rejections,omitempty"`  // fleets not asked for a while
	RevokedIn   []string    `json:"revoked_in,omitempty"`  // fleets that called this key revoked: never asked again
	Remembered  []string    `json:"remembered,omitempty"`  // 0xFC endpoints of the fleet's voters, host:port
	Order       []byte      `json:"order,omitempty"`       // the signed dissolve order obeyed, as it came
	OldCluster  string      `json:"old_cluster,omitempty"` // the fleet that Order dissolved
	PutAway     bool        `json:"put_away,omitempty"`    // the fleet's stores are of before another epoch was accepted: archived before any is opened
	Recovery    *Recovery   `json:"recovery,omitempty"`    // a recovery that is not finished yet
	Leaving     bool        `json:"leaving,omitempty"`     // an operator had this machine leave its fleet, and no voter has said yet that it is gone
	Hardware    string      `json:"hardware,omitempty"`    // digest of the machine at the first start, empty if unknown
}

// Recovery is how this machine becomes the only voter of its fleet.
type Recovery struct {
	Epoch uint64 `json:"epoch"` // the recovery epoch that it begins
	From  string `json:"from"`  // what it is built from: "learner" and "voter" are the stores of those modes, "backup" is built already
}

// What a recovery may be built from.
const (
	FromLearner = "learner"
	FromVoter   = "voter"
	FromBackup  = "backup"
)

// Target is the fleet that a pending node asks.
type Target struct {
	Cluster  string   `json:"cluster"`
	Created  uint64   `json:"created"`
	State    uint8    `json:"state"` // wire.SummaryState
	LeaderID string   `json:"leader_id"`
	Endpoint string   `json:"endpoint"`           // 0xFC, host:port
	Fallback string   `json:"fallback,omitempty"` // another address of the machine at Endpoint, tried where that can't be dialled
	Keys     []string `json:"keys"`               // accepted signers of its answers, 43 characters each
	Origin   string   `json:"origin"`             // where it was found
}

// Joined is how this node was admitted to its fleet.
type Joined struct {
	Signer string          // key that signed the admission; a pin is asked about it at every start
	Roster json.RawMessage // the approved roster, byte for byte as it was signed
	At     int64           // Unix seconds
}

// joinedFile carries the roster as base64: JSON inside JSON would be written anew, and its signature would not fit it.
type joinedFile struct {
	Signer string `json:"signer"`
	Roster []byte `json:"roster,omitempty"`
	At     int64  `json:"at"`
}

// MarshalJSON writes the form of the record's file.
func (j Joined) MarshalJSON() ([]byte, error) {
	return json.Marshal(joinedFile{Signer: j.Signer, Roster: j.Roster, At: j.At})
}

// UnmarshalJSON reads the form of the record's file; an unknown field is an error.
func (j *Joined) UnmarshalJSON(data []byte) error {
	var f joinedFile
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		return err
	}
	*j = Joined{Signer: f.Signer, Roster: f.Roster, At: f.At}
	return nil
}

// Rejection is a fleet that said no.
type Rejection struct {
	Cluster     string `json:"cluster"`
	At          int64  `json:"at"`           // Unix seconds, for people
	LeftSeconds int64  `json:"left_seconds"` // of waiting, when this was written: a deadline is elapsed time, never a date
}

// Modes are the words of Record.Mode.
var Modes = []string{"solitary", "pending", "learner", "voter"}

// recordCheck is one row of what a record must hold, asked in order.
type recordCheck struct {
	Name string
	Good func(r *Record) bool
}

var recordChecks = []recordCheck{
	{"format", func(r *Record) bool { return r.Format == RecordFormat }},
	{"node_id", func(r *Record) bool { return identity.ValidMintedID(r.NodeID) }},
	{"public_key", func(r *Record) bool { _, err := identity.ParsePublicKey(r.PublicKey); return err == nil }},
	{"mode", func(r *Record) bool { return slices.Contains(Modes, r.Mode) }},
	{"cluster", func(r *Record) bool { return identity.ValidMintedID(r.Cluster) }},
	{"target", func(r *Record) bool { return (r.Target != nil) == (r.Mode == "pending") }},
	{"target.cluster", func(r *Record) bool { return r.Target == nil || validCluster(r.Target.Cluster) }},
	{"target.endpoint", func(r *Record) bool { return r.Target == nil || wire.ValidEndpoint(r.Target.Endpoint) }},
	{"target.fallback", func(r *Record) bool {
		return r.Target == nil || r.Target.Fallback == "" || wire.ValidEndpoint(r.Target.Fallback)
	}},
	{"target.keys", func(r *Record) bool { return r.Target == nil || validKeys(r.Target.Keys) }},
	{"joined.signer", func(r *Record) bool { return r.Joined == nil || validKeys([]string{r.Joined.Signer}) }},
	{"joined.roster", func(r *Record) bool {
		return r.Joined == nil || len(r.Joined.Roster) == 0 || json.Valid(r.Joined.Roster)
	}},
	{"recovery", func(r *Record) bool {
		return r.Recovery == nil || r.Mode == "voter" && r.Recovery.Epoch > 0 && slices.Contains([]string{FromLearner, FromVoter, FromBackup}, r.Recovery.From)
	}},
	{"rejections", func(r *Record) bool {
		return !slices.ContainsFunc(r.Rejections, func(x Rejection) bool { return !validCluster(x.Cluster) || x.LeftSeconds < 0 })
	}},
	{"revoked_in", func(r *Record) bool {
		return !slices.ContainsFunc(r.RevokedIn, func(s string) bool { return !validCluster(s) })
	}},
	{"old_cluster", func(r *Record) bool {
		return (r.OldCluster == "") == (len(r.Order) == 0) && (r.OldCluster == "" || validCluster(r.OldCluster))
	}},
	// Members of that fleet that were away are told by it: one that does not read would leave them without a word.
	{"order", func(r *Record) bool {
		if len(r.Order) == 0 {
			return true
		}
		o, err := wire.DecodeDissolveOrder(r.Order)
		return err == nil && o.OldCluster == r.OldCluster
	}},
	{"remembered", func(r *Record) bool {
		return !slices.ContainsFunc(r.Remembered, func(s string) bool { return !wire.ValidEndpoint(s) })
	}},
}

func validKeys(keys []string) bool {
	for _, k := range keys {
		if _, err := identity.ParsePublicKey(k); err != nil {
			return false
		}
	}
	return len(keys) > 0
}

// check names the first field that does not hold what it must.
func (r *Record) check() error {
	for _, c := range recordChecks {
		if !c.Good(r) {
			return fmt.Errorf("%w: field %q", ErrRecord, c.Name)
		}
	}
	return nil
}

// recordMagic begins the file's first line, which is Seal's.
const recordMagic = "pace-node-record"

func encodeRecord(r *Record) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	body, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	body = append(body, '\n')
	out := Seal(recordMagic, RecordFormat, body)
	if len(out) > maxRecordBytes {
		return nil, fmt.Errorf("%w: %d bytes, and at most %d are read", ErrRecord, len(out), maxRecordBytes)
	}
	return out, nil
}

func decodeRecord(data []byte) (Record, error) {
	body, err := Unseal(recordMagic, RecordFormat, data)
	if err != nil {
		return Record{}, err
	}
	var r Record
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return Record{}, fmt.Errorf("it is not the JSON that it should be: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Record{}, errors.New("something follows its JSON")
	}
	if err := r.check(); err != nil {
		return Record{}, err
	}
	return r, nil
}

// clone copies everything that a caller could change.
func (r Record) clone() Record {
	if r.Target != nil {
		t := *r.Target
		t.Keys = slices.Clone(t.Keys)
		r.Target = &t
	}
	if r.Joined != nil {
		j := *r.Joined
		j.Roster = bytes.Clone(j.Roster)
		r.Joined = &j
	}
	if r.Recovery != nil {
		v := *r.Recovery
		r.Recovery = &v
	}
	r.Rejections = slices.Clone(r.Rejections)
	r.RevokedIn = slices.Clone(r.RevokedIn)
	r.Remembered = slices.Clone(r.Remembered)
	r.Order = bytes.Clone(r.Order)
	return r
}

// keyMagic begins the key file: "<magic> 1 <seed, 43 characters of base64url>" and a line end.
const keyMagic = "pace-node-key 1 "

func encodeKey(seed [32]byte) []byte {
	return []byte(keyMagic + base64.RawURLEncoding.EncodeToString(seed[:]) + "\n")
}

func decodeKey(data []byte) (seed [32]byte, err error) {
	if len(data) == 0 {
		return seed, errEmptyFile
	}
	text, found := strings.CutPrefix(string(data), keyMagic)
	text, ended := strings.CutSuffix(text, "\n")
	if !found || !ended || len(text) != base64.RawURLEncoding.EncodedLen(len(seed)) {
		return seed, errors.New("it is not a key file, or a part of one")
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	// The decoder passes over line breaks; a shorter result shows them.
	if err != nil || len(raw) != len(seed) {
		return seed, errors.New("its letters are not those of a key")
	}
	copy(seed[:], raw)
	return seed, nil
}

// validCluster accepts what another fleet may call itself in a summary; our own ids are stricter.
func validCluster(s string) bool { return len(s) > 0 && len(s) <= wire.MaxID && wire.ValidText(s) }
