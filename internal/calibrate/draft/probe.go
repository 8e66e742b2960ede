package draft

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"gearshift/serving/engines/address"
)

// probeTokens is the length of the answer that a probe asks for.
const probeTokens = 32

// Patience bounds the time for the answer to a probe, in timeouts of a question.
const Patience = 10

// probe times a short answer of the model, token by token. One that is no chat model
// completes text.
func (e *askedEngine) probe(ctx context.Context, m *Model) error {
	patient := *e.Asker
	patient.Timeout *= Patience
	p := askedEngine{Asker: &patient, target: e.target}
	const prompt = "Count from one to fifty in words."
	var last error
	for _, way := range []struct {
		path string
		body map[string]any
	}{
		{"/chat/completions", map[string]any{"messages": []map[string]string{{"role": "user", "content": prompt}}}},
		{"/completions", map[string]any{"prompt": prompt}},
	} {
		way.body["model"], way.body["stream"], way.body["max_tokens"] = m.ID, true, probeTokens
		body, err := json.Marshal(way.body)
		if err != nil {
			return err
		}
		last = p.exchange(ctx, http.MethodPost, e.base+way.path, bytes.NewReader(body), func(r io.Reader) error { return timed(r, m) })
		var status *statusError
		if last == nil || !errors.As(last, &status) {
			break
		}
	}
	if errors.Is(last, context.DeadlineExceeded) {
		return fmt.Errorf("%s does not complete with the model %s: no whole answer of POST %s/chat/completions within %v; want an engine that has loaded the model", e.target.URL, m.ID, address.Readable(e.base), patient.Timeout)
	}
	if last != nil {
		return fmt.Errorf("%s does not complete with the model %s: tried POST %s/chat/completions and /completions: %w", e.target.URL, m.ID, address.Readable(e.base), last)
	}
	return nil
}

// timed reads a stream to its end and takes the time between its first and last piece.
func timed(r io.Reader, m *Model) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	var first, last time.Time
	pieces := 0
	for lines.Scan() {
		if line := lines.Text(); !strings.HasPrefix(line, "data:") || !strings.Contains(line, `"choices":[{`) && !strings.Contains(line, `"choices": [{`) {
			continue
		}
		last = time.Now()
		if pieces++; pieces == 1 {
			first = last
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if pieces < 3 || !last.After(first) {
		return fmt.Errorf("its stream has %d pieces, and 3 or more are needed to time it", pieces)
	}
	m.Step = last.Sub(first) / time.Duration(pieces-1)
	return nil
}
