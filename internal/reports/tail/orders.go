package tail

import (
	"gearshift/env/clients"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// statement is that one measure is better than another, as the text has it.
type statement struct {
	row, words    string
	better, worse string
	by            by
}

// by is what measures are compared by.
type by uint8

const (
	load    by = iota // that is carried
	latency           // p99 at the load that all steps carry
	busiest           // the busiest 5 % of hosts, at the load that the first carries
)

var byNames = [...]string{load: "load carried", latency: "p99", busiest: "busiest 5 %"}

// statements are those of the text, in the order of its rows, and that all steps together do
// better than the choices of others.
func statements() []statement {
	list := []statement{
		{"META-4", "fresh loads are better than those said with earlier answers", "fresh", "header", load},
		{"META-5", "a third choice is better, marginally", "three", "fresh", load},
		{"META-6", "outstanding requests are better than how busy cores were", "fresh", "use", load},
		{"META-7", "placement within bands is better, where loads are fresh", "placement", "work", load},
		{"META-7", "the same, where they are those said with earlier answers", "header_placed", "header", load},
		{"META-8", "bandwidth as a resource of placement helps", "bandwidth", "placement", load},
		{"META-8", "bandwidth as a resource of placement helps", "bandwidth", "placement", latency},
		{"META-9", "without placement, the host's counter is better than the model's", "fresh", "model", load},
		{"META-9", "placement makes up for it: the model's counter with it is better than without", "model_placed", "model", load},
		{"META-9", "with placement, the model's counter evens hosts best", "model_placed", "host_placed", busiest},
		{"META-12", "outstanding work is better than the model's requests", "work", "model", load},
		{"META-12", "outstanding work is better than the model's requests", "work", "model", latency},
		{"META-12", "outstanding work is better than the host's requests", "work", "fresh", latency},
	}
	for _, x := range peers() {
		list = append(list, statement{"peers", "all steps carry more than " + x.name + ", placed alike", "bandwidth", x.name, load})
	}
	return list
}

// index is the measure of the name; −1 if it was not run.
func (d *measured) index(id string) int {
	for i := range d.list {
		if d.list[i].id == id {
			return i
		}
	}
	return -1
}

// better is by how much one measure is better than another, relative to that.
func (d *measured) better(a, b int, by by) evaluation.Interval {
	if by == load {
		return d.gain(a, b)
	}
	var list []float64
	for j := range d.carried[a] {
		x, y := d.most[a][j], d.most[b][j]
		f := p99
		if by == busiest {
			x, y, f = d.least[a][j], d.least[b][j], (*clients.Result).Tail
		}
		list = append(list, 1-f(x)/f(y))
	}
	return evaluation.Bootstrap(list)
}

// orders holds what measures come to against what the text says of them.
func (d *measured) orders() report.Table {
	t := report.Table{ID: "orders", Title: "The order of measures, and the text's", Columns: []report.Column{
		report.TextColumn("claim", "The text"), report.TextColumn("by", "Compared by"),
		report.IntervalColumn("better", "Better by", "%", 1), report.TextColumn("here", "Here"), report.TextColumn("row", "Row"),
	}, Note: "More load carried, a shorter p99 at the load that all steps carry, or less of the busiest 5 % of hosts at the load that the first carries; 95 % bootstrap intervals over the tiers."}
	for _, x := range statements() {
		a, b := d.index(x.better), d.index(x.worse)
		if a < 0 || b < 0 {
			continue
		}
		i := d.better(a, b, x.by)
		here := "no difference is sure"
		if i.Lo > 0 {
			here = "so"
		} else if i.Hi < 0 {
			here = "the other way round"
		}
		t.Rows = append(t.Rows, []report.Cell{report.Text(x.words), report.Text(byNames[x.by]),
			reports.Cell(reports.Scaled(i, 100)), report.Text(here), report.Text(x.row)})
	}
	return t
}
