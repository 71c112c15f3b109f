package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func reached() Remote {
	return Remote{
		OS: "linux", Endpoint: "birch:6674", Host: "birch", Port: "6674", Addresses: []string{"10.1.0.3"},
		Key: "k", ID: "0a", Name: "birch", Version: "1.0.0", Cluster: "cc", State: "established", Members: 3, Wire: []int{1},
		Raft: "10.1.0.3:6680", UDP: true, OwnCluster: "cc", OwnVersion: "1.0.0",
	}
}

var remoteCells = []struct {
	what    string
	change  func(r *Remote)
	check   string
	verdict Verdict
	says    string
	remedy  string
	silent  string // a check that then says nothing
}{
	{"no such name", func(r *Remote) { r.NameErr, r.UDP = "no such host", false }, "name", Problem, "no such host", "pacectl doctor ADDRESS", "tcp identity fleet version clock udp consensus"},
	{"nothing listens", func(r *Remote) { r.ConnectErr, r.UDP = "connection refused", false }, "tcp", Problem, "tcp port 6674 takes no connection: connection refused", "pacectl doctor # on", "identity fleet version clock consensus"},
	{"nothing answers at all", func(r *Remote) { r.ConnectErr, r.UDP, r.UDPErr = "timeout", false, "no answer" }, "udp", Unknown, "no answer", "", "identity"},
	{"something else listens", func(r *Remote) { r.TLSErr = "not a TLS record" }, "identity", Problem, "does not speak as a pace-node", "--print-surfaces", "fleet version clock consensus"},
	{"it does not answer", func(r *Remote) { r.AnswerErr = "busy" }, "identity", Problem, "key k, and does not answer", "pacectl doctor # on", "fleet version clock consensus"},
	{"it waits", func(r *Remote) { r.State = "pending" }, "fleet", Notice, "waits to be approved", "pacectl enroll list", ""},
	{"another fleet", func(r *Remote) { r.OwnCluster = "dd" }, "fleet", Notice, "fleet cc [established, 3 members], and this machine in dd", "pacectl fleet status", ""},
	{"another protocol", func(r *Remote) { r.Wire = []int{2} }, "version", Problem, "version 1 of the protocol", "pacectl node", ""},
	{"another version", func(r *Remote) { r.OwnVersion = "0.9.0" }, "version", Notice, "it runs version 1.0.0, and this machine 0.9.0", "", ""},
	{"another clock", func(r *Remote) { r.ClockAhead = -time.Hour }, "clock", Warning, "1h0m0s", "timedatectl", ""},
	{"no answer to a beacon", func(r *Remote) { r.UDP, r.UDPErr = false, "no answer" }, "udp", Notice, "no answer", "pacectl doctor # on", ""},
	{"its consensus port is closed", func(r *Remote) { r.RaftErr = "no route" }, "consensus", Warning, "10.1.0.3:6680 takes no connection: no route", "pacectl doctor # on", ""},
	{"a learner", func(r *Remote) { r.Raft = "" }, "consensus", OK, "learner", "", ""},
	{"no node here", func(r *Remote) { r.OwnCluster, r.OwnVersion = "", "" }, "fleet", OK, "fleet cc", "", ""},
	{"an address", func(r *Remote) { r.Addresses = nil }, "tcp", OK, "6674", "", "name"},
}

func checkRemoteCells() error {
	r := reached()
	got := ExamineRemote(&r)
	for _, x := range got {
		if x.Verdict != OK {
			return fmt.Errorf("of a machine that is well: %s is %s: %s", x.Check, x.Verdict, x.Detail)
		}
	}
	if len(got) != len(RemoteChecks) {
		return fmt.Errorf("%d findings", len(got))
	}
	for _, c := range remoteCells {
		r := reached()
		c.change(&r)
		got := ExamineRemote(&r)
		if !slices.ContainsFunc(got, func(x Finding) bool {
			return x.Check == c.check && x.Verdict == c.verdict && strings.Contains(x.Detail, c.says) && strings.Contains(x.Remedy, c.remedy) && (c.remedy == "") == (x.Remedy == "")
		}) {
			return fmt.Errorf("%s: no %s of %s that says %q and %q in %+v", c.what, c.verdict, c.check, c.says, c.remedy, got)
		}
		for _, x := range got {
			if slices.Contains(strings.Fields(c.silent), x.Check) {
				return fmt.Errorf("%s: %s says %q", c.what, x.Check, x.Detail)
			}
		}
	}
	return nil
}

func TestMutationRemoteChecks(t *testing.T) {
	if err := checkRemoteCells(); err != nil {
		t.Fatal(err)
	}
	for i := range RemoteChecks {
		for name, flip := range map[string]func(c *RemoteCheck){
			"the name":  func(c *RemoteCheck) { c.Name += "x" },
			"the judge": func(c *RemoteCheck) { c.Judge = func(*Remote) []Finding { return []Finding{well("")} } },
		} {
			was := RemoteChecks[i]
			flip(&RemoteChecks[i])
			if checkRemoteCells() == nil {
				t.Errorf("%s: %s flipped, and nobody noticed", was.Name, name)
			}
			RemoteChecks[i] = was
		}
		if RemoteChecks[i].Looks == "" {
			t.Errorf("%s does not say what it looks at", RemoteChecks[i].Name)
		}
	}
}
