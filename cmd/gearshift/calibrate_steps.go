//go:build !serveonly

package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/adapt"
	"gearshift/cmd/gearshift/machine"
	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/cmd/gearshift/training"
	"gearshift/cmd/gearshift/validation"
	"gearshift/serving/measure"
	"gearshift/serving/replay"
)

const (
	storeName  = "policies.db"
	calibrated = "calibrated" // the policy's name
)

// measurable says whether each variant can be asked for by itself: at a server of
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

// keyEnv is the environment variable with the upstreams' key; empty if they take none.
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
		files = append(files, profileFile(v.Name))
	}
	return files
}

// measureAll measures each variant beside the others of its host. One that is
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
			"--time", c.measure.String(), "--out", out, "--log", c.at("requests-" + v.Name + ".jsonl"), "--report", c.at("report-" + v.Name),
			"--batches", list(c.batches), "--prompts", list(c.prompts),
		}
		if key != "" {
			args = append(args, "--api-key-env", key)
		}
		for _, r := range beside {
			args = append(args, "--neighbour", server(r))
		}
		if len(beside) == 0 {
			fmt.Fprintf(c.stdout, "  %s stands beside no other variant: its contention is not measured, and 0\n", v.Name)
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

// servers is where each replica answers, as URL=MODEL: its upstream, or a router that
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
	text, err := adapt.Patient(c.at(file))
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
	text, err := adapt.Profiles(c.at("input.yaml"), files)
	if err != nil {
		return err
	}
	return output.Install(c.at("measured.yaml"), text, true)
}

// train trains, and goes on with a run that was interrupted. A store alone is no run:
// one that was killed early may have left the progress of a further network in it.
func (c *calibration) train(ctx context.Context) error {
	args := []string{"train", "--scenario", c.at("scenario.yaml"), "--store", c.at(storeName), "--name", calibrated, "--preset", c.preset, "--seed", fmt.Sprint(c.seed)}
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

// alternatives are the policies that the trained one is held against.
func (c *calibration) alternatives() []string {
	if len(c.policies) > 0 {
		return c.policies
	}
	var refs []string
	for _, v := range c.scenario.Variants {
		refs = append(refs, "static:"+v.Name)
	}
	return append(refs, c.rules()...)
}

func (c *calibration) evaluate(ctx context.Context) error {
	args := []string{"eval", "--scenario", c.at("scenario.yaml"), "--store", c.at(storeName), "--out", c.dir, "--workload", c.workload, "--seeds", fmt.Sprint(c.seeds), "--policy", calibrated}
	if c.requests > 0 {
		args = append(args, "--requests", fmt.Sprint(c.requests))
	}
	for _, ref := range c.alternatives() {
		args = append(args, "--policy", ref)
	}
	return c.command(ctx, c.stdout, args...)
}

// turn is one replay.
type turn struct {
	Policy     string        `json:"policy"`
	Repetition int           `json:"repetition"`
	Workload   string        `json:"workload"`
	Seed       uint64        `json:"seed"` // of the first repetition
	Time       string        `json:"time"`
	Stolen     float64       `json:"stolen,omitempty"` // share of the processors' time that their host gave to others
	Report     replay.Report `json:"report"`
}

// as says whether two turns are of the same policy and requests. Others, taken before
// an interruption with other flags, have no place in one table.
func (t *turn) as(o *turn) bool {
	return t.Policy == o.Policy && t.Workload == o.Workload && t.Seed == o.Seed && t.Time == o.Time
}

// turnFiles are what the replays leave, one each, and last what they come to.
func (c *calibration) turnFiles() []string {
	var files []string
	policies := c.compared()
	for repetition := range c.repetitions {
		for i := range policies {
			files = append(files, turnFile(repetition, i))
		}
	}
	return append(files, "replay.json")
}

func turnFile(repetition, policy int) string {
	return fmt.Sprintf("turn-%d-%d.json", repetition+1, policy+1)
}

// compared are the policies that are replayed: the trained one first.
func (c *calibration) compared() []string { return append([]string{calibrated}, c.alternatives()...) }

// replayAll serves each policy in turn and replays the same workload to it, another
// one in each repetition. A turn that was taken already stays.
func (c *calibration) replayAll(ctx context.Context) error {
	var turns []turn
	policies := c.compared()
	for repetition := range c.repetitions {
		trace := c.at(fmt.Sprintf("workload-%d.jsonl", repetition+1))
		if err := c.generate(ctx, trace, c.seed+uint64(repetition)); err != nil {
			return err
		}
		for i, ref := range policies {
			t, err := c.turn(ctx, c.at(turnFile(repetition, i)), turn{Policy: ref, Repetition: repetition + 1, Workload: c.workload, Seed: c.seed, Time: c.replay.String()}, trace)
			if err != nil {
				return fmt.Errorf("%s: %w", ref, err)
			}
			turns = append(turns, t)
		}
	}
	c.summarise(policies, turns)
	return writeJSON(c.at("replay.json"), turns)
}

func (c *calibration) generate(ctx context.Context, trace string, seed uint64) error {
	const plenty = 100_000 // requests, of which a turn takes those of its time
	var quiet bytes.Buffer
	return c.command(ctx, &quiet, "workload", "gen", c.workload, "--scenario", c.at("scenario.yaml"), "--requests", fmt.Sprint(plenty), "--seed", fmt.Sprint(seed), "--out", trace)
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return output.Install(path, append(text, '\n'), true)
}

// turn takes a turn, or reads what it came to when it was taken before.
func (c *calibration) turn(ctx context.Context, path string, t turn, trace string) (turn, error) {
	if text, err := os.ReadFile(path); err == nil {
		var old turn
		if json.Unmarshal(text, &old) == nil && old.as(&t) {
			return old, nil
		}
	}
	url, stop, err := c.serveWith(ctx, c.at("scenario.yaml"), t.Policy)
	if err != nil {
		return t, err
	}
	defer stop()
	var out bytes.Buffer
	processors := machine.Processors(validation.Upstreams(c.scenario)...)
	before := processors()
	err = c.command(ctx, &out, "replay", "--url", url, "--scenario", c.at("scenario.yaml"), "--trace", trace, "--lengths", "--duration", c.replay.String(), "--format", "json")
	if err == nil {
		err = json.Unmarshal(out.Bytes(), &t.Report)
	}
	if err != nil {
		return t, err
	}
	t.Stolen = processors().StolenSince(before)
	return t, writeJSON(path, t)
}

// summarise prints means over all requests, the utility of each repetition, and by
// how much the trained policy is ahead in each.
func (c *calibration) summarise(policies []string, turns []turn) {
	t := tabwriter.NewWriter(c.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "  policy\tutility\tin time\tcompleted\tutility of each repetition\tbehind the trained policy by")
	for i, ref := range policies {
		var utility, met, requests, completed float64
		var each, behind []string
		for k := i; k < len(turns); k += len(policies) {
			r := &turns[k].Report
			n := float64(r.Requests)
			utility, met, requests, completed = utility+n*r.Utility, met+n*r.DeadlineMet, requests+n, completed+float64(r.Completed)
			each = append(each, fmt.Sprintf("%.3f", r.Utility))
			behind = append(behind, fmt.Sprintf("%+.3f", turns[k-i].Report.Utility-r.Utility))
		}
		requests = max(1, requests)
		fmt.Fprintf(t, "  %s\t%.3f\t%.1f %%\t%.1f %%\t%s\t%s\n", ref, utility/requests, 100*met/requests, 100*completed/requests, strings.Join(each, " "), strings.Join(behind, " "))
	}
	_ = t.Flush()
	for _, t := range turns {
		if t.Stolen > measure.MostStolen {
			fmt.Fprintf(c.stdout, "  %s in repetition %d is doubtful: %s\n", t.Policy, t.Repetition, machine.StolenWords(t.Stolen))
		}
	}
}
