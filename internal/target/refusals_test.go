package target

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pace-node/internal/wire"
)

// refusedBody is one body that configure must refuse.
type refusedBody struct {
	name   string
	change func(b *wire.ConfigureBody)
	reason Reason
	say    string // part of the answer, which names what is at fault
}

func times(n int, name string) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("%s%d", name, i)] = ""
	}
	return m
}

func withFile(path, mode string) func(*wire.ConfigureBody) {
	return func(b *wire.ConfigureBody) { b.Files[path] = wire.WorkFile{Text: "x", Mode: mode} }
}

func withPolicy(name string) func(*wire.ConfigureBody) {
	return func(b *wire.ConfigureBody) { b.ActionPolicies[name] = "x" }
}

func withOPA(name string) func(*wire.ConfigureBody) {
	return func(b *wire.ConfigureBody) { b.OPAPolicies[name] = "x" }
}

// cut loses the middle of a PEM text.
func cut(s string) string { return s[:len(s)/2] + "-" + s[len(s)/2+40:] }

func rsaKey() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
}

func dhKey() *ecdh.PrivateKey {
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return k
}

// refusedBodies is written out by hand; TestMutationBodyChecks flips the checks and wants this list to notice.
func refusedBodies() []refusedBody {
	leaf, other := pairOf("leaf"), pairOf("other")
	return []refusedBody{
		{"other cluster", func(b *wire.ConfigureBody) { b.Cluster = clusterB }, ReasonOtherCluster, `"cluster" names the fleet "` + clusterB + `"`},
		{"no cluster", func(b *wire.ConfigureBody) { b.Cluster = "" }, ReasonOtherCluster, `"cluster" names the fleet ""`},
		{"no settings", func(b *wire.ConfigureBody) { b.Configuration = nil }, ReasonEmpty, `"configuration" is empty`},
		{"empty settings", func(b *wire.ConfigureBody) { b.Configuration = map[string]string{} }, ReasonEmpty, `"configuration" is empty`},
		{"4097 settings", func(b *wire.ConfigureBody) { b.Configuration = times(4097, "s") }, ReasonTooMany, `"configuration" holds 4097 entries and may hold 4096`},
		{"257 action policies", func(b *wire.ConfigureBody) { b.ActionPolicies = times(257, "p") }, ReasonTooMany, `"action_policies" holds 257`},
		{"257 rego policies", func(b *wire.ConfigureBody) { b.OPAPolicies = times(257, "p") }, ReasonTooMany, `"opa_policies" holds 257`},
		{"1025 files", func(b *wire.ConfigureBody) {
			for i := range 1025 {
				b.Files[fmt.Sprint(i)] = wire.WorkFile{}
			}
		}, ReasonTooMany, `"files" holds 1028`},
		{"nameless setting", func(b *wire.ConfigureBody) { b.Configuration[""] = "x" }, ReasonSettingName, "without a name"},
		{"long setting name", func(b *wire.ConfigureBody) { b.Configuration[strings.Repeat("n", 257)] = "" }, ReasonSettingName, `setting "nnn`},
		{"setting name with a line end", func(b *wire.ConfigureBody) { b.Configuration["a\nb"] = "x" }, ReasonSettingName, `setting "a\nb"`},
		{"long setting", func(b *wire.ConfigureBody) { b.Configuration["big"] = strings.Repeat("x", 256<<10+1) }, ReasonTooLong, `configuration["big"] has 262145 bytes`},
		{"long certificate", func(b *wire.ConfigureBody) { b.Certificate = strings.Repeat(leaf.cert, 200) }, ReasonTooLong, `"certificate" has`},
		{"long ca", func(b *wire.ConfigureBody) { b.CA = strings.Repeat(leaf.cert, 1500) }, ReasonTooLong, `"ca" has`},
		{"long key", func(b *wire.ConfigureBody) { b.Key = strings.Repeat("x", 64<<10+1) }, ReasonTooLong, `"key" has 65537 bytes`},
		{"long action policy", func(b *wire.ConfigureBody) { b.ActionPolicies["a.policy"] = strings.Repeat("x", 256<<10+1) }, ReasonTooLong, `action_policies["a.policy"]`},
		{"long rego policy", func(b *wire.ConfigureBody) { b.OPAPolicies["a.rego"] = strings.Repeat("x", 256<<10+1) }, ReasonTooLong, `opa_policies["a.rego"]`},
		{"long claims", func(b *wire.ConfigureBody) {
			b.ServerClaims = json.RawMessage(`{"x":"` + strings.Repeat("x", 64<<10) + `"}`)
		}, ReasonTooLong, `"server_claims" has`},
		{"long file", func(b *wire.ConfigureBody) { b.Files["big"] = wire.WorkFile{Text: strings.Repeat("x", 1<<20+1)} }, ReasonTooLong, `files["big"] has 1048577`},

		{"policy outside", withPolicy("../x.policy"), ReasonPolicyName, `"../x.policy"`},
		{"policy in a folder", withPolicy("a/x.policy"), ReasonPolicyName, `"a/x.policy"`},
		{"policy with another ending", withPolicy("x.rego"), ReasonPolicyName, `"x.rego"`},
		{"policy that is its ending", withPolicy(".policy"), ReasonPolicyName, `".policy"`},
		{"rego with another ending", withOPA("x.policy"), ReasonPolicyName, `"x.policy"`},
		{"rego outside", withOPA(`..\x.rego`), ReasonPolicyName, `"..\\x.rego"`},

		{"empty path", withFile("", ""), ReasonFileName, `the path ""`},
		{"control character", withFile("a\x00b", ""), ReasonFileName, `"a\x00b"`},
		{"long path", withFile(strings.Repeat("abcdefg/", 15)+strings.Repeat("x", 400), ""), ReasonFileName, `"abcdefg/`},
		{"deep path", withFile(strings.Repeat("d/", 16)+"x", ""), ReasonFileName, `"d/d/`},
		{"absolute", withFile("/etc/passwd", ""), ReasonFileName, `"/etc/passwd", which is absolute`},
		{"backslash", withFile(`a\b`, ""), ReasonFileName, `"a\\b"`},
		{"above", withFile("../current/x", ""), ReasonFileName, `"../current/x"`},
		{"above later", withFile("a/../../x", ""), ReasonFileName, `"a/../../x"`},
		{"dot", withFile("./x", ""), ReasonFileName, `"./x"`},
		{"two slashes", withFile("a//x", ""), ReasonFileName, `"a//x"`},
		{"slash at the end", withFile("a/", ""), ReasonFileName, `"a/"`},
		{"long part", withFile(strings.Repeat("x", 256), ""), ReasonFileName, `"xxx`},

		{"mode word", withFile("m", "rwx"), ReasonFileMode, `"m" has the mode "rwx", which is not four octal digits`},
		{"mode of three", withFile("m", "644"), ReasonFileMode, `"644", which is not four`},
		{"set-id", withFile("m", "4755"), ReasonFileMode, `"4755", which is not four`},
		{"no octal digit", withFile("m", "0648"), ReasonFileMode, `"0648", which is not four`},
		{"sign", withFile("m", "0+44"), ReasonFileMode, `"0+44", which is not four`},
		{"group writes", withFile("m", "0664"), ReasonFileMode, `"0664", which lets others write`},
		{"everybody writes", withFile("m", "0646"), ReasonFileMode, `"0646", which lets others write`},
		{"owner cannot read", withFile("m", "0200"), ReasonFileMode, `"0200", which does not let its owner read`},

		{"file through a file", func(b *wire.ConfigureBody) { withFile("d", "")(b); withFile("d/e/f", "")(b) }, ReasonNameClash, `"d/e/f" goes through "d"`},

		{"certificate no PEM", func(b *wire.ConfigureBody) { b.Certificate = "hello" }, ReasonCertificate, `"certificate" is not PEM`},
		{"certificate cut", func(b *wire.ConfigureBody) { b.Certificate = leaf.cert + cut(other.cert) }, ReasonCertificate, "cut or garbled"},
		{"certificate cut before a whole one", func(b *wire.ConfigureBody) { b.Certificate = cut(other.cert) + leaf.cert }, ReasonCertificate, `"certificate"`},
		{"certificate is a key", func(b *wire.ConfigureBody) { b.Certificate = leaf.key }, ReasonCertificate, `"PRIVATE KEY" where only certificates belong`},
		{"certificate of nonsense", func(b *wire.ConfigureBody) { b.Certificate = block(certificateType, []byte("nonsense")) }, ReasonCertificate, "number 1, that is no certificate"},
		{"ca no PEM", func(b *wire.ConfigureBody) { b.CA = "hello" }, ReasonCA, `"ca" is not PEM`},
		{"ca of nonsense", func(b *wire.ConfigureBody) { b.CA = leaf.cert + block(certificateType, []byte("nonsense")) }, ReasonCA, `"ca" holds a block, number 2`},
		{"key no PEM", func(b *wire.ConfigureBody) { b.Key = "hello" }, ReasonKey, `"key" is not PEM`},
		{"key cut", func(b *wire.ConfigureBody) { b.Key = leaf.key[:len(leaf.key)/2] }, ReasonKey, `"key" is not PEM`},
		{"key is a certificate", func(b *wire.ConfigureBody) { b.Key = leaf.cert }, ReasonKey, `is a block "CERTIFICATE" and no private key`},
		{"two keys", func(b *wire.ConfigureBody) { b.Key = leaf.key + other.key }, ReasonKey, "holds 2 keys"},
		{"key of nonsense", func(b *wire.ConfigureBody) { b.Key = block("PRIVATE KEY", []byte("nonsense")) }, ReasonKey, "not a private key that signs"},
		{"key that does not sign", func(b *wire.ConfigureBody) { b.Key = pkcs8(dhKey()) }, ReasonKey, "not a private key that signs"},
		{"encrypted key", func(b *wire.ConfigureBody) { b.Key = block("ENCRYPTED PRIVATE KEY", []byte("x")) }, ReasonKey, "is encrypted"},
		{"other key", func(b *wire.ConfigureBody) { b.Key = other.key }, ReasonPair, "do not belong together"},
		{"key of another kind", func(b *wire.ConfigureBody) { b.Key = pkcs8(edKey()) }, ReasonPair, "do not belong together"},
		{"chain in the wrong order", func(b *wire.ConfigureBody) { b.Certificate = other.cert + leaf.cert }, ReasonPair, "do not belong together"},
		{"certificate alone", func(b *wire.ConfigureBody) { b.Key, b.Certificate = "", other.cert }, ReasonPair, `no "key"`},
		{"key alone", func(b *wire.ConfigureBody) { b.Certificate = "" }, ReasonPair, `no "certificate" for it`},
	}
}

// checkRefusedBodies asks the checks alone.
func checkRefusedBodies() error {
	for _, c := range refusedBodies() {
		b := body("two")
		c.change(&b)
		r := judge(&b, setting{clusterA, "linux"})
		if r == nil || r.reason != c.reason || !strings.Contains(r.text, c.say) {
			return fmt.Errorf("%s: %+v, want %s with %s", c.name, r, c.reason, c.say)
		}
	}
	b := body("two")
	if r := judge(&b, setting{clusterA, "linux"}); r != nil {
		return fmt.Errorf("a good body is refused: %s", r.text)
	}
	return nil
}

func TestBodyChecks(t *testing.T) {
	if err := checkRefusedBodies(); err != nil {
		t.Error(err)
	}
}

// TestRefusalsChangeNothing puts every bad body through the step, and looks at every byte of the folder.
func TestRefusalsChangeNothing(t *testing.T) {
	dir := folder(t)
	tg := provisioned(t, config(dir), "one")
	if err := tg.Flush(); err != nil {
		t.Fatal(err)
	}
	was, d := tree(t, dir), tg.Digest()
	refuse := func(name string, step string, raw []byte, reason Reason, say string) {
		t.Helper()
		before := tg.Refusals()[reason]
		a := tg.Work(context.Background(), step, raw)
		if a.OK || !strings.Contains(a.Error, say) || a.Transient != transient(reason) || len(a.Error) > 700 || !wire.ValidText(a.Error) {
			t.Errorf("%s: %+v, want %s", name, a, say)
		}
		if n := tg.Refusals()[reason]; n != before+1 {
			t.Errorf("%s: %s counted %d times", name, reason, n-before)
		}
		if diff := cmp.Diff(was, tree(t, dir)); diff != "" {
			t.Fatalf("%s changed the folder:\n%s", name, diff)
		}
		if tg.Digest() != d || tg.Component() != "server" {
			t.Fatalf("%s: digest %s, component %s", name, tg.Digest(), tg.Component())
		}
	}
	for _, c := range refusedBodies() {
		b := body("two")
		c.change(&b)
		refuse(c.name, wire.StepConfigure, encode(t, b), c.reason, c.say)
	}
	for _, c := range refusedDocuments() {
		refuse(c.name, wire.StepConfigure, c.raw, c.reason, c.say)
	}
	refuse("unknown step", "reboot", nil, ReasonUnknownStep, `the step "reboot"`)
	refuse("step of escapes", "\x1b[2J", nil, ReasonUnknownStep, `"\x1b[2J"`)
	refuse("restart without a digest", wire.StepRestart, []byte(`{}`), ReasonWrongType, `"digest"`)
	refuse("restart without a body", wire.StepRestart, nil, ReasonWrongType, `"digest"`)
	refuse("restart with another digest", wire.StepRestart, []byte(`{"digest":"`+strings.Repeat("ab", 32)+`"}`), ReasonOtherDigest, "not abab")
	refuse("upgrade without a body", wire.StepUpgrade, nil, ReasonWrongType, `"version"`)
	refuse("upgrade of another type", wire.StepUpgrade, []byte(`{"version":1}`), ReasonWrongType, `"version"`)
	refuse("upgrade", wire.StepUpgrade, []byte(`{"version":"2"}`), ReasonCannotDoSo, "cannot replace its program")
	refuse("shutdown", wire.StepShutdown, []byte(`{}`), ReasonCannotDoSo, "cannot be told to shut down")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if a := tg.Work(ctx, wire.StepConfigure, encode(t, body("two"))); a.OK || !a.Transient || tg.Refusals()[ReasonCancelled] != 1 {
		t.Errorf("a step that was given up: %+v", a)
	}
	if diff := cmp.Diff(was, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
	for reason, n := range tg.Refusals() {
		if transientExpected, ok := transientByHand[reason]; !ok || transientExpected != transient(reason) {
			t.Errorf("%s: counted %d, its row says transient %v", reason, n, transient(reason))
		}
	}
}

// TestRestartRefuses what is not there or not whole.
func TestRestartRefuses(t *testing.T) {
	tg := open(t, config(folder(t)))
	raw := []byte(`{"digest":"` + strings.Repeat("ab", 32) + `"}`)
	if a := tg.Work(t.Context(), wire.StepRestart, raw); a.OK || !strings.Contains(a.Error, "configure it first") || tg.Refusals()[ReasonNothing] != 1 {
		t.Errorf("%+v", a)
	}
	tg = provisioned(t, config(folder(t)), "one")
	if err := replaceIn(filepath.Join(tg.cfg.Dir, currentDir, configurationFile), "info", "warn"); err != nil {
		t.Fatal(err)
	}
	a := tg.Work(t.Context(), wire.StepRestart, encode(t, wire.RestartBody{Digest: tg.Digest()}))
	if a.OK || !strings.Contains(a.Error, `"configuration.json"`) || tg.Refusals()[ReasonDamaged] != 1 {
		t.Errorf("%+v", a)
	}
	if want, why := tg.Wants(); !want || !strings.HasPrefix(why, WhyDamaged) || tg.Component() != "provision_mode_server" {
		t.Errorf("damaged, and it says %v %q", want, why)
	}
}

type refusedDocument struct {
	name   string
	raw    []byte
	reason Reason
	say    string
}

// refusedDocuments are bodies whose shape or types are wrong.
func refusedDocuments() []refusedDocument {
	wrong := func(key, value string) []byte {
		return fmt.Appendf(nil, `{"configuration":{"a":"1"},"cluster":%q,%q:%s}`, clusterA, key, value)
	}
	return []refusedDocument{
		{"too large, not UTF-8, not JSON", append(bytes.Repeat([]byte(" "), 4<<20), 0xff), ReasonTooLarge, "4194305 bytes and may have 4194304"},
		{"not UTF-8, not JSON", []byte("{\xff"), ReasonNotUTF8, "not UTF-8"},
		{"not UTF-8 in a string", wrong("x", "\"\xff\""), ReasonNotUTF8, "not UTF-8"},
		{"nothing", nil, ReasonNotJSON, "not one JSON document"},
		{"half", []byte(`{"configuration":{"a":`), ReasonNotJSON, "not one JSON document"},
		{"two", []byte(`{} {}`), ReasonNotJSON, "not one JSON document"},
		{"list", []byte(`[]`), ReasonNotJSON, "not a JSON object"},
		{"null", []byte(`null`), ReasonNotJSON, "not a JSON object"},
		{"too deep", []byte(strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)), ReasonNotJSON, "not one JSON document"},
		{"configuration list", wrong("configuration", `[]`), ReasonWrongType, `the key "configuration" must be an object`},
		{"configuration number", wrong("configuration", `{"a":1}`), ReasonWrongType, `the key configuration["a"] must be a string`},
		{"configuration null", wrong("configuration", `{"a":null}`), ReasonWrongType, `the key configuration["a"] must be a string`},
		{"certificate", wrong("certificate", `7`), ReasonWrongType, `the key "certificate" must be a string`},
		{"ca", wrong("ca", `{}`), ReasonWrongType, `the key "ca" must be a string`},
		{"key", wrong("key", `["a"]`), ReasonWrongType, `the key "key" must be a string`},
		{"action policies", wrong("action_policies", `{"a.policy":true}`), ReasonWrongType, `action_policies["a.policy"] must be a string`},
		{"rego policies", wrong("opa_policies", `"x"`), ReasonWrongType, `the key "opa_policies" must be an object`},
		{"claims", wrong("server_claims", `[1]`), ReasonWrongType, `the key "server_claims" must be an object`},
		{"files", wrong("files", `7`), ReasonWrongType, `the key "files" must be an object`},
		{"file", wrong("files", `{"a":"text"}`), ReasonWrongType, `the key files["a"] must be`},
		{"file without text", wrong("files", `{"a":{"mode":"0600"}}`), ReasonWrongType, `the key files["a"].text must be`},
		{"file with a number as its mode", wrong("files", `{"a":{"text":"","mode":420}}`), ReasonWrongType, `the key files["a"].mode must be`},
		{"cluster", wrong("cluster", `1`), ReasonWrongType, `the key "cluster" must be a string`},
	}
}

// TestFirstCheckWins builds bodies that fail a check and every later one; the earlier is what is said.
func TestFirstCheckWins(t *testing.T) {
	// In the order of the spec's checks, by hand; each spoils the body for its own check only.
	spoil := []struct {
		reason Reason
		change func(*wire.ConfigureBody)
	}{
		{ReasonOtherCluster, func(b *wire.ConfigureBody) { b.Cluster = clusterB }},
		{ReasonEmpty, func(b *wire.ConfigureBody) { b.Configuration = nil }},
		{ReasonTooMany, func(b *wire.ConfigureBody) { b.OPAPolicies = times(300, "p") }},
		{ReasonSettingName, func(b *wire.ConfigureBody) {
			if b.Configuration != nil {
				b.Configuration["\n"] = ""
			}
		}},
		{ReasonTooLong, func(b *wire.ConfigureBody) { b.Files["long"] = wire.WorkFile{Text: strings.Repeat("x", MaxFile+1)} }},
		{ReasonPolicyName, withPolicy("../x")},
		{ReasonFileName, withFile("../x", "")},
		{ReasonFileMode, withFile("m", "9")},
		{ReasonNameClash, func(b *wire.ConfigureBody) { withFile("d", "")(b); withFile("d/e", "")(b) }},
		{ReasonCertificate, func(b *wire.ConfigureBody) { b.Certificate = "x" }},
		{ReasonCA, func(b *wire.ConfigureBody) { b.CA = "x" }},
		{ReasonKey, func(b *wire.ConfigureBody) { b.Key = "x" }},
		{ReasonPair, func(b *wire.ConfigureBody) {
			if b.Key != "x" {
				b.Key = pairOf("other").key
			}
		}},
	}
	for i := range spoil {
		b := body("two")
		for j := len(spoil) - 1; j >= i; j-- {
			spoil[j].change(&b)
		}
		if spoil[i].reason == ReasonKey {
			b.Key = "x"
		}
		if r := judge(&b, setting{clusterA, "linux"}); r == nil || r.reason != spoil[i].reason {
			t.Errorf("what fails from %s on is refused by %+v", spoil[i].reason, r)
		}
	}
}

// TestAccepted bodies, each at a bound that is still inside.
func TestAccepted(t *testing.T) {
	leaf := pairOf("leaf")
	r := rsaKey()
	ed := edKey()
	for name, change := range map[string]func(*wire.ConfigureBody){
		"least": func(b *wire.ConfigureBody) {
			*b = wire.ConfigureBody{Configuration: map[string]string{"a": ""}, Cluster: clusterA}
		},
		"bundle with titles": func(b *wire.ConfigureBody) {
			b.CA = "Root One\n========\n" + leaf.cert + "\nRoot Two\n" + pairOf("x").cert
		},
		"chain":    func(b *wire.ConfigureBody) { b.Certificate = leaf.cert + pairOf("x").cert },
		"ca alone": func(b *wire.ConfigureBody) { b.Certificate, b.Key = "", "" },
		"RSA, PKCS #1": func(b *wire.ConfigureBody) {
			b.Certificate, b.Key = certificateFor("r", r), block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(r))
		},
		"Ed25519":             func(b *wire.ConfigureBody) { b.Certificate, b.Key = certificateFor("e", ed), pkcs8(ed) },
		"parameters":          func(b *wire.ConfigureBody) { b.Key = block("EC PARAMETERS", []byte{6, 1, 1}) + b.Key },
		"4096 settings":       func(b *wire.ConfigureBody) { b.Configuration = times(4096, "s") },
		"long setting":        func(b *wire.ConfigureBody) { b.Configuration["s"] = strings.Repeat("x", 256<<10) },
		"long name":           func(b *wire.ConfigureBody) { b.Configuration[strings.Repeat("n", 256)] = "" },
		"deep path":           withFile(strings.Repeat("d/", 15)+"x", ""),
		"long path":           withFile(strings.Repeat("p", 255)+"/"+strings.Repeat("q", 254)+"/x", ""),
		"names like ..":       withFile("...", ""),
		"hidden":              withFile(".hidden/..x/y..", ""),
		"letters beyond":      withFile("größe/日本", ""),
		"most open mode":      withFile("m", "0755"),
		"least open mode":     withFile("m", "0400"),
		"a value of controls": func(b *wire.ConfigureBody) { b.Configuration["x"] = "\x00\x1b\n" },
	} {
		t.Run(name, func(t *testing.T) {
			tg := open(t, config(folder(t)))
			b := body("one")
			change(&b)
			d := configure(t, tg, b)
			if got := reopen(t, tg, nil).Digest(); got != d {
				t.Errorf("digest %s, after a boot %s", d, got)
			}
		})
	}
}
