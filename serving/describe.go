package serving

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"gearshift/serving/jobs"
	"gearshift/serving/openai/wire"
)

// modelOfPath is the name of the model, without its version.
func modelOfPath(c *gin.Context) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(c.Param("model"), "/"), "/versions/")
	return name
}

// noInference refuses a model that takes no tensors here.
func (s *Server) noInference(model string) *wire.Refusal {
	message := fmt.Sprintf("there is no model %q that takes tensors; there are %s", model, s.jobs.Names())
	if of, _, below := strings.Cut(model, "/"); below && s.jobs.Serves(of, "") {
		message = fmt.Sprintf("there is no /v2/models/%s here; of %s there are its metadata, /ready and /infer", model, of)
	} else if !s.jobs.On() {
		message = "no model of this router takes tensors; the scenario has none with modalities"
	}
	return wire.Bad(http.StatusNotFound, "model", "model_not_found", message)
}

// describeModel answers with the metadata of a model, as one of its engines has them.
func (s *Server) describeModel(c *gin.Context) {
	name := modelOfPath(c)
	if !s.jobs.Serves(name, "") {
		s.refuse(c, s.noInference(name))
		return
	}
	err := s.jobs.Metadata(c.Request.Context(), name, func(text []byte) {
		s.reply.Writable(c)
		c.Data(http.StatusOK, "application/json", text)
	})
	switch {
	case errors.As(err, new(*jobs.Refused)):
		s.failJob(c, err)
	case err != nil:
		s.fail(c, http.StatusBadGateway, wire.Error{Type: wire.ServerError, Code: "upstream_error", Message: err.Error()})
	}
}

// modelReady says whether a worker of the model is up.
func (s *Server) modelReady(c *gin.Context) {
	name := modelOfPath(c)
	switch {
	case !s.jobs.Serves(name, ""):
		s.refuse(c, s.noInference(name))
	case s.draining.Load() || !s.jobs.Ready(name):
		s.fail(c, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "no_replica", Message: "no worker of the model is up"})
	default:
		c.JSON(http.StatusOK, gin.H{"name": name, "ready": true})
	}
}

// describeServer answers with the metadata of the server.
func (s *Server) describeServer(c *gin.Context) {
	c.JSON(http.StatusOK, gin.H{"name": "gearshift", "version": s.version, "extensions": []string{"binary_tensor_data"}})
}
