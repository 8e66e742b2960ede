package scenario

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gearshift/env"
	"gearshift/internal/quality/labels"
	"gearshift/internal/scenario/labelled"
	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/serving/config"
	"gearshift/workloads/prompts"
)

// Quality says what predicts how good each variant's answer to a prompt would be, in the simulator
// and in a router, and how a router learns from scores. docs/scenario.md describes the keys.
type Quality struct {
	// Predictor is a reference to a stored predictor, [FitPredictor], or empty: none.
	Predictor string `yaml:"predictor,omitempty"`
	// Quality has the keys that only a router uses.
	config.Quality `yaml:",inline"`
}

// Predictors that are not stored.
const (
	// FitPredictor is fitted to those prompts of the workload that are not played.
	FitPredictor = "fit"
	// OraclePredictor knows the scores of the prompts that are played. No file has it: it shows
	// what predictions could be worth at most.
	OraclePredictor = "oracle"
)

// predictorForm is a name of the store, with a version or an alias.
var predictorForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(@[A-Za-z0-9][A-Za-z0-9._-]*)?$`)

func qualitySection() registered {
	return section[Quality]{
		key:     "quality",
		initial: func() Quality { return Quality{Quality: config.DefaultQuality()} },
		check:   (*checker).predicting,
		world:   func(q *Quality) { q.Quality = config.Quality{} },
		live:    []string{""},
	}
}

// Predictor returns what predicts quality: a reference to a stored predictor, [FitPredictor], or
// nothing.
func (s *Scenario) Predictor() string { return Of[Quality](s).Predictor }

// Predict has simulations predict quality by what the reference names, in place of
// quality.predictor: a stored predictor, which is m, [FitPredictor], [OraclePredictor] or nothing.
func (s *Scenario) Predict(ref string, m *quality.Regression) {
	q := *Of[Quality](s)
	q.Predictor = ref
	s.set("quality", &q)
	if s.prompts != nil {
		s.prompts.Use(m)
	}
}

func (c *checker) predicting(q *Quality) {
	const key = "quality.predictor"
	c.own("quality", q.Validate())
	if q.Predictor == "" {
		return
	}
	switch {
	case q.Predictor == OraclePredictor:
		c.judge(key, "%q knows what no router knows, and is for gearshift eval --quality; want %s, or a name of the store such as chat", OraclePredictor, FitPredictor)
	case !predictorForm.MatchString(q.Predictor):
		c.judge(key, "%q is not the name of a predictor; want %s, or a name of the store such as chat or chat@2", q.Predictor, FitPredictor)
	case q.Predictor == FitPredictor && c.s.Workload.Prompts == "":
		c.judge(key, "there are no prompts to fit a predictor to; want workload.prompts, or a name of the store such as chat")
	}
	if n := len(c.s.Variants); n > fleet.MostPredicted {
		c.judge(key, "quality is predicted for %d variants at most; the file has %d: want no predictor", fleet.MostPredicted, n)
	}
	for i, t := range c.s.Tasks {
		for name, x := range sorted(t.Quality) {
			c.judgeIf(x > 1, child(child(item("tasks", i), "quality"), name), "%v is above 1; with quality.predictor, a quality is a mean score from 0 to 1", x)
		}
	}
}

// Columns returns the names that the variants have in scores of prompts, by variant.
func (s *Scenario) Columns() []string {
	return namesOf(s.Variants, func(v Variant) string {
		if v.ScoresAs != "" {
			return v.ScoresAs
		}
		return v.Name
	})
}

// leastPrompts bounds the prompts that are played, and those that a predictor is fitted to.
const leastPrompts = quality.LeastPrompts

// carriedPrompts reads the labelled prompts of the workload.
func (c *checker) carriedPrompts() {
	const key = "workload.prompts"
	ref := c.s.Workload.Prompts
	if ref == "" || !c.sound(key) {
		return
	}
	set, digest, err := readPrompts(ref, filepath.Dir(c.file))
	if errors.Is(err, prompts.ErrNone) {
		return // a build that only serves plays none
	}
	if err != nil {
		c.judge(key, "%v", err)
		return
	}
	if !c.knownVariants() || !c.knownTasks() {
		return
	}
	for i, name := range c.s.Columns() {
		if !slices.Contains(set.Columns, name) {
			c.judge(child(item("variants", i), "scores_as"), "%s has no scores of %q; it has %s", ref, name, strings.Join(set.Columns, ", "))
			c.breaks(key)
		}
	}
	for _, p := range set.Prompts {
		if p.Task != "" && !slices.Contains(c.s.taskNames(), p.Task) {
			c.judge(key, "%s has prompts of the task %q, which is none of the file's; want %s, or no task", ref, p.Task, strings.Join(c.s.taskNames(), ", "))
			return
		}
	}
	if !c.sound(key) {
		return
	}
	c.s.prompts, c.s.digest = labelled.New(set, c.s.Columns()), digest
	if n := min(len(c.s.prompts.Fitted.Prompts), len(c.s.prompts.Played.Prompts)); n < leastPrompts {
		c.judge(key, "%s has %d prompts with a score of each variant in one of its halves; want %d or more", ref, n, leastPrompts)
		return
	}
	c.s.Workload.Carried = c.s.carried()
}

// readPrompts reads a built-in set, or a file by its path from the folder. Digest is that of a file.
func readPrompts(ref, folder string) (set *prompts.Set, digest string, err error) {
	if slices.Contains(prompts.Names(), ref) {
		set, err = prompts.BuiltIn(ref)
		return set, "", err
	}
	path := ref
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	read, err := labels.Read([]string{path}, labels.Options{})
	if errors.Is(err, os.ErrNotExist) {
		return nil, "", fmt.Errorf("there is no file %s; want one of labelled prompts, or what is built in: %s", path, strings.Join(prompts.Names(), ", "))
	}
	if err != nil {
		return nil, "", err
	}
	set = &prompts.Set{Name: filepath.Base(path), Columns: read.Columns}
	for _, p := range read.Prompts {
		set.Prompts = append(set.Prompts, prompts.Prompt(p))
	}
	return set, read.Sources[0].SHA256, nil
}

// carried returns the prompts that requests of each task may carry, as indexes into those that are
// played: those that name the task, and those that name none.
func (s *Scenario) carried() [][]int32 {
	lists := make([][]int32, len(s.Tasks))
	for i, p := range s.prompts.Played.Prompts {
		for t := range s.Tasks {
			if p.Task == "" || p.Task == s.Tasks[t].Name {
				lists[t] = append(lists[t], int32(i))
			}
		}
	}
	return lists
}

// WithoutPrompts returns the scenario with requests that carry no prompts, such as those of a log.
func (s *Scenario) WithoutPrompts() *Scenario {
	plain := *s
	plain.prompts, plain.Workload.Carried = nil, nil
	return &plain
}

// Predicting says what predicts quality in simulations, for readers of their results; empty where
// nothing does.
func (s *Scenario) Predicting() string {
	switch ref := s.Predictor(); {
	case s.prompts == nil || ref == "":
		return ""
	case ref == FitPredictor:
		return fmt.Sprintf("a fit to %d prompts of %s; %d others are played", len(s.prompts.Fitted.Prompts), s.Workload.Prompts, len(s.prompts.Played.Prompts))
	case ref == OraclePredictor:
		return "an oracle that knows the scores, as no router does"
	default:
		return ref
	}
}

// FittedPredictor returns the predictor that [FitPredictor] stands for.
func (s *Scenario) FittedPredictor() (*quality.Regression, error) {
	if s.prompts == nil {
		return nil, errors.New("quality.predictor: fit needs prompts to fit it to; want workload.prompts, or the name of a stored predictor")
	}
	return s.prompts.FittedPredictor()
}

// played returns the prompts of a simulation, with what is predicted for them; nil without any.
func (s *Scenario) played() (*env.Prompts, error) {
	if s.prompts == nil {
		return nil, nil
	}
	by := labelled.Stored
	switch ref := s.Predictor(); {
	case ref == "":
		by = labelled.None
	case ref == FitPredictor:
		by = labelled.Fit
	case ref == OraclePredictor:
		by = labelled.Oracle
	}
	p, err := s.prompts.Play(s.Table(), by)
	if err != nil {
		return nil, fmt.Errorf("quality.predictor: %q: %w", s.Predictor(), err)
	}
	return p, nil
}
