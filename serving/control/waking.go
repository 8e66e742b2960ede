package control

import (
	"log/slog"

	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/serving"
)

// Waking has replicas woken or loaded that requests of a server are held for. It implements [serving.Module], and
// joins one server.
type Waking struct {
	ordered
	*lifecycle.Waker
}

// NewWaking makes the module.
func NewWaking(l *fleet.Ledger, log *slog.Logger) *Waking {
	m := &Waking{ordered: newOrdered(l, log, "waking a replica that requests are held for", "a replica that requests are held for is not woken")}
	m.Waker = lifecycle.NewWaker(l, m)
	return m
}

// Join implements [serving.Module].
func (m *Waking) Join(s *serving.Server) serving.Parts {
	m.engines = s.Engines()
	m.Claim(m.engines.Claim)
	m.engines.Join(m)
	return serving.Parts{}
}
