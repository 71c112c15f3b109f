package target

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pace-node/internal/wire"
)

// flipRows changes each row of a table in each way, and wants the check to notice.
func flipRows[R any](t *testing.T, table []R, check func() error, flips map[string]func(*R)) {
	t.Helper()
	if err := check(); err != nil {
		t.Fatal(err)
	}
	for i := range table {
		for name, flip := range flips {
			was := table[i]
			flip(&table[i])
			if check() == nil {
				t.Errorf("row %d: %s flipped, and nobody noticed", i, name)
			}
			table[i] = was
		}
	}
	if err := check(); err != nil {
		t.Fatal("not put back:", err)
	}
}

// checkSteps: the steps that a machine carries out, and which of them change it.
func checkSteps() error {
	want := map[string]bool{"inventory": false, "csr": true, "configure": true, "restart": true, "shutdown": true, "upgrade": true}
	if len(Steps) != len(want) {
		return fmt.Errorf("%d steps", len(Steps))
	}
	for step, lease := range want {
		r, ok := LookupStep(step)
		if !ok || r.Lease != lease {
			return fmt.Errorf("%s: lease %v", step, r.Lease)
		}
		method := map[string]any{"inventory": (*Target).inventory, "csr": (*Target).csr, "configure": (*Target).configure, "restart": (*Target).restart, "shutdown": (*Target).shutdown, "upgrade": (*Target).upgrade}[step]
		if reflect.ValueOf(r.run).Pointer() != reflect.ValueOf(method).Pointer() {
			return fmt.Errorf("%s runs another step", step)
		}
	}
	return nil
}

func TestMutationSteps(t *testing.T) {
	flipRows(t, Steps, checkSteps, map[string]func(*StepRow){
		"the name":  func(r *StepRow) { r.Step += "x" },
		"the lease": func(r *StepRow) { r.Lease = !r.Lease },
		"what runs": func(r *StepRow) {
			r.run = func(*Target, context.Context, json.RawMessage) (any, *refusal) { return nil, nil }
		},
	})
}

// bodyCases are the keys of a configuration: a good value, what is read of it, and a bad one with what the refusal names.
var bodyCases = []struct {
	key, good string
	want      wire.ConfigureBody
	bad, said string
}{
	{"configuration", `{"a":"b"}`, wire.ConfigureBody{Configuration: map[string]string{"a": "b"}}, `1`, `the key "configuration" must be an object whose values are all strings`},
	{"configuration", `{}`, wire.ConfigureBody{Configuration: map[string]string{}}, `{"a":1}`, `the key configuration["a"] must be a string`},
	{"certificate", `"c"`, wire.ConfigureBody{Certificate: "c"}, `1`, `the key "certificate" must be a string`},
	{"ca", `"c"`, wire.ConfigureBody{CA: "c"}, `[]`, `the key "ca" must be a string`},
	{"key", `"k"`, wire.ConfigureBody{Key: "k"}, `{}`, `the key "key" must be a string`},
	{"action_policies", `{"a":"b"}`, wire.ConfigureBody{ActionPolicies: map[string]string{"a": "b"}}, `"x"`, `the key "action_policies" must be an object whose values are all strings`},
	{"opa_policies", `{"a":"b"}`, wire.ConfigureBody{OPAPolicies: map[string]string{"a": "b"}}, `"x"`, `the key "opa_policies" must be an object whose values are all strings`},
	{"server_claims", `{"a":1}`, wire.ConfigureBody{ServerClaims: json.RawMessage(`{"a":1}`)}, `[1]`, `the key "server_claims" must be an object`},
	{"files", `{"a":{"text":"t"}}`, wire.ConfigureBody{Files: map[string]wire.WorkFile{"a": {Text: "t"}}}, `1`,
		`the key "files" must be an object from relative paths to {"text": a string, "mode": four octal digits as a string}`},
	{"cluster", `"c"`, wire.ConfigureBody{Cluster: "c"}, `1`, `the key "cluster" must be a string`},
}

func checkBodyKeys() error {
	if len(bodyKeys) != len(bodyCases)-1 {
		return fmt.Errorf("%d keys", len(bodyKeys))
	}
	for _, c := range bodyCases {
		b, r := parseBody(fmt.Appendf(nil, `{%q:%s}`, c.key, c.good))
		if r != nil || !reflect.DeepEqual(*b, c.want) {
			return fmt.Errorf("%s: %+v, %+v", c.key, b, r)
		}
		if _, r = parseBody(fmt.Appendf(nil, `{%q:%s}`, c.key, c.bad)); r == nil || r.reason != ReasonWrongType || r.text != c.said {
			return fmt.Errorf("%s as %s: %+v", c.key, c.bad, r)
		}
	}
	return nil
}

func TestBodyKeys(t *testing.T) {
	if err := checkBodyKeys(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationBodyKeys(t *testing.T) {
	flipRows(t, bodyKeys, checkBodyKeys, map[string]func(*bodyKey){
		"the name":     func(k *bodyKey) { k.Name += "x" },
		"what it must": func(k *bodyKey) { k.Want += "x" },
		"how it is read": func(k *bodyKey) {
			k.Read = func(json.RawMessage, *wire.ConfigureBody) (string, bool) { return "", true }
		},
	})
}

var (
	ecPrivate, _  = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rsaPrivate, _ = rsa.GenerateKey(rand.Reader, 2048)
)

// checkKeyTypes: a private key is read in each of three forms, and in no other.
func checkKeyTypes() error {
	ec, err := x509.MarshalECPrivateKey(ecPrivate)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"PKCS #8": pkcs8(ecPrivate), "SEC 1": block("EC PRIVATE KEY", ec), "PKCS #1": block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaPrivate))} {
		if k, why := privateKey(text); k == nil {
			return fmt.Errorf("%s: %s", name, why)
		}
	}
	if k, _ := privateKey(block("OPENSSH PRIVATE KEY", ec)); k != nil {
		return errors.New("a form that is none is read")
	}
	return nil
}

func TestMutationKeyTypes(t *testing.T) {
	type row = struct {
		Type string
		Read func(der []byte) (any, error)
	}
	flipRows(t, keyTypes, checkKeyTypes, map[string]func(*row){
		"the type":       func(r *row) { r.Type += "x" },
		"how it is read": func(r *row) { r.Read = func([]byte) (any, error) { return nil, nil } },
	})
}

// checkMoves: each rename has a name of its own, which its crash points have; what they are used for is in the plans.
func checkMoves() error {
	want := [][3]string{{"discard", previousDir, discardDir}, {"previous", currentDir, previousDir}, {"current", stagingDir, currentDir},
		{"drop", currentDir, droppedDir}, {"restore", previousDir, currentDir}}
	if len(moves) != len(want) {
		return fmt.Errorf("%d moves", len(moves))
	}
	for i, m := range moves {
		if [3]string{m.Step, m.From, m.To} != want[i] {
			return fmt.Errorf("move %d: %+v", i, m)
		}
	}
	return nil
}

func TestMutationMoves(t *testing.T) {
	type row = struct{ Step, From, To string }
	flipRows(t, moves, checkMoves, map[string]func(*row){
		"its name": func(r *row) { r.Step += "x" },
		"its ends": func(r *row) { r.From, r.To = r.To, r.From },
	})
}
