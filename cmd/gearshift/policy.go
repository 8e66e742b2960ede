package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/judging"
	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/policies"
)

func newPolicyCommand() *cobra.Command {
	var path string
	store := func() *checkpoints.Store { return &checkpoints.Store{Path: path} }
	c := group("policy", "List, show, promote, export and import stored policies; try them in a running router",
		newPolicyList(store), newPolicyShow(store), newPolicyPromote(store),
		newPolicyRollback(store), newPolicyRemove(store),
		newPolicyShadow(), newPolicyCanary(), newPolicyStatus(),
		newPolicyExport(store), newPolicyImport(store),
	)
	c.PersistentFlags().StringVar(&path, "store", defaultStore, "`file` that holds policies")
	return c
}

func newPolicyList(store func() *checkpoints.Store) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the stored versions", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			entries, err := store().List()
			if err != nil {
				return err
			}
			if err := listPolicies(c.OutOrStdout(), entries); err != nil {
				return err
			}
			served, err := store().Production()
			if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
				return err
			}
			return sayServed(c.OutOrStdout(), entries, served)
		},
	}
}

func listPolicies(w io.Writer, entries []checkpoints.Entry) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "POLICY\tALIASES\tSCENARIO\tPRESET\tSEED\tDECISIONS\tCREATED\tSHA256")
	for _, e := range entries {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%d\t%s\t%.12s\n", e.Ref(), strings.Join(e.Aliases, ","),
			e.Meta.Scenario, e.Meta.Preset, e.Meta.Seed, e.Meta.Decisions, e.Created.Format(time.DateTime), e.Digest)
	}
	return t.Flush()
}

// sayServed says which policy serve takes, where the list does not: each name may have
// a version in production.
func sayServed(w io.Writer, entries []checkpoints.Entry, served checkpoints.Ref) error {
	other := func(e checkpoints.Entry) bool {
		return e.Name != served.Name && slices.Contains(e.Aliases, checkpoints.Production)
	}
	if !slices.ContainsFunc(entries, other) {
		return nil
	}
	taken := "none"
	if served.Name != "" {
		taken = served.String()
	}
	_, err := fmt.Fprintf(w, "serve takes %s without --policy: it goes by the name last promoted\n", taken)
	return err
}

func newPolicyShow(store func() *checkpoints.Store) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME[@VERSION]", Short: "Show all that is known of a stored policy", Args: one,
		RunE: func(c *cobra.Command, args []string) error {
			ref, err := policies.StoredRef(args[0])
			if err != nil {
				return err
			}
			network, entry, err := store().Get(ref)
			if err != nil {
				return err
			}
			return output.JSON(c.OutOrStdout(), struct {
				Policy  string           `json:"policy"`
				Aliases []string         `json:"aliases,omitempty"`
				Forced  string           `json:"forced,omitempty"`
				Created time.Time        `json:"created"`
				SHA256  string           `json:"sha256"`
				Layers  []int            `json:"layers"`
				Meta    checkpoints.Meta `json:"meta"`
			}{entry.Ref().String(), entry.Aliases, entry.Forced, entry.Created, entry.Digest, network.Network.Sizes, entry.Meta})
		},
	}
}

var errForce = errors.New("--force and --reason go together: the reason is kept with the policy")

func newPolicyPromote(store func() *checkpoints.Store) *cobra.Command {
	var force bool
	var reason string
	var live operator
	c := &cobra.Command{
		Use: "promote NAME[@VERSION]", Short: "Put a version in production: serve routes by it",
		Long: `Put a version in production, so that serve routes by it. Its stored evaluation must
beat the best of the scenario's rules on held-out seeds: the 95 % interval of the
difference must lie above zero. --force promotes it regardless, and keeps the reason.
NAME alone is its newest version.

With --admin, a running router routes by it at once, and its store keeps that.
There, ` + nameAlone,
		Args: one,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("admin") { // an empty one is a mistake, not the store
				if force != (strings.TrimSpace(reason) != "") {
					return errForce
				}
				return live.order(c, "promote", policyOrder{Policy: args[0], Reason: reason})
			}
			ref, err := policies.NewestRef(args[0])
			if err != nil {
				return err
			}
			if force != (strings.TrimSpace(reason) != "") {
				return errForce
			}
			_, entry, err := store().Get(ref)
			if err != nil {
				return err
			}
			if !force {
				if err := judging.Admit(entry, judging.PromotionIn(store().Path), c.ErrOrStderr()); err != nil {
					return err
				}
			}
			if err := store().Promote(entry.Name, entry.Version, strings.TrimSpace(reason)); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is in production\n", entry.Ref())
			return nil
		},
	}
	c.Flags().BoolVar(&force, "force", false, "promote it whatever its evaluation says; needs --reason")
	c.Flags().StringVar(&reason, "reason", "", "`why` it is promoted by force, kept with the policy")
	live.flags(c, "")
	return c
}

func newPolicyRollback(store func() *checkpoints.Store) *cobra.Command {
	var live operator
	c := &cobra.Command{
		Use: "rollback NAME", Short: "Put the version before the last promotion back in production",
		Long: `Put the version before the last promotion back in production.

With --admin, end the trial of the policy in a running router or, if it is in charge
there, put the policy back in charge that was before.`,
		Args: one,
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("admin") { // an empty one is a mistake, not the store
				return live.order(c, "rollback", policyOrder{Policy: args[0]})
			}
			version, err := store().Rollback(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is in production\n", checkpoints.Ref{Name: args[0], Version: version})
			return nil
		},
	}
	live.flags(c, "")
	return c
}

func newPolicyRemove(store func() *checkpoints.Store) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm NAME[@VERSION]", Short: "Remove a version, or a whole policy", Args: one,
		RunE: func(c *cobra.Command, args []string) error {
			ref, err := policies.StoredRef(args[0])
			if err != nil {
				return err
			}
			removed, err := store().Remove(ref, force)
			if err != nil {
				return err
			}
			policies.TellRemoved(c.OutOrStdout(), ref.Name, removed, "")
			return nil
		},
	}
	c.Flags().BoolVar(&force, "force", false, "remove it even if it is in production")
	return c
}
