package gauges_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/engines/gauges"
)

// TestSlotsWithoutEnginesAreNotAwaited counts all servers as asked while slots are empty, and waits for the engine that
// takes one.
func TestSlotsWithoutEnginesAreNotAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}},
			[]fleet.Replica{{Name: "small@0", Limit: 64}, {Name: "small@1", Limit: 64}})
		if err != nil {
			t.Fatal(err)
		}
		var present [2]atomic.Uint64
		var sources []gauges.Source
		for i := range present {
			sources = append(sources, gauges.Source{Server: &engine{page: "vllm:num_requests_running 0\n"}, Replicas: []int{i}, Models: []string{"small"}, Engine: present[i].Load})
		}
		start := time.Now()
		s := gauges.New(gauges.DefaultConfig(), signals.New(fleet.NewLedger(table)), sources,
			func(int) signals.Count { return signals.Count{} }, func() time.Duration { return time.Since(start) }, 1, func(gauges.Source, bool, error) {})
		present[0].Store(1)
		if s.Asked() {
			t.Error("asked before it began")
		}
		ctx, stop := context.WithCancel(t.Context())
		s.Start(ctx)
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if !s.Asked() {
			t.Error("not asked, with one engine read and one slot empty")
		}
		present[1].Store(2)
		if s.Asked() {
			t.Error("asked, although the slot's engine was not")
		}
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		if !s.Asked() {
			t.Error("not asked, with both engines read")
		}
		stop()
		s.Wait()
	})
}
