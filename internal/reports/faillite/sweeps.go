package faillite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/placement"
	"gearshift/workloads"
)

// points are those of the sweeps.
type points struct {
	headrooms, criticals []float64 // in percent
	classes              []string
	sites                []int
}

// usual are the paper's points.
func usual() points {
	return points{
		headrooms: []float64{10, 20, 30, 40, 50}, criticals: []float64{0, 20, 40, 60, 80, 100},
		classes: []string{workloads.SmallFamily, workloads.MediumFamily, workloads.LargeFamily}, sites: []int{1, 2, 3, 4, 5, 6, 7},
	}
}

// varied are the policies that are compared by the share of critical applications.
var varied = []failover.Policy{failover.Gearshift, failover.FailLite}

// sweep is a table of one quantity by point and policy, and a figure of it.
type sweep struct {
	id, title, unit string
	decimals        int
	of              func(*outcome) evaluation.Interval
	paper           said
	within          *report.Range // of the figure's axis; nil is that of the data
}

// said is what the paper has at points; 0 is nothing.
type said map[failover.Policy]map[float64]float64

// always has one value at all points.
func always(value float64, points []float64) map[float64]float64 {
	all := map[float64]float64{}
	for _, x := range points {
		all[x] = value
	}
	return all
}

// share is the range of an axis of shares that may be all.
var share = &report.Range{Min: 0, Max: 102}

// sweeps lays out what was played: outcomes by point and policy.
func sweeps(axis string, points []float64, policies []failover.Policy, all [][]*outcome, list []sweep) (tables []report.Table, figures []report.Figure) {
	for _, s := range list {
		t := report.Table{ID: s.id, Title: s.title, Columns: []report.Column{report.NumberColumn("at", axis, "", 0)}}
		f := report.Figure{ID: s.id + "-figure", Title: s.title, X: report.Axis{Label: axis}, Y: report.Axis{Label: s.title, Unit: s.unit, Range: s.within}, Half: true}
		for _, policy := range policies {
			t.Columns = append(t.Columns, report.BesideColumn(key(policy), string(policy), s.unit, s.decimals))
			f.Series = append(f.Series, report.Series{Name: string(policy), Style: report.Line})
		}
		for i, x := range points {
			row := []report.Cell{report.Number(x)}
			for k, policy := range policies {
				v := s.of(all[i][k])
				row = append(row, reports.Beside(v, s.paper[policy][x]))
				y := &f.Series[k]
				y.X, y.Y, y.Lo, y.Hi = append(y.X, x), append(y.Y, v.Mean), append(y.Lo, v.Lo), append(y.Hi, v.Hi)
			}
			t.Rows = append(t.Rows, row)
		}
		f.Series = append(f.Series, published(s, points, policies)...)
		tables, figures = append(tables, t), append(figures, f)
	}
	return tables, figures
}

// published returns the paper's figures as points, a series for each policy that it has some of.
func published(s sweep, points []float64, policies []failover.Policy) (list []report.Series) {
	for _, policy := range policies {
		y := report.Series{Name: "paper: " + string(policy), Style: report.Points}
		for _, x := range points {
			if v := s.paper[policy][x]; v != 0 {
				y.X, y.Y = append(y.X, x), append(y.Y, v)
			}
		}
		if len(y.X) > 0 {
			list = append(list, y)
		}
	}
	return list
}

func key(p failover.Policy) string { return strings.ReplaceAll(string(p), "-", "_") }

func recovery(o *outcome) evaluation.Interval { return percent(o.recovery) }
func mttr(o *outcome) evaluation.Interval     { return evaluation.Bootstrap(o.mttr) }
func accuracy(o *outcome) evaluation.Interval { return percent(o.lost) }

// short counts the runs in which ours did not recover all, though a plan could.
func short(all [][]*outcome) (short, possible, unknown int) {
	for _, row := range all {
		short, possible, unknown = short+row[0].short, possible+row[0].possible, unknown+row[0].bounded
	}
	return short, possible, unknown
}

func shortly(all [][]*outcome) string {
	missed, possible, open := short(all)
	return fmt.Sprintf("Of the runs in which a plan has room for all affected applications, %d, gearshift recovers all in %d; in %d runs neither a plan nor a bound says whether all could be.", possible, possible-missed, open)
}

// headroom sweeps it (FL-23).
func (p *paper) headroom(ctx context.Context, part *reports.Part) error {
	var points []setting
	for _, h := range p.points.headrooms {
		points = append(points, setting{on: p.large, headroom: h / 100, critical: -1})
	}
	all, err := p.play(ctx, failover.Policies, points...)
	if err != nil {
		return err
	}
	part.Tables, part.Figures = sweeps("headroom, %", p.points.headrooms, failover.Policies, all, []sweep{
		{"headroom-recovery", "Recovered", "%", 1, recovery, said{
			failover.FailLite: always(100, p.points.headrooms), failover.FullWarm: {10: 50.5}, failover.FullCold: {10: 79.8, 50: 100}, failover.FullWarmK: {10: 66, 50: 100},
		}, share},
		{"headroom-mttr", "MTTR", "ms", 0, mttr, said{
			failover.FullWarm: always(50, p.points.headrooms), failover.FailLite: always(134, p.points.headrooms), failover.FullCold: {10: 784, 30: 1742},
		}, nil},
		{"headroom-accuracy", "Accuracy lost", "%", 2, accuracy, said{failover.FailLite: {10: 4.52}}, nil},
	})
	at := all[slices.Index(p.points.headrooms, 20)]
	ours, theirs := at[0].all, at[1].all
	tight := all[0]
	order := tight[1].all.Recovery >= tight[3].all.Recovery && tight[3].all.Recovery >= tight[4].all.Recovery && tight[4].all.Recovery >= tight[2].all.Recovery
	wide := all[len(all)-1]
	most := wide[1].all.Recovery == 1 && wide[3].all.Recovery == 1 && wide[4].all.Recovery == 1 && wide[2].all.Recovery < 1
	part.Text = "The large setting, one server lost. " + shortly(all)
	part.Head("At headroom 20 %%, K 50 %%, gearshift recovers %.1f %% at %.2f %% of accuracy, Algorithm 1 %.1f %% at %.2f %%; at 10 %% the order of recovery %s, and at %g %% all but full-warm recover everything%s (FL-23).",
		100*ours.Recovery, 100*ours.AccuracyLost, 100*theirs.Recovery, 100*theirs.AccuracyLost, holds(order), p.points.headrooms[len(all)-1], inText(most))
	return nil
}

// critical sweeps the share of critical applications (FL-24).
func (p *paper) critical(ctx context.Context, part *reports.Part) error {
	var points []setting
	for _, k := range p.points.criticals {
		points = append(points, setting{on: p.large, critical: k / 100})
	}
	all, err := p.play(ctx, varied, points...)
	if err != nil {
		return err
	}
	part.Tables, part.Figures = sweeps("K, %", p.points.criticals, varied, all, []sweep{
		{"critical-recovery", "Recovered", "%", 1, recovery, nil, share}, {"critical-mttr", "MTTR", "ms", 0, mttr, nil, nil}, {"critical-accuracy", "Accuracy lost", "%", 2, accuracy, nil, nil},
	})
	first, last := all[0][1].all, all[len(all)-1][1].all
	trend := first.MTTR > last.MTTR && first.AccuracyLost <= last.AccuracyLost
	part.Text = "The large setting, headroom 20 %, one server lost. The paper has a point of balance at 60 %. Under gearshift K decides who comes first where not all find room, and nothing else."
	part.Say("From K = 0 to 100 %% faillite's MTTR goes from %.0f to %.0f ms and the accuracy lost from %.2f to %.2f %%; that MTTR falls and accuracy with it, as in the paper, %s (FL-24, FL-34).", first.MTTR, last.MTTR, 100*first.AccuracyLost, 100*last.AccuracyLost, shown(trend))
	return nil
}

// classes compares classes of families (FL-25).
func (p *paper) classes(ctx context.Context, part *reports.Part) error {
	t := report.Table{
		ID: "classes", Title: "By the class of families, headroom 20 %",
		Columns: []report.Column{report.TextColumn("setting", "class, policy"), report.NumberColumn("applications", "applications", "", 0), report.BesideColumn("recovery", "recovered", "%", 1), report.BesideColumn("mttr", "MTTR", "ms", 0), report.BesideColumn("accuracy", "accuracy lost", "%", 2)},
		Note:    "The servers are as large as 640 applications of all families make them, and filled to half with those of the class; the paper has 3264 of small families and 402 of large ones. Its 65 % is Full-Cold's on large ones, its 214 ms FailLite's; on small ones FailLite recovers 15 points more than Full-Warm-K, and loses at most 7.1 % of accuracy anywhere.",
	}
	var points []setting
	for _, class := range p.points.classes {
		points = append(points, setting{on: p.large, critical: -1, classes: class})
	}
	all, err := p.play(ctx, failover.Policies, points...)
	if err != nil {
		return err
	}
	for i, class := range p.points.classes {
		for k, policy := range failover.Policies {
			o := all[i][k]
			var r, m float64
			switch {
			case class == "large" && policy == failover.FullCold:
				r = 65
			case class == "large" && policy == failover.FailLite:
				r, m = 100, 214
			case policy == failover.FailLite:
				r = 100
			}
			t.Rows = append(t.Rows, []report.Cell{report.Text(class + ", " + string(policy)), report.Number(o.applications), reports.Beside(recovery(o), r), reports.Beside(mttr(o), m), reports.Beside(accuracy(o), 0)})
		}
	}
	grows := true
	for k := range failover.Policies {
		if policy := failover.Policies[k]; policy == failover.FailLite || policy == failover.FullCold {
			for i := range len(all) - 1 {
				grows = grows && all[i][k].all.MTTR < all[i+1][k].all.MTTR
			}
		}
	}
	part.Text, part.Tables = shortly(all), []report.Table{t}
	part.Say("That MTTR grows with the families' class under faillite and full-cold, as in the paper, %s (FL-25, FL-34).", shown(grows))
	return nil
}

// sites loses sites (FL-26).
func (p *paper) sites(ctx context.Context, part *reports.Part) error {
	var points []setting
	var counts []float64
	for _, n := range p.points.sites {
		counts, points = append(counts, float64(n)), append(points, setting{on: p.large, critical: -1, apart: true, sites: n})
	}
	all, err := p.play(ctx, failover.Policies, points...)
	if err != nil {
		return err
	}
	part.Tables, part.Figures = sweeps("sites lost, of 10", counts, failover.Policies, all, []sweep{
		{"sites-recovery", "Recovered", "%", 1, recovery, said{failover.FailLite: always(100, counts[:min(5, len(counts))])}, share},
		{"sites-mttr", "MTTR", "ms", 0, mttr, nil, nil}, {"sites-accuracy", "Accuracy lost", "%", 2, accuracy, nil, nil},
	})
	gain := func(i int) float64 { return 100 * (all[i][1].all.Recovery - all[i][3].all.Recovery) }
	falls := true
	for k := range failover.Policies {
		falls = falls && all[len(all)-1][k].all.MTTR <= all[0][k].all.MTTR
	}
	five := slices.IndexFunc(p.points.sites, func(n int) bool { return n > 5 })
	if five < 0 {
		five = len(all)
	}
	missed, possible, _ := short(all[:five])
	part.Text = fmt.Sprintf("The large setting, headroom 20 %%, backups on other sites. faillite recovers %.1f points more than full-cold when %d is lost, and %.1f when %d are; the paper: 7.9 with one and 39.3 with seven. ", gain(0), p.points.sites[0], gain(len(all)-1), p.points.sites[len(all)-1]) + shortly(all)
	part.Head("Up to five of ten sites are lost without an application in %d of the %d runs in which a plan has room for all; that MTTR is lower under every policy when most sites are lost than when fewest, as in the paper, %s (FL-26, FL-34).", possible-missed, possible, shown(falls))
	return nil
}

// scalability times plans (FL-27).
func (p *paper) scalability(ctx context.Context, part *reports.Part) error {
	t := report.Table{
		ID: "scalability", Title: "The time of a plan of backups",
		Columns: []report.Column{report.TextColumn("problem", "applications × servers, 4 variants"), report.BesideColumn("ours", "gearshift", "ms", 1), report.NumberColumn("alg1", "Algorithm 1", "ms", 1)},
		Note:    "The median of five, on the machine that made the report. The paper has less than 4 s for its Algorithm 1.",
	}
	var worst float64
	for _, n := range [][2]int{{1000, 500}, {2000, 500}, {3000, 500}, {1000, 100}, {1000, 1000}} {
		x := drawn(n[0], n[1])
		ours, theirs := timed(func() { x.Plan(x.AtOnce()) }), timed(func() { x.Algorithm1(false) })
		worst = max(worst, ours)
		t.Rows = append(t.Rows, []report.Cell{report.Text(fmt.Sprintf("%d × %d", n[0], n[1])), report.Beside(ours, 4000), report.Number(theirs)})
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	part.Tables = []report.Table{t}
	part.Say("A plan takes %.1f ms at most, and under 4 s in the paper (FL-27).", worst)
	return nil
}

// timed is the median of five times, in ms.
func timed(f func()) float64 {
	var list []float64
	for range 5 {
		began := time.Now()
		f()
		list = append(list, fleet.Milliseconds(time.Since(began)))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// drawn is a problem of ConvNeXt's four sizes on servers with room for a third of the full ones.
func drawn(applications, servers int) *placement.Problem {
	random := rand.New(rand.NewPCG(uint64(applications), uint64(servers)))
	p := &placement.Problem{Resources: []string{"memory"}, Alpha: 0.1}
	for s := range servers {
		p.Bins = append(p.Bins, placement.Bin{Name: fmt.Sprint("s", s), Free: []float64{806 * float64(applications) / float64(servers) / 3 * (0.5 + random.Float64())}})
	}
	for a := range applications {
		x := placement.Item{Name: fmt.Sprint("a", a), Primary: fmt.Sprint("s", random.IntN(servers)), Rate: 1 + random.Float64()}
		for i, v := range [][2]float64{{158, 0.97756}, {241, 0.99055}, {388, 0.99583}, {806, 1}} {
			x.Variants = append(x.Variants, placement.Alternative{Name: fmt.Sprint(i), Quality: v[1], Demand: []float64{v[0]}})
		}
		p.Items = append(p.Items, x)
	}
	return p
}
