package mosel

import (
	"context"
	"fmt"
	"io"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/training/jobtraining"
	"gearshift/internal/training/policies"
	"gearshift/rl"
	"gearshift/router/modality"
	"gearshift/workloads/jobs"
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
		Flags:   flags,
	}
}

func flags(f *reports.Flags) reports.Make {
	var quick bool
	var seeds int
	var store, stored, arrivals, only string
	f.BoolVar(&quick, "quick", false, "three runs of two minutes each, in place of twenty of ten")
	f.IntVar(&seeds, "seeds", 0, "runs of each policy on each setting (default 20, or 3 with --quick)")
	f.StringVar(&only, "only", "", "one `section` alone, which takes a tenth of the time: learned")
	f.StringVar(&stored, "policy", "", "stored policy, `NAME[@VERSION]`, in place of one that is trained first")
	f.StringVar(&arrivals, "arrivals", "", "`folder` with recorded clients in ServeGen's form (*-trace.csv), on whose arrivals policies are played too")
	f.Store(&store)
	return func(ctx context.Context, out string, by reports.Program, _ io.Writer) (*report.Report, error) {
		p := &paper{only: only == "learned", seeds: 20, day: 10 * time.Minute, program: by, decisions: jobtraining.Usual}
		if quick {
			p.seeds, p.day, p.decisions, p.comparisons = 3, 2*time.Minute, jobtraining.Quick, 400
		}
		if f.Changed("seeds") {
			p.seeds = seeds
		}
		if only != "" && !p.only {
			return nil, fmt.Errorf("--only %q: want learned", only)
		}
		if p.seeds < 1 || p.seeds > 10_000 {
			return nil, fmt.Errorf("--seeds: %d must be from 1 to 10000", p.seeds)
		}
		if arrivals != "" {
			if err := p.readClients(arrivals); err != nil {
				return nil, err
			}
		}
		if err := reports.Begin(out); err != nil {
			return nil, err
		}
		p.repeat = fmt.Sprintf("gearshift paper mosel --seeds %d", p.seeds)
		if quick {
			p.repeat += " --quick"
		}
		if arrivals != "" {
			p.repeat += " --arrivals " + arrivals
		}
		if p.only {
			p.repeat += " --only learned"
		}
		if stored != "" {
			if err := p.take(store, stored); err != nil {
				return nil, err
			}
			p.repeat += " --policy " + stored
		} else if err := p.train(ctx); err != nil {
			return nil, err
		}
		return p.report(ctx)
	}
}

// take reads the policy that is learned out of a store.
func (p *paper) take(path, name string) error {
	ref, err := policies.StoredRef(name)
	if err != nil {
		return fmt.Errorf("--policy %q: %w", name, err)
	}
	c, entry, err := (&checkpoints.Store{Path: path}).Get(ref)
	if err == nil {
		p.network, err = policies.JobsNetwork(c)
	}
	if err != nil {
		return fmt.Errorf("--policy %q: %w", name, err)
	}
	p.trained = fmt.Sprintf("%s, of %d decisions", entry.Ref(), entry.Meta.Decisions)
	return nil
}

// train trains the policy that is learned, on all models.
func (p *paper) train(ctx context.Context) error {
	o := jobtraining.Options{Models: Trained(), Seed: 1, Decisions: p.decisions, Validation: p.validation, Comparisons: p.comparisons}
	if p.program.Counting != nil {
		if count := p.program.Counting("decisions learned from"); count != nil {
			o.Report = func(r rl.Report) { count(r.Decisions, r.Total) }
		}
	}
	t, err := jobtraining.Train(ctx, o)
	if err != nil {
		return err
	}
	p.network = t.Network
	p.trained = fmt.Sprintf("trained for this report on %d decisions; a request is worth %.4f on validation seeds, under the plan alone %.4f", p.decisions, t.Score, t.Plan)
	return nil
}

// paper is a report in the making.
type paper struct {
	seeds         int
	only          bool // the section on the learned policy alone
	decisions     int  // that the learned policy learns from
	comparisons   int  // episodes on which its cautions are grown; 0 is the usual number
	validation    int  // episodes that choose how far it departs; 0 is the usual number
	day           time.Duration
	multiple      float64          // of the capacity, up to which rates are raised; 0 is 4096
	network       modality.Network // of the policy that is learned
	clients       *jobs.Clients    // nil if there are none
	arrivals      string           // what they are called
	trained       string           // where it comes from
	program       reports.Program
	repeat        string
	played, plays int
	count         func(done, total int)
}

// report plays everything and lays it out.
func (p *paper) report(ctx context.Context) (*report.Report, error) {
	p.counting()
	if p.only {
		p.plays = learnedPlays(false)
		section, ahead, err := p.learned(ctx, nil)
		return p.titled(ahead, section), err
	}
	p.plays = len(deadlines)*len(models)*len(compared) + len(estimates)*len(models)*2 + learnedPlays(true) + 8*len(multiples)*len(models)
	if p.clients != nil {
		p.plays += 6 * len(models)
	}
	days, err := p.days(ctx)
	if err != nil {
		return nil, err
	}
	wrong, err := p.estimates(ctx)
	if err != nil {
		return nil, err
	}
	learnt, ahead, err := p.learned(ctx, days)
	if err != nil {
		return nil, err
	}
	rates, sustained, err := p.rates(ctx)
	if err != nil {
		return nil, err
	}
	future, err := p.future(ctx, days)
	if err != nil {
		return nil, err
	}
	throughput, verdict := p.throughput(days)
	violations, beaten, err := p.violations(days)
	if err != nil {
		return nil, err
	}
	sections := []report.Section{p.profiles(), throughput, rates, violations, p.quality(days), p.samples(days), future, learnt, wrong}
	if p.clients != nil {
		recorded, err := p.recorded(ctx)
		if err != nil {
			return nil, err
		}
		sections = append(sections, recorded)
	}
	return p.titled([]string{sustained + "; " + verdict, beaten, ahead[0]}, sections...), nil
}

// counting has the program show how many policies have been played.
func (p *paper) counting() {
	p.count = func(int, int) {}
	if p.program.Counting != nil {
		if count := p.program.Counting("policies played"); count != nil {
			p.count = count
		}
	}
}

// titled is the report of the sections.
func (p *paper) titled(verdict []string, sections ...report.Section) *report.Report {
	return &report.Report{
		Title:    "Modality selection",
		Scenario: fmt.Sprintf("Simulated: five models under profiles derived from the paper's numbers, one worker each; %d days of %v from 5 requests per second to twice the capacity without selection", p.seeds, p.day),
		Verdict:  verdict,
		Sections: sections,
		Repeat:   p.repeat + " --out DIR\ngearshift " + p.program.Version,
	}
}
