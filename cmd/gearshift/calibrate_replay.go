//go:build !serveonly

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"text/tabwriter"

	"gearshift/cmd/gearshift/machine"
	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/validation"
	"gearshift/serving/measure"
	"gearshift/serving/replay"
)

// turn is one replay.
type turn struct {
	Policy     string        `json:"policy"`
	Repetition int           `json:"repetition"`
	Workload   string        `json:"workload"`
	Seed       uint64        `json:"seed"` // of the first repetition
	Time       string        `json:"time"`
	Stolen     float64       `json:"stolen,omitempty"` // share of the processors' time that their host gave to others
	Report     replay.Report `json:"report"`
}

// as says whether two turns are of the same policy and requests. Others, taken before
// an interruption with other flags, have no place in one table.
func (t *turn) as(o *turn) bool {
	return t.Policy == o.Policy && t.Workload == o.Workload && t.Seed == o.Seed && t.Time == o.Time
}

// turnFiles are what the replays leave, one each, and last what they come to.
func (c *calibration) turnFiles() []string {
	var files []string
	policies := c.compared()
	for repetition := range c.repetitions {
		for i := range policies {
			files = append(files, turnFile(repetition, i))
		}
	}
	return append(files, "replay.json")
}

func turnFile(repetition, policy int) string {
	return fmt.Sprintf("turn-%d-%d.json", repetition+1, policy+1)
}

// compared are the policies that are replayed: the trained one first.
func (c *calibration) compared() []string { return append([]string{calibrated}, c.alternatives()...) }

// replayAll serves each policy in turn and replays the same workload to it, another
// one in each repetition. A turn that was taken already stays.
func (c *calibration) replayAll(ctx context.Context) error {
	policies := c.compared()
	turns := make([]turn, c.repetitions*len(policies))
	for repetition := range c.repetitions {
		trace := c.at(fmt.Sprintf("workload-%d.jsonl", repetition+1))
		if err := c.generate(ctx, trace, c.seed+uint64(repetition)); err != nil {
			return err
		}
		for k := range policies {
			i := (repetition + k) % len(policies) // each begins in its turn
			ref := policies[i]
			t, err := c.turn(ctx, c.at(turnFile(repetition, i)), turn{Policy: ref, Repetition: repetition + 1, Workload: c.workload, Seed: c.seed, Time: c.replay.String()}, trace)
			if err != nil {
				return fmt.Errorf("%s: %w", ref, err)
			}
			turns[repetition*len(policies)+i] = t
		}
	}
	c.summarise(policies, turns)
	return writeJSON(c.at("replay.json"), turns)
}

func (c *calibration) generate(ctx context.Context, trace string, seed uint64) error {
	const plenty = 100_000 // requests, of which a turn takes those of its time
	var quiet bytes.Buffer
	return c.command(ctx, &quiet, "workload", "gen", c.workload, "--scenario", c.at("scenario.yaml"), "--requests", fmt.Sprint(plenty), "--seed", fmt.Sprint(seed), "--out", trace)
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return output.Install(path, append(text, '\n'), true)
}

// turn takes a turn, or reads what it came to when it was taken before.
func (c *calibration) turn(ctx context.Context, path string, t turn, trace string) (turn, error) {
	if text, err := os.ReadFile(path); err == nil {
		var old turn
		if json.Unmarshal(text, &old) == nil && old.as(&t) {
			return old, nil
		}
	}
	url, stop, err := c.serveWith(ctx, c.at("scenario.yaml"), t.Policy)
	if err != nil {
		return t, err
	}
	defer stop()
	var out bytes.Buffer
	processors := machine.Processors(validation.Upstreams(c.scenario)...)
	before := processors()
	err = c.command(ctx, &out, "replay", "--url", url, "--scenario", c.at("scenario.yaml"), "--trace", trace, "--lengths", "--duration", c.replay.String(), "--format", "json")
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &t.Report)
	}
	if err != nil {
		return t, err
	}
	t.Stolen = processors().StolenSince(before)
	return t, writeJSON(path, t)
}

// summarise prints means over all requests, and by how much the trained policy is ahead.
func (c *calibration) summarise(policies []string, turns []turn) {
	t := tabwriter.NewWriter(c.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "  policy\tutility\tin time\tcompleted\tthe trained policy is ahead by (± standard error)")
	trained := reports(policies, turns, 0)
	for i, ref := range policies {
		var utility, met, requests, completed float64
		own := reports(policies, turns, i)
		for _, r := range own {
			n := float64(r.Requests)
			utility, met, requests, completed = utility+n*r.Utility, met+n*r.DeadlineMet, requests+n, completed+float64(r.Completed)
		}
		requests = max(1, requests)
		fmt.Fprintf(t, "  %s\t%.4f\t%.1f %%\t%.1f %%\t", ref, utility/requests, 100*met/requests, 100*completed/requests)
		if i > 0 {
			mean, within := ahead(trained, own)
			fmt.Fprintf(t, "%+.4f", mean)
			if len(own) > 1 {
				fmt.Fprintf(t, " ± %.4f", within)
			}
		}
		fmt.Fprintln(t)
	}
	_ = t.Flush()
	for _, t := range turns {
		if t.Stolen > measure.MostStolen {
			fmt.Fprintf(c.stdout, "  %s in repetition %d is doubtful: %s\n", t.Policy, t.Repetition, machine.StolenWords(t.Stolen))
		}
	}
}

// reports are those of a policy's turns.
func reports(policies []string, turns []turn, policy int) []*replay.Report {
	var own []*replay.Report
	for k := policy; k < len(turns); k += len(policies) {
		own = append(own, &turns[k].Report)
	}
	return own
}

// ahead is by how much a has more utility per request than b in the same stretches, and
// the standard error of that by how much the stretches differ, if there are several.
func ahead(a, b []*replay.Report) (mean, within float64) {
	var requests float64
	for k := range a {
		n := float64(a[k].Requests)
		requests, mean = requests+n, mean+n*(a[k].Utility-b[k].Utility)
	}
	mean /= max(1, requests)
	for k := range a {
		n := float64(a[k].Requests)
		d := n * (a[k].Utility - b[k].Utility - mean)
		within += d * d
	}
	stretches := float64(len(a))
	return mean, math.Sqrt(within*stretches/(stretches-1)) / max(1, requests)
}
