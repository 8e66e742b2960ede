package env_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// carrying is twoByTwo whose requests carry one of three prompts, or none.
func carrying(t *testing.T) env.Config {
	c := twoByTwo(t)
	c.Prompts = &env.Prompts{Scores: [][]float32{{1, 0}, {0, 1}, {0.25, 0.5}}}
	c.Open = func(seed uint64) (workloads.Stream, error) {
		arrivals := *poisson(seed, 12, 400)
		for i := range arrivals {
			arrivals[i].Prompt = int32(i % 4)
		}
		return &arrivals, nil
	}
	return c
}

// predicting adds what is predicted for the prompts: the opposite of their scores.
func predicting(t *testing.T) env.Config {
	c := carrying(t)
	for task := range c.Table.Tasks {
		var list []fleet.Prediction
		for _, row := range c.Prompts.Scores {
			p := fleet.Prediction{Known: true, Sure: float32(task)}
			for v, x := range row {
				p.Quality[v], p.Low[v] = 1-x, (1-x)/2
			}
			list = append(list, p)
		}
		c.Prompts.Predicted = append(c.Prompts.Predicted, list)
	}
	return c
}

// An answer is worth its prompt's score, whatever was predicted, and one to a request without a
// prompt what its task's row says; late ones are worth nothing.
func TestAnswersAreValuedByScores(t *testing.T) {
	for _, asServed := range []bool{false, true} {
		c := predicting(t)
		if asServed {
			c.AsServed = served(t, 1).AsServed
			c.AsServed.Gate = nil
		}
		counts := map[int32]int{}
		for _, o := range episode(t, c, 1) {
			want := 0.0
			if o.Met && o.Request.Prompt > 0 {
				want = float64(c.Prompts.Scores[o.Request.Prompt-1][o.Variant])
			} else if o.Met {
				want = c.Table.Tasks[o.Request.Task].Quality[o.Variant]
			}
			if o.Utility != want {
				t.Fatalf("decision %d earns %v, want %v: %+v", o.Decision, o.Utility, want, o)
			}
			if o.Met {
				counts[o.Request.Prompt]++
			}
		}
		if len(counts) != 4 || slices.Min([]int{counts[0], counts[1], counts[2], counts[3]}) < 20 {
			t.Errorf("answers in time by prompt: %v", counts)
		}
	}
}

// A decision sees what is predicted for the prompt as one of the request's task, and nothing where
// it carries none.
func TestDecisionsSeePredictions(t *testing.T) {
	c := predicting(t)
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	for over := false; !over; {
		r, prompt := e.Request(), e.Arrival().Prompt
		var want fleet.Prediction
		if prompt > 0 {
			want = c.Prompts.Predicted[r.Task][prompt-1]
		}
		if r.Predicted != want || r.Prompt != prompt {
			t.Fatalf("the request with prompt %d is %+v, want %+v", prompt, r, want)
		}
		step, err := e.Step(0)
		if err != nil {
			t.Fatal(err)
		}
		over = step.Terminated
	}
}

// Scores change what is earned and nothing else: neither the times, nor what a router remembers of
// its latest requests, since it has no scores.
func TestScoresAreHiddenFromRouters(t *testing.T) {
	play := func(c env.Config) (views []fleet.Shortfalls, earned float64, outcomes []env.Outcome) {
		e := make2(t, c)
		if _, err := e.Reset(2); err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			views = append(views, e.View().Recent)
			step, err := e.Step(i % 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range step.Info.Outcomes {
				earned += o.Utility
				o.Utility, o.Request.Prompt = 0, 0
				outcomes = append(outcomes, o)
			}
			if step.Terminated {
				return views, earned, outcomes
			}
		}
	}
	c := carrying(t)
	views, earned, outcomes := play(c)
	c.Prompts = nil
	without, rows, same := play(c)
	if !slices.Equal(views, without) || !reflect.DeepEqual(outcomes, same) {
		t.Error("scores change what a router sees, or when answers come")
	}
	if math.Abs(earned-rows) < 20 {
		t.Errorf("%v is earned by scores, and %v by rows: too easy a test", earned, rows)
	}
}

// A copy of an environment values answers as the original does, and marginal rewards add up to
// scores.
func TestCopiesAndMarginalsAreByScores(t *testing.T) {
	c := predicting(t)
	actions := slices.Repeat([]int{0, 1}, 200)
	begin := func() *env.Environment {
		e := make2(t, c)
		if _, err := e.Reset(1); err != nil {
			t.Fatal(err)
		}
		return e
	}
	want := playOn(t, begin(), actions)
	e, copied := begin(), new(env.Environment)
	playOn(t, e, actions[:150])
	stream, err := c.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	for range 151 {
		stream.Next()
	}
	copied.CopyFrom(e, stream)
	if got := playOn(t, copied, actions[150:]); !reflect.DeepEqual(got.steps, want.steps[150:]) {
		t.Error("a copy earns something else")
	}
	c.Marginal = true
	var utility, marginal float64
	for _, step := range playOn(t, begin(), actions).steps {
		for _, o := range step.Info.Outcomes {
			utility, marginal = utility+o.Utility, marginal+o.Marginal
		}
	}
	if math.Abs(utility-marginal) > 1e-9 || utility == 0 {
		t.Errorf("utilities of %v, marginal ones of %v", utility, marginal)
	}
}

func TestPromptsThatDoNotFit(t *testing.T) {
	for want, change := range map[string]func(*env.Prompts){
		"prompt 1 has 3 scores for 2 variants":      func(p *env.Prompts) { p.Scores[1] = make([]float32, 3) },
		"prompts are predicted for 1 of 2 tasks":    func(p *env.Prompts) { p.Predicted = p.Predicted[:1] },
		"2 prompts are predicted for task 1, not 3": func(p *env.Prompts) { p.Predicted[1] = p.Predicted[1][:2] },
	} {
		c := predicting(t)
		change(c.Prompts)
		if _, err := env.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
