package operate

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
)

func newPolicyKeygen() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make a key that policies are signed with, and print its public half",
		Long: `Make a key that policies are signed with, and print its public half. FILE gets the
private one (Ed25519, PKCS #8 in PEM), and only you can read it. "policy import" accepts the
evaluation of a signed policy if serving.policies.trusted_keys of the scenario lists the
public key.`,
		Example: "  gearshift policy keygen signing.pem",
		Args:    cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return err
			}
			der, err := x509.MarshalPKCS8PrivateKey(private)
			if err != nil {
				return err
			}
			if _, err := os.Lstat(args[0]); err == nil {
				return fmt.Errorf("%s already exists; a key is not replaced", args[0])
			}
			if err := output.Whole(args[0], pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
				return fmt.Errorf("cannot write key: %w", err)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), checkpoints.PublicKeyText(public))
			return err
		},
	}
}

func newPolicySign() *cobra.Command {
	var keyFile string
	c := &cobra.Command{
		Use: "sign FILE --key KEY", Short: "Sign a policy that was exported",
		Long: `Sign a policy that was exported: its weights, its description and its evaluation. The
signature goes into the file. If "policy import" trusts the key, it accepts the evaluation;
otherwise it evaluates the policy again.`,
		Example: "  gearshift policy sign mine.onnx --key signing.pem",
		Args:    cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			if keyFile == "" {
				return errors.New("--key KEY is missing: the file that gearshift policy keygen made")
			}
			key, err := readSigningKey(keyFile)
			if err != nil {
				return err
			}
			if err := signFile(args[0], key); err != nil {
				return fmt.Errorf("cannot sign %s: %w", args[0], err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "signed %s with %s\n", args[0], checkpoints.PublicKeyText(key.Public().(ed25519.PublicKey)))
			return err
		},
	}
	c.Flags().StringVar(&keyFile, "key", "", "`file` of the private key")
	return c
}

func readSigningKey(path string) (ed25519.PrivateKey, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read key: %w", err)
	}
	if block, _ := pem.Decode(text); block != nil {
		if parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes); err == nil {
			if key, ok := parsed.(ed25519.PrivateKey); ok {
				return key, nil
			}
		}
	}
	return nil, fmt.Errorf("cannot read key: %s holds no Ed25519 private key (PKCS #8 in PEM), as gearshift policy keygen makes it", path)
}

// signFile signs the policy in an ONNX file, whose earlier signature goes.
func signFile(path string, key ed25519.PrivateKey) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	model, err := checkpoints.DecodeONNX(data)
	if err != nil {
		return err
	}
	if model.Meta == nil {
		return errors.New("it is not a policy that gearshift policy export wrote: it has no evaluation to sign")
	}
	c := &checkpoints.Checkpoint{Meta: *model.Meta, Network: model.Network}
	if err := c.CheckEvaluation(); err != nil {
		return err
	}
	signature, err := checkpoints.Sign(c, key)
	if err != nil {
		return err
	}
	if data, err = checkpoints.EncodeSignedONNX(c, signature); err != nil {
		return err
	}
	return output.Install(path, data, true)
}
