package arise

import (
	"context"
	"fmt"
	"math"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/env/streams"
	"gearshift/internal/reports"
)

// settings lists what ARISE's first step chooses (ARISE-5), and what comes of it.
func (s *study) settings(ctx context.Context, p *reports.Part) error {
	t := report.Table{
		ID: "step-1", Title: "Interval and batch of a client by its drop rate",
		Columns: []report.Column{
			report.TextColumn("conditions", "Conditions"), report.NumberColumn("rate", "Drop rate", "", 4), report.NumberColumn("interval", "Interval", "frames", 0), report.NumberColumn("batch", "Batch", "", 0),
			report.NumberColumn("capacity", "Clients, without grace", "", 1), report.NumberColumn("capacity_grace", "with", "", 1), report.IntervalColumn("served", "Served, without grace", "", 1),
		},
		Note: "Clients: how many of the kind a server carries if each of their requests is in a full batch and waits for none. Served: by ARISE where neither links nor drop rates vary, and rates are known.",
	}
	all := detections()
	for _, w := range append(fiveG, lte(), onTestbed(0.006)) {
		for _, rate := range []float64{0.005, 0.006, 0.007, 0.010} {
			all = append(all, w.at(rate, 0))
		}
	}
	for _, w := range all {
		w.apart, w.still = 0, true
		server, client := w.planner()
		x := server.Best(client)
		all, err := s.sweep.Play(ctx, setting{w, arise, false})
		if err != nil {
			return err
		}
		t.Rows = append(t.Rows, []report.Cell{report.Text(w.name), report.Number(w.rate), report.Number(float64(x.Interval)), report.Number(float64(x.Batch)),
			report.Number(server.Capacity(x)), report.Number(server.Capacity(x) / (1 + streams.Default().Grace)), reports.Mean(reports.Values(all[0], clients))})
	}
	p.Tables = []report.Table{t}
	return nil
}

// clients compares all systems over 5G and LTE (ARISE-20, 22, 24), and the baselines with ARISE-α.
func (s *study) clients(ctx context.Context, p *reports.Part) error {
	p.Say("Static and the interval of the Clipper-like are tuned for each row on training seeds: Static for most clients of which each keeps the SLA, the strictest of a range, in the mean; the Clipper-like for clients served. " +
		"As the paper's they have its intervals and batches; how many clients Static has is tuned there too. The others have nothing to tune.")
	groups, err := s.compare(ctx, p, "clients-served", append(fiveG, varied, lte())...)
	if err != nil {
		return err
	}
	p.Tables = append(p.Tables, alpha(groups[:4]), trends(groups))
	p.Figures = append([]report.Figure{served("clients-figure", groups), lost("drop-figure", groups)}, timelines("timeline", groups[0][:2])...)
	return nil
}

// alpha lays out how ARISE-α compares with the baselines over 5G.
func alpha(groups [][]row) report.Table {
	t := report.Table{ID: "alpha", Title: "ARISE-α and its baselines", Columns: []report.Column{
		report.TextColumn("conditions", "Conditions"), report.TextColumn("system", "Clients of ARISE-α ÷ those of"),
		report.IntervalColumn("waiting", "by waiting requests", "", 2), report.IntervalColumn("verified", "verified", "", 2), report.TextColumn("paper", "Paper"),
	}}
	for _, g := range groups {
		for k, has := range []span{{1.8, 2.4}, {1.8, 2.4}, {1.6, 4}} {
			i := 3 + k
			t.Rows = append(t.Rows, []report.Cell{report.Text(g[0].name), report.Text(g[i].Name), reports.Cell(g[1].times(g[i])), reports.Cell(g[2].times(g[i])), report.Text(has.String())})
		}
	}
	return t
}

// trends lays out what the paper says of SLAs and of LTE.
func trends(groups [][]row) report.Table {
	t := report.Table{ID: "trends", Title: "Trends", Columns: []report.Column{report.TextColumn("of", "The paper has"), report.TextColumn("ours", "Ours"), report.TextColumn("is", "Holds")}}
	add := func(what string, holds bool, format string, values ...any) {
		t.Rows = append(t.Rows, []report.Cell{report.Text(what), report.Text(fmt.Sprintf(format, values...)), report.Text(map[bool]string{true: "yes", false: "no"}[holds])})
	}
	for i := 1; i <= 5; i++ {
		var x [3]float64
		for k := range x {
			x[k] = groups[k][0].times(groups[k][i]).Mean
		}
		add("ARISE ÷ "+groups[0][i].Name+" falls with looser SLAs", x[0] > x[1] && x[1] > x[2], "%.2f, %.2f, %.2f", x[0], x[1], x[2])
	}
	static, reacts := mean(groups[0][6].runs, clients), mean(groups[0][1].runs, clients)
	add("Static serves more than ARISE-α at an SLA of 0.02", static > reacts, "%.2f, %.2f", static, reacts)
	for i, r := range groups[0][:6] {
		five, lte := mean(r.runs, clients), mean(groups[4][i].runs, clients)
		add(r.Name+" serves fewer over LTE", lte < five, "%.2f, %.2f", five, lte)
	}
	return t
}

// kept compares the systems that admit clients by themselves where all keep the SLA at all times (ARISE-29).
func (s *study) kept(ctx context.Context, p *reports.Part) error {
	p.Say("The paper has all systems but Static keep the SLA at all times. Here each plans for the largest part of the SLA, in steps of 5 %%, with which no client loses more than the whole in any second of the training seeds. The interval of the Clipper-like is tuned so.")
	var groups [][]row
	for _, w := range fiveG {
		clipper, err := s.clipper(ctx, w, s.stricter)
		if err != nil {
			return err
		}
		has := []span{{}, w.paper.alpha, w.paper.alpha, w.paper.clipper, w.paper.clipper, w.paper.ratios}
		var g []row
		for i, x := range []streams.System{arise, waiting, verified, w.clipper(), clipper, chameleon} {
			planned, err := s.stricter(ctx, w, x)
			if err != nil {
				return err
			}
			g = append(g, row{setting{planned, x, false}, has[i], figures{}, nil})
		}
		groups = append(groups, g)
	}
	if err := s.show(ctx, p, "clients-kept", groups); err != nil {
		return err
	}
	p.Figures = []report.Figure{served("kept-figure", groups)}
	for _, g := range groups {
		head(p, g)
	}
	return nil
}

// ours compares ARISE with what is beyond it: clients served by deadlines, with one model and with two.
func (s *study) ours(ctx context.Context, p *reports.Part) error {
	const gap = 0.01
	p.Say("Clients are served by deadlines, which follow from the strides that they may still have in their present second; with two sizes by the model that costs the server least. The smaller takes a third of the time and loses %v beside the other. As above each plans for the part of the SLA with which no client loses more than the whole in any second of the training seeds.", gap)
	var groups [][]row
	for _, w := range []conditions{strict, loose, lte()} {
		two := w
		two.gap = gap
		var g []row
		for _, x := range []struct {
			conditions
			streams.System
			name string
		}{{two, deadlines, "Gearshift, two sizes"}, {w, deadlines, "Gearshift"}, {w, arise, arise.Name}} {
			planned, err := s.stricter(ctx, x.conditions, x.System)
			if err != nil {
				return err
			}
			r := row{setting{planned, x.System, false}, span{}, figures{}, nil}
			r.Name = x.name
			g = append(g, r)
		}
		groups = append(groups, g)
	}
	if err := s.show(ctx, p, "ours-served", groups); err != nil {
		return err
	}
	p.Figures = append([]report.Figure{served("ours-figure", groups)}, timelines("ours-timeline", groups[0])...)
	for _, g := range groups {
		head(p, g)
	}
	return nil
}

// frames compares ARISE with ARISE-α by the time that the network takes, which whole frames round.
func (s *study) frames(ctx context.Context, p *reports.Part) error {
	p.Say("The frames from one to its first result are whole ones, for the reference too: some milliseconds of the network, or of a frame's size, decide where they are rounded up. The last rows have LTE without what varies.")
	var groups [][]row
	for _, ms := range []int{8, 10, 12, 14, 16, 18, 20, 22} {
		w := strict
		w.name, w.link.RoundTrip, w.paper.states = fmt.Sprintf("%s, %d ms", w.name, ms), time.Duration(ms)*time.Millisecond, figures{}
		groups = append(groups, reacting(w))
	}
	w := lte()
	w.name, w.link = w.name+", steady", steady(w.link)
	groups = append(groups, reacting(w))
	if err := s.show(ctx, p, "by-network", groups); err != nil {
		return err
	}
	p.Figures = []report.Figure{byRoundTrip(groups[:8])}
	low, high := math.Inf(1), 0.0
	for _, g := range groups[:8] {
		x := g[0].times(g[1]).Mean
		low, high = min(low, x), max(high, x)
	}
	p.Head("With round trips of 8 to 22 ms in place of 5G's 14, ARISE serves %.2f to %.2f times the clients of ARISE-α at an SLA of 0.02.", low, high)
	return nil
}

// reacting returns ARISE and ARISE-α under some conditions.
func reacting(w conditions) []row {
	return []row{{setting{w, arise, false}, span{}, w.paper.states, nil}, {setting{w, waiting, false}, w.paper.alpha, figures{}, nil}, {setting{w, verified, false}, w.paper.alpha, figures{}, nil}}
}

// difficulty compares clients by their drop rates (ARISE-21).
func (s *study) difficulty(ctx context.Context, p *reports.Part) error {
	g, err := s.alone(ctx, p, "easy-and-hard", varied.at(0.005, 0.1), varied, varied.at(0.007, 0.1))
	if err != nil {
		return err
	}
	more := g[0].times(g[2])
	p.Say("Easy clients are %.2f (%.2f to %.2f) times as many as hard ones; the paper has 1.5 times.", more.Mean, more.Lo, more.Hi)
	p.Head("Easy clients are %.2f times as many as hard ones; the paper has 1.5 times.", more.Mean)
	return nil
}

// testbed compares all systems on the slower server (ARISE-23).
func (s *study) testbed(ctx context.Context, p *reports.Part) error {
	p.Say("Under profile %s, which is derived. The rate .010 gives the paper's interval by ARISE's first step alone, .006 is the mean of the paper's videos. Ten clients may be there at a time, as many as there are phones. "+
		"The paper's clients lose .011 at most with the Clipper-like and .013 with ARISE-α, in the mean of each.", testbedServer)
	_, err := s.compare(ctx, p, "on-testbed", onTestbed(0.010), onTestbed(0.006))
	return err
}

// analysis shows late batches and errors of estimates (ARISE-25, 26).
func (s *study) analysis(ctx context.Context, p *reports.Part) error {
	p.Say("An estimate's error is the largest of any single result: that of the rate times the interval, without the smoothing that the server applies. The paper's is of means over videos. A batch is late by however little it begins after its time.")
	g, err := s.alone(ctx, p, "late-and-estimates", fiveG...)
	if err == nil {
		p.Head("At an SLA of 0.06 %.1f %% of the batches begin later than planned; the paper has 1.6 %%.", 100*mean(g[2].runs, func(r *streams.Result) float64 { return r.Late }))
	}
	return err
}

// rates shows what ARISE makes of other drop rates (ARISE-33).
func (s *study) rates(ctx context.Context, p *reports.Part) error {
	p.Say("The paper shows in a timeline that intervals follow the drop rate, of .007 to .013, and that batches are largest where it is lowest. Here rates differ from run to run.")
	var all []conditions
	for _, rate := range []float64{0.003, 0.005, 0.007, 0.009, 0.011, 0.013} {
		w := loose.at(rate, 0.1)
		w.paper.states = figures{}
		all = append(all, w)
	}
	g, err := s.alone(ctx, p, "by-rate", all...)
	if err == nil {
		p.Figures = []report.Figure{byRate(g)}
	}
	return err
}

// detection compares all systems on a heavier task (ARISE-27).
func (s *study) detection(ctx context.Context, p *reports.Part) error {
	p.Say("The paper's means are 36.9 batches of 1.2 a second at 60 frames a second, hence 24.6 ms each; at 30, which its videos have, twice as much. " +
		"How batches grow and how fast clients lose accuracy is not stated: both are fitted to the paper's interval and batch, from which ARISE's clients follow. What is not fitted is the other systems.")
	_, err := s.compare(ctx, p, "detecting", detections()...)
	return err
}

// compare shows all systems under each of the conditions.
func (s *study) compare(ctx context.Context, p *reports.Part, id string, all ...conditions) (groups [][]row, err error) {
	for _, w := range all {
		g, err := s.contest(ctx, w)
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	if err = s.show(ctx, p, id, groups); err != nil {
		return nil, err
	}
	for _, g := range groups {
		head(p, g)
	}
	return groups, nil
}

// alone shows ARISE under each of the conditions.
func (s *study) alone(ctx context.Context, p *reports.Part, id string, all ...conditions) (g []row, err error) {
	for _, w := range all {
		g = append(g, row{setting{w, arise, false}, span{}, w.paper.states, nil})
	}
	return g, s.show(ctx, p, id, [][]row{g})
}

// head says in the report's verdict how the first row compares with the others.
func head(p *reports.Part, g []row) {
	low, high, outside := math.Inf(1), 0.0, ""
	for _, r := range g[1:] {
		x := g[0].times(r).Mean
		low, high = min(low, x), max(high, x)
		if is := r.ratio.holds(x); is == "below" || is == "above" {
			outside += fmt.Sprintf("; %.2f, %s %s, for %s", x, is, r.ratio, r.Name)
		}
	}
	if outside != "" {
		outside = "; outside of the paper's ranges are" + outside[1:]
	}
	p.Head("%s, drop rate %v: %s serves %.1f clients, %.2f to %.2f times as many as the others%s.", g[0].name, g[0].rate, g[0].Name, mean(g[0].runs, clients), low, high, outside)
}
