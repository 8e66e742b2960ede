package main

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/models"
	"gearshift/router/fleet"
	"gearshift/serving/backend/decoder"
	"gearshift/workloads"
)

func newModelsCommand() *cobra.Command {
	return group("models", "Make models to try engines with", newModelsMakeCommand())
}

// makeOptions are the flags of models make.
type makeOptions struct {
	out, family string
	sizes       []string
	context     int
	seed        uint64
	force       bool
}

func newModelsMakeCommand() *cobra.Command {
	var o makeOptions
	c := &cobra.Command{
		Use:   "make --out DIR",
		Short: "Write a family of models with random weights, as Hugging Face Optimum exports them",
		Long: `Write a family of decoder-only transformers of three sizes, each a folder with model.onnx,
config.json and tokenizer.json in the layout that Hugging Face Optimum exports. Their
weights are random: compute, memory and contention are real, words mean nothing.

  gearshift models make --out models --size tiny=2x64 --size small=4x192`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return makeModels(o, c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "`DIR` to write into, one folder for each size")
	f.StringVar(&o.family, "family", "decoder", "of models: decoder")
	f.StringArrayVar(&o.sizes, "size", nil, "`NAME=LAYERSxWIDTH`, in place of the built-in sizes; may be repeated")
	f.IntVar(&o.context, "context", 1024, "tokens that prompt and answer may have together")
	f.Uint64Var(&o.seed, "seed", 1, "of the weights")
	f.BoolVar(&o.force, "force", false, "replace models that are there")
	return c
}

func makeModels(o makeOptions, stdout io.Writer) error {
	switch {
	case o.out == "":
		return fmt.Errorf("no folder to write into; want --out DIR")
	case o.family != "decoder":
		return fmt.Errorf("--family %q: there is decoder", o.family)
	case o.context < 2 || o.context > 1<<20:
		return fmt.Errorf("--context %d: want 2 to %d", o.context, 1<<20)
	}
	options := models.Options{Sizes: models.Decoders(), Context: o.context, Seed: o.seed, Force: o.force}
	if len(o.sizes) > 0 {
		options.Sizes = nil
	}
	for _, text := range o.sizes {
		size, err := models.ParseSize(text)
		if err != nil {
			return fmt.Errorf("--size %w", err)
		}
		options.Sizes = append(options.Sizes, size)
	}
	return models.MakeDecoders(o.out, options, func(folder string, parameters int) {
		fmt.Fprintf(stdout, "%s: %.1f million parameters\n", folder, float64(parameters)/1e6)
	})
}

// newLocalEngines starts the models of the scenario, one engine for each replica.
func newLocalEngines(s *scenario.Scenario, t *fleet.Table) ([]*decoder.Engine, func(), error) {
	var engines []*decoder.Engine
	closeAll := func() {
		for _, e := range engines {
			e.Close()
		}
	}
	memory := s.ReplicaMemory()
	for i, l := range s.LocalModels() {
		e, err := newLocalEngine(l, decoder.Config{
			Name: t.Variants[t.Replicas[i].Variant].Name, Seed: workloads.Seed(workloads.Serving, 1+uint64(i)),
		}, memory[i])
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("replica %s: %w", t.Replicas[i].Name, err)
		}
		engines = append(engines, e)
	}
	return engines, closeAll, nil
}

// newLocalEngine loads the model and starts its engine.
func newLocalEngine(l scenario.Local, c decoder.Config, memory int64) (*decoder.Engine, error) {
	folder, err := decoder.ReadFolder(l.Path)
	if err != nil {
		return nil, err
	}
	model, err := openModel(l, memory)
	if err != nil {
		return nil, err
	}
	if c.Context = folder.Context; l.Context > 0 {
		c.Context = min(l.Context, folder.Context)
	}
	c.End, c.MaxSequences = folder.End, l.MaxSequences
	c.KVTokens, err = roomFor(model.Layout(), min(cmp.Or(l.KVTokens, math.MaxInt), l.MaxSequences*c.Context), l.KVTokens > 0, memory)
	var e *decoder.Engine
	if err == nil {
		e, err = decoder.New(model, folder.Tokenizer, c)
	}
	if err != nil {
		model.Close()
		return nil, fmt.Errorf("cannot run model %s: %w", l.Path, err)
	}
	return e, nil
}

// roomFor is how many tokens the cache may hold: as many as wanted, or what the
// memory has room for beside the weights if they are not declared; 0 is no bound. A step reads
// one cache and writes the next, so there are two.
func roomFor(l decoder.Layout, tokens int, declared bool, memory int64) (int, error) {
	room := (memory - l.WeightBytes) / int64(2*l.TokenBytes)
	switch {
	case memory == 0, int64(tokens) <= room:
		return tokens, nil
	case declared:
		return 0, fmt.Errorf("its weights of %d bytes and twice a KV cache of %d tokens of %d bytes exceed the declared memory of %d bytes; want kv_tokens of at most %d, or more memory",
			l.WeightBytes, tokens, l.TokenBytes, memory, max(0, room))
	}
	return int(room), nil
}
