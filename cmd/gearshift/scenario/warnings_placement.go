package scenario

import "gearshift/router/fleet"

// gaps warns of the one quality that a file leaves out, of all tasks and variants: it may have
// been forgotten.
func (w *warner) gaps() {
	var task, variant, n int
	for i := range w.s.Tasks {
		for j, v := range w.s.Variants {
			if !w.s.Tasks[i].answers(v.Name) {
				task, variant, n = i, j, n+1
			}
		}
	}
	if n == 1 {
		w.warn(child(item("tasks", task), "quality"), "leaves out %s alone, so that no request of %s goes to it; want its quality, unless that is meant", w.s.Variants[variant].Name, w.s.Tasks[task].Name)
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
