package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// llamacpp is the router mode of llama.cpp's server, which runs a process for each model that is loaded.
type llamacpp struct{}

// Name implements [Dialect].
func (llamacpp) Name() string { return "llamacpp" }

// Refuses implements [Dialect].
func (llamacpp) Refuses(o Order) error {
	switch o.Verb {
	case control.Load, control.Unload:
		return nil
	case control.Sleep, control.Wake:
		return errors.New("llama.cpp cannot put a model to sleep; it can load and unload")
	}
	return fmt.Errorf("llama.cpp cannot %v a model; it can load and unload", o.Verb)
}

// errNoRouterMode reports a server that was started with one model.
var errNoRouterMode = errors.New("the engine has no models to load: start llama-server in router mode, without a model, with --models-dir or --models-preset")

// llamaEvery passes between two questions to a server whether a load has ended: it answers an order before that.
const llamaEvery = 250 * time.Millisecond

// Do implements [Dialect]. It returns once the model's process is ready, or gone.
func (l llamacpp) Do(ctx context.Context, e Engine, model string, o Order) error {
	path, wanted := "/models/load", "loaded"
	if o.Verb == control.Unload {
		path, wanted = "/models/unload", "unloaded"
	}
	err := ask(ctx, e, http.MethodPost, path, map[string]string{"model": model}, nil)
	if absent(err) {
		return errNoRouterMode
	}
	for err == nil {
		var list llamaModels
		if list, err = l.models(ctx, e); err != nil {
			return err
		}
		switch s := list.status(model); {
		case s.Value == wanted, s.Value == "sleeping" && wanted == "loaded":
			return nil
		case s.Failed && wanted == "loaded":
			return fmt.Errorf("the engine says that the load has failed, with exit code %d", s.ExitCode)
		case s.Value == "":
			return fmt.Errorf("the engine has no model %q", model)
		}
		err = Pause(ctx, llamaEvery)
	}
	return err
}

// Pause waits for the time, or until the context ends, whose cause it returns.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// llamaModels is the answer to GET /models.
type llamaModels struct {
	Data []struct {
		ID     string
		Status llamaStatus
	}
}

type llamaStatus struct {
	Value    string // unloaded, loading, loaded, sleeping or downloading
	Failed   bool   // of the last load
	ExitCode int    `json:"exit_code"`
}

// status returns the status of the model; empty if the server does not have it.
func (m *llamaModels) status(model string) llamaStatus {
	for _, x := range m.Data {
		if x.ID == model {
			return x.Status
		}
	}
	return llamaStatus{}
}

// models asks for the server's models.
func (llamacpp) models(ctx context.Context, e Engine) (list llamaModels, err error) {
	if err = ask(ctx, e, http.MethodGet, "/models", nil, &list); absent(err) {
		err = errNoRouterMode
	}
	return list, err
}

// States implements [Dialect]. A model that its server has put to sleep, since it was idle, wakes with a request.
func (l llamacpp) States(ctx context.Context, e Engine, models []string) ([]Reading, error) {
	list, err := l.models(ctx, e)
	if err != nil {
		return nil, err
	}
	readings := make([]Reading, len(models))
	for i, model := range models {
		switch s := list.status(model); s.Value {
		case "loaded":
		case "sleeping":
			readings[i].Note = "it sleeps until a request comes"
		case "loading":
			readings[i].State = fleet.Loading
		case "":
			readings[i] = Reading{State: fleet.Cold, Note: fmt.Sprintf("the engine has no model %q", model), unknown: true}
		default:
			readings[i].State = fleet.Cold
			if s.Failed {
				readings[i].Note = fmt.Sprintf("the last load failed, with exit code %d", s.ExitCode)
			}
		}
	}
	return readings, nil
}
