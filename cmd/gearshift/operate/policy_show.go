package operate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/env/evaluation"
	"gearshift/internal/output"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
)

// shape is how ls and show print: short, wide, or for programs.
type shape struct {
	format cli.Format
	wide   bool
}

// flags lets a command print in each shape.
func (s *shape) flags(c *cobra.Command, wide string) {
	s.format.Flag(c, "text")
	c.Flags().BoolVar(&s.wide, "wide", false, wide)
}

func newPolicyList(store func() *checkpoints.Store) *cobra.Command {
	var s shape
	c := &cobra.Command{
		Use: "ls", Short: "List the stored versions", Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			asJSON, err := s.format.JSON()
			if err != nil {
				return err
			}
			entries, err := store().List()
			if err != nil {
				return err
			}
			if asJSON {
				return output.JSON(c.OutOrStdout(), summaries(entries))
			}
			list := listShort
			if s.wide {
				list = listWide
			}
			if err := list(c.OutOrStdout(), entries); err != nil {
				return err
			}
			served, err := store().Production()
			if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
				return err
			}
			return sayServed(c.OutOrStdout(), entries, served)
		},
	}
	s.flags(c, "a table that says how each was trained, and its digest")
	return c
}

// summary is a stored version, as ls prints it for programs.
type summary struct {
	Policy    string              `json:"policy"`
	Aliases   []string            `json:"aliases,omitempty"`
	Rule      string              `json:"rule,omitempty"`
	Forced    string              `json:"forced,omitempty"`
	Scenario  string              `json:"scenario,omitempty"`
	Preset    string              `json:"preset,omitempty"`
	Objective string              `json:"objective,omitempty"` // none of mean utility
	Seed      uint64              `json:"seed"`
	Decisions int                 `json:"decisions"`
	Created   time.Time           `json:"created"`
	SHA256    string              `json:"sha256"`
	Word      string              `json:"verdict,omitempty"` // of [evaluation.Verdict]
	Verdict   *evaluation.Verdict `json:"over_best_rule,omitempty"`
}

func summaries(entries []checkpoints.Entry) []summary {
	list := []summary{}
	for _, e := range entries {
		x := summary{
			Policy: e.Ref().String(), Aliases: e.Aliases, Rule: e.Rule, Forced: e.Forced, Scenario: e.Meta.Scenario,
			Preset: e.Meta.Preset, Objective: e.Meta.Objective, Seed: e.Meta.Seed, Decisions: e.Meta.Decisions, Created: e.Created, SHA256: e.Digest,
		}
		if v, ok := policies.StoredVerdict(e); ok {
			x.Verdict, x.Word = &v, v.Word()
		} else if g, ok := policies.LeastGain(e); ok {
			x.Word = g.Word()
		}
		list = append(list, x)
	}
	return list
}

// adviceOf describes what it takes for a policy to depart from its advice.
func adviceOf(margin float64) string {
	if margin >= checkpoints.AdviceAlone {
		return "always followed: no departure was surely better"
	}
	return fmt.Sprintf("departed from for more than %.3g", margin)
}

// listShort prints each version and how it compares with the best rule.
func listShort(w io.Writer, entries []checkpoints.Entry) error {
	rows := [][]string{{"POLICY", "ALIASES", "SCENARIO", "OVER THE BEST RULE, OR THE RULE", "STORED"}}
	for _, e := range entries {
		compared := e.Rule
		if v, ok := policies.StoredVerdict(e); ok {
			compared = fmt.Sprintf("%s: %s", evaluation.Signed(v.Margin), v.Word())
			if !v.Objective.IsZero() {
				compared += fmt.Sprintf(" (%s)", v.Objective)
			}
		} else if g, ok := policies.LeastGain(e); ok {
			compared = fmt.Sprintf("%s: %s (placement)", evaluation.Signed(g.By), g.Word())
		} else if e.Rule == "" {
			compared = "not compared"
		}
		rows = append(rows, []string{
			output.FitEnd(e.Ref().String(), 28), strings.Join(e.Aliases, ","), output.Fit(e.Meta.Scenario, 20), compared, e.Created.Format(time.DateOnly),
		})
	}
	var b strings.Builder
	output.Fitted(&b, rows, 3)
	_, err := io.WriteString(w, b.String())
	return err
}

func listWide(w io.Writer, entries []checkpoints.Entry) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	head, goal := "", func(checkpoints.Entry) string { return "" }
	if slices.ContainsFunc(entries, func(e checkpoints.Entry) bool { return e.Meta.Objective != "" }) {
		head, goal = "OBJECTIVE\t", func(e checkpoints.Entry) string { return e.Meta.Objective + "\t" }
	}
	fmt.Fprintln(t, "POLICY\tALIASES\tSCENARIO\tPRESET\t"+head+"SEED\tDECISIONS\tCREATED\tSHA256")
	for _, e := range entries {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s%d\t%d\t%s\t%.12s\n", naming(e), strings.Join(e.Aliases, ","),
			e.Meta.Scenario, e.Meta.Preset, goal(e), e.Meta.Seed, e.Meta.Decisions, e.Created.Format(time.DateTime), e.Digest)
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
	_, err := fmt.Fprintf(w, "serve takes %s without --policy: the version last promoted\n", taken)
	return err
}

func newPolicyShow(store func() *checkpoints.Store) *cobra.Command {
	var s shape
	c := &cobra.Command{
		Use: "show NAME[@VERSION]", Short: "Show what is known of a stored policy", Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			asJSON, err := s.format.JSON()
			if err != nil {
				return err
			}
			entry, layers, err := find(store(), args[0])
			if err != nil {
				return err
			}
			if asJSON || s.wide {
				return showAll(c.OutOrStdout(), entry, layers)
			}
			return showShort(c.OutOrStdout(), entry, layers)
		},
	}
	s.flags(c, "all that is known, as --format json has it")
	return c
}

// find returns a stored version, with the layers of its network; a rule may be named itself.
func find(store *checkpoints.Store, ref string) (entry checkpoints.Entry, layers []int, err error) {
	if policy.IsRule(ref) && strings.Contains(ref, ":") { // a kind alone is a name
		if ref, err = policy.Canonical(ref); err == nil {
			entry, err = store.LookupRule(ref)
		}
		return entry, nil, err
	}
	parsed, err := policies.StoredRef(ref)
	if err != nil {
		return entry, nil, err
	}
	if entry, err = store.Lookup(parsed); err != nil || entry.Rule != "" {
		return entry, nil, err
	}
	network, entry, err := store.Get(parsed)
	if err != nil {
		return entry, nil, err
	}
	return entry, network.Network.Sizes, nil
}

// showAll is all that is known, for programs.
func showAll(w io.Writer, e checkpoints.Entry, layers []int) error {
	if e.Rule != "" {
		return output.JSON(w, struct {
			Policy  string    `json:"policy"`
			Aliases []string  `json:"aliases,omitempty"`
			Rule    string    `json:"rule"`
			Created time.Time `json:"created"`
			SHA256  string    `json:"sha256"`
		}{e.Ref().String(), e.Aliases, e.Rule, e.Created, e.Digest})
	}
	return output.JSON(w, struct {
		Policy  string           `json:"policy"`
		Aliases []string         `json:"aliases,omitempty"`
		Forced  string           `json:"forced,omitempty"`
		Created time.Time        `json:"created"`
		SHA256  string           `json:"sha256"`
		Layers  []int            `json:"layers"`
		Meta    checkpoints.Meta `json:"meta"`
	}{e.Ref().String(), e.Aliases, e.Forced, e.Created, e.Digest, layers, e.Meta})
}

// showShort is what people ask of a version: what it is, and how it compared.
func showShort(w io.Writer, e checkpoints.Entry, layers []int) error {
	var b strings.Builder
	b.WriteString(output.FitEnd(e.Ref().String(), output.Width/2))
	if len(e.Aliases) > 0 {
		fmt.Fprintf(&b, ", %s", evaluation.Together(e.Aliases))
	}
	b.WriteByte('\n')
	line := func(what, format string, args ...any) {
		fmt.Fprintf(&b, "  %-9s %s\n", what, output.Fit(fmt.Sprintf(format, args...), output.Width-12))
	}
	if e.Rule != "" {
		fmt.Fprintf(&b, "  %-9s %s\n", "rule", e.Rule)
	} else {
		m := &e.Meta
		if m.Jobs != nil {
			line("trained", "for jobs, on %s, seed %d, %d decisions", m.Scenario, m.Seed, m.Decisions)
			line("plan", "%s, %s", policies.Foresight(m.Jobs), adviceOf(m.AdviceMargin))
		} else if m.Placement != nil {
			line("trained", "for placement, on %s (%.12s), seed %d, %d episodes", m.Scenario, m.ScenarioHash, m.Seed, m.Decisions)
		} else {
			line("trained", "on %s (%.12s), preset %s, seed %d, %d decisions", m.Scenario, m.ScenarioHash, m.Preset, m.Seed, m.Decisions)
			line("objective", "%s", cmp.Or(m.Objective, evaluation.MeanUtility.String()))
		}
		if m.Traffic != nil {
			line("traffic", "%s (%.12s): the first %d of %d requests; the last %d held out", m.Traffic.Name, m.Traffic.SHA256, m.Traffic.Trained+m.Traffic.Validated, m.Traffic.Requests, m.Traffic.HeldOut)
		}
		if m.Log != nil {
			line("fine-tuned", "on %d logged requests", m.Log.Requests)
		}
		line("network", "%s", strings.Trim(strings.ReplaceAll(fmt.Sprint(layers), " ", "-"), "[]"))
		if rule := m.Spec.Advice(); rule != "" {
			line("advice", "%s, %s", rule, adviceOf(m.AdviceMargin))
		}
	}
	line("stored", "%s, %d bytes, sha256 %.12s", e.Created.Format(time.DateTime), e.Size, e.Digest)
	if e.Forced != "" {
		line("forced", "%s", e.Forced)
	}
	if err := showComparison(&b, e); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// showComparison writes the stored comparison with rules.
func showComparison(b *strings.Builder, e checkpoints.Entry) error {
	v, ok := policies.StoredVerdict(e)
	if !ok {
		switch {
		case e.Meta.Jobs != nil:
			return showWorth(b, e)
		case e.Meta.Placement != nil:
			for _, g := range policies.PlacementGains(e) {
				fmt.Fprintf(b, "on held-out seeds a request gains %+.4f (%.4f to %.4f) over %s\n", g.By.Mean, g.By.Lo, g.By.Hi, g.Over)
			}
			return nil
		case e.Rule == "":
			b.WriteString("not compared with rules\n")
		}
		return nil
	}
	var s policies.Evaluation
	if err := json.Unmarshal(e.Meta.Evaluation, &s); err != nil {
		return err
	}
	fmt.Fprintf(b, "\non %d held-out %s:\n", v.Seeds, v.Unit())
	output.Fitted(b, s.HeldOut.Rows(), 0)
	policies.WriteVerdict(b, v)
	return nil
}

// showWorth writes what the training of a policy of jobs has stored of its validation.
func showWorth(b *strings.Builder, e checkpoints.Entry) error {
	if len(e.Meta.Evaluation) == 0 {
		return nil
	}
	var worth struct{ Score, Plan float64 }
	if err := json.Unmarshal(e.Meta.Evaluation, &worth); err != nil {
		return err
	}
	fmt.Fprintf(b, "a request is worth %.4f on validation seeds, under the plan alone %.4f\n", worth.Score, worth.Plan)
	return nil
}
