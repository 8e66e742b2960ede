package backend

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"gearshift/serving/openai/wire"
)

// retelling makes of the events of a chat those of another API.
type retelling interface {
	// chunk takes in an event of the chat, and end that there is no other.
	chunk(a wire.Answer)
	end()
}

// written is the events that a retelling has written and that have not been read yet.
type written struct{ ready []byte }

func (w *written) write(kind string, o object) {
	o["type"] = kind
	text, err := json.Marshal(o)
	if err != nil { // plain values always encode
		panic(err)
	}
	w.ready = append(append(append(w.ready, "event: "+kind+"\ndata: "...), text...), "\n\n"...)
}

// retold is a chat's stream as another API has it.
type retold struct {
	io.ReadCloser // the chat's
	lines         *bufio.Scanner
	by            retelling
	out           *written // that it writes to
	ended         bool
}

// retell answers with the stream as the retelling has it, which writes to out.
func retell(request *http.Request, stream io.ReadCloser, by retelling, out *written) *http.Response {
	response := Respond(request, http.StatusOK, nil)
	response.Header = http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
	response.ContentLength = -1
	response.Body = &retold{ReadCloser: stream, lines: bufio.NewScanner(stream), by: by, out: out}
	return response
}

// Read implements io.Reader.
func (r *retold) Read(p []byte) (int, error) {
	for len(r.out.ready) == 0 {
		if r.ended {
			return 0, io.EOF
		}
		if !r.lines.Scan() {
			if err := r.lines.Err(); err != nil {
				return 0, err
			}
			return 0, io.ErrUnexpectedEOF
		}
		data, ok := strings.CutPrefix(r.lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			r.ended = true
			r.by.end()
		default:
			var a wire.Answer
			if err := json.Unmarshal([]byte(data), &a); err != nil { // the simulation's own
				panic(err)
			}
			r.by.chunk(a)
		}
	}
	n := copy(p, r.out.ready)
	r.out.ready = r.out.ready[n:]
	return n, nil
}
