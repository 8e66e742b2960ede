package engineserver

import (
	"encoding/json"
	"net/http"

	"gearshift/serving/engineserver/repository"
	"gearshift/serving/openai/wire"
)

// model is an entry of the list of models, with the server's own addition.
type model struct {
	wire.Model
	State string `json:"state,omitempty"` // of a model that is not ready
}

// listModels lists the models that are loaded; those that are asleep are among them, as
// in vLLM.
func (s *Server) listModels(w http.ResponseWriter, _ *http.Request) {
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list", Data: []model{}}
	for _, m := range s.served() {
		if m.State != repository.Ready && m.State != repository.Asleep {
			continue
		}
		entry := model{Model: wire.Model{ID: m.Name, Object: "model", Created: s.created, OwnedBy: "gearshift-engine", MaxModelLen: m.Context, ContextLength: m.Context}}
		if m.State == repository.Asleep {
			entry.State = m.State.String()
		}
		list.Data = append(list.Data, entry)
	}
	writeJSON(w, http.StatusOK, list)
}

// health is the state of each model, for clients with the key. The status alone is vLLM's.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	if s.faults.current().Sick {
		status = http.StatusServiceUnavailable
	}
	if !s.guard.admits(r) {
		w.WriteHeader(status)
		return
	}
	states := map[string]string{}
	for _, m := range s.models.Statuses() {
		states[m.Name] = m.State.String()
	}
	writeJSON(w, status, map[string]any{"models": states})
}

// writeJSON answers with the value.
func writeJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value)
}
