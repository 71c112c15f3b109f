package provision

import (
	"context"
	"testing"
	"time"

	"pace-node/internal/queue"
)

// TestDocumentOfADefault: what a trial shows of a default reads as the default did.
func TestDocumentOfADefault(t *testing.T) {
	for _, text := range []string{
		trivial, `{"defer":true,"msg":"later","pace":{"retry_after":"15m0s"}}`, `{"shutdown":true}`,
		`{"configuration":{"a":"<b>"},"certificate":"c","ca":"d","key":"e","ssldir":"f","action_policies":{"g":"h"},"opa_policies":{"i":"j"},` +
			`"server_claims":{"k":[1]},"upgrade":"2.0","pace":{"files":{"l":{"text":"m","mode":"0640"}}}}`,
	} {
		a, f := ParseAnswer([]byte(text))
		if f != nil {
			t.Fatal(f)
		}
		if got, err := encode(a.document()); err != nil || string(got) != text {
			t.Errorf("%s %v, want %s", got, err, text)
		}
	}
}

// TestStageOfARunningMachine: the list says at which stage a machine is that is being worked.
func TestStageOfARunningMachine(t *testing.T) {
	f := newFleet(t, Config{Workers: 1, Default: trivial})
	f.add("a", func(m *machine) { m.fail["configure"] = func(int) error { return errHang } })
	f.p.Lead(true)
	for begun := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		list, err := f.p.Entries(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Entries) == 1 && list.Entries[0].State == queue.StateRunning && list.Entries[0].Stage == queue.StageConfigure &&
			f.state("a").Stage == queue.StageConfigure {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%+v", list.Entries)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	f.p.Stop(ctx)
	close(f.done)
	f.end.Wait()
}
