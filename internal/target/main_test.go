package target

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pace-node/internal/wire"
)

const (
	nodeID   = "00112233445566778899aabbccddeeff"
	clusterA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	clusterB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestMain(m *testing.M) {
	if what := os.Getenv(childEnv); what != "" {
		childMain(what)
	}
	goleak.VerifyTestMain(m)
}

// folder is a place for a target that does not exist yet.
func folder(t testing.TB) string { return filepath.Join(t.TempDir(), "provisioned") }

// quick is a folder like it where an fsync costs nothing: what a process leaves when it ends does not depend on the disk.
func quick(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "pace-target-*")
	if err != nil {
		return folder(t)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "provisioned")
}

func config(dir string) Config {
	return Config{Dir: dir, NodeID: nodeID, Name: "host", Labels: map[string]string{"site": "a"}, Version: "1.2.3", Cluster: clusterA,
		BootCounter: 7, Entropy: func(b []byte) { copy(b, "entropy!") }}
}

func open(t testing.TB, cfg Config) *Target {
	t.Helper()
	tg, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tg.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return tg
}

// reopen is the next boot on the same folder.
func reopen(t testing.TB, tg *Target, change func(*Config)) *Target {
	t.Helper()
	if err := tg.Close(); err != nil {
		t.Fatal(err)
	}
	cfg := tg.cfg
	cfg.BootCounter++
	cfg.Cluster = tg.state.Cluster
	if change != nil {
		change(&cfg)
	}
	return open(t, cfg)
}

// body is a configuration that uses every key.
func body(mark string) wire.ConfigureBody {
	p := pairOf("leaf")
	return wire.ConfigureBody{
		Configuration: map[string]string{"b": "2 " + mark, "a": "1 <&>", "loglevel": "info"},
		Certificate:   p.cert, CA: pairOf("other").cert, Key: p.key, SSLDir: "/etc/elsewhere",
		ActionPolicies: map[string]string{"rpcutil.policy": "policy default deny\n"},
		OPAPolicies:    map[string]string{"main.rego": "package main\n"},
		ServerClaims:   json.RawMessage(`{"exp":5,"note":"` + mark + `"}`),
		Files:          map[string]wire.WorkFile{"app/conf.d/one.ini": {Text: "x=" + mark + "\n", Mode: "0640"}, "run.sh": {Text: "#!/bin/sh\n", Mode: "0755"}, "plain": {Text: ""}},
		Cluster:        clusterA,
	}
}

func encode(t testing.TB, v any) json.RawMessage {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func configure(t testing.TB, tg *Target, b wire.ConfigureBody) string {
	t.Helper()
	a := tg.Work(context.Background(), wire.StepConfigure, encode(t, b))
	if !a.OK {
		t.Fatalf("configure: %s", a.Error)
	}
	var out wire.ConfigureAnswer
	if err := json.Unmarshal(a.Body, &out); err != nil || !validDigest(out.Digest) {
		t.Fatalf("configure answers %s", a.Body)
	}
	return out.Digest
}

func restart(t testing.TB, tg *Target, digest string) wire.RestartAnswer {
	t.Helper()
	a := tg.Work(context.Background(), wire.StepRestart, encode(t, wire.RestartBody{Digest: digest}))
	if !a.OK {
		t.Fatalf("restart: %s", a.Error)
	}
	var out wire.RestartAnswer
	if err := json.Unmarshal(a.Body, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// provisioned makes a target that runs a confirmed configuration.
func provisioned(t testing.TB, cfg Config, mark string) *Target {
	t.Helper()
	tg := open(t, cfg)
	d := configure(t, tg, body(mark))
	restart(t, tg, d)
	tg.Confirmed(d)
	if want, why := tg.Wants(); want {
		t.Fatalf("wants provisioning after its confirmation: %s", why)
	}
	return tg
}

// tree is everything in a folder: path → mode and digest. A folder's row has its mode only.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		row := ""
		if err == nil {
			row, err = rowOf(path, d)
		}
		if os.IsNotExist(err) {
			return nil // a temporary file of the keeper, which went meanwhile
		}
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(rel)] = row
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// atRest is everything in a target's folder once its keeper has written what it has to: opened or told something, it writes its
// record beside whatever a test does, and until the rename under a temporary name.
func atRest(t testing.TB, tg *Target) map[string]string {
	t.Helper()
	if err := tg.Flush(); err != nil {
		t.Fatal(err)
	}
	return tree(t, tg.cfg.Dir)
}

// rowOf is an entry's mode, and the digest of a file.
func rowOf(path string, d fs.DirEntry) (string, error) {
	info, err := d.Info()
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return info.Mode().String(), nil
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return info.Mode().String() + " " + hex.EncodeToString(sum[:]), nil
}

// below cuts a tree down to what is below a name, without the name.
func below(all map[string]string, name string) map[string]string {
	out := map[string]string{}
	for path, row := range all {
		if path == name {
			out["."] = row
		} else if rest, ok := strings.CutPrefix(path, name+"/"); ok {
			out[rest] = row
		}
	}
	return out
}

type pair struct{ cert, key string }

var pairs sync.Map

// pairOf is a certificate with its key, the same for the same name.
func pairOf(name string) pair {
	p, ok := pairs.Load(name)
	if !ok {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		p, _ = pairs.LoadOrStore(name, pair{certificateFor(name, k), pkcs8(k)})
	}
	return p.(pair)
}

func template(name string) x509.Certificate {
	return x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Unix(1_800_000_000, 0), NotAfter: time.Unix(1_900_000_000, 0)}
}

func certificateFor(name string, k crypto.Signer) string {
	c := template(name)
	der, err := x509.CreateCertificate(rand.Reader, &c, &c, k.Public(), k)
	if err != nil {
		panic(err)
	}
	return block(certificateType, der)
}

func pkcs8(k any) string {
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		panic(err)
	}
	return block("PRIVATE KEY", der)
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func edKey() ed25519.PrivateKey {
	_, k, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
}

func dump(m map[string]string) string {
	var b strings.Builder
	for _, k := range sorted(m) {
		fmt.Fprintf(&b, "  %s %s\n", m[k], k)
	}
	return b.String()
}
