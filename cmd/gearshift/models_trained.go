//go:build !serveonly

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gearshift/internal/training/families"
	"gearshift/serving/backend/models"
)

// trainedFamily is a family whose models are trained.
type trainedFamily struct {
	sizes   []models.Size
	samples string // what they are of
	write   func(families.Samples) error
	make    func(context.Context, families.MakeOptions) (*families.Made, error)
}

var trainedFamilies = map[string]trainedFamily{
	"digits":   {families.DigitsSizes(), "held-out digits", families.Samples.WriteDigits, families.MakeDigits},
	"boxes":    {families.BoxesSizes(), "held-out frames", families.Samples.WriteBoxes, families.MakeBoxes},
	"subjects": {families.SubjectsSizes(), "questions to fit by, and as many held out", families.Samples.WriteSubjects, families.MakeSubjects},
}

// makeTrained trains a model of each size, and writes samples.
func makeTrained(ctx context.Context, o makeOptions, stdout, stderr io.Writer) error {
	family := trainedFamilies[o.family]
	if o.out == "" && o.trained.samples == "" {
		return errors.New("no folder to write into; want --out DIR for the model, --samples DIR for what to send, or both")
	}
	sizes, err := o.parseSizes(family.sizes)
	if err != nil {
		return err
	}
	if o.trained.samples != "" {
		s := families.Samples{Dir: o.trained.samples, Count: o.trained.count, Seed: o.seed, Force: o.force}
		if err := family.write(s); err != nil {
			return fmt.Errorf("cannot write samples: %w", err)
		}
		fmt.Fprintf(stdout, "%s: %d %s\n", s.Dir, s.Count, family.samples)
	}
	if o.out == "" {
		return nil
	}
	for _, size := range sizes {
		made, err := family.make(ctx, families.MakeOptions{
			Dir: o.out, Size: size, Seed: o.seed, Steps: o.trained.steps, Force: o.force,
			Progress: func(line string) { fmt.Fprintf(stderr, "%s: %s\n", size.Name, line) },
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: %.1f million parameters, trained in %v\n%s", made.Folder, float64(made.Parameters)/1e6, made.Training.Round(time.Second), made.Quality.Lines())
	}
	return nil
}
