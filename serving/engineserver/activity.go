package engineserver

import (
	"math"
	"sync"
	"time"
)

// smoothing is over how long rates and utilisation are smoothed.
const smoothing = 2 * time.Second

// activity counts the requests of a host by model, for what the server says of its load.
type activity struct {
	slots float64 // requests that keep the host busy
	speed float64 // of a request alone, as a share of a core's

	mu     sync.Mutex // protects all below
	models map[string]*modelActivity
	total  int     // requests
	units  int     // examples
	busy   float64 // smoothed share of the slots that are in use
	at     time.Time
}

// modelActivity counts the requests of a model.
type modelActivity struct {
	inFlight, answered int // requests
	units              int // examples in flight
	rate, failing      eventRate
	// alone estimates how many seconds an example takes with the host to itself.
	alone float64
}

// eventRate is a smoothed number of events a second. Its zero value has had none.
type eventRate struct {
	value float64
	at    time.Time
}

func (r *eventRate) add(now time.Time) {
	r.value = r.now(now) + 1/smoothing.Seconds()
	r.at = now
}

func (r *eventRate) now(now time.Time) float64 {
	if r.at.IsZero() {
		return 0
	}
	return r.value * fading(now.Sub(r.at))
}

// fading is how much weight remains of what is so old.
func fading(d time.Duration) float64 { return math.Exp(-max(0, d.Seconds()) / smoothing.Seconds()) }

func newActivity(cores float64) *activity {
	a := &activity{at: time.Now(), slots: max(1, cores), speed: 1, models: map[string]*modelActivity{}}
	if cores > 0 {
		a.speed = min(1, cores)
	}
	return a
}

// begin counts a request of the model with so many examples. The caller calls end once, with whether
// it failed.
func (a *activity) begin(model string, examples int) (end func(failed bool)) {
	began := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tick(began)
	m := a.model(model)
	add := func(requests, units int) {
		m.inFlight, a.total = m.inFlight+requests, a.total+requests
		m.units, a.units = m.units+units, a.units+units
	}
	add(1, examples)
	return func(failed bool) {
		now := time.Now()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.tick(now)
		add(-1, -examples)
		m.answered++
		m.rate.add(now)
		if failed {
			m.failing.add(now)
			return
		}
		m.learn(now.Sub(began).Seconds() / float64(examples))
	}
}

// model returns the counts of a model. The caller holds a.mu.
func (a *activity) model(name string) *modelActivity {
	m := a.models[name]
	if m == nil {
		m = &modelActivity{}
		a.models[name] = m
	}
	return m
}

// tick takes in that the host has been as busy as it is since the last call. The caller holds a.mu.
func (a *activity) tick(now time.Time) {
	weight := fading(now.Sub(a.at))
	a.busy = a.busy*weight + min(1, float64(a.total)/a.slots)*(1-weight)
	a.at = now
}

// learn moves the estimate of an example's time down quickly and up slowly: most of what is long has
// waited for others.
func (m *modelActivity) learn(took float64) {
	switch {
	case m.alone == 0:
		m.alone = took
	case took < m.alone:
		m.alone += (took - m.alone) * 0.25
	default:
		m.alone += (took - m.alone) * 0.01
	}
}

// report is what the activity says of a model and its host.
type report struct {
	host, units, answered int
	work                  float64 // seconds
	busy, rate, failing   float64
}

// of reports on the requests of some models together. Threads compute a request side by side.
func (a *activity) of(models []string, threads int) (r report) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tick(now)
	r.host, r.units, r.busy = a.total, a.units, a.busy
	for _, m := range a.models {
		r.work += float64(m.units) * m.alone * a.speed * float64(max(1, threads))
	}
	for _, name := range models {
		if m := a.models[name]; m != nil {
			r.answered += m.answered
			r.rate += m.rate.now(now)
			r.failing += m.failing.now(now)
		}
	}
	return r
}
