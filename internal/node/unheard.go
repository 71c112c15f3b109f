package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"

	"pace-node/internal/statedir"
)

// For how long this machine ran without a voter of its fleet is kept over restarts: one that is restarted every day would
// never see a whole day of it. Time in which it did not run says nothing about the fleet and does not count.
const (
	unheardFile   = "unheard.json" // JSON behind a line with its checksum
	unheardMagic  = "pace-node-unheard"
	unheardFormat = 1
	// unheardStep is how often it is written, and only while nobody is heard; what is lost by a start is at most that.
	unheardStep = 15 * time.Minute
)

// unheard is what the file holds, and what becomes of it. The loop's.
type unheard struct {
	Cluster string `json:"cluster"`
	Seconds int64  `json:"seconds"`

	path string
	in   *body // that was looked at last
}

// openUnheard reads what was kept. A file that is damaged is as good as none: what is lost is a part of a day.
func (n *Node) openUnheard(dir string) {
	u := &n.unheard
	u.path = filepath.Join(dir, unheardFile)
	raw, err := os.ReadFile(u.path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var body []byte
	if err == nil {
		body, err = statedir.Unseal(unheardMagic, unheardFormat, raw)
	}
	if err == nil {
		err = json.Unmarshal(body, u)
	}
	if err != nil || u.Seconds < 0 {
		u.Cluster, u.Seconds = "", 0
		n.log.Warn("for how long no voter was heard before this start is not known", "file", u.path, "error", errText(err))
	}
}

// before is for how long this machine had run without a voter of the cluster when it was started.
func (u *unheard) before(cluster string) time.Duration {
	if u.Cluster != cluster {
		return 0
	}
	return time.Duration(min(u.Seconds, int64(365*24*time.Hour/time.Second))) * time.Second
}

// keepUnheard writes it down now and then while nobody is heard, and that somebody was.
func (n *Node) keepUnheard(cluster string, alone time.Duration) {
	u := &n.unheard
	kept := u.before(cluster)
	switch {
	case alone-kept >= unheardStep:
		u.Cluster, u.Seconds = cluster, int64(alone/time.Second)
	case u.Seconds > 0 && alone < kept:
		u.Cluster, u.Seconds = cluster, 0
	default:
		return
	}
	raw, err := json.Marshal(u)
	if err != nil {
		n.log.Error("for how long no voter was heard is not written", "error", err.Error())
		return
	}
	n.records.put(func(context.Context) {
		if err := statedir.WriteFileAtomic(u.path, statedir.Seal(unheardMagic, unheardFormat, append(raw, '\n')), 0o600, func(string) {}); err != nil {
			n.log.Warn("for how long no voter was heard is not written", "error", err.Error())
		}
	})
}

// voterHeard is when the leader, or the voter that a learner follows, was last heard since this body began; zero: not yet.
func (b *body) voterHeard(now time.Time) time.Time {
	if b.learner == nil {
		at, _ := b.cons.Heard()
		return at
	}
	if silence := b.learner.Silence(now); silence < now.Sub(b.began) {
		return now.Add(-silence)
	}
	return time.Time{}
}
