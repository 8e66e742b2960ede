package qualitycmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/quality/sampling"
)

// target is an engine to ask for one model.
type target struct {
	name, model string
	server      loadgen.Server
}

// targets are the sizes, the largest first, and the judge, if there is one.
type targets struct {
	sizes []target
	judge *target
}

// names returns those of the sizes.
func (t targets) names() (list []string) {
	for _, s := range t.sizes {
		list = append(list, s.name)
	}
	return list
}

// targets reads the flags that say whom to ask, and with which key.
func (o *sampleOptions) targets() (t targets, err error) {
	keys, err := readKeys(o.keys)
	if err != nil {
		return t, err
	}
	for _, text := range o.engines {
		one, err := parseTarget("--engine", text, keys)
		if err != nil {
			return t, err
		}
		if slices.Contains(t.names(), one.name) {
			return t, fmt.Errorf("--engine %s: there are two sizes called %s; want a name for each", text, one.name)
		}
		t.sizes = append(t.sizes, *one)
	}
	if o.judge != "" {
		t.judge, err = parseTarget("--judge", o.judge, keys)
	}
	return t, errors.Join(err, t.unused(keys))
}

// unused returns an error for a key of an engine that there is not.
func (t targets) unused(keys map[string]string) error {
	names := t.names()
	if t.judge != nil {
		names = append(names, t.judge.name)
	}
	for name := range keys {
		if name != "" && !slices.Contains(names, name) {
			return fmt.Errorf("--api-key-env %s=…: there is no such engine; want one of %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

// readKeys returns the keys by the engines' names; that of all engines has none.
func readKeys(flags []string) (map[string]string, error) {
	keys := map[string]string{}
	for _, text := range flags {
		name, variable, one := strings.Cut(text, "=")
		if !one {
			name, variable = "", text
		}
		key, err := cli.KeyFrom(variable)
		if err != nil {
			return nil, err
		}
		keys[name] = key
	}
	return keys, nil
}

// parseTarget reads NAME=URL or NAME=URL#MODEL.
func parseTarget(flag, text string, keys map[string]string) (*target, error) {
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
	return &target{name: name, model: model, server: loadgen.Server{URL: base, Key: key, Purpose: "ask"}}, nil
}

// connect asks each engine for its models, and returns how sizes and judge are asked.
func (t targets) connect(ctx context.Context, timeout time.Duration) (sizes []sampling.Size, judge sampling.Ask, err error) {
	client := &http.Client{Transport: loadgen.Transport()}
	for _, s := range t.sizes {
		ask, err := s.connect(ctx, client, timeout)
		if err != nil {
			return nil, nil, err
		}
		sizes = append(sizes, sampling.Size{Name: s.name, Ask: ask})
	}
	if t.judge != nil {
		judge, err = t.judge.connect(ctx, client, timeout)
	}
	return sizes, judge, err
}

// connect finds the model: the one given, or the one of the engine's name, or the only one.
func (t target) connect(ctx context.Context, client *http.Client, timeout time.Duration) (sampling.Ask, error) {
	wanted := t.model
	if wanted == "" {
		wanted = t.name
	}
	model, err := t.server.Model(ctx, client, wanted)
	if err != nil && t.model == "" {
		model, err = t.server.Model(ctx, client, "")
	}
	switch {
	case errors.Is(err, loadgen.ErrKey):
		return nil, fmt.Errorf("%s: %w (--api-key-env %s=VARIABLE)", t.name, err, t.name)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", t.name, err)
	}
	return func(ctx context.Context, q loadgen.Question) (loadgen.Completion, error) {
		q.Model = model
		timed, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		a, err := t.server.Complete(timed, client, q)
		if err != nil && timed.Err() != nil && ctx.Err() == nil {
			err = fmt.Errorf("no answer within %v (--timeout)", timeout)
		}
		return a, err
	}, nil
}
