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
	for _, v := range s.table.Variants {
		list.Data = append(list.Data, s.model(v.Name))
	}
	c.JSON(http.StatusOK, list)
}

func (s *Server) oneModel(c *gin.Context) {
	name := strings.TrimPrefix(c.Param("id"), "/")
	if name != AutoModel && s.table.VariantIndex(name) < 0 {
		fault := bad(http.StatusNotFound, "model", "model_not_found", fmt.Sprintf("there is no model %q; %s", name, s.modelNames()))
		s.fail(c, fault.status, fault.Error)
		return
	}
	c.JSON(http.StatusOK, s.model(name))
}
