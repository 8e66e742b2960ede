package env

import (
	"time"

	"gearshift/env/engine"
	"gearshift/router/drift"
	"gearshift/router/fleet"
)

// driftFeed passes the token times of an episode's answers to a drift monitor, as a router
// does with the streams that it serves. The monitor compares them with the declared
// profiles, and writes into the ledger how slow each replica is. All methods do nothing on
// a nil driftFeed.
type driftFeed struct {
	monitor *drift.Monitor
	stays   []drift.Stay // by sequence ID
	doubted bool
}

// newDriftFeed returns nil where the engines follow the declared profiles and nothing times them, and where there
// are several routers: one router's requests alone do not explain how slow an engine is.
func newDriftFeed(c *Config, ledger *fleet.Ledger) *driftFeed {
	if c.Declared == nil && c.Timed == nil || c.Routers.Number > 1 {
		return nil
	}
	declared := c.Declared
	if declared == nil {
		declared = c.Profiles
	}
	m := drift.New(drift.Config{
		Table: c.Table, Profiles: declared, Sequences: c.Engine.MaxSequences,
		Chunked: c.Engine.Scheduler == engine.ChunkedPrefill, Timed: c.Timed,
	})
	p := &driftFeed{monitor: m}
	if !c.Uncorrected {
		m.OnSlow = ledger.SlowDown
	}
	if c.Doubt {
		m.OnDoubt = func(doubted bool) { p.doubted = doubted }
	}
	return p
}

// Drift returns the monitor that compares answers with profiles; nil if none does.
func (s *Simulator) Drift() *drift.Monitor {
	if s.drift == nil {
		return nil
	}
	return s.drift.monitor
}

// watch feeds the token times of answers to p from now on, if p is not nil.
func (s *Simulator) watch(p *driftFeed) {
	if s.drift = p; p != nil {
		s.agenda.Add(Item{At: drift.FadeEvery, Kind: beliefsFade})
	}
}

// fade weakens the estimates of replicas that have not answered for long, and returns when
// to do so next.
func (p *driftFeed) fade(now time.Duration) time.Duration {
	p.monitor.Fade(now)
	return now + drift.FadeEvery
}

// place passes on that a request has its place.
func (p *driftFeed) place(id uint64, o *Outcome, now time.Duration) {
	if p == nil {
		return
	}
	for uint64(len(p.stays)) <= id {
		p.stays = append(p.stays, drift.Stay{})
	}
	p.monitor.Place(&p.stays[id], o.Replica, now, o.Request.PromptTokens)
}

// first passes on a sequence's first token.
func (p *driftFeed) first(id uint64, o *Outcome) {
	if p == nil {
		return
	}
	p.monitor.Enter(&p.stays[id], o.Replica, o.FirstToken, o.Request.PromptTokens, 1, true)
}

// advance passes on how many tokens each of the host's sequences has.
func (p *driftFeed) advance(s *Simulator, host int, now time.Duration) {
	if p == nil {
		return
	}
	for i := range s.table.ReplicasOn(host) {
		s.hosts[host].Each(i, func(id uint64, generated int) {
			if id&(ofJobs|OfBeside) != 0 {
				return
			}
			if generated > 1 {
				p.monitor.Advance(&p.stays[id], now, s.jobs[id].outcome.Request.PromptTokens, generated)
			}
		})
	}
}

// last passes on a sequence's end. The sequence is whole unless its host was lost.
func (p *driftFeed) last(id uint64, o *Outcome) {
	if p != nil && id < uint64(len(p.stays)) {
		p.monitor.Leave(&p.stays[id], o.Finished, o.OutputTokens, !o.Failed)
	}
}
