package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// ollama loads a model by an empty prompt that keeps it for good, and unloads it by one
// that keeps it for no time.
type ollama struct{}

// Name implements [Dialect].
func (ollama) Name() string { return "ollama" }

// Refuses implements [Dialect].
func (ollama) Refuses(o Order) error {
	switch o.Verb {
	case control.Load, control.Unload:
		return nil
	case control.Sleep, control.Wake:
		return errors.New("ollama cannot put a model to sleep; it can load and unload")
	}
	return fmt.Errorf("ollama cannot %v a model; it can load and unload", o.Verb)
}

// generate is an empty prompt. KeepAlive is in seconds; a negative one is for good.
type generate struct {
	Model     string `json:"model"`
	KeepAlive int    `json:"keep_alive"`
	Stream    bool   `json:"stream"`
}

// Do implements [Dialect].
func (ollama) Do(ctx context.Context, e Engine, model string, o Order) error {
	body := generate{Model: model, KeepAlive: -1}
	if o.Verb == control.Unload {
		body.KeepAlive = 0
	}
	var answer struct {
		Done  bool
		Error string
	}
	err := ask(ctx, e, http.MethodPost, "/api/generate", body, &answer)
	if err == nil && answer.Error != "" {
		err = fmt.Errorf("the engine says: %s", line(answer.Error))
	}
	if absent(err) {
		err = errors.New("the engine has no /api/generate: it is no Ollama")
	}
	return err
}

// States implements [Dialect].
func (ollama) States(ctx context.Context, e Engine, models []string) ([]Reading, error) {
	var loaded struct {
		Models []struct{ Name, Model string }
	}
	if err := ask(ctx, e, http.MethodGet, "/api/ps", nil, &loaded); err != nil {
		if absent(err) {
			return nil, errors.New("the engine has no /api/ps: it is no Ollama")
		}
		return nil, err
	}
	readings := make([]Reading, len(models))
	for i, model := range models {
		readings[i].State = fleet.Cold
		for _, one := range loaded.Models {
			if tagged(model) == tagged(one.Model) || tagged(model) == tagged(one.Name) {
				readings[i].State = fleet.Up
			}
		}
	}
	return readings, nil
}

// tagged is a model's name with its tag, which is latest where it has none.
func tagged(name string) string {
	last := name[strings.LastIndexByte(name, '/')+1:]
	if name == "" || strings.Contains(last, ":") {
		return name
	}
	return name + ":latest"
}
