package operate

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
)

func NewPolicyCommand() *cobra.Command {
	var path string
	store := func() *checkpoints.Store { return &checkpoints.Store{Path: path} }
	c := cli.Group("policy", "List, show, promote, export and import stored policies; try them in a running router",
		newPolicyList(store), newPolicyShow(store), newPolicyPromote(store),
		newPolicyRollback(store), newPolicyRemove(store),
		newPolicyShadow(), newPolicyCanary(), newPolicyStatus(),
		newPolicyExport(store), newPolicyImport(store), newPolicyKeygen(), newPolicySign(),
	)
	c.PersistentFlags().StringVar(&path, "store", cli.DefaultStore(), cli.StoreUsage)
	return c
}

var errForce = errors.New("--force and --reason go together: the reason is kept with the policy")

func newPolicyPromote(store func() *checkpoints.Store) *cobra.Command {
	var o promotion
	c := &cobra.Command{
		Use: "promote NAME[@VERSION] | RULE", Short: "Put a version, or a rule, in production: serve routes by it",
		Long: `Put a version in production, so that serve routes by it. Its stored evaluation must
beat the best of the scenario's rules on held-out seeds, by its training objective:
the 95 % interval of the difference must lie above zero. --force promotes it regardless, and
keeps the reason. NAME alone is its newest version.

A policy that decides which sizes are loaded is only checked, and production stays as it is:
name it in the scenario, as serving.placement.policy.

A rule needs no evaluation: policies are compared with rules. It is stored as a version of
its kind, such as slackfit@1. --scenario checks that it fits a scenario; without it the check
is made when serve loads the rule.

Rules: ` + policy.RuleForms + `

With --admin, a running router routes by it at once, and its store keeps that.
There, ` + nameAlone,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error { return o.run(c, store(), args[0]) },
	}
	c.Flags().BoolVar(&o.force, "force", false, "promote it whatever its evaluation says; needs --reason")
	c.Flags().StringVar(&o.reason, "reason", "", "`why` it is promoted by force, kept with the policy")
	c.Flags().StringVar(&o.scenario, "scenario", "", "built-in `name or file` of the scenario that a rule must fit (default: not checked)")
	o.live.flags(c, "")
	return c
}

// promotion has the flags of promote.
type promotion struct {
	force    bool
	reason   string
	scenario string
	live     operator
}

func (o *promotion) run(c *cobra.Command, store *checkpoints.Store, ref string) error {
	if o.force != (strings.TrimSpace(o.reason) != "") {
		return errForce
	}
	if c.Flags().Changed("admin") { // an empty one is a mistake, not the store
		return o.live.order(c, "promote", policyOrder{Policy: ref, Reason: o.reason})
	}
	entry, err := o.find(store, ref)
	if err != nil {
		return err
	}
	gate := func() error { return policies.Admit(entry, policies.PromotionIn(store.Path), c.ErrOrStderr()) }
	if entry.Meta.Placement != nil && !o.force { // the scenario names it: production is what routes
		if err := gate(); err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.OutOrStdout(), "%s passes; name it in the scenario: serving.placement.policy: %s\n", entry.Ref(), entry.Ref())
		return err
	}
	if err := policies.Routes(entry); err != nil {
		return fmt.Errorf("cannot promote %s: %w", entry.Ref(), err)
	}
	if entry.Rule == "" && !o.force {
		if err := gate(); err != nil {
			return err
		}
	}
	if err := store.Promote(entry.Name, entry.Version, strings.TrimSpace(o.reason)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s is in production\n", naming(entry))
	return err
}

// find returns the version to promote. It stores a rule that is not stored yet.
func (o *promotion) find(store *checkpoints.Store, ref string) (checkpoints.Entry, error) {
	if !policy.IsRule(ref) {
		parsed, err := policies.NewestRef(ref)
		if err != nil {
			return checkpoints.Entry{}, err
		}
		entry, err := store.Lookup(parsed)
		if errors.Is(err, checkpoints.ErrNotFound) {
			err = policies.MeantRule(ref, err)
		}
		if err == nil && entry.Rule == "" {
			var c *checkpoints.Checkpoint
			if c, entry, err = store.Get(parsed); err == nil && !o.force { // one that cannot be read is of no use
				err = policies.CheckEvaluation(c, entry)
			}
		}
		return entry, err
	}
	if o.force {
		return checkpoints.Entry{}, fmt.Errorf("%s is a rule, which is promoted without --force", ref)
	}
	rule, err := policy.Canonical(ref)
	if err == nil && o.scenario != "" {
		rule, err = ruleOf(o.scenario, ref)
	}
	if err != nil {
		return checkpoints.Entry{}, err
	}
	entry, _, err := store.PutRule(rule, time.Now())
	return entry, err
}

// ruleOf returns the name of the rule in a scenario.
func ruleOf(ref, rule string) (string, error) {
	s, err := scenario.Load(ref)
	if err != nil {
		return "", err
	}
	maker, err := s.Maker(s.ServingTable())
	if err != nil {
		return "", err
	}
	made, err := maker.Parse(rule)
	if err != nil {
		return "", fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	return made.Name(), nil
}

// naming returns the name of a version in messages, with its rule if it is one.
func naming(e checkpoints.Entry) string {
	if e.Rule != "" {
		return fmt.Sprintf("%s (%s)", e.Rule, e.Ref())
	}
	return e.Ref().String()
}

func newPolicyRollback(store func() *checkpoints.Store) *cobra.Command {
	var live operator
	c := &cobra.Command{
		Use: "rollback [NAME]", Short: "Undo the last promotion",
		Long: `Undo the last promotion, whatever its name; with
NAME, the version of it that was before. That is one step: only a promotion brings back
what a rollback takes away.

With --admin, end the trial of the policy in a running router or, if it is in charge
there, put the policy back in charge that was before.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("admin") { // an empty one is a mistake, not the store
				return live.order(c, "rollback", policyOrder{Policy: strings.Join(args, "")})
			}
			return rollBack(c.OutOrStdout(), store(), args)
		},
	}
	live.flags(c, "")
	return c
}

// rollBack undoes the last promotion, or the last one of a name that is given.
func rollBack(w io.Writer, store *checkpoints.Store, names []string) error {
	var ref checkpoints.Ref
	if len(names) == 0 || policy.IsRule(names[0]) {
		if len(names) > 0 {
			if err := inProduction(store, names[0]); err != nil {
				return err
			}
		}
		var err error
		if ref, err = store.Back(); err != nil {
			return err
		}
		if ref.Name == "" {
			_, err = fmt.Fprintln(w, "nothing is in production, as before: serve falls back to the scenario's best rule")
			return err
		}
	} else {
		version, err := store.Rollback(names[0])
		if err != nil {
			return err
		}
		ref = checkpoints.Ref{Name: names[0], Version: version}
	}
	entry, err := store.Lookup(ref)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s is in production\n", naming(entry))
	return err
}

// inProduction returns an error if the rule is not in production.
func inProduction(store *checkpoints.Store, rule string) error {
	ref, err := store.Production()
	if err != nil {
		return err
	}
	entry, err := store.Lookup(ref)
	if err != nil {
		return err
	}
	name, err := policy.Canonical(rule)
	if err == nil && entry.Rule != name && (entry.Rule == "" || checkpoints.RuleName(entry.Rule) != rule) {
		err = fmt.Errorf("cannot roll back %s: in production is %s", rule, naming(entry))
	}
	return err
}

func newPolicyRemove(store func() *checkpoints.Store) *cobra.Command {
	return RemoveCommand("Remove a version, or a whole policy", policies.StoredRef,
		func(ref checkpoints.Ref, force bool) ([]int, error) { return store().Remove(ref, force) })
}

// RemoveCommand returns the command `rm` of policies or predictors, by how their names are read and
// how versions are removed.
func RemoveCommand(short string, parse func(string) (checkpoints.Ref, error), remove func(checkpoints.Ref, bool) ([]int, error)) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm NAME[@VERSION]", Short: short, Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			ref, err := parse(args[0])
			if err != nil {
				return err
			}
			removed, err := remove(ref, force)
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
