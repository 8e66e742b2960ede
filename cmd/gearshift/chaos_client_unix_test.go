//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	chaosBroken = "broken" // by the loss of an engine within the answer, or of the router
	chaosBlind  = "blind"  // given up while every host was taken for lost
	chaosUnsent = "unsent" // there was no router to send it to
	// cutOff begins the reason of a request whose connection broke without a word, as only the crash of
	// the router may do.
	cutOff = "cut off"
)

// chaosClient is the clients of an application.
type chaosClient struct {
	c      *chaos
	task   string
	random *rand.Rand
	client *http.Client
}

func newChaosClient(c *chaos, task string, random *rand.Rand) *chaosClient {
	return &chaosClient{c, task, random, &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}, Timeout: time.Minute}}
}

// run sends requests at random times, three each second in the mean, and waits for their ends.
func (x *chaosClient) run(ctx context.Context) {
	var each sync.WaitGroup
	for ctx.Err() == nil {
		stream, tokens := x.random.IntN(2) == 0, 2+x.random.IntN(20)
		each.Go(func() { x.ask(stream, tokens) })
		pause(ctx, time.Duration(x.random.ExpFloat64()*float64(time.Second)/3))
	}
	each.Wait()
}

// ask sends one request and enters its end.
func (x *chaosClient) ask(stream bool, tokens int) {
	from := time.Now()
	end, reason := x.once(stream, tokens)
	cut := strings.HasPrefix(reason, cutOff)
	if (cut || end == soakFailed) && x.c.crashed(from, time.Now()) {
		end, reason = chaosBroken, "the router crashed"
	}
	if end == soakFailed && x.c.blindBetween(from, time.Now()) {
		end, reason = chaosBlind, "every host was taken for lost"
	}
	if end == soakFailed {
		fmt.Printf("chaos: lost at %v: %s %s\n", from.UTC().Format(time.StampMilli), x.task, reason)
		reason, _, _ = strings.Cut(reason, ",")
	}
	x.c.tally.add(end, reason)
}

func (x *chaosClient) once(stream bool, tokens int) (end, reason string) {
	body := fmt.Sprintf(`{"model":"auto","stream":%v,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"how are you today"}]}`, stream, tokens)
	r, err := http.NewRequest(http.MethodPost, "http://"+x.c.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return soakOdd, err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Gearshift-Task", x.task)
	response, err := x.client.Do(r)
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return chaosUnsent, "no router"
	case err != nil:
		return soakOdd, cutOff + " before an answer: " + err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return refusal(response)
	}
	if stream {
		return streamed(response.Body)
	}
	return wholeAnswer(response.Body)
}

// refusal is how a request ends whose answer is an error.
func refusal(response *http.Response) (end, reason string) {
	var e struct {
		Error struct{ Code, Message string }
	}
	text, err := io.ReadAll(response.Body)
	if err != nil || json.Unmarshal(text, &e) != nil || e.Error.Message == "" {
		return soakOdd, fmt.Sprintf("status %d without an error: %.100s", response.StatusCode, text)
	}
	reason = fmt.Sprintf("%d %s", response.StatusCode, e.Error.Code)
	if strings.HasPrefix(e.Error.Code, "upstream_") {
		h := response.Header
		return soakFailed, fmt.Sprintf("%s, after %s attempts, the last at %s: %s", reason, h.Get("X-Gearshift-Attempts"), h.Get("X-Gearshift-Replica"), e.Error.Message)
	}
	return soakRefused, reason
}

// wholeAnswer is how a request ends whose answer comes in one piece, of which part has come.
func wholeAnswer(body io.Reader) (end, reason string) {
	text, err := io.ReadAll(body)
	var answer struct{ Choices []json.RawMessage }
	switch {
	case err != nil:
		return chaosBroken, cutOff + " within an answer" // which has no place for an error
	case json.Unmarshal(text, &answer) != nil || len(answer.Choices) != 1:
		return soakOdd, fmt.Sprintf("no answer, or two: %.200s", text)
	}
	return soakServed, "whole"
}

// streamed is how a request ends whose answer is a stream: of one answer alone.
func streamed(body io.Reader) (end, reason string) {
	ids := map[string]bool{}
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			ID    string
			Error *struct{ Code string }
		}
		switch {
		case data == "[DONE]" && len(ids) == 1:
			return soakServed, "streamed"
		case data == "[DONE]":
			return soakOdd, fmt.Sprintf("a stream of %d answers", len(ids))
		case json.Unmarshal([]byte(data), &event) != nil:
			return soakOdd, "an event that is no JSON: " + data
		case event.Error != nil && len(ids) == 0:
			return soakFailed, "stream " + event.Error.Code
		case event.Error != nil:
			return chaosBroken, "stream " + event.Error.Code
		}
		if ids[event.ID] = true; len(ids) > 1 {
			return soakOdd, "a stream of two answers"
		}
	}
	if len(ids) == 0 {
		return soakOdd, cutOff + " before a stream began"
	}
	return soakOdd, cutOff + " within a stream"
}
