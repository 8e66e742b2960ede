// Package training trains the policies of a scenario: it joins the learner's loop with the
// simulator, the judge and the store, and resumes where a run was interrupted. [TrainJobs] trains
// the policy that decides which inputs jobs use, [MakeDigits] the model of handwritten and spoken
// digits.
package training

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/rl"
	"gearshift/rl/fused"
	"gearshift/router/nn"
)

// Stack says what the learner computes with.
var Stack = "gorgonia, " + fused.BLAS()

// Options say what is trained, and how.
type Options struct {
	Scenario string   // a built-in name or a file
	Preset   string   // of the scenario
	Store    string   // file of the policy and of the run's progress
	Name     string   // of the policy and the run; empty: the scenario's
	From     string   // stored policy to fine-tune; empty: none
	Out      string   // folder for curves; empty: none
	FromLog  []string // files of logged requests: to fine-tune on, for [FromLog], or whose arrivals to train on
	// Trace names recorded requests to train and judge on, as a workload does after "trace:";
	// empty: the scenario's load. With DrawnLengths, their lengths are drawn as the scenario says.
	Trace        string
	DrawnLengths bool
	HeldOut      float64 // share of the trace, or of the log's arrivals, that is for the comparison with rules alone
	Seed         uint64
	Steps        int  // decisions to stop after, in all; of [FromLog], gradient steps. 0: the preset's, or ten passes over the log
	Resume       bool // goes on with the stored run of the name
	Restart      bool // starts over, whatever progress of a run of the name is stored
	// Uncompared leaves out the comparison with the rules, which promotion asks
	// for and which takes about as long as a short run.
	Uncompared bool
	// Objective, if not nil, replaces the scenario's.
	Objective *evaluation.Objective
}

// maxSeed leaves room for the episodes of a run within the training seeds.
const maxSeed = math.MaxUint32

// run joins what a run needs.
type run struct {
	options  Options
	scenario *scenario.Scenario
	config   rl.Config
	store    *checkpoints.Store
	members  []*member
	saving   sync.Mutex
	judge    *policies.Judge
	traffic  *policies.Traffic // that it trains on; nil: the scenario's load
	notes    []string          // on the traffic
	meta     checkpoints.Meta
	learnt   string             // a line on how much of what was learnt is used; empty: all
	ended    *checkpoints.Entry // what a run with nothing left to do has stored
}

func newRun(o Options) (*run, error) {
	s, err := scenario.Load(o.Scenario)
	if err != nil {
		return nil, err
	}
	return newRunOn(o, s)
}

// newRunOn is newRun on a scenario that need not be a file's.
func newRunOn(o Options, s *scenario.Scenario) (*run, error) {
	if o.Name == "" {
		o.Name = s.Name
	}
	store := &checkpoints.Store{Path: o.Store}
	if err := policies.Predicting(s, store, ""); err != nil {
		return nil, err
	}
	s = o.aimed(s)
	preset, err := o.preset(s)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(preset)
	if err != nil {
		return nil, err
	}
	r := &run{options: o, scenario: s.Trained(preset), config: preset.Config, store: store}
	spec := r.scenario.Spec()
	r.meta = checkpoints.Meta{
		Scenario: s.Name, ScenarioHash: s.Hash(), Spec: spec, SpecHash: spec.Hash(),
		Preset: o.Preset, Config: encoded, Seed: o.Seed, OwnEpisodes: preset.Members > 1,
		Objective: policies.Aim(s.Training.Objective),
	}
	if err := r.record(); err != nil {
		return nil, err
	}
	if r.judge, err = policies.NewJudgeOn(r.scenario, spec, r.traffic); err != nil {
		return nil, err
	}
	if err := r.addMembers(); err != nil {
		return nil, err
	}
	return r, r.startFrom(o.From)
}

// record reads the traffic of the options, if they name any.
func (r *run) record() (err error) {
	o := &r.options
	switch {
	case o.Trace != "":
		r.traffic, err = policies.TraceTraffic(r.scenario, o.Trace, !o.DrawnLengths, o.HeldOut, func(note string) { r.notes = append(r.notes, note) })
	case len(o.FromLog) > 0 && !o.finetunes():
		log, failed := policies.ReadLogs(r.scenario, o.FromLog)
		if failed != nil {
			return failed
		}
		r.notes = policies.LogRemarks(r.scenario, log)
		r.traffic, err = policies.LogTraffic(r.scenario, log, o.HeldOut)
	}
	if r.traffic != nil {
		r.meta.Traffic = &r.traffic.Meta
	}
	return err
}

// finetunes reports whether a stored policy learns from the log's own decisions, not only its arrivals.
func (o *Options) finetunes() bool { return o.From != "" && len(o.FromLog) > 0 }

// startFrom loads the policy to fine-tune, if there is one.
func (r *run) startFrom(text string) error {
	if text == "" {
		return nil
	}
	ref, err := policies.StoredRef(text)
	if err != nil {
		return fmt.Errorf("--from %q: %w", text, err)
	}
	c, entry, err := r.store.Get(ref)
	switch {
	case err != nil:
		return fmt.Errorf("--from %q: %w", text, err)
	case c.Meta.SpecHash != r.meta.SpecHash:
		return fmt.Errorf("--from %q: %s observes other numbers than preset %s of scenario %s does%s", text, entry.Ref(), r.meta.Preset, r.scenario.Name, r.otherAim(c.Meta))
	}
	r.meta.From = entry.Digest
	r.config.Epsilon.Start = r.config.Epsilon.End
	weights, err := c.Network.Split(len(r.members), r.config.Hidden, r.meta.Spec.Outputs())
	if err != nil {
		return fmt.Errorf("--from %q: %w", text, err)
	}
	for i, m := range r.members {
		m.from = weights[i]
	}
	return nil
}

// otherAim says that a policy to start from was trained for another objective than the run
// is for, on which what it observes depends.
func (r *run) otherAim(from checkpoints.Meta) string {
	was, is := objectiveOf(from), objectiveOf(r.meta)
	if was == is {
		return ""
	}
	return fmt.Sprintf(": it was trained for %s, and this run is for %s; --objective %[1]s goes on with what it observes", was, is)
}

// preset finds the preset in the scenario and holds the flags against it.
func (o *Options) preset(s *scenario.Scenario) (scenario.Preset, error) {
	p, err := s.Preset(o.Preset)
	switch {
	case err != nil:
		return p, err
	case o.Seed > maxSeed:
		return p, fmt.Errorf("--seed %d is too large; at most %d", o.Seed, uint64(maxSeed))
	case o.Steps < 0:
		return p, fmt.Errorf("--steps %d is negative", o.Steps)
	case o.Steps > p.Decisions:
		return p, fmt.Errorf("--steps %d is more than the %d decisions of preset %s; raise training.presets.%s.decisions in the scenario",
			o.Steps, p.Decisions, o.Preset, o.Preset)
	}
	if err := rewardable(o.Preset, p, s.Training.Objective); err != nil {
		return p, err
	}
	return p, policies.CheckName(o.Name)
}

// Train trains a policy as the options say and stores it. It reports results on stdout and
// how it goes on stderr.
func Train(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	r, err := newRun(o)
	if err != nil {
		return err
	}
	err = r.complete(ctx, stdout, stderr)
	if err == nil || ctx.Err() == nil {
		return err
	}
	if output.IsTerminal(stderr) {
		fmt.Fprint(stderr, "\r\x1b[K") // over the count, if it had come to that
	}
	if !errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "gearshift:", err)
	}
	fmt.Fprintf(stderr, "stopped after %d decisions; the same command with --resume continues from what is saved\n", r.decisions())
	return ctx.Err()
}

// complete trains, from the stored progress if the run is to be resumed, and stores
// the policy.
func (r *run) complete(ctx context.Context, stdout, stderr io.Writer) error {
	for _, m := range r.members {
		if err := r.begin(m, stderr); err != nil {
			return err
		}
	}
	if e := r.ended; e != nil {
		fmt.Fprintf(stdout, "run %q is finished after %d decisions: its policy is %s in %s (sha256 %s)\n",
			r.options.Name, e.Meta.Decisions, e.Ref(), r.store.Path, e.Digest)
		return nil
	}
	if err := r.store.Writable(); err != nil {
		return err
	}
	for _, note := range r.notes {
		fmt.Fprintln(stderr, "note:", note)
	}
	log, err := newRunLog(r, stderr)
	if err != nil {
		return err
	}
	err = r.train(ctx, log)
	unwritten := log.Close()
	if err != nil {
		return r.explain(err)
	}
	r.tellOfJudging(stderr)
	// Whatever has become of the curves, what was trained is stored.
	return errors.Join(r.finish(ctx, stdout), unwritten)
}

// explain says what an error of the run means to its user.
func (r *run) explain(err error) error {
	for _, m := range r.members {
		for _, e := range m.envs {
			if e.Err() != nil {
				return fmt.Errorf("cannot train on scenario %s: %w", r.scenario.Name, e.Err())
			}
		}
	}
	return err
}

// tellOfJudging says what takes its time once all is learnt, and counts it on a terminal.
func (r *run) tellOfJudging(stderr io.Writer) {
	rules, on := " and against the rules", "validation seeds"
	if r.options.Uncompared {
		rules = ""
	} else if r.traffic != nil {
		rules = ", and against the rules on what is held out"
	}
	if r.traffic != nil {
		on = "the end of the first part"
	}
	fmt.Fprintf(stderr, "judging the policy on %s%s\n", on, rules)
	r.judge.Progress = output.Counting(stderr, "judging the policy")
}

// finish stores the policy and says how to use it.
func (r *run) finish(ctx context.Context, stdout io.Writer) error {
	r.meta.Decisions, r.meta.Seen = r.decisions(), r.seen()
	network, err := r.network(ctx)
	if err != nil {
		return err
	}
	c, err := r.judged(ctx, network)
	if err != nil {
		return err
	}
	var over []string
	if r.meta.Decisions >= r.config.Decisions {
		for _, m := range r.members {
			over = append(over, m.run)
		}
	}
	version, removed, err := r.store.Finish(r.options.Name, r.options.Name, c, time.Now(), over...)
	if err != nil {
		return err
	}
	data, err := checkpoints.Encode(c)
	if err != nil {
		return err
	}
	ref := checkpoints.Ref{Name: r.options.Name, Version: version}
	fmt.Fprintf(stdout, "stored policy %s in %s after %d decisions (sha256 %s)\n", ref, r.store.Path, r.meta.Decisions, checkpoints.Digest(data))
	fmt.Fprint(stdout, r.learnt)
	policies.TellRemoved(stdout, ref.Name, removed, policies.TooOld)
	fmt.Fprintf(stdout, "compare it:  gearshift eval --scenario %s --store %s --policy %s%s\n", r.options.Scenario, r.store.Path, ref, r.traffic.EvalFlags())
	fmt.Fprintf(stdout, "serve it:    gearshift serve --scenario %s --store %s --policy %s\n", r.options.Scenario, r.store.Path, ref)
	r.conclude(stdout, ref)
	return nil
}

// judged returns the network as a policy with its evaluation, which the run's description has from
// then on.
func (r *run) judged(ctx context.Context, network *nn.MLP) (*checkpoints.Checkpoint, error) {
	evaluation, err := r.judge.Summary(ctx, network, policies.Trust(r.meta), !r.options.Uncompared)
	if err != nil {
		return nil, err
	}
	c := &checkpoints.Checkpoint{Meta: r.meta, Network: network}
	err = c.Evaluated(evaluation)
	r.meta = c.Meta
	return c, err
}

// conclude prints how the policy that was stored compares with the best rule, if it was
// compared, and what to do next.
func (r *run) conclude(stdout io.Writer, ref checkpoints.Ref) {
	if v, ok := policies.StoredVerdict(checkpoints.Entry{Name: ref.Name, Version: ref.Version, Meta: r.meta}); ok {
		fmt.Fprint(stdout, policies.Conclusion(v, policies.PromotionIn(r.store.Path)))
	}
}

// aimed returns the scenario with the objective of the options, if they have one.
func (o *Options) aimed(s *scenario.Scenario) *scenario.Scenario {
	if o.Objective == nil {
		return s
	}
	aimed := *s
	aimed.Training.Objective = *o.Objective
	return &aimed
}

// keepObjective takes over the objective of the policy that a log fine-tunes: its weights
// are values by that, which a log is too short to learn once more.
func (o *Options) keepObjective(ref string, start checkpoints.Meta) error {
	own, err := policies.Objective(start)
	switch {
	case err != nil:
		return fmt.Errorf("--from %q: cannot fine-tune %s: %w", o.From, ref, err)
	case o.Objective != nil && *o.Objective != own:
		return fmt.Errorf("--objective %s: %s was trained for %s, and a log fine-tunes a policy for its own objective; leave the flag out, or train without --from-log", o.Objective, ref, own)
	}
	o.Objective = &own
	return nil
}

// rewardable refuses marginal and difference rewards by another objective than utility: what the others on
// a host lose is known in utility alone.
func rewardable(name string, p scenario.Preset, by evaluation.Objective) error {
	key, kind := "marginal_rewards", "marginal"
	if p.DifferenceRewards {
		key, kind = "difference_rewards", "difference"
	}
	if !p.MarginalRewards && !p.DifferenceRewards || by == evaluation.MeanUtility {
		return nil
	}
	return fmt.Errorf("training.presets.%s.%s is true and training.objective, or --objective, is %s: %s rewards are of utility; want %[2]s: false, or the objective utility", name, key, by, kind)
}

// objectiveOf returns what a stored policy or run was trained for, in a word.
func objectiveOf(m checkpoints.Meta) string {
	return cmp.Or(m.Objective, evaluation.MeanUtility.String())
}

// goal says in a sentence what the run trains for, unless that is utility.
func (r *run) goal() string {
	if r.meta.Objective == "" {
		return ""
	}
	return ", for " + r.meta.Objective
}
