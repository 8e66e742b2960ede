package control

import (
	"log/slog"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/serving/engines"
)

// ordered is what a controller asks of engines, and the log of what it has them do. It implements
// [lifecycle.Engines].
type ordered struct {
	table   *fleet.Table
	engines *engines.Engines
	log     *slog.Logger
	// done and failed are the lines about what is ordered, and about what is not.
	done, failed string
}

func newOrdered(l *fleet.Ledger, log *slog.Logger, done, failed string) ordered {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return ordered{table: l.Table(), log: log, done: done, failed: failed}
}

// Driven reports whether anything loads and unloads the replica.
func (m *ordered) Driven(replica int) bool { return m.engines.Driven(replica) != "" }

// Ordered logs what is ordered.
func (m *ordered) Ordered(a control.Action, err error) {
	name := m.table.Replicas[a.Replica].Name
	if err != nil {
		m.log.Warn(m.failed, "replica", name, "verb", a.Verb.String(), "error", err)
		return
	}
	m.log.Info(m.done, "replica", name, "verb", a.Verb.String())
}
