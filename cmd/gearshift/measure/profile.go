package measure

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/profiling"
	"gearshift/env/fit"
)

// NewProfileCommand returns the commands that measure engines and fit latency models.
func NewProfileCommand() *cobra.Command {
	return cli.Group("profile", "Measure engines, and fit latency models to what was measured", newProfileMeasureCommand(), newProfileGPUCommand(), newProfileFitCommand())
}

func newProfileFitCommand() *cobra.Command {
	var o logOptions
	var out string
	c := &cobra.Command{
		Use:   "fit --requests FILE",
		Short: "Fit a profile to a log of served requests",
		Long: `Fit the latency model to a log of served requests and print it as YAML: the parameters,
their 90 % intervals, and how far the model's predictions of the same requests lie
from what was measured. Its first entry is as a scenario has it under profiles. With
--out, write it to DIR/profile.yaml beside a report with plots of the residuals.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return fitProfile(o, out, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.flags(c, "required")
	c.Flags().StringVar(&out, "out", "", "write the profile and plots of the residuals into `DIR`")
	return c
}

func fitProfile(o logOptions, out string, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	log, err := o.read(0, stderr)
	if err != nil {
		return err
	}
	fitted, err := fit.Fit(log, len(log.Requests), o.fit)
	if err != nil {
		return err
	}
	warn(fitted, stderr)
	m := profiling.OfLog(fitted, o.words)
	text, err := m.Text()
	if err != nil {
		return err
	}
	if out == "" {
		_, err := stdout.Write(text)
		return err
	}
	if err := profiling.WriteResiduals(log, fitted, out); err != nil {
		return err
	}
	path := filepath.Join(out, "profile.yaml")
	if err := output.Install(path, text, true); err != nil {
		return fmt.Errorf("cannot write the profile: %w", err)
	}
	_, err = fmt.Fprintln(stdout, path)
	return err
}

// count is a flag that counts something.
type count struct {
	flag  string
	value int64
}

// checkProfileFlags refuses a date that is none, and what is negative.
func checkProfileFlags(date string, counts []count) error {
	if date != "" {
		if _, err := time.Parse(time.DateOnly, date); err != nil {
			return fmt.Errorf("--date %q: want YYYY-MM-DD", date)
		}
	}
	for _, n := range counts {
		if n.value < 0 {
			return fmt.Errorf("--%s %d is negative", n.flag, n.value)
		}
	}
	return nil
}
