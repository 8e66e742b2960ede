package engineserver

import (
	"net/http"
	"time"

	"gearshift/router/signals"
	"gearshift/serving/engines/gauges"
)

// loadOf is what the server says of the load of what requests call by the name.
func (s *Server) loadOf(name string) signals.Load {
	l := signals.NewLoad()
	parts := s.parts(name)
	r := s.activity.of(parts, s.threads)
	l.Host, l.Examples, l.Work = float64(r.host), float64(r.units), r.work
	l.Utilization, l.Rate, l.Errors, l.Answered = r.busy, r.rate, r.failing, float64(r.answered)
	l.CPU = s.processor.use()
	if s.cores > 0 {
		l.Cores = s.cores
	}
	l.Requests, l.Waiting, l.KVUse, l.KVTokens = 0, 0, 0, 0
	for _, part := range parts {
		status, err := s.models.Status(part)
		if err != nil || status.Engine == nil {
			continue
		}
		load := status.Engine.Load()
		l.Requests += float64(load.Running + load.Waiting)
		l.Waiting += float64(load.Waiting)
		l.KVUse = max(l.KVUse, load.CacheUsage)
		l.KVTokens += load.CacheUsage * float64(status.Context)
	}
	l.Model, l.Instance = signals.ModelID(name), s.instance
	s.faults.distort(&l)
	return l
}

// sayLoad writes the load into the header of an answer, if its client asks for that. A stream's
// header goes out at its beginning, and so does the load of that moment.
func (s *Server) sayLoad(w http.ResponseWriter, r *http.Request, name string) {
	format := gauges.FormatAsked(r.Header)
	if format == gauges.NoFormat {
		return
	}
	l := s.loadOf(name)
	w.Header()[gauges.MetricsHeader] = []string{gauges.WriteLoad(format, &l)}
}

// showLoads is SGLang's page, with an entry for each model that is loaded.
func (s *Server) showLoads(w http.ResponseWriter, _ *http.Request) {
	names := s.Loaded()
	list := make([]signals.Load, len(names))
	for i, name := range names {
		list[i] = s.loadOf(name)
	}
	writeJSON(w, http.StatusOK, gauges.NewLoadsPage(names, list, time.Now()))
}
