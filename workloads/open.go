package workloads

import (
	"errors"
	"fmt"
	"time"

	"gearshift/router/fleet"
	"gearshift/workloads/traces"
)

// Settings is what a workload's name leaves to the scenario.
type Settings struct {
	// Tasks are the fleet's, which arrivals index.
	Tasks []fleet.Task
	// Shape is what requests look like.
	Shape Shape
	// Requests ends a workload but the stable one and a schedule, which last their time;
	// of a trace these are the first, and a rate asked for is theirs. Zero does not end
	// it: all others are then endless.
	Requests int
	// Phase is how long the stable workload lasts. Zero is the paper's 40 s.
	Phase time.Duration
	// RateScale speeds up the workloads whose rates are the paper's: u1, u2,
	// u2-uniform and the named bursts; see [Scaled]. Zero is 1.
	RateScale float64
	// Fits is how many tokens any replica can hold of one request: a trace's own
	// token counts are cut to it by [Fit]. Zero is no bound.
	Fits int
	// Notice, if not nil, is called with a line on the requests of a trace that are left out.
	Notice func(string)
}

// room returns what fits next to the longest prompt (0: anything).
func (s Settings) room() int {
	if s.Fits == 0 {
		return 0
	}
	prompt, _ := s.Shape.Longest()
	return max(1, s.Fits-prompt)
}

// Process returns the arrival process that the workload names; of a trace, the
// [Trace], read and rescaled.
func (s Spec) Process(settings Settings) (Process, error) {
	phase := settings.Phase
	if phase == 0 {
		phase = 40 * time.Second
	}
	switch s.Form {
	case "stable":
		if s.Sweep() {
			return nil, fmt.Errorf("stable without a rate is a sweep; expand it into one workload for each rate")
		}
		return named(NewStable(s.Rate, phase))
	case "u1":
		return settings.scaled(U1{})
	case "u2":
		return settings.scaled(U2{})
	case "u2-uniform":
		return settings.scaled(U2Uniform{})
	case "poisson":
		return named(NewPoisson(s.Rate))
	case "gamma":
		return named(NewGamma(s.Rate, s.CV))
	case "weibull":
		return named(NewWeibull(s.Rate, s.CV))
	case "mmpp":
		return named(NewBursts(s.Rate, s.High, s.Calm, s.Burst))
	case "schedule":
		return named(parseSchedule(s.Phases))
	case "trace":
		return named(s.trace(settings.Requests, nil))
	default:
		p, ok, err := burst(s.Form)
		if !ok {
			return nil, fmt.Errorf("no workload is called that; accepted: %s", Forms)
		}
		if err != nil {
			return nil, err
		}
		return settings.scaled(p)
	}
}

// scaled returns the process as fast as the scenario has it.
func (s Settings) scaled(p Process) (Process, error) {
	if s.RateScale == 0 || s.RateScale == 1 {
		return p, nil
	}
	return named(NewScaled(p, s.RateScale))
}

// named keeps a failed constructor's value out of the interface.
func named[P Process](p P, err error) (Process, error) {
	if err != nil {
		return nil, err
	}
	return p, nil
}

// trace returns the trace's first requests (0: all), so rescaled that these, which
// are the ones used, have the mean rate asked for.
func (s Spec) trace(requests int, notice func(string)) (*Trace, error) {
	read, err := traces.Reading{Requests: requests, KeepZero: s.Zero}.Load(s.File)
	if err != nil {
		return nil, err
	}
	t := (*Trace)(read)
	if t.Skipped > 0 && notice != nil {
		notice(s.skipped(t))
	}
	if t.Doubt != "" && s.Rate == 0 && notice != nil {
		notice(t.Name + ": " + t.Doubt)
	}
	if s.Rate > 0 {
		return t.Rescaled(s.Rate)
	}
	return t, nil
}

// skipped says how many requests of the trace have no tokens, and whether they were kept.
func (s Spec) skipped(t *Trace) string {
	all := len(t.Records)
	if !s.Zero {
		all += t.Skipped
	}
	text := fmt.Sprintf("%s: %d of %d requests have no prompt or no output tokens", t.Name, t.Skipped, all)
	if s.Zero {
		return text + "; they are kept with 1 token"
	}
	return text + " and are left out; +zero keeps them with 1 token"
}

// Open begins the workload under a seed, for those who have requests only: it
// refuses a workload that asks for another fleet, or for what else happens there, with +gpu, +lost, +streams, +load and the
// like.
func (s Spec) Open(settings Settings, seed uint64) (Stream, error) {
	if s.GPU != 0 || s.Disturbs() || s.Streams != (Streams{}) {
		return nil, s.cannotOpen(errors.New("+gpu, +lost and +streams are for simulated fleets, in an evaluation, as are +load and the like"))
	}
	open, err := s.Prepare(settings)
	if err != nil {
		return nil, err
	}
	return open(seed)
}

// Prepare does what is the same under every seed, such as reading the trace,
// and returns the function that begins the workload under one. Goroutines may
// share it. What the workload asks of the fleet, GPU and Lost, is left to the
// caller.
func (s Spec) Prepare(settings Settings) (open func(seed uint64) (Stream, error), err error) {
	begin, err := s.prepare(settings)
	if err != nil {
		return nil, s.cannotOpen(err)
	}
	return func(seed uint64) (Stream, error) {
		stream, err := begin(seed)
		if err != nil {
			return nil, s.cannotOpen(err)
		}
		return stream, nil
	}, nil
}

func (s Spec) cannotOpen(err error) error { return fmt.Errorf("cannot open workload %q: %w", s, err) }

func (s Spec) prepare(settings Settings) (func(seed uint64) (Stream, error), error) {
	shape, err := s.Outputs.shape(settings.Shape, settings.room())
	if err != nil {
		return nil, err
	}
	if s.Form == "trace" {
		if s.Last > 0 {
			return s.prepareLast(settings, shape)
		}
		t, err := s.trace(settings.Requests, settings.Notice)
		if err != nil {
			return nil, err
		}
		t = t.Fitting(settings.Fits)
		return func(seed uint64) (Stream, error) {
			return t.Open(settings.Tasks, shape, s.Lengths, seed)
		}, nil
	}
	process, err := s.Process(settings)
	if err != nil {
		return nil, err
	}
	limit := Limit{Requests: settings.Requests}
	if s.Form == "stable" || s.Form == "schedule" {
		limit = Limit{} // they end by themselves
	}
	return func(seed uint64) (Stream, error) {
		return New(process, settings.Tasks, shape, seed, limit)
	}, nil
}

// Recorded reads the whole trace that the workload names.
func (s Spec) Recorded(settings Settings) (Recorded, error) {
	t, err := s.trace(0, settings.Notice)
	if err != nil {
		return nil, s.cannotOpen(err)
	}
	r, err := t.Fitting(settings.Fits).Recorded(settings.Tasks, s.Lengths)
	if err != nil {
		return nil, s.cannotOpen(err)
	}
	return r, nil
}

// prepareLast is Prepare for the end of a trace.
func (s Spec) prepareLast(settings Settings, shape Shape) (func(seed uint64) (Stream, error), error) {
	all, err := s.Recorded(settings)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	_, last := all.Split(s.Last)
	if len(last) < s.Blocks {
		return nil, fmt.Errorf("%d requests are in the last %v of the trace; at most so many blocks would be right, not %d", len(last), s.Last, s.Blocks)
	}
	return func(seed uint64) (Stream, error) {
		stream, err := last.Block(int(Number(seed)%uint64(s.Blocks)), s.Blocks).Open(settings.Tasks, shape, seed)
		if err != nil {
			return nil, err
		}
		return Take(stream, Limit{Requests: settings.Requests}), nil
	}, nil
}
