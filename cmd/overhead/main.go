// Command overhead is what scripts/bench-proxy.sh needs beside a load generator: an upstream that
// answers at once, the barest proxy that Go makes, a probe of what a proxy does to streams, and what two
// routers' results differ by in pairs.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const usage = "upstream ADDR | bare ADDR URL | streams URL TIME [HEADER: VALUE] and so on | paired BEFORE AFTER"

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 2 && args[0] == "upstream":
		err = http.ListenAndServe(args[1], http.HandlerFunc(upstream))
	case len(args) == 3 && args[0] == "bare":
		var to *url.URL
		if to, err = url.Parse(args[2]); err == nil {
			err = http.ListenAndServe(args[1], bare(to))
		}
	case len(args) >= 3 && args[0] == "streams":
		err = streams(os.Stdout, args[1], args[2], args[3:])
	case len(args) == 3 && args[0] == "paired":
		err = paired(os.Stdout, args[1], args[2])
	default:
		err = fmt.Errorf("arguments %q; want %s", args, usage)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

// What the upstream answers: a completion at once, or a stream whose events each say when they
// were sent, as @nanoseconds@.
const (
	completion = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one two three four five six seven eight"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17}}`
	event      = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"@%d@"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	lastEvents = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

	streamEvents = 10
	streamGap    = time.Millisecond
)

func upstream(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	if !bytes.Contains(body[:min(len(body), 2048)], []byte(`"stream":true`)) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, completion)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	due := time.Now()
	for range streamEvents {
		time.Sleep(time.Until(due))
		fmt.Fprintf(w, event, time.Now().UnixNano())
		_ = http.NewResponseController(w).Flush()
		due = due.Add(streamGap)
	}
	_, _ = io.WriteString(w, lastEvents)
}

// bare returns a proxy that does as little as a router in Go can: it parses the body, and passes it on.
func bare(to *url.URL) http.Handler {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(to) },
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256},
		ErrorHandler:  func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request struct {
			Model    string            `json:"model"`
			Messages []json.RawMessage `json:"messages"`
		}
		if err == nil {
			err = json.Unmarshal(body, &request)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

// streams asks for one stream after the other, and prints in nanoseconds the median time to the
// first event, and the median and p99 of how far gaps between events stretch or shrink.
func streams(out io.Writer, address, length string, header []string) error {
	d, err := time.ParseDuration(length)
	if err != nil {
		return err
	}
	var firsts, gaps []int64
	for end := time.Now().Add(d); time.Now().Before(end); {
		if firsts, gaps, err = stream(address, header, firsts, gaps); err != nil {
			return err
		}
	}
	if len(gaps) == 0 {
		return errors.New("no stream had two events with a time")
	}
	_, err = fmt.Fprintln(out, quantile(firsts, 0.5), quantile(gaps, 0.5), quantile(gaps, 0.99))
	return err
}

// stream asks for a stream, and adds what it saw.
func stream(address string, header []string, firsts, gaps []int64) ([]int64, []int64, error) {
	request, err := http.NewRequest(http.MethodPost, address, strings.NewReader(`{"stream":true,"model":"auto","messages":[{"role":"user","content":"hello"}],"max_tokens":8}`))
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer none")
	for _, field := range header {
		name, value, _ := strings.Cut(field, ":")
		request.Header.Set(name, strings.TrimSpace(value))
	}
	start := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s answered %s", address, response.Status)
	}
	var sent, arrived int64 // the last event
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		stamp, ok := stampIn(lines.Text())
		if !ok {
			continue
		}
		now := time.Now()
		if sent == 0 {
			firsts = append(firsts, int64(now.Sub(start)))
		} else {
			gap := now.UnixNano() - arrived - (stamp - sent)
			gaps = append(gaps, max(gap, -gap))
		}
		sent, arrived = stamp, now.UnixNano()
	}
	return firsts, gaps, lines.Err()
}

// stampIn finds the @nanoseconds@ of an event.
func stampIn(line string) (int64, bool) {
	_, rest, _ := strings.Cut(line, "@")
	digits, _, ok := strings.Cut(rest, "@")
	stamp, err := strconv.ParseInt(digits, 10, 64)
	return stamp, ok && err == nil
}

// quantile returns the value of that rank.
func quantile(values []int64, q float64) int64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}
