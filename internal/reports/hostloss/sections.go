package hostloss

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/training/policies"
	"gearshift/router/fleet"
)

// report plays everything and lays it out.
func (p *study) report(ctx context.Context) (*report.Report, error) {
	r := &report.Report{
		Title: "The loss of a host",
		Scenario: fmt.Sprintf("Simulated: titan-rtx-opt, %g requests per second; host %s is lost for good after %v, and requests count that arrive %v to %v later; %d runs",
			p.options.rate, p.scenario.Hosts[p.loss.host].Name, p.loss.at, p.loss.from, p.loss.to, len(p.seeds)),
		Repeat: p.repeat() + " --out DIR; " + p.version,
	}
	var hosts, backups []string
	for _, ref := range p.refs {
		section, found, err := p.section(ctx, ref, len(r.Sections)+1)
		if err != nil {
			return nil, err
		}
		r.Sections, hosts, backups = append(r.Sections, section), append(hosts, found.hosts), append(backups, found.backups)
	}
	loads, worst, err := p.loads(ctx)
	if err != nil {
		return nil, err
	}
	r.Sections = append(r.Sections, loads)
	r.Verdict = []string{
		"Utility 2 to 12 s after the loss: " + strings.Join(hosts, "; "),
		"Over the best fixed assignment of backups: " + strings.Join(backups, "; "),
		fmt.Sprintf("At 8 to 48 requests per second the largest difference from three hosts is %+.4f", worst),
	}
	return r, nil
}

// repeat is the command that makes the same report.
func (p *study) repeat() string {
	c := fmt.Sprintf("gearshift paper host-loss --seeds %d --rate %g", len(p.seeds), p.options.rate)
	if p.options.quick {
		c += " --quick"
	}
	if len(p.options.policies) == 0 {
		c += " --preset " + p.options.preset
	}
	for _, ref := range p.options.policies {
		c += fmt.Sprintf(" --policy '%s'", ref)
	}
	return c
}

func cell(i evaluation.Interval) report.Cell { return report.Interval(i.Mean, i.Lo, i.Hi) }

// difference is that of means by seed, as a cell.
func difference(a, b []float64) (evaluation.Interval, report.Cell) {
	i, err := evaluation.Paired(a, b)
	if err != nil {
		panic(err) // the same seeds are played everywhere
	}
	return i, cell(i)
}

// finding is what the section of a policy has found, in words.
type finding struct{ hosts, backups string }

// section holds one policy after a loss against the fleet of three hosts, and against itself with
// fixed backups.
func (p *study) section(ctx context.Context, ref string, number int) (report.Section, finding, error) {
	c, err := policies.Contestant(p.scenario, p.source, ref, func(note string) { fmt.Fprintln(p.stderr, note) })
	if err != nil {
		return report.Section{}, finding{}, err
	}
	out := report.Section{ID: fmt.Sprintf("policy-%d", number), Title: c.Name, Text: "Utility per request of the window, with 95 % bootstrap intervals over the runs. Differences are paired by seed."}
	after, three, err := p.both(ctx, c, p.options.rate)
	if err != nil {
		return out, finding{}, err
	}
	apart, apartCell := difference(after, three)
	t := report.Table{
		ID: out.ID + "-hosts", Title: "After the loss, compared with three hosts from the beginning",
		Columns: []report.Column{report.TextColumn("fleet", "Fleet"), report.IntervalColumn("utility", "Utility", "", 4), report.IntervalColumn("difference", "After the loss, less this", "", 4)},
		Rows: [][]report.Cell{
			{report.Text("four hosts, one lost"), cell(evaluation.Bootstrap(after)), {}},
			{report.Text("three hosts"), cell(evaluation.Bootstrap(three)), apartCell},
		},
	}
	fixed, best, err := p.fixed(ctx, c, out.ID, after)
	if err != nil {
		return out, finding{}, err
	}
	out.Tables = []report.Table{t, fixed}
	return out, finding{
		fmt.Sprintf("%s earns %.4f, on three hosts %.4f: %+.4f (%+.4f to %+.4f)",
			c.Name, evaluation.Bootstrap(after).Mean, evaluation.Bootstrap(three).Mean, apart.Mean, apart.Lo, apart.Hi),
		fmt.Sprintf("%s %+.4f (%+.4f to %+.4f)", c.Name, best.Mean, best.Lo, best.Hi),
	}, nil
}

// taskNames lists the tasks in their order.
func taskNames(tasks []fleet.Task) string {
	var names []string
	for i := range tasks {
		names = append(names, tasks[i].Name)
	}
	return strings.Join(names, ", ")
}

// both plays a policy at a rate with the loss, and on the hosts that stay.
func (p *study) both(ctx context.Context, c evaluation.Contestant, rate float64) (after, three []float64, err error) {
	if after, err = p.play(ctx, c, p.loss.workload(p.scenario, rate, false), p.seeds); err != nil {
		return nil, nil, err
	}
	three, err = p.play(ctx, c, p.loss.workload(p.scenario, rate, true), p.seeds)
	return after, three, err
}

// rival is a fixed assignment, and what it earns.
type rival struct {
	assignment
	screened float64
	utility  []float64 // by evaluation seed
}

// fixed plays the assignments of backups, and returns by how much the policy without any, which
// has earned ours, is above the best of them.
func (p *study) fixed(ctx context.Context, c evaluation.Contestant, id string, ours []float64) (report.Table, evaluation.Interval, error) {
	t := report.Table{
		ID: id + "-backups", Title: "Fixed backups, for " + taskNames(p.scenario.Table().Tasks),
		Columns: []report.Column{report.TextColumn("backups", "Backups"), report.IntervalColumn("utility", "Utility", "", 4), report.IntervalColumn("difference", "The policy alone, less this", "", 4)},
	}
	list, all, err := p.rivals(ctx, c)
	if err != nil {
		return t, evaluation.Interval{}, err
	}
	for _, r := range list {
		_, gain := difference(ours, r.utility)
		t.Rows = append(t.Rows, []report.Cell{report.Text(r.name(p.scenario.Table())), cell(evaluation.Bootstrap(r.utility)), gain})
	}
	t.Note = fmt.Sprintf("%d assignments, all that differ by more than the order of the hosts, were played on %d training seeds. Shown are the best %d of these, and those with one backup for all tasks, on the evaluation seeds.",
		all, len(p.screen), min(p.options.finalists, all))
	best, _ := difference(ours, list[0].utility)
	return t, best, nil
}

// rivals returns the assignments that are best on training seeds and those with one backup for all
// tasks, the best on evaluation seeds first; and how many there are in all.
func (p *study) rivals(ctx context.Context, c evaluation.Contestant) (list []*rival, all int, err error) {
	balancer, err := p.scenario.Balancer()
	if err != nil {
		return nil, 0, err
	}
	workload := p.loss.workload(p.scenario, p.options.rate, false)
	for i, a := range assignments(c.Fleet.Table, p.loss.host) {
		if !p.options.quick || i%16 == 0 || a.uniform() {
			list = append(list, &rival{assignment: a})
		}
	}
	all = len(list)
	if p.count != nil {
		if count := p.count("assignments played"); count != nil {
			done := 0
			p.played = func() { done++; count(done, all) }
			defer func() { p.played = nil }()
		}
	}
	for _, r := range list {
		means, err := p.play(ctx, withBackups(c, balancer, r.assignment, p.loss), workload, p.screen)
		if err != nil {
			return nil, 0, err
		}
		r.screened = evaluation.Bootstrap(means).Mean
	}
	slices.SortStableFunc(list, func(a, b *rival) int { return cmp.Compare(b.screened, a.screened) })
	p.played = nil
	finalists := list[:0]
	for i, r := range list {
		if i >= p.options.finalists && !r.uniform() {
			continue
		}
		if r.utility, err = p.play(ctx, withBackups(c, balancer, r.assignment, p.loss), workload, p.seeds); err != nil {
			return nil, 0, err
		}
		finalists = append(finalists, r)
	}
	slices.SortStableFunc(finalists, func(a, b *rival) int {
		return cmp.Compare(evaluation.Bootstrap(b.utility).Mean, evaluation.Bootstrap(a.utility).Mean)
	})
	return finalists, all, nil
}

// loads shows what the loss costs at other loads, and returns the largest difference from three
// hosts.
func (p *study) loads(ctx context.Context) (out report.Section, worst float64, err error) {
	out = report.Section{ID: "loads", Title: "At other loads", Text: "The same loss at other rates. 64 requests per second are the most of which four hosts answer 99 % in time, and 48 the most of which three do."}
	t := report.Table{
		ID: "loads-utility", Title: "Utility of requests that arrive 2 to 12 s after the loss",
		Columns: []report.Column{
			report.TextColumn("policy", "Policy"), {Key: "rate", Title: "Requests per second", Kind: report.KindNumber},
			report.IntervalColumn("after", "After the loss", "", 4), report.IntervalColumn("three", "Three hosts", "", 4), report.IntervalColumn("difference", "Difference", "", 4),
		},
	}
	rates := []float64{8, 16, 24, 32, 40, 48}
	if p.options.quick {
		rates = []float64{16, 48}
	}
	for _, ref := range p.refs {
		c, err := policies.Contestant(p.scenario, p.source, ref, func(string) {})
		if err != nil {
			return out, 0, err
		}
		for _, rate := range rates {
			after, three, err := p.both(ctx, c, rate)
			if err != nil {
				return out, 0, err
			}
			apart, apartCell := difference(after, three)
			if math.Abs(apart.Mean) > math.Abs(worst) {
				worst = apart.Mean
			}
			t.Rows = append(t.Rows, []report.Cell{report.Text(c.Name), report.Number(rate), cell(evaluation.Bootstrap(after)), cell(evaluation.Bootstrap(three)), apartCell})
		}
	}
	out.Tables = []report.Table{t}
	return out, worst, nil
}
