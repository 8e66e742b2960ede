package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"time"

	"gearshift/cmd/gearshift/local"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/router/fleet"
	"gearshift/serving/backend"
	"gearshift/serving/engineserver"
	"gearshift/workloads"
)

// localOptions are the flags of engine that are of models.
type localOptions struct {
	paths                             []string
	threads, maxSequences, kv, length int
	provider                          string
}

// check refuses what is below 0, which is the model's own context, or one thread.
func (o localOptions) check() error {
	switch {
	case o.threads < 0:
		return fmt.Errorf("--threads %d: want 1 or more", o.threads)
	case o.length < 0:
		return fmt.Errorf("--context %d: want 2 tokens or more, or 0 for the model's own", o.length)
	}
	return nil
}

// serveModels serves the models of the folders, each by the folder's name.
func serveModels(ctx context.Context, o engineOptions, stderr io.Writer) error {
	c, err := o.server()
	if err == nil {
		err = o.local.check()
	}
	if err != nil {
		return err
	}
	c.Log = slog.New(slog.NewTextHandler(stderr, nil))
	defer local.RoomForModels(len(o.local.paths))()
	engines := &localEngines{}
	defer engines.Close()
	for i, path := range o.local.paths {
		l := scenario.Local{
			Path: path, Threads: o.local.threads, Provider: o.local.provider, Context: o.local.length,
			MaxSequences: o.local.maxSequences, KVTokens: o.local.kv,
		}
		observe := func(s backend.Span) {
			if s.Replica = i; engines.observe != nil {
				engines.observe(s)
			}
		}
		e, err := local.New(local.Config{
			Local: l, Name: modelName(path), Seed: workloads.Seed(workloads.Serving, 1+o.seed+uint64(i)<<32), Observe: observe,
		})
		if err != nil {
			return err
		}
		engines.list = append(engines.list, e)
	}
	if c.Engines.Table, err = engines.table(); err != nil {
		return err
	}
	c.Start = func(observe func(backend.Span)) (engineserver.Engines, error) {
		engines.observe = observe
		return engines, nil
	}
	server, err := engineserver.New(c)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.addr)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	return server.Serve(ctx, listener)
}

// modelName is what a folder's model is called.
func modelName(path string) string {
	whole, err := filepath.Abs(path)
	if err != nil {
		whole = path
	}
	return filepath.Base(whole)
}

// localEngines are models that are computed in this process.
type localEngines struct {
	list    []local.Engine
	observe func(backend.Span) // set before the first request
}

func (l *localEngines) Replica(i int) http.RoundTripper { return l.list[i] }

func (l *localEngines) Load(i int) backend.Load { return l.list[i].Load() }

func (l *localEngines) Close() {
	for _, e := range l.list {
		e.Close()
	}
}

// table has a replica for each, which the server takes names and lengths from.
func (l *localEngines) table() (*fleet.Table, error) {
	var variants []fleet.Variant
	var replicas []fleet.Replica
	for i, e := range l.list {
		variants = append(variants, fleet.Variant{Name: e.Model()})
		replicas = append(replicas, fleet.Replica{Name: e.Model(), Variant: i, KVTokens: e.Context()})
	}
	task := fleet.Task{Name: "any", Deadline: time.Second, Decay: fleet.Hard{}, Weight: 1, Quality: make([]float64, len(variants))}
	return fleet.NewTable([]fleet.Task{task}, variants, []fleet.Host{{Name: "local"}}, replicas)
}

// onlyModels refuses the flags of a scenario's engines beside those of models, and
// the reverse.
func (o engineOptions) onlyModels(changed func(string) bool) error {
	others, why := []string{"threads", "max-sequences", "kv-tokens", "context", "execution-provider"}, "is for --model"
	if len(o.local.paths) > 0 {
		others, why = []string{"scenario", "host", "replica"}, "is for a scenario's engines, not for --model"
	}
	if i := slices.IndexFunc(others, changed); i >= 0 {
		return fmt.Errorf("--%s %s", others[i], why)
	}
	return nil
}
