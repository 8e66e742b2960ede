package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// clientRequest is a request of a client, and how it was answered.
type clientRequest struct {
	app       int
	due, done time.Time
	model     string // that answered; empty if none did
	host      string
	attempts  int
	wrong     string // why there is no answer
	foreign   bool   // what came is not the one answer to this request
}

// clients ask for each application at its rate, open loop: whether or not earlier ones are answered.
// Stop ends them and waits for the answers.
func (p *phase) clients() (stop func()) {
	ctx, end := context.WithCancel(p.t.Context())
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	var all sync.WaitGroup
	for i, a := range p.applications(p.policy) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 50))
			at := time.Now()
			for n := 0; ; n++ {
				at = at.Add(time.Duration(random.ExpFloat64() / a.rate * float64(time.Second)))
				if pause(ctx, time.Until(at)); ctx.Err() != nil {
					return
				}
				due := at
				all.Go(func() {
					q := p.ask(client, a.name, fmt.Sprintf("%s-%d-%d", p.policy, i, n))
					q.app, q.due = i, due
					p.mu.Lock()
					defer p.mu.Unlock()
					p.asked = append(p.asked, q)
				})
			}
		})
	}
	return func() {
		end()
		all.Wait()
	}
}

// ask sends a request with an ID that its answer must have.
func (p *phase) ask(client *http.Client, task, id string) (q clientRequest) {
	defer func() { q.done = time.Now() }()
	request, err := http.NewRequest(http.MethodPost, p.url+"/v1/gearshift/classify", strings.NewReader(classifyBody("auto")))
	if err != nil {
		q.wrong = err.Error()
		return q
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Gearshift-Task", task)
	request.Header.Set("X-Request-Id", id)
	response, err := client.Do(request)
	if err != nil {
		q.wrong = err.Error()
		return q
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	var answer struct{ Data []json.RawMessage }
	whole := json.NewDecoder(bytes.NewReader(text))
	switch {
	case err != nil:
		q.wrong = err.Error()
	case response.StatusCode != http.StatusOK:
		q.wrong = fmt.Sprintf("status %d: %.200s", response.StatusCode, text)
	case whole.Decode(&answer) != nil || len(answer.Data) != 1:
		q.wrong = fmt.Sprintf("no answer: %.200s", text)
	}
	if q.wrong != "" {
		return q
	}
	q.foreign = response.Header.Get("X-Request-Id") != id || whole.More()
	q.model = response.Header.Get("X-Gearshift-Variant")
	_, q.host, _ = strings.Cut(response.Header.Get("X-Gearshift-Replica"), "@")
	q.attempts, _ = strconv.Atoi(response.Header.Get("X-Gearshift-Attempts"))
	return q
}

// processorTimeOf is what a process has used so far.
func processorTimeOf(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(after)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	const tick = 10 * time.Millisecond // of Linux, whatever the machine
	return time.Duration(user+system) * tick
}
