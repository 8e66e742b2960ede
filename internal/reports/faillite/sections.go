package faillite

import (
	"context"
	"fmt"
	"math"
	"time"

	"gearshift/env/applications"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/placement"
)

// models is what is simulated.
func (p *paper) models(_ context.Context, part *reports.Part) error {
	t := report.Table{
		ID: "families", Title: "Families of models",
		Columns: []report.Column{report.TextColumn("family", "family"), report.TextColumn("source", "source"), report.TextColumn("class", "class"), report.NumberColumn("models", "models", "", 0), report.NumberColumn("least", "smallest", "MB", 0), report.NumberColumn("full", "full", "MB", 0),
			report.NumberColumn("load_least", "load of the smallest", "ms", 0), report.NumberColumn("load_full", "load of the full one", "ms", 0), report.NumberColumn("accuracy", "accuracy of the smallest, relative", "", 3), report.NumberColumn("ms", "answer of the full one", "ms", 1)},
		Note: "Parameters, accuracies and operations are published; the rest is arithmetic on them. Full is the largest that answers within 100 ms, which is what runs on primaries. The classes are by the memory between smallest and full: below 100 MB, below 400 MB, and more.",
	}
	d, _ := p.large.Drawing()
	for _, f := range d.Families {
		a := applications.Application(f.Name, f, 1, d.BoundMS)
		small, full := &a.Variants[0], &a.Variants[a.Full]
		t.Rows = append(t.Rows, []report.Cell{report.Text(f.Name), report.Text(f.Models[0].Source), report.Text(f.Class(d.BoundMS)), report.Number(float64(len(f.Models))),
			report.Number(small.Demand[0] / 1e6), report.Number(full.Demand[0] / 1e6), report.Number(fleet.Milliseconds(small.Load)), report.Number(fleet.Milliseconds(full.Load)), report.Number(small.Quality), report.Number(fleet.Milliseconds(full.Latency))})
	}
	part.Text, part.Tables = "No model was measured. Load times are the paper's line, 179.5 ms + 2.6235 ms per MB (FL-18).", []report.Table{t}
	return nil
}

// convnext is the paper's family with its measured sizes and load times (FL-18).
func convnext(rate float64) failover.Application {
	a := failover.Application{Name: "convnext", Primary: 0, Full: 1, Rate: rate}
	for _, v := range []struct {
		name       string
		mb, ms, ns float64
	}{{"tiny", 158, 594, 0.97756}, {"large", 806, 2294, 1}} {
		a.Variants = append(a.Variants, failover.Variant{
			Alternative: placement.Alternative{Name: v.name, Model: v.name, Quality: v.ns, Demand: []float64{v.mb}, Latency: 10 * time.Millisecond}, Load: time.Duration(v.ms * float64(time.Millisecond)),
		})
	}
	return a
}

// single plays one application (FL-20, 21).
func (p *paper) single(_ context.Context, part *reports.Part) error {
	t := report.Table{
		ID: "single", Title: "One application, ConvNeXt with the paper's sizes and load times",
		Columns: []report.Column{report.TextColumn("backup", "backup"), report.BesideColumn("mttr", "MTTR", "ms", 0), report.BesideColumn("outage", "outage of its clients", "ms", 0), report.NumberColumn("accuracy", "accuracy in the end", "", 4)},
		Note:    "20 requests per second; the outage is from the first that failed to the next answer, with the detection in it. The paper's 85 ms of a small warm backup and 1316 ms of a small cold one are of other models than its 594 ms; its full and progressive ones are not in the text, but for the 72 %. The server that takes over has room for the large variant, but for the small one: then the large does not fit.",
	}
	var took []float64
	for _, c := range []struct {
		name            string
		policy          failover.Policy
		room            float64
		mttr, outage    float64
		variant, onlyTo int
	}{
		{"warm, small", failover.Gearshift, 200, 85, 300, 0, 1},
		{"cold, small", failover.FailLite, 200, 1316, 0, 0, 1},
		{"cold, full", failover.FullCold, 1000, 0, 0, 1, 2},
		{"cold, progressive", failover.FailLite, 1000, 0, 0, 1, 2},
	} {
		x := &failover.Problem{Resources: []string{"memory"}, Hosts: []fleet.Host{{Name: "a"}, {Name: "b"}}, Capacity: [][]float64{{1000}, {c.room}}, Applications: []failover.Application{convnext(20)}}
		o := failover.DefaultOptions()
		o.Policy, o.Alpha, o.Headroom = c.policy, 0, 1
		r, err := applications.Run(applications.Config{Problem: x, Options: o, Losses: applications.Once(1, true, 0), Length: 90 * time.Second, Seed: 1, Switch: takes})
		if err != nil {
			return err
		}
		z := applications.Summarize([]*applications.Result{r})
		took = append(took, z.MTTR)
		t.Rows = append(t.Rows, []report.Cell{report.Text(c.name), plain(z.MTTR, c.mttr), plain(z.Outage.Worst, c.outage), report.Number(1 - z.AccuracyLost)})
	}
	less := 1 - took[3]/took[2]
	part.Tables = []report.Table{t}
	part.Say("Progressive loading shortens MTTR by %.1f %%, and by 72 %% in the paper (FL-21).", 100*less)
	return nil
}

func plain(x, paper float64) report.Cell {
	if paper == 0 {
		paper = math.NaN()
	}
	return report.Beside(x, paper)
}

// headline plays the testbed (FL-22).
func (p *paper) headline(ctx context.Context, part *reports.Part) error {
	t := report.Table{
		ID: "testbed", Title: "The testbed, headroom 20 %, K 50 %: each server lost once",
		Columns: []report.Column{report.TextColumn("policy", "policy"), report.BesideColumn("recovery", "recovered", "%", 1), report.BesideColumn("worst", "at worst", "%", 1), report.BesideColumn("mttr", "MTTR", "ms", 1), report.IntervalColumn("detection", "detection", "ms", 0),
			report.BesideColumn("accuracy", "accuracy lost", "%", 2), report.NumberColumn("first", "until a better variant is there", "%", 2), report.NumberColumn("outage", "outage of clients, median", "ms", 0), report.NumberColumn("unprotected", "unprotected before", "", 0), report.NumberColumn("lost", "requests lost", "", 0), report.NumberColumn("sent", "of", "", 0)},
		Note: "Intervals are over the servers. The paper's Full-Warm has 85.9 % in the mean, 76 % at worst; Full-Warm-K 7.7 points less than FailLite, at twice its MTTR; Full-Cold's MTTR is 15.8 times Full-Warm's, of which it says 50 ms elsewhere.",
	}
	printed := map[failover.Policy][4]float64{failover.FailLite: {100, 100, 175.5, 0.6}, failover.FullWarm: {85.9, 76, 50, 0}, failover.FullCold: {0, 0, 790, 0}, failover.FullWarmK: {92.3, 0, 351, 0}}
	all, err := p.play(ctx, failover.Policies, setting{on: p.testbed, critical: -1})
	if err != nil {
		return err
	}
	by := map[failover.Policy]*outcome{}
	for k, policy := range failover.Policies {
		o, w := all[0][k], printed[policy]
		by[policy] = o
		t.Rows = append(t.Rows, []report.Cell{report.Text(string(policy)), reports.Beside(percent(o.recovery), w[0]), plain(100*o.all.Worst, w[1]), reports.Beside(evaluation.Bootstrap(o.mttr), w[2]), reports.Mean(o.detection),
			reports.Beside(percent(o.lost), w[3]), report.Number(100 * o.all.AccuracyFirst), report.Number(o.all.Outage.Median), report.Number(o.all.Unprotected), report.Number(float64(o.all.Requests.Lost)), report.Number(float64(o.all.Requests.Sent))})
	}
	ours, theirs := by[failover.Gearshift].all, by[failover.FailLite].all
	order := theirs.Recovery >= by[failover.FullWarmK].all.Recovery && by[failover.FullWarmK].all.Recovery >= by[failover.FullWarm].all.Recovery && theirs.Recovery >= by[failover.FullCold].all.Recovery &&
		by[failover.FullWarm].all.MTTR < theirs.MTTR && theirs.MTTR < by[failover.FullWarmK].all.MTTR && by[failover.FullWarmK].all.MTTR < by[failover.FullCold].all.MTTR
	part.Tables = []report.Table{t}
	part.Head("On the testbed gearshift recovers %.1f %% of the affected applications in %.1f ms at %.2f %% of accuracy, the paper's policy %.1f %% in %.1f ms at %.2f %% (the paper says 100 %%, 175.5 ms, 0.6 %%); the order of the paper's four policies %s (FL-22).",
		100*ours.Recovery, ours.MTTR, 100*ours.AccuracyLost, 100*theirs.Recovery, theirs.MTTR, 100*theirs.AccuracyLost, holds(order))
	return nil
}

func holds(ok bool) string {
	if ok {
		return "is the paper's"
	}
	return "is not the paper's"
}

// shown returns whether a trend of the paper is seen here, as the end of a clause.
func shown(ok bool) string {
	if ok {
		return "is seen here"
	}
	return "is not seen here"
}

// inText returns the end of a clause that holds in the paper, and may not here.
func inText(ok bool) string {
	if ok {
		return ""
	}
	return " in the paper, and not here"
}

// recorded plays a day of recorded faults.
func (p *paper) recorded(ctx context.Context, part *reports.Part) error {
	const machines, each, rescale = 400, 4, 348
	t := report.Table{
		ID: "recorded", Title: "A day of recorded faults on the testbed",
		Columns: []report.Column{report.TextColumn("policy", "policy"), report.NumberColumn("losses", "losses", "", 0), report.NumberColumn("affected", "affected", "", 0), report.NumberColumn("recovery", "recovered", "%", 1), report.NumberColumn("mttr", "MTTR", "ms", 1), report.NumberColumn("accuracy", "accuracy lost", "%", 2),
			report.NumberColumn("sent", "requests sent", "", 0), report.NumberColumn("lost", "lost", "", 0), report.NumberColumn("again", "sent again", "", 0), report.NumberColumn("open", "open at the end", "", 0), report.NumberColumn("alarms", "false alarms", "", 0)},
		Note: fmt.Sprintf("Each server has the faults of %d of the %d recorded machines, drawn; %d days are 24 hours, repairs too. Half of the losses are silent. After each step the simulation has checked that no instance is loaded twice, no server holds more than it has, epochs rise, and what is not answered is listed with a reason.", each, machines, rescale),
	}
	for _, policy := range failover.Policies {
		losses, err := applications.Fold(p.faults, machines, each, 6, rescale, 1)
		if err != nil {
			return err
		}
		o := p.testbed.FailoverOptions()
		o.Policy = policy
		r, err := applications.Run(applications.Config{Problem: p.testbed.FailoverProblem(false), Options: o, Losses: losses, Length: 24 * time.Hour, Seed: 1, Switch: takes, Traffic: true, Check: true})
		if err != nil {
			return err
		}
		z := applications.Summarize([]*applications.Result{r})
		if n := z.Requests; n.Sent != n.Answered+n.Lost+n.Open {
			return fmt.Errorf("%s: %d requests were sent, and %d answered, %d lost, %d are open", policy, n.Sent, n.Answered, n.Lost, n.Open)
		}
		t.Rows = append(t.Rows, []report.Cell{report.Text(string(policy)), report.Number(float64(r.Losses)), report.Number(float64(z.Affected)), report.Number(100 * z.Recovery), report.Number(z.MTTR), report.Number(100 * z.AccuracyLost),
			report.Number(float64(z.Requests.Sent)), report.Number(float64(z.Requests.Lost)), report.Number(float64(z.Requests.Again)), report.Number(float64(z.Requests.Open)), report.Number(float64(z.FalseAlarms))})
		if policy == failover.Gearshift {
			part.Say("Through a day of %d recorded losses gearshift lost %d of %d requests.", r.Losses, z.Requests.Lost, z.Requests.Sent)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	part.Tables = []report.Table{t}
	return nil
}
