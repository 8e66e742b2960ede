package qualitycmd

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"gearshift/internal/quality"
	"gearshift/internal/quality/labels"
)

func newPredict() *cobra.Command {
	var data []string
	var form string
	c := &cobra.Command{
		Use:   "predict --data FILE --quality NAME[@VERSION]",
		Short: "Predict the scores of prompts, a line for each",
		Long: `Predict the scores of prompts, one line of JSON for each, in the order of the files:

  {"scores":{"large":0.71,"small":0.42},"sure":1}

Scores are from 0 to 1, by model. "sure" is from 0, for a prompt of words that the predictor has
never met, to 1: a router takes so much of the prediction, and the rest of the task's declared
quality. The lines of the files may lack scores.`,
	}
	store := storeFlag(c)
	load := predictorFlag(c, store)
	dataFlag(c, &data, "`FILE` of prompts, JSON lines or CSV; more may follow")
	c.Flags().StringVar(&form, "format", "jsonl", "jsonl, the only one")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if form != "jsonl" {
			return fmt.Errorf("--format %q: want jsonl", form)
		}
		fitted, _, err := load()
		if err != nil {
			return err
		}
		set, err := labels.Read(data, labels.Options{Unscored: true})
		if err != nil {
			return err
		}
		return printPredictions(c.OutOrStdout(), fitted, set)
	}
	return c
}

// printPredictions prints a line for each prompt.
func printPredictions(w io.Writer, f *quality.Fitted, set *labels.Set) error {
	out := bufio.NewWriter(w)
	lines := json.NewEncoder(out)
	lines.SetEscapeHTML(false)
	if err := quality.Predict(f.Regression, set, func(p quality.Prediction) error { return lines.Encode(p) }); err != nil {
		return err
	}
	return out.Flush()
}
