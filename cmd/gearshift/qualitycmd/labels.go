package qualitycmd

import (
	"bufio"
	"fmt"

	"github.com/spf13/cobra"

	"gearshift/internal/quality/labels"
)

func newLabels() *cobra.Command {
	var data, sizes []string
	var skip, count int
	var seed uint64
	c := &cobra.Command{
		Use:   "labels --data FILE...",
		Short: "Check files of labels, and print them, or some of them, as JSON lines",
		Long: `Check files of labels, and print them as JSON lines: several as one, CSV as JSON, some of the models, or
some of the prompts. With one seed, the prompts that --skip leaves out are those that --count takes
without it, so that some can be kept for a check.

Without labels of your own, try the prompts that are packed into the program:
` + labels.BuiltIn + `.`,
	}
	dataFlag(c, &data, "`FILE` of labelled prompts, JSON lines or CSV; more may follow")
	f := c.Flags()
	f.StringSliceVar(&sizes, "sizes", nil, "`models` whose scores are printed (default: all)")
	f.IntVar(&count, "count", 0, "print as many `prompts`, drawn at random (default: all, in their order)")
	f.IntVar(&skip, "skip", 0, "leave out as many `prompts` of those that are drawn")
	f.Uint64Var(&seed, "seed", 1, "draws the prompts")
	c.RunE = func(c *cobra.Command, _ []string) error {
		if count < 0 || skip < 0 {
			return fmt.Errorf("--count %d and --skip %d: want numbers of prompts", count, skip)
		}
		set, err := labels.Read(data, labels.Options{Columns: sizes})
		if err != nil {
			return err
		}
		if n := len(set.Prompts); skip >= n {
			return fmt.Errorf("--skip %d leaves none of %d prompts; want less", skip, n)
		}
		if count > 0 || skip > 0 {
			if count == 0 {
				count = len(set.Prompts)
			}
			set.Draw(skip, count, seed)
		}
		out := bufio.NewWriter(c.OutOrStdout())
		if err := set.Write(out); err != nil {
			return err
		}
		return out.Flush()
	}
	return c
}
