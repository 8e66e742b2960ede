package profiling

import (
	"cmp"
	"fmt"
	"slices"

	"gearshift/env/fit"
	"gearshift/env/fit/steady"
	"gearshift/router/profile"
)

// turns is the crowding of engines that take turns on a device. With any above 0 an engine
// that waits for its turn counts as busy, so that a contention of 1 is time slicing.
const turns = 1e-9

// GPU is what follows from a table of an accelerator: a profile of each model and the law by which
// they slow each other.
type GPU struct {
	Table *GPUTable
	Fits  []GPUFit
	// Laws are compared over all loads beside neighbours; nil if there were too few, and
	// Unjudged says so then.
	Laws     *fit.ContentionVerdict
	Unjudged string
}

// GPUFit is a model's profile, and how far it lies from what was measured.
type GPUFit struct {
	Model     string
	Profile   profile.Profile
	Intervals map[string]fit.Interval
	Held      []string
	Quality   []GPUQuality
	Faults    []string
	// EagerOverGraph is how many times as long a decode step took with its kernels launched
	// one by one; 0 if that was not measured.
	EagerOverGraph float64

	loads []gpuLoad
	cells []fit.Cell
}

// GPUQuality is how far the profile lies from the measured steps of a kind: quantiles of
// the absolute relative error.
type GPUQuality struct {
	Kind    string `yaml:"kind"`
	Loads   int    `yaml:"loads"`
	fit.Off `yaml:",inline"`
}

// gpuLoad is the mean of a load's blocks, alone or in one situation beside neighbours.
type gpuLoad struct {
	GPULoad
	prefill       bool
	ms, device    float64
	blocks        []GPUStep
	beside        string // neighbours, in words; "": alone
	work, waiting float64
}

func (l *gpuLoad) sequences() int { return max(1, l.Batch) }

func (l *gpuLoad) kind() string {
	kind := "decode step"
	if l.prefill {
		kind = "prefill"
	}
	if l.beside != "" {
		kind += " beside busy neighbours"
	}
	return kind
}

func (l *gpuLoad) String() string { return l.GPULoad.String() + l.beside }

// OfTable fits profiles to a table, and finds the law of contention. Seed is that of the
// refits which intervals come from.
func OfTable(t *GPUTable, resamples int, seed uint64) (*GPU, error) {
	g := &GPU{Table: t}
	for _, m := range t.Models {
		f, err := fitAlone(t, m, resamples, seed)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", t.Name, m.Name, err)
		}
		g.Fits = append(g.Fits, *f)
	}
	var cells []fit.Cell
	for i := range g.Fits {
		g.addBeside(&g.Fits[i])
		cells = append(cells, g.Fits[i].cells...)
	}
	laws, err := fit.JudgeContention(cells, seed)
	if err != nil {
		g.Unjudged = err.Error()
	}
	g.Laws = laws
	for i := range g.Fits {
		g.contend(&g.Fits[i], seed)
		g.Fits[i].judge()
	}
	return g, nil
}

// fitAlone fits the device's part of steps alone to the latency model, and the rest of them,
// which was measured as well, to what a step and each of its sequences take.
func fitAlone(t *GPUTable, m GPUModel, resamples int, seed uint64) (*GPUFit, error) {
	f := &GPUFit{Model: m.Name, loads: loadsOf(t, m.Name)}
	var samples []steady.Sample
	for i := range f.loads {
		l := &f.loads[i]
		if l.beside != "" {
			continue
		}
		for _, b := range l.blocks {
			samples = append(samples, steady.Sample{
				Cell: l.String(), Prefill: l.prefill, Tokens: max(l.Batch, l.Tokens), Sequences: l.sequences(),
				Context: float64(l.Batch * l.Context), MS: b.DeviceMS,
			})
		}
	}
	fitted, err := steady.Fit(samples, steady.Options{
		Resamples: resamples, Seed: seed, Absent: []string{"overhead_ms", "sequence_ms", "prompt_ms", "request_ms"},
	})
	if err != nil {
		return nil, err
	}
	f.Profile, f.Intervals = fitted.Profile, fitted.Intervals
	f.Held = slices.DeleteFunc(fitted.Held, func(key string) bool { return key == "contention" || key == "crowding" })
	f.Profile.Overhead, f.Profile.Sequence = hostPart(f.loads)
	f.Profile.WeightBytes, f.Profile.ActivationBytes, f.Profile.KVBytes = m.WeightBytes, m.ActivationBytes, m.KVBytes
	f.EagerOverGraph = eagerOverGraph(t, m.Name, f.loads)
	return f, nil
}

// loadsOf gathers a model's blocks by load and situation.
func loadsOf(t *GPUTable, model string) []gpuLoad {
	var list []gpuLoad
	for _, s := range t.Steps {
		if s.Model != model || s.Graph != t.Machine.Graphs {
			continue
		}
		words := besideWords(s.Beside)
		i := slices.IndexFunc(list, func(l gpuLoad) bool { return l.GPULoad == s.GPULoad && l.beside == words })
		if i < 0 {
			list = append(list, gpuLoad{GPULoad: s.GPULoad, prefill: s.Prefill, beside: words})
			i = len(list) - 1
		}
		list[i].blocks = append(list[i].blocks, s)
	}
	for i := range list {
		l := &list[i]
		for _, b := range l.blocks {
			n := float64(len(l.blocks))
			l.ms, l.device = l.ms+b.MS/n, l.device+b.DeviceMS/n
		}
	}
	return list
}

func besideWords(beside []GPUActivity) (words string) {
	for i, a := range beside {
		join := " beside "
		if i > 0 {
			join = " and "
		}
		words += join + a.Model
	}
	if len(beside) > 0 && beside[0].AskedDuty < 1 {
		words += fmt.Sprintf(" at %.0f %%", 100*beside[0].AskedDuty)
	}
	return words
}

// hostPart returns the least squares of the part of a step that is not the device's, by its sequences;
// both of at least 0.
func hostPart(loads []gpuLoad) (overhead, sequence float64) {
	var n, sx, sy, sxx, sxy float64
	for i := range loads {
		if l := &loads[i]; l.beside == "" {
			x, y := float64(l.sequences()), max(0, l.ms-l.device)
			n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		}
	}
	if d := n*sxx - sx*sx; d > 0 {
		sequence = max(0, (n*sxy-sx*sy)/d)
	}
	if overhead = (sy - sequence*sx) / n; overhead < 0 {
		return 0, sxy / sxx
	}
	return overhead, sequence
}

// eagerOverGraph returns the mean ratio of steps with kernels launched one by one to those of the
// same decode loads as graphs.
func eagerOverGraph(t *GPUTable, model string, loads []gpuLoad) float64 {
	var sum, n float64
	for _, s := range t.Steps {
		if s.Model != model || s.Prefill || s.Graph || !t.Machine.Graphs || len(s.Beside) > 0 {
			continue
		}
		for i := range loads {
			if l := &loads[i]; l.GPULoad == s.GPULoad && l.beside == "" {
				sum, n = sum+s.MS/l.ms, n+1
			}
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// addBeside works out the neighbours' duties, and pairs each load beside them with the same
// load alone. What has no such pair is left out.
func (g *GPU) addBeside(f *GPUFit) {
	for i := range f.loads {
		l := &f.loads[i]
		if l.beside == "" {
			continue
		}
		for _, b := range l.blocks {
			for _, a := range b.Beside {
				n := float64(len(l.blocks))
				device, host := g.alone(a)
				l.work += a.PerSecond * device / 1e3 / n
				l.waiting += min(1, a.PerSecond*max(a.DeviceMS, a.MS-host)/1e3) / n
			}
		}
		alone := slices.IndexFunc(f.loads, func(o gpuLoad) bool { return o.beside == "" && o.GPULoad == l.GPULoad })
		if alone < 0 {
			continue
		}
		f.cells = append(f.cells, fit.Cell{
			Name: l.String(), Engine: f.Model, Alone: f.loads[alone].ms, Device: min(f.loads[alone].device, f.loads[alone].ms),
			Beside: l.ms, Work: l.work, Waiting: l.waiting,
		})
	}
}

// alone returns the device's part and the rest of a neighbour's step, in ms, as they are alone:
// measured, or by its profile where they were not.
func (g *GPU) alone(a GPUActivity) (device, host float64) {
	f := &g.Fits[slices.IndexFunc(g.Fits, func(f GPUFit) bool { return f.Model == a.Model })]
	if i := slices.IndexFunc(f.loads, func(l gpuLoad) bool { return l.beside == "" && l.GPULoad == a.GPULoad }); i >= 0 {
		return f.loads[i].device, f.loads[i].ms - f.loads[i].device
	}
	return f.Profile.GPU(max(a.Batch, a.Tokens), a.Batch*a.Context), f.Profile.Overhead + float64(max(1, a.Batch))*f.Profile.Sequence
}

// contend puts the law that fits best into a profile. γ is the model's own where it has
// loads enough to fit it, and that of all otherwise.
func (g *GPU) contend(f *GPUFit, seed uint64) {
	if g.Laws == nil {
		f.Held = append(f.Held, "contention")
		return
	}
	switch best := g.Laws.Best(); best.Name {
	case fit.Slicing:
		f.Profile.Contention, f.Profile.Crowding = 1, turns
	case fit.Linear:
		f.Profile.Contention = best.Gamma
		interval := best.Interval
		if own, err := fit.JudgeContention(f.cells, seed); err == nil {
			i := slices.IndexFunc(own.Laws, func(l fit.ContentionLaw) bool { return l.Name == fit.Linear })
			f.Profile.Contention, interval = own.Laws[i].Gamma, own.Laws[i].Interval
		}
		if f.Intervals != nil {
			f.Intervals["contention"] = *interval
		}
	}
}

// predicted returns what the profile makes of a load, in ms.
func (f *GPUFit) predicted(l *gpuLoad) float64 {
	duty := l.work
	if f.Profile.Crowding > 0 {
		duty = l.waiting
	}
	if l.prefill {
		return f.Profile.Prefill(l.Tokens, duty)
	}
	ms, _ := f.Profile.Step(l.Batch, l.Batch, l.Batch*l.Context, duty)
	return ms
}

// judge says how far the whole profile lies from whole steps, alone and beside neighbours.
func (f *GPUFit) judge() {
	by := map[string][]*gpuLoad{}
	var kinds []string
	for i := range f.loads {
		kind := f.loads[i].kind()
		if by[kind] == nil {
			kinds = append(kinds, kind)
		}
		by[kind] = append(by[kind], &f.loads[i])
	}
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, kind := range kinds {
		loads := by[kind]
		q := GPUQuality{Kind: kind, Loads: len(loads)}
		q.Off = fit.OffBy(len(loads), func(i int) (string, float64) { return loads[i].String(), f.predicted(loads[i])/loads[i].ms - 1 })
		f.Quality = append(f.Quality, q)
		f.Faults = append(f.Faults, steady.Faults(kind, &q.Off)...)
	}
}
