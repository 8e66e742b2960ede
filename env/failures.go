package env

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gearshift/router/fleet"
)

// HostLoss is the loss of a host during an episode. At From, all that waits or runs on it
// ends as failed, with no utility; the requests are not tried again. Its replicas are down
// in the ledger from From until To, when they are back and empty. What an engine does at
// From itself comes before the loss.
type HostLoss struct {
	// Host is an index of the table.
	Host int
	// From and To are times since the episode began. A To of zero is never: the host is
	// lost for good.
	From, To time.Duration
	// Silent is a loss without a sign: nothing is refused. Otherwise the host's process is gone, and its
	// port refuses, Refuses after the loss: a system gives the memory of a process that is killed back
	// before it closes its connections.
	Silent  bool
	Refuses time.Duration
}

// holds reports whether the host is down at that time.
func (l *HostLoss) holds(at time.Duration) bool {
	return at >= l.From && (l.To == 0 || at < l.To)
}

// Lose adds the loss of a host by name.
func (c *Config) Lose(host string, from, to time.Duration) error {
	var names []string
	for i, h := range c.Table.Hosts {
		if h.Name == host {
			c.Losses = append(slices.Clip(c.Losses), HostLoss{Host: i, From: from, To: to})
			return nil
		}
		names = append(names, h.Name)
	}
	return fmt.Errorf("no host %q; there are %s", host, strings.Join(names, ", "))
}

// checkLosses reports every loss that cannot be, and where requests are routed each that leaves no replica: an
// environment needs an action at each arrival.
func checkLosses(losses []HostLoss, t *fleet.Table, routed bool) error {
	var faults []error
	for i := range losses {
		l := &losses[i]
		switch {
		case l.Host < 0 || l.Host >= len(t.Hosts):
			faults = append(faults, fmt.Errorf("host loss %d: host %d of %d", i, l.Host, len(t.Hosts)))
		case l.From < 0 || l.To != 0 && l.To <= l.From:
			faults = append(faults, fmt.Errorf("host loss %d: from %v to %v; it must begin at 0 or later and end after it begins", i, l.From, l.To))
		case routed && !slices.ContainsFunc(t.Replicas, func(r fleet.Replica) bool {
			return !slices.ContainsFunc(losses, func(o HostLoss) bool { return o.Host == r.Host && o.holds(l.From) })
		}):
			faults = append(faults, fmt.Errorf("host loss %d: from %v on no replica is left", i, l.From))
		}
	}
	return errors.Join(faults...)
}

// byStart returns the losses in the order in which they begin.
func byStart(losses []HostLoss) []HostLoss {
	ordered := slices.Clone(losses)
	slices.SortStableFunc(ordered, func(a, b HostLoss) int { return int(min(1, max(-1, a.From-b.From))) })
	return ordered
}

// lose carries out the loss with that index, and appends the requests that it ends to dst.
func (s *Simulator) lose(i int, dst []Outcome) ([]Outcome, error) {
	l := &s.losses[i]
	s.nextLoss++
	if l.To != 0 {
		s.agenda.Add(Item{At: l.To, Kind: hostBack, Index: l.Host})
	}
	s.beat()
	s.down[l.Host]++
	switch {
	case l.Silent:
	case l.Refuses > 0:
		s.agenda.Add(Item{At: l.From + l.Refuses, Kind: hostRefuses, Index: l.Host})
	default:
		s.gone[l.Host] = true
	}
	s.markLoss(l.Host)
	var err error
	s.laws[l.Host].Break(-1, l.From, func(id uint64) {
		if s.follows(id) || id&ofJobs != 0 {
			s.breakAt(id, l.From)
			return
		}
		var o Outcome
		if o, err = s.broken(id, l.From); err == nil {
			dst = append(dst, o)
		}
	})
	s.powerOff(l.Host, l.From)
	s.turnAll(l.Host)
	s.order.fix(l.Host)
	s.marginal.lose(l.Host)
	s.difference.lose(l.Host)
	if err == nil && s.check {
		err = s.checkHost(l.Host)
	}
	return dst, err
}

// turnAll has the law of a host that is lost, or back, follow the states of its replicas.
func (s *Simulator) turnAll(host int) {
	for _, r := range s.table.ReplicasOn(host) {
		if is := s.engineStates[r].is; s.down[host] > 0 && is != fleet.Cold {
			s.turn(r, fleet.Down)
		} else {
			s.turn(r, is)
		}
	}
}

// markLoss sets in the ledgers whether the replicas on the host are up. With
// [Evidence] it does nothing: the controllers find out.
func (s *Simulator) markLoss(host int) {
	if s.follower != nil {
		defer s.follower.Turned(host)
	}
	if s.evidence.on() {
		return
	}
	for _, l := range s.ledgers {
		for _, r := range s.table.ReplicasOn(host) {
			l.SetUp(r, s.down[host] == 0)
		}
	}
}

// Down reports whether a host is lost, and whether its process is known to be gone: its port refuses.
func (s *Simulator) Down(host int) (lost, gone bool) { return s.down[host] > 0, s.gone[host] }

// bringBack ends a loss of a host.
func (s *Simulator) bringBack(host int, at time.Duration) {
	if s.down[host]--; s.down[host] == 0 {
		s.gone[host] = false
		s.beaten[host] = at
	}
	s.markLoss(host)
	s.turnAll(host)
	if s.down[host] == 0 {
		s.register(host)
	}
}
