package main

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gearshift/serving/backend/models"
)

// TestFailoverForReal: 46 applications on six engine processes in three sites, behind a router
// whose scenario has failover. Clients ask at their rates, whatever is answered. One engine after
// another is killed, stopped, or cut off from the network, and comes back. No request may be lost,
// and no client may get an answer that is not its own.
//
// GEARSHIFT_FAILOVER=30 is the number of losses of the real run, on image classifiers that ONNX
// Runtime computes (build tag onnx); GEARSHIFT_FAILOVER_MODELS is a folder that keeps them between
// runs. In it times are judged: the outage that clients see, and progressive loading against
// loading in full. Without it the engines are simulated, and the run is short.
func TestFailoverForReal(t *testing.T) {
	losses, real := 3, false
	if text := os.Getenv("GEARSHIFT_FAILOVER"); text != "" {
		var err error
		if losses, err = strconv.Atoi(text); err != nil || losses < 3 {
			t.Fatalf("GEARSHIFT_FAILOVER=%s: want a number of losses, 3 or more", text)
		}
		needONNX(t)
		real = true
	}
	keepBusy(t)
	f := newFailoverCheck(t, real)
	f.phase("gearshift", "50%", losses, lossKinds)
	if real {
		// What is loaded after the loss: nothing is held ready, and all is loaded.
		cold := max(1, losses/5)
		f.phase("faillite", "0%", cold, lossKinds[:1])
		f.phase("full-cold", "0%", cold, lossKinds[:1])
	}
	f.report(losses)
}

// The hosts, and the sites that they are in by twos.
const (
	failoverHosts = 6
	failoverApps  = 46
)

// sizedModel is a model with what a scenario says of it.
type sizedModel struct {
	models.Size
	family  string
	bytes   int64   // that it takes while it is loaded
	loadMS  float64 // measured
	ms      float64 // of one answer, measured
	quality float64 // in its family
}

// failoverCheck is one run.
type failoverCheck struct {
	t      *testing.T
	real   bool
	dir    string // of models; empty where engines are simulated
	models []sizedModel
	net    network
	phases []*phase
}

// qualities are those of a family's sizes, in the proportions of torchvision's accuracies.
var qualities = map[string][]float64{
	"mobile":    {0.899, 0.959, 1},
	"shuffle":   {0.794, 0.910, 0.958, 1},
	"conv":      {0.978, 0.991, 0.996, 1},
	"efficient": {0.924, 0.949, 0.958, 0.975, 0.991, 0.992, 0.999, 1},
	"reg":       {0.909, 0.946, 0.970, 0.983, 0.994, 0.995, 0.999, 1},
}

func newFailoverCheck(t *testing.T, real bool) *failoverCheck {
	f := &failoverCheck{t: t, real: real, net: newNetwork(t, failoverHosts, real)}
	next := map[string]int{}
	for _, s := range models.ImageClassifiers() {
		family, _, _ := strings.Cut(s.Name, "-")
		f.models = append(f.models, sizedModel{
			Size: s, family: family, quality: qualities[family][next[family]],
			bytes: int64(4*(&models.ImageClassifier{Size: s}).Parameters()) + 16<<20, loadMS: 20, ms: 1,
		})
		next[family]++
	}
	if real {
		f.makeModels()
		f.measureModels()
	}
	return f
}

// makeModels writes the models, unless an earlier run has.
func (f *failoverCheck) makeModels() {
	f.dir = os.Getenv("GEARSHIFT_FAILOVER_MODELS")
	if f.dir == "" {
		f.dir = f.t.TempDir()
	}
	for _, m := range f.models {
		if _, err := os.Stat(filepath.Join(f.dir, m.Name, "model.onnx")); err != nil {
			size := fmt.Sprintf("%s=%dx%d", m.Name, m.Layers, m.Width)
			succeed(f.t, "models", "make", "--family", "images", "--out", f.dir, "--size", size)
		}
	}
}

// measureModels loads each model three times, with its file in memory, and asks it. The middle time
// counts: the system may be busy with the files that have just been written.
func (f *failoverCheck) measureModels() {
	p := startProcess(f.t, "engine", "--repository", f.dir, "--addr", "127.0.0.1:0")
	e := &engineProcess{process: p, url: "http://" + p.listensWithin(f.t, time.Minute)}
	defer e.kill()
	var table strings.Builder
	for i := range f.models {
		m := &f.models[i]
		order := func(verb string) time.Duration {
			began := time.Now()
			e.expect(f.t, "POST", "/v2/repository/models/"+m.Name+"/"+verb, "", http.StatusOK)
			return time.Since(began)
		}
		if _, err := os.ReadFile(filepath.Join(f.dir, m.Name, "model.onnx")); err != nil { // so that the system has it in memory
			f.t.Fatal(err)
		}
		var loads, times []float64
		for range 3 {
			loads = append(loads, ms(order("load")))
			order("unload")
		}
		m.loadMS = quantile(loads, 0.5)
		order("load")
		for range 20 {
			began := time.Now()
			e.expect(f.t, "POST", "/v1/gearshift/classify", classifyBody(m.Name), http.StatusOK)
			times = append(times, ms(time.Since(began)))
		}
		order("unload")
		m.ms = quantile(times, 0.5)
		fmt.Fprintf(&table, "%-12s %6.1f MB, loaded in %6.0f ms, answers in %.2f ms\n", m.Name, float64(m.bytes)/1e6, m.loadMS, m.ms)
	}
	f.t.Logf("models, loaded with their files in memory:\n%s", table.String())
}

// classifyBody is a request for the model, of one pixel.
func classifyBody(model string) string {
	return `{"model":"` + model + `","image":"` + tinyPNG + `"}`
}

// ms is a time in milliseconds.
func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// testApplication is one of those that are served.
type testApplication struct {
	name     string
	rate     float64
	variants []int // indices of models, the full one last
}

// applications are those under a policy. By default they are spread over families and over their
// larger sizes, and may be answered by any smaller size. Where all is loaded after a loss, each has
// a full model of its own, so that no other application has it loaded already, and the smallest of
// its family.
func (f *failoverCheck) applications(policy string) (list []testApplication) {
	sizes := map[string][]int{}
	for k, m := range f.models {
		sizes[m.family] = append(sizes[m.family], k)
	}
	if policy != "gearshift" {
		for k, m := range f.models {
			if own := sizes[m.family]; m.bytes > coldLeast {
				list = append(list, testApplication{m.Name + "-app", 4, []int{own[0], k}})
			}
		}
		return list
	}
	families := []string{"mobile", "shuffle", "conv", "efficient", "reg"}
	for i := range failoverApps {
		own := sizes[families[i%len(families)]]
		round := i / len(families)
		list = append(list, testApplication{
			fmt.Sprintf("%s-app-%d", families[i%len(families)], round+1), 0.5 + float64((3*i)%9)/4, own[:len(own)-round%min(3, len(own)-1)],
		})
	}
	return list
}

// coldLeast is the least that the full models take of applications for which all is loaded after a
// loss, in bytes.
const coldLeast = 80_000_000

// scenario is the file for the router, and for simulated engines. Memory is such that the full
// variants take about half of it, and that the largest fits into the headroom of a host where full
// variants are loaded after a loss.
func (f *failoverCheck) scenario(policy, critical string, urls []string) string {
	var b strings.Builder
	apps := f.applications(policy)
	heartbeat := "20ms"
	if !f.real {
		heartbeat = "300ms" // other tests take the processors, too
	}
	headroom, share := "20%", 0.2
	if policy != "gearshift" {
		headroom, share = "50%", 0.5 // full models fit, so that the times of both policies are of the same applications
	}
	fmt.Fprintf(&b, "name: failover-check\ntasks:\n")
	var all, largest int64
	for _, a := range apps {
		full := f.models[a.variants[len(a.variants)-1]]
		var quality []string
		for _, k := range a.variants {
			quality = append(quality, fmt.Sprintf("%s: %v", f.models[k].Name, f.models[k].quality/full.quality))
		}
		all, largest = all+full.bytes, max(largest, full.bytes)
		fmt.Fprintf(&b, "  - {name: %s, total_ms: 1000, rate: %v, quality: {%s}}\n", a.name, a.rate, strings.Join(quality, ", "))
	}
	fmt.Fprintf(&b, "models:\n")
	for _, m := range f.models {
		fmt.Fprintf(&b, "  - {name: %s, memory: %dB, load_ms: %.1f}\n", m.Name, m.bytes, m.loadMS)
	}
	fmt.Fprintf(&b, "variants:\n")
	for _, m := range f.models {
		fmt.Fprintf(&b, "  - {name: %s, model: %s}\n", m.Name, m.Name)
	}
	fmt.Fprintf(&b, "hosts:\n")
	memory := max(2*all/failoverHosts, int64(math.Ceil(float64(largest)/share)))
	for h := range failoverHosts {
		fmt.Fprintf(&b, "  - {name: h%d, site: %c, memory: %dB}\n", h+1, 'a'+h/2, memory)
	}
	fmt.Fprintf(&b, "profiles:\n")
	for _, m := range f.models {
		fmt.Fprintf(&b, "  - {variant: %s, batch_ms: {1: %.3f, 8: %.3f}}\n", m.Name, m.ms, 4*m.ms)
	}
	fmt.Fprintf(&b, `workload: {output_tokens: {distribution: none}}
failover: {policy: %s, critical: %s, headroom: %s, heartbeat: %s, return_after: 1s}
serving:
  backend: upstream
  upstreams:
`, policy, critical, headroom, heartbeat)
	for h, url := range urls {
		fmt.Fprintf(&b, "    \"*@h%d\": {url: %q, lifecycle: gearshift}\n", h+1, url)
	}
	return b.String()
}
