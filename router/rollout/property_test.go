package rollout_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/rollout"
)

// Orders, failures and deaths of hosts at random: memory is never exceeded, never do fewer locations
// answer than have to (unless a host has died), never does more change at once than may, and once
// nothing disturbs it any more every change ends.
func TestRandomEvents(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		o := quick()
		o.AtOnce, o.Together = 1+random.IntN(3), random.IntN(3) == 0
		o.Tries = 1 + random.IntN(3)
		models, hosts := 1+random.IntN(3), 1+random.IntN(4)
		w := newSimulation(t, models, hosts, models*40+random.IntN(3)*30, 40, o)
		w.random, w.fails = random, 0.3*random.Float64()
		deaths := random.IntN(2) == 0
		dead := false
		for range 1500 {
			dead = w.disturb(deaths) || dead
			w.tick()
			w.check(seed, models, hosts, dead, o)
		}
		w.calm(models)
		for i := range models {
			room := hosts > 1 || w.memory[0] >= models*40+40
			w.until(20*time.Minute, func() bool {
				w.check(seed, models, hosts, dead, o)
				s := w.control.Status(i, w.now)
				return !s.Rolling || !room && s.Waits != "" && s.Locations[0].Phase == ""
			})
			if s := w.control.Status(i, w.now); !s.Rolling {
				for j, v := range w.versions(i) {
					cold := v == "" && dead && w.holds[s.Locations[j].Replicas[s.Locations[j].Active]] == s.Wanted // what its next load is of
					if v != s.Wanted && !cold {
						t.Fatalf("seed %d: model %d is at %v, wanted %q: %+v", seed, i, w.versions(i), s.Wanted, s)
					}
				}
			}
		}
	}
}

// disturb gives orders and has things happen. It reports whether a host has died.
func (w *simulation) disturb(deaths bool) (dead bool) {
	model := w.random.IntN(w.control.Models())
	switch w.random.IntN(100) {
	case 0, 1:
		_ = w.control.Roll(model, strconv.Itoa(1+w.random.IntN(4)), w.now)
	case 2:
		_ = w.control.Pause(model, w.now)
	case 3, 4:
		_ = w.control.Continue(model, w.now)
	case 5:
		_ = w.control.Rollback(model, w.now)
	case 6:
		w.busy[w.random.IntN(len(w.busy))] = w.random.Float64()
	case 7:
		w.worse[strconv.Itoa(1+w.random.IntN(4))] = worse{fails: w.random.Float64()}
	case 8:
		if deaths {
			w.die(w.random.IntN(len(w.memory)))
			dead = true
		}
	case 9:
		w.revive()
	}
	w.next = w.now
	return dead
}

// die has all replicas of a host gone, with what they have loaded.
func (w *simulation) die(host int) {
	for r := range w.on {
		if w.on[r] == host {
			w.state[r], w.has[r] = fleet.Down, ""
		}
	}
}

// revive brings back what has died: the replicas that answered are loaded again with what they held.
func (w *simulation) revive() {
	for r := range w.on {
		if w.state[r] == fleet.Down {
			w.state[r] = fleet.Cold
		}
	}
	for _, r := range w.control.Active() {
		if w.state[r] == fleet.Cold && w.Fits(r) && !w.acting(r) {
			w.state[r], w.has[r] = fleet.Up, w.holds[r]
		}
	}
}

func (w *simulation) acting(r int) bool {
	for _, a := range w.actions {
		if a.Replica == r {
			return true
		}
	}
	return false
}

// calm ends all that disturbs.
func (w *simulation) calm(models int) {
	w.fails, w.worse = 0, map[string]worse{}
	for h := range w.busy {
		w.busy[h] = 0.3
	}
	for i := range models {
		_ = w.control.Continue(i, w.now)
	}
	w.revive()
	w.next = w.now
}

func (w *simulation) check(seed uint64, models, hosts int, dead bool, o rollout.Options) {
	for h := range hosts {
		if n := w.used(h); n > w.memory[h] {
			w.t.Fatalf("seed %d at %v: host %d has %d in use of %d", seed, w.now, h, n, w.memory[h])
		}
	}
	units := 0
	for i := range models {
		changing := 0
		s := w.control.Status(i, w.now)
		for _, p := range s.Locations {
			sum := w.part[p.Replicas[0]] + w.part[p.Replicas[1]]
			inPlace := p.Phase == "emptying" || p.Phase == "clearing" || p.Phase == "reloading"
			if p.Phase != "" && !w.Lost(p.Host) {
				changing++
			}
			if inPlace && sum != 0 || !inPlace && (sum < 0.999 || sum > 1.001) {
				w.t.Fatalf("seed %d at %v: the replicas of a location of model %d get %v of its requests: %+v", seed, w.now, i, sum, p)
			}
		}
		if o.Together {
			changing = min(1, changing)
		}
		units += changing
		if need := max(1, hosts-1); !dead && w.answering(i) < need {
			w.t.Fatalf("seed %d at %v: %d locations of model %d answer, want %d: %+v", seed, w.now, w.answering(i), i, need, s)
		}
	}
	if units > o.AtOnce {
		w.t.Fatalf("seed %d at %v: %d changes at once, want at most %d", seed, w.now, units, o.AtOnce)
	}
}
