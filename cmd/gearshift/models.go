package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/cmd/gearshift/operate"
	"gearshift/serving/backend/models"
)

func newModelsCommand() *cobra.Command {
	return cli.Group("models", "Change the versions of a running router's models; make models to try engines with",
		append(operate.ModelCommands(), newModelsMakeCommand())...)
}

// makeOptions are the flags of models make.
type makeOptions struct {
	out, family string
	sizes       []string
	context     int
	seed        uint64
	force       bool
	concat      bool
	trained     trainedOptions
}

// isTrained has the families whose models are trained.
var isTrained = map[string]bool{"digits": true, "boxes": true, "subjects": true}

// trainedOptions are the flags of models make that are of those families alone. Without steps each has its own.
type trainedOptions struct {
	steps, count int
	samples      string
}

func newModelsMakeCommand() *cobra.Command {
	var o makeOptions
	c := &cobra.Command{
		Use:   "make --out DIR",
		Short: "Write models to try engines with: with random weights, or one that was trained",
		Long: `Write a family of decoder-only transformers of three sizes, each a folder with model.onnx,
config.json and tokenizer.json in the layout that Hugging Face Optimum exports. Their
weights are random: compute, memory and contention are real, words mean nothing. With
--family classifier they are late-fusion classifiers of text, images and sound. With --family
images they are five families of image classifiers, 27 models of 4 to 400 MB, 2.2 GB in all,
that take long to load and little to answer: to try failover with.

With --family digits the model is trained, in minutes: a classifier of handwritten and
spoken digits, which is right more often with both. How often, with each of its inputs, is
counted on digits that it was not trained on, printed, and written to quality.json.
--samples writes such digits as PNG and WAV files, with their labels, to send to it.

With --family boxes they are two detectors of moving objects in the frames of drawn videos, trained in
one or two minutes each, to try streaming clients with. How well they and a tracker find boxes is counted alike.
--samples writes such frames as JPEG files, with their boxes.

With --family subjects they are two classifiers of texts, which name the subject of a question, trained in a minute or two.
The large one is right more often, and takes many times as long: to try predicting which of them a prompt needs.
--samples writes questions that they were not trained on, to fit a predictor by and to judge it.

  gearshift models make --out models --size tiny=2x64 --size small=4x192
  gearshift models make --out models --family digits --samples samples
  gearshift models make --family digits --samples samples      # samples without a model
  gearshift models make --out models --family boxes
  gearshift models make --out models --family subjects --samples questions`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.ofFamily(c.Flags().Changed); err != nil {
				return err
			}
			return makeModels(c.Context(), o, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "`DIR` to write into, one folder for each size")
	f.StringVar(&o.family, "family", "decoder", "of models: decoder, classifier (of text, images and sound), images (five families of image classifiers, 4 to 400 MB), digits (handwritten and spoken), boxes (of moving objects) or subjects (of questions)")
	f.StringArrayVar(&o.sizes, "size", nil, "`NAME=LAYERSxWIDTH`, in place of the built-in sizes; may be repeated")
	f.IntVar(&o.context, "context", 1024, "tokens that prompt and answer may have together")
	f.Uint64Var(&o.seed, "seed", 1, "of the weights; of digits and subjects, of which are held out too")
	f.BoolVar(&o.concat, "concat", false, "attention of plain operators, which make a new KV cache at each step, as Optimum exports it by default")
	f.BoolVar(&o.force, "force", false, "replace models that are there")
	f.IntVar(&o.trained.steps, "steps", 0, "gradient steps of the training; if it is not given, 300 for digits, for boxes 1000, or 1500 for the small size, and for subjects 100, or 600 for the small size")
	f.StringVar(&o.trained.samples, "samples", "", "`DIR` to write held-out digits or frames into, as PNG and WAV or JPEG files, and labels.csv; or questions, as JSON lines")
	f.IntVar(&o.trained.count, "sample-count", 1000, "how many of them; of questions, 800 if it is not given")
	return c
}

// ofFamily refuses the flags of other families.
func (o *makeOptions) ofFamily(changed func(string) bool) error {
	trained, text := []string{"samples", "steps", "sample-count"}, []string{"context", "concat"}
	if i := slices.IndexFunc(trained, changed); i >= 0 && !isTrained[o.family] {
		return fmt.Errorf("--%s is for --family digits, boxes and subjects; want %s", trained[i], o.ofDigits(changed))
	}
	if changed("steps") && o.trained.steps < 1 {
		return fmt.Errorf("--steps %d: want 1 or more", o.trained.steps)
	}
	if i := slices.IndexFunc(text, changed); i >= 0 && (isTrained[o.family] || o.family == "images") {
		return fmt.Errorf("--%s is for models of text, not for --family %s", text[i], o.family)
	}
	if o.family == "subjects" && !changed("sample-count") {
		o.trained.count = 800 // each part has little more
	}
	return nil
}

// ofDigits is the command for digits with the same flags, as far as they are for digits.
func (o *makeOptions) ofDigits(changed func(string) bool) string {
	command := "gearshift models make --family digits"
	for _, f := range []struct{ name, value string }{
		{"out", o.out}, {"samples", o.trained.samples}, {"steps", strconv.Itoa(o.trained.steps)}, {"sample-count", strconv.Itoa(o.trained.count)},
	} {
		if changed(f.name) {
			command += " --" + f.name + " " + f.value
		}
	}
	return command
}

// drawnFamilies are those whose weights are random.
var drawnFamilies = map[string]struct {
	sizes []models.Size
	write func(ctx context.Context, dir string, o models.Options, done func(folder string, parameters int)) error
}{
	"decoder":    {models.Decoders(), models.MakeDecoders},
	"classifier": {models.Classifiers(), models.MakeClassifiers},
	"images":     {models.ImageClassifiers(), models.MakeImageClassifiers},
}

func makeModels(ctx context.Context, o makeOptions, stdout, stderr io.Writer) error {
	if isTrained[o.family] {
		return makeTrained(ctx, o, stdout, stderr)
	}
	switch {
	case o.out == "":
		return fmt.Errorf("no folder to write into; want --out DIR")
	case drawnFamilies[o.family].write == nil:
		return fmt.Errorf("--family %q: there are decoder, classifier, images, digits, boxes and subjects", o.family)
	case o.concat && o.family != "decoder":
		return fmt.Errorf("--concat: a %s has no KV cache", o.family)
	case o.context < 2 || o.context > 1<<20:
		return fmt.Errorf("--context %d: want 2 to %d", o.context, 1<<20)
	}
	family := drawnFamilies[o.family]
	options := models.Options{Context: o.context, Seed: o.seed, Force: o.force, Concat: o.concat}
	var err error
	if options.Sizes, err = o.parseSizes(family.sizes); err != nil {
		return err
	}
	return family.write(ctx, o.out, options, func(folder string, parameters int) {
		fmt.Fprintf(stdout, "%s: %.1f million parameters\n", folder, float64(parameters)/1e6)
	})
}

// parseSizes are the sizes of the flags, or those that are built in.
func (o *makeOptions) parseSizes(builtIn []models.Size) (sizes []models.Size, err error) {
	for _, text := range o.sizes {
		size, err := models.ParseSize(text)
		if err != nil {
			return nil, fmt.Errorf("--size %w", err)
		}
		if slices.ContainsFunc(sizes, func(other models.Size) bool { return other.Name == size.Name }) {
			return nil, fmt.Errorf("--size %q: %s is named twice, and each has a folder of its own", text, size.Name)
		}
		sizes = append(sizes, size)
	}
	if len(sizes) == 0 {
		return builtIn, nil
	}
	return sizes, nil
}
