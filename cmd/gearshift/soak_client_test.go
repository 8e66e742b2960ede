package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// The ways in which a request ends, as its client sees it.
const (
	soakServed  = "served"
	soakRefused = "refused" // with a reason, before any replica worked on it
	soakFailed  = "failed"  // with a reason, or by breaking the connection
	soakLeft    = "left"    // the client's own doing
	soakOdd     = "odd"     // none of these: it must not be
)

// tally counts how requests ended, and why.
type tally struct {
	mu   sync.Mutex // protects all below
	ends map[[2]string]int
}

func newTally() *tally { return &tally{ends: map[[2]string]int{}} }

func (y *tally) add(end, reason string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.ends[[2]string{end, reason}]++
}

// of is the number of requests with one of the ends.
func (y *tally) of(ends ...string) (n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for key, count := range y.ends {
		if slices.Contains(ends, key[0]) {
			n += count
		}
	}
	return n
}

func (y *tally) line() string {
	return fmt.Sprintf("%d served, %d refused, %d failed, %d left", y.of(soakServed), y.of(soakRefused), y.of(soakFailed), y.of(soakLeft))
}

// rows are the counts by end and reason.
func (y *tally) rows() (rows []string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, key := range slices.SortedFunc(maps.Keys(y.ends), func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) }) {
		rows = append(rows, fmt.Sprintf("%-8s %-40s %8d", key[0], key[1], y.ends[key]))
	}
	return rows
}

// soakClient sends one request after the other.
type soakClient struct {
	url    string
	random *rand.Rand
	tally  *tally
	client *http.Client
}

func newSoakClient(url string, random *rand.Rand, tally *tally) *soakClient {
	return &soakClient{url: url, random: random, tally: tally, client: &http.Client{Transport: &http.Transport{}}}
}

// run asks until the time is over; what is under way then still ends.
func (c *soakClient) run(ctx context.Context) {
	defer c.client.CloseIdleConnections()
	for ctx.Err() == nil {
		c.tally.add(c.ask())
		select {
		case <-time.After(time.Duration(c.random.ExpFloat64() * float64(40*time.Millisecond))):
		case <-ctx.Done():
		}
	}
}

// ask sends a request of some kind, and says how it ended.
func (c *soakClient) ask() (end, reason string) {
	body, path, stream := c.request()
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	events := -1 // after which the client leaves
	switch c.random.IntN(10) {
	case 0:
		timer := time.AfterFunc(time.Duration(c.random.IntN(400))*time.Millisecond, leave)
		defer timer.Stop()
	case 1:
		events = c.random.IntN(8)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path, strings.NewReader(body))
	if err != nil {
		return soakOdd, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(r)
	if err != nil {
		return c.broken(ctx, "no answer", err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode >= http.StatusBadRequest:
		return c.refusal(ctx, response)
	case stream || strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream"):
		return c.stream(ctx, leave, response, events)
	}
	return c.whole(ctx, response)
}

// request makes one up: mostly sound.
func (c *soakClient) request() (body, path string, stream bool) {
	model := []string{"auto", "auto", "auto", "small", "large"}[c.random.IntN(5)]
	stream = c.random.IntN(2) == 0
	rest := fmt.Sprintf(`"stream":%v,"max_tokens":%d`, stream, 1+c.random.IntN(60))
	switch c.random.IntN(40) {
	case 0:
		return `{"model":"none",` + rest + `}`, "/v1/chat/completions", stream
	case 1:
		return `{"model":`, "/v1/chat/completions", stream
	case 2:
		return `{"model":"auto","messages":[],` + rest + `}`, "/v1/chat/completions", stream
	case 3:
		rest += `,"tool_choice":"required","tools":[{"type":"function","function":{"name":"turn"}}]`
	}
	if c.random.IntN(4) == 0 {
		return `{"model":"` + model + `","prompt":"once upon a time",` + rest + `}`, "/v1/completions", stream
	}
	return `{"model":"` + model + `","messages":[{"role":"user","content":"how do gears turn"}],` + rest + `}`, "/v1/chat/completions", stream
}

// broken is the end of a request whose connection broke.
func (c *soakClient) broken(ctx context.Context, where string, err error) (end, reason string) {
	switch {
	case ctx.Err() != nil:
		return soakLeft, where
	case where != "no answer" && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
		return soakFailed, where + ", connection broken"
	}
	return soakOdd, where + ": " + err.Error()
}

func (c *soakClient) refusal(ctx context.Context, r *http.Response) (end, reason string) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return c.broken(ctx, "within an error", err)
	}
	reason = code(text)
	switch {
	case reason == "":
		return soakOdd, fmt.Sprintf("status %d: %s", r.StatusCode, text)
	case r.StatusCode < http.StatusInternalServerError || reason == "no_replica":
		return soakRefused, fmt.Sprintf("%d %s", r.StatusCode, reason)
	}
	return soakFailed, fmt.Sprintf("%d %s", r.StatusCode, reason)
}

// code is that of an error of OpenAI's shape, or empty.
func code(text []byte) string {
	var body struct {
		Error struct{ Message, Code string }
	}
	if json.Unmarshal(text, &body) != nil || body.Error.Message == "" {
		return ""
	}
	return body.Error.Code
}

func (c *soakClient) whole(ctx context.Context, r *http.Response) (end, reason string) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return c.broken(ctx, "within an answer", err)
	}
	var answer struct {
		Choices []struct {
			FinishReason string `json:"finish_reason"`
		}
	}
	if json.Unmarshal(text, &answer) != nil || len(answer.Choices) == 0 || answer.Choices[0].FinishReason == "" {
		return soakOdd, "garbage for an answer"
	}
	return soakServed, "whole"
}

// stream reads events to their end, or leaves after some.
func (c *soakClient) stream(ctx context.Context, leave func(), r *http.Response, events int) (end, reason string) {
	lines := bufio.NewScanner(r.Body)
	fault, done, garbage := "", false, false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		switch {
		case data == "[DONE]":
			done = true
		case !json.Valid([]byte(data)):
			garbage = true
		case code([]byte(data)) != "":
			fault = code([]byte(data))
		}
		if events--; events == 0 {
			leave()
		}
	}
	switch err := lines.Err(); {
	case ctx.Err() != nil:
		return soakLeft, "within a stream"
	case fault != "":
		return soakFailed, "stream: " + fault
	case err != nil:
		return c.broken(ctx, "within a stream", err)
	case done && !garbage:
		return soakServed, "stream"
	}
	return soakOdd, "garbage for a stream"
}
