package backend

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"gearshift/serving/openai/wire"
)

// stream answers with server-sent events as the tokens come.
func (w *work) stream(request *http.Request) *http.Response {
	if w.chat {
		w.base.Object = wire.ChatChunkObject
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache"}},
		Body:          &events{work: w},
		ContentLength: -1,
		Request:       request,
	}
}

// events is the body of a stream. It needs no goroutine: reading it waits for
// the engine's next step.
type events struct {
	*work
	sent  int    // tokens written as events
	ready []byte // written but not yet read
	ended bool
}

// Read implements io.Reader.
func (e *events) Read(p []byte) (int, error) {
	if len(e.ready) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		tokens, done, err := e.Wait(e.sent)
		if err != nil {
			return 0, err
		}
		e.ready = e.ready[:0]
		for ; e.sent < tokens; e.sent++ {
			e.token()
		}
		if done {
			e.close()
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

// Close implements io.Closer. It cancels the work if it has not ended.
func (e *events) Close() error {
	e.stop()
	e.Cancel(io.ErrClosedPipe)
	return nil
}

// token writes the event of the next token.
func (e *events) token() {
	if e.call != nil {
		e.callPiece()
		return
	}
	word := e.Piece(e.sent)
	if !e.chat {
		e.choice(wire.Choice{Text: &word})
		return
	}
	if e.sent == 0 {
		e.choice(wire.Choice{Delta: &wire.Delta{Role: "assistant"}})
	}
	e.choice(wire.Choice{Delta: &wire.Delta{Content: word}})
}

// close writes the events after the last token.
func (e *events) close() {
	e.ended = true
	last := wire.Choice{FinishReason: e.finish()}
	if e.chat {
		last.Delta = &wire.Delta{}
	} else {
		last.Text = new(string)
	}
	e.choice(last)
	if e.usage {
		answer := e.base
		answer.Choices, answer.Usage = []wire.Choice{}, e.spent()
		e.event(answer)
	}
	e.ready = append(e.ready, "data: [DONE]\n\n"...)
}

func (e *events) choice(c wire.Choice) {
	answer := e.base
	answer.Choices = []wire.Choice{c}
	e.event(answer)
}

func (e *events) event(answer wire.Answer) {
	text, err := json.Marshal(answer)
	if err != nil { // plain fields always encode
		panic(err)
	}
	e.ready = append(append(append(e.ready, "data: "...), text...), "\n\n"...)
}

// vocabulary of the answers.
var vocabulary = strings.Fields("the gear turns and every wheel follows its own time so the small one answers soon while the large one thinks")

// filler is count words of an answer from the given position on, each but the
// answer's first with a space before it. Each answer begins elsewhere in the
// vocabulary.
func filler(id uint64, from, count int) string {
	var b strings.Builder
	for i := from; i < from+count; i++ {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(vocabulary[(id+uint64(i))%uint64(len(vocabulary))])
	}
	return b.String()
}
