package operate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/env"
	"gearshift/env/applications"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// simulated are the flags of `failover simulate`.
type simulated struct {
	scenario string
	policies []string
	fail     []string
	seeds    int
	silent   bool
	deaf     bool
	shared   bool
	takes    time.Duration // until clients know
	length   time.Duration
	faults   string
	machines int
	each     int
	rescale  float64
	json     bool
}

func newFailoverSimulate() *cobra.Command {
	var o simulated
	c := &cobra.Command{
		Use:   "simulate --scenario NAME|FILE",
		Short: "Lose hosts in the simulator, and print how applications come back",
		Long: `Plays losses of hosts with the controller that gearshift serve runs, in virtual time: agents
report, loads take the times of the scenario, clients send at their rates. It prints for each
policy

  recovery       share of the affected applications that another host answered again
  MTTR           from the detection until clients know, in the mean over those recovered, with
                 the detection after it
  accuracy       lost by those recovered, relative to their primaries
  outage         that clients saw, from the first request that failed to the next answer
  unprotected    applications with fewer backups than they should have before the loss
  requests       lost, of all; and sent again

Without --fail each host of a small scenario is lost once, in a run of its own, and in larger
ones a host that is drawn. --faults plays recorded faults: each host has those of some of
the recorded machines, drawn, and the time is divided by --rescale.`,
		Example: `  gearshift failover simulate --scenario faillite-testbed
  gearshift failover simulate --scenario faillite-large --policy gearshift --fail site1@60-
  gearshift failover simulate --scenario faillite-testbed --faults fault_trace.json --rescale 348`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error { return o.run(c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&o.scenario, "scenario", "", "`NAME|FILE` with the section failover (required)")
	f.StringSliceVar(&o.policies, "policy", nil, "`policies`, of gearshift, faillite, full-warm, full-cold, full-warm-k, or all (default: the scenario's)")
	f.StringArrayVar(&o.fail, "fail", nil, "`HOST|SITE@FROM-[TO]`, what is lost and when, in seconds, such as s1@60s-90s; may be repeated")
	f.IntVar(&o.seeds, "seeds", 1, "runs with other arrivals and phases of heartbeats, and other applications where they are drawn")
	f.BoolVar(&o.silent, "silent", false, "what is lost gives no sign: nothing is refused, and nothing is unloaded at the return")
	f.BoolVar(&o.deaf, "heartbeats-only", false, "requests that fail are no evidence of a loss")
	f.BoolVar(&o.shared, "shared", false, "applications on a host share the memory of a model, as they do when served")
	f.DurationVar(&o.takes, "switch", 50*time.Millisecond, "time from the activation of another variant until clients send there; FailLite measured 50 ms")
	f.DurationVar(&o.length, "length", 0, "time simulated (default: a minute after the last event)")
	f.StringVar(&o.faults, "faults", "", "`FILE` of recorded faults in InfiniteHBD's form")
	f.IntVar(&o.machines, "machines", 400, "with --faults, machines that were recorded, those without a fault included")
	f.IntVar(&o.each, "machines-each", 4, "with --faults, machines whose faults a host has")
	f.Float64Var(&o.rescale, "rescale", 1, "with --faults, what recorded times are divided by; 348 makes a day of 348")
	f.BoolVar(&o.json, "json", false, "print JSON")
	_ = c.MarkFlagRequired("scenario")
	return c
}

// run plays and prints.
func (o *simulated) run(out io.Writer) error {
	s, err := scenario.LoadFailover(o.scenario)
	if err != nil {
		return err
	}
	policies, err := o.chosen(s)
	if err != nil {
		return err
	}
	if o.seeds < 1 || o.seeds > 10_000 {
		return fmt.Errorf("--seeds: %d must be from 1 to 10000", o.seeds)
	}
	var rows []simulatedRow
	for _, p := range policies {
		results, err := o.play(s, p)
		if err != nil {
			return fmt.Errorf("cannot simulate %s: %w", p, err)
		}
		rows = append(rows, simulatedRowOf(p, applications.Summarize(results)))
	}
	if o.json {
		return output.JSON(out, rows)
	}
	return o.print(out, s, rows)
}

// simulatedRow is a policy with what comes of it.
type simulatedRow struct {
	Policy string `json:"policy"`
	applications.Summary
	// MTTR and AccuracyLost are those of the summary; null where nothing was recovered.
	MTTR         *float64 `json:"mttr_ms"`
	AccuracyLost *float64 `json:"accuracy_lost"`
}

func simulatedRowOf(p failover.Policy, s applications.Summary) simulatedRow {
	r := simulatedRow{Policy: string(p), Summary: s}
	if s.Recovered > 0 {
		r.MTTR, r.AccuracyLost = &r.Summary.MTTR, &r.Summary.AccuracyLost
	}
	return r
}

// outage says how long clients had no answer, and how many have none at the end.
func (r *simulatedRow) outage() string {
	o := &r.Outage
	switch times := fmt.Sprintf("%.0f, %.0f, %.0f", o.Median, o.P95, o.Worst); {
	case o.Seen+o.Open == 0:
		return "none"
	case o.Seen == 0:
		return fmt.Sprintf("none ends: %d to the end", o.Open)
	case o.Open > 0:
		return fmt.Sprintf("%s; %d to the end", times, o.Open)
	default:
		return times
	}
}

// orDash formats a number, or a dash if there is none.
func orDash(format string, scale float64, x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf(format, scale**x)
}

func (o *simulated) chosen(s *scenario.Scenario) (list []failover.Policy, err error) {
	if len(o.policies) == 0 {
		return []failover.Policy{s.FailoverOptions().Policy}, nil
	}
	for _, name := range o.policies {
		switch {
		case name == "all":
			return failover.Policies, nil
		case !slices.Contains(scenario.FailoverPolicies, name):
			return nil, fmt.Errorf("--policy: unknown policy %q; want all, or some of %s", name, strings.Join(scenario.FailoverPolicies, ", "))
		}
		list = append(list, failover.Policy(name))
	}
	return list, nil
}

// play plays a policy on all losses and seeds.
func (o *simulated) play(s *scenario.Scenario, p failover.Policy) (results []*applications.Result, err error) {
	for seed := range uint64(o.seeds) {
		x := s.FailoverProblem(o.shared)
		if d, ok := s.Drawing(); ok && seed > 0 {
			d.Seed += seed
			if x, err = applications.Draw(d); err != nil {
				return nil, err
			}
			x.Shared = o.shared
		}
		c := applications.Config{Problem: x, Options: s.FailoverOptions(), Seed: workloads.Seed(workloads.Evaluation, seed), Switch: o.takes, Traffic: !o.deaf}
		c.Options.Policy = p
		cases, err := o.losses(x, c.Seed)
		if err != nil {
			return nil, err
		}
		for _, losses := range cases {
			c.Losses, c.Length = losses, cmp.Or(o.length, lengthOf(losses))
			r, err := applications.Run(c)
			if err != nil {
				return nil, err
			}
			results = append(results, r)
		}
	}
	return results, nil
}

// mostSingly is the most hosts of which each is lost once where nothing is said.
const mostSingly = 20

// losses lists those of each run.
func (o *simulated) losses(x *failover.Problem, seed uint64) (cases [][]env.HostLoss, err error) {
	switch {
	case o.faults != "" && len(o.fail) > 0:
		return nil, errors.New("--faults and --fail are both given; want one of the two")
	case o.faults != "":
		text, err := os.ReadFile(o.faults)
		if err != nil {
			return nil, fmt.Errorf("cannot read --faults: %w", err)
		}
		faults, err := applications.ReadFaults(text)
		if err != nil {
			return nil, fmt.Errorf("--faults: %s: %w", o.faults, err)
		}
		losses, err := applications.Fold(faults, o.machines, o.each, len(x.Hosts), o.rescale, seed)
		if err != nil {
			return nil, fmt.Errorf("--faults: %w", err)
		}
		return [][]env.HostLoss{losses}, nil
	case len(o.fail) > 0:
		var losses []env.HostLoss
		for _, text := range o.fail {
			list, err := o.loss(x, text)
			if err != nil {
				return nil, fmt.Errorf("--fail: %w", err)
			}
			losses = append(losses, list...)
		}
		return [][]env.HostLoss{losses}, nil
	case len(x.Hosts) > mostSingly:
		return [][]env.HostLoss{applications.Once(seed, o.silent, int(seed%uint64(len(x.Hosts))))}, nil
	}
	for i := range x.Hosts {
		cases = append(cases, applications.Once(seed, o.silent, i))
	}
	return cases, nil
}

// loss reads one of --fail: a host, or all of a site.
func (o *simulated) loss(x *failover.Problem, text string) (losses []env.HostLoss, err error) {
	l, err := workloads.ParseLoss(strings.TrimPrefix(text, "+lost:"))
	if err != nil {
		return nil, err
	}
	var known []string
	for _, of := range []func(fleet.Host) string{func(h fleet.Host) string { return h.Name }, func(h fleet.Host) string { return h.Site }} {
		for i, h := range x.Hosts {
			if name := of(h); name == l.Host {
				losses = append(losses, env.HostLoss{Host: i, From: l.From, To: l.To, Silent: o.silent})
			} else if name != "" && !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
		if len(losses) > 0 {
			return losses, nil
		}
	}
	if guess := scenario.Closest(l.Host, known); guess != "" {
		return nil, fmt.Errorf("%s: there is no host or site %q; did you mean %q?", text, l.Host, guess)
	}
	return nil, fmt.Errorf("%s: there is no host or site %q; there are %d hosts, from %s to %s", text, l.Host, len(x.Hosts), x.Hosts[0].Name, x.Hosts[len(x.Hosts)-1].Name)
}

// lengthOf is a minute after the last that happens.
func lengthOf(losses []env.HostLoss) time.Duration {
	var last time.Duration
	for _, l := range losses {
		last = max(last, l.From, l.To)
	}
	return last + time.Minute
}

// print prints a table.
func (o *simulated) print(out io.Writer, s *scenario.Scenario, rows []simulatedRow) error {
	first := rows[0].Summary
	fmt.Fprintf(out, "%s: %d runs, %d failovers, clients know %v after an activation", s.Name, first.Runs, first.Failovers, o.takes)
	if o.faults != "" {
		fmt.Fprintf(out, "; recorded faults, each host with those of %d machines, time divided by %v", o.each, o.rescale)
	}
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "policy\taffected\trecovery\tworst\tMTTR ms\tdetection ms\taccuracy lost\toutage ms (median, p95, worst)\tunprotected\trequests lost\tsent again")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%d\t%.1f %%\t%.1f %%\t%s\t%.1f\t%s\t%s\t%.1f\t%d of %d\t%d\n", r.Policy, r.Affected, 100*r.Recovery, 100*r.Worst,
			orDash("%.1f", 1, r.MTTR), r.Detection, orDash("%.2f %%", 100, r.AccuracyLost), r.outage(), r.Unprotected, r.Requests.Lost, r.Requests.Sent, r.Requests.Again)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("cannot print: %w", err)
	}
	return nil
}
