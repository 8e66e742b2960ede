package qualitycmd

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/quality"
)

// shown is a stored predictor for programs.
type shown struct {
	Predictor string               `json:"predictor"`
	Aliases   []string             `json:"aliases,omitempty"`
	Forced    string               `json:"forced,omitempty"`
	Created   time.Time            `json:"created"`
	SHA256    string               `json:"sha256"`
	Bytes     int                  `json:"bytes"`
	Models    []string             `json:"models"`
	Labels    int                  `json:"labels"`
	Sources   []checkpoints.Source `json:"sources,omitempty"`
	Seed      uint64               `json:"seed"`
	GivenKey  bool                 `json:"given_key"`
	From      string               `json:"from,omitempty"`
	Verdict   string               `json:"verdict,omitempty"`
	Report    *quality.Report      `json:"report,omitempty"`
}

// shownOf describes an entry, with its report in full or only the verdict.
func shownOf(e checkpoints.Entry, full bool) (shown, error) {
	r, err := quality.ReportOf(e)
	if err != nil {
		return shown{}, err
	}
	p := e.Predictor
	s := shown{Predictor: e.Ref().String(), Aliases: e.Aliases, Forced: e.Forced, Created: e.Created, SHA256: e.Digest, Bytes: e.Size,
		Models: p.Columns, Labels: p.Labels, Sources: p.Sources, Seed: p.Seed, GivenKey: p.GivenKey, From: p.From}
	if len(r.Columns) > 0 {
		if s.Verdict = r.Verdict(); full {
			s.Report = r
		}
	}
	return s, nil
}

func newShow() *cobra.Command {
	var form format
	var plot picture
	c := &cobra.Command{
		Use: "show NAME[@VERSION]", Short: "Show what is known of a stored predictor", Args: cli.One,
		Long: `Show a stored predictor: what it was fitted to, and how well it predicted prompts that it had not
seen. NAME alone is its version in production, or the newest if none is.`,
	}
	store := storeFlag(c)
	form.flag(c.Flags())
	plot.flag(c.Flags())
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := form.json()
		if err == nil {
			err = plot.check()
		}
		if err != nil {
			return err
		}
		ref, err := checkpoints.ParsePredictorRef(args[0])
		if err != nil {
			return err
		}
		fitted, entry, err := quality.Load(store(), ref) // one that cannot be read is reported
		if err != nil {
			return err
		}
		s, err := shownOf(entry, true)
		if err != nil {
			return err
		}
		drawn := plot.draw(fitted.Report)
		if asJSON {
			return errors.Join(output.JSON(c.OutOrStdout(), s), drawn)
		}
		s.print(c.OutOrStdout(), fitted.Report)
		return drawn
	}
	return c
}

// print prints it for people.
func (s *shown) print(w io.Writer, r *quality.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("predictor", "%s", s.Predictor)
	if len(s.Aliases) > 0 {
		row("aliases", "%s", strings.Join(s.Aliases, ", "))
	}
	if s.Forced != "" {
		row("promoted by force", "%s", s.Forced)
	}
	row("stored", "%s", s.Created.Format(time.DateTime))
	row("size", "%d bytes, SHA-256 %.12s", s.Bytes, s.SHA256)
	row("fitted to", "%d labelled prompts, seed %d", s.Labels, s.Seed)
	for _, from := range s.Sources {
		sum := ""
		if from.SHA256 != "" { // of a file
			sum = fmt.Sprintf(", SHA-256 %.12s", from.SHA256)
		}
		row("", "%s%s", from.Name, sum)
	}
	if s.From != "" {
		row("updated from", "%.12s", s.From)
	}
	key := "the store's"
	if s.GivenKey {
		key = "given by --key"
	}
	row("key of the words", "%s", key)
	t.Flush()
	fmt.Fprintln(w)
	if len(r.Columns) == 0 {
		fmt.Fprintln(w, "it has no report")
		return
	}
	printReport(w, r)
	printReliability(w, r)
	fmt.Fprintln(w, r.Verdict())
}

// printReliability prints how true predictions are, by their ranges.
func printReliability(w io.Writer, r *quality.Report) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tPREDICTED → MEAN SCORE (PROMPTS)")
	for _, c := range r.Columns {
		var bins []string
		for _, b := range c.Bins {
			bins = append(bins, fmt.Sprintf("%.2f → %.2f (%d)", b.Predicted, b.Scored, b.Count))
		}
		for i := 0; i < len(bins); i += 4 {
			name := c.Name
			if i > 0 {
				name = ""
			}
			fmt.Fprintf(t, "%s\t%s\n", name, strings.Join(bins[i:min(i+4, len(bins))], ", "))
		}
	}
	t.Flush()
	fmt.Fprintln(w)
}
