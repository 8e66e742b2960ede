package calibrate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/calibrate/draft"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/calibrate/validation"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training"
)

const (
	storeName  = "policies.db"
	calibrated = "calibrated" // the policy's name
)

// measurable reports whether each variant can be asked for by itself: at a server of
// its own, or through a router that has no choice among replicas.
func (c *calibration) measurable() error {
	s := c.scenario
	for _, m := range s.Models {
		if len(m.Hosts) > 0 {
			return fmt.Errorf("scenario %s has a profile of %s for some hosts; calibrate measures each variant once, for all: leave one profile of each without hosts", s.Name, m.Variant)
		}
	}
	if server := s.Serving.Config(); server.KeysFile != "" || server.TLS.Cert != "" {
		return fmt.Errorf("scenario %s has serving.keys_file or serving.tls, which the routers that calibrate starts, and asks, do without; leave them out meanwhile", s.Name)
	}
	if s.Serving.Backend == scenario.Upstream {
		_, err := c.keyEnv()
		return err
	}
	if t := s.Table(); len(t.Hosts) > 1 {
		return fmt.Errorf("scenario %s has %d hosts; without serving.upstreams only one that has a single host can be measured", s.Name, len(t.Hosts))
	}
	return nil
}

// keyEnv returns the environment variable with the upstreams' key; empty if they take none.
func (c *calibration) keyEnv() (name string, err error) {
	for i, r := range c.scenario.Table().Replicas {
		switch key := c.scenario.Serving.Upstreams[r.Name].Key; {
		case i == 0:
			name = key
		case key != name:
			return "", fmt.Errorf("scenario %s has upstreams with different api_key_env; those that are measured together take the same", c.scenario.Name)
		}
	}
	return name, nil
}

func (c *calibration) profileFiles() []string {
	var files []string
	for _, v := range c.scenario.Variants {
		files = append(files, profiling.FileOf(v.Name))
	}
	return files
}

// measureAll measures each variant next to the others of its host. One that is
// measured already stays.
func (c *calibration) measureAll(ctx context.Context) error {
	server, stop, err := c.servers(ctx)
	if err != nil {
		return err
	}
	defer stop()
	key, err := c.keyEnv()
	if err != nil {
		return err
	}
	for i, v := range c.scenario.Variants {
		out := c.at(c.profileFiles()[i])
		if _, err := os.Stat(out); err == nil {
			continue
		}
		own, beside := validation.MeasuredAt(c.scenario.Table(), i)
		url, model, _ := strings.Cut(server(own), "=")
		args := []string{
			"profile", "measure", "--url", url, "--model", model, "--variant", v.Name, "--scenario", c.at("input.yaml"),
			"--time", c.Measure.String(), "--out", out, "--log", c.at("requests-" + v.Name + ".jsonl"), "--report", c.at("report-" + v.Name),
			"--batches", list(c.Batches), "--prompts", list(c.Prompts),
		}
		if key != "" {
			args = append(args, "--api-key-env", key)
		}
		for _, r := range beside {
			args = append(args, "--neighbour", server(r))
		}
		if len(beside) == 0 {
			fmt.Fprintf(c.stdout, "  %s shares its host with no other variant: its contention is not measured, and 0\n", v.Name)
		}
		if err := c.command(ctx, c.stdout, args...); err != nil {
			return err
		}
	}
	return nil
}

func list(numbers []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}

// servers returns where each replica answers, as URL=MODEL: its upstream, or a router that
// is started for the purpose.
func (c *calibration) servers(ctx context.Context) (of func(replica int) string, stop func(), err error) {
	s := c.scenario
	t := s.Table()
	name := func(replica int) string { return s.Variants[t.Replicas[replica].Variant].Name }
	if s.Serving.Backend == scenario.Upstream {
		return func(replica int) string {
			at := s.Serving.Upstreams[t.Replicas[replica].Name]
			return strings.TrimSuffix(at.URL, "/") + "=" + cmp.Or(at.Model, name(replica))
		}, func() {}, nil
	}
	url, stop, err := c.servePatiently(ctx, "input.yaml", "static:"+s.Variants[0].Name)
	return func(replica int) string { return url + "=" + name(replica) }, stop, err
}

// servePatiently starts a router that neither refuses a request nor lets it wait,
// however late it would be: the simulator does not, and a measurement must not.
func (c *calibration) servePatiently(ctx context.Context, file, policy string) (string, func(), error) {
	text, err := draft.WithPatience(c.at(file))
	if err != nil {
		return "", nil, err
	}
	patient := c.at("patient-" + file)
	if err := output.Install(patient, text, true); err != nil {
		return "", nil, err
	}
	return c.serveWith(ctx, patient, policy)
}

func (c *calibration) joinProfiles(context.Context) error {
	var files []string
	for _, name := range c.profileFiles() {
		files = append(files, c.at(name))
	}
	text, err := draft.WithProfiles(c.at("input.yaml"), files)
	if err != nil {
		return err
	}
	return output.Install(c.at("measured.yaml"), text, true)
}

// train trains, and goes on with a run that was interrupted. A store alone is no run:
// one that was killed early may have left the progress of a further network in it.
func (c *calibration) train(ctx context.Context) error {
	args := []string{"train", "--scenario", c.at("scenario.yaml"), "--store", c.at(storeName), "--name", calibrated, "--preset", c.Preset, "--seed", fmt.Sprint(c.Seed)}
	switch _, err := (&checkpoints.Store{Path: c.at(storeName)}).GetTraining(calibrated); {
	case err == nil:
		args = append(args, "--resume")
	case !errors.Is(err, checkpoints.ErrNotFound):
		return err
	}
	var said bytes.Buffer
	if err := c.command(ctx, &said, args...); err != nil {
		return err
	}
	return output.Install(c.at("train.txt"), said.Bytes(), true)
}

// forgetPolicy removes what the walk has trained from the store, where others may keep
// their policies: the training first, since without its policy it could not go on.
func (c *calibration) forgetPolicy() error {
	store := &checkpoints.Store{Path: c.at(storeName)}
	err := store.Forget(func(name string) bool { return training.IsRunOf(name, calibrated) })
	if err == nil {
		_, err = store.Remove(checkpoints.Ref{Name: calibrated}, true)
	}
	if errors.Is(err, checkpoints.ErrNotFound) { // no store yet, or no policy
		return nil
	}
	return err
}

// alternatives returns the policies that the trained one is held against.
func (c *calibration) alternatives() []string {
	if len(c.Policies) > 0 {
		return c.Policies
	}
	var refs []string
	for _, v := range c.scenario.Variants {
		refs = append(refs, "static:"+v.Name)
	}
	return append(refs, c.rules()...)
}

func (c *calibration) evaluate(ctx context.Context) error {
	args := []string{"eval", "--scenario", c.at("scenario.yaml"), "--store", c.at(storeName), "--out", c.Dir, "--workload", c.Workload, "--seeds", fmt.Sprint(c.Seeds), "--policy", calibrated}
	if c.Requests > 0 {
		args = append(args, "--requests", fmt.Sprint(c.Requests))
	}
	for _, ref := range c.alternatives() {
		args = append(args, "--policy", ref)
	}
	return c.command(ctx, c.stdout, args...)
}

// tuneSeeds are the runs of a point of the search: with few of a workload as unsteady
// as u1, luck chooses the rule.
const tuneSeeds = 16

// tuneRules searches for the best parameters of each rule on the measured profiles,
// and has the scenario name what it found: those are the rules to beat, and the
// best of them is what a policy that takes advice departs from. They are for mean utility, as
// evaluation.rules are, whatever the scenario's training.objective.
func (c *calibration) tuneRules(ctx context.Context) error {
	measured, tuned := c.at("measured.yaml"), c.at("scenario.yaml")
	if c.Trials == 0 {
		text, err := os.ReadFile(measured)
		if err != nil {
			return err
		}
		return output.Install(tuned, text, true)
	}
	args := []string{"eval", "--tune", "--tune-for", "utility", "--tune-trials", fmt.Sprint(c.Trials), "--tune-seeds", fmt.Sprint(tuneSeeds), "--scenario", measured, "--workload", c.Workload, "--seeds", "1", "--out", c.at("tune")}
	if c.Requests > 0 {
		args = append(args, "--requests", fmt.Sprint(c.Requests))
	}
	if err := c.command(ctx, c.stdout, args...); err != nil {
		return err
	}
	var found evaluation.TuningReport
	text, err := os.ReadFile(c.at("tune/tune.json"))
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err == nil {
		text, err = draft.WithRules(measured, found.Best)
	}
	if err != nil {
		return err
	}
	return output.Install(tuned, text, true)
}

// rules returns those that the scenario names, once they are tuned.
func (c *calibration) rules() []string {
	s := c.scenario
	if tuned, err := scenario.Load(c.at("scenario.yaml")); err == nil {
		s = tuned
	}
	if len(s.Evaluation.Rules) == 0 {
		return []string{"threshold", "slackfit"}
	}
	return s.Evaluation.Rules
}

// validateEngines holds the simulator against the engines that were just measured:
// who sees here that it is far off need not wait for the training. Turns measure them
// again, next to each load; then their profiles are the walk's.
func (c *calibration) validateEngines(ctx context.Context) error {
	args := []string{"--scenario", c.at("measured.yaml"), "--what", validation.Alone + "," + validation.CoResident}
	if c.scenario.Serving.Backend != scenario.Upstream {
		url, stop, err := c.servePatiently(ctx, "measured.yaml", "static:"+c.scenario.Variants[0].Name)
		if err != nil {
			return err
		}
		defer stop()
		args = append(args, "--upstreams", url)
	}
	if c.Turns > 0 {
		args = append(args, "--turns", fmt.Sprint(c.Turns), "--batches", list(c.Batches), "--prompts", list(c.Prompts), "--out", c.Dir)
	}
	report, err := c.validated(ctx, args...)
	if err != nil {
		return err
	}
	return c.keepValidation(ctx, report)
}

// keepValidation ends the step. What was measured by turns is in the place of the
// profiles before by then, and goes into the scenario that the next steps use.
func (c *calibration) keepValidation(ctx context.Context, report []byte) error {
	if c.Turns > 0 {
		if err := c.joinProfiles(ctx); err != nil {
			return err
		}
	}
	return output.Install(c.at("validate.json"), report, true)
}

// validatePolicy holds the simulator against the trained policy in the router.
func (c *calibration) validatePolicy(ctx context.Context) error {
	url, stop, err := c.servePatiently(ctx, "scenario.yaml", calibrated)
	if err != nil {
		return err
	}
	defer stop()
	report, err := c.validated(ctx, "--scenario", c.at("scenario.yaml"), "--what", validation.Policy, "--url", url, "--store", c.at(storeName))
	if err != nil {
		return err
	}
	return output.Install(c.at("validate-policy.json"), report, true)
}

// validated runs validate and prints its report, which it returns as JSON.
func (c *calibration) validated(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	args = append([]string{"validate"}, args...)
	args = append(args, "--time", c.Validate.String(), "--tries", fmt.Sprint(c.Tries), "--stretch", "--format", "json")
	if err := c.command(ctx, &out, args...); err != nil {
		return nil, err
	}
	var report validation.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return nil, err
	}
	return out.Bytes(), report.Table(c.stdout)
}
