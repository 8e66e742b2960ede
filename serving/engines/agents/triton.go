package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// triton is the model repository extension of the Open Inference Protocol. A server has
// it as Triton does with --model-control-mode=explicit.
type triton struct{}

// Name implements [Dialect].
func (triton) Name() string { return "triton" }

// Refuses implements [Dialect].
func (triton) Refuses(o Order) error {
	switch o.Verb {
	case control.Load, control.Unload:
		return nil
	case control.Sleep, control.Wake:
		return errors.New("triton cannot put a model to sleep; it can load and unload")
	}
	return fmt.Errorf("triton cannot %v a model; it can load and unload", o.Verb)
}

// Do implements [Dialect].
func (triton) Do(ctx context.Context, e Engine, model string, o Order) error {
	path := "/v2/repository/models/" + url.PathEscape(model) + "/" + o.Verb.String()
	err := ask(ctx, e, http.MethodPost, path, struct{}{}, nil)
	if absent(err) {
		return errors.New("the engine has no model repository API: start it with a repository, as Triton with --model-control-mode=explicit")
	}
	return err
}

// entry is a version of a model in a repository's index.
type entry struct{ Name, State, Reason string }

// States implements [Dialect].
func (triton) States(ctx context.Context, e Engine, models []string) ([]Reading, error) {
	var index []entry
	if err := ask(ctx, e, http.MethodPost, "/v2/repository/index", struct{}{}, &index); err != nil {
		if absent(err) {
			return nil, errors.New("the engine has no model repository API: start it with a repository, as Triton with --model-control-mode=explicit")
		}
		return nil, err
	}
	readings := make([]Reading, len(models))
	for i, model := range models {
		readings[i] = indexed(index, model)
	}
	return readings, nil
}

// indexed is what an index says of a model: one that has several versions is up if any
// of them is. A model that is not in it is cold, with a note.
func indexed(index []entry, model string) Reading {
	best := Reading{State: fleet.Cold, Note: fmt.Sprintf("the engine's repository has no model %q", model), unknown: true}
	there := false
	for _, one := range index {
		if one.Name != model {
			continue
		}
		if r := one.reading(); !there || nearness[r.State] > nearness[best.State] {
			best, there = r, true
		}
	}
	return best
}

// nearness orders states by how near they are to taking requests.
var nearness = map[fleet.State]int{fleet.Cold: 0, fleet.Draining: 1, fleet.Warm: 2, fleet.Loading: 3, fleet.Up: 4}

func (e entry) reading() Reading {
	switch strings.ToUpper(e.State) {
	case "READY":
		return Reading{State: fleet.Up}
	case "LOADING":
		return Reading{State: fleet.Loading}
	case "UNLOADING": // it takes nothing, and has its memory still
		return Reading{State: fleet.Draining}
	}
	if reason := strings.ToLower(e.Reason); reason == "unloaded" || reason == "not loaded" {
		return Reading{State: fleet.Cold}
	}
	return Reading{State: fleet.Cold, Note: line(e.Reason)}
}
