package online

import (
	"context"
	"sync"
	"time"

	"gearshift/serving"
)

// Module has a trainer learn while a server runs. It implements [serving.Module], and joins one
// server.
type Module struct {
	*Trainer
	stop context.CancelFunc
	ends sync.WaitGroup
}

// NewModule returns a module of the trainer, which it closes.
func NewModule(t *Trainer) *Module { return &Module{Trainer: t, stop: func() {}} }

// Join implements [serving.Module].
func (m *Module) Join(*serving.Server) serving.Parts {
	ctx, cancel := context.WithCancel(context.Background())
	m.stop = cancel
	m.ends.Go(func() { m.run(ctx) })
	return serving.Parts{Metrics: append(m.Collectors(), m.Feedback.Collectors()...)}
}

// run wakes the trainer until the context ends.
func (m *Module) run(ctx context.Context) {
	for {
		every := m.settings().Learn.Every
		if every == 0 {
			every = time.Minute // scores are compared all the same
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
			m.Wake()
		}
	}
}

// Close stops learning, and saves what was learned.
func (m *Module) Close() error {
	m.stop()
	m.ends.Wait()
	return m.Trainer.Close()
}
