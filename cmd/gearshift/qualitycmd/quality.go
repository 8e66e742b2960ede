// Package qualitycmd has the commands of `gearshift quality`, which fit predictors of quality to
// labelled prompts, judge and show them, and put them in production.
package qualitycmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/cmd/gearshift/operate"
	"gearshift/internal/output"
	"gearshift/internal/quality"
	"gearshift/internal/quality/labels"
)

// New returns the command group `gearshift quality`.
func New() *cobra.Command {
	c := cli.Group("quality", "Predict how good each size's answer to a prompt would be, by labelled prompts",
		newSample(), newLabels(), newFit(), newPredict(), newShow(), newCheck(), newList(), newPromote(), newRollback(), newRemove())
	c.AddCommand(operate.PredictorCommands()...)
	c.Long = `A predictor reads a prompt and says how good each size's answer to it would be, so that under load
the router downgrades those prompts that lose least by it. It is fitted to prompts whose answers
by each size have scores from 0 to 1, in files of JSON lines or CSV:

  ` + labels.Example + `
  prompt,task,large,small`
	return c
}

// storeFlag adds --store, and returns the predictors of the store that it names.
func storeFlag(c *cobra.Command) func() *checkpoints.Predictors {
	var path string
	cli.StoreFlag(c, &path)
	return func() *checkpoints.Predictors { return (&checkpoints.Store{Path: path}).Predictors() }
}

// dataFlag adds --data. As a shell expands a pattern, further files may follow as arguments.
func dataFlag(c *cobra.Command, to *[]string, usage string) {
	c.Flags().StringArrayVar(to, "data", nil, usage)
	_ = c.MarkFlagRequired("data")
	c.Args = func(c *cobra.Command, args []string) error {
		if len(*to) == 0 {
			return cli.None(c, args)
		}
		*to = append(*to, args...)
		return nil
	}
}

// predictorFlag adds --quality, and returns what loads the predictor that it names: by default
// the one in production.
func predictorFlag(c *cobra.Command, from func() *checkpoints.Predictors) loader {
	var name string
	c.Flags().StringVar(&name, "quality", "", "`NAME[@VERSION]` of the predictor (default: the one in production)")
	return func() (*quality.Fitted, checkpoints.Entry, error) {
		ref, err := reference(from(), name)
		if err != nil {
			return nil, checkpoints.Entry{}, err
		}
		return quality.Load(from(), ref)
	}
}

// reference reads a reference to a predictor; empty is the one in production.
func reference(in *checkpoints.Predictors, text string) (checkpoints.Ref, error) {
	if text == "" {
		return in.Production()
	}
	return checkpoints.ParsePredictorRef(text)
}

// picture is the value of --plot: a file to draw a report into, or none.
type picture string

func (p *picture) flag(flags *pflag.FlagSet) {
	flags.StringVar((*string)(p), "plot", "", "draw gain by share, and how true predictions are, into `FILE.svg`")
}

// check returns an error if the file cannot be one.
func (p picture) check() error {
	if p != "" && !strings.EqualFold(filepath.Ext(string(p)), ".svg") {
		return fmt.Errorf("--plot %s: want a name that ends in .svg", string(p))
	}
	return nil
}

// draw draws the report into the file, if there is one.
func (p picture) draw(r *quality.Report) error {
	if p == "" {
		return nil
	}
	drawn, err := r.Picture()
	if err == nil {
		err = output.Install(string(p), drawn, true)
	}
	if err != nil {
		return fmt.Errorf("--plot %s: %w", string(p), err)
	}
	return nil
}

// errForce is the error of one of --force and --reason without the other.
var errForce = errors.New("--force and --reason go together: the reason is kept with the predictor")
