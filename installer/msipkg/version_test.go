package msipkg

import (
	"errors"
	"testing"
)

func TestVersion(t *testing.T) {
	for describe, want := range map[string]Version{
		"1.2.3":                     {Shown: "1.2.3", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 1000}},
		"v1.2.3":                    {Shown: "1.2.3", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 1000}},
		"1.2.3-dirty":               {Shown: "1.2.3", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 1000}},
		"1.2.3-alpha2":              {Shown: "1.2.3.2", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 2}},
		"1.2.3-beta.2":              {Shown: "1.2.3.202", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 202}},
		"1.2.3-rc1":                 {Shown: "1.2.3.401", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 401}},
		"1.2.3~rc1":                 {Shown: "1.2.3.401", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 401}},
		"1.2.3-rc1-5-gabcdef0":      {Shown: "1.2.3.401", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 401}},
		"1.2.3-5-gabcdef0":          {Shown: "1.2.3.1005", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 1005}},
		"1.2.3-70000-gabcdef0":      {Shown: "1.2.3.65535", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 65535}},
		"v255.255.65535":            {Shown: "255.255.65535", Compared: "255.255.65535", File: [4]uint16{255, 255, 65535, 1000}},
		"1.2.3-5-gabcdef0-dirty":    {Shown: "1.2.3.1005", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 1005}},
		"abcdef0":                   {Shown: "0.0.0", Compared: "0.0.0"},
		"abcdef0123456789-dirty":    {Shown: "0.0.0", Compared: "0.0.0"},
		"0.0.1":                     {Shown: "0.0.1", Compared: "0.0.1", File: [4]uint16{0, 0, 1, 1000}},
		"1.2.3-rc199-1-g0123-dirty": {Shown: "1.2.3.599", Compared: "1.2.3", File: [4]uint16{1, 2, 3, 599}},
	} {
		want.Described = describe
		if got, err := ParseVersion(describe); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", describe, got, err, want)
		}
	}
	for _, bad := range []string{"", "main", "v1.2", "256.0.0", "1.256.0", "1.2.65536", "1.2.3-rc200", "1.2.3-pre1", "1.2.3 ", "-1.2.3", "1.2.3-0x5"} {
		if got, err := ParseVersion(bad); !errors.Is(err, ErrPlan) {
			t.Errorf("%q became %+v, %v", bad, got, err)
		}
	}
}
