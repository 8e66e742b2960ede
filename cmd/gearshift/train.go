//go:build !serveonly

package main

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

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/judging"
	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/rl"
	"gearshift/rl/dqn"
)

var trainingStack = "gorgonia, " + dqn.BLAS()

func trainCommands() []*cobra.Command {
	return []*cobra.Command{newTrainCommand(), newCalibrateCommand(), newPaperCommand()}
}

// trainOptions are the flags of train.
type trainOptions struct {
	scenario, presetName, store, name, from, out string
	fromLog                                      []string
	seed                                         uint64
	steps                                        int
	resume                                       bool
	// uncompared leaves out the comparison with the rules, which the gate asks
	// for and which takes about as long as a short run.
	uncompared bool
}

func newTrainCommand() *cobra.Command {
	var o trainOptions
	c := &cobra.Command{
		Use:   "train",
		Short: "Train a policy in the simulator and store it",
		Long: `Train a Double-DQN policy in the simulator of the scenario's fleet and store the
weights that did best on validation seeds. Progress is saved as the run goes: after
an interruption, the same command with --resume continues, and ends with the very
bytes that an uninterrupted run ends with.

With --from-log, the policy that --from names is fine-tuned on requests that a router
has served and logged (serving.experience), beside as many decisions in the simulator,
and stored as a new version of it; it is said how that one does beside the old.`,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(o.fromLog) > 0 {
				if err := refuseFlags(c.Flags(), "with --from-log", "resume", "out"); err != nil {
					return err
				}
				return trainFromLog(c.Context(), o, c.Flags().Changed("preset"), c.OutOrStdout(), c.ErrOrStderr())
			}
			return train(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	scenarioFlag(c, &o.scenario)
	storeFlag(c, &o.store)
	f.StringVar(&o.presetName, "preset", "default", "training preset of the scenario: quick, default, paper, or your own")
	f.Uint64Var(&o.seed, "seed", 1, "of everything random in the run")
	f.IntVar(&o.steps, "steps", 0, "stop after `N` decisions in all; schedules keep to the preset's length (0: the whole preset). With --from-log: gradient steps (0: ten passes over the log)")
	f.StringVar(&o.name, "name", "", "of the policy and the run (default: the scenario's name)")
	f.StringVar(&o.from, "from", "", "stored policy, `NAME[@VERSION]`, to fine-tune: begin with its weights, and explore as little as at a run's end")
	fromLogFlag(c, &o.fromLog, "`FILE…` of logged requests to fine-tune on, with --from")
	f.BoolVar(&o.resume, "resume", false, "continue the stored run of this name")
	f.StringVar(&o.out, "out", "", "`folder` for progress.csv and a TensorBoard event file")
	return c
}

// maxSeed leaves room for the episodes of a run within the training seeds.
const maxSeed = math.MaxUint32

// trainingRun joins what a run needs.
type trainingRun struct {
	options  trainOptions
	scenario *scenario.Scenario
	config   rl.Config
	store    *checkpoints.Store
	members  []*member
	saving   sync.Mutex
	judge    *judging.Judge
	meta     checkpoints.Meta
	ended    *checkpoints.Entry // what a run with nothing left to do has stored
}

func newTrainingRun(o trainOptions) (*trainingRun, error) {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return nil, err
	}
	return newTrainingRunOn(o, s)
}

// newTrainingRunOn is newTrainingRun on a scenario that need not be a file's.
func newTrainingRunOn(o trainOptions, s *scenario.Scenario) (*trainingRun, error) {
	if o.name == "" {
		o.name = s.Name
	}
	preset, err := o.preset(s)
	if err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(preset)
	if err != nil {
		return nil, err
	}
	r := &trainingRun{options: o, scenario: s.Trained(preset), config: preset.Config, store: &checkpoints.Store{Path: o.store}}
	spec := r.scenario.Spec()
	r.meta = checkpoints.Meta{
		Scenario: s.Name, ScenarioHash: s.Hash(), Spec: spec, SpecHash: spec.Hash(),
		Preset: o.presetName, Config: encoded, Seed: o.seed, OwnEpisodes: preset.Members > 1,
	}
	if r.judge, err = judging.New(r.scenario, spec); err != nil {
		return nil, err
	}
	if err := r.addMembers(); err != nil {
		return nil, err
	}
	return r, r.startFrom(o.from)
}

// startFrom loads the policy to fine-tune, if there is one.
func (r *trainingRun) startFrom(text string) error {
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
		return fmt.Errorf("--from %q: %s observes other numbers than preset %s of scenario %s does", text, entry.Ref(), r.meta.Preset, r.scenario.Name)
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

// preset finds the preset in the scenario and holds the flags against it.
func (o *trainOptions) preset(s *scenario.Scenario) (scenario.Preset, error) {
	p, err := s.Preset(o.presetName)
	switch {
	case err != nil:
		return p, err
	case o.seed > maxSeed:
		return p, fmt.Errorf("--seed %d is too large; at most %d", o.seed, uint64(maxSeed))
	case o.steps < 0:
		return p, fmt.Errorf("--steps %d is negative", o.steps)
	case o.steps > p.Decisions:
		return p, fmt.Errorf("--steps %d is more than the %d decisions of preset %s; raise training.presets.%s.decisions in the scenario",
			o.steps, p.Decisions, o.presetName, o.presetName)
	}
	return p, policies.CheckName(o.name)
}

func train(ctx context.Context, o trainOptions, stdout, stderr io.Writer) error {
	r, err := newTrainingRun(o)
	if err != nil {
		return err
	}
	err = r.run(ctx, stdout, stderr)
	if err == nil || ctx.Err() == nil {
		return err
	}
	if !errors.Is(err, context.Canceled) {
		fmt.Fprintln(stderr, "gearshift:", err)
	}
	fmt.Fprintf(stderr, "stopped after %d decisions; the same command with --resume continues from what is saved\n", r.decisions())
	return ctx.Err()
}

// run trains, from the stored progress if the run is to be resumed, and stores
// the policy.
func (r *trainingRun) run(ctx context.Context, stdout, stderr io.Writer) error {
	for _, m := range r.members {
		if err := r.begin(m, stderr); err != nil {
			return err
		}
	}
	if e := r.ended; e != nil {
		fmt.Fprintf(stdout, "run %q is finished after %d decisions: its policy is %s in %s (sha256 %s)\n",
			r.options.name, e.Meta.Decisions, e.Ref(), r.store.Path, e.Digest)
		return nil
	}
	if err := r.store.Writable(); err != nil {
		return err
	}
	log, err := newTrainingLog(r, stderr)
	if err != nil {
		return err
	}
	err = r.train(ctx, log)
	unwritten := log.Close()
	if err != nil {
		return r.explain(err)
	}
	// Whatever has become of the curves, what was trained is stored.
	return errors.Join(r.finish(ctx, stdout), unwritten)
}

// last is the number of decisions that the run goes to.
func (r *trainingRun) last() int { return cmp.Or(r.options.steps, r.config.Decisions) }

// beyond says whether the progress is past what the run goes to, which several
// environments end by a whole round.
func (r *trainingRun) beyond(p *rl.Progress) bool {
	return p != nil && p.Decisions >= r.last()+max(1, r.config.Environments)
}

// begin decides where a member starts: at its stored progress, or anew.
func (r *trainingRun) begin(m *member, stderr io.Writer) error {
	stored, err := r.store.GetTraining(m.run)
	switch {
	case errors.Is(err, checkpoints.ErrNotFound):
		if r.options.resume && m.number == 0 {
			return fmt.Errorf("cannot resume: %w", err)
		}
		return nil
	case !r.options.resume:
		return r.anew(m, stored, err, stderr)
	case err != nil:
		return err
	}
	var meta checkpoints.Meta
	if err := json.Unmarshal(stored.Meta, &meta); err != nil {
		return fmt.Errorf("cannot resume run %q: %w", r.options.name, err)
	}
	if err := r.matches(meta); err != nil {
		if m.number > 0 {
			return nil // of an earlier run: this one was interrupted before it saved the member
		}
		return err
	}
	if len(stored.Progress) > 0 {
		m.progress = new(rl.Progress)
		if err := m.progress.UnmarshalBinary(stored.Progress); err != nil {
			return fmt.Errorf("cannot resume run %q: %w", r.options.name, err)
		}
	}
	if m.number > 0 && r.beyond(m.progress) && !r.beyond(r.members[0].progress) {
		m.progress = nil // of an earlier run that went further than this one is to
	}
	if m.number > 0 || stored.Policy.Name == "" || m.progress != nil && m.progress.Decisions < r.last() {
		return nil
	}
	return r.end(stored.Policy, m.progress != nil)
}

// anew tells of an interrupted run that is not gone on with. That it cannot be read
// keeps nobody from another, unless nothing of the store can be.
func (r *trainingRun) anew(m *member, stored checkpoints.Training, err error, stderr io.Writer) error {
	if errors.Is(err, checkpoints.ErrCorrupted) {
		_, err = r.store.List()
	}
	progress := new(rl.Progress)
	if m.number == 0 && stored.Policy.Name == "" && progress.UnmarshalBinary(stored.Progress) == nil {
		fmt.Fprintf(stderr, "run %q was interrupted after %d decisions; starting anew (--resume would continue it)\n", r.options.name, progress.Decisions)
	}
	return err
}

// end notes what a run with nothing left to do has stored. If that is there no more,
// it is stored again by what has progress.
func (r *trainingRun) end(policy checkpoints.Ref, again bool) error {
	entry, err := r.store.Lookup(policy)
	switch {
	case err == nil:
		r.ended = &entry
	case !again:
		return fmt.Errorf("run %q is finished, but %w; without --resume it starts anew", r.options.name, err)
	}
	return nil
}

// matches refuses to continue a run with other ingredients.
func (r *trainingRun) matches(stored checkpoints.Meta) error {
	differ := func(what string, was, is any) error {
		return fmt.Errorf("cannot resume run %q: it began with %s %v, now it is %v; train under another --name to start anew", r.options.name, what, was, is)
	}
	switch now := r.meta; {
	case stored.Scenario != now.Scenario:
		return differ("scenario", stored.Scenario, now.Scenario)
	case stored.ScenarioHash != now.ScenarioHash:
		return differ("a scenario of hash", stored.ScenarioHash[:12], now.ScenarioHash[:12])
	case stored.SpecHash != now.SpecHash:
		return differ("an observation of hash", stored.SpecHash[:12], now.SpecHash[:12])
	case stored.Preset != now.Preset:
		return differ("preset", stored.Preset, now.Preset)
	case string(stored.Config) != string(now.Config):
		return differ("the configuration", string(stored.Config), string(now.Config))
	case stored.From != now.From:
		return differ("the weights of", cmp.Or(stored.From, "chance"), cmp.Or(now.From, "chance"))
	case stored.Seed != now.Seed:
		return differ("seed", stored.Seed, now.Seed)
	case stored.OwnEpisodes != now.OwnEpisodes:
		return fmt.Errorf("cannot resume run %q: its networks began on the same episodes, as they did in earlier versions; now each has its own; without --resume it starts anew, and calibrate with --from train", r.options.name)
	}
	return nil
}

// explain says what an error of the run means to its user.
func (r *trainingRun) explain(err error) error {
	for _, m := range r.members {
		for _, e := range m.envs {
			if e.err != nil {
				return fmt.Errorf("cannot train on scenario %s: %w", r.scenario.Name, e.err)
			}
		}
	}
	return err
}

// finish stores the policy and says how to use it.
func (r *trainingRun) finish(ctx context.Context, stdout io.Writer) error {
	r.meta.Decisions, r.meta.Seen = r.decisions(), r.seen()
	network, err := r.network(ctx)
	if err != nil {
		return err
	}
	if r.meta.Evaluation, err = r.judge.Summary(ctx, network, policies.Trust(r.meta), !r.options.uncompared); err != nil {
		return err
	}
	c := &checkpoints.Checkpoint{Meta: r.meta, Network: network}
	var over []string
	if r.meta.Decisions >= r.config.Decisions {
		for _, m := range r.members {
			over = append(over, m.run)
		}
	}
	version, removed, err := r.store.Finish(r.options.name, r.options.name, c, time.Now(), over...)
	if err != nil {
		return err
	}
	data, err := checkpoints.Encode(c)
	if err != nil {
		return err
	}
	ref := checkpoints.Ref{Name: r.options.name, Version: version}
	fmt.Fprintf(stdout, "stored policy %s in %s after %d decisions (sha256 %s)\n", ref, r.store.Path, r.meta.Decisions, checkpoints.Digest(data))
	policies.TellRemoved(stdout, ref.Name, removed, policies.TooOld)
	fmt.Fprintf(stdout, "compare it:  gearshift eval --scenario %s --store %s --policy %s --policy threshold --policy slackfit --workload u1\n", r.options.scenario, r.store.Path, ref)
	fmt.Fprintf(stdout, "serve it:    gearshift serve --scenario %s --store %s --policy %s\n", r.options.scenario, r.store.Path, ref)
	return nil
}
