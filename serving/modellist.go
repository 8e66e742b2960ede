package serving

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"gearshift/serving/wire"
)

func (s *Server) model(name string) wire.Model {
	return wire.Model{ID: name, Object: "model", Created: s.created, OwnedBy: "gearshift"}
}

func (s *Server) listModels(c *gin.Context) {
	list := wire.Models{Object: "list", Data: []wire.Model{s.model(AutoModel)}}
	allowed := s.allowed(granted(c))
	for i, v := range s.table.Variants {
		if allowed != 0 && allowed>>i&1 == 0 {
			continue
		}
		list.Data = append(list.Data, s.model(v.Name))
	}
	c.JSON(http.StatusOK, list)
}

func (s *Server) oneModel(c *gin.Context) {
	name := strings.TrimPrefix(c.Param("id"), "/")
	allowed, i := s.allowed(granted(c)), s.table.VariantIndex(name)
	if name != AutoModel && (i < 0 || allowed != 0 && allowed>>i&1 == 0) {
		fault := wire.Bad(http.StatusNotFound, "model", "model_not_found", fmt.Sprintf("there is no model %q; %s", name, s.modelNames(allowed)))
		s.fail(c, fault.Status, fault.Error)
		return
	}
	c.JSON(http.StatusOK, s.model(name))
}
