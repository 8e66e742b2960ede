package main

import (
	"bytes"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	envjobs "gearshift/env/jobs"
	"gearshift/router/modality"
	"gearshift/workloads"
	"gearshift/workloads/jobs"
)

// TestJobsForReal: jobs of handwritten and spoken digits go through the router to an engine
// under a load of up to twice what answering all by both inputs
// can take. Policies take turns, each with the same jobs. Every job ends in one of the ways
// that the router counts. GEARSHIFT_MODALITY=10m is the long run, on the digits model that
// ONNX Runtime computes (build tag onnx): in it accuracy is counted on labels, and held
// against floors; goodput and violations are held against the simulation under the profile
// that was measured just before. GEARSHIFT_MODALITY_MODELS is a folder that models make has
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
	for round := range rounds {
		for i := range c.policies {
			// The order is another in each round, so that a policy does not always follow the same one.
			c.play(&c.policies[(i+round)%len(c.policies)], window, uint64(round))
		}
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

	noise []float64 // of measured batches, how many times the median each took

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

// The quality and times of the simulated engine, of batches of 1, 2, 4, 8 and 16.
var simulatedDigits = []struct {
	variant string
	quality float64
	times   []float64
}{
	{"digits-image", 0.8, []float64{3, 4, 6, 10, 18}},
	{"digits-audio", 0.86, []float64{6, 8, 12, 20, 36}},
	{"digits-image-audio", 0.94, []float64{10, 14, 22, 38, 70}},
}

var batchSizes = []int{1, 2, 4, 8, 16}

// A picture of one pixel and a sound of eight samples, in base 64.
const (
	tinyPNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
	tinyWAV = "UklGRjQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YRAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// jobDeadline is from a job's arrival.
const jobDeadline = time.Second

func newJobCheck(t *testing.T, real bool) *jobCheck {
	dir := t.TempDir()
	c := &jobCheck{t: t, wrong: map[string]int{}, samples: []sample{{"", tinyPNG, tinyWAV}}}
	qualities, times := map[string]float64{}, map[string][]float64{}
	for _, o := range simulatedDigits {
		qualities[o.variant], times[o.variant] = o.quality, o.times
	}
	var engine string
	if real {
		if made := os.Getenv("GEARSHIFT_MODALITY_MODELS"); made != "" {
			dir = made
		} else {
			succeed(t, "models", "make", "--family", "digits", "--out", dir, "--samples", filepath.Join(dir, "samples"), "--sample-count", "2000")
		}
		qualities = readQualities(t, filepath.Join(dir, "digits", "quality.json"))
		c.samples = readSamples(t, filepath.Join(dir, "samples"))
		engine = startProcess(t, "engine", "--addr", "127.0.0.1:0", "--model", filepath.Join(dir, "digits")).listensWithin(t, time.Minute)
		times, c.noise = measureBatches(t, "http://"+engine, c.samples)
	}
	served := digitsScenario(qualities, times) // the router simulates the engine
	if real {
		served = succeed(t, "scenario", "upstreams", write(t, "digits.yaml", served), "--at", "cpu0=http://"+engine)
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
func (c *jobCheck) load(length time.Duration, most float64) jobs.Load {
	return jobs.Load{Length: length, Least: most / 8, Most: most, Mean: 1, Spread: 6, Largest: batchSizes[len(batchSizes)-1], Deadline: jobDeadline, FloorHigh: 1}
}

// play has clients ask the policy's router for a window, and simulates the same jobs.
func (c *jobCheck) play(p *jobPolicy, window time.Duration, round uint64) {
	load := c.load(window, c.most)
	seed := workloads.Seed(workloads.Evaluation, round)
	arrivals, err := load.Draw(seed)
	if err != nil {
		c.t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	for i := range arrivals {
		arrivals[i].Floor = c.floors[rng.IntN(len(c.floors))]
	}
	c.simulate(p, arrivals, seed)
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
func (p *jobPolicy) count(a *jobs.Arrival, answer jobAnswer, took time.Duration, inputs []sample) {
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

// simulate plays the same jobs under the measured profile, whose times vary as those measured.
func (c *jobCheck) simulate(p *jobPolicy, arrivals []jobs.Arrival, seed uint64) {
	policy, err := modality.Named(p.name, c.table, rand.New(rand.NewPCG(seed, 7)))
	if err != nil {
		c.t.Fatal(err)
	}
	config := envjobs.Config{Dispatcher: modality.NewDispatcher(c.table, policy), Options: c.options}
	if len(c.noise) > 0 {
		draws := rand.New(rand.NewPCG(seed, 9))
		config.Noise = func() float64 { return c.noise[draws.IntN(len(c.noise))] }
	}
	r, err := envjobs.Run(config, arrivals, nil)
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
	c.t.Logf("%d rounds, at most %.0f requests/s, twice what all inputs can take\n%s%s", rounds, c.most, table.String(), floors.String())
}

// digitsScenario is the model on one host.
func digitsScenario(qualities map[string]float64, times map[string][]float64) string {
	var b, quality strings.Builder
	for _, o := range simulatedDigits {
		fmt.Fprintf(&quality, "%s: %v, ", o.variant, qualities[o.variant])
	}
	fmt.Fprintf(&b, `name: digits
tasks:
  - {name: digits, total_ms: %d, quality: {%s}}
models:
  - {name: digits, memory: 400MiB, modalities: [image, audio]}
hosts: [{name: cpu0, memory: 2GiB}]
replicas:
  - {model: digits, hosts: [cpu0], memory: 50%%}
workload: {output_tokens: {distribution: none}}
profiles:
`, jobDeadline.Milliseconds(), strings.TrimSuffix(quality.String(), ", "))
	for _, o := range simulatedDigits {
		var list []string
		for i, n := range batchSizes {
			list = append(list, fmt.Sprintf("%d: %.3f", n, times[o.variant][i]))
		}
		fmt.Fprintf(&b, "  - {variant: %s, batch_ms: {%s}}\n", o.variant, strings.Join(list, ", "))
	}
	return b.String()
}

// betweenSizes is the times of batches of 1, 2, 3, … between those listed.
func betweenSizes(listed []float64) (all []float64) {
	for i, n := range batchSizes {
		for k := len(all) + 1; k < n; k++ {
			before := batchSizes[i-1]
			all = append(all, listed[i-1]+(listed[i]-listed[i-1])*float64(k-before)/float64(n-before))
		}
		all = append(all, listed[i])
	}
	return all
}

// measureBatches is the median time of batches by variant, of the engine as a router sees it,
// and how many times the median each batch took.
func measureBatches(t *testing.T, engine string, samples []sample) (times map[string][]float64, noise []float64) {
	const warm, rounds = 8, 50 // the first rounds warm the engine up, and do not count
	runs := map[string][][]float64{}
	for round := range rounds {
		for _, o := range simulatedDigits {
			for i, n := range batchSizes {
				var inputs []sample
				for k := range n {
					s := samples[(round*17+k)%len(samples)]
					if !strings.Contains(o.variant, "image") {
						s.image = ""
					}
					if !strings.Contains(o.variant, "audio") {
						s.audio = ""
					}
					inputs = append(inputs, s)
				}
				body := jobBody(inputs, -1)
				began := time.Now()
				response, err := http.Post(engine+"/v1/gearshift/classify", "application/json", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					t.Fatalf("status %d, %v: %.300s", response.StatusCode, err, text)
				}
				if round < warm {
					continue
				}
				if runs[o.variant] == nil {
					runs[o.variant] = make([][]float64, len(batchSizes))
				}
				runs[o.variant][i] = append(runs[o.variant][i], 1000*time.Since(began).Seconds())
			}
		}
	}
	times = map[string][]float64{}
	for _, o := range simulatedDigits {
		longest := 0.0
		for _, one := range runs[o.variant] {
			slices.Sort(one)
			longest = max(longest, one[len(one)/2]) // a larger batch takes no less
			times[o.variant] = append(times[o.variant], longest)
			for _, ms := range one {
				noise = append(noise, ms/longest)
			}
		}
	}
	t.Logf("ms of batches of %v: %v", batchSizes, times)
	return times, noise
}

// jobBody asks for the inputs as a job, or of an engine, with a floor below 0.
func jobBody(inputs []sample, floor float64) string {
	var b strings.Builder
	b.WriteString(`{"model":"digits",`)
	if floor >= 0 {
		fmt.Fprintf(&b, `"min_quality":%v,"total_ms":%d,`, floor, jobDeadline.Milliseconds())
	}
	b.WriteString(`"inputs":[`)
	for i, s := range inputs {
		if i > 0 {
			b.WriteByte(',')
		}
		var members []string
		if s.image != "" {
			members = append(members, `"image":"`+s.image+`"`)
		}
		if s.audio != "" {
			members = append(members, `"audio":"`+s.audio+`"`)
		}
		b.WriteString("{" + strings.Join(members, ",") + "}")
	}
	return b.String() + "]}"
}

func readQualities(t *testing.T, path string) map[string]float64 {
	var q struct {
		HeldOut []struct {
			Modalities []string
			Accuracy   float64
		} `json:"held_out"`
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, a := range q.HeldOut {
		all["digits-"+strings.Join(a.Modalities, "-")] = a.Accuracy
	}
	return all
}

func readSamples(t *testing.T, dir string) (list []sample) {
	file, err := os.Open(filepath.Join(dir, "labels.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(content)
	}
	for _, row := range rows[1:] {
		label, err := strconv.Atoi(row[0])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, sample{strconv.Itoa(label), encoded(row[1]), encoded(row[2])})
	}
	return list
}
