package control

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func (m *MemberStatus) finish() {
	m.Admit = ""
	if m.Role == "learner" {
		host, port := m.futureRaft()
		m.Admit = AdmitCommand(m.ID, host, port, m.Key)
	}
}

// raft is the consensus endpoint as it is shown: a learner's is where it would open one.
func (m *MemberStatus) raft() string {
	host, port := m.futureRaft()
	if m.Role != "learner" || host == "" {
		return m.Endpoints.Raft
	}
	return host + ":" + strconv.Itoa(port)
}

// futureRaft is where a learner would open its consensus endpoint: where it announced, else at its 0xFC endpoint's host.
// The admit line and the column show the same.
func (m *MemberStatus) futureRaft() (host string, port int) {
	if host = hostOf(m.Endpoints.Raft); host != "" {
		if port, err := strconv.Atoi(m.Endpoints.Raft[len(host)+1:]); err == nil {
			return host, port
		}
	}
	return hostOf(m.Endpoints.FC), cmp.Or(m.RaftPort, DefaultRaftPort)
}

func (m *MemberStatus) heardText() string {
	switch {
	case m.Self:
		return "self"
	case !m.Arrived && m.AdmittedMS >= neverArrivedAfter.Milliseconds():
		return "never arrived"
	}
	return heard(m.HeardMS)
}

// line is: id, name, role, platform, version, provisioning, endpoint, consensus
// endpoint, last heard; then a line of its labels and a learner's admit line.
func (m *MemberStatus) line(l *lines) {
	provisioning, _, _ := strings.Cut(m.Provisioning, ":") // what comes behind is for member show
	l.words(Word(m.ID), Word(m.Name), Word(m.Role), Word(m.Platform), Word(m.Version), Word(provisioning), Word(m.Endpoints.FC), Word(m.raft()), m.heardText())
	if len(m.Labels) > 0 {
		l.words(append([]string{"labels"}, m.labels()...)...)
	}
	if m.Admit != "" {
		l.words("admit", m.Admit)
	}
}

// labels are key=value, in the order of the keys.
func (m *MemberStatus) labels() (out []string) {
	for _, k := range slices.Sorted(maps.Keys(m.Labels)) {
		out = append(out, Word(k)+"="+Word(m.Labels[k]))
	}
	return out
}

func (d *MemberList) finish() {
	d.V = DocumentVersion
	d.Members = orEmpty(d.Members)
	for i := range d.Members {
		d.Members[i].finish()
	}
}

// Text is a line a member, as in the fleet's status.
func (d *MemberList) Text() string {
	d.finish()
	return d.words()
}

func (d *MemberList) words() string {
	var l lines
	l.add("view %s", viewText(d.View))
	for i := range d.Members {
		d.Members[i].line(&l)
	}
	return l.String()
}

func (d *MemberShow) finish() {
	d.V = DocumentVersion
	d.Member.finish()
}

// Text is "name  value" lines.
func (d *MemberShow) Text() string {
	d.finish()
	return d.words()
}

func (d *MemberShow) words() string {
	var l lines
	m := &d.Member
	say := func(name, value string) { l.add("%s  %s", name, value) }
	say("id", Word(m.ID))
	say("name", Word(m.Name))
	say("role", Word(m.Role))
	say("key", Word(m.Key))
	say("platform", Word(m.Platform))
	say("version", Word(m.Version))
	say("provisioning", orText(Sentence(m.Provisioning), nothing))
	say("endpoint", Word(m.Endpoints.FC))
	say("consensus-endpoint", Word(m.raft()))
	say("last-heard", m.heardText())
	say("admitted", date(m.Admitted))
	say("admitted-by", Word(m.AdmittedBy))
	for _, label := range m.labels() {
		say("label", label)
	}
	say("view", viewText(d.View))
	if m.Admit != "" {
		say("admit", m.Admit)
	}
	return l.String()
}

// RaftEndpoint is where a machine's consensus endpoint is, or would be; "" while it has not said where it is.
func (m *MemberStatus) RaftEndpoint() string {
	if m.Endpoints.FC == "" && m.Endpoints.Raft == "" {
		return ""
	}
	return m.raft()
}
