package host

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestParseEnvFile(t *testing.T) {
	text := strings.Join([]string{
		`# what the package wrote`, // 1
		`; the other comment`,      // 2
		``,                         // 3
		`PACE_FLEET_SEED=office-a [fd00::1]:6674  `, // 4
		`export PACE_NAME="Büro \"1\" $HOME"`,       // 5
		`  PACE_LABEL='a=b c'" d=e" `,               // 6
		`PACE_EMPTY=`,                               // 7
		`PACE_LONG=one \`,                           // 8
		`two`,                                       // 9
		`PACE_QUOTED="line one`,                     // 10
		`line two"`,                                 // 11
		`PACE_HASH=a#b ;c`,                          // 12
		`PACE_STATE_DIR="C:\\x\y\\"`,                // 13
		`PACE_TWICE=1`,                              // 14
		`PACE_TWICE=2`,                              // 15
		`OTHER=$(touch x) ` + "`y`",                 // 16
		`PACE_SINGLE='a\b'`,                         // 17
		`PACE_BLANKS=" a "`,                         // 18
	}, "\n")
	got, err := ParseEnvFile("/etc/default/pace-node", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Setting{}
	for line, kv := range map[string][2]string{
		"4": {"PACE_FLEET_SEED", "office-a [fd00::1]:6674"}, "5": {"PACE_NAME", `Büro "1" $HOME`}, "6": {"PACE_LABEL", "a=b c d=e"},
		"7": {"PACE_EMPTY", ""}, "8": {"PACE_LONG", "one two"}, "10": {"PACE_QUOTED", "line one\nline two"}, "12": {"PACE_HASH", "a#b ;c"},
		"13": {"PACE_STATE_DIR", `C:\x\y\`}, "15": {"PACE_TWICE", "2"}, "16": {"OTHER", "$(touch x) `y`"}, "17": {"PACE_SINGLE", `a\b`},
		"18": {"PACE_BLANKS", " a "},
	} {
		want[kv[0]] = Setting{Value: kv[1], Where: "/etc/default/pace-node line " + line}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	crlf, err := ParseEnvFile("f", []byte("A=1\r\nB=\"2\"\r\n"))
	if err != nil || crlf["A"].Value != "1" || crlf["B"].Value != "2" || crlf["B"].Where != "f line 2" {
		t.Errorf("%v, %v", crlf, err)
	}
}

func TestParseEnvFileRefusals(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no equals sign":  {"A=1\nnonsense\nB=2", "f line 2"},
		"no name":         {"\n=1", "f line 2"},
		"name with dash":  {"A-B=1", "f line 1"},
		"name with digit": {"1A=1", "f line 1"},
		"two words":       {"A B=1", "f line 1"},
		"open quote":      {"A=1\nB=\"x\nC=3", "f line 2"},
		"open single":     {"A='", "f line 1"},
		"not UTF-8":       {"A=\xff", "UTF-8"},
		"too large":       {strings.Repeat("#", maxEnvFile+1), "bytes"},
	} {
		got, err := ParseEnvFile("f", []byte(c.text))
		if !errors.Is(err, ErrEnvFile) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want an error at %s", name, got, err, c.want)
		}
	}
}

func FuzzParseEnvFile(f *testing.F) {
	f.Add([]byte("A=1\nexport B='x' \\\n\"y\"\n#"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := ParseEnvFile("f", data)
		if (err == nil) == (got == nil) {
			t.Errorf("%v and %v", got, err)
		}
		for k := range got {
			if !envName(k) {
				t.Errorf("%q is a name", k)
			}
		}
	})
}

// watched is a Host whose service manager watches.
type watched struct {
	Host
	every  time.Duration
	pings  atomic.Int32
	refuse atomic.Bool
}

var errGone = errors.New("socket gone")

func (w *watched) WatchdogEvery() time.Duration { return w.every }
func (w *watched) WatchdogPing() error {
	if w.refuse.Load() {
		return errGone
	}
	w.pings.Add(1)
	return nil
}

func TestWatchPingsAtHalfTheIntervalWhileTheLoopLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &watched{every: 30 * time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		var stuck atomic.Bool
		var failures, gone atomic.Int32
		done := make(chan struct{})
		go func() {
			defer close(done)
			Watch(ctx, h, func(round context.Context) error {
				if !stuck.Load() {
					return nil
				}
				<-round.Done() // a loop that takes nothing
				return round.Err()
			}, func(err error) {
				failures.Add(1)
				if errors.Is(err, errGone) {
					gone.Add(1)
				}
			})
		}()
		time.Sleep(time.Minute + time.Second)
		synctest.Wait()
		if h.pings.Load() != 5 || failures.Load() != 0 { // at 0, 15, 30, 45, 60 s
			t.Errorf("%d words in a minute, want 5; %d failures", h.pings.Load(), failures.Load())
		}
		stuck.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.pings.Load() != 5 || failures.Load() < 3 {
			t.Errorf("a loop that hangs: %d words, want still 5; %d failures", h.pings.Load(), failures.Load())
		}
		stuck.Store(false)
		h.refuse.Store(true)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if gone.Load() == 0 {
			t.Error("a word that was not sent is told to nobody")
		}
		cancel()
		<-done
	})
}

func TestWatchEndsAtOnceWhereNobodyWatches(t *testing.T) {
	h := &watched{}
	Watch(t.Context(), h, func(context.Context) error { t.Error("asked"); return nil }, nil)
	if h.pings.Load() != 0 {
		t.Error("a word to nobody")
	}
}
