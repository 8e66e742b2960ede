package validation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// sending is a request of a run.
type sending struct {
	workloads.Arrival
	replica, target int
}

// send sends a run's requests: once more, as often as --tries allows, where much of
// the processors' time was stolen meanwhile. The run that was disturbed least counts,
// whatever it shows.
func (l *validator) send(ctx context.Context, run Run, list []sending) (*sent, error) {
	slices.SortStableFunc(list, func(a, b sending) int { return int(a.At - b.At) })
	l.sending++
	var best *sent
	for range l.Tries {
		l.progress(fmt.Sprintf("run %d of %d: %s, load %g, %d requests in %v", l.sending, l.runs, run.name(), run.Load, len(list), list[len(list)-1].At.Round(time.Second)))
		before, err := l.volleys(ctx, list)
		if err != nil {
			return nil, err
		}
		s, err := l.sendOnce(ctx, list)
		if err != nil {
			return nil, err
		}
		s.before = before
		if s.after, err = l.volleys(ctx, list); err != nil {
			return nil, err
		}
		if len(s.measured) < l.fewest() {
			return nil, fmt.Errorf("%s at load %g: %d of %d requests were refused, too many to compare", run.What, run.Load, s.refused, len(list))
		}
		if best == nil || s.stolen < best.stolen {
			best = s
		}
		if best.stolen <= loadgen.MostStolen {
			break
		}
	}
	return best, nil
}

func (l *validator) sendOnce(ctx context.Context, list []sending) (*sent, error) {
	var orders []loadgen.Order
	var tasks, replicas []int
	for _, a := range list {
		order := loadgen.Order{At: a.At, Target: a.target, Prompt: a.PromptTokens, Output: a.OutputTokens}
		if a.replica < 0 {
			order.Task = l.fleet.Table.Tasks[a.Task].Name
		}
		orders = append(orders, order)
		tasks, replicas = append(tasks, a.Task), append(replicas, a.replica)
	}
	before := l.machine()
	answers, err := l.client.Send(ctx, orders)
	if err != nil {
		return nil, err
	}
	stolen := l.machine().StolenSince(before)
	s := sentOf(l.fleet.Table, tasks, replicas, answers)
	s.stolen = stolen
	return s, nil
}

// sent is what one run sent and what came back, the answered in order of sending.
type sent struct {
	measured []met
	arrivals []workloads.Arrival
	replicas []int // −1 for a router's choice
	policies map[string]int
	refused  int
	stolen   float64 // share of the processors' time
	// before and after are how slow the replicas were found to be, by their index.
	before, after map[int]float64
}

func sentOf(t *fleet.Table, tasks, replicas []int, answers []loadgen.Answer) *sent {
	order := make([]int, len(answers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(answers[a].Sent, answers[b].Sent) })
	s := &sent{policies: map[string]int{}}
	for _, i := range order {
		a := &answers[i]
		if a.Refused {
			s.refused++
			continue
		}
		m := met{task: tasks[i], tokens: a.Output, arrival: a.Sent, first: a.First(), last: a.Last()}
		if replicas[i] >= 0 {
			m.variant = t.Replicas[replicas[i]].Variant
		} else {
			m.variant = max(0, t.VariantIndex(a.Header.Get("X-Gearshift-Variant")))
			s.policies[a.Header.Get("X-Gearshift-Policy")]++
		}
		m.fill(t)
		s.measured = append(s.measured, m)
		s.replicas = append(s.replicas, replicas[i])
		s.arrivals = append(s.arrivals, workloads.Arrival{At: a.Sent, Task: tasks[i], PromptTokens: a.Prompt, OutputTokens: a.Output})
	}
	return s
}
