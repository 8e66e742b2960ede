package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"gearshift/env"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// TestJobsForReal: jobs of handwritten and spoken digits go through the router to an engine
// under a load of up to twice what answering all by both inputs
// can take. Policies take turns, each with the same jobs. Every job ends in one of the ways
// that the router counts. GEARSHIFT_MODALITY=10m is the long run, on the digits model that
// ONNX Runtime computes (build tag onnx): in it accuracy is counted on labels, and held
// against floors; goodput and violations are held against the simulation under the profile
// that was measured just before. The engine is measured again between the rounds: a shared
// machine's speed drifts, and the simulated engine drifts with it. GEARSHIFT_MODALITY_MODELS is a folder that models make has
// filled, with its samples in samples, to begin at once. Without the long run the router simulates the engine, and the run is short.
func TestJobsForReal(t *testing.T) {
	length, real := 6*time.Second, false
	if text := os.Getenv("GEARSHIFT_MODALITY"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length < time.Minute {
			t.Fatalf("GEARSHIFT_MODALITY=%s: want a time of a minute or more, such as 10m", text)
		}
		needONNX(t)
		real = true
	}
	c := newJobCheck(t, real)
	window := 20 * time.Second
	if !real {
		window = time.Second
	}
	rounds := max(1, int(length/(window*time.Duration(len(c.policies)))))
	before := c.pace()
	for round := range rounds {
		for i := range c.policies {
			// The order is another in each round, so that a policy does not always follow the same one.
			c.play(&c.policies[(i+round)%len(c.policies)], window, uint64(round))
		}
		after := c.pace()
		for i := range c.policies {
			c.simulate(&c.policies[i], uint64(round), window, (before+after)/2)
		}
		before = after
	}
	c.report(rounds, real)
}

// jobCheck is one run.
type jobCheck struct {
	t        *testing.T
	options  []modality.Option // as measured
	table    *modality.Table
	samples  []sample
	floors   []float64
	most     float64 // requests per second, at the peak
	policies []jobPolicy

	engine string               // "" if the router simulates it
	times  map[string][]float64 // of its batches at the start, by variant
	noise  []float64            // how many times the median each of them took
	paces  []float64            // of each measurement after that

	mu    sync.Mutex
	wrong map[string]int // what answers were that are none, and how often
}

// sample is a held-out pair as a client sends it.
type sample struct{ label, image, audio string }

// jobPolicy is one of those compared, with a router of its own.
type jobPolicy struct {
	name, url string
	real, sim jobTally
	byFloor   map[float64]*counted
}

// jobTally counts requests.
type jobTally struct {
	requests, inTime, answered int
	quality                    float64 // sum over those answered
	seconds                    float64
}

func (a *jobTally) goodput() float64    { return float64(a.inTime) / a.seconds }
func (a *jobTally) violations() float64 { return 1 - float64(a.inTime)/float64(a.requests) }

// counted is how many answers were right.
type counted struct{ right, of int }

// jobDeadline is from a job's arrival.
const jobDeadline = time.Second

func newJobCheck(t *testing.T, real bool) *jobCheck {
	dir := t.TempDir()
	c := &jobCheck{t: t, wrong: map[string]int{}, samples: []sample{{"", tinyPNG, tinyWAV}}}
	qualities, times := map[string]float64{}, map[string][]float64{}
	for _, o := range simulatedDigits {
		qualities[o.variant], times[o.variant] = o.quality, o.times
	}
	if real {
		if made := os.Getenv("GEARSHIFT_MODALITY_MODELS"); made != "" {
			dir = made
		} else {
			succeed(t, "models", "make", "--family", "digits", "--out", dir, "--samples", filepath.Join(dir, "samples"), "--sample-count", "2000")
		}
		qualities = readQualities(t, filepath.Join(dir, "digits", "quality.json"))
		c.samples = readSamples(t, filepath.Join(dir, "samples"))
		c.engine = "http://" + startProcess(t, "engine", "--addr", "127.0.0.1:0", "--model", filepath.Join(dir, "digits")).listensWithin(t, time.Minute)
		times, c.noise = measureBatches(t, c.engine, c.samples, 8, 50)
		t.Logf("ms of batches of %v: %v", batchSizes, times)
		c.times = times
	}
	served := digitsScenario(qualities, times) // the router simulates the engine
	if real {
		served = succeed(t, "scenario", "upstreams", write(t, "digits.yaml", served), "--at", "cpu0="+c.engine)
	}
	for _, o := range simulatedDigits {
		c.options = append(c.options, modality.Option{Name: o.variant, Quality: qualities[o.variant], Latency: betweenSizes(times[o.variant])})
	}
	var err error
	if c.table, err = modality.NewTable(c.options, modality.Mixed, batchSizes[len(batchSizes)-1]); err != nil {
		t.Fatal(err)
	}
	low, high := qualities["digits-image"], qualities["digits-image-audio"]
	c.floors = []float64{low, (low + high) / 2, high}
	c.most = 2 * c.capacity()
	for _, name := range []string{"none", "aggressive", "random", "optimized", "foresight"} {
		file := write(t, name+".yaml", served+"\nmodality: {policy: "+name+", table: 16}\n")
		router := startProcess(t, "serve", "--scenario", file, "--addr", "127.0.0.1:0", "--admin-addr", freeAddr(t), "--store", file+".db")
		c.policies = append(c.policies, jobPolicy{name: name, url: "http://" + router.listens(t), byFloor: map[float64]*counted{}})
	}
	return c
}

// capacity is how many requests a second are answered by all inputs, where jobs have the
// sizes of the load.
func (c *jobCheck) capacity() float64 {
	all := c.options[len(c.options)-1].Latency
	load := c.load(100*time.Second, 100)
	arrivals, err := load.Draw(workloads.Seed(workloads.Training, 1))
	if err != nil {
		c.t.Fatal(err)
	}
	var n int
	var ms float64
	for _, a := range arrivals {
		n += a.Size
		ms += all[a.Size-1]
	}
	return 1000 * float64(n) / ms
}

// load is jobs at up to so many requests per second.
func (c *jobCheck) load(length time.Duration, most float64) workloads.JobLoad {
	return workloads.JobLoad{Length: length, Least: most / 8, Most: most, Mean: 1, Spread: 6, Largest: batchSizes[len(batchSizes)-1], Deadline: jobDeadline, FloorHigh: 1}
}

// pace is how many times as long as at the start the engine's batches take now.
func (c *jobCheck) pace() float64 {
	if c.engine == "" {
		return 1
	}
	times, _ := measureBatches(c.t, c.engine, c.samples, 0, 15)
	sum, n := 0.0, 0
	for name, list := range times {
		for i, ms := range list {
			sum += math.Log(ms / c.times[name][i])
			n++
		}
	}
	pace := math.Exp(sum / float64(n))
	c.paces = append(c.paces, pace)
	return pace
}

// draw is the jobs of a round, the same for each policy, and a source for what else is drawn.
func (c *jobCheck) draw(round uint64, window time.Duration) ([]workloads.JobArrival, *rand.Rand) {
	seed := workloads.Seed(workloads.Evaluation, round)
	load := c.load(window, c.most)
	arrivals, err := load.Draw(seed)
	if err != nil {
		c.t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range arrivals {
		arrivals[i].Floor = c.floors[rng.IntN(len(c.floors))]
	}
	return arrivals, rng
}

// play has clients ask the policy's router for a window.
func (c *jobCheck) play(p *jobPolicy, window time.Duration, round uint64) {
	arrivals, rng := c.draw(round, window)
	var clients sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for _, a := range arrivals {
		var inputs []sample
		for range a.Size {
			inputs = append(inputs, c.samples[rng.IntN(len(c.samples))])
		}
		body := jobBody(inputs, a.Floor)
		time.Sleep(time.Until(began.Add(a.At)))
		clients.Go(func() {
			answer := c.ask(p.url, body)
			took := time.Since(began) - a.At
			mu.Lock()
			defer mu.Unlock()
			p.count(&a, answer, took, inputs)
		})
	}
	clients.Wait()
	p.real.seconds += (time.Since(began) - arrivals[0].At).Seconds()
}

// jobAnswer is what a client reads of an answer; no data is a refusal.
type jobAnswer struct {
	Data []struct{ Label string }
	Job  struct {
		Kept    bool
		Quality float64
	}
}

// count enters the end of a job.
func (p *jobPolicy) count(a *workloads.JobArrival, answer jobAnswer, took time.Duration, inputs []sample) {
	p.real.requests += a.Size
	if len(answer.Data) == 0 {
		return
	}
	p.real.answered += a.Size
	p.real.quality += answer.Job.Quality * float64(a.Size)
	if took <= jobDeadline {
		p.real.inTime += a.Size
	}
	at := p.byFloor[a.Floor]
	if at == nil {
		at = &counted{}
		p.byFloor[a.Floor] = at
	}
	for i, d := range answer.Data {
		at.of++
		if d.Label == inputs[i].label {
			at.right++
		}
	}
}

// simulate plays the jobs of the round under the measured profile, whose times vary as those
// measured, and are all so many times as long as planned.
func (c *jobCheck) simulate(p *jobPolicy, round uint64, window time.Duration, pace float64) {
	seed := workloads.Seed(workloads.Evaluation, round)
	arrivals, _ := c.draw(round, window)
	policy, err := modality.Named(p.name, c.table, rand.New(rand.NewPCG(seed, 7)))
	if err != nil {
		c.t.Fatal(err)
	}
	var noise func() float64
	if len(c.noise) > 0 {
		draws := rand.New(rand.NewPCG(seed, 9))
		noise = func() float64 { return pace * c.noise[draws.IntN(len(c.noise))] }
	}
	j, err := env.NewJobs(modality.NewWorker(c.table, policy), c.options, noise, arrivals)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := j.Run()
	if err != nil {
		c.t.Fatal(err)
	}
	p.sim.requests += r.Requests
	p.sim.inTime += r.InTime
	p.sim.answered += r.InTime + r.Late
	p.sim.quality += r.Quality
	p.sim.seconds += r.Length.Seconds()
}

// ask sends a job and reads its answer, which has no data if it is refused for want of time.
// Anything else is noted as wrong.
func (c *jobCheck) ask(url, body string) (a jobAnswer) {
	wrong := func(format string, args ...any) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wrong[fmt.Sprintf(format, args...)]++
	}
	response, err := http.Post(url+"/v1/gearshift/classify", "application/json", strings.NewReader(body))
	if err != nil {
		wrong("%v", err)
		return a
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		wrong("%v", err)
	case response.StatusCode == http.StatusTooManyRequests && bytes.Contains(text, []byte(`"job_dropped"`)):
	case response.StatusCode != http.StatusOK:
		wrong("status %d: %.200s", response.StatusCode, text)
	default:
		if err := json.Unmarshal(text, &a); err != nil || len(a.Data) == 0 {
			wrong("an answer without data: %.200s", text)
		}
	}
	return a
}

// report prints what came of it, and holds it against what it must be.
func (c *jobCheck) report(rounds int, real bool) {
	for text, n := range c.wrong {
		c.t.Errorf("%d jobs: %s", n, text)
	}
	var table, floors strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\trequests\tgoodput/s\tsimulated\tviolations\tsimulated\tquality\tright\t")
	for i := range c.policies {
		p := &c.policies[i]
		all := counted{}
		for _, at := range p.byFloor {
			all.right += at.right
			all.of += at.of
		}
		fmt.Fprintf(w, "%s\t%d\t%.1f\t%.1f\t%.3f\t%.3f\t%.3f\t%.3f\t\n", p.name, p.real.requests, p.real.goodput(), p.sim.goodput(),
			p.real.violations(), p.sim.violations(), p.real.quality/float64(p.real.answered), float64(all.right)/float64(max(1, all.of)))
		if p.real.requests != p.sim.requests || p.real.inTime == 0 {
			c.t.Errorf("%s: %d requests were sent, %d of them answered in time, and %d simulated", p.name, p.real.requests, p.real.inTime, p.sim.requests)
		}
		if !real {
			continue
		}
		for floor, at := range p.byFloor {
			mean := float64(at.right) / float64(at.of)
			// Answers to the same pair are one draw: there are no more than there are pairs.
			draws := min(at.of, len(c.samples))
			if least := floor - 2*math.Sqrt(mean*(1-mean)/float64(draws)); mean < least {
				c.t.Errorf("%s: of %d answers with a floor of %.3f, %.3f were right; want %.3f at least", p.name, at.of, floor, mean, least)
			}
			fmt.Fprintf(&floors, "%s, floor %.3f: %.4f of %d right\n", p.name, floor, mean, at.of)
		}
		if ratio := p.real.goodput() / p.sim.goodput(); math.Abs(ratio-1) > 0.1 {
			c.t.Errorf("%s: goodput is %.3f of the simulated", p.name, ratio)
		}
		if off := p.real.violations() - p.sim.violations(); math.Abs(off) > 0.03 {
			c.t.Errorf("%s: violations are %+.3f off the simulated", p.name, off)
		}
	}
	_ = w.Flush()
	if len(c.paces) > 0 {
		c.t.Logf("the engine's batches took, before and after each round, so many times as long as at the start: %.2f", c.paces)
	}
	c.t.Logf("%d rounds, at most %.0f requests/s, twice what all inputs can take\n%s%s", rounds, c.most, table.String(), floors.String())
}
