package rollout

import (
	"gearshift/serving/work"
)

// Ended implements [serving.Watcher]. Failures are counted as they happen, also where another replica answers in the end;
// the time of an answer counts if it was given at the first attempt.
func (m *Module) Ended(w *work.Work, r work.Result) {
	if r.Outcome == work.Completed && w.Attempts <= 1 {
		m.shown.Load().Answered(w.Replica, r.Latency-w.Waited)
	}
}
