package formation

import (
	"fmt"
	"testing"
	"time"
)

// The page's numbers, written out by hand: a constant that moves away from them is seen here, whatever the other tests
// wait for.
func TestNumbersOfThePage(t *testing.T) {
	for _, c := range []struct {
		what      string
		got, want time.Duration
	}{
		{"beat", Beat, time.Second},
		{"after the first proof", ChoiceAfterProof, 500 * time.Millisecond},
		{"a dial or a lookup has failed", DialTimeout, 3 * time.Second},
		{"each seed at most", SeedPeriod, time.Minute},
		{"a pointer's step", PointerPeriod, time.Minute},
		{"asked again", AskAgain, 2 * time.Second},
		{"abandoned", AbandonAfter, 10 * time.Minute},
		{"a rejection is remembered", RejectionFor, time.Hour},
		{"foreign-fleet-visible clears", ForeignClearAfter, 5 * time.Minute},
		{"never clear before one beacon period", ForeignQuiet, 15 * time.Second},
		{"forgotten after the last beacon", ProofFresh, 90 * time.Second},
		{"whoever spoke for the target is asked who leads", SearchEvery, 2 * time.Second},
		{"a word of who leads that nobody asked for is not taken", TargetSilent, 2 * time.Minute},
		{"an approval waits for the choice", SettleAfter, 3 * time.Second},
	} {
		if c.got != c.want {
			t.Errorf("%s: %s, want %s", c.what, c.got, c.want)
		}
	}
	for _, c := range []struct {
		what      string
		got, want uint64
	}{
		{"keys of a pin", MaxPinKeys, 16},
		{"redirects an ask", MaxRedirects, 2},
		{"asks in a row until the target is gone", LostAsks, 2},
		{"speakers for the target", MaxVoices, 8},
		{"port of a bare host", DefaultPort, 6674},
		{"clocks before", EarliestCreated, uint64(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Unix())},
		{"newest", newestCreated, 1<<64 - 1},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
}

// checkSays: which lines are there, and which of them are alarms.
func checkSays() error {
	want := []struct {
		say  Say
		warn bool
	}{{SaySeedFailed, true}, {SaySeedIsSelf, false}, {SaySeedNotFollowed, true}, {SaySRVFailed, false}, {SayTargetRefused, true}, {SayAnswerRefused, true}, {SayMoveRefused, true}}
	if len(Says) != len(want) {
		return fmt.Errorf("%d lines", len(Says))
	}
	seen := map[string]bool{}
	for i, w := range want {
		if r := Says[i]; r.Say != w.say || r.Warn != w.warn || r.Text == "" || seen[r.Text] || w.say.String() != r.Text {
			return fmt.Errorf("row %d: %+v", i, r)
		}
		seen[Says[i].Text] = true
	}
	return nil
}

func TestSays(t *testing.T) {
	if err := checkSays(); err != nil {
		t.Fatal(err)
	}
}

func TestMutationSays(t *testing.T) {
	mutate(t, Says, checkSays, func(r *SayRow, step int) bool {
		switch step {
		case 0:
			r.Warn = !r.Warn
		case 1:
			r.Say = r.Say%7 + 1
		case 2:
			r.Text = ""
		default:
			return false
		}
		return true
	})
}
