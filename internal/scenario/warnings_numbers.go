package scenario

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"gearshift/rl"
)

// within warns of a number of the file that lies outside of what is plausible, with what
// was probably meant: low is said of one below, high of one above.
func (w *warner) within(key string, x, least, most float64, low, high string) {
	if !w.given(key) || x == 0 {
		return
	}
	text := w.texts[key]
	if text == "" {
		text = plain(x)
	}
	switch {
	case x < least:
		w.warn(key, "%s is very little; %s", text, low)
	case x > most:
		w.warn(key, "%s is very much; %s", text, high)
	}
}

// Memory that GPUs and machines are sold with, in GB, by which they mean GiB.
var sold = []int64{4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 180, 192, 256, 288, 384, 512, 768, 1024}

// sizes warns of memory in the wrong unit.
func (w *warner) sizes() {
	for i, h := range w.s.Hosts {
		key := child(item("hosts", i), "memory")
		w.within(key, float64(h.Memory), 256<<20, 8<<40, "a host has at least 256MiB; want GiB, as in 24GiB?", "a host has at most 8TiB; want GiB, as in 24GiB?")
		number, gb := strings.CutSuffix(w.texts[key], "GB")
		for _, gib := range sold {
			if gb && number == fmt.Sprint(gib) {
				w.warn(key, "%s is %.1f GiB; what is sold with %d GB mostly has %dGiB, which is right then", w.texts[key], float64(h.Memory)/(1<<30), gib, gib)
			}
		}
	}
	for i, p := range w.s.Replicas {
		w.share(child(item("replicas", i), "memory"), float64(p.Memory.Share))
	}
	w.share("evaluation.static_memory", float64(w.s.Evaluation.StaticMemory))
	w.within("serving.max_body", float64(w.s.Serving.MaxBody), 1<<10, 1<<30, "requests are longer; want 8MiB, for instance", "one request may fill the memory; want 8MiB, for instance")
	w.within("serving.max_header", float64(w.s.Serving.MaxHeader), 1<<10, 16<<20, "headers are longer; want 64KiB, for instance", "want 64KiB, for instance")
}

// share warns of a fraction where percent belong.
func (w *warner) share(key string, percent float64) {
	w.within(key, percent, 1.001, 100, fmt.Sprintf("a share is in percent; want %s%% if a fraction was meant", plain(100*percent)), "")
}

// profile warns of costs that do not go with each other: what a machine that took them
// would have to read or compute.
func (w *warner) profile(i int) {
	m, at := &w.s.Models[i].Profile, item("profiles", i)
	key := func(name string) string { return child(at, name) }
	const gigabytes = 1e6 // of bytes per ms
	if m.Weights > 0 && m.WeightBytes > 0 {
		w.speed(key("weights_ms"), float64(m.WeightBytes)/m.Weights/gigabytes, 0.4, 60_000, m.Weights, "weight_bytes")
	}
	if m.Context > 0 && m.KVBytes > 0 {
		w.speed(key("context_token_ms"), float64(m.KVBytes)/m.Context/gigabytes, 0.04, 60_000, m.Context, "kv_bytes_per_token")
	}
	if m.Token > 0 && m.Weights > 0 && m.Token > 3*m.Weights {
		w.warn(key("token_ms"), "%s ms for the arithmetic of one token, more than %s ms for a read of all weights; want %s if microseconds were meant", plain(m.Token), plain(m.Weights), plain(m.Token/1000))
	}
	switch read := float64(m.WeightBytes) / m.Weights / gigabytes; {
	case m.Token == 0 || m.Weights == 0 || m.Token >= m.Weights/50_000:
	case m.WeightBytes > 0 && read >= 0.4 && read < 10: // fewer GB/s than a machine has that computes so fast
		w.warn(key("weights_ms"), "%s ms for a read of weight_bytes is %s GB/s, too little compared with %s ms for the arithmetic of one token; want %s if microseconds were meant", w.texts[key("weights_ms")], plain(read), plain(m.Token), plain(m.Weights/1000))
	case read >= 0.4:
		w.warn(key("token_ms"), "%s ms for the arithmetic of one token, compared with %s ms for a read of the weights: thousands of tokens would cost nothing; want %s if seconds were meant", w.texts[key("token_ms")], plain(m.Weights), plain(1000*m.Token))
	}
	seconds, micro := "want a thousand times that if seconds were meant", "want a thousandth of that if microseconds were meant"
	w.within(key("launch_floor_ms"), m.LaunchFloor, 0.02, 500, seconds, micro)
	w.within(key("overhead_ms"), m.Overhead, 0.01, 500, seconds, micro)
	w.within(key("sequence_ms"), m.Sequence, 0.0005, 100, seconds, micro)
	w.within(key("prompt_ms"), m.Prompt, 0.001, 5000, seconds, micro)
	w.within(key("request_ms"), m.Request, 0.001, 5000, seconds, micro)
	percent := "want a hundredth of that if percent were meant"
	w.within(key("growth_per_sequence"), m.Growth, 0, 0.5, "", percent)
	w.within(key("contention"), m.Contention, 0, 5, "", percent)
	w.within(key("crowding"), m.Crowding, 0, 5, "", percent)
	w.within(key("weight_bytes"), float64(m.WeightBytes), 1e6, 1e13, "it is in bytes: want 13_000_000_000 for 13 GB", "it is in bytes: want 13_000_000_000 for 13 GB")
	w.within(key("activation_bytes"), float64(m.ActivationBytes), 1e4, 1e12, "it is in bytes: want 300_000_000 for 300 MB", "it is in bytes: want 300_000_000 for 300 MB")
	w.within(key("kv_bytes_per_token"), float64(m.KVBytes), 256, 16<<20, "it is in bytes: want 131_072 for 128 KiB", "it is of one token: want 131_072 for 128 KiB")
}

// speed warns of a time in which more or less would be read than any machine does.
func (w *warner) speed(key string, gbPerS, least, most, ms float64, of string) {
	switch {
	case gbPerS > most:
		w.warn(key, "%s ms for a read of %s is %s GB/s, more than any machine; want %s if seconds were meant, or fewer bytes", w.texts[key], of, plain(gbPerS), plain(1000*ms))
	case gbPerS < least:
		w.warn(key, "%s ms for a read of %s is %s GB/s, less than any machine; want %s if microseconds were meant, or more bytes", w.texts[key], of, plain(gbPerS), plain(ms/1000))
	}
}

// numbers warns of the other numbers.
func (w *warner) numbers() {
	for i, t := range w.s.Tasks {
		w.within(child(item("tasks", i), "weight"), t.Weight, 0.001, 1000, "weights are relative to 1", "weights are relative to 1")
	}
	e := w.s.Engine
	w.within("engine.max_batch_tokens", float64(e.MaxBatchTokens), 16, 1<<20, "it is in tokens", "it is in tokens")
	w.within("engine.max_sequences", float64(e.MaxSequences), 1, 8192, "", "it is of sequences that run at once")
	w.within("engine.block_tokens", float64(e.BlockTokens), 1, 4096, "", "it is in tokens, not bytes")
	for _, l := range []struct {
		key  string
		mean float64
	}{{"workload.prompt_tokens", w.s.Workload.Prompt.Mean}, {"workload.output_tokens", w.s.Workload.Output.Mean}} {
		w.within(child(l.key, "mean"), l.mean, 1, 200_000, "", "it is in tokens")
	}
	w.within("workload.prompt_tokens.cv", w.s.Workload.Prompt.CV, 0.01, 8, "want 1 for a spread as wide as the mean", "it is a ratio, not percent: want 1 for a spread as wide as the mean")
	w.within("workload.output_tokens.cv", w.s.Workload.Output.CV, 0.01, 8, "want 1 for a spread as wide as the mean", "it is a ratio, not percent: want 1 for a spread as wide as the mean")
	w.within("evaluation.phase_s", w.s.Evaluation.PhaseS, 0.5, 7200, "it is in seconds", "it is in seconds: want a thousandth of that if milliseconds were meant")
	w.within("serving.retries.budget_percent", w.s.Serving.Server.Retries.BudgetPercent, 1, 100, "it is in percent: want 20 for a fifth", "")
	w.phases("training.load", w.s.Training.Load.MinPhase, w.s.Training.Load.MaxPhase)
	for name, p := range sorted(w.s.Training.Presets) {
		w.preset(child("training.presets", name), p)
	}
}

func (w *warner) phases(key string, least, most float64) {
	const ms = "it is in seconds: want a thousandth of that if milliseconds were meant"
	w.within(child(key, "min_phase_s"), least, 0.05, 7200, "it is in seconds", ms)
	w.within(child(key, "max_phase_s"), most, 0.05, 7200, "it is in seconds", ms)
}

// preset warns of settings that do not learn.
func (w *warner) preset(key string, p Preset) {
	if !w.given(key) { // borrowed
		return
	}
	rate := func(name string, x float64) {
		w.within(child(key, name), x, 1e-7, 0.1, "nothing is learned at that rate; 0.0005 is usual", "the network diverges at a rate above 0.1; 0.0005 is usual")
	}
	rate("learning_rate", p.LearningRate)
	rate("final_learning_rate", p.FinalLearningRate)
	w.within(child(key, "target_rate"), p.TargetRate, 1e-6, 0.5, "the target network hardly moves; 0.002 is usual", "the target network is the online one; 0.002 is usual")
	w.within(child(key, "advice_margin"), p.AdviceMargin, 0, 1, "", "it is utility, of which an answer has about 1; 0.03 is usual")
	if p.Discount != (rl.Discount{}) {
		w.within(child(key, "discount.time_constant_s"), p.Discount.TimeConstant, 0.05, 3600, "it is in seconds: want a thousand times that", "it is in seconds: want a thousandth of that if milliseconds were meant")
	}
	w.phases(child(key, "load"), p.Load.MinPhase, p.Load.MaxPhase)
}

// soon are the keys of times that may be very short.
var soon = []string{"cooldown", "slow_start", "watch", "hedge_after", "ready_grace", "scrape_interval", "probe_interval", "retry_after"}

// durations warns of times of the server that are too short or too long to be meant.
func (w *warner) durations() {
	var walk func(key string, v reflect.Value)
	walk = func(key string, v reflect.Value) {
		switch {
		case v.Type() == reflect.TypeFor[time.Duration]():
			least := 10 * time.Millisecond
			if slices.Contains(soon, key[strings.LastIndex(key, ".")+1:]) {
				least = time.Millisecond
			}
			w.within(key, float64(v.Int()), float64(least), float64(48*time.Hour), "nothing answers in that time; want seconds, as in 30s?", "it is days; want seconds or minutes, as in 30s?")
		case v.Kind() == reflect.Struct:
			eachField(v, func(name string, field reflect.Value, _ bool) { walk(child(key, name), field) })
		case v.Kind() == reflect.Map:
			for _, name := range v.MapKeys() {
				walk(child(key, name.String()), v.MapIndex(name))
			}
		}
	}
	walk("serving", reflect.ValueOf(&w.s.Serving).Elem())
	for _, d := range w.s.sections {
		if d.kept() {
			walk(d.path(), reflect.ValueOf(d.value(w.s)).Elem())
		}
	}
}
