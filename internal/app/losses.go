package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"gearshift/env"
	"gearshift/internal/scenario"
	"gearshift/router/control"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
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

// Losses plays the loss of each host on a simulated fleet, with the controllers of failover and of states, the worst
// first; the worst few alone where that would take long.
func Losses(s *scenario.Scenario) ([]Loss, error) {
	before, err := newRehearsal(s, nil)
	if err != nil {
		return nil, err
	}
	x := s.FailoverProblem(true)
	losses := make([]Loss, len(x.Hosts))
	for _, a := range before.failover.Status().Applications {
		on := a.Active.Host
		if on < 0 {
			continue
		}
		losses[on].Affected = append(losses[on].Affected, Affected{Application: a.Name, Quality: a.Quality})
		if len(a.Backups) > 0 {
			losses[on].Ready++
		}
	}
	order := make([]int, len(losses))
	for i := range losses {
		losses[i].Host, order[i] = x.Hosts[i].Name, i
	}
	bare := func(i int) int { return len(losses[i].Affected) - losses[i].Ready }
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(bare(j)-bare(i), len(losses[j].Affected)-len(losses[i].Affected))
	})
	if len(x.Applications)*len(x.Hosts) > mostPlayed {
		order = order[:min(len(order), worst)]
	}
	for _, i := range order {
		r, err := newRehearsal(s, before)
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

// rehearsal is a simulated fleet without requests, on which loads take the times of the file, and never fail.
type rehearsal struct {
	simulator *env.Simulator
	ledger    *fleet.Ledger
	states    *lifecycle.Controller
	failover  *failover.Replicas
	problem   *failover.Problem
	now, lost time.Duration
	answers   map[string][]Answer // since the loss
}

// newRehearsal makes a fleet on which all has been done that is done before a loss, or goes on from one of which
// that is so.
func newRehearsal(s *scenario.Scenario, before *rehearsal) (*rehearsal, error) {
	c, err := s.WithoutPrompts().Simulation()
	if err != nil {
		return nil, err
	}
	r := &rehearsal{problem: s.FailoverProblem(true), ledger: fleet.NewLedger(c.Table), lost: control.Never, answers: map[string][]Answer{}}
	o := s.FailoverOptions()
	o.Term, o.Heartbeat, o.Report = 1, -1, r.follow // it is told of losses
	if before != nil {
		o.Term = 2
		for i := range c.Table.Replicas {
			c.Initial = append(c.Initial, before.ledger.Placed(i))
		}
	}
	var fault error
	c.Evidence = env.Evidence{}
	c.Controllers = func(w env.ControlAccess) []control.Controller {
		r.states = lifecycle.New(w.Ledger, w.Actuator, lifecycle.Options{Nudge: w.Rouse})
		if r.failover, fault = failover.NewReplicas(r.problem, o, c.Table, unasked{}); fault == nil && before != nil {
			fault = r.failover.Resume(before.failover.State())
		}
		if fault != nil {
			return nil
		}
		r.failover.Claim(r.states.Claim, func(replica int) {
			fault = fmt.Errorf("%s has to be up at the start", c.Table.Replicas[replica].Name)
		})
		return []control.Controller{r.states, r.failover}
	}
	if r.simulator, err = env.NewSimulator(&c); err != nil {
		return nil, err
	}
	if r.simulator.Follow(&c, r.ledger, 0, nil); fault != nil {
		return nil, fault
	}
	return r, r.settle()
}

// unasked are hosts of a fleet without requests: nothing is taken out, and no question answered.
type unasked struct{}

func (unasked) Leave(int, time.Duration)  {}
func (unasked) Return(int, time.Duration) {}
func (unasked) Poll(int)                  {}
func (unasked) Ask(int)                   {}
func (unasked) Driven(int) bool           { return true }

// follow notes what answers after the loss.
func (r *rehearsal) follow(s failover.Step) {
	if s.At < r.lost || s.Kind != failover.StepNotified && s.Kind != failover.StepSwapped {
		return
	}
	a := &r.problem.Applications[s.Application]
	r.answers[a.Name] = append(r.answers[a.Name], Answer{a.Variants[s.Variant].Name, r.problem.Hosts[s.Host].Name, s.Quality, s.At - r.lost})
}

// longest bounds how long loads may go on.
const longest = 24 * time.Hour

// settle goes on until nothing is being loaded.
func (r *rehearsal) settle() error {
	for end := r.now + longest; r.now < end; {
		r.now += time.Second
		if _, err := r.simulator.Advance(r.now, nil); err != nil {
			return err
		}
		if r.states.Settled() && !r.failover.Ordering() {
			return nil
		}
	}
	return nil
}

// lose has the host lost, and notes what answers its applications then.
func (r *rehearsal) lose(host int, l *Loss) error {
	r.lost = r.now
	if err := r.failover.Drill(host); err != nil {
		return err
	}
	r.simulator.Rouse()
	if err := r.settle(); err != nil {
		return err
	}
	l.Played = true
	why := map[string]string{}
	for _, a := range r.failover.Status().Applications {
		why[a.Name] = a.Unrecovered
	}
	for i := range l.Affected {
		a := &l.Affected[i]
		a.Answers, a.Why = r.answers[a.Application], why[a.Application]
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
