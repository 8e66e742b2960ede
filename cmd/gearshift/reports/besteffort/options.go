package besteffort

import (
	"fmt"
	"slices"
	"strings"

	"gearshift/env/objective"
)

// Options are the flags of the command; what is zero has a default.
type Options struct {
	Scenario, Out, Preset string
	Seeds, TrainingSeeds  int
	Longer                int
	Quick, Ablations      bool
	// Only, if set, is the one section to make: see [sections].
	Only string
	// Trained are policies for the frontier that need not be trained, as OBJECTIVE=REF
	// into Store.
	Trained []string
	Store   string
	// Points is the file of a frontier that was played before, to be drawn again.
	Points string

	trained map[objective.Objective]string
}

func (o *Options) defaults() error {
	preset, seeds, training, longer := "default", 20, 5, 4
	if o.Quick {
		preset, seeds, training, longer = "quick", 3, 1, 1
	}
	if o.Preset == "" {
		o.Preset = preset
	}
	if o.Seeds == 0 {
		o.Seeds = seeds
	}
	if o.TrainingSeeds == 0 {
		o.TrainingSeeds = training
	}
	if o.Longer == 0 {
		o.Longer = longer
	}
	if o.Points != "" {
		o.Only = frontierName
	}
	if o.Only != "" && sectionNamed(o.Only) == nil {
		return fmt.Errorf("--only %q: the one section that can be made alone is %s", o.Only, onlyOnes(false))
	}
	if o.Seeds < 2 || o.TrainingSeeds < 1 || o.Longer < 1 {
		return fmt.Errorf("--seeds %d, --training-seeds %d and --longer %d: at least 2, 1 and 1 are needed", o.Seeds, o.TrainingSeeds, o.Longer)
	}
	return o.readTrained()
}

// readTrained reads which policies are given.
func (o *Options) readTrained() error {
	o.trained = map[objective.Objective]string{}
	for _, text := range o.Trained {
		name, ref, given := strings.Cut(text, "=")
		by, err := objective.Parse(name)
		switch {
		case !given || name == "" || ref == "":
			return fmt.Errorf("--trained %s: want an objective and a stored policy, such as near-peak=mine", text)
		case err != nil:
			return fmt.Errorf("--trained %s: %w", text, err)
		case !slices.Contains(frontierObjectives, by.String()):
			return fmt.Errorf("--trained %s: the frontier has no point %s; it has %s", text, by, strings.Join(frontierObjectives, ", "))
		}
		o.trained[by] = ref
	}
	return nil
}

// command is what makes the same report.
func (o *Options) command() string {
	c := fmt.Sprintf("gearshift paper --scenario %s --preset %s --seeds %d", o.Scenario, o.Preset, o.Seeds)
	if o.Only != "" {
		c += " --only " + o.Only
	} else {
		c += fmt.Sprintf(" --training-seeds %d --longer %d", o.TrainingSeeds, o.Longer)
	}
	if o.Quick {
		c += " --quick"
	}
	if o.Ablations {
		c += " --ablations"
	}
	for _, given := range o.Trained {
		c += " --trained " + given
	}
	if len(o.Trained) > 0 {
		c += " --store " + o.Store
	}
	return c + " --out DIR"
}
