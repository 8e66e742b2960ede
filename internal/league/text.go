package league

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// text writes the fleet as a scenario file.
func (d *drawing) text() []byte {
	var b bytes.Buffer
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("# Drawn at random; no engine was measured. Results are simulated under this profile.")
	line("name: %s\n", d.name)
	line("tasks:")
	for i := range d.tasks {
		t := &d.tasks[i]
		decay := "hard"
		if t.soft {
			decay = "soft"
		}
		var quality []string
		for k, q := range t.quality {
			quality = append(quality, d.sizes[k].name+": "+short(q))
		}
		line("  - {name: %s, deadline_ms: %s, decay: %s, weight: %s, quality: {%s}}", t.name, short(t.deadline), decay, short(t.weight), strings.Join(quality, ", "))
	}
	line("\nvariants:")
	for _, s := range d.sizes {
		line("  - {name: %s} # %s billion parameters", s.name, short(s.parameters/1e9))
	}
	line("\nhosts:")
	for i, h := range d.hosts {
		c := d.cards[h.card]
		line("  - {name: %s, memory: %sGiB, compute: %s, bandwidth: %s} # %s", hostName(i), short(c.memory), short(c.compute), short(c.bandwidth), c.name)
	}
	line("\nreplicas:")
	for i, h := range d.hosts {
		for k, bytes := range h.memory {
			if bytes > 0 {
				line("  - {variant: %s, hosts: [%s], memory: %.0fMiB}", d.sizes[k].name, hostName(i), bytes/(1<<20))
			}
		}
	}
	line("\nprofiles:")
	for c := range d.cards {
		d.profiles(c, line)
	}
	line("\nworkload:")
	line("  task_lengths:")
	for i := range d.tasks {
		t := &d.tasks[i]
		line("    %s: {prompt_tokens: {distribution: uniform, min: %.0f, max: %.0f}, output_tokens: {distribution: geometric, mean: %.0f, max: %.0f}}",
			t.name, t.prompt/4, 2*t.prompt, t.output, 4*t.output)
	}
	line("\nserving:")
	line("  balancer: least-harm")
	return b.Bytes()
}

// profiles writes the times of the sizes on the hosts of a card.
func (d *drawing) profiles(of int, line func(format string, a ...any)) {
	c := d.cards[of]
	for k := range d.sizes {
		s := &d.sizes[k]
		var on []string
		for i, h := range d.hosts {
			if h.card == of && h.memory[k] > 0 {
				on = append(on, hostName(i))
			}
		}
		if len(on) == 0 {
			continue
		}
		line("  - variant: %s", s.name)
		line("    hosts: [%s]", strings.Join(on, ", "))
		line("    launch_floor_ms: %s", short(d.launch*s.layers))
		line("    weights_ms: %s", short(weightsMS(s, c)))
		line("    growth_per_sequence: 0.003")
		line("    token_ms: %s", short(s.weights()/(computeShare*c.compute*1e12)*1e3))
		line("    context_token_ms: %s", short(s.kv/(kvShare*c.bandwidth*1e9)*1e3))
		line("    overhead_ms: %s", short(d.overhead))
		line("    sequence_ms: %s", short(d.sequence))
		line("    contention: %s", short(d.contention))
		line("    weight_bytes: %.0f", s.weights())
		line("    activation_bytes: %.0f", s.activation)
		line("    kv_bytes_per_token: %.0f", s.kv)
	}
}

func hostName(i int) string { return "h" + strconv.Itoa(i+1) }

// short writes a number with four digits at most.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }
