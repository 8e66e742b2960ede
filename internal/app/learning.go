package app

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"gearshift/env/engine"
	"gearshift/internal/calibrate/draft"
	"gearshift/internal/learning"
	"gearshift/internal/scenario"
	"gearshift/router"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/openai/wire"
	predictors "gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
)

const (
	// learnEvery sets how often the router checks for enough newly timed answers.
	learnEvery = time.Second
	// enoughLengths is the least number of answers from which mean lengths of requests are taken.
	enoughLengths = 50
)

// showAssumed prints the values that a router without a scenario file begins with.
func showAssumed(w io.Writer, list []draft.Value) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "Begins with these values; the page and GET /admin/learned show what becomes known:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range list {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", v.What, v.Value, v.From)
	}
	_ = t.Flush() // an unwritable stderr stops nothing
	fmt.Fprintln(w)
}

// learner learns what no file declares while a router serves, and shows it to operators.
type learner struct {
	assumed  []draft.Value // none with a file
	routing  *Reloader
	profiles *learning.Profiles // nil: they stay as they are declared
	// scores are those of answers while no predictor is in charge; nil if none are taken then.
	scores *learning.Qualities
	alone  func() bool // reports whether one key sends all requests
	drift  *drift.Monitor
	log    *slog.Logger
}

// newLearner returns what learns for the scenario in force.
func newLearner(o *Options, s *scenario.Scenario, r *Reloader, log *slog.Logger) *learner {
	l := &learner{assumed: o.Assumed, routing: r, log: log}
	if r.learns = o.Text != nil || s.Serving.Profiles == scenario.LearnedProfiles; r.learns {
		l.profiles = learning.NewProfiles(r.core.Table(), s.Profiles(), s.Engine.Scheduler == engine.ChunkedPrefill)
	}
	return l
}

// monitor returns what compares answers with the profiles in force. Where these are learned, it times
// answers, and no deviation is worth a warning: it is what is learned from.
func (l *learner) monitor(s *scenario.Scenario, log *slog.Logger) *drift.Monitor {
	c := driftConfig(s, l.routing.core.Table(), log)
	if l.profiles != nil {
		c.Timed, c.Log = l.profiles.Add, nil
	}
	l.drift = drift.New(c)
	return l.drift
}

// scoresOf returns what takes in scores while no predictor is in charge, and has their means decide; nil where
// nothing is learned.
func (l *learner) scoresOf(p *predictors.Predictors, service *feedback.Service) func([]feedback.Label) {
	if l.profiles == nil {
		return nil
	}
	table := l.routing.core.Table()
	l.alone = service.Alone
	l.scores = learning.NewQualities(table, func(key string) bool { return slices.Contains(p.Settings().Feedback.Trusted, key) })
	p.SetMeans(make([]fleet.Prediction, len(table.Tasks)))
	return func(labels []feedback.Label) {
		for i := range labels {
			x := &labels[i]
			l.scores.Add(x.Owner, x.Task, x.Variant, x.Score)
		}
		p.SetMeans(l.scores.Predictions(l.alone()))
	}
}

// means calls f for each task whose qualities are means of scores.
func (l *learner) means(f func(task string, means []learning.Mean)) {
	if l.scores == nil {
		return
	}
	table := l.routing.core.Table()
	for t := range table.Tasks {
		if means, ok := l.scores.Task(t, l.alone()); ok {
			f(table.Tasks[t].Name, means)
		}
	}
}

// run fits profiles to new answers until stop is called. Exclusively calls a function while nothing
// else changes policies.
func (l *learner) run(exclusively func(func())) (stop func()) {
	if l.profiles == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(learnEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
			}
			if l.profiles.Due() {
				now := l.profiles.Fit()
				exclusively(func() { l.adopt(now) })
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// adopt puts profiles in force, with the lengths of requests where no file declares them.
func (l *learner) adopt(profiles []*profile.Profile) {
	next := l.routing.now.WithProfiles(profiles)
	if prompt, output, answers := l.profiles.Lengths(); l.routing.options.Text != nil && answers >= enoughLengths {
		next.Workload = next.Workload.WithMeans(prompt, output)
	}
	if err := l.routing.adopt(next); err != nil {
		l.log.Error("cannot use what was learned of the engines", "error", err)
		return
	}
	l.drift.Revise(next.Profiles())
	l.log.Info("profiles are fitted to answers", "answers", fmt.Sprint(l.profiles.Answers()))
}

// adopt puts in force a scenario that differs in latency models and lengths alone. No reload may run.
func (r *Reloader) adopt(next *scenario.Scenario) error {
	maker, err := next.Maker(r.core.Table())
	if err != nil {
		return err
	}
	r.shared.Lock()
	r.now, r.maker = next, maker
	r.shared.Unlock()
	return r.core.Revise(next.Forecaster(), next.Gate(), func(p router.Policy) (router.Policy, error) {
		if policy.IsRule(p.Name()) {
			return maker.Parse(p.Name())
		}
		again, _, err := r.store.Stored(p.Name(), maker)
		return again, err
	})
}

// shown adds the endpoints to the modules, and has the operators' page show the same values.
func (l *learner) shown(modules []serving.Module) []serving.Module {
	for _, x := range modules {
		if page, ok := x.(*dashboard.Dashboard); ok && l.profiles != nil {
			page.Learned = func() any { return l.report() }
		}
	}
	return append(modules, l)
}

// Join implements [serving.Module].
func (l *learner) Join(*serving.Server) serving.Parts {
	return serving.Parts{Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/learned", Access: serving.AdminRead, About: "the values that the router uses and no file declares, with the source of each", Handler: l.show},
		{Method: http.MethodGet, Path: "/admin/scenario", Access: serving.AdminRead, About: "the scenario that the router serves, with what it has learned", Handler: l.save},
	}}
}

// learnedReport is the body of GET /admin/learned.
type learnedReport struct {
	Values []draft.Value `json:"values"`
}

func (l *learner) report() learnedReport {
	values := append([]draft.Value{}, l.assumed...)
	set := func(v draft.Value) {
		if i := slices.IndexFunc(values, func(o draft.Value) bool { return o.What == v.What }); i >= 0 {
			values[i] = v
		} else {
			values = append(values, v)
		}
	}
	if l.profiles == nil {
		return learnedReport{values}
	}
	if v, ok := l.times(); ok {
		set(v)
	}
	l.means(func(task string, means []learning.Mean) {
		var values []string
		n, keys := 0, 0
		for _, m := range means {
			if m.Scores > 0 {
				values = append(values, fmt.Sprintf("%.3g", m.Mean))
			}
			n, keys = n+m.Scores, max(keys, m.Keys)
		}
		set(draft.Value{What: "quality", Value: strings.Join(values, ", "), From: fmt.Sprintf("%d scores by %s", n, counted(keys, "key"))})
	})
	if prompt, output, answers := l.profiles.Lengths(); answers >= enoughLengths && l.routing.options.Text != nil {
		set(draft.Value{What: "prompts and answers", Value: fmt.Sprintf("%.0f and %.0f tokens in the mean", prompt, output), From: fmt.Sprintf("the latest %d answers", answers)})
	}
	return learnedReport{values}
}

// batchShown is the size of the batch whose time per token is shown.
const batchShown = 8

// times returns the learned times per token under load; false before there are any.
func (l *learner) times() (draft.Value, bool) {
	table, now, answers := l.routing.core.Table(), l.profiles.Now(), l.profiles.Answers()
	var values, from []string
	for v := range table.Variants {
		replicas := table.ReplicasOf(v)
		if len(replicas) == 0 || answers[v] == 0 {
			continue
		}
		ms, _ := now[replicas[0]].Step(batchShown, batchShown, batchShown*300, 0)
		values = append(values, fmt.Sprintf("%s %.3g ms in a batch of %d", table.Variants[v].Name, ms, batchShown))
		from = append(from, fmt.Sprintf("%d answers of %s", answers[v], table.Variants[v].Name))
	}
	return draft.Value{What: "time under load", Value: strings.Join(values, ", "), From: "fitted to " + strings.Join(from, ", ")}, len(values) > 0
}

func (l *learner) show(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, l.report()) // who does not read it is gone
}

// SavedScenario is the body of GET /admin/scenario.
type SavedScenario struct {
	Name string `json:"name"`
	// Text holds a scenario file.
	Text string `json:"text"`
}

func (l *learner) save(w http.ResponseWriter, r *http.Request) {
	name, text := l.routing.Text()
	if l.profiles != nil {
		var err error
		if text, err = draft.WithLearned(name, text, l.learned()); err != nil {
			serving.Fail(w, r, http.StatusInternalServerError, wire.Error{Type: wire.ServerError, Code: "not_saved", Message: err.Error()})
			return
		}
	}
	_ = serving.Answer(w, http.StatusOK, SavedScenario{Name: name, Text: string(text)})
}

// learned returns what the router has learned, with where each value comes from.
func (l *learner) learned() (out draft.Learned) {
	table, now, answers := l.routing.core.Table(), l.profiles.Now(), l.profiles.Answers()
	for v := range table.Variants {
		if answers[v] == 0 {
			continue
		}
		first := len(out.Profiles)
		for _, i := range table.ReplicasOf(v) {
			host := table.Hosts[table.Replicas[i].Host].Name
			same := slices.IndexFunc(out.Profiles[first:], func(p draft.LearnedProfile) bool { return p.Profile == *now[i] })
			if same >= 0 {
				p := &out.Profiles[first+same]
				if !slices.Contains(p.Hosts, host) {
					p.Hosts = append(p.Hosts, host)
				}
				continue
			}
			out.Profiles = append(out.Profiles, draft.LearnedProfile{
				Variant: table.Variants[v].Name, Hosts: []string{host}, Profile: *now[i], From: fmt.Sprintf("fitted to %d answers", answers[v]),
			})
		}
		if len(out.Profiles) == first+1 { // of every host
			out.Profiles[first].Hosts = nil
		}
	}
	l.means(func(task string, means []learning.Mean) {
		for v, m := range means {
			if m.Scores > 0 {
				out.Qualities = append(out.Qualities, draft.LearnedQuality{Task: task, Variant: table.Variants[v].Name, Quality: m.Mean, From: fmt.Sprintf("scored in %d answers by %s", m.Scores, counted(m.Keys, "key"))})
			}
		}
	})
	if prompt, output, n := l.profiles.Lengths(); l.routing.options.Text != nil && n >= enoughLengths {
		out.Prompt, out.Output = math.Round(prompt), math.Round(output)
		out.From = fmt.Sprintf("mean of the latest %d answers; guess: cv and max", n)
	}
	return out
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
