// Package conformance holds the tests that every policy and every balancer
// must pass. An implementation's own test calls the kit with the fleet it was
// made for:
//
//	func TestConformance(t *testing.T) {
//		conformance.Policy(t, conformance.Fleet(8), policy)
//	}
//
// The kits try many random views. They draw from a fixed seed, so a failure
// repeats; the message names the seed of its view.
package conformance

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// views is how many random views a kit tries.
const views = 2000

// kvTokens is what the KV cache of each variant holds in [Fleet].
var kvTokens = [...]int{21_376, 11_296, 10_528}

// Fleet is the paper's: three variants side by side on each of four hosts, and
// four tasks. Each replica takes limit requests at once; zero is no limit.
func Fleet(limit int) *fleet.Table { return FleetOf(4, limit) }

// FleetOf is [Fleet] with so many hosts.
func FleetOf(size, limit int) *fleet.Table {
	tasks := []fleet.Task{
		{Name: "hellaswag", Quality: []float64{0.45, 0.78, 1}},
		{Name: "copa", Quality: []float64{0.80, 0.95, 1}},
		{Name: "piqa", Quality: []float64{0.82, 0.96, 1}},
		{Name: "openbookqa", Quality: []float64{0.70, 0.94, 1}},
	}
	for i := range tasks {
		tasks[i].Deadline, tasks[i].Weight = 40*time.Millisecond, 1
	}
	variants := []fleet.Variant{{Name: "opt-125m"}, {Name: "opt-1.3b"}, {Name: "opt-6.7b"}}
	var hosts []fleet.Host
	var replicas []fleet.Replica
	for h := range size {
		hosts = append(hosts, fleet.Host{Name: fmt.Sprintf("gpu%d", h)})
		for m, v := range variants {
			name := fmt.Sprintf("%s@gpu%d", v.Name, h)
			replicas = append(replicas, fleet.Replica{Name: name, Variant: m, Host: h, Limit: limit, KVTokens: kvTokens[m]})
		}
	}
	t, err := fleet.NewTable(tasks, variants, hosts, replicas)
	if err != nil {
		panic(err) // the literals above are a valid fleet
	}
	return t
}

// FleetWithGaps is [Fleet] where the first task is not answered by the smallest variant,
// the second by the middle one alone, and the third not by the largest.
func FleetWithGaps(limit int) *fleet.Table {
	t := Fleet(limit)
	for task, without := range []uint64{0b001, 0b101, 0b100} {
		x := &t.Tasks[task]
		x.Without = without
		for v := range x.Quality {
			if without>>v&1 == 1 {
				x.Quality[v] = 0
			}
		}
	}
	with, err := fleet.NewTable(t.Tasks, t.Variants, t.Hosts, t.Replicas)
	if err != nil {
		panic(err) // the literals above are a valid fleet
	}
	return with
}

// check is one part of the contract of a T.
type check[T any] struct {
	name string
	run  func(*fleet.Table, T) error
}

// example is one random input and the seed it was drawn from.
type example struct {
	seed    uint64
	view    fleet.View
	request fleet.Request
	random  uint64 // a balancer's argument
}

// draw makes the example of a seed. Views range from an idle fleet that is all
// up to one that is all down or all full. In a large fleet half of them are of a
// sample.
func draw(t *fleet.Table, seed uint64) *example {
	rng := rand.New(rand.NewPCG(seed, 0))
	x := &example{seed: seed, random: rng.Uint64()}
	x.view = fleet.View{Table: t, Now: time.Duration(rng.Int64N(int64(time.Hour))), Rate: 50 * rng.Float64()}
	x.drawLoads(t, rng)
	x.request = fleet.Request{
		ID: seed, Task: rng.IntN(len(t.Tasks)), PromptTokens: rng.IntN(2000), Arrival: x.view.Now,
	}
	if rng.IntN(3) == 0 {
		x.request.Deadline = time.Duration(1+rng.IntN(200)) * time.Millisecond
	}
	if rng.IntN(4) == 0 { // some come back slowly
		x.drawCaps(t, rng)
	}
	if seed%3 == 0 {
		x.request.Session = rng.Uint64()
	}
	x.drawHistory(rng)
	x.drawCorrections(t, rng)
	x.drawTasks(t, rng)
	x.drawFacts(t, rng)
	x.drawPrediction(t, rng)
	if seed%2 == 1 {
		x.view.Sample(t, x.random)
	}
	x.view.Restrict(&x.request)
	return x
}

// drawLoads draws how full the replicas are, which are down, and the forecasts.
func (x *example) drawLoads(t *fleet.Table, rng *rand.Rand) {
	down := []float64{0, 0, 0.3, 0.9, 1}[rng.IntN(5)]
	full := []float64{0, 0, 0.3, 0.9, 1}[rng.IntN(5)]
	most := 1 + rng.IntN(60)
	for _, r := range t.Replicas {
		n := rng.IntN(most)
		if r.Limit > 0 {
			n = min(n, r.Limit)
			if rng.Float64() < full {
				n = r.Limit
			}
		}
		x.view.InFlight = append(x.view.InFlight, int32(n))
		x.view.Held = append(x.view.Held, int32(n*rng.IntN(600)))
		x.view.Down = append(x.view.Down, rng.Float64() < down)
	}
	for range t.Replicas {
		x.view.Forecasts = append(x.view.Forecasts, fleet.Forecast{Pace: 3 * rng.Float64(), Misses: 10*rng.Float64() - 1})
	}
}

// drawCaps draws the caps of the replicas: for half of them none at all or closed.
func (x *example) drawCaps(t *fleet.Table, rng *rand.Rand) {
	for range t.Replicas {
		most := rng.IntN(60) - 30
		if most < 0 { // half of these get nothing, the others all
			most %= 2
		}
		x.view.Caps = append(x.view.Caps, int32(most))
	}
}

// drawHistory draws the rates, and by how much the latest requests fell short.
func (x *example) drawHistory(rng *rand.Rand) {
	for i := range x.view.Smoothed {
		x.view.Smoothed[i] = 50 * rng.Float64()
	}
	for i := range rng.IntN(2 * len(x.view.Recent)) { // half of them remember as much as they can
		if i < len(x.view.Recent) {
			x.view.Recent[i] = max(0, 2*rng.Float32()-1)
		}
	}
}

// drawCorrections draws the requests of others, and how slow the replicas are.
func (x *example) drawCorrections(t *fleet.Table, rng *rand.Rand) {
	if rng.IntN(4) == 0 { // some are others'
		for _, n := range x.view.InFlight {
			x.view.Elsewhere = append(x.view.Elsewhere, int32(rng.IntN(int(n)+1)))
		}
	}
	if rng.IntN(4) == 0 { // some are slow
		for range t.Replicas {
			x.view.Excess = append(x.view.Excess, max(0, 4*rng.Float32()-2))
		}
	}
}

// drawTasks divides the router's own requests among the tasks.
func (x *example) drawTasks(t *fleet.Table, rng *rand.Rand) {
	for i := range t.Replicas {
		own := x.view.Own(i)
		for range t.Tasks[1:] {
			n := rng.IntN(own + 1)
			x.view.ByTask = append(x.view.ByTask, int32(n))
			own -= n
		}
		x.view.ByTask = append(x.view.ByTask, int32(own))
	}
}

// drawFacts draws, for a quarter of the views, in which states the replicas are, which versions they have, and how busy
// hosts are.
func (x *example) drawFacts(t *fleet.Table, rng *rand.Rand) {
	if rng.IntN(4) > 0 {
		return
	}
	for i := range t.Replicas {
		s, ready := fleet.Up, time.Duration(0)
		if x.view.Down[i] {
			s = fleet.States()[1+rng.IntN(len(fleet.States())-1)]
		}
		if s == fleet.Loading {
			ready = x.view.Now + time.Duration(rng.IntN(10))*time.Second
		}
		x.view.States, x.view.Ready, x.view.Newer = append(x.view.States, s), append(x.view.Ready, ready), append(x.view.Newer, rng.IntN(3) == 0)
	}
	for range t.Hosts {
		x.view.Busy = append(x.view.Busy, rng.Float32())
	}
}

// drawPrediction draws, for a third of the requests, what is predicted of their answers: in
// steps, so that some are predicted to be equally good.
func (x *example) drawPrediction(t *fleet.Table, rng *rand.Rand) {
	if len(t.Variants) > fleet.MostPredicted || rng.IntN(3) > 0 {
		return
	}
	x.predict(t, rng)
}

// predict draws a prediction for the request.
func (x *example) predict(t *fleet.Table, rng *rand.Rand) {
	p := &x.request.Predicted
	p.Known, p.Sure = true, rng.Float32()
	for m := range t.Variants {
		if t.Answers(x.request.Task, m) {
			p.Quality[m] = float32(rng.IntN(11)) / 10
			p.Low[m] = p.Quality[m] * rng.Float32()
		}
	}
	if rng.IntN(2) == 0 {
		return
	}
	p.Gains = new([fleet.MostPredicted]float32)
	for m := range t.Variants {
		p.Gains[m] = rng.Float32()
	}
}

// unchanged returns an error if the view or request differs from a fresh draw
// of the same seed.
func (x *example) unchanged() error {
	want := draw(x.view.Table, x.seed)
	if !reflect.DeepEqual(x.request, want.request) {
		return fmt.Errorf("%v: the request was changed, from %+v", x, want.request)
	}
	v, w := &x.view, &want.view
	same := v.Now == w.Now && v.Rate == w.Rate && v.Smoothed == w.Smoothed && v.Recent == w.Recent &&
		slices.Equal(v.InFlight, w.InFlight) && slices.Equal(v.Elsewhere, w.Elsewhere) && slices.Equal(v.Held, w.Held) &&
		slices.Equal(v.Forecasts, w.Forecasts) && slices.Equal(v.Down, w.Down) && slices.Equal(v.Caps, w.Caps) &&
		slices.Equal(v.Excess, w.Excess) && slices.Equal(v.ByTask, w.ByTask) &&
		reflect.DeepEqual(v.Facts, w.Facts)
	if !same {
		return fmt.Errorf("%v: the view was changed, from that of %v", x, want)
	}
	return nil
}

func (x *example) String() string {
	v := &x.view
	return fmt.Sprintf("seed %d (in flight %v, of others %v, held %v, down %v, caps %v, excess %v, rates %.2f %.2f, recent %v, request %+v)",
		x.seed, v.InFlight, v.Elsewhere, v.Held, v.Down, v.Caps, v.Excess, v.Rate, v.Smoothed, v.Recent.Known(), x.request)
}

// busy is a view with some load and everything available, to measure on.
func busy(t *fleet.Table) *example {
	for seed := uint64(0); ; seed++ {
		x := draw(t, seed)
		if !slices.Contains(x.view.Down, true) && slices.Max(x.view.InFlight) > 0 && available(&x.view) == len(x.view.Replicas()) {
			return x
		}
	}
}

func available(v *fleet.View) int {
	var n int
	for _, i := range v.Replicas() {
		if v.Available(i) {
			n++
		}
	}
	return n
}
