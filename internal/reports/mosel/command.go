package mosel

import (
	"context"
	"fmt"
	"os"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/training"
	"gearshift/internal/training/policies"
	"gearshift/rl"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// Report is the report of modality selection.
func Report() reports.Report {
	return reports.Report{
		Name:  "mosel",
		Short: "Repeat the evaluation of modality selection in the simulator, as one report",
		Long: `Play the policies that MOSEL compares (arXiv 2310.18481), and ours, on jobs with quality floors and
deadlines, with five models whose profiles are derived from the paper's numbers, and write
one page: DIR/report.html, with report.json and a CSV for each table.

A policy is trained first, on the same models and other seeds, unless --policy names one that
gearshift modality train has stored. No model is needed.`,
		Example: "--out mosel-report",
		Quick:   "three runs of two minutes each, in place of twenty of ten",
		Seeds:   reports.Seeds{Usual: 20, Quick: 3, Of: "runs of each policy on each setting"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			p := &paper{Run: r}
			f.StringVar(&p.stored, "policy", "", "stored policy, `NAME[@VERSION]`, in place of one that is trained first")
			f.StringVar(&p.recordings, "arrivals", "", "`folder` with recorded clients in ServeGen's form (*-trace.csv), on whose arrivals policies are played too")
			f.Store(&p.store)
			return p.study()
		},
	}
}

// paper is a report in the making.
type paper struct {
	*reports.Run
	store, stored, recordings string // flags

	decisions   int // that the learned policy learns from
	comparisons int // episodes on which its cautions are grown; 0 is the usual number
	validation  int // episodes that choose how far it departs; 0 is the usual number
	day         time.Duration
	multiple    float64               // of the capacity, up to which rates are raised; 0 is 4096
	network     modality.Network      // of the policy that is learned
	trained     string                // where it comes from
	clients     *workloads.JobClients // nil if there are none
	sweep       reports.Sweep[setting, played]
}

// study lists the sections. Some show what others have played.
func (p *paper) study() reports.Study {
	p.sweep = reports.Sweep[setting, played]{Run: p.Run, Open: p.open}
	return reports.Study{
		Run: p.Run, Check: p.check, Open: p.begin,
		Sections: []reports.Section{
			{ID: "profiles", Title: "What is simulated", Make: p.profiles},
			{ID: "throughput", Title: "Throughput", Make: p.throughput},
			{ID: "rates", Title: "Constant rates", Make: p.rates},
			{ID: "violations", Title: "Violations", Make: p.violations},
			{ID: "quality", Title: "Quality and completion times", Make: p.quality},
			{ID: "samples", Title: "Samples of 4 s", Make: p.samples},
			{ID: "knowing", Title: "Compared with knowing the future", Make: p.future},
			{ID: "learned", Title: "The learned policy", Make: p.learned},
			{ID: "estimates", Title: "Latencies that are misestimated", Make: p.estimates},
			{ID: "clients", Title: "Recorded clients", Make: p.recorded, Needs: "arrivals"},
		},
	}
}

// check reads the clients, if there are any.
func (p *paper) check() (err error) {
	p.day, p.decisions = 10*time.Minute, training.UsualJobs
	if p.Quick {
		p.day, p.decisions, p.comparisons = 2*time.Minute, training.QuickJobs, 400
	}
	if p.recordings == "" {
		return nil
	}
	if p.clients, err = workloads.ReadJobClients(os.DirFS(p.recordings)); err != nil {
		return fmt.Errorf("--arrivals %q: %w", p.recordings, err)
	}
	return nil
}

// begin takes the learned policy out of the store, or trains it.
func (p *paper) begin(ctx context.Context) (*report.Report, error) {
	r := &report.Report{
		Title:    "Modality selection",
		Scenario: fmt.Sprintf("Simulated: five models under profiles derived from the paper's numbers, one worker each; %d days of %v from 5 requests per second to twice the capacity without selection", p.Seeds, p.day),
	}
	if p.stored != "" {
		return r, p.take()
	}
	return r, p.train(ctx)
}

// take reads the policy that is learned out of the store.
func (p *paper) take() error {
	var c *checkpoints.Checkpoint
	var entry checkpoints.Entry
	ref, err := policies.StoredRef(p.stored)
	if err == nil {
		c, entry, err = (&checkpoints.Store{Path: p.store}).Get(ref)
	}
	if err == nil {
		p.network, err = policies.JobsNetwork(c)
	}
	if err != nil {
		return fmt.Errorf("--policy %q: %w", p.stored, err)
	}
	p.trained = fmt.Sprintf("%s, of %d decisions", entry.Ref(), entry.Meta.Decisions)
	return nil
}

// train trains the policy that is learned, on all models.
func (p *paper) train(ctx context.Context) error {
	o := training.JobsOptions{Models: Trained(), Seed: 1, Decisions: p.decisions, Validation: p.validation, Comparisons: p.comparisons}
	count := p.Counting("decisions learned from")
	o.Report = func(r rl.Report) { count(r.Decisions, r.Total) }
	t, err := training.TrainJobs(ctx, o)
	if err != nil {
		return err
	}
	p.network = t.Network
	p.trained = fmt.Sprintf("trained for this report on %d decisions; a request is worth %.4f on validation seeds, under the plan alone %.4f", p.decisions, t.Score, t.Plan)
	return nil
}
