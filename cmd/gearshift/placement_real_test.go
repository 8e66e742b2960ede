package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// TestPlacementForReal: three decoders, which ONNX Runtime computes in a server of its own, in memory that holds all
// three with room for few requests at once, or the two smaller ones with room for more, of docs/scenarios. A burst
// that outgrows the three comes between calms. One arm has all three loaded throughout; in the other the router
// decides. Both have the same router, the same memory and the same requests at the same moments, in turn, each
// in processes of its own that have just started.
//
// The scenario's times, deadlines and rates are those of another machine, or another hour: they are scaled by what one
// answer of each size takes at the start. GEARSHIFT_PLACEMENT is the number of rounds, of two minutes each.
//
//	GEARSHIFT_PLACEMENT=5 go test -tags onnx -count=1 -v -timeout 30m -run '^TestPlacementForReal$' ./cmd/gearshift
func TestPlacementForReal(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("GEARSHIFT_PLACEMENT"))
	if rounds < 1 {
		t.Skip("a measurement of two minutes a round, on a machine with nothing else to do: GEARSHIFT_PLACEMENT=5, or make placement-real, runs it")
	}
	needONNX(t)
	c := newPlacementCheck(t)
	var gains []float64
	var utilities [2][]float64
	var moved placementRun
	for round := range rounds {
		var runs [2]placementRun
		for n := range runs {
			arm := (n + round) % len(runs) // the order changes, so that none always follows the other
			runs[arm] = c.play(arm == 1, uint64(round))
		}
		for i, r := range runs {
			utilities[i] = append(utilities[i], r.Utility)
		}
		gains = append(gains, runs[1].Utility-runs[0].Utility)
		moved.changes, moved.DurationS = moved.changes+runs[1].changes, moved.DurationS+runs[1].DurationS
		t.Logf("round %d: all loaded: %v; decided: %v; %+.4f", round+1, runs[0], runs[1], gains[round])
		for _, r := range runs {
			if r.failed > 0 || r.lost() > 0 {
				t.Errorf("round %d: %d requests were lost, %d changes failed: %v", round+1, r.lost(), r.failed, r.Errors)
			}
		}
	}
	mean := evaluation.Bootstrap(gains)
	loaded, decided := evaluation.Bootstrap(utilities[0]), evaluation.Bootstrap(utilities[1])
	t.Logf("utility: all loaded %.4f [%.4f, %.4f], decided %.4f [%.4f, %.4f]; the difference %+.4f [%+.4f, %+.4f] over %d rounds; %d changes in %.0f s, %.0f in an hour",
		loaded.Mean, loaded.Lo, loaded.Hi, decided.Mean, decided.Lo, decided.Hi, mean.Mean, mean.Lo, mean.Hi, rounds, moved.changes, moved.DurationS, float64(moved.changes)/moved.DurationS*3600)
	if moved.changes == 0 || rounds >= 5 && mean.Lo <= 0 {
		t.Errorf("%d changes, and the gain is %+.4f [%+.4f, %+.4f]", moved.changes, mean.Mean, mean.Lo, mean.Hi)
	}
}

// placementRun counts what an arm answered in a round, and the router's changes.
type placementRun struct {
	loadgen.ReplayReport
	changes, failed int
}

// refused counts the requests that the router refused at once, since they would have been late.
func (r placementRun) refused() (n int) {
	for fault, count := range r.Errors {
		if strings.HasPrefix(fault, "status 429") {
			n += count
		}
	}
	return n
}

// lost counts the requests that were neither answered nor refused.
func (r placementRun) lost() int { return r.Requests - r.Completed - r.refused() }

func (r placementRun) String() string {
	return fmt.Sprintf("%.4f of %d (%.3f in time, %.3f refused, %d lost, by small %.2f, medium %.2f, large %.2f, %d changes)", r.Utility, r.Requests,
		r.DeadlineMet, float64(r.refused())/float64(r.Requests), r.lost(), r.Share["small"], r.Share["medium"], r.Share["large"], r.changes)
}

// placementCheck is the models, and the scenario at this machine's pace.
type placementCheck struct {
	t        *testing.T
	models   string
	text     string
	requests string // the workload
	scenario *scenario.Scenario
}

// placementFile has the sizes, their memory, and what the router decides by.
const placementFile = "../../docs/scenarios/cpu-three-shifting.yaml"

func newPlacementCheck(t *testing.T) *placementCheck {
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	text, err := os.ReadFile(placementFile)
	if err != nil {
		t.Fatal(err)
	}
	c := &placementCheck{t: t, models: t.TempDir(), text: string(text), scenario: scenarioOf(t, placementFile)}
	succeed(t, "models", "make", "--out", c.models)
	for _, p := range c.scenario.Replicas {
		c.declare(cmp.Or(p.Name, p.Variant), p.Variant, int64(p.Memory.Size))
	}
	pace := c.measure()
	c.text = strings.ReplaceAll(c.text, "deadline_ms: 60,", fmt.Sprintf("deadline_ms: %.4g,", 60*pace))
	c.requests = fmt.Sprintf("schedule:%.4gx10,%.4gx28,%.4gx10", 1/pace, 8/pace, 1/pace)
	if c.scenario, err = scenario.Parse(placementFile, []byte(c.text)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, with deadlines of %.3g ms a token", c.requests, 60*pace)
	return c
}

// declare makes the folder of a replica's model, which says how much memory that has.
func (c *placementCheck) declare(name, variant string, bytes int64) {
	from, to := filepath.Join(c.models, variant), filepath.Join(c.models, name)
	if err := os.MkdirAll(to, 0o755); err != nil {
		c.t.Fatal(err)
	}
	for _, file := range []string{"model.onnx", "tokenizer.json"} {
		if err := os.Link(filepath.Join(from, file), filepath.Join(to, file)); err != nil && name != variant {
			c.t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(from, "config.json"))
	if err != nil {
		c.t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		c.t.Fatal(err)
	}
	config["memory"] = bytes
	if text, err = json.Marshal(config); err != nil {
		c.t.Fatal(err)
	}
	into(c.t, to)("config.json", string(text))
}

// engine starts a server of the models, with those of the scenario's memory that are up at the start.
func (c *placementCheck) engine() *process {
	args := []string{"engine", "--addr", "127.0.0.1:0", "--repository", c.models, "--memory", fmt.Sprint(int64(c.scenario.Hosts[0].Memory)), "--context", "128"}
	for _, v := range c.scenario.Variants {
		args = append(args, "--load", v.Name)
	}
	return startProcess(c.t, args...)
}

// measure has the profiles take the times of one answer of each size here, and returns the mean ratio to what the
// file says.
func (c *placementCheck) measure() (pace float64) {
	const prompt, output = 24, 64
	e := c.engine()
	defer e.kill()
	server := loadgen.Server{URL: "http://" + e.listensWithin(c.t, time.Minute)}
	since := loadgen.Clock()
	for i := range c.scenario.Models {
		p := &c.scenario.Models[i]
		var took []float64
		for range 9 {
			q := loadgen.Question{Model: p.Variant, Tokens: output, Prompt: strings.TrimSpace(strings.Repeat("word ", prompt))}
			a, err := server.Ask(c.t.Context(), http.DefaultClient, since, q)
			if err != nil {
				c.t.Fatal(err)
			}
			took = append(took, ms(a.End-a.Sent))
		}
		slices.Sort(took)
		step, _ := p.Step(1, 1, prompt+output/2, 0)
		ratio := took[len(took)/2] / (p.Prefill(prompt, 0) + (output-1)*step)
		c.t.Logf("%s: %.0f ms an answer alone, %.2f of the file's", p.Variant, took[len(took)/2], ratio)
		c.scale(p.Variant, ratio)
		pace += ratio / float64(len(c.scenario.Models))
	}
	return pace
}

var profileTime = regexp.MustCompile(`(_ms: )([0-9.]+)`)

// scale multiplies the times of a profile.
func (c *placementCheck) scale(variant string, by float64) {
	lines := strings.Split(c.text, "\n")
	for i, line := range lines {
		if strings.Contains(line, "{variant: "+variant+", launch_floor_ms: ") {
			lines[i] = profileTime.ReplaceAllStringFunc(line, func(s string) string {
				value, _ := strconv.ParseFloat(s[len("_ms: "):], 64)
				return fmt.Sprintf("_ms: %.5g", value*by)
			})
		}
	}
	c.text = strings.Join(lines, "\n")
}

// play starts a server and a router, sends the round's requests, and returns what came back.
func (c *placementCheck) play(decided bool, round uint64) (run placementRun) {
	e := c.engine()
	defer e.kill()
	text := strings.ReplaceAll(c.text, "http://127.0.0.1:8101", "http://"+e.listensWithin(c.t, time.Minute))
	if !decided {
		text = allLoaded.ReplaceAllString(text, "")
	}
	file, admin := write(c.t, "served.yaml", text), freeAddr(c.t)
	router := startProcess(c.t, "serve", "--scenario", file, "--addr", "127.0.0.1:0", "--admin-addr", admin, "--store", file+".db", "--policy", c.scenario.Serving.Fallback)
	defer router.stop(c.t)
	config := loadgen.ReplayConfig{URL: "http://" + router.listens(c.t), Table: c.scenario.Table(), Requests: c.draw(round)}
	var err error
	if run.ReplayReport, err = loadgen.Replay(c.t.Context(), config); err != nil {
		c.t.Fatal(err)
	}
	if decided {
		if run.changes, run.failed = c.changes("http://" + admin); run.failed > 0 {
			c.t.Logf("the router: %s", router.log)
		}
	}
	return run
}

// allLoaded matches the lines of the file without which all sizes are loaded throughout.
var allLoaded = regexp.MustCompile(`(?m)^.*(-wide|  placement:).*\n`)

// draw draws a round's requests.
func (c *placementCheck) draw(round uint64) (list workloads.Given) {
	spec, err := workloads.Parse(c.requests)
	if err != nil {
		c.t.Fatal(err)
	}
	stream, err := spec.Open(c.scenario.Settings(0), workloads.Seed(workloads.Serving, 6200+round))
	if err != nil {
		c.t.Fatal(err)
	}
	for a, ok := stream.Next(); ok; a, ok = stream.Next() {
		list = append(list, a)
	}
	return list
}

// changes asks the router how many changes it has begun, and how many actions failed.
func (c *placementCheck) changes(admin string) (begun, failed int) {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, admin+"/admin/placement", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	var status struct{ Changes, Failed int }
	if err := json.NewDecoder(response.Body).Decode(&status); err != nil || response.StatusCode != http.StatusOK {
		c.t.Fatalf("status %d, %v", response.StatusCode, err)
	}
	return status.Changes, status.Failed
}
