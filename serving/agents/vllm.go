package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// vllm is the sleep mode of vLLM, which serves the one model that it was started with.
type vllm struct{}

// Name implements [Dialect].
func (vllm) Name() string { return "vllm" }

// Refuses implements [Dialect].
func (vllm) Refuses(o Order) error {
	switch o.Verb {
	case control.Sleep:
		if o.Level != 1 && o.Level != 2 {
			return fmt.Errorf("vLLM has no sleep level %d; want 1, which keeps the weights in host memory, or 2, which drops them", o.Level)
		}
		return nil
	case control.Wake:
		return nil
	case control.Load:
		return errors.New("vLLM cannot load a model; it serves the one that it was started with, and can sleep and wake")
	case control.Unload:
		return errors.New("vLLM cannot unload a model; it can sleep")
	}
	return fmt.Errorf("vLLM cannot %v a model; it can sleep and wake", o.Verb)
}

// errNoSleepMode is a server without the endpoints.
var errNoSleepMode = errors.New("the engine does not know sleep: start vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1")

// Do implements [Dialect]. Requests of others are waited for by servers that can: those
// that do not know the mode have none left of this router's.
func (vllm) Do(ctx context.Context, e Engine, _ string, o Order) error {
	paths := []string{"/wake_up"}
	switch {
	case o.Verb == control.Sleep:
		paths[0] = fmt.Sprintf("/sleep?level=%d&mode=wait", o.Level)
	case o.Level != 1: // the weights are gone, or may be: without them it would answer nonsense
		paths = []string{"/wake_up?tags=weights", reloadWeights, "/wake_up?tags=kv_cache"}
	}
	for _, path := range paths {
		var body any
		if path == reloadWeights {
			body = map[string]string{"method": "reload_weights"}
		}
		err := ask(ctx, e, http.MethodPost, path, body, nil)
		switch {
		case absent(err) && path == reloadWeights:
			return errors.New("the engine has no POST /collective_rpc to read its weights again with, without which it would answer nonsense: restart it")
		case absent(err):
			return errNoSleepMode
		case err != nil:
			return err
		}
	}
	return nil
}

const reloadWeights = "/collective_rpc"

// States implements [Dialect]: a server's models, adapters of one, sleep together.
func (vllm) States(ctx context.Context, e Engine, models []string) ([]Reading, error) {
	asleep, err := sleeps(ctx, e, "")
	if err != nil {
		return nil, err
	}
	readings := make([]Reading, len(models))
	for i := range readings {
		if asleep {
			readings[i].State = fleet.Warm
		}
	}
	return readings, nil
}

// sleeps asks whether the engine does.
func sleeps(ctx context.Context, e Engine, query string) (bool, error) {
	var answer struct {
		Sleeping *bool `json:"is_sleeping"`
	}
	err := ask(ctx, e, http.MethodGet, "/is_sleeping"+query, nil, &answer)
	switch {
	case absent(err):
		return false, errNoSleepMode
	case err != nil:
		return false, err
	case answer.Sleeping == nil:
		return false, errors.New("the engine's answer to GET /is_sleeping does not say whether it sleeps")
	}
	return *answer.Sleeping, nil
}
