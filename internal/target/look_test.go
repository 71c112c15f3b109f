package target

import (
	"os"
	"path/filepath"
	"testing"
)

// twice looks twice, and tells whether either asked.
func twice(tg *Target) bool {
	first := tg.Look()
	return tg.Look() || first
}

// TestLookFindsWhatAStartFinds: what is missing or damaged under a running machine makes it want provisioning, for the reason that a
// start would give, once two looks have found it.
func TestLookFindsWhatAStartFinds(t *testing.T) {
	for _, c := range allSpoiled() {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t)
			tg := provisioned(t, config(dir), "one")
			for range 3 {
				if tg.Look() {
					t.Fatal("it asks where nothing is amiss")
				}
			}
			if err := c.spoil(c.path(t, dir)); err != nil {
				t.Fatal(err)
			}
			if tg.Look() {
				t.Error("it asks at the first look")
			}
			expect(t, tg, "after one look", says{false, "", "server"})
			if !tg.Look() {
				t.Error("it does not ask at the second look")
			}
			expect(t, tg, "after two looks", says{true, c.why, "provision_mode_server"})
			if twice(tg) {
				t.Error("it asks again while it is not provisioned")
			}
			d := configure(t, tg, body("one"))
			restart(t, tg, d)
			tg.Confirmed(d)
			expect(t, tg, "provisioned again", says{false, "", "server"})
			if twice(tg) {
				t.Error("it asks where it was mended")
			}
		})
	}
}

// TestLookIsPatient: one look alone, and two with a step between them or with another finding, ask for nothing; nor does anybody look
// where no confirmed configuration runs.
func TestLookIsPatient(t *testing.T) {
	dir := folder(t)
	tg := provisioned(t, config(dir), "one")
	file := filepath.Join(dir, currentDir, configurationFile)
	was, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asks := func(when string, want bool) {
		t.Helper()
		if got := tg.Look(); got != want {
			t.Errorf("%s a look asks: %v", when, got)
		}
	}
	write(nil)
	asks("first", false)
	write(was)
	asks("whole again,", false)
	write(nil)
	asks("spoiled anew,", false)
	if a := tg.Work(t.Context(), "inventory", nil); !a.OK {
		t.Fatal(a.Error)
	}
	asks("after a step,", false)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	asks("damaged in another way,", false)
	expect(t, tg, "by then", says{false, "", "server"})
	tg.Reprovision("")
	asks("asked to be provisioned,", false)
	asks("asked to be provisioned, and looked at again,", false)
	tg.Stop()
	asks("stopping,", false)

	never := config(folder(t))
	n := provisioned(t, never, "one")
	n = reopen(t, n, func(c *Config) { c.Mode = string(ModeNever) })
	if err := os.RemoveAll(filepath.Join(never.Dir, currentDir)); err != nil {
		t.Fatal(err)
	}
	if twice(n) {
		t.Error("a machine that nobody provisions asks")
	}
}
