package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strconv"

	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/router/profile"
	"gearshift/serving/engineserver"
)

// localOptions are the flags of engine that are of models.
type localOptions struct {
	repository                        string
	paths                             []string
	threads, maxSequences, kv, length int
	provider                          string
	batchMS                           map[string]string
}

// any says that real models are to be served.
func (o localOptions) any() bool { return o.repository != "" || len(o.paths) > 0 }

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

// times reads --batch-ms; nil if it is not given.
func (o localOptions) times() (*profile.Batches, error) {
	if len(o.batchMS) == 0 {
		return nil, nil
	}
	listed := map[int]float64{}
	for size, text := range o.batchMS {
		n, err := strconv.Atoi(size)
		ms, err2 := strconv.ParseFloat(text, 64)
		if errors.Join(err, err2) != nil {
			return nil, fmt.Errorf("--batch-ms %s=%s: want the size of a batch and its time in ms, such as 1=12,8=37", size, text)
		}
		listed[n] = ms
	}
	b, err := profile.NewBatches(map[string]map[int]float64{"": listed})
	if err != nil {
		return nil, fmt.Errorf("--batch-ms: %w", err)
	}
	return b, nil
}

// serveModels serves the models of folders, each by its folder's name.
func serveModels(ctx context.Context, o engineOptions, stderr io.Writer) error {
	c, err := o.server()
	if err == nil {
		err = o.local.check()
	}
	var least *profile.Batches
	if err == nil {
		least, err = o.local.times()
	}
	if err != nil {
		return err
	}
	c.Log = slog.New(slog.NewTextHandler(stderr, nil))
	name, err := o.agent.hostName("")
	if err != nil {
		return err
	}
	source, err := onnxruntime.NewRepository(onnxruntime.Repository{
		Dir: o.local.repository, Folders: o.local.paths, Seed: o.seed, Filled: o.agent.router != "",
		AtLeast: least,
		Options: scenario.Local{
			Threads: o.local.threads, Provider: o.local.provider, Context: o.local.length,
			MaxSequences: o.local.maxSequences, KVTokens: o.local.kv,
		},
	})
	if err != nil {
		return err
	}
	models, err := source.Models()
	if err != nil {
		return err
	}
	defer onnxruntime.RoomForModels(len(models) + o.agent.loaders)() // as many more as load while they run
	c.Source, c.Load, c.Threads = source, o.load, o.local.threads
	if c.Cores == 0 {
		c.Cores = float64(runtime.NumCPU())
	}
	o.agent.configure(&c, o.local.repository)
	for _, path := range o.local.paths {
		c.Load = append(c.Load, onnxruntime.ModelName(path))
	}
	server, err := engineserver.New(c)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.addr)
	if err != nil {
		server.Close()
		return fmt.Errorf("cannot listen: %w", err)
	}
	return o.agent.serve(ctx, c, server, listener, name)
}

// onlyModels refuses the flags of a scenario's engines together with those of models, and
// the reverse.
func (o engineOptions) onlyModels(changed func(string) bool) error {
	others, why := []string{"threads", "max-sequences", "kv-tokens", "context", "execution-provider", "batch-ms"}, "is for --model and --repository"
	if o.local.any() {
		others, why = []string{"scenario", "host", "replica"}, "is for a scenario's engines, not for --model and --repository"
	}
	if i := slices.IndexFunc(others, changed); i >= 0 {
		return fmt.Errorf("--%s %s", others[i], why)
	}
	return nil
}
