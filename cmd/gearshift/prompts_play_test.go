package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"gearshift/workloads"
)

// promptsRun counts the questions of one arm in a round.
type promptsRun struct {
	asked, right, late, refused, large int
	refusal                            error // the last one
}

// share counts the questions that were answered rightly and in time, as a part of all.
func (r promptsRun) share() float64 { return float64(r.right) / float64(r.asked) }

func (r promptsRun) String() string {
	of := func(n int) float64 { return float64(n) / float64(r.asked) }
	text := fmt.Sprintf("%.4f of %d (%.2f by the large size, %.3f late", r.share(), r.asked, of(r.large), of(r.late))
	if r.refused > 0 {
		text += fmt.Sprintf(", %.3f refused, such as: %v", of(r.refused), r.refusal)
	}
	return text + ")"
}

// promptsArrival is a question and when it is sent.
type promptsArrival struct {
	at time.Duration
	promptsQuestion
}

// draw is the questions of a turn: in calms a half of what the large size can answer comes, in bursts two and a
// half times that, both of two seconds in the mean. Both arms are sent the same.
func (c *promptsCheck) draw(turn uint64) (list []promptsArrival) {
	capacity := 1 / c.sizes[1].took.Seconds()
	bursts, err := workloads.NewMMPP([][]float64{{-0.5, 0.5}, {0.5, -0.5}}, []float64{0.5 * capacity, 2.5 * capacity})
	if err != nil {
		c.t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(workloads.Seed(workloads.Evaluation, turn), 1))
	times := bursts.Times(random)
	for {
		at, _, _ := times()
		if at > promptsTurn {
			return list
		}
		list = append(list, promptsArrival{at, c.heldOut[random.IntN(len(c.heldOut))]})
	}
}

// play has clients ask a router the questions of a turn, and counts them.
func (c *promptsCheck) play(run *promptsRun, url string, turn uint64) {
	var clients sync.WaitGroup
	var mu sync.Mutex
	began := time.Now()
	for _, a := range c.draw(turn) {
		time.Sleep(time.Until(began.Add(a.at)))
		clients.Go(func() {
			answer, err := askPrompt(url, "auto", a.Prompt)
			took := time.Since(began) - a.at
			mu.Lock()
			defer mu.Unlock()
			run.asked++
			switch {
			case err != nil:
				run.refused, run.refusal = run.refused+1, err
			case took > promptsDeadline:
				run.late++
			case answer.label == a.Group:
				run.right++
			}
			if answer.variant == "large" {
				run.large++
			}
		})
	}
	clients.Wait()
}

// promptsClient keeps a connection for each question that may be on its way.
var promptsClient = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512}, Timeout: time.Minute}

// promptAnswer holds the fields that a client reads of an answer.
type promptAnswer struct {
	label, variant string
	predicted      bool
}

// askPrompt has an engine or a router classify a text.
func askPrompt(url, model, prompt string) (a promptAnswer, err error) {
	body, err := json.Marshal(map[string]string{"model": model, "input": prompt})
	if err != nil {
		return a, err
	}
	response, err := promptsClient.Post(url+"/v1/gearshift/classify", "application/json", bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return a, err
	}
	var answer struct{ Data []struct{ Label string } }
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Data) != 1 {
		return a, fmt.Errorf("status %d: %.200s", response.StatusCode, text)
	}
	h := response.Header
	return promptAnswer{answer.Data[0].Label, h.Get("X-Gearshift-Variant"), h.Get("X-Gearshift-Quality") != ""}, nil
}

// readQuestions reads a file of samples.
func readQuestions(t *testing.T, path string) (list []promptsQuestion) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var q promptsQuestion
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		list = append(list, q)
	}
	return list
}
