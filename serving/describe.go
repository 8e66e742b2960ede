package serving

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
)

// modelOfPath is the name of the model, without its version.
func modelOfPath(c *gin.Context) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.Param("model"), "/"), "/versions/")
	return name
}

// noInference refuses a model that takes no tensors here.
func (x *jobEndpoints) noInference(model string) *wire.Refusal {
	message := fmt.Sprintf("there is no model %q that takes tensors; there are %s", model, x.service.Names())
	if of, _, below := strings.Cut(model, "/"); below && x.service.Serves(of, "") {
		message = fmt.Sprintf("there is no /v2/models/%s here; of %s there are its metadata, /ready and /infer", model, of)
	} else if !x.service.On() {
		message = "no model of this router takes tensors; the scenario has none with modalities"
	}
	return wire.Bad(http.StatusNotFound, "model", "model_not_found", message)
}

// The bounds of an engine's metadata: of their time, and of their bytes.
const (
	describing    = 5 * time.Second
	wholeMetadata = 1 << 20
)

// describe answers with the metadata of a model, as one of its engines that are up has them.
func (x *jobEndpoints) describe(c *gin.Context) {
	name := modelOfPath(c)
	if !x.service.Serves(name, "") {
		x.reply.Refuse(c, x.noInference(name))
		return
	}
	err := errors.New("no worker is up")
	for _, replica := range x.service.Up(name) {
		if err = x.metadata(c, name, replica); err == nil {
			return
		}
		if errors.Is(err, proxy.ErrMemory) {
			x.reply.Refuse(c, x.memory.Short(c.Writer.Header()))
			return
		}
	}
	x.reply.Refuse(c, upstreamError(err))
}

func upstreamError(err error) *wire.Refusal {
	return &wire.Refusal{Status: http.StatusBadGateway, Error: wire.Error{Type: wire.ServerError, Code: "upstream_error", Message: err.Error()}}
}

// metadata answers with the metadata that the replica's engine has, under the name that clients know.
func (x *jobEndpoints) metadata(c *gin.Context, name string, replica int) error {
	ctx, cancel := context.WithTimeoutCause(c.Request.Context(), describing, errSlow)
	defer cancel()
	var path string
	text, status, err := x.proxy.Get(ctx, replica, func(model string) string {
		path = inference.PathPrefix + url.PathEscape(model)
		return path
	}, wholeMetadata)
	host := x.table.Hosts[x.table.Replicas[replica].Host].Name
	if err != nil {
		return fmt.Errorf("the engine on %s: %w", host, err)
	}
	held := 2 * int64(cap(text)) // the answer and its copy
	defer func() { x.memory.Answers.Give(held) }()
	if !x.memory.Answers.Take(held / 2) {
		held /= 2
		return proxy.ErrMemory
	}
	out := bytes.NewBuffer(make([]byte, 0, len(text)+len(name)))
	member := func(key []byte, value []byte) {
		own, _ := json.Marshal(string(key)) // strings always encode
		fmt.Fprintf(out, "%s:%s,", own, value)
	}
	out.WriteByte('{')
	own, _ := json.Marshal(name)
	member([]byte("name"), own)
	if status != http.StatusOK || !json.Valid(text) || !wire.Members(text, func(key []byte, start, end int) bool {
		if string(key) != "name" {
			member(key, text[start:end])
		}
		return true
	}) {
		return fmt.Errorf("the engine on %s has no metadata at %s: it answered %d", host, path, status)
	}
	out.Truncate(out.Len() - 1)
	out.WriteByte('}')
	x.reply.Writable(c)
	c.Data(http.StatusOK, "application/json", out.Bytes())
	return nil
}

// errSlow is why an engine that takes too long is not waited for.
var errSlow = errors.New("it did not answer in time")

// ready says whether a worker of the model is up.
func (x *jobEndpoints) ready(c *gin.Context) {
	name := modelOfPath(c)
	switch {
	case !x.service.Serves(name, ""):
		x.reply.Refuse(c, x.noInference(name))
	case x.reply.Ending() || len(x.service.Up(name)) == 0:
		x.reply.Fail(c, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "no_replica", Message: "no worker of the model is up"})
	default:
		c.JSON(http.StatusOK, gin.H{"name": name, "ready": true})
	}
}

// describeServer answers with the metadata of the server.
func describeServer(version string) gin.HandlerFunc {
	about := gin.H{"name": "gearshift", "version": version, "extensions": []string{"binary_tensor_data"}}
	return func(c *gin.Context) { c.JSON(http.StatusOK, about) }
}
