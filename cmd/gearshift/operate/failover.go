package operate

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/serving/control/failover"
)

func newFailoverStatus() *cobra.Command {
	return shown(&cobra.Command{
		Use: "status", Short: "Show the hosts, applications and backups of a running router, and its last failover",
		Example: "  gearshift failover status\n  gearshift failover status --format json --admin http://10.0.0.7:8081",
	}, "/admin/failover", func(s failover.Situation) any { return s }, writeFailover)
}

func newFailoverDrill() *cobra.Command {
	return failoverOrder(&cobra.Command{
		Use: "drill HOST", Short: "Have a running router treat a host as lost",
		Long: `Have a running router treat a host as lost, though it is there: it gets no more requests, its
applications are answered by their backups, and what else they need is loaded, as after a real
loss. gearshift failover failback ends the drill.`,
		Example: "  gearshift failover drill gpu3",
		Args:    cli.One,
	}, "/admin/failover/drill")
}

func newFailoverBack() *cobra.Command {
	return failoverOrder(&cobra.Command{
		Use: "failback", Short: "End drills, and move applications back to hosts that have returned",
		Long: `End drills, and have applications move back at once to hosts that have returned. Without it
they do so once the host has been well for failover.return_after.`,
		Example: "  gearshift failover failback",
		Args:    cli.None,
	}, "/admin/failover/failback")
}

// failoverOrder makes c a command that gives an order, and prints the situation after it.
func failoverOrder(c *cobra.Command, path string) *cobra.Command {
	var o operator
	var f cli.Format
	c.RunE = func(c *cobra.Command, args []string) error {
		asJSON, err := f.JSON()
		if err != nil {
			return err
		}
		body := map[string]string{}
		if len(args) > 0 {
			body["host"] = args[0]
		}
		var now failover.Situation
		if err := o.ask(c.Context(), http.MethodPost, path, body, &now); err != nil {
			return err
		}
		if asJSON {
			return output.JSON(c.OutOrStdout(), now)
		}
		return writeFailover(c.OutOrStdout(), now)
	}
	f.Flag(c, "text")
	o.flags(c, localAdmin())
	return c
}

// writeFailover prints a situation for people.
func writeFailover(w io.Writer, s failover.Situation) error {
	if s.StandsBy {
		_, err := fmt.Fprintf(w, "this router stands by, state in %s: ask the router that acts, whose gearshift_leader is 1\n", s.StateFile)
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "policy %s, term %d, state in %s; %d applications, %d without an answer, %d unprotected\n",
		s.Policy, s.Term, cmp.Or(s.StateFile, "no file"), len(s.Applications), s.Unrecovered, s.Unprotected)
	if s.StateTrouble != "" {
		fmt.Fprintf(&b, "the state file, when the router began: %s\n", s.StateTrouble)
	}
	mean := ""
	if s.Counts.Recovered > 0 {
		mean = fmt.Sprintf(" after %.1f ms in the mean", s.Counts.MeanMS)
	}
	fmt.Fprintf(&b, "so far: %d failovers, %d of %d recoveries%s, %d false alarms of %d suspicions\n\n",
		s.Counts.Failovers, s.Counts.Recovered, s.Counts.Affected, mean, s.Counts.FalseAlarms, s.Counts.Suspicions)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tSITE\tSTATE\tUSED\tLOADED\tAGENT\tTROUBLE")
	for i := range s.Hosts {
		x := &s.Hosts[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", x.Name, cmp.Or(x.Site, "-"), hostState(x), used(x), x.Loaded, agentOf(x), cmp.Or(x.Trouble, "-"))
	}
	fmt.Fprintln(t, "\nAPPLICATION\tPRIMARY\tANSWERED BY\tQUALITY\tBACKUPS\tNOTE")
	for i := range s.Applications {
		x := &s.Applications[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%.4g of %.4g\t%s\t%s\n", x.Name, cmp.Or(x.Primary, "-"), cmp.Or(x.Active, "nothing"), x.Quality, x.Full, cmp.Or(strings.Join(x.Backups, ", "), "-"), applicationNote(x))
	}
	_ = t.Flush() // a builder takes all
	if s.Last != nil {
		writeSteps(&b, s.Last)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func hostState(s *failover.HostStatus) string {
	if s.Drill {
		return s.State + " (drill)"
	}
	return s.State
}

// used is the share of each resource that is taken, in percent.
func used(s *failover.HostStatus) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(s.Used)) {
		list = append(list, fmt.Sprintf("%s %.0f %%", name, 100*s.Used[name]))
	}
	return strings.Join(list, ", ")
}

func agentOf(s *failover.HostStatus) string {
	if s.Agent == nil {
		return "none"
	}
	return fmt.Sprintf("%s, heard %.0f ms ago", s.Agent.Version, s.Agent.HeardMS)
}

func applicationNote(a *failover.Application) string {
	var notes []string
	if a.Critical {
		notes = append(notes, "critical")
	}
	if a.Unrecovered != "" {
		notes = append(notes, "no answer: "+a.Unrecovered)
	}
	if a.Unprotected != "" {
		notes = append(notes, "unprotected: "+a.Unprotected)
	}
	return cmp.Or(strings.Join(notes, "; "), "-")
}

// writeSteps prints the last failover.
func writeSteps(b *strings.Builder, f *failover.Failover) {
	over := fmt.Sprintf("over after %.1f ms", f.TookMS)
	switch {
	case f.Open:
		over = "not " + over
	case f.Unrecovered > 0:
		over = fmt.Sprintf("nothing answers %d of the applications", f.Unrecovered)
	}
	fmt.Fprintf(b, "\nlast failover: %d, of %s, %s\n", f.Number, f.Host, over)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, n := range f.Steps {
		fmt.Fprintf(t, "  %.1f ms\t%s\t%s\t%s\t%s\n", n.AtMS, n.Kind, cmp.Or(n.Application, "-"), placeOf(&n), n.Reason)
	}
	_ = t.Flush()
}

// placeOf is the variant and host that a step is of.
func placeOf(n *failover.Notice) string {
	switch {
	case n.Variant != "" && n.Host != "":
		return n.Variant + "@" + n.Host
	default:
		return cmp.Or(n.Host, "-")
	}
}
