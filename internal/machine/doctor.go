package machine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"net"
	"runtime"

	"pace-node/internal/config"
	"pace-node/internal/control"
	"pace-node/internal/doctor"
	"pace-node/internal/probe"
	"pace-node/internal/statedir"
)

// diagnose collects what is known of this machine, has it judged, and makes the document of it.
func (m *Machine) diagnose(ctx context.Context, _ string, ask control.DoctorAsk) (control.DoctorReport, error) {
	f := doctor.Facts{OS: runtime.GOOS, Ordinary: m.host.Ordinary()}
	m.askNode(ctx, ask, &f)
	m.lookAtState(&f)
	m.lookAtPorts(ctx, &f)
	return reportOf(doctor.Checks, doctor.Examine(&f)), nil
}

// reportOf makes the document of findings.
func reportOf(checks []doctor.Check, findings []doctor.Finding) control.DoctorReport {
	d := control.DoctorReport{Verdict: doctor.Worst(findings).String()}
	looks := map[string]string{}
	for _, c := range checks {
		looks[c.Name] = c.Looks
	}
	for _, f := range findings {
		remedy := f.Remedy
		if len(f.Args) > 0 {
			remedy = control.Remedy(control.ConditionRow{Remedy: remedy}, f.Args...)
		}
		d.Findings = append(d.Findings, control.DoctorFinding{Check: f.Check, Looks: looks[f.Check], Verdict: f.Verdict.String(), Detail: f.Detail, Remedy: remedy})
	}
	return d
}

// askNode asks this machine's node, and where it does not answer the service manager.
func (m *Machine) askNode(ctx context.Context, ask control.DoctorAsk, f *doctor.Facts) {
	node, err := ask.Node(ctx)
	if err != nil {
		st := m.state(ctx)
		f.Silent = doctor.Silent{Forbidden: errors.Is(err, fs.ErrPermission), Err: err.Error()}
		if m.Packaged && st.Installed {
			f.Silent.Service, f.Silent.Running, f.Silent.Start, f.Silent.Log = st.Name, st.Running, st.Start, st.Log
		}
		return
	}
	f.Node = &doctor.Node{Mode: node.Mode, Name: node.Name, Version: node.Version}
	for _, c := range node.Conditions {
		f.Node.Conditions = append(f.Node.Conditions, doctor.Condition{ID: c.ID, Severity: c.Severity, Detail: c.Detail, Remedy: c.Remedy})
	}
}

func (m *Machine) lookAtState(f *doctor.Facts) {
	f.State.Path = m.Config.StateDir
	opt, err := m.State()
	if err != nil {
		f.State.Unknown = whatOf(err)
		return
	}
	h := statedir.Examine(m.Config.StateDir, opt)
	f.State.Absent, f.State.Free, f.State.Size, f.State.Low = h.Absent, h.Room.Free, h.Room.Size, h.Room.Low(false)
	switch {
	case h.Denied:
		f.State.Unknown = "this account may not read " + m.Config.StateDir
	case h.Err != nil:
		f.State.Refused, f.State.Remedy = whatOf(h.Err), remedyOf(h.Err)
	}
}

// whatOf and remedyOf take an error apart that says what mends it.
func whatOf(err error) string {
	if t := (interface{ What() string })(nil); errors.As(err, &t) {
		return t.What()
	}
	return err.Error()
}

func remedyOf(err error) string {
	if t := (interface{ Remedy() string })(nil); errors.As(err, &t) {
		return t.Remedy()
	}
	return ""
}

// surfaceFlags are the options that say where a surface is.
var surfaceFlags = map[string]string{
	config.SurfaceNode: "listen", config.SurfaceRaft: "listen-raft", config.SurfaceBeacon: "discovery", config.SurfaceReply: "discovery-reply-port",
	config.SurfaceAdmin: "admin-listen",
}

// lookAtPorts tries the endpoints of this machine's settings, unless a node has them.
func (m *Machine) lookAtPorts(ctx context.Context, f *doctor.Facts) {
	if f.Node != nil || f.Silent.Forbidden {
		return
	}
	for _, s := range m.Config.Surfaces() {
		if s.Port == 0 {
			continue // the kernel chooses one that is free
		}
		host := s.Bind
		if host == "*" {
			host = ""
		}
		shared := s.Name == config.SurfaceBeacon
		b := probe.Bind(ctx, s.Proto, net.JoinHostPort(host, s.PortText()), shared)
		p := doctor.Port{Surface: s.Name, Proto: s.Proto, Number: s.Port, Flag: surfaceFlags[s.Name], Taken: b.Taken, Holder: b.Holder}
		if b.Err != nil {
			p.Err = cmp.Or(b.Err.Error(), "the system does not say why")
		}
		f.Ports = append(f.Ports, p)
	}
}
