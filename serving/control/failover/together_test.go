package failover_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/placement/bands"
	versions "gearshift/router/rollout"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control"
	"gearshift/serving/control/failover"
	"gearshift/serving/control/rollout"
)

// fleetWithAll is a rig with failover, changes of version and rebalancing, and clients that count what is lost.
type fleetWithAll struct {
	*rig
	versions *rollout.Module
	moves    *control.Rebalancing
	lost     atomic.Int64
	asked    atomic.Int64
}

// Memory is that of each host: of 2500, all fits twice, and of 1500, one large model beside two.
func newFleetWithAll(t *testing.T, memory int64) *fleetWithAll {
	f := &fleetWithAll{rig: &rig{t: t, memory: memory, seconds: 1}}
	f.change = func(o *failover.Options, s *serving.Options) {
		f.join(o, s)
	}
	f.open()
	for _, e := range f.engines {
		e.mu.Lock()
		for _, m := range models {
			e.state[m+"@2"], e.takes[m+"@2"] = "UNAVAILABLE", time.Second
		}
		e.unloading = 200 * time.Millisecond
		e.mu.Unlock()
	}
	stop, clients := make(chan struct{}), sync.WaitGroup{}
	for _, task := range tasks {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(25 * time.Millisecond):
				}
				f.asked.Add(1)
				if status, _ := f.ask(task); status != http.StatusOK {
					f.lost.Add(1)
				}
			}
		})
	}
	t.Cleanup(func() { close(stop); clients.Wait() })
	return f
}

// join adds the other controllers to the router, as the product does.
func (f *fleetWithAll) join(o *failover.Options, s *serving.Options) {
	t := o.Table
	half := len(t.Replicas) / 2
	s.Backends = append(s.Backends, s.Backends...)
	names, versioned := make([]*config.Name, len(t.Replicas)), []versions.Versioned(nil)
	for i := range t.Replicas {
		names[i] = new(config.Name)
		names[i].Set(s.Backends[i].Model)
		s.Backends[i].Versioned = names[i]
	}
	for v, name := range models {
		m := versions.Versioned{Name: name, Version: "1"}
		for h := range hosts {
			r := h*len(models) + v
			m.Locations = append(m.Locations, versions.Location{Host: h, Replicas: [2]int{r, half + r}})
		}
		versioned = append(versioned, m)
	}
	c := versions.DefaultOptions()
	c.Warmup = time.Second
	s.Busy = signals.NewBusy(s.Router.Ledger(), signals.BusyOptions{
		Takes:  func(int, int) time.Duration { return 2 * time.Millisecond },
		AtOnce: slices.Repeat([]int{8}, len(t.Replicas)),
	})
	var err error
	if f.versions, err = rollout.New(rollout.Options{Models: versioned, Controller: c, Ledger: s.Router.Ledger(), Names: names, Pattern: "{model}@{version}", Busy: s.Busy, Log: o.Log}); err != nil {
		f.t.Fatal(err)
	}
	if f.moves, err = control.NewRebalancing(control.RebalancingOptions{
		Ledger: s.Router.Ledger(), Busy: s.Busy, Log: o.Log,
		Settings: bands.Settings{Options: bands.DefaultOptions(), Period: 5 * time.Second, AtOnce: 1, Threshold: 0.01, Newest: 1},
	}); err != nil {
		f.t.Fatal(err)
	}
	s.Modules = append(s.Modules, f.versions, f.moves)
}

// roll orders a version of a model.
func (f *fleetWithAll) roll(model, to string) {
	f.t.Helper()
	if w := post(f.admin(), "/admin/versions/"+model+"/roll", map[string]string{"to": to}); w.Code != http.StatusOK {
		f.t.Fatalf("roll: %d %s", w.Code, w.Body)
	}
}

// version is how a model stands.
func (f *fleetWithAll) version(model string) rollout.Version {
	synctest.Wait()
	list := f.versions.Versions()
	return list[slices.IndexFunc(list, func(v rollout.Version) bool { return v.Model == model })]
}

// until lets time pass until the condition holds, for a minute at most.
func (f *fleetWithAll) until(what string, done func() bool) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("not within a minute: %s; log:\n%s", what, f.logs.String())
		}
	}
}

func (f *fleetWithAll) has(host int, model string) bool {
	return slices.Contains(f.engines[host].loaded(), model)
}

// A version is changed on a host whose applications failover keeps answered: the instance is there all the
// time, nothing is failed over, and what has the new version is the application's.
func TestAVersionChangesUnderFailover(t *testing.T) {
	t.Run("beside the old one", func(t *testing.T) { changesUnderFailover(t, 2500) })
	t.Run("in its place", func(t *testing.T) { changesUnderFailover(t, 1500) })
}

func changesUnderFailover(t *testing.T, memory int64) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetWithAll(t, memory)
		before := f.after(5*time.Second, "large-one@h1", "large-two@h2", "large-three@h3")
		f.roll("large-one", "2")
		f.until("large-one rolled", func() bool { return f.version("large-one").State == "steady" })
		after := f.after(time.Second, "large-one@h1", "large-two@h2", "large-three@h3")
		if !f.has(0, "large-one@2") || f.has(0, "large-one") {
			t.Errorf("h1 has %v, want the new version alone", f.engines[0].loaded())
		}
		if before.Counts != after.Counts || after.Unprotected > 0 {
			t.Errorf("failover counted %+v before the roll and %+v after it, %d unprotected", before.Counts, after.Counts, after.Unprotected)
		}
		f.check()
	})
}

// check is that nothing was lost, and nothing moved that failover holds.
func (f *fleetWithAll) check() {
	f.t.Helper()
	if n := f.lost.Load(); n > 0 || f.asked.Load() < 300 {
		f.t.Errorf("%d of %d requests were lost; log:\n%s", n, f.asked.Load(), f.logs.String())
	}
	if s := f.moves.Situation(); s.Moved+s.Failed > 0 {
		f.t.Errorf("moved %d replicas, and %d moves failed, of what failover holds", s.Moved, s.Failed)
	}
}

// A host dies while a version is changed there. Its application is failed over at once, the version is changed
// elsewhere, and the host, which comes back with nothing loaded, loads the version that is wanted by then.
func TestAHostDiesDuringARoll(t *testing.T) {
	for phase, memory := range map[string]int64{"loading": 2500, "shifting": 2500, "unloading": 2500, "clearing": 1500, "reloading": 1500} {
		t.Run(phase, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleetWithAll(t, memory)
				f.after(5*time.Second, "large-one@h1", "large-two@h2", "large-three@h3")
				f.roll("large-one", "2")
				f.until("large-one "+phase, func() bool { return f.version("large-one").Locations[0].Doing == phase })
				f.roll("large-two", "2")
				f.engines[0].kill()
				f.until("one answered elsewhere", func() bool { a := actives(f.look())[0]; return a != "" && a != "large-one@h1" })
				f.until("large-two changed elsewhere", func() bool { return f.has(1, "large-two@2") && !f.has(1, "large-two") })
				f.engines[0].start()
				f.until("one at home", func() bool { return actives(f.look())[0] == "large-one@h1" })
				f.until("all steady", func() bool {
					return f.version("large-one").State == "steady" && f.version("large-two").State == "steady"
				})
				if f.after(2*time.Second, "large-one@h1", "large-two@h2", "large-three@h3"); !f.has(0, "large-one@2") || f.has(0, "large-one") {
					t.Errorf("h1 has %v, want the new version alone", f.engines[0].loaded())
				}
				if loads := f.engines[0].ordered("load large-one"); loads > 0 {
					t.Errorf("the old version was loaded %d times on the host that came back", loads)
				}
				if v := f.version("large-one"); v.Version != "2" || v.Backs > 0 {
					t.Errorf("%+v", v)
				}
				f.check()
			})
		})
	}
}

// ordered counts how often the engine was given the order.
func (e *engine) ordered(order string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, x := range e.orders {
		if x == order {
			n++
		}
	}
	return n
}

// An operator's order comes before what failover wants: the replica is unloaded, and failover makes up for it.
func TestAnOperatorUnloadsWhatFailoverHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleetWithAll(t, 2500)
		f.after(5*time.Second, "large-one@h1", "large-two@h2", "large-three@h3")
		if w := post(f.admin(), "/admin/replicas/large-one@h1/unload?wait=0s", nil); w.Code >= 300 {
			t.Fatalf("unload: %d %s", w.Code, w.Body)
		}
		f.until("unloaded", func() bool { return f.engines[0].ordered("unload large-one") > 0 })
		f.until("loaded again", func() bool { return f.has(0, "large-one") && actives(f.look())[0] == "large-one@h1" })
		f.check()
	})
}

// Whatever happens to hosts and is ordered, at random, in the end everything is where it belongs: applications at
// home, no change under way, and the versions that are wanted everywhere, unless there is no room for two and nothing
// else answers meanwhile.
func TestAllSettlesInTheEnd(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 11))
				f := newFleetWithAll(t, []int64{1500, 2500}[seed%2])
				time.Sleep(5 * time.Second)
				version := 1
				for range 40 {
					h, m := random.IntN(len(hosts)), models[random.IntN(len(models))]
					switch random.IntN(5) {
					case 0, 1:
						version = 3 - version
						post(f.admin(), "/admin/versions/"+m+"/roll", map[string]string{"to": strconv.Itoa(version)})
					case 2:
						post(f.admin(), "/admin/versions/"+m+"/rollback", nil)
					case 3:
						if !f.engines[h].gone() && !slices.ContainsFunc(f.engines, (*engine).gone) {
							f.engines[h].kill()
						}
					case 4:
						post(f.admin(), "/admin/replicas/"+m+"@"+hosts[h]+"/unload?wait=0s", nil)
					}
					time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
					for _, e := range f.engines {
						if e.gone() && random.IntN(2) == 0 {
							e.start()
						}
					}
				}
				for _, e := range f.engines {
					if e.gone() {
						e.start()
					}
				}
				f.until("all is settled", func() bool {
					s := f.look()
					return slices.Equal(actives(s), []string{"large-one@h1", "large-two@h2", "large-three@h3"}) && s.Unprotected == 0 &&
						!slices.ContainsFunc(f.versions.Versions(), func(v rollout.Version) bool { return unsettled(v, seed%2 == 0) })
				})
			})
		})
	}
}

// unsettled reports whether the version is being changed, or waits to be; not for what it may wait for if it is tight.
func unsettled(v rollout.Version, tight bool) bool {
	changing := slices.ContainsFunc(v.Locations, func(l rollout.Location) bool { return l.Doing != "" })
	return changing || v.State != "steady" && !(tight && strings.HasPrefix(v.Waits, "a host has no room for both versions"))
}
