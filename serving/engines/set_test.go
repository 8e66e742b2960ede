package engines_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/health"
	"gearshift/serving/engines"
)

// A Prober that is started again goes at its new times to the new path.
func TestAProberStartsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paths [2]atomic.Int32
		p := engines.NewProber(health.DefaultConfig(), []engines.Target{{Server: engine(func(_ context.Context, path string) (int, error) {
			paths[map[string]int{"/health": 0, "/alive": 1}[path]].Add(1)
			return 200, nil
		})}}, 1, func(engines.Target, health.Finding) {})
		for _, c := range []struct {
			interval time.Duration
			path     string
			want     [2]int32 // in a minute, about
		}{
			{2 * time.Second, "/health", [2]int32{29, 0}},
			{10 * time.Second, "/health", [2]int32{6, 0}},
			{0, "/health", [2]int32{}},
			{2 * time.Second, "/alive", [2]int32{0, 29}},
		} {
			config := health.DefaultConfig()
			config.ProbeInterval, config.ProbePath = c.interval, c.path
			p.Set(config)
			ctx, stop := context.WithCancel(t.Context())
			p.Start(ctx)
			time.Sleep(time.Minute)
			stop()
			p.Wait()
			for i := range paths {
				if n := paths[i].Swap(0); n < c.want[i]-2 || n > c.want[i]+2 || n > 0 && c.want[i] == 0 {
					t.Errorf("each %v %s: asked %d times, want about %d", c.interval, c.path, n, c.want[i])
				}
			}
		}
	})
}
