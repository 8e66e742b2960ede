package control

import (
	"time"

	"gearshift/router/control"
	"gearshift/router/signals"
	"gearshift/serving"
)

// Shown has policies see how busy hosts are. It implements [serving.Module], and joins one server.
type Shown struct{ Busy *signals.Busy }

// Join implements [serving.Module].
func (m Shown) Join(s *serving.Server) serving.Parts {
	s.Engines().Join(m)
	return serving.Parts{}
}

// Observe and Wake implement [control.Controller].
func (Shown) Observe(control.Event)                         {}
func (m Shown) Wake(now time.Duration) (next time.Duration) { return m.Busy.Show(now) }
