package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"gearshift/serving/loadgen"
	"gearshift/workloads"
)

// check asks the server for what the replay rests on, before anything is sent: that it
// answers, that it has the model and, of a router, that its scenario has the tasks that are
// asked for and no size that answers could not be judged by.
func (r *run) check(ctx context.Context) error {
	if _, err := r.server.Model(ctx, r.client, r.Model); errors.Is(err, loadgen.ErrKey) {
		return fmt.Errorf("%w (--api-key-env NAME)", err)
	} else if err != nil {
		return err
	}
	router, ok := r.server.Router(ctx, r.client)
	if !ok {
		return nil
	}
	r.tally.policy = router.Policy
	for i, task := range r.Table.Tasks {
		if r.asksFor(i) && !slices.Contains(router.Tasks, task.Name) {
			return fmt.Errorf("cannot replay to %s: it has no task %q of the scenario; it has %s: give the scenario that it serves with --scenario",
				r.server.URL, task.Name, strings.Join(router.Tasks, ", "))
		}
	}
	for _, variant := range router.Variants {
		if r.Table.VariantIndex(variant) < 0 {
			return fmt.Errorf("cannot replay to %s: it serves the size %q, which the scenario does not have; give the scenario that it serves", r.server.URL, variant)
		}
	}
	return nil
}

// asksFor reports whether there are requests of the task, as far as that is known.
func (r *run) asksFor(task int) bool {
	given, ok := r.Requests.(*workloads.Given)
	return !ok || slices.ContainsFunc(*given, func(a workloads.Arrival) bool { return a.Task == task })
}
