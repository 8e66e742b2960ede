// Package backend has the ends that a router sends work to, each replica an
// [net/http.RoundTripper] that answers OpenAI's endpoints: an
// upstream server, or an engine simulated in real time. Nothing here knows who
// calls it, so a backend can stand behind any HTTP client.
package backend

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"gearshift/serving/openai/wire"
)

// The paths that backends answer.
const (
	ChatPath       = "/v1/chat/completions"
	CompletionPath = "/v1/completions"
	EmbeddingsPath = "/v1/embeddings"
	ResponsesPath  = "/v1/responses"
	ClassifyPath   = "/v1/gearshift/classify"
)

// Respond is a whole answer to a request.
func Respond(r *http.Request, status int, body []byte) *http.Response {
	return &http.Response{
		Status:     strconv.Itoa(status) + " " + http.StatusText(status),
		StatusCode: status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{
			"Content-Type":   {"application/json"},
			"Content-Length": {strconv.Itoa(len(body))},
		},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
		Request:       r,
	}
}

// Refuse is an answer that says what is wrong with the request.
func Refuse(r *http.Request, status int, e wire.Error) *http.Response {
	return Respond(r, status, e.JSON())
}
