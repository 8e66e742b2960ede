package profiling

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"gearshift/env/fit"
	"gearshift/internal/scenario"
)

// gpuProfile is a profile fitted to a table, as it is written.
type gpuProfile struct {
	Profiles []scenario.LatencyModel `yaml:"profiles"`
	Measured gpuProvenance           `yaml:"measured"`
}

// gpuProvenance is where it is from, and how good it is.
type gpuProvenance struct {
	Date    string  `yaml:"date"`
	Machine string  `yaml:"machine"`
	Table   string  `yaml:"table"`
	Seconds float64 `yaml:"seconds,omitempty"`
	// Cut is that the measurement did not come to its end.
	Cut       bool                    `yaml:"cut,omitempty"`
	Fits      bool                    `yaml:"fits"`
	Faults    []string                `yaml:"faults,omitempty"`
	Quality   []GPUQuality            `yaml:"quality"`
	Intervals map[string]fit.Interval `yaml:"intervals_90,omitempty"`
	Held      []string                `yaml:"held,flow"`
	// Law is the law of contention that fits best, and Laws how all compare over all models.
	Law       string              `yaml:"contention_law,omitempty"`
	Undecided []string            `yaml:"contention_undecided,omitempty,flow"`
	Laws      []fit.ContentionLaw `yaml:"contention_laws,omitempty"`
	Moves     []GPUMove           `yaml:"weights_moved,omitempty"`
	Notes     []string            `yaml:"notes,omitempty"`
}

// Variants returns the models' names, in the table's order.
func (g *GPU) Variants() []string {
	var names []string
	for _, f := range g.Fits {
		names = append(names, f.Model)
	}
	return names
}

// Text returns the profile of a model as a file, with the intervals next to the figures.
func (g *GPU) Text(i int) ([]byte, error) {
	f, t := &g.Fits[i], g.Table
	p := gpuProfile{
		Profiles: []scenario.LatencyModel{{Variant: f.Model, Profile: f.Profile}},
		Measured: gpuProvenance{
			Date: t.Machine.Date, Machine: MachineWords(t), Table: t.Name, Seconds: t.Seconds, Cut: t.Cut,
			Fits: len(f.Faults) == 0, Faults: f.Faults, Quality: f.Quality, Intervals: f.Intervals, Held: f.Held,
			Moves: movesOf(t, f.Model), Notes: t.Notes,
		},
	}
	if g.Laws != nil {
		p.Measured.Law, p.Measured.Undecided, p.Measured.Laws = g.Laws.Best().Name, g.Laws.Undecided, g.Laws.Laws
	}
	var doc yaml.Node
	if err := doc.Encode(p); err != nil {
		return nil, err
	}
	doc.HeadComment = "Fitted by gearshift profile gpu to what make gpu measured. The entry goes into a scenario's profiles:\n" +
		"gearshift scenario profiles SCENARIO --from FILE puts it there. The overhead is of a bare loop: an engine's own comes on top."
	return profileText(&doc, f.Intervals)
}

// MachineWords describes the machine of a table on one line.
func MachineWords(t *GPUTable) string {
	m := &t.Machine
	var parts []string
	add := func(format, value string) {
		if value != "" {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add("%s", m.GPU)
	if m.GPU == "" {
		add("device %s", m.Device)
	}
	if t.MemoryBytes > 0 {
		add("%s", fmt.Sprintf("%.1f GiB of device memory", float64(t.MemoryBytes)/(1<<30)))
	}
	add("driver %s", m.Driver)
	add("CUDA %s", m.CUDA)
	add("PyTorch %s", m.Torch)
	add("%s", m.Type)
	switch {
	case m.Graphs && m.MPS:
		add("%s", "CUDA graphs, MPS")
	case m.Graphs:
		add("%s", "CUDA graphs, no MPS")
	}
	if m.MIG == "Enabled" {
		add("%s", "MIG")
	}
	add("%s", m.CPU)
	add("%s", fmt.Sprintf("%d cores", m.Cores))
	if m.Memory > 0 {
		add("%s", fmt.Sprintf("%.1f GiB", float64(m.Memory)/(1<<30)))
	}
	add("%s", m.System)
	return strings.Join(parts, ", ")
}

// GPUMove is how fast a model's weights moved.
type GPUMove struct {
	// What was moved, and from or to where.
	What  string `yaml:"what"`
	Bytes int64  `yaml:"bytes"`
	// MS is the mean over Times.
	MS    float64 `yaml:"ms"`
	Times int     `yaml:"times"`
	GBs   float64 `yaml:"gb_per_s"`
	// WholeMS is what all of the weights take at that rate, where only some were moved.
	WholeMS float64 `yaml:"whole_ms,omitempty"`
}

// What is moved, in words.
const (
	fromDisk = "load from disk"
	putSleep = "sleep: to host memory"
	wakeUp   = "wake: from host memory"
)

// movesOf gathers how a model's weights moved, in the order of the table.
func movesOf(t *GPUTable, model string) []GPUMove {
	var list []GPUMove
	whole := t.Model(model).WeightBytes
	for _, m := range t.Moves {
		if m.Model != model {
			continue
		}
		what := moveWords(&m)
		i := -1
		for k := range list {
			if list[k].What == what && list[k].Bytes == m.Bytes {
				i = k
			}
		}
		if i < 0 {
			list = append(list, GPUMove{What: what, Bytes: m.Bytes})
			i = len(list) - 1
		}
		l := &list[i]
		l.MS = (l.MS*float64(l.Times) + m.MS()) / float64(l.Times+1)
		l.Times++
		l.GBs = float64(l.Bytes) / 1e6 / l.MS
		if l.Bytes < whole {
			l.WholeMS = l.MS * float64(whole) / float64(l.Bytes)
		}
	}
	return list
}

func moveWords(m *GPUTransfer) string {
	switch {
	case m.Kind == "sleep" && m.Pinned:
		return putSleep + ", pinned"
	case m.Kind == "sleep":
		return putSleep
	case m.Kind == "wake" && m.Pinned:
		return wakeUp + ", pinned"
	case m.Kind == "wake":
		return wakeUp
	case m.Kind == "write":
		return "write to disk, flushed"
	case m.From == "pinned":
		return "load from pinned host memory"
	case m.From == "pageable":
		return "load from pageable host memory"
	}
	switch m.Cache {
	case "direct":
		return fromDisk + ", past the page cache"
	case "dropped":
		return fromDisk + ", after the page cache was asked to drop it"
	case "warm":
		return "load from the page cache"
	}
	return fromDisk + ", page cache unknown"
}

// loadMS returns what loading a model's weights from disk takes, in ms, as far as it was measured
// past the page cache or after a request to drop it; 0 if it was not.
func loadMS(t *GPUTable, model string) float64 {
	for _, m := range movesOf(t, model) {
		if strings.HasPrefix(m.What, fromDisk) {
			return max(m.MS, m.WholeMS)
		}
	}
	return 0
}
