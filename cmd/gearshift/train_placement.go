//go:build !serveonly

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training"
	"gearshift/internal/training/placements"
	"gearshift/internal/training/policies"
)

// trainPlacement trains a policy that decides which sizes are loaded, and stores it.
func trainPlacement(c *cobra.Command, o *training.Options) error {
	if err := cli.RefuseFlags(c.Flags(), "with --placement", "objective", "from", "from-log", "trace", "held-out", "drawn-lengths", "resume", "restart", "out"); err != nil {
		return err
	}
	if o.Name == "" {
		return errors.New("--name is missing: of the policy that decides which sizes are loaded")
	}
	if err := policies.CheckName(o.Name); err != nil {
		return err
	}
	episodes, ok := map[string]int{"quick": placements.Quick, "default": placements.Usual}[o.Preset]
	if !ok {
		return fmt.Errorf("--preset %s is unknown with --placement; want quick or default", o.Preset)
	}
	s, err := scenario.Load(o.Scenario)
	if err != nil {
		return err
	}
	if !s.Places() {
		return fmt.Errorf("--placement: nothing decides about layouts in %s; want serving.placement in it", s.Name)
	}
	if err := s.Unchanging(); err != nil {
		return fmt.Errorf("--placement: %s: %w", s.Name, err)
	}
	store := &checkpoints.Store{Path: o.Store}
	if err := store.Writable(); err != nil {
		return err
	}
	p := placements.Options{Scenario: s, Seed: o.Seed, Episodes: episodes, Report: output.Counting(c.ErrOrStderr(), "episodes")}
	if o.Steps > 0 {
		p.Episodes = o.Steps
	}
	network, err := placements.Train(c.Context(), p)
	if err != nil {
		return err
	}
	gains, err := placements.Compare(c.Context(), network, p)
	if err != nil {
		return err
	}
	ref, err := placements.Store(store, o.Name, network, p, gains, time.Now())
	if err != nil {
		return err
	}
	out := c.OutOrStdout()
	fmt.Fprintf(out, "stored policy %s in %s after %d episodes\n", ref, o.Store, p.Episodes)
	for _, g := range gains {
		fmt.Fprintf(out, "on held-out seeds a request gains %+.4f (%.4f to %.4f) over %s\n", g.By.Mean, g.By.Lo, g.By.Hi, g.Over)
	}
	fmt.Fprintf(out, "compare it:  gearshift eval --scenario %s --store %s --placement %s\n", o.Scenario, o.Store, ref)
	return nil
}
