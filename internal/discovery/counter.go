package discovery

// Counter names one counter of the exchange.
type Counter uint8

// Counters of the exchange.
const (
	CountBeaconsSent Counter = iota
	CountBeaconsHeard
	CountChallengesSent
	CountProofsSent
	CountProofsVerified
	CountRefusedUnknownKey
	CountRefusedRevokedKey
	CountRefusedForged
	CountRefusedReplayed
	CountRefusedExpired
	CountRefusedExhausted
	CountRefusedNotIssued
	CountProofChecksWithheld
	CountRepliesWithheld
	CountBeaconsOverBound
	CountDatagramsRefusedVersion
	CountDatagramsMalformed
	counterKinds
)

// CounterRow is one row of the table of counters.
type CounterRow struct {
	Counter Counter
	Metric  string // the series' name
	Help    string
}

var counterRows = [counterKinds]CounterRow{
	{CountBeaconsSent, "pace_discovery_beacons_sent_total", "Beacons given to the interfaces."},
	{CountBeaconsHeard, "pace_discovery_beacons_heard_total", "Well-formed beacons of other nodes."},
	{CountChallengesSent, "pace_discovery_challenges_sent_total", "Challenges sent."},
	{CountProofsSent, "pace_discovery_proofs_sent_total", "Challenges answered with a proof."},
	{CountProofsVerified, "pace_discovery_proofs_verified_total", "Proofs whose signature verified, whatever the key."},
	{CountRefusedUnknownKey, "pace_discovery_proofs_refused_unknown_key_total", "Proofs of the own cluster under a key that the roster does not hold for that id: admit the machine, or ignore it."},
	{CountRefusedRevokedKey, "pace_discovery_proofs_refused_revoked_key_total", "Proofs under a revoked key, which is never admitted again."},
	{CountRefusedForged, "pace_discovery_proofs_refused_forged_total", "Proofs whose signature does not verify: somebody hostile or broken."},
	{CountRefusedReplayed, "pace_discovery_proofs_refused_replayed_total", "Proofs of a challenge that was already answered."},
	{CountRefusedExpired, "pace_discovery_proofs_refused_expired_total", "Proofs that came too late."},
	{CountRefusedExhausted, "pace_discovery_proofs_refused_exhausted_total", "Proofs of a challenge that two failed signatures used up."},
	{CountRefusedNotIssued, "pace_discovery_proofs_refused_not_issued_total", "Proofs that answer no challenge of this node to that address."},
	{CountProofChecksWithheld, "pace_discovery_proof_checks_withheld_total", "Proofs not checked for want of budget."},
	{CountRepliesWithheld, "pace_discovery_replies_withheld_total", "Challenges and proofs not sent: over budget, larger than what asked, or nothing to announce."},
	{CountBeaconsOverBound, "pace_discovery_beacons_over_bound_total", "Entries displaced from a full table."},
	{CountDatagramsRefusedVersion, "pace_discovery_datagrams_refused_version_total", "Datagrams of another version of the wire: upgrade the segment's nodes together."},
	{CountDatagramsMalformed, "pace_discovery_datagrams_malformed_total", "Datagrams that follow no format, or came to the wrong socket."},
}

// Counters returns the table of counters.
func Counters() []CounterRow { return append([]CounterRow(nil), counterRows[:]...) }

// Count returns the value of one counter; 0 for one that does not exist.
func (x *Exchange) Count(c Counter) uint64 {
	if c >= counterKinds {
		return 0
	}
	return x.counts[c]
}

func (x *Exchange) tally(c Counter) { x.counts[c]++ }
