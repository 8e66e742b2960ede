package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/serving/control/rollout"
)

// ModelCommands are those on the versions of a running router's models.
func ModelCommands() []*cobra.Command {
	return []*cobra.Command{
		newModelList(),
		newModelRoll(),
		modelOrder(&cobra.Command{
			Use: "pause MODEL", Short: "Keep a model's change of version as it is",
			Long: `Keep a model's change of version as it is: no other replica begins to change, and both versions go
on to get the shares of requests that they have. Loads and unloads that have begun go on.`,
			Example: "  gearshift models pause large",
		}, "pause"),
		modelOrder(&cobra.Command{
			Use: "continue MODEL", Short: "End a pause",
			Example: "  gearshift models continue large",
		}, "continue"),
		modelOrder(&cobra.Command{
			Use: "rollback MODEL", Short: "Return to the version before",
			Long: `Return to the version before: of a change under way, or of the last one that has ended. It does
not wait for a low utilisation.`,
			Example: "  gearshift models rollback large --wait",
		}, "rollback"),
	}
}

func newModelList() *cobra.Command {
	return shown(&cobra.Command{
		Use: "ls", Short: "List the models of a running router, with their versions",
		Example: "  gearshift models ls\n  gearshift models ls --format json --admin http://10.0.0.7:8081",
	}, "/admin/versions", func(list []rollout.Version) any { return list }, writeVersions)
}

func newModelRoll() *cobra.Command {
	var to string
	c := modelOrder(&cobra.Command{
		Use: "roll MODEL --to VERSION", Short: "Replace the version of a running router's model by another",
		Long: `Replace the version of a model by another, replica by replica, while it answers: the new version
is loaded in addition to the old where the memory holds both, gets growing shares of the requests,
and the old one is unloaded. It waits for a low utilisation, goes back by itself from a version
that is worse, and is shown by gearshift models ls.`,
		Example: "  gearshift models roll large --to 2\n  gearshift models roll large --to 2 --wait",
	}, "roll", &to)
	c.Flags().StringVar(&to, "to", "", "`VERSION` to roll to (required)")
	return c
}

// modelOrder makes c a command that gives an order about a model, and prints how it stands after it.
// The version that is ordered, if any, must not be empty.
func modelOrder(c *cobra.Command, verb string, to ...*string) *cobra.Command {
	var o operator
	var f cli.Format
	var wait bool
	var timeout time.Duration
	c.Args = cli.One
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := f.JSON()
		if err != nil {
			return err
		}
		body := map[string]string{}
		for _, x := range to {
			if *x == "" {
				return fmt.Errorf("no version; want --to VERSION")
			}
			body["to"] = *x
		}
		if wait && timeout <= 0 {
			return fmt.Errorf("--timeout %v: want a positive time such as 5m", timeout)
		}
		var now rollout.Version
		if err := o.ask(c.Context(), http.MethodPost, "/admin/versions/"+url.PathEscape(args[0])+"/"+verb, body, &now); err != nil {
			return err
		}
		if wait {
			if now, err = o.steady(c.Context(), now, timeout, changes(c.ErrOrStderr())); err != nil {
				return err
			}
		}
		if asJSON {
			return output.JSON(c.OutOrStdout(), now)
		}
		return writeVersions(c.OutOrStdout(), []rollout.Version{now})
	}
	f.Flag(c, "text")
	if verb == "roll" || verb == "rollback" {
		c.Flags().BoolVar(&wait, "wait", false, "return once all replicas have the version, or it has gone back")
		c.Flags().DurationVar(&timeout, "timeout", time.Hour, "how long to wait, with --wait")
	}
	o.flags(c, localAdmin())
	return c
}

// steady waits until nothing is being changed about the model, and reports how it stands meanwhile. It is an error
// if the model has not the version that was ordered.
func (o *operator) steady(ctx context.Context, ordered rollout.Version, timeout time.Duration, report func(line, note string)) (rollout.Version, error) {
	late := time.NewTimer(timeout)
	defer late.Stop()
	for {
		var list []rollout.Version
		if err := o.ask(ctx, http.MethodGet, "/admin/versions", nil, &list); err != nil {
			return ordered, err
		}
		for i := range list {
			switch v := &list[i]; {
			case v.Model != ordered.Model:
			case v.State != "steady":
				report(fmt.Sprintf("%s to version %s: %s", v.Model, v.Version, replicasOf(v)), versionNote(v))
			case v.Version != ordered.Version:
				return *v, fmt.Errorf("%s has gone back to version %s: %s", v.Model, v.Version, v.Reason)
			default:
				return *v, nil
			}
		}
		select {
		case <-time.After(lookAgain):
		case <-late.C:
			return ordered, fmt.Errorf("%s has not version %s everywhere after %v; the change goes on", ordered.Model, ordered.Version, timeout)
		case <-ctx.Done():
			return ordered, context.Cause(ctx)
		}
	}
}

// writeVersions prints the versions of models for people.
func writeVersions(w io.Writer, list []rollout.Version) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "MODEL\tVERSION\tSTATE\tREPLICAS\tSTALE\tCHANGES\tFAILED\tNOTE")
	for i := range list {
		v := &list[i]
		version, stale := v.Version, "-"
		if v.From != "" {
			version = v.From + " → " + v.Version
			stale = (time.Duration(v.StaleS*10) * time.Second / 10).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", v.Model, version, v.State, replicasOf(v), stale, v.Changes, v.Failures, versionNote(v))
	}
	return t.Flush()
}

// replicasOf says how many replicas have the version, and what the others are doing.
func replicasOf(v *rollout.Version) string {
	has, doing := 0, []string{}
	for _, x := range v.Locations {
		if x.Version == v.Version {
			has++
		}
		if x.Doing != "" {
			text := x.Host + " " + x.Doing
			if x.Doing == "shifting" {
				text += fmt.Sprintf(" %.0f %%", 100*x.Share)
			}
			doing = append(doing, text)
		}
	}
	text := fmt.Sprintf("%d of %d", has, len(v.Locations))
	if len(doing) > 0 {
		text += " (" + strings.Join(doing, ", ") + ")"
	}
	return text
}

func versionNote(v *rollout.Version) string {
	var notes []string
	if v.Overdue {
		notes = append(notes, "overdue")
	}
	if v.Waits != "" {
		notes = append(notes, "waits: "+v.Waits)
	}
	if v.Reason != "" {
		notes = append(notes, v.Reason)
	}
	return cmp.Or(strings.Join(notes, "; "), "-")
}
