package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation"
)

// TestPromptsForReal: two classifiers of texts, which ONNX Runtime computes, answer questions that come in
// bursts, behind a router for each of two arms: one knows how often each size is right, the other predicts
// it from the question. The predictor is fitted to the answers to one part of the questions, and the bursts
// are of another. Both arms are sent the same questions at the same moments, in turn; what counts is how many
// are answered rightly and in time.
//
// GEARSHIFT_PROMPTS is the number of rounds, GEARSHIFT_PROMPTS_WINDOW how long each arm has in a round, and
// GEARSHIFT_PROMPTS_MODELS a folder that models make has filled, with its samples in samples, to begin at once.
// With GEARSHIFT_PROMPTS_LEAST=8, in ms, the large size takes that long at least: where other work takes the
// processors, its times are then nearly steady, and fewer questions come.
//
//	GEARSHIFT_PROMPTS=5 go test -tags onnx -count=1 -v -timeout 30m -run '^TestPromptsForReal$' ./cmd/gearshift
func TestPromptsForReal(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("GEARSHIFT_PROMPTS"))
	if rounds < 1 {
		t.Skip("a measurement of a minute or two a round, on a machine with nothing else to do: GEARSHIFT_PROMPTS=5, or make prompts-real, runs it")
	}
	needONNX(t)
	window := 30 * time.Second
	if text := os.Getenv("GEARSHIFT_PROMPTS_WINDOW"); text != "" {
		var err error
		if window, err = time.ParseDuration(text); err != nil || window < promptsTurn {
			t.Fatalf("GEARSHIFT_PROMPTS_WINDOW=%s: want a time of 5s or more, such as 30s", text)
		}
	}
	c := newPromptsCheck(t)
	var gains []float64
	for round := range rounds {
		var runs [2]promptsRun
		for n := range max(1, int(window/promptsTurn)) {
			for i := range c.arms {
				arm := (i + n + round) % len(c.arms) // the order changes, so that none always follows the other
				c.play(&runs[arm], c.arms[arm].url, uint64(round)<<16+uint64(n))
			}
		}
		gain := runs[1].share() - runs[0].share()
		gains = append(gains, gain)
		t.Logf("round %d: %s: %v; %s: %v; %+.4f", round+1, c.arms[0].name, runs[0], c.arms[1].name, runs[1], gain)
		if gain <= 0 && rounds >= 5 {
			t.Errorf("round %d: the predictor gains %+.4f", round+1, gain)
		}
	}
	mean := evaluation.Bootstrap(gains)
	t.Logf("right and in time, predicted less task mean: %+.4f [%+.4f, %+.4f] over %d rounds", mean.Mean, mean.Lo, mean.Hi, rounds)
}

// promptsCheck is two engines and a router for each arm.
type promptsCheck struct {
	t       *testing.T
	sizes   [2]promptsSize
	arms    [2]promptsArm
	heldOut []promptsQuestion
}

// promptsSize is one of the classifiers.
type promptsSize struct {
	name, engine string
	accuracy     float64       // of the answers to the fitting part
	took         time.Duration // the median of one answer
}

// promptsArm is a router.
type promptsArm struct{ name, url string }

// promptsQuestion is a line of the samples.
type promptsQuestion struct{ Prompt, Group string }

const (
	// promptsDeadline is for an answer, from when its question should be sent.
	promptsDeadline = 250 * time.Millisecond
	// promptsTurn bounds the time for which questions come to one arm before they come to the other: other work on the machine
	// then disturbs both alike.
	promptsTurn = 5 * time.Second
	// promptsRule gives both arms the same rule: a question that gains little by the large size takes it only
	// while that has next to nothing to do, and one that gains much until the deadline is near.
	promptsRule = "task-aware:0.6,0.5,1,0,0"
)

func newPromptsCheck(t *testing.T) *promptsCheck {
	dir := os.Getenv("GEARSHIFT_PROMPTS_MODELS")
	if dir == "" {
		dir = t.TempDir()
		t.Log(succeed(t, "models", "make", "--family", "subjects", "--out", dir, "--samples", filepath.Join(dir, "samples")))
	}
	c := &promptsCheck{t: t, sizes: [2]promptsSize{{name: "small"}, {name: "large"}}}
	c.heldOut = readQuestions(t, filepath.Join(dir, "samples", "held-out.jsonl"))
	for i := range c.sizes {
		s := &c.sizes[i]
		args := []string{"engine", "--addr", "127.0.0.1:0", "--model", filepath.Join(dir, s.name), "--threads", "1", "--max-sequences", "1"}
		if least := os.Getenv("GEARSHIFT_PROMPTS_LEAST"); least != "" && s.name == "large" {
			args = append(args, "--batch-ms", "1="+least)
		}
		s.engine = "http://" + startProcess(t, args...).listensWithin(t, time.Minute)
	}
	labels := c.label(readQuestions(t, filepath.Join(dir, "samples", "fitting.jsonl")))
	for _, s := range c.sizes {
		t.Logf("%s: %.3f right of the fitting part, %v an answer", s.name, s.accuracy, s.took.Round(10*time.Microsecond))
	}
	file := write(t, "prompts.yaml", c.scenario())
	served := succeed(t, "scenario", "upstreams", file, "--at", "cpu0="+c.sizes[0].engine, "--at", "cpu1="+c.sizes[1].engine)
	for i, name := range []string{"task mean", "predicted"} {
		store := filepath.Join(t.TempDir(), "store.db")
		if name == "predicted" {
			t.Log(succeed(t, "quality", "fit", "--data", labels, "--store", store, "--name", "subjects"))
			succeed(t, "quality", "promote", "subjects", "--store", store)
			served += "\nquality: {predictor: subjects}\n"
		}
		router := startProcess(t, "serve", "--scenario", write(t, "served.yaml", served), "--policy", promptsRule, "--addr", "127.0.0.1:0", "--admin-addr", freeAddr(t), "--store", store)
		c.arms[i] = promptsArm{name, "http://" + router.listens(t)}
		if a, err := askPrompt(c.arms[i].url, "auto", c.heldOut[0].Prompt); err != nil || a.predicted != (name == "predicted") {
			t.Fatalf("the router of the arm %q answers %+v, %v", name, a, err)
		}
	}
	return c
}

// scenario is the two sizes on a host each, by what was counted and measured.
func (c *promptsCheck) scenario() string {
	small, large := &c.sizes[0], &c.sizes[1]
	return fmt.Sprintf(`name: prompts
tasks: [{name: subjects, total_ms: %d, quality: {small: %.3f, large: %.3f}}]
variants: [{name: small}, {name: large}]
hosts: [{name: cpu0, memory: 1GiB}, {name: cpu1, memory: 1GiB}]
replicas: [{variant: small, hosts: [cpu0], memory: 50%%}, {variant: large, hosts: [cpu1], memory: 50%%}]
profiles: [{variant: small, batch_ms: {1: %.3f}}, {variant: large, batch_ms: {1: %.3f}}]
workload: {output_tokens: {distribution: none}}
`, promptsDeadline.Milliseconds(), small.accuracy, large.accuracy, ms(small.took), ms(large.took))
}

// label has both sizes answer the questions, and returns a file of what each answer is worth: 1 if it is right.
func (c *promptsCheck) label(questions []promptsQuestion) (file string) {
	var lines strings.Builder
	var took [2][]time.Duration
	for _, q := range questions {
		scores := map[string]float64{}
		for i := range c.sizes {
			s := &c.sizes[i]
			began := time.Now()
			a, err := askPrompt(s.engine, s.name, q.Prompt)
			if err != nil {
				c.t.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
			if scores[s.name] = 0; a.label == q.Group {
				scores[s.name] = 1
			}
			s.accuracy += scores[s.name] / float64(len(questions))
		}
		line, err := json.Marshal(map[string]any{"prompt": q.Prompt, "scores": scores})
		if err != nil {
			c.t.Fatal(err)
		}
		lines.Write(append(line, '\n'))
	}
	for i := range c.sizes {
		slices.Sort(took[i])
		c.sizes[i].took = took[i][len(took[i])/2]
	}
	return write(c.t, "labels.jsonl", lines.String())
}
