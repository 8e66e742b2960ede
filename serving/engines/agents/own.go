package agents

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// own is what gearshift engine speaks: Triton's repository API, and vLLM's sleep mode with
// the model as a parameter. It reads weights that a sleep has dropped again by itself.
type own struct{}

// Name implements [Dialect].
func (own) Name() string { return "gearshift" }

// Refuses implements [Dialect].
func (own) Refuses(o Order) error {
	switch o.Verb {
	case control.Load, control.Unload:
		return triton{}.Refuses(o)
	case control.Sleep:
		if o.Level != 1 && o.Level != 2 {
			return fmt.Errorf("gearshift engine has no sleep level %d; want 1, which keeps the weights in memory, or 2, which keeps nothing", o.Level)
		}
		return nil
	case control.Wake:
		return nil
	}
	return fmt.Errorf("gearshift engine cannot %v a model; it can load, unload, sleep and wake", o.Verb)
}

// Do implements [Dialect].
func (own) Do(ctx context.Context, e Engine, model string, o Order) error {
	path := "/wake_up?model=" + url.QueryEscape(model)
	switch o.Verb {
	case control.Load, control.Unload:
		return triton{}.Do(ctx, e, model, o)
	case control.Sleep:
		path = fmt.Sprintf("/sleep?level=%d&mode=wait&model=%s", o.Level, url.QueryEscape(model))
	}
	err := ask(ctx, e, http.MethodPost, path, nil, nil)
	if absent(err) {
		return fmt.Errorf("the engine does not know sleep: %w", err)
	}
	return err
}

// States implements [Dialect]. The index does not say of a model that sleeps why it takes
// no requests, so that each one that takes none is asked after.
func (own) States(ctx context.Context, e Engine, models []string) ([]Reading, error) {
	readings, err := triton{}.States(ctx, e, models)
	if err != nil {
		return nil, err
	}
	for i, model := range models {
		if readings[i].State != fleet.Cold || readings[i].unknown {
			continue
		}
		asleep, err := sleeps(ctx, e, "?model="+url.QueryEscape(model))
		switch {
		case err == errNoSleepMode:
			return readings, nil
		case err != nil:
			return nil, err
		case asleep:
			readings[i] = Reading{State: fleet.Warm}
		}
	}
	return readings, nil
}
