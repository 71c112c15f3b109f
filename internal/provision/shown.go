package provision

import (
	"encoding/json"

	"pace-node/internal/wire"
)

// document is an answer as a helper prints it, without what was left out.
type document struct {
	Defer          bool              `json:"defer,omitempty"`
	Shutdown       bool              `json:"shutdown,omitempty"`
	Msg            string            `json:"msg,omitempty"`
	Configuration  map[string]string `json:"configuration,omitempty"`
	Certificate    string            `json:"certificate,omitempty"`
	CA             string            `json:"ca,omitempty"`
	Key            string            `json:"key,omitempty"`
	SSLDir         string            `json:"ssldir,omitempty"`
	ActionPolicies map[string]string `json:"action_policies,omitempty"`
	OPAPolicies    map[string]string `json:"opa_policies,omitempty"`
	ServerClaims   json.RawMessage   `json:"server_claims,omitempty"`
	Upgrade        string            `json:"upgrade,omitempty"`
	Pace           *documentPace     `json:"pace,omitempty"`
}

type documentPace struct {
	RetryAfter string                   `json:"retry_after,omitempty"`
	Files      map[string]wire.WorkFile `json:"files,omitempty"`
}

// document is what a trial shows of a default, which no program printed.
func (a *Answer) document() document {
	d := document{Defer: a.Defer, Shutdown: a.Shutdown, Msg: a.Msg, Configuration: a.Configuration, Certificate: a.Certificate, CA: a.CA, Key: a.Key,
		SSLDir: a.SSLDir, ActionPolicies: a.ActionPolicies, OPAPolicies: a.OPAPolicies, ServerClaims: a.ServerClaims, Upgrade: a.Upgrade}
	if a.RetryAfter > 0 || len(a.Files) > 0 {
		d.Pace = &documentPace{Files: a.Files}
		if a.RetryAfter > 0 {
			d.Pace.RetryAfter = a.RetryAfter.String()
		}
	}
	return d
}
