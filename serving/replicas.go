package serving

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/wire"
)

// orderReplica answers POST /admin/replicas/NAME/drain and /undrain.
func (s *Server) orderReplica(drained bool) gin.HandlerFunc {
	return func(c *gin.Context) {
		replica, fault := s.FindReplica(strings.TrimPrefix(c.Param("replica"), "/"))
		if fault != nil {
			s.fail(c, http.StatusNotFound, *fault)
			return
		}
		s.DrainReplica(replica, drained)
		c.JSON(http.StatusOK, s.Status().Replicas[replica])
	}
}

// FindReplica is the index of the replica of that name, or what to answer who asks for it.
func (s *Server) FindReplica(name string) (int, *wire.Error) {
	var names []string
	for i, r := range s.table.Replicas {
		if names = append(names, r.Name); r.Name == name {
			return i, nil
		}
	}
	return -1, &wire.Error{Type: wire.InvalidRequest, Code: "unknown_replica",
		Message: fmt.Sprintf("there is no replica %q; there are %s", name, strings.Join(names, ", "))}
}

// DrainReplica keeps new requests away from the replica, or lets them in again.
// What is in flight on it goes on. It holds until a restart, whatever probes find.
func (s *Server) DrainReplica(replica int, drained bool) {
	s.router.Ledger().SetDrained(replica, drained)
	s.log.Info("replica order", "replica", s.table.Replicas[replica].Name, "drained", drained, "by", byAdmin)
}

func (s *Server) tellReplicas(c *gin.Context) { c.JSON(http.StatusOK, s.Status().Replicas) }

var drainedDesc = prometheus.NewDesc("gearshift_replica_drained", "Whether an operator keeps new requests away from the replica.", []string{"replica", "variant"}, nil)

// drainCollector tells of drained replicas when metrics are scraped.
type drainCollector struct{ *Server }

// Describe implements [prometheus.Collector].
func (d drainCollector) Describe(out chan<- *prometheus.Desc) { out <- drainedDesc }

// Collect implements [prometheus.Collector].
func (d drainCollector) Collect(out chan<- prometheus.Metric) {
	for i, r := range d.table.Replicas {
		value := 0.0
		if d.router.Ledger().Drained(i) {
			value = 1
		}
		out <- prometheus.MustNewConstMetric(drainedDesc, prometheus.GaugeValue, value, r.Name, d.table.Variants[r.Variant].Name)
	}
}
