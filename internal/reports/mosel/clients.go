package mosel

import (
	"context"
	"fmt"
	"os"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	envjobs "gearshift/env/jobs"
	"gearshift/workloads/jobs"
)

// recorded plays arrivals of recorded clients, if there are any.
func (p *paper) recorded(ctx context.Context) (report.Section, error) {
	shown := []int{optimized, ours, learned, others + 1, others + 2, drop, none}
	section := report.Section{ID: "clients", Title: "Recorded clients",
		Text: fmt.Sprintf("Jobs come when the requests of recorded multimodal clients do (%s), in a stretch of their day that is drawn for each run; all rates are scaled so that the day's mean is the capacity with all inputs. Sizes and floors are as on the other days. Deadline 1 s.", p.arrivals)}
	shares := report.Table{ID: "clients-violations", Title: "Share of violations", Columns: []report.Column{report.TextColumn("model", "model")}}
	worth := report.Table{ID: "clients-worth", Title: "What a request is worth", Columns: []report.Column{report.TextColumn("model", "model")}}
	for _, k := range shown {
		shares.Columns = append(shares.Columns, report.IntervalColumn(key(compared[k].name), compared[k].name, "", 4))
		worth.Columns = append(worth.Columns, report.IntervalColumn(key(compared[k].name), compared[k].name, "", 4))
	}
	for j := range models {
		lost, earned := []report.Cell{report.Text(models[j].name)}, []report.Cell{report.Text(models[j].name)}
		for _, k := range shown {
			r, err := p.play(ctx, setting{model: &models[j], deadline: time.Second, estimate: 1, clients: true}, compared[k])
			if err != nil {
				return section, err
			}
			lost = append(lost, cell(evaluation.Bootstrap(r.of((*envjobs.Result).Violations))))
			earned = append(earned, cell(evaluation.Bootstrap(r.worth)))
		}
		shares.Rows, worth.Rows = append(shares.Rows, lost), append(worth.Rows, earned)
	}
	section.Tables = []report.Table{shares, worth}
	return section, nil
}

// readClients reads the clients of a folder.
func (p *paper) readClients(folder string) (err error) {
	if p.clients, err = jobs.ReadClients(os.DirFS(folder)); err != nil {
		return fmt.Errorf("--arrivals %q: %w", folder, err)
	}
	p.arrivals = "ServeGen"
	return nil
}
