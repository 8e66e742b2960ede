package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gearshift/router/fleet"
)

// Reading is what an engine says of one model.
type Reading struct {
	// State is Up, Cold, Loading or Warm, or Draining of one that is being unloaded.
	State fleet.State
	// Note says in the engine's words why, if it does.
	Note string
	// unknown says that the engine has no such model.
	unknown bool
}

// Dialect is how engines of one kind are ordered to load and unload models, and asked for
// their states. Each method returns once the engine has answered.
type Dialect interface {
	// Name is the dialect's name in scenarios.
	Name() string
	// Refuses says why engines of the kind cannot do the verb at all; nil if they can.
	Refuses(o Order) error
	// Do has the engine carry the order out.
	Do(ctx context.Context, e Engine, model string, o Order) error
	// States asks for the states of models, in their order.
	States(ctx context.Context, e Engine, models []string) ([]Reading, error)
}

// together is implemented by dialects of engines whose models sleep and wake at once.
type together interface{ Together() bool }

// unfit is the error of a wake that may have left the engine awake without its weights.
type unfit struct{ error }

// Unwrap returns what the wake failed by.
func (u *unfit) Unwrap() error { return u.error }

// dialects by the names that scenarios have for them.
var dialects = map[string]Dialect{"triton": triton{}, "vllm": vllm{}, "ollama": ollama{}, "llamacpp": llamacpp{}, "gearshift": own{}}

// Dialects are the names of the dialects, sorted.
func Dialects() []string {
	names := make([]string, 0, len(dialects))
	for name := range dialects {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// DialectNamed is the dialect of that name. Empty is none: nil.
func DialectNamed(name string) (Dialect, error) {
	if d, ok := dialects[name]; ok || name == "" {
		return d, nil
	}
	return nil, fmt.Errorf("unknown dialect %q; want %s", name, strings.Join(Dialects(), ", "))
}
