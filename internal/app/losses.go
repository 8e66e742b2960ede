package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/control"
	"gearshift/router/failover"
)

// Loss describes what the loss of a host does to the applications that it answers.
type Loss struct {
	Host     string
	Affected []Affected
	// Ready counts those with a backup that is loaded.
	Ready  int
	Played bool // otherwise Answers and Why are unknown
}

// Affected is an application that the host answered.
type Affected struct {
	Application string
	Quality     float64  // before
	Answers     []Answer // one after the other, as better variants are loaded; none where nothing answers
	Why         string   // nothing does
}

// Answer names what takes an application over, and how long after the loss was noticed.
type Answer struct {
	Variant, Host string
	Quality       float64
	After         time.Duration
}

// Losses plays the loss of each host with the controller of failover, the worst first; the worst few alone
// where that would take long. Loads take the times of the file.
func Losses(s *scenario.Scenario) ([]Loss, error) {
	x := s.FailoverSystem(true)
	before, err := newRehearsal(x, s.FailoverOptions(), nil)
	if err != nil {
		return nil, err
	}
	losses := make([]Loss, len(x.Servers))
	for _, a := range before.controller.Status().Applications {
		if a.Active < 0 {
			continue
		}
		_, _, on := x.Of(a.Active)
		losses[on].Affected = append(losses[on].Affected, Affected{Application: a.Name, Quality: a.Quality})
		if len(a.Backups) > 0 {
			losses[on].Ready++
		}
	}
	order := make([]int, len(losses))
	for i := range losses {
		losses[i].Host, order[i] = x.Servers[i].Name, i
	}
	bare := func(i int) int { return len(losses[i].Affected) - losses[i].Ready }
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(bare(j)-bare(i), len(losses[j].Affected)-len(losses[i].Affected))
	})
	if len(x.Applications)*len(x.Servers) > mostPlayed {
		order = order[:min(len(order), worst)]
	}
	state := before.controller.State()
	for _, i := range order {
		r, err := newRehearsal(x, s.FailoverOptions(), &state)
		if err != nil {
			return nil, err
		}
		if err := r.lose(i, &losses[i]); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(losses, func(a, b Loss) int {
		return cmp.Or(b.Unanswered()-a.Unanswered(), (len(b.Affected)-b.Ready)-(len(a.Affected)-a.Ready))
	})
	return losses, nil
}

// Of more applications × hosts than mostPlayed the losses of the worst hosts alone are played.
const (
	mostPlayed = 5000
	worst      = 8
)

// Unanswered counts the applications that nothing answers after the loss.
func (l *Loss) Unanswered() (n int) {
	for _, a := range l.Affected {
		if l.Played && len(a.Answers) == 0 {
			n++
		}
	}
	return n
}

// rehearsal is a controller whose loads take the times of the file, and never fail.
type rehearsal struct {
	system     *failover.System
	controller *failover.Controller
	now, lost  time.Duration
	loads      []load
	there      map[string]int // instances of a model on a host that are loaded
	answers    map[int][]Answer
}

// load is a load or an unload under way.
type load struct {
	control.Action
	ends time.Duration
}

// newRehearsal makes a controller that has done all that it does before a loss, or goes on from a state in which
// it has.
func newRehearsal(x *failover.System, o failover.Options, state *failover.State) (*rehearsal, error) {
	r := &rehearsal{system: x, there: map[string]int{}, answers: map[int][]Answer{}, lost: control.Never}
	o.Term, o.Report = 1, nil
	if state != nil {
		o.Term = state.Term + 1
	}
	var err error
	if r.controller, err = failover.New(x, o, r); err == nil && state != nil {
		err = r.controller.Resume(*state)
	}
	if err != nil {
		return nil, err
	}
	for _, id := range r.controller.Loaded() {
		r.there[r.model(id)]++
	}
	r.run()
	return r, nil
}

// model names what an instance has loaded, and where.
func (r *rehearsal) model(id int) string {
	app, variant, host := r.system.Of(id)
	v := &r.system.Applications[app].Variants[variant]
	return cmp.Or(v.Model, fmt.Sprint(app, " ", v.Name)) + "@" + r.system.Servers[host].Name
}

// Act implements [control.Actuator].
func (r *rehearsal) Act(a control.Action) error {
	app, variant, host := r.system.Of(a.Replica)
	v := &r.system.Applications[app].Variants[variant]
	switch a.Verb {
	case control.Load:
		ends := r.now
		if r.there[r.model(a.Replica)] == 0 {
			ends += v.Load
		}
		r.loads = append(r.loads, load{a, ends})
	case control.Unload:
		r.loads = append(r.loads, load{a, r.now})
	case control.Activate:
		if r.now >= r.lost {
			r.answers[app] = append(r.answers[app], Answer{v.Name, r.system.Servers[host].Name, v.Quality, r.now - r.lost})
		}
	}
	return nil
}

// run goes on until nothing is being loaded.
func (r *rehearsal) run() {
	r.controller.Wake(r.now)
	for len(r.loads) > 0 {
		k := 0
		for i := range r.loads {
			if r.loads[i].ends < r.loads[k].ends {
				k = i
			}
		}
		x := r.loads[k]
		r.loads = slices.Delete(r.loads, k, k+1)
		r.now = max(r.now, x.ends)
		if x.Verb == control.Load {
			r.there[r.model(x.Replica)]++
		} else {
			r.there[r.model(x.Replica)]--
		}
		_, _, host := r.system.Of(x.Replica)
		r.controller.Observe(control.Event{At: r.now, Kind: x.Verb.Done(), Replica: x.Replica, Host: host, Action: x.Action})
		r.controller.Wake(r.now)
	}
}

// lose has the host lost, and notes what answers its applications then.
func (r *rehearsal) lose(host int, l *Loss) error {
	r.now += time.Second
	r.lost = r.now
	if err := r.controller.Drill(host); err != nil {
		return err
	}
	r.run()
	l.Played = true
	why := map[string]string{}
	for _, a := range r.controller.Status().Applications {
		why[a.Name] = a.Unrecovered
	}
	names := map[string][]Answer{}
	for app, list := range r.answers {
		names[r.system.Applications[app].Name] = list
	}
	for i := range l.Affected {
		a := &l.Affected[i]
		a.Answers, a.Why = names[a.Application], why[a.Application]
	}
	return nil
}

// JudgeLosses refuses a scenario of which no application is answered again, whichever host dies, and warns of hosts
// whose loss leaves some without an answer.
func JudgeLosses(losses []Loss, refuse, warn func(key, format string, args ...any)) {
	affected, again, without, why := 0, 0, []string{}, ""
	for i := range losses {
		l := &losses[i]
		affected += len(l.Affected)
		again += l.Ready
		for _, a := range l.Affected {
			if len(a.Answers) > 0 {
				again++
			}
			why = cmp.Or(why, a.Why)
		}
		if n := l.Unanswered(); n > 0 {
			without = append(without, fmt.Sprintf("%s (%d of %d)", l.Host, n, len(l.Affected)))
		}
	}
	switch {
	case affected > 0 && again == 0:
		refuse("failover", "no application is answered again, whichever host dies: %s; want more headroom, memory or hosts, or smaller variants", why)
	case len(without) > 8:
		warn("failover", "applications stay without an answer if one of %d hosts dies, such as %s; the table has the rest", len(without), strings.Join(without[:3], ", "))
	case len(without) > 0:
		warn("failover", "applications stay without an answer if one of these hosts dies: %s; want more headroom, memory or hosts, or smaller variants", strings.Join(without, ", "))
	}
}
