package measure

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/output"
)

// gpuOptions are the flags of profile gpu.
type gpuOptions struct {
	out, name string
	resamples int
	seed      uint64
}

func newProfileGPUCommand() *cobra.Command {
	var o gpuOptions
	c := &cobra.Command{
		Use:   "gpu TABLE",
		Short: "Fit profiles to a table that make gpu measured",
		Long: `Fit a profile of each model to the raw table that "make gpu" writes of an accelerator, and
print which law of contention its engines follow: none, 1 + γ·duty, or time slicing. With
--out, write into DIR a profile-MODEL.yaml for each model, a scenario.yaml of the device with
all of them, and what is printed as summary.md.`,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			return profileGPU(args[0], o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "write profiles, scenario and summary into `DIR`")
	f.StringVar(&o.name, "name", "gpu", "`NAME` of the scenario")
	f.IntVar(&o.resamples, "resamples", 100, "refits that the intervals come from; 0 for no intervals")
	f.Uint64Var(&o.seed, "seed", 0, "of the refits")
	return c
}

func profileGPU(path string, o gpuOptions, stdout, stderr io.Writer) error {
	if err := checkProfileFlags("", []count{{"resamples", int64(o.resamples)}}); err != nil {
		return err
	}
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the table: %w", err)
	}
	defer file.Close()
	table, err := profiling.ReadGPUTable(file, filepath.Base(path))
	if err != nil {
		return err
	}
	g, err := profiling.OfTable(table, o.resamples, o.seed)
	if err != nil {
		return err
	}
	g.Warn(stderr)
	if _, err := io.WriteString(stdout, g.Summary()); err != nil || o.out == "" {
		return err
	}
	return writeGPU(g, o, stdout)
}

// writeGPU writes what was fitted, each file whole, and lists the files.
func writeGPU(g *profiling.GPU, o gpuOptions, stdout io.Writer) error {
	if err := os.MkdirAll(o.out, 0o777); err != nil {
		return fmt.Errorf("--out %s cannot be made: %w", o.out, err)
	}
	var written []string
	install := func(name string, text []byte) error {
		path := filepath.Join(o.out, name)
		if err := output.Install(path, text, true); err != nil {
			return fmt.Errorf("cannot write %s: %w", path, err)
		}
		written = append(written, path)
		return nil
	}
	for i, v := range g.Variants() {
		text, err := g.Text(i)
		if err != nil {
			return err
		}
		if err := install(profiling.FileOf(v), text); err != nil {
			return err
		}
	}
	if err := install("summary.md", []byte(g.Summary())); err != nil {
		return err
	}
	text, err := g.Scenario(o.name)
	if err != nil {
		return err
	}
	if err := install("scenario.yaml", text); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "\nWritten: %s\n", strings.Join(written, ", "))
	return err
}
