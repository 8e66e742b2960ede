package agents

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

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

// Together reports that all models of a server, which are adapters of one, sleep and wake at once.
func (vllm) Together() bool { return true }

// Do implements [Dialect]. Requests of others are waited for by servers that can: those
// that do not know the mode have none left of this router's.
func (v vllm) Do(ctx context.Context, e Engine, _ string, o Order) error {
	if o.Verb == control.Sleep {
		return v.post(ctx, e, fmt.Sprintf("/sleep?level=%d&mode=wait", o.Level))
	}
	if o.Level == 0 {
		o.Level = v.level(ctx, e)
	}
	if o.Level == 1 {
		return v.post(ctx, e, "/wake_up")
	}
	// The weights are gone, or may be: without them it would answer nonsense.
	err := v.post(ctx, e, "/wake_up?tags=weights", reloadWeights, "/wake_up?tags=kv_cache")
	if err == nil || err == errNoSleepMode {
		return err
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoing)
		defer cancel()
		// Some servers wake as soon as they have memory for the weights. Level 1 keeps those that are there.
		_ = v.post(ctx, e, fmt.Sprintf("/sleep?level=%d&mode=abort", max(1, o.Level)))
	}
	return &unfit{err}
}

// undoing bounds how long a server may take to sleep again after a wake that has failed.
const undoing = 5 * time.Second

// level asks a server that sleeps for its level: 0 if it does not report one.
func (vllm) level(ctx context.Context, e Engine) (level int) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	response, err := e.Ask(ctx, http.MethodGet, "/metrics", nil, nil)
	if err != nil {
		return 0
	}
	defer func() { _ = response.Body.Close() }()
	for lines := bufio.NewScanner(io.LimitReader(response.Body, maxAnswer)); lines.Scan(); {
		line := lines.Text()
		switch {
		case !strings.HasPrefix(line, "vllm:engine_sleep_state{") || !strings.HasSuffix(strings.TrimSuffix(line, ".0"), "} 1"):
		case strings.Contains(line, `sleep_state="discard_all"`):
			return 2 // of one of its engines, if it has several
		case strings.Contains(line, `sleep_state="weights_offloaded"`):
			level = 1
		}
	}
	return level
}

// post sends the orders one after the other, until one fails.
func (vllm) post(ctx context.Context, e Engine, paths ...string) error {
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
