package profiling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gearshift/internal/output"
	"gearshift/internal/scenario"
)

// The scenario that lends what no measurement of an accelerator says: how good answers are,
// how long requests are, and how tight a deadline is compared with a step of the largest variant.
const (
	lender = "titan-rtx-opt"
	// usualContext is the tokens of context at which steps are compared for the deadline.
	usualContext = 218
	// used is the share of the device's memory that engines are given, as vLLM's default.
	used = 0.9
)

// Scenario returns the text of a scenario with one host, the device that was measured, and each
// model on it once. What was not measured is marked as a guess, or says where it is from.
func (g *GPU) Scenario(name string) ([]byte, error) {
	base, err := scenario.Load(lender)
	if err != nil {
		return nil, err
	}
	memory, err := g.memories()
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Made by gearshift profile gpu from %s, measured on %s:\n# %s.\n", g.Table.Name, g.Table.Machine.Date, MachineWords(g.Table))
	fmt.Fprintf(&b, "# %s\n# The profiles are measured, of a bare loop. What says \"guess\" is not measured.\nname: %s\n", g.Verdict(), strconv.Quote(name))
	g.tasks(&b, base)
	b.WriteString("\nvariants:\n")
	for _, v := range g.Variants() {
		fmt.Fprintf(&b, "  - name: %s\n", v)
	}
	fmt.Fprintf(&b, "\nhosts:\n  - {name: gpu0, memory: %d}\n", g.deviceMemory())
	fmt.Fprintf(&b, "\n# Guess: %.0f %% of the memory, of which weights and activations leave the same number of tokens to each KV cache.\nreplicas:\n", 100*used)
	for i, v := range g.Variants() {
		fmt.Fprintf(&b, "  - {variant: %s, hosts: [gpu0], memory: %d}%s\n", v, memory[i], g.moveComment(v))
	}
	if err := g.profiles(&b); err != nil {
		return nil, err
	}
	if slices.Equal(g.Variants(), variantNames(base)) {
		workload, err := g.workload()
		if err != nil {
			return nil, err
		}
		b.WriteString(workload)
	}
	text := []byte(b.String())
	if _, err := scenario.Parse(name+".yaml", text); err != nil {
		return nil, fmt.Errorf("cannot make a scenario of %s: %w", g.Table.Name, err)
	}
	return text, nil
}

func variantNames(s *scenario.Scenario) []string {
	var names []string
	for _, v := range s.Variants {
		names = append(names, v.Name)
	}
	return names
}

// tasks returns those of the lender where its variants are these, and one task otherwise. The
// deadline is the same multiple of the largest variant's step alone as it is there.
func (g *GPU) tasks(b *strings.Builder, base *scenario.Scenario) {
	theirs, _ := base.Models[len(base.Models)-1].Step(1, 1, usualContext, 0)
	ours, _ := g.Fits[len(g.Fits)-1].Profile.Step(1, 1, usualContext, 0)
	deadline := func(ms float64) float64 { return scenario.Round(ms/theirs*ours, 3) }
	if slices.Equal(g.Variants(), variantNames(base)) {
		fmt.Fprintf(b, "\n# Tasks and quality as %s has them. Guess: the deadline, per output token, is the same multiple of\n# the largest variant's step alone as there.\ntasks:\n", lender)
		for _, t := range base.Tasks {
			fmt.Fprintf(b, "  - {name: %s, deadline_ms: %g, decay: %s, weight: %g, quality: {%s}}\n", t.Name, deadline(t.DeadlineMS), t.Decay, t.Weight, g.qualities(func(i int) float64 { return t.Quality[g.Fits[i].Model] }))
		}
		return
	}
	even := func(i int) float64 {
		if len(g.Fits) == 1 {
			return 1
		}
		return scenario.Round(0.6+0.4*float64(i)/float64(len(g.Fits)-1), 2)
	}
	fmt.Fprintf(b, "\n# Guess: one task, even steps of quality, and a deadline per output token that is the same multiple\n# of the largest variant's step alone as in %s.\ntasks:\n  - {name: chat, deadline_ms: %g, quality: {%s}}\n", lender, deadline(base.Tasks[0].DeadlineMS), g.qualities(even))
}

func (g *GPU) qualities(of func(i int) float64) string {
	var list []string
	for i, v := range g.Variants() {
		list = append(list, fmt.Sprintf("%s: %g", v, of(i)))
	}
	return strings.Join(list, ", ")
}

// deviceMemory returns the device's memory, or the machine's where that is the device.
func (g *GPU) deviceMemory() int64 {
	if g.Table.MemoryBytes > 0 {
		return g.Table.MemoryBytes
	}
	return g.Table.Machine.Memory
}

// memories returns what each replica gets.
func (g *GPU) memories() ([]int64, error) {
	rest := int64(used * float64(g.deviceMemory()))
	var each int64
	for i := range g.Fits {
		p := &g.Fits[i].Profile
		rest -= p.WeightBytes + p.ActivationBytes
		each += p.KVBytes
	}
	tokens := rest / each
	if tokens <= 0 {
		return nil, fmt.Errorf("%s: the device's memory of %d bytes does not hold %s together: no scenario", g.Table.Name, g.deviceMemory(), strings.Join(g.Variants(), ", "))
	}
	var list []int64
	for i := range g.Fits {
		p := &g.Fits[i].Profile
		list = append(list, p.WeightBytes+p.ActivationBytes+tokens*p.KVBytes)
	}
	return list, nil
}

// moveComment says how long a variant's weights take from disk, and to wake up.
func (g *GPU) moveComment(variant string) string {
	var words []string
	if ms := loadMS(g.Table, variant); ms > 0 {
		words = append(words, fmt.Sprintf("loads from disk in %.4g ms", ms))
	}
	for _, m := range movesOf(g.Table, variant) {
		if strings.HasPrefix(m.What, wakeUp) {
			words = append(words, fmt.Sprintf("wakes in %.4g ms", m.MS))
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " # " + strings.Join(words, ", ")
}

func (g *GPU) profiles(b *strings.Builder) error {
	var models []scenario.LatencyModel
	for _, f := range g.Fits {
		models = append(models, scenario.LatencyModel{Variant: f.Model, Profile: f.Profile})
	}
	text, err := plain(map[string]any{"profiles": models})
	if err != nil {
		return err
	}
	b.WriteString("\n# The latency model of each variant, in ms: docs/simulator.md.\n" + text)
	return nil
}

// workload returns the lender's, to the letter.
func (g *GPU) workload() (string, error) {
	text, err := scenario.Text(lender)
	if err != nil {
		return "", err
	}
	var doc struct {
		Workload yaml.Node `yaml:"workload"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return "", fmt.Errorf("cannot read %s: %w", lender, err)
	}
	out, err := plain(&doc)
	return fmt.Sprintf("\n# Requests as %s has them.\n%s", lender, out), err
}

// plain returns a value as YAML, with its fractions as long as they mean something.
func plain(v any) (string, error) {
	var doc yaml.Node
	if err := doc.Encode(v); err != nil {
		return "", err
	}
	shorten(&doc)
	text, err := output.YAML(&doc)
	return string(text), err
}
