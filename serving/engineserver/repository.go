package engineserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"gearshift/serving/backend"
	"gearshift/serving/engineserver/repository"
)

// routeRepository registers Triton's repository API and what the Open Inference
// Protocol says of health and models.
func (s *Server) routeRepository() {
	s.mux.HandleFunc("POST /v2/repository/index", s.index)
	s.mux.HandleFunc("POST /v2/repository/models/{model}/load", s.fenced(s.loadModel, failV2))
	s.mux.HandleFunc("POST /v2/repository/models/{model}/unload", s.fenced(s.unloadModel, failV2))
	s.mux.HandleFunc("GET /v2/health/live", s.running)
	s.mux.HandleFunc("GET /v2/health/ready", s.running)
	s.mux.HandleFunc("GET /v2", s.serverMetadata)
	for _, model := range []string{"/v2/models/{model}", "/v2/models/{model}/versions/{version}"} {
		s.mux.HandleFunc("GET "+model, s.modelMetadata)
		s.mux.HandleFunc("GET "+model+"/ready", s.modelReady)
		s.mux.HandleFunc("POST "+model+"/infer", s.infer)
	}
}

// indexed is a model in the repository's index.
type indexed struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	State   string `json:"state"`
	Reason  string `json:"reason"`
}

// tritonState is the state's name in Triton, which has no sleep.
func tritonState(s repository.State) string {
	return [...]string{
		repository.Unloaded: "UNAVAILABLE", repository.Loading: "LOADING", repository.Ready: "READY",
		repository.Asleep: "UNAVAILABLE", repository.Unloading: "UNLOADING", repository.Failed: "UNAVAILABLE",
	}[s]
}

// index lists the models of the repository, or those that are ready. A model that is shared is one
// of them, with the state of its variants.
func (s *Server) index(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Ready bool `json:"ready"`
	}
	if err := readStrictly(w, r, &request); err != nil {
		failV2(w, http.StatusBadRequest, err)
		return
	}
	if _, err := s.models.List(); err != nil { // the folder may have changed
		failV2(w, http.StatusInternalServerError, err)
		return
	}
	list := []indexed{}
	for _, m := range s.served() {
		if !request.Ready || m.State == repository.Ready {
			list = append(list, indexed{m.Name, version(m), tritonState(m.State), m.Reason})
		}
	}
	writeJSON(w, http.StatusOK, list)
}

// version is the model's, which clients see as "1" if it has none.
func version(m repository.Status) string {
	if m.Version == "" {
		return "1"
	}
	return m.Version
}

// control is the body of a load or an unload.
type control struct {
	Parameters map[string]json.RawMessage `json:"parameters"`
}

// loadModel answers when the model is loaded, or says why it is not.
func (s *Server) loadModel(w http.ResponseWriter, r *http.Request) {
	var c control
	err := readStrictly(w, r, &c)
	for name := range c.Parameters {
		switch {
		case err != nil:
		case name == "config" || strings.HasPrefix(name, "file:"):
			err = fmt.Errorf("parameter %q is not supported: models are loaded as their folders have them", name)
		default:
			err = fmt.Errorf("unknown parameter %q", name)
		}
	}
	if err != nil {
		failV2(w, http.StatusBadRequest, err)
		return
	}
	for _, one := range s.parts(r.PathValue("model")) {
		if err := s.loadOne(r.Context(), one); err != nil {
			s.log.Warn("load failed", "model", one, "error", err)
			failV2(w, statusOf(err, http.StatusBadRequest), fmt.Errorf("failed to load %q: %w", one, err))
			return
		}
	}
}

// unloadModel answers when the model's last request has ended and the model is freed.
func (s *Server) unloadModel(w http.ResponseWriter, r *http.Request) {
	var c control
	err := readStrictly(w, r, &c)
	for name, value := range c.Parameters {
		var dependents bool // of which no model here has any
		switch {
		case err != nil:
		case name != "unload_dependents":
			err = fmt.Errorf("unknown parameter %q; there is unload_dependents", name)
		case json.Unmarshal(value, &dependents) != nil:
			err = errors.New("parameter unload_dependents: want true or false")
		}
	}
	if err != nil {
		failV2(w, http.StatusBadRequest, err)
		return
	}
	for _, name := range s.parts(r.PathValue("model")) {
		if err := s.models.Unload(r.Context(), name); err != nil {
			failV2(w, statusOf(err, http.StatusBadRequest), fmt.Errorf("failed to unload %q: %w", name, err))
			return
		}
	}
}

// running reports whether the server takes requests. That a model is loading, asleep or
// damaged takes nothing from the others, and so the server is ready all the same.
func (s *Server) running(w http.ResponseWriter, r *http.Request) {
	well := !s.faults.current().Sick
	status := http.StatusOK
	if !well {
		status = http.StatusBadRequest // Triton's
	}
	writeJSON(w, status, map[string]bool{r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]: well})
}

// modelReady says whether the model takes requests.
func (s *Server) modelReady(w http.ResponseWriter, r *http.Request) {
	m, err := s.asked(r)
	if err != nil {
		failV2(w, http.StatusNotFound, err)
		return
	}
	status := http.StatusOK
	if m.State != repository.Ready {
		status = http.StatusBadRequest // Triton's
	}
	writeJSON(w, status, map[string]any{"name": m.Name, "ready": m.State == repository.Ready})
}

// asked is the model of the path.
func (s *Server) asked(r *http.Request) (repository.Status, error) {
	m, err := s.status(r.PathValue("model"))
	if asked := r.PathValue("version"); err == nil && asked != "" && asked != version(m) {
		err = fmt.Errorf("the model %q has no version %q; there is %s", m.Name, asked, version(m))
	}
	return m, err
}

// serverMetadata describes the server.
func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]any{
		"name": "gearshift-engine", "version": "1", "extensions": []string{"model_repository", "model_repository(unload_dependents)"},
	})
}

// modelMetadata describes a model that is loaded.
func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) {
	m, err := s.asked(r)
	if err != nil {
		failV2(w, http.StatusNotFound, err)
		return
	}
	shared := s.sharedNamed(m.Name)
	variant := m.Name
	if shared != nil {
		variant = shared.Combinations[0].Variant
	}
	lease, err := s.models.Acquire(variant)
	if err != nil {
		failV2(w, statusOf(err, http.StatusBadRequest), err)
		return
	}
	defer lease.End()
	signature := backend.Signature{Platform: "gearshift_simulated", Inputs: []backend.TensorType{}, Outputs: []backend.TensorType{}}
	if d, ok := lease.Engine.(backend.Described); ok {
		signature = d.Signature()
		if shared != nil {
			signature = signature.Of(shared.Modalities)
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Name     string   `json:"name"`
		Versions []string `json:"versions"`
		backend.Signature
	}{m.Name, []string{version(m)}, signature})
}

// readStrictly reads the body's JSON, which may be empty, and refuses members that are
// not there.
func readStrictly(w http.ResponseWriter, r *http.Request, to any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("cannot read the body: %w", err)
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("cannot understand the body: %w", err)
	}
	return nil
}

// statusOf is the HTTP status of an operation that failed, or the other one.
func statusOf(err error, other int) int {
	var (
		unknown *repository.UnknownError
		unready *repository.NotLoadedError
		asleep  *repository.AsleepError
		memory  *repository.MemoryError
	)
	switch {
	case errors.As(err, &unknown), errors.As(err, &unready):
		return http.StatusNotFound
	case errors.As(err, &asleep), errors.Is(err, repository.ErrClosed):
		return http.StatusServiceUnavailable
	case errors.As(err, &memory):
		return http.StatusInsufficientStorage
	case errors.Is(err, repository.ErrUnloaded):
		return http.StatusConflict
	}
	return other
}

// failV2 answers with an error in the form of the Open Inference Protocol.
func failV2(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"error": oneLine(err)})
}

// oneLine is the error's text on one line.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
