package applications

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/internal/splitmix"
)

// Fault is a recorded fault of a machine.
type Fault struct {
	Machine  string
	From, To float64 // days since the recording began
}

// ReadFaults reads recorded faults in the form of InfiniteHBD's trace: a JSON list of objects with
// node_id, event_time in days, and event_type, fault_start or fault_end.
func ReadFaults(text []byte) ([]Fault, error) {
	var events []struct {
		Machine string  `json:"node_id"`
		At      float64 `json:"event_time"`
		Type    string  `json:"event_type"`
	}
	if err := json.Unmarshal(text, &events); err != nil {
		return nil, fmt.Errorf("want a JSON list of events: %w", err)
	}
	// A fault that begins as another ends follows it; one that ends as it begins is none.
	slices.SortStableFunc(events, func(a, b struct {
		Machine string  `json:"node_id"`
		At      float64 `json:"event_time"`
		Type    string  `json:"event_type"`
	}) int {
		return cmp.Or(cmp.Compare(a.Machine, b.Machine), cmp.Compare(a.At, b.At), -cmp.Compare(a.Type, b.Type))
	})
	var faults []Fault
	open := map[string][]float64{}
	for i, e := range events {
		switch {
		case e.Machine == "" || !(e.At >= 0):
			return nil, fmt.Errorf("event %d: node_id %q at %v; want a name, and days from 0 on", i, e.Machine, e.At)
		case e.Type == "fault_start":
			open[e.Machine] = append(open[e.Machine], e.At)
		case e.Type == "fault_end":
			if n := len(open[e.Machine]); n > 0 {
				if from := open[e.Machine][0]; e.At > from {
					faults = append(faults, Fault{e.Machine, from, e.At})
				}
				open[e.Machine] = open[e.Machine][1:]
			}
		default:
			return nil, fmt.Errorf("event %d: event_type %q; want fault_start or fault_end", i, e.Type)
		}
	}
	slices.SortStableFunc(faults, func(a, b Fault) int { return cmp.Compare(a.From, b.From) })
	return faults, nil
}

// Fold makes losses of hosts out of recorded faults. Each host has the faults of a number of the
// recorded machines, which are drawn; machines without a fault are among them, of which all tells how many
// there are. Times are divided by rescale. Half of the losses, drawn too, come without a sign.
func Fold(faults []Fault, all, each, hosts int, rescale float64, seed uint64) ([]env.HostLoss, error) {
	if each < 1 || each*hosts > all || !(rescale > 0) {
		return nil, fmt.Errorf("%d hosts with the faults of %d machines each, of %d, rescaled by %v; want as many machines as that, and a factor above 0", hosts, each, all, rescale)
	}
	var names []string
	for _, f := range faults {
		names = append(names, f.Machine)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > all {
		return nil, fmt.Errorf("%d machines have faults; want at least as many in all, not %d", len(names), all)
	}
	random := rand.New(rand.NewPCG(splitmix.Mix(seed), 21))
	of := map[string]int{} // host by machine
	for k, machine := range random.Perm(all)[:each*hosts] {
		if machine < len(names) {
			of[names[machine]] = k / each
		}
	}
	var losses []env.HostLoss
	for _, f := range faults {
		if host, ok := of[f.Machine]; ok {
			at := func(days float64) time.Duration {
				return time.Duration(days / rescale * 24 * float64(time.Hour))
			}
			losses = append(losses, env.HostLoss{Host: host, From: at(f.From), To: max(at(f.To), at(f.From)+time.Millisecond), Silent: random.IntN(2) == 0})
		}
	}
	return losses, nil
}
