package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gearshift/router/fleet"
)

// mostVariants bounds the variants where a task is not answered by some of them.
const mostVariants = 64

// weights checks the models section, and who names one.
func (c *checker) weights() {
	if c.s.Weights != nil {
		c.names("models", c.s.modelNames())
	}
	for i, m := range c.s.Weights {
		if key := child(item("models", i), "load_ms"); !(m.LoadMS >= 0 && m.LoadMS <= maxCostMS) {
			c.judge(key, "a load takes at least 0 ms and at most an hour, %d ms, not %v", maxCostMS, m.LoadMS)
		}
	}
	if !c.known("models", len(c.s.Weights)) {
		return
	}
	for i, v := range c.s.Variants {
		switch key := child(item("variants", i), "model"); {
		case v.Model == "" || slices.Contains(c.s.modelNames(), v.Model):
		case len(c.s.Weights) == 0:
			c.judge(key, "unknown model %q; the file lists none, want it in models", v.Model)
		default:
			c.judge(key, "unknown model %q; %s", v.Model, hint(v.Model, c.s.modelNames()))
		}
	}
}

// resources checks what a host has in addition to its memory.
func (c *checker) resources(at string, h *Host) {
	if h.Site != "" {
		c.name(child(at, "site"), h.Site)
	}
	for _, r := range []struct {
		name, unit string
		x          float64
	}{{"compute", "TFLOP/s", h.Compute}, {"bandwidth", "GB/s", h.Bandwidth}} {
		c.judgeIf(!(r.x >= 0 && r.x <= math.MaxInt32), child(at, r.name), "want a number of %s, not %v", r.unit, r.x)
	}
}

// stated checks the states of replicas at the start.
func (c *checker) stated() {
	names := namesOf(initialStates, fleet.State.String)
	for i := range c.s.Replicas {
		if p := &c.s.Replicas[i]; p.initial() == fleet.Down {
			c.judge(child(item("replicas", i), "state"), "unknown state %q; %s", p.State, hint(p.State, names))
		}
	}
}

// held reports the replicas that have less memory than their model takes.
func (c *checker) held() {
	var found hostFaults
	worker := 0 // the last one
	for _, p := range c.s.placedReplicas() {
		if p.variant < 0 || !c.measured(p) || p.worker > 0 && p.worker == worker || p.memory < leastHost && c.bare(p.host) {
			continue
		}
		worker = p.worker
		v := c.s.Variants[p.variant]
		i := indexOf(c.s.modelNames(), v.Model)
		if i < 0 || !c.sound(item("models", i)) {
			continue
		}
		if needs := c.s.needs(p, i); p.memory < needs {
			found.add(memoryKey(p), c.s.Hosts[p.host].Name, fmt.Sprintf("%v for %s: its model %s takes %v", p.memory, variantOf(c.s.engineName(p)), v.Model, needs))
		}
	}
	c.group(found)
}

// unanswered reports a task that no variant answers, and gaps of more variants than can be
// told apart.
func (c *checker) unanswered(key string, row map[string]float64, known []string) {
	n := 0
	for _, name := range known {
		if _, ok := row[name]; ok {
			n++
		}
	}
	switch {
	case n == 0 && len(row) == 0:
		c.judge(key, "lists no variant; want the quality of each that answers the task: %s", strings.Join(known, ", "))
	case n < len(known) && len(known) > mostVariants:
		c.judge(key, "leaves out %d of %d variants; with more than %d each needs a quality", len(known)-n, len(known), mostVariants)
	}
}
