package qualitycmd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/quality"
	"gearshift/internal/quality/labels"
	"gearshift/internal/training/policies"
	router "gearshift/router/quality"
)

// fitOptions are the flags of fit.
type fitOptions struct {
	data   []string
	name   string
	seed   uint64
	key    uint64
	given  bool // the key
	sizes  []string
	plot   picture
	format cli.Format
}

func newFit() *cobra.Command {
	var o fitOptions
	c := &cobra.Command{
		Use:   "fit --data FILE... --name NAME",
		Short: "Fit a predictor to labelled prompts, store it, and report how well it predicts",
		Long: `Fit a predictor to labelled prompts and store it as a new version of the name. The report is of
prompts that were not fitted: each is predicted by a fit to others.

GAIN is in mean score, over giving the larger model as many prompts at random, in the mean over
all shares of traffic that the larger model may answer. Where the prompts are of several tasks,
OVER TASK is the gain over the tasks' means, which a scenario declares. An interval that holds
zero means that the labels are not enough; the predictor is stored all the same, and promote
refuses it.

Prompts are not stored: words are hashed under a key that is drawn once for the store. --key
gives another, by which a fit can be repeated in another store.`,
	}
	store := storeFlag(c)
	dataFlag(c, &o.data, "`FILE` of labelled prompts, JSON lines or CSV; more may follow")
	f := c.Flags()
	f.StringVar(&o.name, "name", "", "`NAME` to store the predictor under")
	_ = c.MarkFlagRequired("name")
	f.Uint64Var(&o.seed, "seed", 1, "orders the prompts and draws the intervals' samples")
	f.Uint64Var(&o.key, "key", 0, "hash words under this `number` (default: the store's own, which is random)")
	f.StringSliceVar(&o.sizes, "sizes", nil, "`models`, smallest first: others are left out (default: all, by mean score)")
	o.plot.flag(f)
	o.format.Flag(c, "table")
	c.RunE = func(c *cobra.Command, _ []string) error {
		o.given = c.Flags().Changed("key")
		return o.run(store(), c.OutOrStdout())
	}
	return c
}

// fitResult is the output of fit as JSON.
type fitResult struct {
	Predictor string          `json:"predictor"`
	SHA256    string          `json:"sha256"`
	Bytes     int             `json:"bytes"`
	Seconds   float64         `json:"seconds"`
	Enough    bool            `json:"enough"`
	Verdict   string          `json:"verdict"`
	Report    *quality.Report `json:"report"`
}

func (o *fitOptions) run(to *checkpoints.Predictors, w io.Writer) error {
	asJSON, err := o.format.JSON()
	if err == nil {
		err = o.plot.check()
	}
	if err != nil {
		return err
	}
	if ref, err := checkpoints.ParsePredictorRef(o.name); err != nil || ref != (checkpoints.Ref{Name: o.name}) {
		return fmt.Errorf("--name %q cannot name a predictor: want a-z, 0-9, '.', '_' and '-'", o.name)
	}
	set, err := labels.Read(o.data, labels.Options{Columns: o.sizes})
	if err != nil {
		return err
	}
	if n := len(set.Columns); n > router.MostColumns {
		return fmt.Errorf("the labels have scores of %d models; want at most %d, chosen by --sizes: %s", n, router.MostColumns, strings.Join(set.Columns, ", "))
	}
	if !o.given {
		if o.key, err = to.Key(); err != nil {
			return err
		}
	}
	began := time.Now()
	fitted, err := quality.Fit(set, o.key, o.seed, len(o.sizes) > 0)
	if err != nil {
		return err
	}
	took := time.Since(began)
	ref, removed, err := fitted.Save(to, o.name, set, o.seed, o.given, time.Now())
	if err != nil {
		return err
	}
	entry, err := to.Lookup(ref)
	if err != nil {
		return err
	}
	drawn := o.plot.draw(fitted.Report)
	r := fitted.Report
	if asJSON {
		return errors.Join(output.JSON(w, fitResult{ref.String(), entry.Digest, entry.Size, took.Seconds(), r.Enough(), r.Verdict(), r}), drawn)
	}
	fmt.Fprintf(w, "%s: %d labelled prompts, %d models, fitted in %.1f s\n\n", ref, r.Prompts, len(r.Columns), took.Seconds())
	r.Write(w)
	policies.TellRemoved(w, o.name, removed, policies.TooOld)
	fmt.Fprintln(w, r.Verdict())
	if r.Enough() {
		fmt.Fprintf(w, "promote it: gearshift quality promote %s --store %s\n", ref, to.Path())
	}
	return drawn
}
