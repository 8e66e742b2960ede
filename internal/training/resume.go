package training

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/rl"
)

// Ensure trains a policy on a scenario that need not be a file's, unless the store has one
// of the same ingredients; an interrupted run goes on. It returns a reference to the policy.
func Ensure(ctx context.Context, o Options, s *scenario.Scenario, stderr io.Writer) (ref string, err error) {
	r, err := newRunOn(o, s)
	if err != nil {
		return "", err
	}
	if _, entry, err := r.store.Get(checkpoints.Ref{Name: o.Name}); err == nil && sameTraining(entry.Meta, r.meta) {
		return entry.Ref().String(), nil
	}
	r.options.Resume = r.interrupted()
	r.options.Restart = !r.options.Resume
	fmt.Fprintf(stderr, "training %s (preset %s, seed %d)\n", o.Name, o.Preset, o.Seed)
	return o.Name, r.complete(ctx, io.Discard, stderr)
}

// interrupted reports whether a run of the name, of the same ingredients, waits to
// be continued.
func (r *run) interrupted() bool {
	stored, err := r.store.GetTraining(r.options.Name)
	if err != nil || stored.Policy.Name != "" {
		return false
	}
	var meta checkpoints.Meta
	return json.Unmarshal(stored.Meta, &meta) == nil && r.matches(meta) == nil
}

// sameTraining reports whether the stored policy is what the training would end with.
func sameTraining(a, b checkpoints.Meta) bool {
	if a.AdviceMargin > 0 && a.OwnEpisodes && a.Caution == 0 {
		return false // of an earlier version, of which several networks knew no caution
	}
	return a.Scenario == b.Scenario && a.ScenarioHash == b.ScenarioHash && a.SpecHash == b.SpecHash &&
		a.Preset == b.Preset && string(a.Config) == string(b.Config) && a.Seed == b.Seed && a.OwnEpisodes == b.OwnEpisodes && a.From == b.From &&
		a.Objective == b.Objective && reflect.DeepEqual(a.Traffic, b.Traffic)
}

// last returns the number of decisions that the run goes to.
func (r *run) last() int { return cmp.Or(r.options.Steps, r.config.Decisions) }

// beyond reports whether the progress is past what the run goes to, which several
// environments end by a whole round.
func (r *run) beyond(p *rl.Progress) bool {
	return p != nil && p.Decisions >= r.last()+max(1, r.config.Environments)
}

// begin decides where a member starts: at its stored progress, or at the beginning.
func (r *run) begin(m *member, stderr io.Writer) error {
	stored, err := r.store.GetTraining(m.run)
	switch {
	case errors.Is(err, checkpoints.ErrNotFound):
		if r.options.Resume && m.number == 0 {
			return fmt.Errorf("cannot resume: %w", err)
		}
		return nil
	case !r.options.Resume:
		return r.startOver(m, stored, err, stderr)
	case err != nil:
		return err
	}
	var meta checkpoints.Meta
	if err := json.Unmarshal(stored.Meta, &meta); err != nil {
		return fmt.Errorf("cannot resume run %q: %w", r.options.Name, err)
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
			return fmt.Errorf("cannot resume run %q: %w", r.options.Name, err)
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

// startOver begins a run that does not resume. If progress of one is saved, that needs
// --restart. Progress that cannot be read is no obstacle, unless the whole store cannot be
// read.
func (r *run) startOver(m *member, stored checkpoints.Training, err error, stderr io.Writer) error {
	if errors.Is(err, checkpoints.ErrCorrupted) {
		_, err = r.store.List()
		stored.Progress = nil
	}
	if err != nil || m.number > 0 || r.options.Restart {
		return err
	}
	progress := new(rl.Progress)
	switch {
	case progress.UnmarshalBinary(stored.Progress) == nil:
		return fmt.Errorf("run %q has progress saved in %s, of %d decisions: --resume continues it, --restart starts over", r.options.Name, r.store.Path, progress.Decisions)
	case stored.Policy.Name == "":
		fmt.Fprintf(stderr, "the progress saved of run %q cannot be read: it starts over\n", r.options.Name)
	}
	return nil
}

// end notes what a run with nothing left to do has stored. If that is there no more,
// it is stored again by what has progress.
func (r *run) end(policy checkpoints.Ref, again bool) error {
	entry, err := r.store.Lookup(policy)
	switch {
	case err == nil:
		r.ended = &entry
	case !again:
		return fmt.Errorf("run %q is finished, but %w; without --resume it starts from the beginning", r.options.Name, err)
	}
	return nil
}

// matches refuses to continue a run with other ingredients.
func (r *run) matches(stored checkpoints.Meta) error {
	differ := func(what string, was, is any) error {
		return fmt.Errorf("cannot resume run %q: it began with %s %v, now it is %v; train under another --name to start from the beginning", r.options.Name, what, was, is)
	}
	switch now := r.meta; {
	case stored.Scenario != now.Scenario:
		return differ("scenario", stored.Scenario, now.Scenario)
	case stored.Objective != now.Objective:
		was := objectiveOf(stored)
		return fmt.Errorf("cannot resume run %q: it began for %s, now it is for %s; give --objective %[2]s to continue it, or train under another --name", r.options.Name, was, objectiveOf(now))
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
	case !reflect.DeepEqual(stored.Traffic, now.Traffic):
		return differ("traffic", trafficOf(stored), trafficOf(now))
	case stored.Seed != now.Seed:
		return differ("seed", stored.Seed, now.Seed)
	case stored.OwnEpisodes != now.OwnEpisodes:
		return fmt.Errorf("cannot resume run %q: its networks began on the same episodes, as they did in earlier versions; now each has its own; without --resume it starts from the beginning, and calibrate with --from train", r.options.Name)
	}
	return nil
}

// trafficOf names the recorded requests of a run, with what sets them apart.
func trafficOf(m checkpoints.Meta) string {
	if m.Traffic == nil {
		return "drawn by training.load"
	}
	return fmt.Sprintf("%s (sha256 %.12s, %v held out)", m.Traffic.Name, m.Traffic.SHA256, m.Traffic.HeldOutShare)
}
