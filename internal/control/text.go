package control

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Defaults that the shapes name.
const (
	// DefaultRaftPort is where a voter's consensus endpoint is, unless it says otherwise.
	DefaultRaftPort = 6680
	// neverArrivedAfter: a member without a Hello so long after its admission is shown as never arrived.
	neverArrivedAfter = 10 * time.Minute
)

// Span is an elapsed time for a person: two units at most.
func Span(d time.Duration) string { return span(d.Milliseconds()) }

// span returns elapsed milliseconds for a person: two units at most.
func span(ms int64) string {
	if ms < 0 {
		ms = 0
	}
	s := ms / 1000
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return units(s/60, "m", s%60, "s")
	case s < 86400:
		return units(s/3600, "h", s%3600/60, "m")
	}
	return units(s/86400, "d", s%86400/3600, "h")
}

func units(a int64, au string, b int64, bu string) string {
	if b == 0 {
		return fmt.Sprintf("%d%s", a, au)
	}
	return fmt.Sprintf("%d%s%d%s", a, au, b, bu)
}

// minutesLeft rounds up: the last minute is 1.
func minutesLeft(ms int64) int64 {
	if ms <= 0 {
		return 0
	}
	return (ms + 59_999) / 60_000
}

// date returns Unix seconds as RFC 3339 in UTC, which is one word.
func date(unix int64) string {
	if unix == 0 {
		return nothing
	}
	return time.Unix(unix, 0).UTC().Format(time.RFC3339)
}

// heard says how long ago a machine was heard.
func heard(ms *int64) string {
	if ms == nil {
		return "never"
	}
	return span(*ms)
}

// hostOf returns the host of host:port, with its brackets; "" if there is none.
func hostOf(endpoint string) string {
	i := strings.LastIndexByte(endpoint, ':')
	if i <= 0 {
		return ""
	}
	return endpoint[:i]
}

// command joins a flag of pace-node and its value to what a person can paste, ""
// if the value cannot be pasted.
func command(flag, value string) string {
	if !Pasteable(value) {
		return ""
	}
	return "pace-node --" + flag + "=" + value
}

// approveCommand admits a waiting machine; "" if its id or key cannot be pasted.
func approveCommand(id, key string) string {
	if !Pasteable(id) {
		return ""
	}
	return command("enroll-approve", id+"@"+key) // a key may begin with a dash, which is none of an option behind an id
}

// AdmitCommand is the line that gives a machine a seat: what --cluster-status
// shows beside a learner, and what the log says of an unknown key. It is "" where
// an argument cannot be pasted. host may have brackets; port 0 is DefaultRaftPort.
func AdmitCommand(id, host string, port int, key string) string {
	if v := admitValue(id, host, port, key); v != "" {
		return command("cluster-admit", v)
	}
	return ""
}

func admitValue(id, host string, port int, key string) string {
	if !Pasteable(id) || !Pasteable(host) || !Pasteable(id+"@"+key) {
		return ""
	}
	if port == 0 {
		port = DefaultRaftPort
	}
	if strings.Contains(host, ":") && host[0] != '[' {
		host = "[" + host + "]"
	}
	v := id + "=" + host + ":" + strconv.Itoa(port)
	if key != "" {
		v += "@" + key
	}
	return v
}

// lines collects whole lines of text.
type lines struct{ strings.Builder }

// add writes a line; its arguments are escaped already.
func (l *lines) add(format string, args ...any) {
	fmt.Fprintf(&l.Builder, format, args...)
	l.WriteByte('\n')
}

// words writes columns separated by one space.
func (l *lines) words(columns ...string) { l.add("%s", strings.Join(columns, " ")) }

// helpColumn is the width of what is typed, in the help.
const helpColumn = 48

// column writes what is typed, and what it means beside it; under it where what is typed is longer than its column.
func (l *lines) column(typed, means string) {
	if len(typed) > helpColumn {
		l.add("  %s", typed)
		typed = ""
	}
	l.add("  %-*s %s", helpColumn, typed, means)
}
