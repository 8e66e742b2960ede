package operate

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/serving/quality"
)

// predictorOrder is the body of an order about predictors of quality.
type predictorOrder struct {
	Predictor string  `json:"predictor,omitempty"`
	Share     float64 `json:"share,omitempty"`
}

// PredictorCommands returns the commands of `gearshift quality` that act on a router that runs.
func PredictorCommands() []*cobra.Command {
	return []*cobra.Command{newPredictorStatus(), newPredictorShadow(), newPredictorCanary(), newPredictorEnd()}
}

// ordering has c give an order about predictors, and print them as they are after it. Its argument,
// if it takes one, names the predictor.
func (body *predictorOrder) ordering(c *cobra.Command, order string) *cobra.Command {
	var o operator
	c.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			body.Predictor = args[0]
		}
		var now quality.Report
		if err := o.ask(c.Context(), http.MethodPost, "/admin/quality/"+order, body, &now); err != nil {
			return err
		}
		return writePredictors(c.OutOrStdout(), now)
	}
	o.flags(c, localAdmin())
	return c
}

func newPredictorStatus() *cobra.Command {
	return shown(&cobra.Command{
		Use: "status", Short: "Show what predicts quality in a running router, and what came of it",
		Long: `Show what predicts quality in a running router, and what is on trial: by task, how sure it is, the
quality predicted for the sizes that were chosen, what the answers were worth that clients scored, and
which sizes get the prompts for which the gain of the best size is predicted to be high.`,
	}, "/admin/quality", func(r quality.Report) any { return r }, writePredictors)
}

func newPredictorShadow() *cobra.Command {
	return new(predictorOrder).ordering(&cobra.Command{
		Use: "shadow NAME[@VERSION]", Short: "Have a predictor predict in a running router, to no effect", Args: cli.One,
		Long: `Have a predictor predict for all requests of a running router in addition to the one in charge, to no
effect. gearshift quality status shows how the two compare. NAME alone is its newest version.`,
	}, "shadow")
}

func newPredictorCanary() *cobra.Command {
	var body predictorOrder
	c := body.ordering(&cobra.Command{
		Use: "canary NAME[@VERSION]", Short: "Have a predictor predict for a share of a running router's requests", Args: cli.One,
		Long: `Have a predictor predict for a share of a running router's requests, which are drawn at random.
gearshift quality status shows how both sides fare. NAME alone is its newest version.`,
		Example: "  gearshift quality canary mine@4 --share 0.1",
	}, "canary")
	c.PreRunE = func(*cobra.Command, []string) error {
		if !(body.Share > 0 && body.Share <= 1) {
			return fmt.Errorf("--share %v: want a part of the requests, above 0 and at most 1", body.Share)
		}
		return nil
	}
	c.Flags().Float64Var(&body.Share, "share", 0.1, "`part` of the requests, above 0 and at most 1")
	return c
}

func newPredictorEnd() *cobra.Command {
	return new(predictorOrder).ordering(&cobra.Command{
		Use: "end", Short: "End the trial of a predictor in a running router", Args: cli.None,
	}, "end")
}

// writePredictors prints the predictors in charge and on trial, with their figures by task.
func writePredictors(w io.Writer, r quality.Report) error {
	var b strings.Builder
	if r.InCharge == nil {
		fmt.Fprintln(&b, "no predictor is in charge: the qualities of tasks decide")
	}
	for _, d := range []*quality.Described{r.InCharge, r.Trial} {
		if d == nil {
			continue
		}
		fmt.Fprintf(&b, "%s: %s, fitted to %d prompts, predicts for %.0f %% of the requests\n", strings.ReplaceAll(d.State, "_", " "), d.Predictor, d.Labels, 100*d.Share)
		writePredicted(&b, d)
	}
	if r.Fault != "" {
		fmt.Fprintln(&b, "fault:", r.Fault)
	}
	if r.Note != "" {
		fmt.Fprintln(&b, "note:", r.Note)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writePredicted prints a line for each task that has had requests.
func writePredicted(b *strings.Builder, d *quality.Described) {
	rows := [][]string{{"  TASK", "REQUESTS", "SURE", "PREDICTED", "OF THE BEST", "SCORED", "SCORE", "SIZES", "OF HIGH GAIN"}}
	for _, t := range d.Tasks {
		if t.Requests == 0 {
			continue
		}
		var sizes, high []string
		for _, v := range t.Variants {
			sizes = append(sizes, fmt.Sprintf("%s %.0f %%", v.Variant, 100*v.Share))
			high = append(high, fmt.Sprintf("%s %.0f %%", v.Variant, 100*t.Gains[len(t.Gains)-1].Shares[v.Variant]))
		}
		score := "-"
		if t.Scores > 0 {
			score = fmt.Sprintf("%.3f", t.Score)
		}
		rows = append(rows, []string{"  " + t.Task, fmt.Sprint(t.Requests), fmt.Sprintf("%.2f", t.Sure), fmt.Sprintf("%.3f", t.Predicted),
			fmt.Sprintf("%.3f", t.Best), fmt.Sprint(t.Scores), score, strings.Join(sizes, ", "), strings.Join(high, ", ")})
	}
	if len(rows) > 1 {
		output.Fitted(b, rows, 7)
	}
}
