package process

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRedact(t *testing.T) {
	block := "-----BEGIN EC PRIVATE KEY-----\nSECRET\n-----END EC PRIVATE KEY-----"
	for in, want := range map[string]string{
		"before\n" + block + "\nafter":                              "before\n" + withheld + "\nafter",
		block + block:                                               withheld + withheld,
		"x -----BEGIN PRIVATE KEY-----\nSECRET":                     "x " + withheld,
		"SECRET\n-----END PRIVATE KEY-----\nafter":                  withheld + "\nafter",
		"no key here":                                               "no key here",
		"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----": "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----",
		"the word PRIVATE KEY----- alone":                           "the word PRIVATE KEY----- alone",
	} {
		if got := Redact(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzRedact(f *testing.F) {
	f.Add("a", "b")
	f.Fuzz(func(t *testing.T, before, after string) {
		if strings.Contains(before+after, "KEY") {
			return
		}
		s := Redact(before + "\n-----BEGIN PRIVATE KEY-----\nSECRETSECRET\n-----END PRIVATE KEY-----\n" + after)
		if strings.Contains(s, "SECRETSECRET") && !strings.Contains(before+after, "SECRET") {
			t.Fatalf("%q", s)
		}
	})
}

func TestEnvironment(t *testing.T) {
	got := Environment([]string{"PATH=/bin", "PACE_SECRET=x", "NOTIFY_SOCKET=/run/x", "WATCHDOG_USEC=1", "LISTEN_FDS=1", "HOME=/root", "pace_low=1"})
	if strings.Join(got, " ") != "PATH=/bin HOME=/root" {
		t.Fatal(got)
	}
}
