package training

import (
	"slices"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/rl"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/profile"
	"gearshift/serving/experience"
)

// LogRecording is logged requests as the training loop sees decisions: each stretch of
// requests that followed each other is an episode, which the stretch's end cuts.
// Rewards are by the scenario's objective.
type LogRecording struct {
	tasks      []fleet.Task
	credit     *evaluation.Credit
	encoder    *observation.Encoder
	forecaster *profile.Forecaster
	places     bool // actions are replicas, not variants
	stretches  [][]experience.Row

	view        fleet.View
	observation []float32
	episode     []experience.Row
	rewards     []float64 // of its decisions
	at          int
	completed   [1]rl.Completion
}

// NewLogRecording makes a recording of the log for the Spec, as the scenario's policies observe.
func NewLogRecording(s *scenario.Scenario, spec observation.Spec, log *experience.Log) (*LogRecording, error) {
	table, err := policies.LogTable(s, log)
	if err != nil {
		return nil, err
	}
	maker, err := s.Maker(table)
	if err != nil {
		return nil, err
	}
	by := s.Training.Objective
	t := &LogRecording{
		tasks: table.Tasks, credit: evaluation.NewCredit(by),
		forecaster: s.Forecaster(), places: spec.Places(),
	}
	if t.encoder, err = maker.Encoder(spec); err != nil {
		return nil, err
	}
	t.observation = make([]float32, t.encoder.Dim())
	for i := range log.Runs {
		t.stretches = append(t.stretches, stretches(log.Runs[i].Rows)...)
	}
	t.stretches = slices.DeleteFunc(t.stretches, func(rows []experience.Row) bool {
		return len(rows) < by.Window() // they show nothing of what the objective looks at
	})
	return t, nil
}

// stretches returns the rows, in order, that policies decided one right after another:
// where a request lies in between that is not logged, or whose variant the client
// asked for, the next decision met a load that this one did not lead to alone. A
// stretch has two rows at least, the last of which only shows what followed.
func stretches(rows []experience.Row) (list [][]experience.Row) {
	from := 0
	for i := range rows {
		if i > from {
			before, r := &rows[i-1], &rows[i]
			if r.Decision == before.Decision+1 && r.View.Now >= before.View.Now && !r.Pinned && !before.Pinned {
				continue
			}
			list, from = appendStretch(list, rows[from:i]), i
		}
	}
	return appendStretch(list, rows[from:])
}

func appendStretch(list [][]experience.Row, rows []experience.Row) [][]experience.Row {
	if len(rows) > 1 {
		list = append(list, rows)
	}
	return list
}

// Transitions returns how many decisions are followed by another and have a known reward.
func (t *LogRecording) Transitions() (n int) {
	for _, rows := range t.stretches {
		for i := range rows[:len(rows)-1] {
			if rows[i].Known() {
				n++
			}
		}
	}
	return n
}

// Episodes implements [rl.Recording].
func (t *LogRecording) Episodes() int { return len(t.stretches) }

// Reset implements [rl.Env].
func (t *LogRecording) Reset(n uint64) []float32 {
	t.episode, t.at = t.stretches[n], 0
	t.rewards = t.reward(t.episode)
	return t.observe()
}

// reward returns the reward of each row's decision. What became of a row that is not known
// counts, in the windows of others, as answered in time by the variant that was chosen.
func (t *LogRecording) reward(rows []experience.Row) []float64 {
	t.credit.Reset()
	for i := range rows {
		r := &rows[i]
		task := &t.tasks[r.Request.Task]
		earned := r.Utility
		if !r.Known() {
			earned = task.Utility(r.Variant, fleet.Times{}, fleet.Deadlines{})
		}
		t.credit.Decided(task.Peak())
		t.credit.Ended(i, earned)
	}
	rewards := append(t.rewards[:0], make([]float64, len(rows))...)
	for decision, reward := range t.credit.Known(true) {
		rewards[decision] = reward
	}
	return rewards
}

// observe encodes the present row as the router did when it decided: the encoder is
// the same, the view is kept whole, and forecasts follow from it.
func (t *LogRecording) observe() []float32 {
	r := &t.episode[t.at]
	t.view.CopyFrom(&r.View)
	if t.places {
		t.view.Whole() // as in training
	}
	t.forecaster.Forecast(&t.view, &r.Request)
	t.encoder.Encode(t.observation, &t.view, &r.Request)
	return t.observation
}

// Action implements [rl.Recording].
func (t *LogRecording) Action() int {
	if t.places {
		return t.episode[t.at].Replica
	}
	return t.episode[t.at].Variant
}

// Step implements [rl.Env]. A reward that is not known, as that of a client who
// left, never comes. The load is by the rate alone: a log does not say how slow the
// hosts truly were.
func (t *LogRecording) Step(int) rl.Step {
	r := &t.episode[t.at]
	step := rl.Step{}
	if r.Known() {
		t.completed[0] = rl.Completion{
			Decision: t.at, Utility: t.rewards[t.at], Stratum: stratum(r.View.Smoothed[len(r.View.Smoothed)-1]),
		}
		step.Completed = t.completed[:]
	}
	t.at++
	step.Elapsed = t.episode[t.at].View.Now - r.View.Now
	step.Truncated = t.at == len(t.episode)-1
	step.Observation = t.observe()
	return step
}
