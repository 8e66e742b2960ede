package calibrate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"text/tabwriter"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/calibrate/validation"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
)

// turn is one replay.
type turn struct {
	Policy     string  `json:"policy"`
	Repetition int     `json:"repetition"`
	Workload   string  `json:"workload"`
	Seed       uint64  `json:"seed"` // of the first repetition
	Time       string  `json:"time"`
	Stolen     float64 `json:"stolen,omitempty"` // share of the processors' time that their host gave to others
	// Slowness is how many times as long as their profiles say the engines' steps took just
	// before and after, where turns may be taken again for it.
	Slowness []float64            `json:"slowness,omitempty"`
	Report   loadgen.ReplayReport `json:"report"`
}

// as reports whether two turns are of the same policy and requests. Others, taken before
// an interruption with other flags, have no place in one table.
func (t *turn) as(o *turn) bool {
	return t.Policy == o.Policy && t.Workload == o.Workload && t.Seed == o.Seed && t.Time == o.Time
}

// turnFiles returns what the replays leave, one each, and last what they come to.
func (c *calibration) turnFiles() []string {
	var files []string
	policies := c.compared()
	for repetition := range c.Repetitions {
		for i := range policies {
			files = append(files, turnFile(repetition, i))
		}
	}
	return append(files, "replay.json")
}

func turnFile(repetition, policy int) string {
	return fmt.Sprintf("turn-%d-%d.json", repetition+1, policy+1)
}

// compared returns the policies that are replayed: the trained one first.
func (c *calibration) compared() []string { return append([]string{calibrated}, c.alternatives()...) }

// replayAll serves each policy in turn and replays the same workload to it, another
// one in each repetition.
func (c *calibration) replayAll(ctx context.Context) error {
	policies := c.compared()
	var turns []turn
	for repetition := range c.Repetitions {
		stretch := make([]turn, len(policies))
		for i, ref := range policies {
			stretch[i] = turn{Policy: ref, Repetition: repetition + 1, Workload: c.Workload, Seed: c.Seed, Time: c.Replay.String()}
		}
		if err := c.stretch(ctx, repetition, stretch); err != nil {
			return err
		}
		turns = append(turns, stretch...)
	}
	c.summarise(policies, turns)
	return writeJSON(c.at("replay.json"), turns)
}

// stretch takes the turns of a repetition, or reads what they came to if all of them were
// taken before. Those of a repetition that was interrupted are taken again: hours apart, the
// machine and its neighbours may be other ones, and the policies are to be compared.
func (c *calibration) stretch(ctx context.Context, repetition int, turns []turn) error {
	taken := c.taken(repetition, turns)
	if len(taken) == len(turns) {
		copy(turns, taken)
		return nil
	}
	if len(taken) > 0 {
		fmt.Fprintf(c.stdout, "  repetition %d is not whole: all of its turns are taken again\n", repetition+1)
	}
	for i := range turns {
		if err := c.remove(turnFile(repetition, i)); err != nil {
			return err
		}
	}
	trace := c.at(fmt.Sprintf("workload-%d.jsonl", repetition+1))
	if err := c.generate(ctx, trace, c.Seed+uint64(repetition)); err != nil {
		return err
	}
	take := func(i int) error {
		if err := c.take(ctx, &turns[i], trace); err != nil {
			return fmt.Errorf("%s: %w", turns[i].Policy, err)
		}
		return nil
	}
	for k := range turns {
		if err := take((repetition + k) % len(turns)); err != nil { // each begins in its turn
			return err
		}
	}
	if err := c.level(turns, take); err != nil {
		return err
	}
	for i := range turns { // now that none is taken again
		if err := writeJSON(c.at(turnFile(repetition, i)), turns[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *calibration) generate(ctx context.Context, trace string, seed uint64) error {
	const plenty = 100_000 // requests, of which a turn takes those of its time
	var quiet bytes.Buffer
	return c.command(ctx, &quiet, "workload", "gen", c.Workload, "--scenario", c.at("scenario.yaml"), "--requests", fmt.Sprint(plenty), "--seed", fmt.Sprint(seed), "--out", trace)
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return output.Install(path, append(text, '\n'), true)
}

// taken returns those of the asked turns that were taken before, of the same policies and requests.
func (c *calibration) taken(repetition int, asked []turn) []turn {
	var taken []turn
	for i := range asked {
		text, err := os.ReadFile(c.at(turnFile(repetition, i)))
		if err != nil {
			continue
		}
		var t turn
		if json.Unmarshal(text, &t) == nil && t.as(&asked[i]) {
			taken = append(taken, t)
		}
	}
	return taken
}

// take serves the turn's policy and replays the trace to it.
func (c *calibration) take(ctx context.Context, t *turn, trace string) error {
	url, stop, err := c.serveWith(ctx, c.at("scenario.yaml"), t.Policy)
	if err != nil {
		return err
	}
	defer stop()
	return c.probed(ctx, url, t, func() error { return c.replayTo(ctx, url, t, trace) })
}

func (c *calibration) replayTo(ctx context.Context, url string, t *turn, trace string) error {
	var out bytes.Buffer
	processors := profiling.Processors(validation.Upstreams(c.scenario)...)
	before := processors()
	if err := c.command(ctx, &out, "replay", "--url", url, "--scenario", c.at("scenario.yaml"), "--store", c.at(storeName), "--trace", trace, "--lengths", "--duration", c.Replay.String(), "--format", "json"); err != nil {
		return err
	}
	t.Stolen = processors().StolenSince(before)
	return t.enter(out.Bytes())
}

// enter replaces the report of an earlier try.
func (t *turn) enter(report []byte) error {
	t.Report = loadgen.ReplayReport{} // decoding into a map leaves what is in it
	return json.Unmarshal(report, &t.Report)
}

// summarise prints means over all requests, and by how much the trained policy is ahead.
func (c *calibration) summarise(policies []string, turns []turn) {
	t := tabwriter.NewWriter(c.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "  policy\tutility\tin time\tcompleted\tthe trained policy is ahead by (± standard error)")
	trained := turnReports(policies, turns, 0)
	for i, ref := range policies {
		var utility, met, requests, completed float64
		own := turnReports(policies, turns, i)
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
	for k := 0; k < len(turns); k += len(policies) {
		for _, i := range uneven(turns[k : k+len(policies)]) {
			t := &turns[k+i]
			fmt.Fprintf(c.stdout, "  %s in repetition %d is doubtful: the machine was at another speed than in most of its turns\n", t.Policy, t.Repetition)
		}
	}
	for _, t := range turns {
		if t.Stolen > loadgen.MostStolen {
			fmt.Fprintf(c.stdout, "  %s in repetition %d is doubtful: %s\n", t.Policy, t.Repetition, profiling.StolenWords(t.Stolen))
		}
	}
}

// turnReports returns those of a policy's turns.
func turnReports(policies []string, turns []turn, policy int) []*loadgen.ReplayReport {
	var own []*loadgen.ReplayReport
	for k := policy; k < len(turns); k += len(policies) {
		own = append(own, &turns[k].Report)
	}
	return own
}

// ahead is by how much a has more utility per request than b in the same stretches, and
// the standard error of that by how much the stretches differ, if there are several.
func ahead(a, b []*loadgen.ReplayReport) (mean, within float64) {
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

// evenSpeed is how many times as slow, or as quick, as the others of its repetition the
// machine may be just before and after a turn. Volleys at one speed differ by half of that.
const evenSpeed = 1.15

// probed measures how slow the engines are before and after f, for a turn, if turns may be
// taken again for it.
func (c *calibration) probed(ctx context.Context, url string, t *turn, f func() error) error {
	if c.ReplayTries <= 1 {
		return f()
	}
	engines := url
	if c.scenario.Serving.Backend == scenario.Upstream {
		engines = "" // the scenario's own
	}
	p, err := validation.NewProbe(ctx, c.at("scenario.yaml"), engines, c.Seed)
	if err != nil {
		return err
	}
	defer p.Close()
	before, err := p.Slowness(ctx)
	if err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	after, err := p.Slowness(ctx)
	t.Slowness = []float64{before, after}
	return err
}

// uneven returns the turns of a repetition in which the machine was at another speed than in
// most of them. What they came to does not count in that.
func uneven(turns []turn) []int {
	var logs []float64
	for i := range turns {
		for _, slow := range turns[i].Slowness {
			if slow > 0 {
				logs = append(logs, math.Log(slow))
			}
		}
	}
	if len(logs) == 0 {
		return nil
	}
	slices.Sort(logs)
	usual := logs[len(logs)/2]
	var off []int
	for i := range turns {
		if slices.ContainsFunc(turns[i].Slowness, func(slow float64) bool {
			return slow > 0 && math.Abs(math.Log(slow)-usual) > math.Log(evenSpeed)
		}) {
			off = append(off, i)
		}
	}
	return off
}

// level takes the uneven turns of a repetition again, in their order, while there are any
// and tries are left.
func (c *calibration) level(turns []turn, again func(i int) error) error {
	for range c.ReplayTries - 1 {
		off := uneven(turns)
		if len(off) == 0 {
			return nil
		}
		for _, i := range off {
			fmt.Fprintf(c.stdout, "  %s again: the machine was at another speed than in most turns of repetition %d\n", turns[i].Policy, turns[i].Repetition)
			if err := again(i); err != nil {
				return err
			}
		}
	}
	return nil
}
