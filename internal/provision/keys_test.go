package provision

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pace-node/internal/queue"
	"pace-node/internal/wire"
)

// answerCases are the keys of a helper's answer as its page has them: a good value, what is read of it, and a bad value with
// what the refusal says that the key must be.
var answerCases = []struct {
	key, good string
	want      Answer
	bad, must string
}{
	{"defer", `true`, Answer{Defer: true}, `1`, "true or false"},
	{"shutdown", `true`, Answer{Shutdown: true}, `"yes"`, "true or false"},
	{"msg", `"m"`, Answer{Msg: "m"}, `1`, "a string"},
	{"configuration", `{"a":"b"}`, Answer{Configuration: map[string]string{"a": "b"}}, `{"a":1}`, "an object whose values are all strings"},
	{"certificate", `"c"`, Answer{Certificate: "c"}, `{}`, "a string"},
	{"ca", `"c"`, Answer{CA: "c"}, `[]`, "a string"},
	{"key", `"k"`, Answer{Key: "k"}, `true`, "a string"},
	{"ssldir", `"s"`, Answer{SSLDir: "s"}, `1`, "a string"},
	{"action_policies", `{"a":"b"}`, Answer{ActionPolicies: map[string]string{"a": "b"}}, `{"a":null}`, "an object whose values are all strings"},
	{"opa_policies", `{"a":"b"}`, Answer{OPAPolicies: map[string]string{"a": "b"}}, `"x"`, "an object whose values are all strings"},
	{"server_claims", `{"a":1}`, Answer{ServerClaims: json.RawMessage(`{"a":1}`)}, `[1]`, "an object"},
	{"upgrade", `"1.2.3"`, Answer{Upgrade: "1.2.3"}, `1`, "a string"},
	{"pace", `{}`, Answer{}, `1`, "an object"},
	{"pace.retry_after", `"15m"`, Answer{RetryAfter: 15 * time.Minute}, `-1`, `seconds above 0, or a duration as in "15m"`},
	{"pace.files", `{"a":{"text":"t","mode":"0644"}}`, Answer{Files: map[string]wire.WorkFile{"a": {Text: "t", Mode: "0644"}}}, `{"a":{"text":"t","mode":"9999"}}`,
		`an object from relative paths to {"text": a string, "mode": four octal digits as a string}`},
}

func answerWith(key, value string) []byte {
	if inner, ok := strings.CutPrefix(key, "pace."); ok {
		key, value = "pace", fmt.Sprintf(`{%q:%s}`, inner, value)
	}
	rest := ""
	if key != "configuration" {
		rest = `"configuration":{"x":"y"},`
	}
	return fmt.Appendf(nil, `{%s%q:%s}`, rest, key, value)
}

func checkAnswerKeys() error {
	if len(answerKeys)+len(paceKeys) != len(answerCases) {
		return fmt.Errorf("%d keys", len(answerKeys)+len(paceKeys))
	}
	for _, c := range answerCases {
		a, f := ParseAnswer(answerWith(c.key, c.good))
		if f != nil {
			return fmt.Errorf("%s: %v", c.key, f)
		}
		want := c.want
		if want.Configuration == nil {
			want.Configuration = map[string]string{"x": "y"}
		}
		if !reflect.DeepEqual(*a, want) {
			return fmt.Errorf("%s is read as %+v", c.key, *a)
		}
		a, f = ParseAnswer(answerWith(c.key, c.bad))
		if f == nil || !strings.HasSuffix(f.Error(), fmt.Sprintf("the key %q of its answer must be %s", c.key, c.must)) {
			return fmt.Errorf("%s as %s: %+v, %v", c.key, c.bad, a, f)
		}
	}
	return nil
}

func TestAnswerKeys(t *testing.T) {
	if err := checkAnswerKeys(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationAnswerKeys(t *testing.T) {
	for _, table := range [][]answerKey{answerKeys, paceKeys} {
		for i := range table {
			for name, flip := range map[string]func(*answerKey){
				"the name":       func(k *answerKey) { k.Name += "x" },
				"what it must":   func(k *answerKey) { k.Want += "x" },
				"how it is read": func(k *answerKey) { k.Read = func(json.RawMessage, *Answer) error { return nil } },
			} {
				was := table[i]
				flip(&table[i])
				if checkAnswerKeys() == nil {
					t.Errorf("%s: %s flipped, and nobody noticed", was.Name, name)
				}
				table[i] = was
			}
		}
	}
}

// checkSteps holds the steps of a cycle: how long each may take, how often it is asked, and whether it changes the machine.
func checkSteps() error {
	want := []StepRow{
		{queue.StageInventory, "inventory", 10 * time.Second, 2, false},
		{queue.StageCSR, "csr", 10 * time.Second, 2, true},
		{queue.StageShutdown, "shutdown", 10 * time.Second, 1, true},
		{queue.StageUpgrade, "upgrade", 5 * time.Minute, 1, true},
		{queue.StageConfigure, "configure", 30 * time.Second, 1, true},
		{queue.StageRestart, "restart", 3 * time.Minute, 1, true},
	}
	if len(Steps) != len(want) {
		return fmt.Errorf("%d steps", len(Steps))
	}
	for _, w := range want {
		if got := step(w.Stage); got != w {
			return fmt.Errorf("%+v, want %+v", got, w)
		}
	}
	return nil
}

func TestStepsTable(t *testing.T) {
	if err := checkSteps(); err != nil {
		t.Fatal(err)
	}
	if got := step("later"); got.Attempts != 1 || !got.Lease {
		t.Errorf("a step that is none: %+v", got)
	}
}

func TestMutationSteps(t *testing.T) {
	for i := range Steps {
		for name, flip := range map[string]func(*StepRow){
			"the stage":    func(r *StepRow) { r.Stage += "x" },
			"the step":     func(r *StepRow) { r.Step += "x" },
			"the time":     func(r *StepRow) { r.Timeout++ },
			"the attempts": func(r *StepRow) { r.Attempts++ },
			"the lease":    func(r *StepRow) { r.Lease = !r.Lease },
		} {
			was := Steps[i]
			flip(&Steps[i])
			if checkSteps() == nil {
				t.Errorf("%s: %s flipped, and nobody noticed", was.Step, name)
			}
			Steps[i] = was
		}
	}
}
