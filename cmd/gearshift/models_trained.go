//go:build !serveonly

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gearshift/internal/training"
)

// makeDigits trains a model of digits of each size, and writes samples.
func makeDigits(ctx context.Context, o makeOptions, stdout, stderr io.Writer) error {
	switch {
	case o.out == "" && o.digits.samples == "":
		return errors.New("no folder to write into; want --out DIR for the model, --samples DIR for digits to send, or both")
	case o.digits.steps < 1:
		return fmt.Errorf("--steps %d: want 1 or more", o.digits.steps)
	}
	sizes, err := o.parseSizes(training.DigitsSizes())
	if err != nil {
		return err
	}
	if o.digits.samples != "" {
		s := training.DigitsSamples{Dir: o.digits.samples, Count: o.digits.count, Seed: o.seed, Force: o.force}
		if err := s.Write(); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: %d held-out digits\n", o.digits.samples, o.digits.count)
	}
	if o.out == "" {
		return nil
	}
	for _, size := range sizes {
		made, err := training.MakeDigits(ctx, training.DigitsOptions{
			Dir: o.out, Size: size, Seed: o.seed, Steps: o.digits.steps, Force: o.force,
			Progress: func(line string) { fmt.Fprintf(stderr, "%s: %s\n", size.Name, line) },
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(stdout, "%s: %.1f million parameters, trained in %v\n%s", made.Folder, float64(made.Parameters)/1e6, made.Training.Round(time.Second), made.Quality.Lines())
	}
	return nil
}
