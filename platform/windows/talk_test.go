package windows

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// checkControls writes out what each word of the service control manager asks for.
func checkControls() error {
	want := map[uint32]control{1: controlStop, 5: controlStop, 15: controlStop, 4: controlInterrogate, 2: controlIgnore, 3: controlIgnore, 6: controlIgnore, 13: controlIgnore, 128: controlIgnore}
	for code, c := range want {
		if got := controlOf(code); got != c {
			return fmt.Errorf("control %d is %d, want %d", code, got, c)
		}
	}
	return nil
}

func TestControls(t *testing.T) {
	if err := checkControls(); err != nil {
		t.Error(err)
	}
}

func TestMutationControls(t *testing.T) {
	for i := range controls {
		old := controls[i]
		controls[i].Control = controlIgnore
		if checkControls() == nil {
			t.Errorf("row %d changed, and nothing noticed", i)
		}
		controls[i] = old
	}
}

// TestTalk is a service's life, second by second.
func TestTalk(t *testing.T) {
	now := time.Unix(1000, 0)
	after := func(d time.Duration) time.Time { return now.Add(d) }
	talk := begin(now)
	says := func(what string, want report) {
		t.Helper()
		if d := cmp.Diff(want, talk.report); d != "" {
			t.Errorf("%s\n%s", what, d)
		}
	}
	const running, stopping = 4, 3
	says("at once", report{2, 0, 0, 10 * time.Second})
	if say, late := talk.beat(after(time.Second)); !say || late {
		t.Error("a second of starting")
	}
	says("a second later", report{2, 0, 1, 10 * time.Second})
	if say, stop := talk.heard(after(time.Second), 4); !say || stop {
		t.Error("interrogated")
	}
	says("interrogated", report{2, 0, 1, 10 * time.Second})
	if !talk.ready(after(2 * time.Second)) {
		t.Error("not told of running")
	}
	says("running", report{running, 0x105, 0, 0}) // stop, shutdown, preshutdown
	if talk.ready(after(2 * time.Second)) {
		t.Error("told twice")
	}
	if say, late := talk.beat(after(time.Hour)); say || late {
		t.Error("a running service has nothing to say")
	}
	if say, stop := talk.heard(after(time.Hour), 15); !say || !stop {
		t.Error("the announcement of a shutdown")
	}
	says("ending", report{stopping, 0, 0, 10 * time.Second})
	if talk.ready(after(time.Hour)) {
		t.Error("it runs after all")
	}
	if say, stop := talk.heard(after(time.Hour), 5); !say || stop {
		t.Error("the shutdown itself, while it ends")
	}
	for i := 1; i <= 20; i++ {
		say, late := talk.beat(after(time.Hour + time.Duration(i)*time.Second))
		if !say || late != (i == 20) || talk.CheckPoint != uint32(i) {
			t.Errorf("second %d: %v, %v, %+v", i, say, late, talk.report)
		}
	}
	if say, stop := talk.heard(after(time.Hour), 13); say || stop {
		t.Error("a word that is not for us")
	}
	talk = begin(now)
	if _, late := talk.beat(after(89 * time.Second)); late {
		t.Error("given up too early")
	}
	if _, late := talk.beat(after(90 * time.Second)); !late {
		t.Error("a start that takes for ever")
	}
}

// TestTalkNeverGoesBack: whatever comes in whatever order, a state is not left for an earlier one, checkpoints rise within
// one, and the end is asked for once.
func TestTalkNeverGoesBack(t *testing.T) {
	order := map[uint32]int{stateStartPending: 0, stateRunning: 1, stateStopPending: 2}
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		talk, stops := begin(now), 0
		for _, what := range rapid.SliceOf(rapid.Uint32Range(0, 17)).Draw(t, "what comes") {
			before := talk.report
			now = now.Add(time.Second / 2)
			switch what {
			case 16:
				talk.ready(now)
			case 17:
				talk.beat(now)
			default:
				if _, stop := talk.heard(now, what); stop {
					stops++
				}
			}
			if order[talk.State] < order[before.State] || talk.State == before.State && talk.CheckPoint < before.CheckPoint {
				t.Errorf("%+v after %+v", talk.report, before)
			}
			if pending := talk.State != stateRunning; pending != (talk.WaitHint > 0) || pending && talk.Accepts != 0 {
				t.Errorf("%+v", talk.report)
			}
		}
		if stops > 1 {
			t.Errorf("ended %d times", stops)
		}
	})
}
