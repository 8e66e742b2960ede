package operate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/serving/admin/overview"
)

func NewReplicaCommand() *cobra.Command {
	return cli.Group("replica", "List a running router's replicas; load, unload, put to sleep, wake and drain them",
		newReplicaList(),
		newReplicaOrder("load", "Have a replica's engine load its model", `Have a replica's engine load its model. It takes requests once that is done. A load for which
the host has no memory is refused; one of a replica that sleeps wakes it.`),
		newReplicaOrder("unload", "Have a replica's engine unload its model", `Have a replica's engine unload its model. New requests go elsewhere at once; those in flight
on the replica end before it is unloaded.`),
		newReplicaOrder("sleep", "Put a replica's model to sleep", `Put a replica's model to sleep: it gives its memory back, and is sooner up again than after an
unload. New requests go elsewhere at once; those in flight on the replica end before.`),
		newReplicaOrder("wake", "Wake a replica's model", "Wake a replica's model. It takes requests once that is done."),
		newReplicaOrder("drain", "Keep new requests away from a replica", `Keep new requests away from a replica. Those in flight go on. It holds until undrain, or a
restart of the router.`),
		newReplicaForecast(),
		newReplicaOrder("undrain", "Let new requests in to a drained replica", "Let new requests in to a drained replica again."),
	)
}

func newReplicaList() *cobra.Command {
	return shown(&cobra.Command{
		Use: "ls", Short: "List the replicas of a running router, with their states",
		Example: "  gearshift replica ls\n  gearshift replica ls --format json --admin http://10.0.0.7:8081",
	}, "/admin/replicas", func(list []overview.ReplicaStatus) any { return list }, writeReplicas)
}

func writeReplicas(w io.Writer, list []overview.ReplicaStatus) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "REPLICA\tHOST\tSTATE\tIN FLIGHT\tLIFECYCLE\tNOTE")
	for i := range list {
		r := &list[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", r.Name, r.Host, stateOf(r), r.InFlight, cmp.Or(r.Lifecycle.Dialect, "-"), noteOf(r))
	}
	return t.Flush()
}

// stateOf returns the state of a replica, with the state that it is on its way to.
func stateOf(r *overview.ReplicaStatus) string {
	state := r.Lifecycle.State
	if r.Lifecycle.Doing != "" {
		state += " → " + r.Lifecycle.Target
	}
	return state
}

// noteOf returns what else there is to know of a replica: errors, notes, and why it is ejected.
func noteOf(r *overview.ReplicaStatus) string {
	var notes []string
	for _, note := range []string{r.Lifecycle.Error, r.Lifecycle.Note, r.Note} {
		if note != "" && !strings.Contains(strings.Join(notes, "; "), note) { // an engine's reason is in the order's error too
			notes = append(notes, note)
		}
	}
	if r.State == "ejected" && r.Why != "" && r.Note == "" {
		notes = append(notes, "ejected: "+r.Why)
	}
	return cmp.Or(strings.Join(notes, "; "), "-")
}

// replicaOrder is an order about one replica: its flags.
type replicaOrder struct {
	operator
	verb    string
	wait    bool
	timeout time.Duration
	level   int
	format  cli.Format
}

func newReplicaOrder(verb, short, long string) *cobra.Command {
	o := replicaOrder{verb: verb}
	drains := verb == "drain" || verb == "undrain"
	c := &cobra.Command{
		Use: verb + " REPLICA", Short: short, Long: long,
		Example: "  gearshift replica " + verb + " opt-6.7b@gpu0",
		Args:    cli.One,
		RunE:    func(c *cobra.Command, args []string) error { return o.run(c, args[0]) },
	}
	o.format.Flag(c, "text")
	if verb != "undrain" {
		c.Flags().BoolVar(&o.wait, "wait", false, "return once it is done, or has failed")
		c.Flags().DurationVar(&o.timeout, "timeout", 15*time.Minute, "how long to wait, with --wait")
	}
	if !drains {
		c.Example += "\n  gearshift replica " + verb + " opt-6.7b@gpu0 --wait"
	}
	if verb == "sleep" {
		c.Flags().IntVar(&o.level, "level", 1, "1 keeps the weights in host memory, 2 drops them")
	}
	o.flags(c, localAdmin())
	return c
}

// run gives the order, and prints the replica's state before and after it.
func (o *replicaOrder) run(c *cobra.Command, name string) error {
	asJSON, err := o.format.JSON()
	switch {
	case err != nil:
		return err
	case o.wait && o.timeout <= 0:
		return fmt.Errorf("--timeout %v: want a positive time such as 5m", o.timeout)
	}
	before, err := o.replica(c.Context(), name)
	if err != nil {
		return err
	}
	began := time.Now()
	path := "/admin/replicas/" + url.PathEscape(name) + "/" + o.verb
	if o.verb == "sleep" {
		path += "?level=" + strconv.Itoa(o.level)
	}
	var after overview.ReplicaStatus
	if err := o.ask(c.Context(), http.MethodPost, path, struct{}{}, &after); err != nil {
		return err
	}
	if o.wait {
		if after, err = o.settled(c.Context(), name, changes(c.ErrOrStderr())); err != nil {
			return err
		}
	}
	if err := o.unfollowed(&after); err != nil {
		return err
	}
	if asJSON {
		return output.JSON(c.OutOrStdout(), map[string]any{"before": before, "after": after, "took_s": time.Since(began).Seconds()})
	}
	took := ""
	if o.wait {
		took = fmt.Sprintf(", after %.1f s", time.Since(began).Seconds())
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s was %s, is %s%s\n", name, stateOf(&before), stateOf(&after), took)
	return err
}

// unfollowed returns the error of a load or a wake that leaves the replica down. A replica that is
// placed as loaded has nothing to load, but takes no requests while its engine does not answer.
func (o *replicaOrder) unfollowed(r *overview.ReplicaStatus) error {
	if o.verb != "load" && o.verb != "wake" || r.Lifecycle.State != "down" || r.Lifecycle.Doing != "" {
		return nil
	}
	return fmt.Errorf("%s is down, and no %s brings it up: its engine has to answer the router's probes first (%s)", r.Name, o.verb, noteOf(r))
}

// replica asks for the state of one replica.
func (o *replicaOrder) replica(ctx context.Context, name string) (overview.ReplicaStatus, error) {
	var list []overview.ReplicaStatus
	if err := o.ask(ctx, http.MethodGet, "/admin/replicas", nil, &list); err != nil {
		return overview.ReplicaStatus{}, err
	}
	names := make([]string, len(list))
	for i := range list {
		if names[i] = list[i].Name; names[i] == name {
			return list[i], nil
		}
	}
	return overview.ReplicaStatus{}, fmt.Errorf("the router has no replica %q; there are %s", name, strings.Join(names, ", "))
}

// lookAgain is the interval at which the state of a replica is asked for, with --wait.
const lookAgain = 200 * time.Millisecond

// silent bounds how long a wait shows no progress, since most are over by then.
const silent = 2 * time.Second

// changes returns a function that writes a line of progress with its note, unless the line is the last one again
// or the wait has only begun.
func changes(w io.Writer) func(line, note string) {
	last, began := "", time.Now()
	return func(line, note string) {
		if time.Since(began) < silent {
			return
		}
		if line != last {
			fmt.Fprintln(w, strings.TrimSuffix(line+"; "+note, "; -"))
		}
		last = line
	}
}

// settled waits until the order is carried out, and reports the replica's state meanwhile.
func (o *replicaOrder) settled(ctx context.Context, name string, report func(line, note string)) (overview.ReplicaStatus, error) {
	late := time.NewTimer(o.timeout)
	defer late.Stop()
	for {
		r, err := o.replica(ctx, name)
		switch {
		case err != nil:
			return r, err
		case r.Lifecycle.Error != "" && r.Lifecycle.Doing == "" && o.verb != "drain":
			return r, fmt.Errorf("%s; it is %s", r.Lifecycle.Error, stateOf(&r))
		case o.verb == "drain" && r.InFlight == 0, o.verb != "drain" && r.Lifecycle.Doing == "":
			return r, nil
		}
		report(name+" is "+stateOf(&r), noteOf(&r))
		select {
		case <-time.After(lookAgain):
		case <-late.C:
			return r, fmt.Errorf("%s is still %s after %v, with %d requests in flight; the order goes on", name, stateOf(&r), o.timeout, r.InFlight)
		case <-ctx.Done():
			return r, context.Cause(ctx)
		}
	}
}
