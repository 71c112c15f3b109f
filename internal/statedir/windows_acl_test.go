package statedir

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pace-node/internal/wire"
)

const (
	sidUser      = "S-1-5-21-1-2-3-1001"
	sidUsers     = "S-1-5-32-545" // BUILTIN\Users
	sidEveryone  = "S-1-1-0"
	fullControl  = 0x1F01FF
	readExecute  = 0x1200A9
	addFileRight = 0x2
)

// checkACL asks each row by hand: what %ProgramData% hands down is the case that matters.
func checkACL() error {
	ours := []aclEntry{{true, sidSystem, fullControl}, {true, sidAdministrators, fullControl}}
	with := func(e ...aclEntry) []aclEntry { return append(slices.Clone(ours), e...) }
	bad := with(aclEntry{true, sidUsers, fullControl})
	cells := []struct {
		name string
		kind kind
		f    aclFacts
		want string
	}{
		{"as it is made", kindDir, aclFacts{Directory: true, Owner: sidSystem, Entries: ours, Self: sidSystem}, ""},
		{"an administrator's", kindDir, aclFacts{Directory: true, Owner: sidAdministrators, Entries: ours, Self: sidUser}, ""},
		{"a user's own", kindDir, aclFacts{Directory: true, Owner: sidUser, Entries: with(aclEntry{true, sidUser, fullControl}), Self: sidUser}, ""},
		{"users may look", kindDir, aclFacts{Directory: true, Owner: sidSystem, Entries: with(aclEntry{true, sidUsers, readExecute}), Self: sidSystem}, ""},
		{"junction", kindDir, aclFacts{Reparse: true, Owner: sidUser, Entries: bad, Self: sidSystem}, "junction"},
		{"a file there", kindDir, aclFacts{Owner: sidUser, Entries: bad, Self: sidSystem}, "not what belongs there"},
		{"squatted", kindDir, aclFacts{Directory: true, Owner: sidUser, Entries: bad, Self: sidSystem}, "belongs to " + sidUser},
		{"inherited from ProgramData", kindDir, aclFacts{Directory: true, Owner: sidSystem, Entries: with(aclEntry{true, sidUsers, addFileRight}), Self: sidSystem}, "written by others (" + sidUsers},
		{"no list", kindDir, aclFacts{Directory: true, Owner: sidSystem, NullACL: true, Self: sidSystem}, "no access list"},
		{"everyone may delete", kindFile, aclFacts{Owner: sidSystem, Entries: with(aclEntry{true, sidEveryone, rightDelete}), Self: sidSystem}, "written by others"},
		{"everyone may take it", kindFile, aclFacts{Owner: sidSystem, Entries: with(aclEntry{true, sidEveryone, rightWriteOwner}), Self: sidSystem}, "written by others"},
		{"denied only", kindFile, aclFacts{Owner: sidSystem, Entries: with(aclEntry{false, sidEveryone, fullControl}), Self: sidSystem}, ""},
		{"record that users read", kindFile, aclFacts{Owner: sidSystem, Entries: with(aclEntry{true, sidUsers, readExecute}), Self: sidSystem}, ""},
		{"key that users read", kindSecret, aclFacts{Owner: sidSystem, Entries: with(aclEntry{true, sidUsers, readExecute}), Self: sidSystem}, "read by others"},
		{"key that users write", kindSecret, aclFacts{Owner: sidSystem, Entries: bad, Self: sidSystem}, "written by others"},
		{"key", kindSecret, aclFacts{Owner: sidSystem, Entries: ours, Self: sidSystem}, ""},
	}
	for _, c := range cells {
		err := judgeACL(`C:\s`, c.kind, c.f)
		if err == nil && c.want != "" || err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)) {
			return fmt.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	return nil
}

func TestACLChecks(t *testing.T) {
	if err := checkACL(); err != nil {
		t.Error(err)
	}
}

func TestMutationACLChecks(t *testing.T) {
	for i := range aclChecks {
		old := aclChecks[i]
		aclChecks[i].Bad = func(k kind, f aclFacts) bool { return !old.Bad(k, f) }
		if checkACL() == nil {
			t.Errorf("row %q turned round, and nothing noticed", old.Name)
		}
		aclChecks[i].Bad = func(kind, aclFacts) bool { return false }
		if checkACL() == nil {
			t.Errorf("row %q taken out, and nothing noticed", old.Name)
		}
		aclChecks[i] = old
		if i > 0 {
			aclChecks[i], aclChecks[i-1] = aclChecks[i-1], aclChecks[i]
			if checkACL() == nil {
				t.Errorf("rows %d and %d swapped, and nothing noticed", i-1, i)
			}
			aclChecks[i], aclChecks[i-1] = aclChecks[i-1], aclChecks[i]
		}
	}
}

func TestSDDL(t *testing.T) {
	for _, c := range []struct {
		self  string
		admin bool
		want  []string
	}{
		{"S-1-5-18", true, []string{"O:SYG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"}},
		{sidUser, true, []string{"O:SYG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)", "O:BAG:SYD:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"}},
		{sidUser, false, []string{"O:S-1-5-21-1-2-3-1001G:S-1-5-21-1-2-3-1001D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;S-1-5-21-1-2-3-1001)"}},
	} {
		diff(t, c.self, c.want, sddlChoices(c.self, c.admin))
	}
}

// checkRecordRows takes each field's check by hand: a record that only that row refuses.
func checkRecordRows() error {
	good := func() Record {
		return Record{Format: 1, NodeID: zeroes, PublicKey: goodKey, Mode: "voter", Cluster: zeroes}
	}
	target := func() *Target { return &Target{Cluster: zeroes, Endpoint: "h:1", Keys: []string{goodKey}} }
	other := strings.Repeat("1", 32)
	order := func(old string) []byte {
		return (&wire.DissolveOrder{OldCluster: old, Survivor: zeroes, LeaderID: "n", LeaderEndpoint: "h:1", Signer: "m"}).Append(nil)
	}
	cells := []struct {
		field  string
		change func(r *Record)
	}{
		{"format", func(r *Record) { r.Format = 2 }},
		{"node_id", func(r *Record) { r.NodeID = "A" + zeroes[1:] }},
		{"public_key", func(r *Record) { r.PublicKey = goodKey[1:] }},
		{"mode", func(r *Record) { r.Mode = "Voter" }},
		{"cluster", func(r *Record) { r.Cluster = "" }},
		{"target", func(r *Record) { r.Mode = "pending" }},
		{"target", func(r *Record) { r.Target = target() }},
		{"target.cluster", func(r *Record) { r.Mode, r.Target = "pending", target(); r.Target.Cluster = "" }},
		{"target.endpoint", func(r *Record) { r.Mode, r.Target = "pending", target(); r.Target.Endpoint = "h" }},
		{"target.fallback", func(r *Record) { r.Mode, r.Target = "pending", target(); r.Target.Fallback = "h" }},
		{"target.keys", func(r *Record) { r.Mode, r.Target = "pending", target(); r.Target.Keys = nil }},
		{"target.keys", func(r *Record) { r.Mode, r.Target = "pending", target(); r.Target.Keys = []string{goodKey, "x"} }},
		{"joined.signer", func(r *Record) { r.Joined = &Joined{} }},
		{"joined.roster", func(r *Record) { r.Joined = &Joined{Signer: goodKey, Roster: []byte("{")} }},
		{"recovery", func(r *Record) { r.Recovery = &Recovery{From: FromVoter} }},
		{"recovery", func(r *Record) { r.Recovery = &Recovery{Epoch: 1, From: "x"} }},
		{"recovery", func(r *Record) { r.Mode, r.Recovery = "learner", &Recovery{Epoch: 1, From: FromLearner} }},
		{"rejections", func(r *Record) { r.Rejections = []Rejection{{}} }},
		{"revoked_in", func(r *Record) { r.RevokedIn = []string{"a\x00"} }},
		{"old_cluster", func(r *Record) { r.OldCluster = other }},
		{"old_cluster", func(r *Record) { r.Order = order(other) }},
		{"old_cluster", func(r *Record) { r.Order, r.OldCluster = order(other), "a\x00" }},
		{"order", func(r *Record) { r.Order, r.OldCluster = order(other)[1:], other }},
		{"order", func(r *Record) { r.Order, r.OldCluster = append(order(other), 0), other }},
		{"order", func(r *Record) { r.Order, r.OldCluster = order(zeroes), other }},
		{"remembered", func(r *Record) { r.Remembered = []string{":1"} }},
	}
	if r := good(); r.check() != nil {
		return r.check()
	}
	obeyed := good()
	obeyed.Order, obeyed.OldCluster = order(other), other
	if err := obeyed.check(); err != nil {
		return err
	}
	pending := good()
	pending.Mode, pending.Target = "pending", target()
	if err := pending.check(); err != nil {
		return err
	}
	for _, c := range cells {
		r := good()
		c.change(&r)
		if err := r.check(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", c.field)) {
			return fmt.Errorf("a bad %s: %v", c.field, err)
		}
	}
	return nil
}

const goodKey = "dVxMuSVsp83ErP3Gz-7ahJAX5bn5UU6ZGRvWfgsNQnY"

func TestRecordChecks(t *testing.T) {
	if err := checkRecordRows(); err != nil {
		t.Error(err)
	}
}

func TestMutationRecordChecks(t *testing.T) {
	for i := range recordChecks {
		old := recordChecks[i]
		recordChecks[i].Good = func(*Record) bool { return true }
		if checkRecordRows() == nil {
			t.Errorf("row %q taken out, and nothing noticed", old.Name)
		}
		recordChecks[i] = old
	}
}

// TestOutsider: who else could put a program of his own in the place of the service's.
func TestOutsider(t *testing.T) {
	const installer = "S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464"
	programs := []aclEntry{{true, installer, fullControl}, {true, sidSystem, fullControl}, {true, sidAdministrators, fullControl}, {true, sidUsers, readExecute}}
	authenticated := append(slices.Clone(programs), aclEntry{true, "S-1-5-11", 0x1301BF}) // what C:\ hands down: modify
	for name, c := range map[string]struct {
		f      aclFacts
		rights uint32
		want   string
	}{
		"Program Files":        {aclFacts{Owner: installer, Entries: programs}, rightsReplace, ""},
		"a file in it":         {aclFacts{Owner: sidSystem, Entries: programs}, rightsChange, ""},
		"a folder below C:\\":  {aclFacts{Owner: sidAdministrators, Entries: authenticated}, rightsChange, "S-1-5-11"},
		"a user's download":    {aclFacts{Owner: sidUser, Entries: programs, Self: sidUser}, rightsChange, sidUser},
		"no list":              {aclFacts{Owner: sidSystem, NullACL: true}, rightsChange, "everybody"},
		"denied only":          {aclFacts{Owner: sidSystem, Entries: []aclEntry{{false, sidUsers, fullControl}}}, rightsChange, ""},
		"users add files only": {aclFacts{Owner: sidSystem, Entries: []aclEntry{{true, sidUsers, addFileRight}}}, rightsReplace, ""},
		"users delete in it":   {aclFacts{Owner: sidSystem, Entries: []aclEntry{{true, sidUsers, 0x40}}}, rightsReplace, sidUsers},
	} {
		if got := c.f.outsider(c.rights); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
