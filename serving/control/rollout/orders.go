package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"gearshift/router/rollout"
	"gearshift/serving"
	"gearshift/serving/engines"
	"gearshift/serving/openai/wire"
)

// Version is how a model stands, for operators.
type Version struct {
	Model string `json:"model"`
	// Version is the one that all locations are to have, and From the one before while that is not
	// so. Previous is what a rollback leads to.
	Version  string `json:"version"`
	From     string `json:"from,omitempty"`
	Previous string `json:"previous,omitempty"`
	// State is steady, rolling, rolling back, paused, or real time of a model that is left out.
	State string `json:"state"`
	// StaleS is for how long the version has been wanted without being everywhere.
	StaleS  float64 `json:"stale_s,omitempty"`
	Overdue bool    `json:"overdue,omitempty"`
	// Waits says what the next change waits for, and Reason why it goes back, or what has failed last.
	Waits  string `json:"waits,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Old and New are what both versions have answered since the roll began.
	Old *Answers `json:"old,omitempty"`
	New *Answers `json:"new,omitempty"`
	// The counts are those since the controller's first start.
	Changes   int        `json:"changes"`
	Failures  int        `json:"failures"`
	Rolls     int        `json:"rolls"`
	Backs     int        `json:"rollbacks"`
	Locations []Location `json:"locations"`
}

// Answers are what a version has answered.
type Answers struct {
	Requests int `json:"requests"`
	Failed   int `json:"failed"`
}

// Location is where a model answers.
type Location struct {
	Host    string `json:"host"`
	Replica string `json:"replica"`
	Version string `json:"version"`
	// Doing is what is being done; empty if nothing is. Share is the part of the requests that the next
	// version gets.
	Doing string  `json:"doing,omitempty"`
	Share float64 `json:"share,omitempty"`
	// Utilisation is that of the host.
	Utilisation float64 `json:"utilisation"`
}

// routes are the module's endpoints.
func (m *Module) routes() []serving.Route {
	const model = "/admin/versions/{model...}/"
	return []serving.Route{
		{Method: http.MethodGet, Path: "/admin/versions", Access: serving.AdminRead, About: "the versions of models, and how far changes are", Handler: m.list},
		{Method: http.MethodPost, Path: model + "roll", Access: serving.AdminToken, About: "replaces the version of a model by another", Handler: m.order(func(i int, to string, now time.Duration) error { return m.controller.Roll(i, to, now) })},
		{Method: http.MethodPost, Path: model + "pause", Access: serving.AdminToken, About: "keeps a change of version as it is", Handler: m.order(func(i int, _ string, now time.Duration) error { return m.controller.Pause(i, now) })},
		{Method: http.MethodPost, Path: model + "continue", Access: serving.AdminToken, About: "ends a pause", Handler: m.order(func(i int, _ string, now time.Duration) error { return m.controller.Continue(i, now) })},
		{Method: http.MethodPost, Path: model + "rollback", Access: serving.AdminToken, About: "returns to the version before", Handler: m.order(func(i int, _ string, now time.Duration) error { return m.controller.Rollback(i, now) })},
	}
}

// list answers GET /admin/versions.
func (m *Module) list(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, m.Versions()) // a client that has left needs none
}

// maxBody bounds the bodies of orders.
const maxBody = 1 << 16

// order answers an order about a model with how it stands after it.
func (m *Module) order(give func(model int, to string, now time.Duration) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			To string `json:"to"`
		}
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err == nil && len(text) > 0 {
			err = json.Unmarshal(text, &body)
		}
		if err != nil {
			serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_order", Message: "cannot read the order: " + err.Error()})
			return
		}
		name := r.PathValue("model")
		i := m.shown.Load().Index(name)
		if i < 0 {
			serving.Fail(w, r, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "unknown_model", Message: fmt.Sprintf("there is no model %q with versions; there are %s", name, m.names())})
			return
		}
		if err = m.engines.StandsBy(); err == nil {
			m.engines.Do(func() { err = give(i, body.To, m.clock()) })
		}
		if err != nil {
			status, code := http.StatusConflict, "refused"
			switch {
			case errors.Is(err, engines.ErrStandsBy):
				code = "stands_by"
			case errors.Is(err, rollout.ErrRealTime):
				code = "real_time"
			case errors.Is(err, rollout.ErrVersion):
				status, code = http.StatusBadRequest, "invalid_version"
			}
			serving.Fail(w, r, status, wire.Error{Type: wire.InvalidRequest, Code: wire.Optional(code), Message: err.Error()})
			return
		}
		_ = serving.Answer(w, http.StatusOK, m.Versions()[i])
	}
}

// names lists the models.
func (m *Module) names() string {
	var list []string
	for i := range m.options.Models {
		list = append(list, m.options.Models[i].Name)
	}
	return strings.Join(list, ", ")
}

// Versions returns how the models stand.
func (m *Module) Versions() []Version {
	list := make([]Version, len(m.options.Models))
	m.engines.Look(func() {
		now := m.clock()
		for i := range list {
			list[i] = m.version(m.controller.Status(i, now))
		}
	})
	return list
}

func (m *Module) version(s rollout.Status) Version {
	v := Version{
		Model: s.Name, Version: s.Wanted, From: s.From, Previous: s.Previous, State: stateOf(&s),
		StaleS: s.Stale.Seconds(), Overdue: s.Overdue, Waits: s.Waits, Reason: s.Reason,
		Changes: s.Counts.Changes, Failures: s.Counts.Failures, Rolls: s.Counts.Rolls, Backs: s.Counts.Backs,
	}
	if s.Rolling {
		v.Old, v.New = &Answers{s.Old.Requests, s.Old.Failed}, &Answers{s.New.Requests, s.New.Failed}
	}
	for _, x := range s.Locations {
		active := x.Replicas[x.Active]
		v.Locations = append(v.Locations, Location{
			Host: m.table.Hosts[x.Host].Name, Replica: m.table.Replicas[active].Name,
			Version: x.Versions[x.Active], Doing: x.Phase, Share: x.Share, Utilisation: m.controller.Utilisation(x.Host),
		})
	}
	return v
}

func stateOf(s *rollout.Status) string {
	switch {
	case s.RealTime:
		return "real time"
	case s.Paused:
		return "paused"
	case s.Back:
		return "rolling back"
	case s.Rolling:
		return "rolling"
	}
	return "steady"
}
