package sampling

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gearshift/internal/calibrate/loadgen"
)

// Engines are the servers of the sizes, the largest first, and that of the judge, if there is one.
type Engines struct {
	sizes []engine
	judge *engine
}

// engine is a server to ask for one model.
type engine struct {
	name, model string // the model is empty where the name finds it
	server      loadgen.Server
}

// ParseEngines reads NAME=URL or NAME=URL#MODEL for each size, and for the judge unless it is empty.
// Keys are by engine; that of "" is for engines without one of their own.
func ParseEngines(sizes []string, judge string, keys map[string]string) (e Engines, err error) {
	for _, text := range sizes {
		one, err := parseEngine("--engine", text, keys)
		if err != nil {
			return e, err
		}
		if slices.Contains(e.Names(), one.name) {
			return e, fmt.Errorf("--engine %s: there are two sizes called %s; want a name for each", text, one.name)
		}
		e.sizes = append(e.sizes, *one)
	}
	if judge != "" {
		e.judge, err = parseEngine("--judge", judge, keys)
	}
	return e, errors.Join(err, e.unused(keys))
}

// Names returns the names of the sizes.
func (e Engines) Names() (list []string) {
	for _, s := range e.sizes {
		list = append(list, s.name)
	}
	return list
}

// unused returns an error for a key of an engine that does not exist.
func (e Engines) unused(keys map[string]string) error {
	names := e.Names()
	if e.judge != nil {
		names = append(names, e.judge.name)
	}
	for name := range keys {
		if name != "" && !slices.Contains(names, name) {
			return fmt.Errorf("--api-key-env %s=…: there is no such engine; want one of %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

func parseEngine(flag, text string, keys map[string]string) (*engine, error) {
	name, url, _ := strings.Cut(text, "=")
	url, model, _ := strings.Cut(url, "#")
	base, ok := loadgen.Base(url)
	if !ok || strings.TrimSpace(name) == "" {
		return nil, fmt.Errorf("%s %q: want NAME=URL or NAME=URL#MODEL, such as small=http://127.0.0.1:8101", flag, text)
	}
	key, ok := keys[name]
	if !ok {
		key = keys[""]
	}
	return &engine{name: name, model: model, server: loadgen.Server{URL: base, Key: key, Purpose: "ask"}}, nil
}

// Connect asks each engine for its models, and sets how the sizes and the judge are asked. The
// timeout bounds each answer.
func (c *Config) Connect(ctx context.Context, e Engines, timeout time.Duration) (err error) {
	asker := loadgen.NewAsker(timeout)
	for _, s := range e.sizes {
		ask, err := s.connect(ctx, asker)
		if err != nil {
			return err
		}
		c.Sizes = append(c.Sizes, Size{Name: s.name, Ask: ask})
	}
	if e.judge != nil {
		c.Judge, err = e.judge.connect(ctx, asker)
	}
	return err
}

// connect finds the model: the one given, or the one of the engine's name, or the only one.
func (e *engine) connect(ctx context.Context, asker *loadgen.Asker) (ask Ask, err error) {
	if e.model != "" {
		ask, err = asker.Connect(ctx, e.server, e.model)
	} else if ask, err = asker.Connect(ctx, e.server, e.name); err != nil {
		ask, err = asker.Connect(ctx, e.server, "")
	}
	switch {
	case errors.Is(err, loadgen.ErrKey):
		return nil, fmt.Errorf("%s: %w (--api-key-env %s=VARIABLE)", e.name, err, e.name)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	return ask, nil
}
