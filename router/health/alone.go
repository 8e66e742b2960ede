package health

import "time"

const (
	// doubtful is from which error in a row on another replica is asked the same.
	doubtful = 3
	// excused is for how long errors do not count that were not compared with another replica's
	// answer, after a comparison has shown that another answers the same.
	excused = 10 * time.Second
)

// Doubted reports whether the replica has answered so many requests in a row with errors, or so
// many of the latest, that after one more another replica is worth asking for the same request. A
// replica on trial is doubted at once.
func (m *Monitor) Doubted(i int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
	most := doubtful
	if m.config.Failures > 0 {
		most = min(most, m.config.Failures)
	}
	all, failed := r.recent.sum()
	return r.State == HalfOpen || r.errors+1 >= most || m.unreliable(all+1, failed+1)
}

// unreliable reports whether too large a share of a replica's requests fails.
func (m *Monitor) unreliable(all, failed int) bool {
	return m.config.FailureShare > 0 && all >= m.config.WindowRequests && float64(failed) >= m.config.FailureShare*float64(all)
}

// Erred records that the replica answered a request that was sent at the time sent with an error,
// and that no other was asked for the same. Fault is whether the error says that the replica
// failed: one that says that the request is wrong is an answer. Counted is whether it counts as a
// failure.
func (m *Monitor) Erred(i int, fault bool, sent, now time.Duration) (changes []Change, counted bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch r := &m.replicas[i]; {
	case !fault:
		before := r.errors
		m.succeeded(i, sent, now)
		r.errors = before + 1
	case now < r.excused:
		r.errors++
	default:
		m.failed(i, ServerError, sent, now)
		counted = true
	}
	return m.changed(), counted
}

// Agreed records that the replica answered a request that was sent at the time sent with an error,
// as another replica did: the error is the request's, and those before it may be too. A
// replica that errors ejected while the request was there is up again.
func (m *Monitor) Agreed(i int, sent, now time.Duration) []Change {
	m.Sign(i)
	m.mu.Lock()
	defer m.mu.Unlock()
	r := &m.replicas[i]
	r.excused = now + excused
	if r.State == Ejected && (r.Why == Failing || r.Why == Unreliable) && sent < r.Since {
		r.level--
		m.step(i, Up, "", now)
		m.ledger.SetUp(i, true)
	}
	m.succeeded(i, sent, now)
	r.recent = window{}
	return m.changed()
}
