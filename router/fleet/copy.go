package fleet

// CopyFrom makes l count what o counts at this moment, reusing l's memory; from
// then on each goes its own way. The table is shared, as it is read-only. Nobody
// else may use l meanwhile, and l's own leases end nothing any more but what has
// the same place in o: take the leases of o with [Lease.On].
func (l *Ledger) CopyFrom(o *Ledger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	l.table = o.table
	l.present.Store(o.present.Load())
	l.inFlight = append(l.inFlight[:0], o.inFlight...)
	l.byTask = append(l.byTask[:0], o.byTask...)
	l.held = append(l.held[:0], o.held...)
	l.tightest = append(l.tightest[:0], o.tightest...)
	l.down = append(l.down[:0], o.down...)
	l.failed = append(l.failed[:0], o.failed...)
	l.drained = append(l.drained[:0], o.drained...)
	l.placement.copyFrom(&o.placement)
	l.presence = append(l.presence[:0], o.presence...)
	l.caps = append(l.caps[:0], o.caps...)
	l.elsewhere = append(l.elsewhere[:0], o.elsewhere...)
	l.heldElsewhere = append(l.heldElsewhere[:0], o.heldElsewhere...)
	l.excess = append(l.excess[:0], o.excess...)
	l.facts.copyFrom(&o.facts)
	l.rate, l.declared, l.taken, l.routers, l.others = o.rate, o.declared, o.taken, o.routers, o.others
	l.arrived, l.begun = o.arrived, append(l.begun[:0], o.begun...)
	l.last = append(l.last[:0], o.last...)
	l.slots = append(l.slots[:0], o.slots...)
	l.free = append(l.free[:0], o.free...)
	l.recent = o.recent
	l.awaited = append(l.awaited[:0], o.awaited...)
}

// On is the same lease as held on l, a copy of its ledger.
func (x Lease) On(l *Ledger) Lease {
	x.ledger = l
	return x
}

// CopyFrom makes v equal to o, reusing v's memory.
func (v *View) CopyFrom(o *View) {
	inFlight, byTask, held, down, forecasts, sample := v.InFlight, v.ByTask, v.Held, v.Down, v.Forecasts, v.sample
	elsewhere, caps, excess, tightest, facts := v.Elsewhere, v.Caps, v.Excess, v.tightest, v.Facts
	*v = *o
	v.sample = sample
	v.sample.copyFrom(&o.sample)
	v.InFlight = append(inFlight[:0], o.InFlight...)
	v.ByTask = append(byTask[:0], o.ByTask...)
	v.Held = append(held[:0], o.Held...)
	v.Down = append(down[:0], o.Down...)
	v.Forecasts = append(forecasts[:0], o.Forecasts...)
	v.Elsewhere = append(elsewhere[:0], o.Elsewhere...)
	v.Caps = append(caps[:0], o.Caps...)
	v.Excess = append(excess[:0], o.Excess...)
	v.tightest = append(tightest[:0], o.tightest...)
	v.Facts = facts
	v.Facts.copyFrom(&o.Facts)
}
