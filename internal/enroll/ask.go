package enroll

import (
	"fmt"
	"slices"

	"pace-node/internal/identity"
	"pace-node/internal/wire"
)

// Ask is the joiner's side of one ask: what is sent, and whether what comes back is the answer to it.
type Ask struct {
	signers      []identity.PublicKey
	cluster      string
	id           string
	key          identity.PublicKey
	endpoint     string
	nonce        [32]byte
	challenge    [32]byte
	hasChallenge bool
	hops         int
}

// NewAsk prepares an ask of cluster by this machine. signers are the keys whose answer counts: the speaker's and the
// leader's of a summary proven for that cluster. nonce is 32 fresh random bytes; endpoint is this machine's own.
func NewAsk(signers []identity.PublicKey, cluster, selfID string, selfKey identity.PublicKey, endpoint string, nonce [32]byte) *Ask {
	return &Ask{signers: slices.Clone(signers), cluster: cluster, id: selfID, key: selfKey, endpoint: endpoint, nonce: nonce}
}

// Again prepares the next ask of the same cluster, from where this machine is now: a fresh nonce, no redirects yet, and
// the challenge that the leader's last answer gave, so that the row is refreshed.
func (a *Ask) Again(nonce [32]byte, endpoint string) *Ask {
	b := *a
	b.signers, b.nonce, b.endpoint, b.hops = slices.Clone(a.signers), nonce, endpoint, 0
	return &b
}

// Request is the signed request, with the leader's challenge once it gave one.
func (a *Ask) Request(key identity.PrivateKey) wire.EnrollRequest {
	r := wire.EnrollRequest{ID: a.id, Endpoint: a.endpoint, Role: wire.RoleLearner, Key: a.key, Nonce: a.nonce,
		Challenge: a.challenge, HasChallenge: a.hasChallenge}
	r.Signature = key.Sign(r.Message())
	return r
}

// Answer judges an answer or a push. Only without an error is there an outcome; an error counts as no answer.
func (a *Ask) Answer(ans wire.EnrollAnswer) (wire.Outcome, error) {
	known := false
	for _, row := range wire.Outcomes {
		if row.Outcome == ans.Outcome {
			known = row.Roster == (len(ans.Roster) > 0) && (row.Challenge || !ans.HasChallenge)
		}
	}
	if !known {
		return 0, ErrShape
	}
	signer := identity.PublicKey(ans.Signer)
	if !slices.Contains(a.signers, signer) {
		return 0, fmt.Errorf("%w: %s", ErrSigner, signer)
	}
	if !identity.Verify(signer, ans.Message(a.nonce, a.id, a.key, a.cluster), ans.Signature) {
		return 0, ErrSignature
	}
	if ans.HasChallenge {
		a.challenge, a.hasChallenge = ans.Challenge, true
	}
	return ans.Outcome, nil
}

// AcceptSigner adds a key: a redirect's target whose own FLEET-SUMMARY proved that it speaks for the cluster that is asked.
// Beyond MaxSigners the one that was added first gives way: leaders of long ago answer no more. It fails for a key that
// Check refuses.
func (a *Ask) AcceptSigner(key identity.PublicKey) error {
	if err := key.Check(); err != nil {
		return err
	}
	if slices.Contains(a.signers, key) {
		return nil
	}
	if len(a.signers) >= MaxSigners {
		a.signers = slices.Clone(a.signers[1:])
	}
	a.signers = append(a.signers, key)
	return nil
}

// Redirect takes error 5: where to go on. It fails after MaxRedirects in one ask. An empty endpoint is an election, and
// no redirect.
func (a *Ask) Redirect(endpoint string) error {
	if !wire.ValidEndpoint(endpoint) {
		return fmt.Errorf("%w: %.80q", ErrRedirectTo, endpoint)
	}
	if a.hops >= MaxRedirects {
		return ErrRedirects
	}
	a.hops++
	return nil
}

// CheckRoster reads the roster of a verified approval, and refuses one that is not this fleet's or does not hold this
// machine under its own id and key.
func CheckRoster(raw []byte, cluster, selfID string, selfKey identity.PublicKey) (wire.Roster, error) {
	r, err := wire.DecodeDocument[wire.Roster](raw)
	switch {
	case err != nil:
		return wire.Roster{}, fmt.Errorf("%w: %w", ErrRoster, err)
	case r.Cluster != cluster:
		return wire.Roster{}, fmt.Errorf("%w: %.80q", ErrRosterOther, r.Cluster)
	case r.Self.ID != selfID || r.Self.Key != selfKey.String():
		return wire.Roster{}, fmt.Errorf("%w: %.80q", ErrRosterMyself, r.Self.ID)
	case len(r.Voters) == 0:
		return wire.Roster{}, fmt.Errorf("%w: it names no voter", ErrRoster)
	}
	for _, v := range r.Voters {
		if _, err := identity.ParsePublicKey(v.Key); err != nil {
			return wire.Roster{}, fmt.Errorf("%w: voter %.80q: %w", ErrRoster, v.ID, err)
		}
	}
	return r, nil
}
