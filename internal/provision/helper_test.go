package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"pace-node/internal/wire"
)

func TestMain(m *testing.M) {
	// The bubbles end their own goroutines; what is left here is ours.
	goleak.VerifyTestMain(m)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func TestParseAnswer(t *testing.T) {
	for _, c := range []struct {
		in     string
		reason Reason
		says   []string
	}{
		{trivial, "", nil},
		{" \n" + trivial + "\n\n", "", nil},
		{`{"configuration":{"a":"b"},"unknown":[1,2,{}],"certificate":null,"ssldir":"/anything"}`, "", nil},
		{`{"defer":true}`, "", nil},
		{`{"configuration":{"a":"` + "p\xe4ss" + `"}}`, ReasonNotJSON, []string{"not UTF-8"}},
		{`{"shutdown":true,"msg":"x"}`, "", nil},
		{``, ReasonNoOutput, []string{"printed nothing"}},
		{" \n\t", ReasonNoOutput, nil},
		{"connecting...\n" + trivial, ReasonNotJSON, []string{`"connecting...\n{`}},
		{trivial + trivial, ReasonSeveral, []string{"more than one"}},
		{trivial + "\n" + `{"a"`, ReasonSeveral, nil},
		{trivial + "done", ReasonNotJSON, []string{"beside"}},
		{`{"configuration":`, ReasonNotJSON, nil},
		{"\x00\xff", ReasonNotJSON, []string{`\x00\xff`}},
		{`[]`, ReasonWrongType, []string{"a JSON object"}},
		{`null`, ReasonWrongType, nil},
		{`"text"`, ReasonWrongType, nil},
		{`{}`, ReasonEmpty, []string{`"configuration"`}},
		{`{"configuration":{}}`, ReasonEmpty, nil},
		{`{"configuration":null}`, ReasonEmpty, nil},
		{`{"defer":false}`, ReasonEmpty, nil},
		{`{"configuration":{"a":1}}`, ReasonWrongType, []string{`"configuration"`, "values are all strings"}},
		{`{"configuration":{"a":null}}`, ReasonWrongType, []string{`"configuration"`}},
		{`{"configuration":["a"]}`, ReasonWrongType, []string{`"configuration"`}},
		{`{"configuration":{"a":"b"},"defer":"yes"}`, ReasonWrongType, []string{`"defer"`, "true or false"}},
		{`{"configuration":{"a":"b"},"shutdown":1}`, ReasonWrongType, []string{`"shutdown"`}},
		{`{"configuration":{"a":"b"},"msg":{}}`, ReasonWrongType, []string{`"msg"`, "a string"}},
		{`{"configuration":{"a":"b"},"certificate":7}`, ReasonWrongType, []string{`"certificate"`}},
		{`{"configuration":{"a":"b"},"ca":7}`, ReasonWrongType, []string{`"ca"`}},
		{`{"configuration":{"a":"b"},"key":["SECRET"]}`, ReasonWrongType, []string{`"key"`}},
		{`{"configuration":{"a":"b"},"ssldir":7}`, ReasonWrongType, []string{`"ssldir"`}},
		{`{"configuration":{"a":"b"},"upgrade":true}`, ReasonWrongType, []string{`"upgrade"`}},
		{`{"configuration":{"a":"b"},"action_policies":{"a":{}}}`, ReasonWrongType, []string{`"action_policies"`}},
		{`{"configuration":{"a":"b"},"opa_policies":"x"}`, ReasonWrongType, []string{`"opa_policies"`}},
		{`{"configuration":{"a":"b"},"server_claims":"x"}`, ReasonWrongType, []string{`"server_claims"`}},
		{`{"configuration":{"a":"b"},"pace":7}`, ReasonWrongType, []string{`"pace"`}},
		{`{"configuration":{"a":"b"},"pace":{"retry_after":"soon"}}`, ReasonWrongType, []string{`"pace.retry_after"`}},
		{`{"configuration":{"a":"b"},"pace":{"retry_after":-1}}`, ReasonWrongType, []string{`"pace.retry_after"`}},
		{`{"configuration":{"a":"b"},"pace":{"files":{"a":"b"}}}`, ReasonWrongType, []string{`"pace.files"`}},
		{`{"configuration":{"a":"b"},"pace":{"files":{"a":{"text":"b","mode":420}}}}`, ReasonWrongType, []string{`"pace.files"`}},
		{`{"configuration":{"a":"b"},"pace":{"files":{"a":{"text":"b","mode":"4755"}}}}`, ReasonWrongType, []string{`"pace.files"`}},
		{`{"configuration":{"a":"b"},"pace":{"files":{"a":{"mode":"0644"}}}}`, ReasonWrongType, []string{`"pace.files"`}},
		{`{"configuration":{"a":"b"},"pace":{"retry_after":90,"files":{"a":{"text":"b","mode":"0640"}},"later":1}}`, "", nil},
	} {
		a, f := ParseAnswer([]byte(c.in))
		if (f == nil) != (c.reason == "") || (a == nil) == (f == nil) {
			t.Errorf("%q: %+v %v", c.in, a, f)
			continue
		}
		if f == nil {
			continue
		}
		if f.Reason != c.reason {
			t.Errorf("%q: reason %s, want %s (%s)", c.in, f.Reason, c.reason, f.Text)
		}
		for _, s := range c.says {
			if !strings.Contains(f.Text, s) {
				t.Errorf("%q: %q does not say %q", c.in, f.Text, s)
			}
		}
		if strings.Contains(f.Text, "SECRET") || len(f.Text) > 600 {
			t.Errorf("%q: %q", c.in, f.Text)
		}
	}
	a, _ := ParseAnswer([]byte(`{"configuration":{"a":"b"},"certificate":"C","ca":"A","key":"K","server_claims":{"x":[1]},"upgrade":"2.0",
		"action_policies":{"p":"1"},"opa_policies":{"o":"2"},"pace":{"retry_after":"15m","files":{"x/y":{"text":"t","mode":"0600"}}}}`))
	if a.RetryAfter != 15*time.Minute || a.Files["x/y"] != (wire.WorkFile{Text: "t", Mode: "0600"}) || string(a.ServerClaims) != `{"x":[1]}` || a.Upgrade != "2.0" {
		t.Fatalf("%+v", a)
	}
	body, err := encode(a.body("c1"))
	want := `{"configuration":{"a":"b"},"certificate":"C","ca":"A","key":"K","action_policies":{"p":"1"},"opa_policies":{"o":"2"},` +
		`"server_claims":{"x":[1]},"files":{"x/y":{"text":"t","mode":"0600"}},"cluster":"c1"}`
	if err != nil || string(body) != want {
		t.Fatalf("body %s %v\nwant %s", body, err, want)
	}
	for in, d := range map[string]time.Duration{"90": 90 * time.Second, "0.5": 500 * time.Millisecond, `"1h30m"`: 90 * time.Minute, "1e300": 7 * 24 * time.Hour, `"9999h"`: 7 * 24 * time.Hour} {
		a, f := ParseAnswer([]byte(`{"defer":true,"pace":{"retry_after":` + in + `}}`))
		if f != nil || a.RetryAfter != d {
			t.Errorf("retry_after %s: %v %v, want %s", in, a, f, d)
		}
	}
}

func FuzzParseAnswer(f *testing.F) {
	for _, s := range []string{trivial, trivial + trivial, "x", `{"pace":{"files":{"a":{"text":""}}}}`, `{"defer":true}`, "[", ""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		a, failure := ParseAnswer(b)
		switch {
		case (a == nil) == (failure == nil):
			t.Fatalf("%q: both or neither", b)
		case failure != nil && !printable(failure.Text):
			t.Fatalf("%q: %q holds a control character", b, failure.Text)
		case a != nil && !a.Defer && !a.Shutdown && len(a.Configuration) == 0:
			t.Fatalf("%q: nothing to do", b)
		}
	})
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
}

func TestShownHoldsNoKey(t *testing.T) {
	for _, in := range []string{
		`{"configuration":{"a":"b"},"key":"-----BEGIN PRIVATE KEY-----\nMIIBSECRET`,
		`{"certificate":"-----BEGIN CERTIFICATE-----\nSECRET`,
		`{'key': 'SECRET'}`,
	} {
		if s := shown([]byte(in)); strings.Contains(s, "SECRET") || !strings.Contains(s, "withheld") {
			t.Errorf("%q shown as %s", in, s)
		}
	}
	if s := shown([]byte(strings.Repeat("ä", 100))); !strings.HasPrefix(s, `"`+strings.Repeat("ä", 40)) || !strings.HasSuffix(s, "…") {
		t.Errorf("%s", s)
	}
}

// checkReasons is which failures park a machine.
func checkReasons() error {
	permanent := map[Reason]bool{"missing": false, "start": false, "timeout": false, "exit": false, "no_output": false, "not_json": false,
		"several_documents": false, "too_large": false, "wrong_type": true, "empty_configuration": true, "default": false, "cancelled": false}
	if len(permanent) != len(Reasons) {
		return fmt.Errorf("%d rows, want %d", len(Reasons), len(permanent))
	}
	for r, want := range permanent {
		if got := fail(r, "").Permanent(); got != want {
			return fmt.Errorf("%s: permanent %v, want %v", r, got, want)
		}
	}
	return nil
}

func TestReasons(t *testing.T) {
	if err := checkReasons(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationReasons(t *testing.T) {
	for i := range Reasons {
		Reasons[i].Permanent = !Reasons[i].Permanent
		err := checkReasons()
		Reasons[i].Permanent = !Reasons[i].Permanent
		if err == nil {
			t.Errorf("row %s flipped passes", Reasons[i].Reason)
		}
	}
}

func TestHelperInputDocument(t *testing.T) {
	f := &run{}
	f.job.ID, f.job.Attempt, f.job.LastError = "a", 2, "exit code 3"
	f.job.FirstSeen = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	f.bootID = bootID(1)
	f.info = HelperContext{Name: "web1", Platform: "linux/amd64", Cluster: "c1"}
	f.info.Key[0] = 0xab
	got, err := encode(helperInput(f, json.RawMessage(`{"facts":{"a":"<b>"}}`)))
	want := `{"identity":"a","csr":null,"ed25519_pubkey":{"public_key":"ab` + strings.Repeat("0", 62) + `","directory":"","signature":""},` +
		`"inventory":"{\"facts\":{\"a\":\"<b>\"}}","jwt":null,"pace":{"attempt":2,"first_seen":"2026-05-01T12:00:00Z","last_error":"exit code 3",` +
		`"boot_id":"00000000000000010000000000000001","cluster_id":"c1","platform":"linux/amd64","name":"web1","labels":{}}}`
	if err != nil || string(got) != want {
		t.Fatalf("%s %v\nwant %s", got, err, want)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := t.TempDir() + "/good.json"
	write(t, good, trivial, 0o600)
	bad := t.TempDir() + "/bad.json"
	write(t, bad, `{"configuration":{"a":7}}`, 0o600)
	huge := t.TempDir() + "/huge.json"
	write(t, huge, `{"configuration":{"a":"`+strings.Repeat("x", MaxStdout)+`"}}`, 0o600)
	for _, c := range []struct {
		cfg  Config
		says string // "": accepted
	}{
		{Config{}, ""},
		{Config{Interval: time.Minute, Workers: 1, QueueCap: 1, Helper: "sh -c 'x'", Default: good, Component: "x"}, ""},
		{Config{Default: `{"configuration":{"a":"b"}}`}, ""},
		{Config{Interval: time.Minute - 1}, "--provision-interval"},
		{Config{Workers: -1}, "--provision-workers=-1"},
		{Config{QueueCap: -1}, "--provision-queue=-1"},
		{Config{HelperTimeout: -1}, "--provision-helper-timeout"},
		{Config{Helper: `"open`}, "--provision-helper"},
		{Config{Default: "/does/not/exist\x1b"}, `no such file`},
		{Config{Default: bad}, `"configuration"`},
		{Config{Default: huge}, "larger than 1 MiB"},
		{Config{Default: `{"configuration":{}}`}, "holds no configuration"},
		{Config{Component: "a.b"}, `"."`},
		{Config{Component: "a>"}, `">"`},
		{Config{Component: "*"}, `"*"`},
		{Config{Component: "a b"}, `" "`},
		{Config{Component: "a\x00"}, "control character"},
		{Config{Component: strings.Repeat("x", 65)}, "at most 64 bytes"},
	} {
		err := c.cfg.Complete()
		if (err == nil) != (c.says == "") || err != nil && (!strings.Contains(err.Error(), c.says) || !printable(err.Error())) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.says)
		}
	}
	if err := ValidateComponent(""); !errors.Is(err, errComponentEmpty) {
		t.Error(err)
	}
	if _, err := Start(context.Background(), Config{Workers: -1}, Deps{}); err == nil {
		t.Error("started with no workers")
	}
}

func TestEncodeKeepsText(t *testing.T) {
	b, err := encode(map[string]string{"a": "<&>\u2028"})
	if err != nil || bytes.Contains(b, []byte(`\u003c`)) {
		t.Fatalf("%s %v", b, err)
	}
}
