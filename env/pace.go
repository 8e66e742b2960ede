package env

import (
	"time"

	"gearshift/env/engine"
	"gearshift/router/drift"
	"gearshift/router/fleet"
)

// pace holds the tokens of an episode against the profiles that policies reckon with,
// and tells the ledger which replicas are slower, as a router does of the streams that
// it serves.
type pace struct {
	monitor *drift.Monitor
	stays   []drift.Stay // by sequence ID
}

// newPace is nil where profiles are what they are declared to be, or, as in a router,
// where others count requests of their own.
func newPace(c *Config, ledger *fleet.Ledger) *pace {
	if c.Declared == nil || c.Routers.Number > 1 {
		return nil
	}
	m := drift.New(drift.Config{
		Table: c.Table, Profiles: c.Declared, Sequences: c.Engine.MaxSequences,
		Chunked: c.Engine.Scheduler == engine.ChunkedPrefill,
	})
	m.OnSlow = ledger.SlowDown
	return &pace{monitor: m}
}

// watch has the pace of answers noted from now on, if p is not nil.
func (s *Simulator) watch(p *pace) {
	if s.pace = p; p != nil {
		s.agenda.add(item{at: drift.FadeEvery, what: beliefsFade})
	}
}

// fade lets what is believed of replicas fade of which nothing has come for long, and returns
// when to do so next.
func (p *pace) fade(now time.Duration) time.Duration {
	p.monitor.Fade(now)
	return now + drift.FadeEvery
}

// first notes a sequence's first token.
func (p *pace) first(id uint64, o *Outcome) {
	if p == nil {
		return
	}
	for uint64(len(p.stays)) <= id {
		p.stays = append(p.stays, drift.Stay{})
	}
	p.monitor.Enter(&p.stays[id], o.Replica, o.FirstToken, o.Request.PromptTokens, 1, true)
}

// advance notes how far the host's sequences are.
func (p *pace) advance(s *Simulator, host int, now time.Duration) {
	if p == nil {
		return
	}
	for i := range s.table.ReplicasOn(host) {
		s.hosts[host].Each(i, func(id uint64, generated int) {
			if generated > 1 {
				p.monitor.Advance(&p.stays[id], now, s.jobs[id].outcome.Request.PromptTokens, generated)
			}
		})
	}
}

// last notes a sequence's end, whole unless its host was lost.
func (p *pace) last(id uint64, o *Outcome) {
	if p != nil && id < uint64(len(p.stays)) {
		p.monitor.Leave(&p.stays[id], o.Finished, o.OutputTokens, !o.Failed)
	}
}
