package failover_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/failover"
)

// worth counts the backups, and sums their Σ quality × rate.
func worth(f *fake) (backups int, sum float64) {
	for i, a := range f.c.Status().Applications {
		for _, id := range a.Backups {
			v := id.Variant
			backups, sum = backups+1, sum+f.problem.Applications[i].Rate*f.problem.Applications[i].Variants[v].Quality
		}
	}
	return backups, sum
}

// TestBackupsBecomeBetterWhileNothingHappens: after losses, when backups were planned as small as can be, they become about
// as good again as a controller makes them that plans them from nothing. Each application keeps a backup that is loaded all the
// while, and once a plan is no better by what moves are worth, nothing moves any more.
func TestBackupsBecomeBetterWhileNothingHappens(t *testing.T) {
	var got, want float64
	for seed := range uint64(6) {
		draw := func() *fake {
			s := drawnProblem(rand.New(rand.NewPCG(seed, 58)), 24, 5, 2, 0.5)
			return newFake(t, s, failover.Options{Term: 1, Alpha: 0.1, Headroom: 0.3})
		}
		fresh, f := draw(), draw()
		fresh.advance(60 * time.Second)
		f.advance(60 * time.Second)
		f.kill(0)
		f.advance(90 * time.Second)
		f.revive(0)
		protected := map[int]bool{}
		for f.now < 200*time.Second {
			f.advance(f.now + 50*time.Millisecond)
			for i, a := range f.c.Status().Applications {
				loaded := false
				for _, held := range f.holds {
					for id := range held {
						app := id.App
						loaded = loaded || app == i && id != a.Active
					}
				}
				if protected[i] && !loaded {
					t.Fatalf("seed %d: %s has lost its backup at %v", seed, a.Name, f.now)
				}
				protected[i] = f.now > 120*time.Second && loaded
			}
		}
		n, x := worth(f)
		most, y := worth(fresh)
		t.Logf("seed %d: %d backups worth %.3f, from nothing %d worth %.3f", seed, n, x, most, y)
		if got, want = got+x, want+y; n < most {
			t.Errorf("seed %d: %d backups, from nothing %d", seed, n, most)
		}
		loads := f.c.Status().Counts.Loads
		if f.advance(900 * time.Second); f.c.Status().Counts.Loads != loads {
			t.Errorf("seed %d: backups are still moved", seed)
		}
	}
	if got < 0.97*want { // some have no room beside what is to be replaced
		t.Errorf("worth %.3f, from nothing %.3f", got, want)
	}
}
