package provision

import (
	"crypto/sha256"
	"log/slog"
	"time"

	"pace-node/internal/queue"
)

// failureSaid is what the log was told last of a machine that failed.
type failureSaid struct {
	what [sha256.Size]byte // stage and error: a helper's stderr is too much to keep of thousands
	at   time.Time
}

// sayFailure says that a run failed. The same of the same machine is said once in FailureSaid: the first waits of the backoff
// are shorter, and the queue has the attempts. A look at debug shows each.
func (p *Provisioner) sayFailure(now time.Time, r *run, res queue.Result) {
	id, level := r.job.ID, slog.LevelWarn
	what := sha256.Sum256([]byte(string(res.Stage) + "\x00" + res.Error))
	if last, ok := p.said[id]; ok && last.what == what && now.Sub(last.at) < FailureSaid {
		level = slog.LevelDebug
	} else {
		p.said[id] = failureSaid{what, now}
	}
	p.log.Log(p.ctx, level, "machine was not provisioned", "id", id, "stage", string(res.Stage), "error", res.Error, "attempt", r.job.Attempt)
}
