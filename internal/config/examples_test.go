package config

import (
	"slices"
	"strings"
	"testing"
)

// TestExamplesAreTaken: what the page shows is what the program takes, and both spellings of the settings say the same.
func TestExamplesAreTaken(t *testing.T) {
	file, _, err := Parse([]string{"--config=f"}, nil, nil, func(string) ([]byte, error) { return []byte(fileExample), nil })
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]Stored{}
	for line := range strings.Lines(storedExample) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = Stored{Value: strings.Trim(value, `"`), Where: "the example"}
	}
	stored, _, err := Parse(nil, nil, func() (map[string]Stored, error) { return values, nil }, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []Config{file, stored} {
		if c.Name != "reception-1" || c.Labels["rack"] != "7" || c.Labels["site"] != "north" || !slices.Equal(c.FleetSeeds, stored.FleetSeeds) || len(c.FleetSeeds) != 2 {
			t.Errorf("%+v", c)
		}
	}
	for _, e := range commandExamples() {
		if _, _, err := Parse(strings.Fields(e.Command)[1:], nil, nil, nil); err != nil {
			t.Errorf("%s: %v", e.Command, err)
		}
	}
}
