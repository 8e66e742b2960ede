package placement

import (
	"context"
	"fmt"
	"math"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// bursts adds the workloads that the paper evaluates on.
func (p *study) bursts(ctx context.Context, part *reports.Part) error {
	part.Say("The rates are not told to any policy; a run has %d requests.", p.requests)
	return p.compare(ctx, part, "u1", "u2")
}

// day adds the recorded day.
func (p *study) day(ctx context.Context, part *reports.Part) error {
	rates, each := daily(p.scenario, p.Quick)
	low, high := rates[0], rates[0]
	for _, r := range rates {
		low, high = min(low, r), max(high, r)
	}
	part.Say("A recorded day (workloads/daily) of %.3g requests/s at night to %.3g at noon, each ten minutes of it played in %v. What engines take is not compressed: in a real day a change is %.0f times as quick, compared with the load.",
		low, high, each, (10*60)/each.Seconds())
	return p.compare(ctx, part, aDay)
}

// others adds workloads that neither rules nor their defaults were made for.
func (p *study) others(ctx context.Context, part *reports.Part) error {
	list := []string{"clusters", "short-bursts", "long-bursts", "u2-uniform", "mmpp:4,40,60,30", "trace:azure-code@20"}
	if p.Quick {
		list = []string{"clusters", "mmpp:4,40,60,30"}
	}
	return p.compare(ctx, part, list...)
}

// faults adds a host that is lost for a minute, and where versions change a new one of the first model.
func (p *study) faults(ctx context.Context, part *reports.Part) error {
	s := p.scenario
	if len(s.Hosts) < 2 {
		part.Say("The fleet has one host, which nothing can replace.")
		return nil
	}
	lost := fmt.Sprintf("+lost:%s@60-120", s.Hosts[1].Name)
	list := []string{"u1" + lost, "u2" + lost, fmt.Sprintf("stable:28+lost:%s@10-30", s.Hosts[1].Name)}
	if p.Quick {
		list = list[:1]
	}
	if models, _ := s.Versioned(); s.Rollout() != nil && len(models) > 0 {
		list = append(list, fmt.Sprintf("u1%s+version:%s=new@30", lost, models[0].Name))
	}
	part.Say("What slept on a lost host is cold when it is back, and has to be loaded.")
	return p.compare(ctx, part, list...)
}

// compare adds a table of all fleets on the workloads, each that decides under each law.
func (p *study) compare(ctx context.Context, part *reports.Part, names ...string) error {
	t := report.Table{
		ID: part.ID + "-utility", Title: "Utility per request, and what is more than with the layouts of the start",
		Columns: []report.Column{
			report.TextColumn("workload", "Workload"), report.TextColumn("fleet", "Fleet"), report.TextColumn("law", "Engines"),
			report.IntervalColumn("utility", "Utility", "", 4), report.IntervalColumn("more", "More", "", 4),
			report.NumberColumn("changes", "Changes", "per hour", 1), report.NumberColumn("failed", "Failed", "changes", 0),
		},
	}
	var gains tale
	for _, name := range names {
		// Where hosts are lost, a size that is alone there may be gone: the sizes alone are for other sections.
		still := p.still()
		if part.ID == "faults" {
			still = p.where(func(f fleet) bool { return f.decides == "" && f.alone == "" })
		}
		static, err := p.plays.Play(ctx, settings(still, 1, name, 0)...)
		if err != nil {
			return err
		}
		for i, f := range still {
			t.Rows = append(t.Rows, p.row(name, f, "any", static[i], static[stays]))
		}
		moving, err := p.plays.Play(ctx, settings(p.deciding(), len(p.laws), name, 0)...)
		if err != nil {
			return err
		}
		for i, x := range settings(p.deciding(), len(p.laws), name, 0) {
			t.Rows = append(t.Rows, p.row(name, x.fleet, p.laws[x.law].Name, moving[i], static[stays]))
			gains.add(x, reports.Less(utilities(moving[i]), utilities(static[stays])))
		}
	}
	part.Tables = append(part.Tables, t)
	for _, f := range p.deciding() {
		part.Head("%s: %s", part.Title, gains.of(p, f, len(names) > 1))
	}
	return nil
}

// settings lists the fleets on a workload, each under so many of the laws.
func settings(fleets []int, laws int, workload string, phase float64) (list []setting) {
	for _, f := range fleets {
		for l := range laws {
			list = append(list, setting{fleet: f, law: l, workload: workload, phase: phase})
		}
	}
	return list
}

func (p *study) row(workload string, fleet int, law string, runs, base []played) []report.Cell {
	more := report.Cell{}
	if fleet != stays {
		more = reports.Cell(reports.Less(utilities(runs), utilities(base)))
	}
	return []report.Cell{
		report.Text(workload), report.Text(p.fleets[fleet].name), report.Text(law), reports.Mean(utilities(runs)), more,
		report.Number(perHour(runs)), report.Number(failures(runs)),
	}
}

// tale gathers the gains of fleets that decide.
type tale []gained

type gained struct {
	setting
	more evaluation.Interval
}

func (t *tale) add(x setting, more evaluation.Interval) { *t = append(*t, gained{x, more}) }

// of tells the least and the most that a fleet gains; Several names the workload too.
func (t tale) of(p *study, fleet int, several bool) string {
	least, most := gained{more: evaluation.Interval{Mean: math.Inf(1)}}, gained{more: evaluation.Interval{Mean: math.Inf(-1)}}
	for _, g := range t {
		if g.fleet != fleet {
			continue
		}
		if g.more.Mean < least.more.Mean {
			least = g
		}
		if g.more.Mean > most.more.Mean {
			most = g
		}
	}
	say := func(g gained) string {
		on := ""
		if several {
			on = g.workload + ", "
		}
		return fmt.Sprintf("%s (%s%s)", evaluation.Signed(g.more), on, p.laws[g.law].Name)
	}
	return fmt.Sprintf("%s earns at least %s and at most %s more than layouts that stay", p.fleets[fleet].name, say(least), say(most))
}
