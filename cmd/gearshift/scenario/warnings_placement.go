package scenario

import "gearshift/router/fleet"

// gaps warns of a variant that one task alone leaves out, of several: it may have been
// forgotten, and would once have been missing.
func (w *warner) gaps() {
	for _, v := range w.s.Variants {
		var out []int
		for i := range w.s.Tasks {
			if !w.s.Tasks[i].answers(v.Name) {
				out = append(out, i)
			}
		}
		if len(out) != 1 || len(w.s.Tasks) < 2 {
			continue
		}
		t := w.s.Tasks[out[0]]
		w.warn(child(item("tasks", out[0]), "quality"), "leaves out %s, which answers every other task, so that no request of %s goes to it; want its quality, unless that is meant", v.Name, t.Name)
	}
}

// starting warns of tasks that nothing answers at the start.
func (w *warner) starting() {
	for i, t := range w.s.Tasks {
		up := false
		for _, p := range w.s.places() {
			up = up || p.state == fleet.Up && t.answers(w.s.Variants[p.variant].Name)
		}
		if !up {
			w.warn(child(item("tasks", i), "name"), "no replica that answers %s is up at the start: its requests fail until one is loaded; want state: up in the replicas of one", t.Name)
		}
	}
}

// unused warns of models that no variant runs.
func (w *warner) unused() {
	for i, m := range w.s.Weights {
		used := false
		for _, v := range w.s.Variants {
			used = used || v.Model == m.Name
		}
		if !used {
			w.warn(child(item("models", i), "name"), "no variant runs %s; want it as the model of one, or leave it out", m.Name)
		}
	}
}
