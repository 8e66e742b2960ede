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

	"gearshift/serving/wire"
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
	replica, status, fault := s.replica(body)
	if fault != nil {
		fail(w, status, *fault)
		return
	}
	trouble := s.faults.draw()
	if !trouble.before(w, r) {
		return
	}
	order := r.Clone(r.Context())
	order.Body = io.NopCloser(bytes.NewReader(body))
	response, err := s.engines.Replica(replica).RoundTrip(order)
	if err != nil { // the client has gone, or the server is closing
		fail(w, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "aborted", Message: "the engine ended the request: " + err.Error()})
		return
	}
	defer response.Body.Close()
	begin(w, response)
	if err := trouble.pass(w, r, response); err != nil {
		// A client must not take a part for the whole.
		panic(http.ErrAbortHandler)
	}
}

// begin sends the header of an engine's answer.
func begin(w http.ResponseWriter, response *http.Response) {
	maps.Copy(w.Header(), response.Header)
	w.WriteHeader(response.StatusCode)
}

// keptResponse answers what is asked about an earlier response, by the engine that has
// it: nothing else says which that is.
func (s *Server) keptResponse(w http.ResponseWriter, r *http.Request) {
	for i := range s.table.Replicas {
		response, err := s.engines.Replica(i).RoundTrip(r)
		if err != nil {
			fail(w, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "aborted", Message: "the engine ended the request: " + err.Error()})
			return
		}
		if response.StatusCode != http.StatusNotFound || i == len(s.table.Replicas)-1 {
			begin(w, response)
			_, _ = io.Copy(w, response.Body)
			response.Body.Close()
			return
		}
		response.Body.Close()
	}
}

// replica finds the model that the body asks for.
func (s *Server) replica(body []byte) (i, status int, fault *wire.Error) {
	request, err := wire.ParseRequest(body)
	var e wire.Error
	switch {
	case errors.As(err, &e):
		return 0, http.StatusBadRequest, &e
	case err != nil:
		return 0, http.StatusBadRequest, &wire.Error{Type: wire.InvalidRequest, Message: err.Error()}
	}
	i, ok := s.models[request.Model]
	if !ok {
		return 0, http.StatusNotFound, &wire.Error{
			Type: "NotFoundError", Param: "model", Code: "model_not_found",
			Message: fmt.Sprintf("the model %q does not exist; there are %s", request.Model, s.modelNames()),
		}
	}
	return i, 0, nil
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
		// A recorder in place of a connection has no deadlines.
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

// model is an entry of the list of models, with vLLM's addition.
type model struct {
	wire.Model
	MaxModelLen int `json:"max_model_len"` // tokens
}

func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list"}
	for _, r := range s.table.Replicas {
		list.Data = append(list.Data, model{
			wire.Model{ID: s.table.Variants[r.Variant].Name, Object: "model", Created: s.created, OwnedBy: "gearshift-engine"},
			r.KVTokens,
		})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(list)
}

// health is an empty answer, as vLLM's.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) {
	if s.faults.current().Sick {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}
