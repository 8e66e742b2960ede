package drift

import (
	"math"
	"sync"
	"time"
)

const (
	// DoubtFrom is the factor, either way, by which a replica's answers may depart from their forecasts before
	// these count as off. They count as right again within DoubtTo.
	DoubtFrom, DoubtTo = 1.1, 1.06
	// DoubtShare of the latest answers must come from replicas whose forecasts are off for policies to be
	// doubted; Trusted is the share up to which they may be trusted again, once it has been so for [calm].
	DoubtShare, Trusted = 1.0 / 3, 1.0 / 6
	// latest is the number of answers, of all replicas, over which their shares are smoothed.
	latest = 500
)

// doubt decides whether policies that choose by forecasts are to be doubted. The zero value doubts nothing.
type doubt struct {
	mu      sync.Mutex // protects all below
	weights []float64  // of the latest answers, by replica
	weight  float64    // of the next answer; the weights before it count for less
	off     []bool     // the replica's forecasts, at the last look
	stands  bool
	since   time.Duration // when the share was last above Trusted, while it stands
}

// answered counts an answer of the replica.
func (d *doubt) answered(replica, replicas int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.weights == nil {
		d.weights, d.off, d.weight = make([]float64, replicas), make([]bool, replicas), 1
	}
	d.weights[replica] += d.weight
	if d.weight *= 1 + 1.0/latest; d.weight > 1e100 {
		for i := range d.weights {
			d.weights[i] /= d.weight
		}
		d.weight = 1
	}
}

// look decides by the residuals of the replicas, each measured ÷ forecast. It reports whether that has changed.
func (d *doubt) look(now time.Duration, residual func(replica int) (ratio float64, known bool)) (stands, turned bool, share float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all, off float64
	for i, w := range d.weights {
		bound := DoubtFrom
		if d.off[i] {
			bound = DoubtTo
		}
		ratio, known := residual(i)
		d.off[i] = known && math.Abs(math.Log(ratio)) > math.Log(bound)
		if all += w; d.off[i] {
			off += w
		}
	}
	if all > 0 {
		share = off / all
	}
	if share > Trusted {
		d.since = now
	}
	was := d.stands
	d.stands = share >= DoubtShare || was && now-d.since < calm
	return d.stands, d.stands != was, share
}

// forget ends doubt, and drops the answers that have been counted.
func (d *doubt) forget() (turned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	turned = d.stands
	d.weights, d.off, d.stands = nil, nil, false
	return turned
}

// Doubted reports whether policies that choose by forecasts are doubted; see [Monitor.OnDoubt].
func (m *Monitor) Doubted() bool {
	if m == nil {
		return false
	}
	m.doubt.mu.Lock()
	defer m.doubt.mu.Unlock()
	return m.doubt.stands
}

// Doubt sets whether [Monitor.OnDoubt] is called, which is the default.
func (m *Monitor) Doubt(on bool) {
	if m == nil {
		return
	}
	if m.trusting.Store(!on); !on && m.OnDoubt != nil && m.doubt.forget() {
		m.OnDoubt(false)
	}
}

// reconsider decides whether policies are doubted from now on, and reports a change to OnDoubt.
func (m *Monitor) reconsider(now time.Duration) {
	if m.OnDoubt == nil || m.trusting.Load() {
		return
	}
	stands, turned, share := m.doubt.look(now, func(replica int) (float64, bool) {
		ratio, _, known := m.replicas[replica].residual.get()
		return ratio, known
	})
	if !turned {
		return
	}
	if stands {
		m.config.Log.Warn("the policy is doubted, and a rule routes: forecasts are off for replicas with a large share of the answers",
			"share", rounded(share), "remedy", "gearshift profile fit, or gearshift calibrate; then gearshift train")
	} else {
		m.config.Log.Info("the policy is trusted again: forecasts have been right for a while", "share", rounded(share))
	}
	m.OnDoubt(stands)
}
