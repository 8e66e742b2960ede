package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/serving/models"
)

func newModelsCommand() *cobra.Command {
	return cli.Group("models", "Make models to try engines with", newModelsMakeCommand())
}

// makeOptions are the flags of models make.
type makeOptions struct {
	out, family string
	sizes       []string
	context     int
	seed        uint64
	force       bool
	concat      bool
}

func newModelsMakeCommand() *cobra.Command {
	var o makeOptions
	c := &cobra.Command{
		Use:   "make --out DIR",
		Short: "Write a family of models with random weights, as Hugging Face Optimum exports them",
		Long: `Write a family of decoder-only transformers of three sizes, each a folder with model.onnx,
config.json and tokenizer.json in the layout that Hugging Face Optimum exports. Their
weights are random: compute, memory and contention are real, words mean nothing. With
--family classifier they are late-fusion classifiers of text, images and sound.

  gearshift models make --out models --size tiny=2x64 --size small=4x192`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return makeModels(c.Context(), o, c.OutOrStdout()) },
	}
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "`DIR` to write into, one folder for each size")
	f.StringVar(&o.family, "family", "decoder", "of models: decoder, or classifier (of text, images and sound)")
	f.StringArrayVar(&o.sizes, "size", nil, "`NAME=LAYERSxWIDTH`, in place of the built-in sizes; may be repeated")
	f.IntVar(&o.context, "context", 1024, "tokens that prompt and answer may have together")
	f.Uint64Var(&o.seed, "seed", 1, "of the weights")
	f.BoolVar(&o.concat, "concat", false, "attention of plain operators, which make a new KV cache at each step, as Optimum exports it by default")
	f.BoolVar(&o.force, "force", false, "replace models that are there")
	return c
}

// families are what models make can write.
var families = map[string]struct {
	sizes []models.Size
	write func(ctx context.Context, dir string, o models.Options, done func(folder string, parameters int)) error
}{
	"decoder":    {models.Decoders(), models.MakeDecoders},
	"classifier": {models.Classifiers(), models.MakeClassifiers},
}

func makeModels(ctx context.Context, o makeOptions, stdout io.Writer) error {
	switch {
	case o.out == "":
		return fmt.Errorf("no folder to write into; want --out DIR")
	case families[o.family].write == nil:
		return fmt.Errorf("--family %q: there are decoder and classifier", o.family)
	case o.concat && o.family != "decoder":
		return fmt.Errorf("--concat: a %s has no KV cache", o.family)
	case o.context < 2 || o.context > 1<<20:
		return fmt.Errorf("--context %d: want 2 to %d", o.context, 1<<20)
	}
	family := families[o.family]
	options := models.Options{Sizes: family.sizes, Context: o.context, Seed: o.seed, Force: o.force, Concat: o.concat}
	if len(o.sizes) > 0 {
		options.Sizes = nil
	}
	for _, text := range o.sizes {
		size, err := models.ParseSize(text)
		if err != nil {
			return fmt.Errorf("--size %w", err)
		}
		if slices.ContainsFunc(options.Sizes, func(other models.Size) bool { return other.Name == size.Name }) {
			return fmt.Errorf("--size %q: %s is named twice, and each has a folder of its own", text, size.Name)
		}
		options.Sizes = append(options.Sizes, size)
	}
	return family.write(ctx, o.out, options, func(folder string, parameters int) {
		fmt.Fprintf(stdout, "%s: %.1f million parameters\n", folder, float64(parameters)/1e6)
	})
}
