package loadgen

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]Target{
		"http://a:1":             {URL: "http://a:1"},
		"http://a:1/v1":          {URL: "http://a:1"},
		"https://a/v1/=x/y:7b":   {URL: "https://a", Model: "x/y:7b"},
		"http://a:1/proxy/v1=it": {URL: "http://a:1/proxy", Model: "it"},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a:1", "ftp://a", "http://", "http://%zz"} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), "URL=MODEL") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

// every is n times, so far apart, from one on.
func every(step time.Duration, n int, from time.Duration) []time.Duration {
	list := make([]time.Duration, n)
	for i := range list {
		list[i] = from + time.Duration(i)*step
	}
	return list
}

// Steps are timed while all decode: what each has before the last one's first token,
// and after the first one's last, is left out.
func TestSteady(t *testing.T) {
	const ms = time.Millisecond
	answers := []Answer{
		{Prompt: 10, Output: 20, Pieces: append(every(50*ms, 5, 0), every(10*ms, 15, 210*ms)...)},
		{Prompt: 30, Output: 10, Pieces: every(10*ms, 10, 220*ms)},
	}
	var s Sample
	from, to, err := s.steady(answers)
	if err != nil || from != 220*ms || to != 310*ms {
		t.Fatalf("from %v to %v: %v", from, to, err)
	}
	// The first has tokens 6 to 15 of its own in that time, the second 0 to 9.
	if want := 10 + (6+15)/2.0 + 0.5 + 30 + 9/2.0 + 0.5; math.Abs(s.MS-10) > 1e-9 || s.Sequences != 2 || s.Context != want {
		t.Errorf("%+v, want 10 ms and a context of %g", s, want)
	}
	// What joining takes lies before the first token that the others have with the last one.
	answers[0].Pieces = append(every(50*ms, 5, 0), every(10*ms, 15, 240*ms)...)
	answers[1].Pieces = append(every(ms, 1, 220*ms), every(10*ms, 9, 240*ms)...)
	s = Sample{}
	if _, _, err := s.steady(answers); err != nil || math.Abs(s.MS-100/9.0) > 1e-9 {
		t.Errorf("joining takes a step of 20 ms among nine: %+v, %v", s, err)
	}
	// Pieces of several tokens each are as many steps.
	answers[1].Output = 30
	s = Sample{}
	if _, _, err := s.steady(answers); err != nil || math.Abs(s.MS-100/27.0) > 1e-9 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, _, err := new(Sample).steady([]Answer{{Output: 9, Pieces: every(ms, 9, 0)}, {Output: 9, Pieces: every(ms, 9, 20*ms)}}); err == nil {
		t.Error("requests that never ran together give a sample")
	}
}

// First tokens one after the other are those of prompts that each have a step.
func TestQueued(t *testing.T) {
	const ms = time.Millisecond
	at := func(firsts ...time.Duration) (list []Answer) {
		for _, f := range firsts {
			list = append(list, Answer{Prompt: 10, Pieces: []time.Duration{f}})
		}
		return list
	}
	s, ok := queued(at(28*ms, 7*ms, 14*ms, 21*ms, 42*ms)) // other requests decode between the last two
	if !ok || s.MS != 7 || s.Tokens != 10 || !s.Prefill || !s.Queued {
		t.Errorf("one by one: %+v, %v", s, ok)
	}
	for name, firsts := range map[string][]time.Duration{
		"all in one step": {40 * ms, 40*ms + 10, 40*ms + 20, 40*ms + 31, 40*ms + 45},
		"two in a step":   {20 * ms, 20*ms + 10, 40 * ms, 40*ms + 10, 60 * ms, 60*ms + 20},
		"three":           {7 * ms, 14 * ms, 21 * ms},
	} {
		if s, ok := queued(at(firsts...)); ok {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// A neighbour's activity counts steps in part, where they reach over the time.
func TestActivity(t *testing.T) {
	const ms = time.Millisecond
	var answers []*Answer
	for range 4 {
		answers = append(answers, &Answer{Prompt: 10, Output: 11, Sent: 0, Pieces: every(40*ms, 11, 100*ms)})
	}
	a := activity(1, answers, 10, 120*ms, 200*ms)
	if math.Abs(a.Steps-25) > 1e-9 || a.Sequences != 4 || a.Prefills != 0 {
		t.Errorf("decoding: %+v, want 25 steps of 4 a second", a)
	}
	if a := activity(1, answers, 10, 0, 50*ms); a.Steps != 0 || math.Abs(a.Prefills-4*0.5/0.05) > 1e-9 || a.PrefillTokens != 10 {
		t.Errorf("prefilling: %+v, want half of each of 4 prompts in 50 ms", a)
	}
	if a := activity(1, answers, 10, 900*ms, 950*ms); a != (Activity{Engine: 1}) {
		t.Errorf("idle: %+v", a)
	}
}

func TestTokenizer(t *testing.T) {
	for _, c := range []struct {
		t            tokenizer
		tokens, want int
	}{{tokenizer{0, 1}, 16, 16}, {tokenizer{8, 5}, 108, 20}, {tokenizer{20, 1}, 16, 1}} {
		if got := c.t.count(c.tokens); got != c.want {
			t.Errorf("%+v: %d words for %d tokens, want %d", c.t, got, c.tokens, c.want)
		}
	}
}

// Every load of the plan has its neighbours, and none is its own.
func TestPlan(t *testing.T) {
	c := Config{Batches: []int{1, 4, 16}, Prompts: []int{16, 256}, Output: 32, Neighbours: make([]Target, 2)}
	seen := map[string]bool{}
	for _, cell := range plan(&c) {
		key := strings.Join([]string{cell.name(), string(rune('0' + cell.Engine)), string(rune('0' + len(cell.Loaded)))}, " ")
		if len(cell.Loaded) == 1 {
			key += string(rune('0' + cell.Loaded[0]))
		}
		if seen[key] {
			t.Errorf("%s twice", key)
		}
		seen[key] = true
		if cell.Engine > 0 && len(cell.Loaded) > 0 {
			t.Errorf("a neighbour is measured beside others: %+v", cell)
		}
	}
	for _, want := range []string{"16 × 256 tokens 0 0", "16 × 16 tokens 0 2", "first token after 256 2 0", "first token after 16 0 12"} {
		if !seen[want] {
			t.Errorf("no %q", want)
		}
	}
}

// Samples taken while much of the processors was stolen count only where there are
// no others, and both are said.
func TestUndisturbed(t *testing.T) {
	var r run
	r.out.Samples = []Sample{{Cell: "a", MS: 1}, {Cell: "a", MS: 9, Stolen: 0.3}, {Cell: "b", MS: 2, Stolen: MostStolen}, {Cell: "c", MS: 7, Stolen: 0.1}}
	r.undisturbed()
	var left []float64
	for _, s := range r.out.Samples {
		left = append(left, s.MS)
	}
	if !slices.Equal(left, []float64{1, 2, 7}) {
		t.Errorf("samples left: %v", left)
	}
	notes := strings.Join(r.out.Notes, "\n")
	for _, want := range []string{"1 of 4 samples left out", "1 of 3 loads were sampled only"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no %q in %q", want, notes)
		}
	}
}

func TestStolenSince(t *testing.T) {
	before := Processors{All: 100, Stolen: 1}
	if got := (Processors{All: 110, Stolen: 1.5}).StolenSince(before); math.Abs(got-0.05) > 1e-12 {
		t.Errorf("half of ten seconds is a share of %g", got)
	}
	if got := (Processors{}).StolenSince(Processors{}); got != 0 {
		t.Errorf("nothing known is a share of %g", got)
	}
}

// Whoever walks by calibrate is told of its own flag.
func TestTooLittleTimeNamesTheFlags(t *testing.T) {
	r := &run{start: time.Now(), cells: []*Cell{{Samples: 1}, {}}}
	want := "in 0s only 1 of 2 loads could be tried once; give it a longer --time (calibrate: --measure-time)"
	if err := r.enough(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

// A round is as slow as its samples are beside those of their cells, whatever these are,
// and whatever the neighbours' take.
func TestSlowness(t *testing.T) {
	m := Measurement{Rounds: 3, Samples: []Sample{
		{Cell: "short", MS: 1}, {Cell: "long", MS: 10},
		{Cell: "short", MS: 3, Round: 1}, {Cell: "long", MS: 30, Round: 1}, {Cell: "neighbour", Engine: 1, MS: 99, Round: 1},
		{Cell: "short", MS: 2, Round: 3}, {Cell: "long", MS: 20, Round: 3}, // cut short
	}}
	if got, want := m.Slowness(), []float64{0.5, 1.5, 1}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
