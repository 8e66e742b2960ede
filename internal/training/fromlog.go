package training

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"gearshift/checkpoints"
	"gearshift/env"
	"gearshift/env/evaluation/logged"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/rl"
	"gearshift/router/nn"
	"gearshift/serving/experience"
	"gearshift/workloads"
)

// How a policy is fine-tuned on a log; decision 28 says why so.
const (
	logPasses      = 10  // over the log, unless steps are given
	logExploration = 0.1 // share of the simulated decisions that is random
	logHeldOut     = 0.2 // share of the log, its end, that is only compared on
)

// logRun is a training run on a log.
type logRun struct {
	*run
	start   *checkpoints.Checkpoint // the policy to fine-tune
	ref     string                  // and its reference
	read    *experience.Log
	train   *experience.Log // the rows to learn from
	held    *experience.Log // the rows to compare on
	traced  bool            // the log's arrivals can be simulated
	steps   int             // gradient steps
	explore int             // simulated decisions
	fleet   env.Config      // simulated, as slow as the log says
	factors []float64       // and by how much, by variant; nil if the log cannot say
}

// FromLog fine-tunes a stored policy on logged requests and stores it as a new
// version. presetGiven says that the preset is the user's, not a default.
func FromLog(ctx context.Context, o Options, presetGiven bool, stdout, stderr io.Writer) error {
	r, err := newLogRun(o, presetGiven)
	if err != nil {
		return err
	}
	if err := r.store.Writable(); err != nil {
		return err
	}
	for _, note := range policies.LogRemarks(r.scenario, r.read) {
		fmt.Fprintln(stderr, "note:", note)
	}
	if err := r.calibrate(ctx); err != nil {
		return err
	}
	results, err := r.learn(ctx, stderr)
	if err != nil {
		return err
	}
	r.tellOfJudging(stderr)
	return r.finish(ctx, results, stdout)
}

func newLogRun(o Options, presetGiven bool) (*logRun, error) {
	s, err := scenario.Load(o.Scenario)
	if err != nil {
		return nil, err
	}
	ref, err := policies.StoredRef(o.From)
	if err != nil {
		return nil, fmt.Errorf("--from %q: %w", o.From, err)
	}
	start, entry, err := (&checkpoints.Store{Path: o.Store}).Get(ref)
	if err != nil {
		return nil, fmt.Errorf("--from %q: %w", o.From, err)
	}
	if err := o.keepObjective(entry.Ref().String(), start.Meta); err != nil {
		return nil, err
	}
	if o.Name == "" {
		o.Name = entry.Ref().Name
	}
	if _, ok := s.Training.Presets[start.Meta.Preset]; ok && !presetGiven {
		o.Preset = start.Meta.Preset
	}
	if o.Steps < 0 {
		return nil, fmt.Errorf("--steps %d is negative", o.Steps)
	}
	r := &logRun{start: start, ref: entry.Ref().String(), steps: o.Steps}
	o.Steps = 0 // which are decisions to the run
	if r.run, err = newRunOn(o, s); err != nil {
		return nil, err
	}
	if r.config.DifferenceRewards {
		return nil, fmt.Errorf("--from %q: preset %s has difference_rewards, and no log has what would have been without a request; train on the log's arrivals, without --from", o.From, r.meta.Preset)
	}
	if r.read, err = policies.ReadLogs(s, o.FromLog); err != nil {
		return nil, err
	}
	r.train, r.held = split(r.read, logHeldOut)
	summary := logged.Summarise(policies.LoggedDecisions(r.train), s.Table().Variants)
	if r.traced = policies.NotReplayable(&summary) == ""; r.traced {
		r.meta.OwnEpisodes = false // all networks replay the log from the same requests on
	}
	return r, r.size()
}

// calibrate makes the simulated engines as slow as those that wrote the log.
func (r *logRun) calibrate(ctx context.Context) (err error) {
	if r.fleet, err = r.scenario.WithoutPrompts().Simulation(); err != nil || !r.traced {
		return err
	}
	j, err := policies.NewLogJudge(r.scenario, policies.LoggedDecisions(r.train))
	if err != nil {
		return err
	}
	if r.factors, err = j.Replayer.Calibrate(ctx); err != nil {
		return err
	}
	r.fleet.Steady() // the factors are of the log
	r.fleet.SlowVariants(r.factors)
	return nil
}

// size says how much there is to learn from, and so how long to learn.
func (r *logRun) size() error {
	recording, err := NewLogRecording(r.scenario, r.meta.Spec, r.train)
	if err != nil {
		return err
	}
	n := min(recording.Transitions(), r.config.Replay)
	if n == 0 {
		return fmt.Errorf("%d requests of the log to learn from: %w; log with sample: 1, or more of them", r.train.Len(), rl.ErrNothingRecorded)
	}
	r.explore = n
	if half := max(1, r.config.Batch/2); r.steps == 0 {
		r.steps = (logPasses*n + half - 1) / half
	}
	return nil
}

// split cuts off the last share of the rows.
func split(log *experience.Log, share float64) (first, last *experience.Log) {
	first, last = new(experience.Log), new(experience.Log)
	left := log.Len() - int(share*float64(log.Len()))
	for _, run := range log.Runs {
		n := min(left, len(run.Rows))
		left -= n
		if n > 0 {
			first.Runs = append(first.Runs, experience.Run{Header: run.Header, Rows: run.Rows[:n]})
		}
		if n < len(run.Rows) {
			last.Runs = append(last.Runs, experience.Run{Header: run.Header, Rows: run.Rows[n:]})
		}
	}
	return first, last
}

// learn trains the members, each on the same log and in a simulation of its own.
func (r *logRun) learn(ctx context.Context, stderr io.Writer) ([]rl.OfflineResult, error) {
	load := "under the scenario's training load, as the log lacks requests"
	if r.traced {
		load = "on the log's arrivals with engines that take " + r.slowness() + " as long as the scenario says"
	}
	fmt.Fprintf(stderr, "fine-tuning %s on %d of %d logged requests, and on %d decisions simulated %s: %d gradient steps of each of %d networks%s (%s)\n",
		r.ref, r.train.Len(), r.read.Len(), r.explore, load, r.steps, len(r.members), r.goal(), Stack)
	results := make([]rl.OfflineResult, len(r.members))
	group, ctx := errgroup.WithContext(ctx)
	for i, m := range r.members {
		group.Go(func() (err error) {
			results[i], err = r.learnMember(ctx, m)
			return err
		})
	}
	return results, group.Wait()
}

// slowness lists the factors of the variants.
func (r *logRun) slowness() string {
	var list []string
	for v, f := range r.factors {
		list = append(list, fmt.Sprintf("×%.2f (%s)", f, r.scenario.Variants[v].Name))
	}
	return strings.Join(list, ", ")
}

func (r *logRun) learnMember(ctx context.Context, m *member) (rl.OfflineResult, error) {
	learner, rows, err := r.newLearner(m.seed)
	if err != nil {
		return rl.OfflineResult{}, err
	}
	if err := learner.StartFrom(m.from); err != nil {
		return rl.OfflineResult{}, fmt.Errorf("--from %q: %w", r.options.From, err)
	}
	recording, err := NewLogRecording(r.scenario, r.meta.Spec, r.train)
	if err != nil {
		return rl.OfflineResult{}, err
	}
	simulated, seed, err := r.simulated(m)
	if err != nil {
		return rl.OfflineResult{}, err
	}
	result, err := rl.LearnOffline(ctx, rl.Offline{
		Config: r.config, Seed: m.seed, Learner: learner, Rows: rows, Recording: recording,
		Simulated: simulated, EpisodeSeed: seed, Decisions: r.explore, Epsilon: logExploration, Steps: r.steps,
	})
	if simulated.Err() != nil {
		err = fmt.Errorf("cannot train on scenario %s: %w", r.scenario.Name, simulated.Err())
	}
	return result, err
}

// simulated returns the environment that a member explores, and the seeds of its episodes:
// that of the log's arrivals, or the one of training.
func (r *logRun) simulated(m *member) (*Environment, func(uint64) uint64, error) {
	const episodes = 1<<24 - 1
	if !r.traced {
		own := r.config
		own.MarginalRewards = false // no log has what would have been
		e, err := NewEnvironment(r.scenario, r.meta.Spec, &own)
		return e, func(n uint64) uint64 { return m.episodeSeed(r.options.Seed, n) }, err
	}
	log := policies.LoggedDecisions(r.train)
	fits := r.scenario.SmallestCache()
	config := r.fleet
	config.Limit = r.config.Episode
	config.Open = func(seed uint64) (workloads.Stream, error) {
		return log.Endless(int(seed&episodes)*r.config.Episode, fits, seed), nil
	}
	e, err := NewEnvironmentOn(r.scenario, r.meta.Spec, config, 0)
	return e, func(n uint64) uint64 { return m.seed<<24 | n&episodes }, err
}

// finish compares the policy with the one that it began with, stores it, and says
// whether it is better.
func (r *logRun) finish(ctx context.Context, results []rl.OfflineResult, stdout io.Writer) error {
	for i, m := range r.members {
		m.result = rl.Result{Network: results[i].Network}
	}
	// The margin is chosen, and the policy compared, in the world that the log shows;
	// what the checkpoint says compared with the rules is of the scenario, as for any other.
	world := r.judge
	r.judge = world.On(r.fleet)
	// Beyond what training has seen the rule stands in, and a log shows too little of
	// what lies there: the range stays.
	r.meta.Seen = r.start.Meta.Seen
	network, err := r.network(ctx)
	if err != nil {
		return err
	}
	r.meta.Decisions = results[0].Recorded + results[0].Explored
	t, err := r.compare(ctx, network)
	if err != nil {
		return err
	}
	r.judge = world
	r.meta.Log = &checkpoints.Log{
		SHA256: r.read.Hash, Requests: r.read.Len(), Recorded: results[0].Recorded, Explored: results[0].Explored, Steps: r.steps,
	}
	for _, f := range r.read.Files {
		r.meta.Log.Files = append(r.meta.Log.Files, filepath.Base(f))
	}
	if r.meta.Log.Outcome, err = json.Marshal(t); err != nil {
		return err
	}
	c, err := r.judged(ctx, network)
	if err != nil {
		return err
	}
	version, removed, err := r.store.Put(r.options.Name, c, time.Now())
	if err != nil {
		return err
	}
	data, err := checkpoints.Encode(c)
	if err != nil {
		return err
	}
	ref := checkpoints.Ref{Name: r.options.Name, Version: version}
	fmt.Fprintf(stdout, "learnt from %d logged and %d simulated transitions\n", results[0].Recorded, results[0].Explored)
	t.write(stdout)
	fmt.Fprintf(stdout, "stored policy %s in %s (sha256 %s)\n", ref, r.store.Path, checkpoints.Digest(data))
	policies.TellRemoved(stdout, ref.Name, removed, policies.TooOld)
	fmt.Fprintf(stdout, "compare it:  gearshift eval --scenario %s --store %s --policy %s --policy %s --from-log %s\n",
		r.options.Scenario, r.store.Path, ref, r.ref, strings.Join(r.read.Files, " "))
	if t.worse() {
		fmt.Fprintf(stdout, "remove it:   gearshift policy rm %s --store %s   (until then it is the newest of %s)\n", ref, r.store.Path, ref.Name)
	}
	r.conclude(stdout, ref)
	return nil
}

// compare plays the policy and the one that it began with.
func (r *logRun) compare(ctx context.Context, network *nn.MLP) (t Outcome, err error) {
	t.From, t.Objective = r.ref, r.meta.Objective
	for v, f := range r.factors {
		if t.Slowness == nil {
			t.Slowness = map[string]float64{}
		}
		t.Slowness[r.scenario.Variants[v].Name] = f
	}
	if t.Before, err = r.judge.Score(ctx, r.start.Network, policies.Trust(r.start.Meta)); err != nil {
		return t, err
	}
	if t.After, err = r.judge.Score(ctx, network, policies.Trust(r.meta)); err != nil {
		return t, err
	}
	if !r.traced || r.held.Len() == 0 {
		return t, nil
	}
	j, err := policies.NewLogJudge(r.scenario, policies.LoggedDecisions(r.held))
	if err != nil {
		return t, err
	}
	now, err := r.judge.Policy("now", network, policies.Trust(r.meta))
	if err != nil {
		return t, err
	}
	before, err := r.judge.Policy("before", r.start.Network, policies.Trust(r.start.Meta))
	if err != nil {
		return t, err
	}
	j.Replayer.Fleet = r.fleet
	over, err := j.Replayer.Versus(ctx, now, before)
	t.HeldOut, t.Requests = &over, r.held.Len()
	return t, err
}
