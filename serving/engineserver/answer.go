package engineserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"time"

	"gearshift/serving/backend"
	"gearshift/serving/engineserver/repository"
	"gearshift/serving/openai/wire"
)

const (
	// maxBody bounds a request's body, in bytes.
	maxBody = 64 << 20
	// writeTimeout bounds each write to a client. One that stops reading
	// counts as gone.
	writeTimeout = time.Minute
)

// complete answers what an engine has to work on, streamed or not. The engine's work
// ends with the request's context, which net/http cancels when the client goes.
func (s *Server) complete(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		fail(w, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "incomplete_body", Message: "cannot read the body: " + err.Error()})
		return
	}
	lease, names, status, fault := s.lease(r.URL.Path, body)
	if fault != nil {
		fail(w, status, *fault)
		return
	}
	defer lease.End()
	s.answer(w, r, task{lease, names, body, fail})
}

// naming is how a request and the server call the model that answers, and how much is asked of it.
type naming struct {
	asked    string // by the request
	variant  string // the model that has the lease
	examples int    // the units of work: answers, or inputs
}

// examplesOf counts the units of work of a request.
func examplesOf(path string, r *wire.Request) int {
	if path != backend.ClassifyPath {
		return max(1, r.Answers())
	}
	var list struct{ Inputs []json.RawMessage }
	_ = json.Unmarshal(r.Body, &list) // the engine says what is wrong with it
	return max(1, len(list.Inputs))
}

// task is a request on its way to the engine that answers it.
type task struct {
	lease *repository.Lease
	naming
	body []byte
	fail func(http.ResponseWriter, int, wire.Error) // says what goes wrong
}

// answer has the lease's engine answer, with the trouble that befalls the request.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, t task) {
	failed := true
	end := s.activity.begin(t.variant, t.examples)
	defer func() { end(failed) }()
	trouble := s.faults.draw()
	if !trouble.before(w, r) {
		return
	}
	ctx, stop := t.lease.Bind(r.Context())
	defer stop()
	order := r.Clone(ctx)
	order.Body = io.NopCloser(bytes.NewReader(t.body))
	response, err := t.lease.Engine.RoundTrip(order)
	if err != nil { // the client has gone, or the model or the server is ended
		t.fail(w, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "aborted", Message: "the engine ended the request: " + err.Error()})
		return
	}
	defer response.Body.Close()
	s.sayLoad(w, r, t.asked)
	begin(w, response)
	if err := trouble.pass(w, r, response); err != nil {
		// A client must not take a part for the whole.
		panic(http.ErrAbortHandler)
	}
	failed = response.StatusCode >= http.StatusInternalServerError
}

// begin sends the header of an engine's answer.
func begin(w http.ResponseWriter, response *http.Response) {
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
}

// keptResponse answers what is asked about an earlier response, by the engine that has
// it: nothing else says which that is.
func (s *Server) keptResponse(w http.ResponseWriter, r *http.Request) {
	var missing *http.Response
	for _, m := range s.models.Statuses() {
		lease, err := s.models.Acquire(m.Name)
		if err != nil {
			continue
		}
		response, err := lease.Engine.RoundTrip(r)
		lease.End()
		if err != nil {
			fail(w, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "aborted", Message: "the engine ended the request: " + err.Error()})
			return
		}
		if missing = response; response.StatusCode != http.StatusNotFound {
			break
		}
	}
	if missing == nil {
		fail(w, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "not_found", Message: "no model is ready, and with it no response is kept"})
		return
	}
	begin(w, missing)
	_, _ = io.Copy(w, missing.Body)
}

// lease takes one on the model that the body asks for, or on the variant of it for what the body
// has.
func (s *Server) lease(path string, body []byte) (lease *repository.Lease, n naming, status int, fault *wire.Error) {
	request, err := wire.ParseRequest(body)
	var e wire.Error
	switch {
	case errors.As(err, &e):
		return nil, n, http.StatusBadRequest, &e
	case err != nil:
		return nil, n, http.StatusBadRequest, &wire.Error{Type: wire.InvalidRequest, Message: err.Error()}
	}
	name := request.Model
	n.asked, n.examples = name, examplesOf(path, request)
	if m := s.sharedNamed(name); m != nil {
		if name, err = m.answers(path, request); err != nil {
			return nil, n, http.StatusBadRequest, &wire.Error{Type: wire.InvalidRequest, Code: "input_missing", Message: err.Error()}
		}
	}
	n.variant = name
	if lease, err = s.models.Acquire(name); err == nil {
		return lease, n, 0, nil
	}
	status, e = s.unavailable(name, err)
	return nil, n, status, &e
}

// unavailable says why a model takes no requests, in OpenAI's form.
func (s *Server) unavailable(name string, err error) (status int, e wire.Error) {
	var asleep *repository.AsleepError
	if errors.As(err, &asleep) {
		return http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Param: "model", Code: "model_asleep", Message: err.Error()}
	}
	e = wire.Error{Type: "NotFoundError", Param: "model", Code: "model_not_found"}
	var unknown *repository.UnknownError
	if e.Message = err.Error(); errors.As(err, &unknown) {
		e.Message = fmt.Sprintf("the model %q does not exist; there are %s", name, s.modelNames())
	}
	return http.StatusNotFound, e
}

// pass copies the body on, each piece at once, until what the trouble allows has
// gone out.
func (t trouble) pass(w http.ResponseWriter, r *http.Request, response *http.Response) error {
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }()
	whole := response.ContentLength
	buffer := make([]byte, 32<<10)
	for pieces := 0; ; pieces++ {
		n, err := response.Body.Read(buffer)
		if err != nil && err != io.EOF {
			return err
		}
		if t.within(pieces, whole) {
			if whole >= 0 {
				n /= 2
			}
			_, _ = w.Write(buffer[:n])
			_ = control.Flush()
			return t.end(r)
		}
		// A recorder instead of a connection has no deadlines.
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(buffer[:n]); err != nil {
			return err
		}
		if whole < 0 {
			_ = control.Flush()
		}
		if err == io.EOF {
			return nil
		}
	}
}
