package loadgen

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"gearshift/serving/openai/wire"
)

// Question is a request for a streamed answer.
type Question struct {
	Model  string
	Task   string // for a router; empty says none
	Prompt string
	Tokens int    // of the answer
	First  func() // called when content comes for the first time; may be nil
}

// Answer is a streamed answer as the client saw it. Times are those of the client's clock.
type Answer struct {
	// Prompt and Output are the tokens that the server states; 0 if it does not.
	Prompt, Output int
	// Tokens are the output's as stated, or else counted by its words.
	Tokens int
	Sent   time.Duration
	Pieces []time.Duration // when each piece of content came
	End    time.Duration
	Header http.Header // nil if nothing came, or a refusal
	// Refused reports that the server answered with an error: the rest is zero then, except Sent.
	Refused bool
}

// First is when content came for the first time; 0 without content.
func (a *Answer) First() time.Duration {
	if len(a.Pieces) == 0 {
		return 0
	}
	return a.Pieces[0]
}

// Last is when content came for the last time; 0 without content.
func (a *Answer) Last() time.Duration {
	if len(a.Pieces) == 0 {
		return 0
	}
	return a.Pieces[len(a.Pieces)-1]
}

// Ask sends a request and reads its answer to the end. What came before an error is returned
// with the error, which is a [*Refusal] where the server answered in another way than with success.
func (s Server) Ask(ctx context.Context, client *http.Client, since func() time.Duration, q Question) (Answer, error) {
	request, err := s.chat(ctx, q)
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Sent: since()}
	response, err := do(client, request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a.Header = response.Header
	err = a.read(response.Body, since, q.First)
	a.End = since()
	return a, err
}

// longestLine bounds a line of a stream.
const longestLine = 1 << 20

// read takes the stream in, line by line, and notes when content comes.
func (a *Answer) read(body io.Reader, since func() time.Duration, first func()) error {
	meter := wire.NewMeter(true)
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 4<<10), longestLine)
	lines.Split(wholeLine)
	begun, pieces, stated := time.Duration(-1), 0, false
	for lines.Scan() {
		line := lines.Bytes()
		before := meter.Known()
		_, _ = meter.Write(line)
		var content bool
		switch {
		case a.usage(line):
			before, stated, content = true, true, hasContent(line)
		case stated:
			content = hasContent(line)
		default:
			content = meter.Tokens() > pieces
			pieces = meter.Tokens()
		}
		if !before && meter.Known() {
			begun = since()
		}
		if content {
			if len(a.Pieces) == 0 && first != nil {
				first()
			}
			a.Pieces = append(a.Pieces, since())
		}
	}
	meter.Close()
	a.Tokens = meter.Tokens()
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return errors.New("a line of the answer is too long")
	case err != nil:
		return err
	case meter.Failed() || !meter.Finished():
		return errors.New("an answer broke off")
	}
	if len(a.Pieces) == 0 && begun >= 0 { // an answer of special tokens, which have no text
		a.Pieces = append(a.Pieces, begun)
	}
	return nil
}

// wholeLine splits a text into lines that keep their ends.
func wholeLine(data []byte, atEnd bool) (advance int, line []byte, err error) {
	switch n := bytes.IndexByte(data, '\n') + 1; {
	case n > 0:
		return n, data[:n], nil
	case atEnd && len(data) > 0:
		return len(data), data, nil
	}
	return 0, nil, nil
}

// usage takes in the counts of tokens, and reports whether the event has them: the
// last one has, and of some engines each.
func (a *Answer) usage(line []byte) bool {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok || !bytes.Contains(line, []byte(`"usage"`)) {
		return false
	}
	var event struct {
		Usage *wire.Usage `json:"usage"`
	}
	if json.Unmarshal(data, &event) != nil || event.Usage == nil {
		return false
	}
	a.Prompt, a.Output = event.Usage.PromptTokens, event.Usage.CompletionTokens
	return true
}

// hasContent reports whether an event has content, whatever else it has.
func hasContent(line []byte) bool {
	alone := wire.NewMeter(true)
	_, _ = alone.Write(line)
	return alone.Started()
}
