package scenario

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/rollout"
	"gearshift/workloads"
)

// Rollout is how versions of models replace each other while a router serves. docs/versions.md
// describes what the keys do.
type Rollout struct {
	// Pattern is how engines call other versions of a model than the first.
	Pattern string `yaml:"name"`
	AtOnce  int    `yaml:"at_once"`
	// Utilisation is that of a host from which on no change begins there.
	Utilisation float64 `yaml:"utilisation"`
	// StaleAfter is how long a version may be wanted, and WhenStale what is done after that: one of
	// [WhensStale].
	StaleAfter time.Duration `yaml:"stale_after"`
	WhenStale  string        `yaml:"when_stale"`
	// Together loads the new version on all hosts before any request goes to it.
	Together     bool          `yaml:"together,omitempty"`
	Shares       []float64     `yaml:"shares,flow"`
	Warmup       time.Duration `yaml:"warmup"`
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	Tries        int           `yaml:"tries"`
	RetryAfter   time.Duration `yaml:"retry_after"`
	// Least, Level, Failures and Slower are of the test by which a model goes back.
	Least    int     `yaml:"least"`
	Level    float64 `yaml:"level"`
	Failures float64 `yaml:"failures"`
	Slower   float64 `yaml:"slower"`
	// Keep is how many replicas have to answer at any time, by model.
	Keep map[string]int `yaml:"keep,flow,omitempty"`
}

// field matches what [Rollout.Pattern] has replaced.
var field = regexp.MustCompile(`\{[^{}]*\}`)

// WhensStale are the values of [Rollout.WhenStale]. The first is the default.
var WhensStale = []string{"go", "report"}

func defaultRollout() Rollout {
	o := rollout.DefaultOptions()
	return Rollout{
		Pattern: "{model}@{version}", AtOnce: o.AtOnce, Utilisation: o.Utilisation, StaleAfter: o.StaleAfter, WhenStale: WhensStale[0],
		Shares: o.Shares, Warmup: o.Warmup, DrainTimeout: o.DrainTimeout, Tries: o.Tries, RetryAfter: o.RetryAfter,
		Least: o.Test.Least, Level: o.Test.Level, Failures: o.Test.Failures, Slower: o.Test.Slower,
	}
}

// rolloutSection describes how versions change. It is not of the world that policies are trained in,
// whose models do not change.
func rolloutSection() registered {
	return section[Rollout]{key: "rollout", initial: defaultRollout, check: (*checker).rollout}
}

// Rollout returns the section; nil where the file has none.
func (s *Scenario) Rollout() *Rollout {
	if !s.rolling {
		return nil
	}
	return Of[Rollout](s)
}

func (c *checker) rollout(x *Rollout) {
	const key = "rollout"
	if !c.s.rolling {
		for i, m := range c.s.Weights {
			c.judgeIf(m.RealTime, child(item("models", i), "real_time"), "is of a model whose versions would be changed; want the section rollout, or no real_time")
		}
		return
	}
	c.judgeIf(len(c.s.Weights) == 0, key, "there are no models whose versions could change; want models, and the model of each variant")
	c.judgeIf(!strings.Contains(x.Pattern, "{version}"), child(key, "name"), "%q gives all versions one name; want {version} in it, as in {model}@{version}", x.Pattern)
	for _, field := range field.FindAllString(x.Pattern, -1) {
		c.judgeIf(field != "{model}" && field != "{version}", child(key, "name"), "%q stands for nothing; %s", field, hint(field, []string{"{model}", "{version}"}))
	}
	c.judgeIf(!slices.Contains(WhensStale, x.WhenStale), child(key, "when_stale"), "unknown value %q; %s", x.WhenStale, hint(x.WhenStale, WhensStale))
	c.judgeIf(!(x.Utilisation > 0 && x.Utilisation <= 1), child(key, "utilisation"), "want a share above 0 and at most 1, not %v", x.Utilisation)
	c.rolloutTimes(x)
	c.rolloutTest(x)
	last := 0.0
	for i, share := range x.Shares {
		c.judgeIf(!(share > last && share < 1), item(child(key, "shares"), i), "want parts above 0 and below 1 that grow, not %v", share)
		last = share
	}
	if !c.known("models", len(c.s.Weights)) {
		return
	}
	for name, n := range sorted(x.Keep) {
		at := child(child(key, "keep"), name)
		switch i := indexOf(c.s.modelNames(), name); {
		case i < 0:
			c.judge(at, "unknown model; %s", hint(name, c.s.modelNames()))
		case c.sound("replicas"):
			most := len(c.s.rolled(i))
			if most == 0 {
				c.judge(at, "no replica of %s changes its version; want another model, or none", name)
				continue
			}
			c.judgeIf(n < 1 || n > most, at, "want a number of its replicas, from 1 to %d, not %d", most, n)
		}
	}
}

func (c *checker) rolloutTimes(x *Rollout) {
	const key = "rollout"
	for _, t := range []struct {
		name        string
		value, from time.Duration
	}{{"stale_after", x.StaleAfter, 0}, {"warmup", x.Warmup, 0}, {"drain_timeout", x.DrainTimeout, time.Millisecond}, {"retry_after", x.RetryAfter, time.Millisecond}} {
		c.judgeIf(t.value < t.from || t.value > 30*24*time.Hour, child(key, t.name), "want a time from %v to 720h, not %v", t.from, t.value)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"at_once", x.AtOnce}, {"tries", x.Tries}} {
		c.judgeIf(n.value < 1 || n.value > 1000, child(key, n.name), "want a number from 1 to 1000, not %d", n.value)
	}
}

func (c *checker) rolloutTest(x *Rollout) {
	const key = "rollout"
	c.judgeIf(x.Least < 2, child(key, "least"), "want 2 requests or more, not %d", x.Least)
	c.judgeIf(!(x.Level > 0 && x.Level <= 0.5), child(key, "level"), "want a probability above 0 and at most 0.5, not %v", x.Level)
	c.judgeIf(!(x.Failures >= 0 && x.Failures < 1), child(key, "failures"), "want a share from 0 to below 1, not %v", x.Failures)
	c.judgeIf(!(x.Slower >= 1 && x.Slower <= 100), child(key, "slower"), "want a factor from 1 to 100, not %v", x.Slower)
}

// rolled lists the replicas of a model whose versions change.
func (s *Scenario) rolled(model int) (list []placedReplica) {
	for _, p := range s.listedReplicas() {
		if s.changes(p, model) {
			list = append(list, p)
		}
	}
	return list
}

// changes reports whether the replica is of the model and gets its versions.
func (s *Scenario) changes(p placedReplica, model int) bool {
	m := &s.Weights[model]
	return !m.RealTime && len(m.Modalities) == 0 && p.variant >= 0 && p.host >= 0 && p.worker == 0 && s.Variants[p.variant].Model == m.Name
}

// rolls reports whether versions of the replica change while the router serves.
func (s *Scenario) rolls(p placedReplica) bool {
	model := indexOf(s.modelNames(), s.Variants[p.variant].Model)
	return s.rolling && model >= 0 && s.changes(p, model)
}

// secondSuffix ends the name of a replica that takes turns with the one of the name before it.
const secondSuffix = "#2"

// Second reports whether the replica of an index takes turns with one before it.
func (s *Scenario) Second(replica int) bool { return s.placedReplicas()[replica].second }

// seconds lists the replicas that take turns with those of models whose versions change: they are cold
// at the start, and get the next version.
func (s *Scenario) seconds() (list []placedReplica) {
	if !s.rolling {
		return nil
	}
	for i := range s.Weights {
		for _, p := range s.rolled(i) {
			p.second, p.state = true, fleet.Cold
			list = append(list, p)
		}
	}
	return list
}

// Versioned returns the models whose versions change, with those that are left out, and for each
// replica whether its model's name may change.
func (s *Scenario) Versioned() (list []rollout.Versioned, named []bool) {
	named = make([]bool, len(s.placedReplicas()))
	index := map[string]int{}
	for i, p := range s.placedReplicas() {
		index[s.replicaName(p)] = i
	}
	for i, w := range s.Weights {
		m := rollout.Versioned{Name: w.Name, Version: w.Version, RealTime: w.RealTime, Keep: Of[Rollout](s).Keep[w.Name]}
		if m.Version == "" {
			m.Version = "1"
		}
		for _, p := range s.rolled(i) {
			first := index[s.replicaName(p)]
			p.second = true
			second := index[s.replicaName(p)]
			named[first], named[second] = true, true
			m.Locations = append(m.Locations, rollout.Location{Host: p.host, Replicas: [2]int{first, second}})
		}
		if m.RealTime {
			m.Locations = s.realTime(w.Name, index)
		}
		if len(m.Locations) > 0 {
			list = append(list, m)
		}
	}
	return list, named
}

// realTime lists where a model is that is updated in real time.
func (s *Scenario) realTime(model string, index map[string]int) (list []rollout.Location) {
	for _, p := range s.listedReplicas() {
		if s.Variants[p.variant].Model == model {
			list = append(list, rollout.Location{Host: p.host, Replicas: [2]int{index[s.replicaName(p)], -1}})
		}
	}
	return list
}

// RolloutOptions returns the options of the controller of versions.
func (s *Scenario) RolloutOptions() rollout.Options {
	x, o := Of[Rollout](s), rollout.DefaultOptions()
	o.AtOnce, o.Utilisation, o.StaleAfter, o.OnlyReport = x.AtOnce, x.Utilisation, x.StaleAfter, x.WhenStale == WhensStale[1]
	o.Together, o.Shares, o.Warmup, o.DrainTimeout = x.Together, x.Shares, x.Warmup, x.DrainTimeout
	o.Tries, o.RetryAfter = x.Tries, x.RetryAfter
	o.Test = rollout.Test{Least: x.Least, Level: x.Level, Failures: x.Failures, Slower: x.Slower}
	return o
}

// rolling warns of models whose versions can never change: of the replicas that are up at the start so many
// have to answer that none may go, and a host has no room for both versions.
func (w *warner) rolling() {
	if !w.s.rolling {
		return
	}
	ledger := fleet.NewLedger(w.s.ServingTable())
	versions := lifecycle.New(ledger, nil, lifecycle.Options{}).Claim(lifecycle.Versions, nil)
	models, _ := w.s.Versioned()
	for i := range models {
		m := &models[i]
		up, tight := 0, -1
		for _, l := range m.Locations {
			if ledger.State(l.Replicas[0]) == fleet.Up {
				up++
				if l.Replicas[1] >= 0 && !versions.Fits(l.Replicas[1]) {
					tight = l.Host
				}
			}
		}
		if tight >= 0 && up <= m.Least(up) {
			w.warn("rollout.keep", "versions of %s cannot change: %s has no room for two, and %d of its replicas, of %d that are up, have to answer meanwhile; want more replicas, or more memory", m.Name, w.s.Hosts[tight].Name, m.Least(up), up)
		}
	}
}

// versioned reports why another version cannot be ordered.
func (s *Scenario) versioned(step workloads.Step) error {
	if !s.rolling {
		return fmt.Errorf("there is no section rollout; want one")
	}
	name, version, _ := strings.Cut(step.Replica, "=")
	models, _ := s.Versioned()
	if !slices.ContainsFunc(models, func(m rollout.Versioned) bool { return m.Name == name && !m.RealTime }) {
		return fmt.Errorf("no model %q changes its version; %s", name, hint(name, s.modelNames()))
	}
	return rollout.CheckVersion(version)
}
