package operate

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

func newPolicyExport(store func() *checkpoints.Store) *cobra.Command {
	var path string
	var force bool
	c := &cobra.Command{
		Use: "export NAME[@VERSION] --onnx FILE", Short: "Write a policy as an ONNX file",
		Long: `Write a policy as an ONNX file: a plain network for any ONNX program, with all that is
known of the policy in its metadata, so that import brings it back as it was.`,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			if path == "" {
				return errors.New("--onnx FILE is missing: where to write the policy")
			}
			ref, err := policies.StoredRef(args[0])
			if err != nil {
				return err
			}
			policy, entry, err := store().Get(ref)
			if err != nil {
				return err
			}
			if err := exportable(policy.Meta); err != nil {
				return fmt.Errorf("cannot export %s: %w", entry.Ref(), err)
			}
			data, err := checkpoints.EncodeONNX(policy)
			if err == nil {
				err = output.Install(path, data, force)
			}
			if err != nil {
				return fmt.Errorf("cannot export %s: %w", entry.Ref(), err)
			}
			fmt.Fprintf(c.OutOrStdout(), "wrote %s to %s: layers %v, input %q, output %q\n", entry.Ref(), path, policy.Network.Sizes, checkpoints.ONNXInput, checkpoints.ONNXOutput)
			return nil
		},
	}
	c.Flags().StringVar(&path, "onnx", "", "`FILE` to write")
	c.Flags().BoolVar(&force, "force", false, "replace the file if there is one")
	return c
}

// exportable returns an error for a policy of placement: import could not judge it as train did.
func exportable(m checkpoints.Meta) error {
	if m.Placement != nil {
		return errors.New("policies of placement are not exported as ONNX; gearshift store backup copies them with their store")
	}
	return nil
}

// importOptions are the flags of policy import.
type importOptions struct {
	scenario, preset, name string
	trusted                []string // public keys, in addition to those of the scenario
}

func newPolicyImport(store func() *checkpoints.Store) *cobra.Command {
	var o importOptions
	c := &cobra.Command{
		Use: "import FILE --name NAME", Short: "Store a policy that an ONNX file holds",
		Long: `Store a policy that an ONNX file holds; the file - is standard input. One that export
wrote comes back as it was. Its evaluation is taken over if it is signed by a key that
the scenario's serving.policies.trusted_keys lists, or --trusted-key; otherwise the policy
is evaluated again, on the scenario that it was trained on. A network that was trained elsewhere is
taken for a policy of the scenario: its inputs are the observation of the preset, in
that order, and its outputs the values of the variants, from the quickest on. It is
compared with the scenario's rules by its training.objective, which takes a while, so that
promote can judge it.`,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			if err := policies.CheckName(o.name); err != nil {
				return err
			}
			policy, err := o.read(c.Context(), args[0], c.InOrStdin(), c.ErrOrStderr())
			if err != nil {
				return fmt.Errorf("cannot import %s: %w", args[0], err)
			}
			to := store()
			version, removed, err := to.Put(o.name, policy, time.Now())
			if err != nil {
				return err
			}
			ref := checkpoints.Ref{Name: o.name, Version: version}
			fmt.Fprintf(c.OutOrStdout(), "stored policy %s in %s: layers %v, scenario %s, preset %s\n", ref, to.Path, policy.Network.Sizes, policy.Meta.Scenario, policy.Meta.Preset)
			policies.TellRemoved(c.OutOrStdout(), ref.Name, removed, policies.TooOld)
			if v, ok := policies.StoredVerdict(checkpoints.Entry{Name: ref.Name, Version: version, Meta: policy.Meta}); ok {
				fmt.Fprint(c.OutOrStdout(), policies.Conclusion(v, policies.PromotionIn(to.Path)))
			}
			return nil
		},
	}
	cli.ScenarioFlag(c, &o.scenario)
	c.Flags().StringVar(&o.preset, "preset", "default", "training preset of the scenario whose observation the network takes")
	c.Flags().StringVar(&o.name, "name", "", "of the policy")
	c.Flags().StringArrayVar(&o.trusted, "trusted-key", nil, "public `key` whose signature is trusted, in addition to those of the scenario")
	return c
}

// read makes the checkpoint of the file's policy.
func (o *importOptions) read(ctx context.Context, path string, stdin io.Reader, stderr io.Writer) (*checkpoints.Checkpoint, error) {
	data, err := readAtMost(path, stdin, checkpoints.MaxONNX)
	if err != nil {
		return nil, err
	}
	model, err := checkpoints.DecodeONNX(data)
	if err != nil {
		return nil, err
	}
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return nil, err
	}
	if model.Meta != nil {
		return o.exported(ctx, model, s, stderr)
	}
	c := &checkpoints.Checkpoint{Network: model.Network}
	trained, err := o.describe(c, s)
	if err != nil {
		return nil, err
	}
	return c, evaluateAgain(ctx, c, trained, stderr)
}

// exported returns the policy of a file that export wrote. Its evaluation counts if a
// trusted key has signed it, and is made again otherwise: anyone can write a file.
func (o *importOptions) exported(ctx context.Context, model *checkpoints.ONNXModel, s *scenario.Scenario, stderr io.Writer) (*checkpoints.Checkpoint, error) {
	c := &checkpoints.Checkpoint{Meta: *model.Meta, Network: model.Network}
	if err := exportable(c.Meta); err != nil {
		return nil, err
	}
	if _, err := policies.Objective(c.Meta); err != nil {
		return nil, err
	}
	by, err := o.trustedBy(c, model.Signature, s)
	if err != nil {
		return nil, err
	}
	if by {
		return c, c.CheckEvaluation()
	}
	c.Meta.Evaluation, c.Meta.Judged = nil, ""
	if slices.Contains(workloads.ScenarioNames(), c.Meta.Scenario) && s.Hash() != c.Meta.ScenarioHash {
		if s, err = scenario.Load(c.Meta.Scenario); err != nil { // which it says that it was trained on
			return nil, err
		}
	}
	if s.Hash() != c.Meta.ScenarioHash {
		fmt.Fprintf(stderr, "its evaluation is not accepted: no trusted key has signed it, and scenario %s is not the one it was trained on, %s. "+
			"Promote refuses it until it is imported with --scenario FILE of that, which evaluates it again, or signed (gearshift policy sign)\n", s.Name, c.Meta.Scenario)
		return c, nil
	}
	trained := s
	if preset, err := s.Preset(c.Meta.Preset); err == nil {
		trained = s.Trained(preset)
	}
	fmt.Fprintln(stderr, "no trusted key has signed it: it is evaluated again")
	return c, evaluateAgain(ctx, c, trained, stderr)
}

// trustedBy reports whether a trusted key has signed the policy.
func (o *importOptions) trustedBy(c *checkpoints.Checkpoint, signature string, s *scenario.Scenario) (bool, error) {
	var keys []ed25519.PublicKey
	for _, text := range slices.Concat(scenario.Of[scenario.Trusted](s).TrustedKeys, o.trusted) {
		key, err := checkpoints.ParsePublicKey(text)
		if err != nil {
			return false, err
		}
		keys = append(keys, key)
	}
	if signature == "" {
		return false, nil
	}
	return checkpoints.Signed(c, signature, keys)
}

// evaluateAgain gives the policy the evaluation that promote judges it by: that of what it
// was trained for, whatever the scenario's policies are.
func evaluateAgain(ctx context.Context, c *checkpoints.Checkpoint, s *scenario.Scenario, stderr io.Writer) (err error) {
	aimed := *s
	if aimed.Training.Objective, err = policies.Objective(c.Meta); err != nil {
		return err
	}
	judge, err := policies.NewJudge(&aimed, c.Meta.Spec)
	if err != nil {
		return err
	}
	judge.Progress = output.Counting(stderr, "evaluating")
	evaluation, err := judge.Summary(ctx, c.Network, policies.Trust(c.Meta), true)
	if err != nil {
		return err
	}
	return c.Evaluated(evaluation)
}

// importedPreset is what takes a preset's place where a network was trained
// elsewhere.
const importedPreset = "imported"

// describe makes the description of a network that was trained elsewhere: it
// observes what the preset does. The scenario returned is the preset's.
func (o *importOptions) describe(c *checkpoints.Checkpoint, s *scenario.Scenario) (*scenario.Scenario, error) {
	preset, err := s.Preset(o.preset)
	if err != nil {
		return nil, err
	}
	trained := s.Trained(preset)
	spec := trained.Spec()
	if c.Network.Inputs() != spec.Inputs() || c.Network.Outputs() != spec.Outputs() {
		of := fmt.Sprintf("%d variants", len(spec.Variants))
		if spec.Places() {
			of = "the value of a replica"
		}
		return nil, fmt.Errorf("its network maps %d inputs to %d outputs, preset %s of scenario %s wants %d inputs and %d outputs (%s)",
			c.Network.Inputs(), c.Network.Outputs(), o.preset, s.Name, spec.Inputs(), spec.Outputs(), of)
	}
	c.Meta = checkpoints.Meta{
		Scenario: s.Name, ScenarioHash: s.Hash(), Spec: spec, SpecHash: spec.Hash(), Preset: importedPreset,
		Objective: policies.Aim(s.Training.Objective),
	}
	return trained, nil
}

// readAtMost reads a file, or stdin for "-"; of one larger than most, in bytes, one
// byte more than that.
func readAtMost(path string, stdin io.Reader, most int64) ([]byte, error) {
	from := stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	var data bytes.Buffer
	_, err := io.Copy(&data, io.LimitReader(from, most+1))
	return data.Bytes(), err
}
