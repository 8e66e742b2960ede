package repository

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrClosed ends operations of a repository that is closed.
var ErrClosed = errors.New("the server is closing")

// ErrUnloaded ends a load that an unload has overtaken.
var ErrUnloaded = errors.New("an unload has cancelled the load")

// ErrAborted ends the requests of a model that is put to sleep without waiting for them.
var ErrAborted = errors.New("the model is put to sleep, and its requests are aborted")

// UnknownError says that there is no model of the name.
type UnknownError struct {
	Name  string
	Names []string // of those that there are
}

// Error implements [error].
func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no model %q in the repository; there %s", e.Name, among(e.Names))
}

// among says which there are.
func among(names []string) string {
	switch len(names) {
	case 0:
		return "are none"
	case 1:
		return "is " + names[0]
	}
	return "are " + strings.Join(names, ", ")
}

// NotLoadedError says that a model takes no requests.
type NotLoadedError struct {
	Name   string
	State  State
	Loaded []string // the models that take requests
}

// Error implements [error].
func (e *NotLoadedError) Error() string {
	state := "not loaded"
	switch e.State {
	case Loading, Unloading:
		state = e.State.String()
	case Failed:
		state = "not loaded, since its last load failed"
	}
	ready := "no model is ready"
	if len(e.Loaded) > 0 {
		ready = "ready " + among(e.Loaded)
	}
	return fmt.Sprintf("the model %q is %s; %s", e.Name, state, ready)
}

// AsleepError says that a model sleeps.
type AsleepError struct {
	Name  string
	Level Level
}

// Error implements [error].
func (e *AsleepError) Error() string {
	return fmt.Sprintf("the model %q is asleep at level %d; POST /wake_up wakes it", e.Name, e.Level)
}

// MemoryError says that a model does not fit with the others.
type MemoryError struct {
	Name               string
	Need, Free, Memory int64    // bytes
	Holders            []string // the models that hold memory, with how much, the largest first
}

// Error implements [error].
func (e *MemoryError) Error() string {
	switch {
	case e.Need > e.Memory:
		return fmt.Sprintf("the model %q needs %s, and the engine has %s in all; raise --memory, or bound the cache of models with --kv-tokens", e.Name, Size(e.Need), Size(e.Memory))
	case len(e.Holders) == 1:
		return fmt.Sprintf("the model %q needs %s, and %s of %s are free; unload %s", e.Name, Size(e.Need), Size(e.Free), Size(e.Memory), e.Holders[0])
	}
	return fmt.Sprintf("the model %q needs %s, and %s of %s are free; unload one or more of %s", e.Name, Size(e.Need), Size(e.Free), Size(e.Memory), strings.Join(e.Holders, ", "))
}

// Size is a number of bytes for people. It rounds, since an error is no account; where
// rounding would hide a difference, MiB are finer than GiB.
func Size(bytes int64) string {
	switch x := float64(bytes); {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2f GiB", x/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", x/(1<<20))
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// unknown is the error for a name that there is no model of. The caller holds r.mu.
func (r *Repository) unknown(name string) error {
	names := make([]string, len(r.entries))
	for i, e := range r.entries {
		names[i] = e.model.Name
	}
	return &UnknownError{name, names}
}

// names lists the models in the state. The caller holds r.mu.
func (r *Repository) names(in State) (list []string) {
	for _, e := range r.entries {
		if e.state == in {
			list = append(list, e.model.Name)
		}
	}
	return list
}

// reserve makes the entry hold so many bytes, if they are free. The caller holds r.mu.
func (r *Repository) reserve(e *entry, bytes int64) error {
	if total := r.config.Memory; total > 0 && bytes > e.held {
		if free := total - r.held() + e.held; bytes > free {
			return &MemoryError{e.model.Name, bytes, max(0, free), total, r.holders(e)}
		}
	}
	e.held = bytes
	return nil
}

// holders are the other models that hold memory. The caller holds r.mu.
func (r *Repository) holders(but *entry) []string {
	var list []*entry
	for _, e := range r.entries {
		if e != but && e.held > 0 {
			list = append(list, e)
		}
	}
	slices.SortStableFunc(list, func(a, b *entry) int { return cmp.Compare(b.held, a.held) })
	names := make([]string, len(list))
	for i, e := range list {
		names[i] = fmt.Sprintf("%s (%s)", e.model.Name, Size(e.held))
	}
	return names
}
