package provision

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"pace-node/internal/identity"
)

// HelperContext is what the fleet knows of a machine beside its inventory.
type HelperContext struct {
	Name, Platform string
	Labels         map[string]string
	Cluster        string
	Key            identity.PublicKey
}

// HelperInput is what a helper reads on stdin: the reference's document, and ours under "pace".
type HelperInput struct {
	Identity      string        `json:"identity"`
	CSR           *HelperCSR    `json:"csr"`
	Ed25519PubKey HelperPubKey  `json:"ed25519_pubkey"`
	Inventory     string        `json:"inventory"` // a string that holds JSON
	JWT           *string       `json:"jwt"`       // always null
	Pace          HelperMachine `json:"pace"`
}

// HelperCSR is a certificate request of the machine; null without --provision-pki.
type HelperCSR struct {
	CSR       string `json:"csr"`
	PublicKey string `json:"public_key"`
	SSLDir    string `json:"ssldir"`
}

// HelperPubKey is the machine's identity key, which the session has proven; there is nothing else to sign for.
type HelperPubKey struct {
	PublicKey string `json:"public_key"` // hex
	Directory string `json:"directory"`
	Signature string `json:"signature"`
}

// HelperMachine is what the reference does not tell.
type HelperMachine struct {
	Attempt   int               `json:"attempt"`    // 1 for the first since the last confirmation
	FirstSeen string            `json:"first_seen"` // RFC 3339, UTC
	LastError string            `json:"last_error"`
	BootID    string            `json:"boot_id"`
	ClusterID string            `json:"cluster_id"`
	Platform  string            `json:"platform"`
	Name      string            `json:"name"`
	Labels    map[string]string `json:"labels"` // never null
}

func helperInput(r *run, inventory json.RawMessage) HelperInput {
	labels := r.info.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	first := ""
	if !r.job.FirstSeen.IsZero() {
		first = r.job.FirstSeen.UTC().Format(time.RFC3339)
	}
	return HelperInput{
		Identity:      r.job.ID,
		CSR:           r.csr,
		Ed25519PubKey: HelperPubKey{PublicKey: hex.EncodeToString(r.info.Key[:])},
		Inventory:     string(inventory),
		Pace: HelperMachine{Attempt: r.job.Attempt, FirstSeen: first, LastError: r.job.LastError, BootID: r.bootID,
			ClusterID: r.info.Cluster, Platform: r.info.Platform, Name: r.info.Name, Labels: labels},
	}
}
