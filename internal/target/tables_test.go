package target

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/wire"
)

// transientByHand says of each reason whether another try may help.
var transientByHand = map[Reason]bool{
	"unknown_step": false, "closed": true, "busy": true, "too_large": false, "not_utf8": false, "not_json": false,
	"wrong_type": false, "other_cluster": true, "empty_configuration": false, "setting_name": false, "too_many": false,
	"too_long": false, "certificate": false, "ca": false, "key": false, "key_and_certificate": false, "policy_name": false,
	"file_name": false, "file_mode": false, "name_clash": false, "cancelled": true, "changed_fleet": true, "storage": true,
	"nothing_configured": true, "damaged": true, "other_digest": true, "facts": true, "not_possible_here": false, "not_upgraded": true, "upgrade_refused": false,
	"hook": true, "hook_refused": true, "hooks_not_enabled": true, "confirm_older_demand": true, "confirm_other_digest": true, "confirm_other_fleet": true,
}

func checkReasons() error {
	if len(Reasons) != len(transientByHand) {
		return fmt.Errorf("%d reasons, want %d", len(Reasons), len(transientByHand))
	}
	for reason, want := range transientByHand {
		if transient(reason) != want {
			return fmt.Errorf("%s: transient is %v", reason, !want)
		}
	}
	return nil
}

func TestReasons(t *testing.T) {
	if err := checkReasons(); err != nil {
		t.Error(err)
	}
}

func TestMutationReasons(t *testing.T) {
	for i := range Reasons {
		Reasons[i].Transient = !Reasons[i].Transient
		if checkReasons() == nil {
			t.Errorf("flipping %s goes unseen", Reasons[i].Reason)
		}
		Reasons[i].Transient = !Reasons[i].Transient
	}
}

// digests and configurations of the table of wants.
var (
	dA, dB   = strings.Repeat("aa", 32), strings.Repeat("bb", 32)
	wholeA   = configured{manifest: manifest{Cluster: clusterA, Digest: dA, Demand: 3}}
	wholeB   = configured{manifest: manifest{Cluster: clusterA, Digest: dB, Demand: 3}}
	foreignA = configured{manifest: manifest{Cluster: clusterB, Digest: dA, Demand: 3}}
	damagedA = configured{manifest: manifest{Cluster: clusterA, Digest: dA, Demand: 3}, damage: `"x" is missing`}
	nothing  = configured{}
)

// checkWants writes the table of wants out: first boot, reprovision, missing or damaged, always, never; until confirmed.
func checkWants() error {
	for _, c := range []struct {
		name  string
		f     facts
		wants bool
		why   string
	}{
		{"first boot", facts{ModeAuto, clusterA, "", nothing, ""}, true, "first boot in this fleet"},
		{"first boot, configured and not confirmed", facts{ModeAuto, clusterA, "first boot in this fleet", wholeA, ""}, true, "first boot in this fleet"},
		{"reprovision", facts{ModeAuto, clusterA, "reprovision: disk", wholeA, ""}, true, "reprovision: disk"},
		{"reprovision, nothing there", facts{ModeAuto, clusterA, "reprovision", nothing, ""}, true, "reprovision"},
		{"reprovision, damaged", facts{ModeAuto, clusterA, "reprovision", damagedA, ""}, true, "reprovision"},
		{"confirmed", facts{ModeAuto, clusterA, "", wholeA, dA}, false, ""},
		{"confirmed, missing", facts{ModeAuto, clusterA, "", nothing, dA}, true, "provisioned configuration missing"},
		{"confirmed, damaged", facts{ModeAuto, clusterA, "", damagedA, dA}, true, `provisioned configuration damaged: "x" is missing`},
		{"confirmed, of another fleet", facts{ModeAuto, clusterA, "", foreignA, dA}, true, "configuration not confirmed"},
		{"confirmed, another configuration", facts{ModeAuto, clusterA, "", wholeB, dA}, true, "configuration not confirmed"},
		{"always, not confirmed since the boot", facts{ModeAlways, clusterA, "always", wholeA, ""}, true, "always"},
		{"always, confirmed since the boot", facts{ModeAlways, clusterA, "", wholeA, dA}, false, ""},
		{"always, damaged", facts{ModeAlways, clusterA, "", damagedA, dA}, true, `provisioned configuration damaged: "x" is missing`},
		{"never, first boot", facts{ModeNever, clusterA, "first boot in this fleet", nothing, ""}, false, "--provision-mode=never"},
		{"never, reprovision", facts{ModeNever, clusterA, "reprovision", wholeA, ""}, false, "--provision-mode=never"},
		{"never, damaged", facts{ModeNever, clusterA, "", damagedA, dA}, false, "--provision-mode=never"},
		{"never, confirmed", facts{ModeNever, clusterA, "", wholeA, dA}, false, "--provision-mode=never"},
	} {
		if want, why := wants(c.f); want != c.wants || why != c.why {
			return fmt.Errorf("%s: %v %q, want %v %q", c.name, want, why, c.wants, c.why)
		}
	}
	return nil
}

func TestWants(t *testing.T) {
	if err := checkWants(); err != nil {
		t.Error(err)
	}
}

func TestMutationWants(t *testing.T) {
	rows := wantRows
	defer func() { wantRows = rows }()
	for i, r := range rows {
		flipped := slices.Clone(rows)
		flipped[i].Wants = !r.Wants
		without := slices.Delete(slices.Clone(rows), i, i+1)
		silent := slices.Clone(rows)
		silent[i].Why = because("something else")
		turned := slices.Clone(rows)
		turned[i].When = func(f facts) bool { return !r.When(f) }
		for what, m := range map[string][]wantRow{"flipped": flipped, "left out": without, "with another reason": silent, "turned round": turned} {
			wantRows = m
			if checkWants() == nil {
				t.Errorf("the row %q %s goes unseen", r.Name, what)
			}
		}
	}
}

// checkBegin writes out what a boot begins with.
func checkBegin() error {
	rec := func(demand uint64, asked, confirmed string) state {
		return state{Format: 1, Cluster: clusterA, Demand: demand, Asked: asked, Confirmed: confirmed}
	}
	inUse := func(demand uint64, asked, used string) state {
		s := rec(demand, asked, "")
		s.Used = used
		return s
	}
	other := rec(3, "", dA)
	other.Cluster = clusterB
	bad := errors.New("bad")
	for _, c := range []struct {
		name   string
		record state
		err    error
		cur    configured
		mode   Mode
		want   state
		saved  bool
	}{
		{"first start", state{}, fs.ErrNotExist, nothing, ModeAuto, rec(1, "first boot in this fleet", ""), true},
		{"no record, a whole configuration", state{}, fs.ErrNotExist, wholeA, ModeAuto, rec(3, "first boot in this fleet", ""), true},
		{"no record, another fleet's", state{}, fs.ErrNotExist, foreignA, ModeAuto, rec(3, "first boot in this fleet", ""), true},
		{"unread, nothing", state{}, bad, nothing, ModeAuto, rec(1, "the record of what was provisioned does not read", ""), true},
		{"unread, whole", state{}, bad, wholeA, ModeAuto, inUse(4, "the record of what was provisioned does not read", dA), true},
		{"another fleet", other, nil, wholeA, ModeAuto, inUse(4, "first boot in this fleet", dA), true},
		{"another fleet, damaged", other, nil, damagedA, ModeAuto, inUse(4, "first boot in this fleet", dA), true},
		{"confirmed, missing", rec(3, "", dA), nil, nothing, ModeAuto, inUse(4, "provisioned configuration missing", dA), true},
		{"confirmed, damaged", rec(3, "", dA), nil, damagedA, ModeAuto, inUse(4, `provisioned configuration damaged: "x" is missing`, dA), true},
		{"confirmed, damaged and not recorded", rec(2, "", dA), nil, damagedA, ModeAuto, inUse(4, `provisioned configuration damaged: "x" is missing`, dA), true},
		{"confirmed, whole", rec(3, "", dA), nil, wholeA, ModeAuto, rec(3, "", dA), false},
		{"asked, missing", rec(3, "reprovision", ""), nil, nothing, ModeAuto, rec(3, "reprovision", ""), false},
		{"asked, damaged", rec(3, "reprovision", ""), nil, damagedA, ModeAuto, rec(3, "reprovision", ""), false},
		{"asked, whole", rec(4, "reprovision", ""), nil, wholeA, ModeAuto, rec(4, "reprovision", ""), false},
		{"configured and not recorded", rec(2, "", dA), nil, wholeA, ModeAuto, inUse(3, "configuration not confirmed", dA), true},
		{"always, confirmed", rec(3, "", dA), nil, wholeA, ModeAlways, inUse(4, "always", dA), true},
		{"in use, asked", inUse(3, "reprovision", dB), nil, wholeA, ModeAuto, inUse(3, "reprovision", dB), false},
		{"in use, another confirmed, always", state{Format: 1, Cluster: clusterA, Demand: 3, Confirmed: dA, Used: dB}, nil, wholeA, ModeAlways, inUse(4, "always", dA), true},
		{"always, first start", state{}, fs.ErrNotExist, nothing, ModeAlways, rec(2, "always", ""), true},
		{"always, asked", rec(3, "always", ""), nil, wholeA, ModeAlways, rec(4, "always", ""), true},
		{"always before, auto now", rec(3, "always", ""), nil, wholeA, ModeAuto, rec(3, "configuration not confirmed", ""), true},
		{"never, confirmed", rec(3, "", dA), nil, wholeA, ModeNever, rec(3, "", dA), false},
		{"never, another fleet", other, nil, wholeA, ModeNever, inUse(4, "first boot in this fleet", dA), true},
	} {
		if got, saved := begin(c.record, c.err, c.cur, clusterA, c.mode); got != c.want || saved != c.saved {
			return fmt.Errorf("%s: %+v (saved %v), want %+v", c.name, got, saved, c.want)
		}
	}
	return nil
}

func TestBegin(t *testing.T) {
	if err := checkBegin(); err != nil {
		t.Error(err)
	}
}

func TestMutationBegin(t *testing.T) {
	rows := beginRows
	defer func() { beginRows = rows }()
	for i, r := range rows {
		with := func(change func(*beginRow)) []beginRow {
			m := slices.Clone(rows)
			change(&m[i])
			return m
		}
		for what, m := range map[string][]beginRow{
			"turned round":        with(func(b *beginRow) { b.When = func(f found) bool { return !r.When(f) } }),
			"that never holds":    with(func(b *beginRow) { b.When = func(found) bool { return false } }),
			"with another demand": with(func(b *beginRow) { b.New = !r.New }),
			"with another reason": with(func(b *beginRow) { b.Why = always("something else") }),
		} {
			beginRows = m
			if checkBegin() == nil {
				t.Errorf("the row %q %s goes unseen", r.Name, what)
			}
		}
	}
}

func checkConfirms() error {
	for _, c := range []struct {
		name   string
		cur    configured
		demand uint64
		digest string
		reason Reason
	}{
		{"counts", wholeA, 3, dA, ""},
		{"nothing there", nothing, 3, dA, "confirm_other_digest"},
		{"no digest", nothing, 3, "", "confirm_other_digest"},
		{"no digest, whole", wholeA, 3, "", "confirm_other_digest"},
		{"another digest", wholeA, 3, dB, "confirm_other_digest"},
		{"another digest and all the rest", configured{manifest: manifest{Cluster: clusterB, Digest: dA, Demand: 2}, damage: "x"}, 3, dB, "confirm_other_digest"},
		{"damaged", damagedA, 3, dA, "damaged"},
		{"damaged and all the rest", configured{manifest: manifest{Cluster: clusterB, Digest: dA, Demand: 2}, damage: "x"}, 3, dA, "damaged"},
		{"another fleet's", foreignA, 3, dA, "confirm_other_fleet"},
		{"another fleet's, and older", foreignA, 4, dA, "confirm_other_fleet"},
		{"made for an earlier demand", wholeA, 4, dA, "confirm_older_demand"},
	} {
		reason, ok := confirms(facts{cluster: clusterA, current: c.cur}, c.demand, c.digest)
		if reason != c.reason || ok != (c.reason == "") {
			return fmt.Errorf("%s: %q, want %q", c.name, reason, c.reason)
		}
	}
	return nil
}

func TestConfirms(t *testing.T) {
	if err := checkConfirms(); err != nil {
		t.Error(err)
	}
}

func TestMutationConfirms(t *testing.T) {
	rows := confirmRows
	defer func() { confirmRows = rows }()
	for i, r := range rows {
		turned := slices.Clone(rows)
		turned[i].Bad = func(f facts, d uint64, s string) bool { return !r.Bad(f, d, s) }
		for what, m := range map[string][]confirmRow{"left out": slices.Delete(slices.Clone(rows), i, i+1), "turned round": turned} {
			confirmRows = m
			if checkConfirms() == nil {
				t.Errorf("the row %s %s goes unseen", r.Reason, what)
			}
		}
		if i > 0 {
			confirmRows = slices.Clone(rows)
			confirmRows[i-1], confirmRows[i] = confirmRows[i], confirmRows[i-1]
			if checkConfirms() == nil {
				t.Errorf("the row %s before %s goes unseen", r.Reason, rows[i-1].Reason)
			}
		}
	}
}

func TestMutationBodyChecks(t *testing.T) {
	rows := bodyChecks
	defer func() { bodyChecks = rows }()
	for i, r := range rows {
		bodyChecks = slices.Delete(slices.Clone(rows), i, i+1)
		if checkRefusedBodies() == nil {
			t.Errorf("the check %s left out goes unseen", r.Reason)
		}
		bodyChecks = slices.Clone(rows)
		bodyChecks[i].Bad = func(b *wire.ConfigureBody, c setting) string {
			if r.Bad(b, c) != "" {
				return ""
			}
			return "turned round"
		}
		if checkRefusedBodies() == nil {
			t.Errorf("the check %s turned round goes unseen", r.Reason)
		}
	}
}

// TestMutationBounds changes every row of the tables of counts, sizes and modes.
func TestMutationBounds(t *testing.T) {
	for i := range countRows {
		was := countRows[i].Max
		countRows[i].Max = MaxBody
		if checkRefusedBodies() == nil {
			t.Errorf("no bound on how many of %s goes unseen", countRows[i].Key)
		}
		countRows[i].Max = was
	}
	for i := range sizeRows {
		was := sizeRows[i].Max
		sizeRows[i].Max = MaxBody
		if checkRefusedBodies() == nil {
			t.Errorf("no bound on the length of %s goes unseen", sizeRows[i].Key)
		}
		sizeRows[i].Max = was
	}
	rows := modeRows
	defer func() { modeRows = rows }()
	for i, r := range rows {
		modeRows = slices.Delete(slices.Clone(rows), i, i+1)
		if checkRefusedBodies() == nil {
			t.Errorf("the mode's check %q left out goes unseen", r.Name)
		}
	}
}

// checkNames writes out what each system takes as a path.
func checkNames() error {
	for _, c := range []struct {
		path             string
		everywhere, only string // row that refuses it on all systems; on Windows only
	}{
		{"", "empty", ""}, {"a", "", ""}, {"a/b.c", "", ""}, {"a b", "", ""}, {"größe", "", ""},
		{"a\tb", "text", ""}, {"a\x7f", "text", ""}, {"\u202egpj.x", "text", ""}, {"\xff", "text", ""}, {"/\n", "text", ""},
		{strings.Repeat("ab/", 171) + "x", "long", ""}, {strings.Repeat("d/", 16) + "x", "deep", ""}, {strings.Repeat("d/", 15) + "x", "", ""},
		{"/a", "absolute", ""}, {"//host/share", "absolute", ""}, {`\\host\share`, "backslash", ""}, {`a\..\b`, "backslash", ""},
		{"..", "dots", ""}, {".", "dots", ""}, {"a/..", "dots", ""}, {"../a", "dots", ""}, {"a/./b", "dots", ""}, {"a/..//b", "dots", ""},
		{"a//b", "hollow", ""}, {"a/", "hollow", ""},
		{strings.Repeat("x", 255), "", ""}, {strings.Repeat("x", 256), "part", ""}, {"a/" + strings.Repeat("é", 128), "part", ""},
		{"C:x", "", "character"}, {"a:stream", "", "character"}, {"a?", "", "character"}, {"a*", "", "character"}, {"a|b", "", "character"},
		{"<a", "", "character"}, {">a", "", "character"}, {`"a`, "", "character"},
		{"a.", "", "ending"}, {"a /b", "", "ending"}, {"...", "", "ending"},
		{"con", "", "device"}, {"a/NUL", "", "device"}, {"nul.txt", "", "device"}, {"Aux.tar.gz", "", "device"}, {"prn", "", "device"},
		{"COM1", "", "device"}, {"lpt9.log", "", "device"}, {"com¹", "", "device"}, {"CONIN$", "", "device"}, {"conout$", "", "device"}, {"nul .x", "", "device"},
		{"COM10", "", ""}, {"COM", "", ""}, {"console", "", ""}, {"x.nul", "", ""}, {"lptx", "", ""},
	} {
		for _, system := range []string{"linux", "darwin", "windows"} {
			want := c.everywhere
			if want == "" && system == "windows" {
				want = c.only
			}
			got := ""
			why := badName(c.path, system)
			for _, r := range nameRows {
				if r.Say == why {
					got = r.Name
				}
			}
			if got != want || (why == "") != (want == "") {
				return fmt.Errorf("%q on %s: %q (%s), want %q", c.path, system, got, why, want)
			}
		}
	}
	return nil
}

func TestNames(t *testing.T) {
	if err := checkNames(); err != nil {
		t.Error(err)
	}
}

func TestMutationNames(t *testing.T) {
	rows := nameRows
	defer func() { nameRows = rows }()
	for i, r := range rows {
		turned := slices.Clone(rows)
		turned[i].Windows = !r.Windows
		// Without the first row the others would read a path's first byte.
		if i > 0 {
			nameRows = slices.Delete(slices.Clone(rows), i, i+1)
			if checkNames() == nil {
				t.Errorf("the row %q left out goes unseen", r.Name)
			}
			nameRows = turned
			if checkNames() == nil {
				t.Errorf("the row %q on other systems goes unseen", r.Name)
			}
		}
		swapped := slices.Clone(rows)
		swapped[i].Bad = func(string) bool { return false }
		swapped[0].Bad = func(p string) bool { return p == "" && i != 0 }
		nameRows = append([]nameRow{{"guard", false, func(p string) bool { return p == "" && i == 0 }, "guard"}}, swapped...)
		if checkNames() == nil {
			t.Errorf("the row %q that refuses nothing goes unseen", r.Name)
		}
	}
}

func TestClashesBySystem(t *testing.T) {
	for _, c := range []struct {
		names  []string
		system string
		clash  bool
	}{
		{[]string{"a", "A"}, "linux", false}, {[]string{"a", "A"}, "windows", true}, {[]string{"a", "A"}, "darwin", true},
		{[]string{"Dir/x", "dir"}, "linux", false}, {[]string{"Dir/x", "dir"}, "windows", true}, {[]string{"Dir/x", "dir"}, "darwin", true},
		{[]string{"dir/x", "dir/y"}, "windows", false}, {[]string{"dir", "dir/y"}, "linux", true},
	} {
		b := body("x")
		b.Files = map[string]wire.WorkFile{}
		for _, n := range c.names {
			b.Files[n] = wire.WorkFile{}
		}
		r := judge(&b, setting{clusterA, c.system})
		if (r != nil && r.reason == ReasonNameClash) != c.clash || (r == nil) == c.clash {
			t.Errorf("%q on %s: %+v", c.names, c.system, r)
		}
	}
	b := body("x")
	b.ActionPolicies = map[string]string{"A.policy": "", "a.policy": ""}
	if r := judge(&b, setting{clusterA, "darwin"}); r == nil || r.reason != ReasonNameClash {
		t.Errorf("%+v", r)
	}
}

func TestSteps(t *testing.T) {
	if err := checkSteps(); err != nil {
		t.Error(err)
	}
	if _, ok := LookupStep("reboot"); ok {
		t.Error("an unknown step is known")
	}
	if row, ok := wire.LookupVerb(wire.VerbWork); !ok || row.Ceiling != MaxBody {
		t.Errorf("the verb carries %d bytes, a body may have %d", row.Ceiling, MaxBody)
	}
}
