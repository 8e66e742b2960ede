package gauges_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/engines/gauges"
)

// TestIdleEnginesOfManyAreReadSeldom reads an engine without requests every third interval in a fleet of more than 64, and
// every interval once it or the router has some there. In a smaller fleet all are read every interval.
func TestIdleEnginesOfManyAreReadSeldom(t *testing.T) {
	const idle, busy = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n", "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"
	for _, c := range []struct {
		engines int
		page    string
		own     int64
		least   int
		most    int
	}{{64, idle, 0, 25, 35}, {65, idle, 0, 9, 12}, {65, busy, 0, 25, 35}, {65, idle, 1, 25, 35}, {65, "vllm:kv_cache_usage_perc 0\n", 0, 25, 35}} {
		t.Run(fmt.Sprint(c.engines, c.page, c.own), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				variants, replicas := []fleet.Variant{{Name: "small"}}, []fleet.Replica{}
				for i := range c.engines {
					replicas = append(replicas, fleet.Replica{Name: fmt.Sprint("small", i), Limit: 64})
				}
				table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}}, variants, []fleet.Host{{Name: "a"}}, replicas)
				if err != nil {
					t.Fatal(err)
				}
				list, sources := make([]*engine, c.engines), make([]gauges.Source, c.engines)
				for i := range list {
					list[i] = &engine{page: c.page}
					sources[i] = gauges.Source{Server: list[i], Replicas: []int{i}, Models: []string{"small"}}
				}
				start := time.Now()
				var own atomic.Int64
				own.Store(c.own)
				s := gauges.New(gauges.DefaultConfig(), signals.New(fleet.NewLedger(table)), sources,
					func(int) signals.Count { return signals.Count{InFlight: int(own.Load())} }, func() time.Duration { return time.Since(start) }, 1, func(gauges.Source, bool, error) {})
				ctx, stop := context.WithCancel(t.Context())
				s.Start(ctx)
				time.Sleep(30 * time.Second)
				synctest.Wait()
				stop()
				s.Wait()
				if n := list[0].times(); n < c.least || n > c.most {
					t.Errorf("read %d times in 30 s, want %d to %d", n, c.least, c.most)
				}
			})
		})
	}
}
