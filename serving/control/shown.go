package control

import (
	"time"

	"gearshift/router/control"
	"gearshift/router/signals"
	"gearshift/serving"
)

// Shown adds the use of hosts to views, for policies and for classes that get a variant first. It implements
// [serving.Module], and joins one server.
type Shown struct {
	Busy *signals.Busy
	// Always shows it to policies. Otherwise it is shown while a class of requests gets a variant first.
	Always bool
}

// Join implements [serving.Module].
func (m Shown) Join(s *serving.Server) serving.Parts {
	s.Engines().JoinHere(&shown{m, s})
	return serving.Parts{}
}

type shown struct {
	Shown
	server *serving.Server
}

// Observe and Wake implement [control.Controller].
func (*shown) Observe(control.Event) {}
func (m *shown) Wake(now time.Duration) (next time.Duration) {
	if !m.Always && !m.server.Prefers() {
		return now + signals.Sampling // the configuration may change
	}
	return m.Busy.Show(now)
}
