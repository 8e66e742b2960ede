package qualitycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/quality/sampling"
	"gearshift/router/quality/scoring"
)

// sampleOptions are the flags of sample.
type sampleOptions struct {
	prompts, out, score, answers, judge, judgePrompt string
	engines, keys                                    []string
	maxTokens, budget, concurrency, limit            int
	share                                            float64
	seed                                             uint64
	timeout                                          time.Duration
}

// newSample returns the command that labels prompts by asking engines.
func newSample() *cobra.Command {
	var o sampleOptions
	c := &cobra.Command{
		Use:   "sample --prompts FILE --engine NAME=URL… --score KIND --out FILE",
		Short: "Make labels: send prompts to every size, and score the answers",
		Long: `Make labels for "quality fit": send each prompt of a file to every size, score the answers
from 0 to 1, and write a line as soon as all sizes of a prompt are scored. The file has a JSON
object for each prompt: {"prompt": "What is 6 × 7?", "answer": "42", "task": "sums"}.

The first --engine is the largest size. The same URL may serve several, by the models that are
called like them: a router, for example. The ways to score:

  exact        the text is the answer's, except for case and white space
  number       the number that it states as its result, or its last, is the answer's
  choice       the letter, A to J, is the answer's
  contains     the answer's text, or any or all of several, is in it
  json-schema  its JSON is valid by the prompt's "schema"
  agreement    it agrees with the largest size's answer: a weak label
  judge        a model (--judge) prefers it to the largest size's: 1, as good: .5, worse: 0

Run again with the same --out, it goes on with the prompts that have no label. The file has the
prompts in it: keep it as you keep those.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	o.flags(c)
	for _, name := range []string{"prompts", "engine", "score", "out"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is defined above
		}
	}
	return c
}

// flags adds the flags of the command.
func (o *sampleOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.prompts, "prompts", "", "`FILE` of JSON lines, compressed with gzip or not (required)")
	f.StringArrayVar(&o.engines, "engine", nil, "`NAME=URL` of a size, or NAME=URL#MODEL; repeated, the largest first (required)")
	f.StringVar(&o.score, "score", "", "`KIND`: exact, number, choice, contains, json-schema, agreement or judge (required)")
	f.StringVar(&o.answers, "answers", "answer", "`FIELD` of the file with the right answer")
	f.StringVar(&o.judge, "judge", "", "`NAME=URL` of the model that judges, or NAME=URL#MODEL")
	f.StringVar(&o.judgePrompt, "judge-prompt", "", "`FILE` with the judge's prompt, in which {{prompt}}, {{a}} and {{b}} stand for texts (default: one is built in)")
	f.StringArrayVar(&o.keys, "api-key-env", nil, "`VARIABLE` of the environment with the key of all engines, or NAME=VARIABLE for one; may be repeated (default: none)")
	f.IntVar(&o.maxTokens, "max-tokens", 512, "of an answer")
	f.IntVar(&o.budget, "budget-tokens", 0, "`N` of all prompts and answers, before which it stops (default: no bound)")
	f.IntVar(&o.concurrency, "concurrency", 4, "prompts that are with the engines at once")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "for an answer")
	f.Float64Var(&o.share, "share", 1, "of the prompts to ask")
	f.IntVar(&o.limit, "limit", 0, "`N` prompts to ask at most (default: no bound)")
	f.Uint64Var(&o.seed, "seed", 0, "of the order in which prompts are asked, and so of which")
	f.StringVar(&o.out, "out", "", "`FILE` of labels to write, or to go on with (required)")
}

func (o *sampleOptions) validate() (scoring.Kind, error) {
	kind, err := scoring.ParseKind(o.score)
	if err != nil {
		return "", fmt.Errorf("--score: %w", err)
	}
	judges := kind == scoring.Judge
	return kind, errors.Join(
		cli.FaultIf(len(o.engines) < 2, "--engine: there is %d; want two or more sizes to compare, the largest first", len(o.engines)),
		cli.FaultIf(judges && o.judge == "", "--score judge: want --judge NAME=URL too"),
		cli.FaultIf(!judges && (o.judge != "" || o.judgePrompt != ""), "--judge and --judge-prompt have no meaning with --score %s", kind),
		cli.FaultIf(o.maxTokens < 1, "--max-tokens %d: want 1 or more", o.maxTokens),
		cli.FaultIf(o.budget < 0, "--budget-tokens %d: want a number above 0, or 0 for no bound", o.budget),
		cli.FaultIf(o.concurrency < 1 || o.concurrency > 1024, "--concurrency %d: want 1 to 1024", o.concurrency),
		cli.FaultIf(o.timeout <= 0, "--timeout %v: want a time above 0", o.timeout),
		cli.FaultIf(!(o.share > 0 && o.share <= 1), "--share %v: want a number above 0, up to 1", o.share), // NaN fails too
		cli.FaultIf(o.limit < 0, "--limit %d: want a number above 0, or 0 for no bound", o.limit),
	)
}

// run labels prompts, and prints what came of it.
func (o *sampleOptions) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	c := sampling.Config{MaxTokens: o.maxTokens, Budget: o.budget, Concurrency: o.concurrency}
	if c.Kind, err = o.validate(); err != nil {
		return err
	}
	if c.Template, err = sampling.ReadTemplate(o.judgePrompt); err != nil {
		return err
	}
	all, err := sampling.ReadFile(o.prompts, c.Kind, o.answers)
	if err != nil {
		return err
	}
	drawn := sampling.Draw(all, o.seed, o.share, o.limit)
	keys, err := o.keysByEngine()
	if err != nil {
		return err
	}
	engines, err := sampling.ParseEngines(o.engines, o.judge, keys)
	if err != nil {
		return err
	}
	labels, err := sampling.Open(o.out, engines.Names(), c.Kind)
	if err != nil {
		return err
	}
	c.Prompts = labels.Left(drawn)
	c.Write = labels.Add
	o.announce(labels, len(drawn), len(c.Prompts), stderr)
	if len(c.Prompts) > 0 {
		err = o.ask(ctx, engines, c, stdout, stderr)
	}
	return errors.Join(err, labels.Close())
}

// announce says what is there already.
func (o *sampleOptions) announce(labels *sampling.Labels, drawn, left int, stderr io.Writer) {
	if labels.Partial {
		fmt.Fprintf(stderr, "note: %s ended within a line, which was dropped\n", o.out)
	}
	if done := drawn - left; done > 0 {
		fmt.Fprintf(stderr, "%s has labels of %d of %d prompts; %d are left to ask\n", o.out, done, drawn, left)
	}
}

// ask asks the engines, and prints the report, also of a run that failed.
func (o *sampleOptions) ask(ctx context.Context, engines sampling.Engines, c sampling.Config, stdout, stderr io.Writer) error {
	if err := c.Connect(ctx, engines, o.timeout); err != nil {
		return err
	}
	c.Progress = output.Counting(stderr, "prompts")
	report, err := sampling.Run(ctx, c)
	if output.IsTerminal(stderr) {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	report.Write(stdout)
	if report.Labelled > 0 {
		fmt.Fprintf(stdout, "next: gearshift quality fit --data %s --name mine\n", o.out)
	}
	return err
}

// keysByEngine reads --api-key-env, and returns the keys by engine; that of all engines has no name.
func (o *sampleOptions) keysByEngine() (map[string]string, error) {
	keys := map[string]string{}
	for _, text := range o.keys {
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
