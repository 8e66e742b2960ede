package rollout

import (
	"slices"
	"sync"

	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
	"gearshift/router/rollout"
	"gearshift/serving/work"
)

// split says which replicas are hidden from which requests. Each request draws a number from 0 to
// 1, and each location in change shows it one of its two replicas, by their parts.
type split struct {
	rules []rule
}

// rule is about the requests of a location.
type rule struct {
	replicas [2]int
	second   float64 // the part of the requests that see the second one
	neither  bool    // none of them sees either
	others   []int
}

// split works out what is hidden now. It is called while the runner is locked, or before it runs.
func (m *Module) split() {
	s := &split{}
	for _, x := range m.locations {
		a, b := x.replicas[0], x.replicas[1]
		r := rule{replicas: x.replicas, neither: m.parts[a] == 0, others: x.others}
		changing := false
		if b >= 0 {
			r.second, r.neither = m.parts[b], m.parts[a]+m.parts[b] == 0
			changing = m.ledger.Placed(a) != fleet.Cold && m.ledger.Placed(b) != fleet.Cold || slices.Contains(m.changing, a)
		}
		if changing || r.neither {
			s.rules = append(s.rules, r)
		}
	}
	if len(s.rules) == 0 {
		s = nil
	}
	m.hidden.Store(s)
}

// hide returns the replicas that the request is not to be given. A replica whose requests nothing
// else could answer is never among them.
func (m *Module) hide(r *fleet.Request) (list []int) {
	s := m.hidden.Load()
	if s == nil {
		return nil
	}
	key := r.ID
	if r.Session != 0 {
		key = r.Session // all requests of a session see one version
	}
	drawn := splitmix.Unit(splitmix.Next(key))
	for i := range s.rules {
		x := &s.rules[i]
		switch {
		case x.neither:
			for _, own := range x.replicas {
				if own >= 0 && slices.ContainsFunc(x.others, m.answers) {
					list = append(list, own)
				}
			}
		case drawn < x.second:
			list = m.hideFor(list, x.replicas[0], x.replicas[1])
		default:
			list = m.hideFor(list, x.replicas[1], x.replicas[0])
		}
	}
	return list
}

// hideFor adds the replica, if the other one answers.
func (m *Module) hideFor(list []int, replica, other int) []int {
	if m.answers(other) {
		return append(list, replica)
	}
	return list
}

func (m *Module) answers(replica int) bool { return m.ledger.State(replica) == fleet.Up }

// counter counts what a replica has answered.
type counter struct {
	mu    sync.Mutex // protects count
	count rollout.Count
}

func (c *counter) add(failed bool, seconds float64) {
	c.mu.Lock()
	c.count.Add(failed, seconds)
	c.mu.Unlock()
}

func (c *counter) get() rollout.Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// Ended implements [serving.Watcher]. Failures are counted as they happen, also where another replica answers in the end;
// the time of an answer counts if it was given at the first attempt.
func (m *Module) Ended(w *work.Work, r work.Result) {
	if r.Outcome == work.Completed && w.Attempts <= 1 && m.options.Names[w.Replica] != nil {
		m.counts[w.Replica].add(false, (r.Latency - w.Waited).Seconds())
	}
}
