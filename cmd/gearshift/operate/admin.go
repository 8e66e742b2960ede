// Package operate holds the commands for what runs: the stored policies and which of them is in
// production, the store itself, API keys, and a router's leases, replicas and trials.
package operate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/training/policies"
	"gearshift/serving/admin/trial"
	"gearshift/serving/config"
	"gearshift/serving/config/setting"
)

// operator gives orders to a router that runs, through its admin API.
type operator struct {
	url      string
	tokenEnv string
	// reads is set for what changes nothing: a router on this machine answers it without a token.
	reads bool
}

// flags adds the flags that name a router. Without a default, the command acts on a router only
// if one is named.
func (o *operator) flags(c *cobra.Command, byDefault string) {
	usage := "`URL` of a running router's admin listener"
	if byDefault == "" {
		usage += ": act on that router, and on the store that it uses"
	}
	c.Flags().StringVar(&o.url, "admin", byDefault, usage)
	c.Flags().StringVar(&o.tokenEnv, "token-env", config.DefaultAdmin().TokenEnv, "environment `variable` that holds its admin token")
}

// localAdmin returns the URL of the admin listener of a router on this machine.
func localAdmin() string { return "http://" + config.DefaultAdmin().Addr }

// orderTimeout bounds an order, which may have to wait for a locked store.
const orderTimeout = 30 * time.Second

// ask calls the admin API and decodes its answer.
func (o *operator) ask(ctx context.Context, method, path string, body, answer any) error {
	base, err := url.Parse(o.url)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return fmt.Errorf("--admin %q is not a URL; want one such as %s", o.url, localAdmin())
	}
	token, err := setting.Key(o.tokenEnv, "the router's admin token, which `gearshift serve` was started with")
	if err != nil && !o.reads {
		return err
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	path, query, _ := strings.Cut(path, "?")
	to := base.JoinPath(path)
	to.RawQuery = query
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(text))
	if err != nil {
		return err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/json")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		return fmt.Errorf("cannot reach the router; --admin URL names its admin listener, by default %s: %w", localAdmin(), err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err = io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("cannot read the router's answer: %w", err)
	}
	if response.StatusCode/100 != 2 {
		return refusalIn(response.Status, text)
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("%s does not answer as a router's admin listener: %w", o.url, err)
	}
	return nil
}

// refusalIn returns the error that an answer without success carries.
func refusalIn(status string, text []byte) error {
	var e struct{ Error struct{ Message string } }
	if err := json.Unmarshal(text, &e); err != nil || e.Error.Message == "" {
		return fmt.Errorf("the router answers %s", status)
	}
	return errors.New("the router refuses: " + e.Error.Message)
}

// policyOrder is the body of an order about policies.
type policyOrder struct {
	Policy string  `json:"policy,omitempty"`
	Share  float64 `json:"share,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// order gives an order about policies, and prints the policies after it.
func (o *operator) order(c *cobra.Command, order string, body policyOrder) error {
	var now trial.Policies
	if err := o.ask(c.Context(), http.MethodPost, "/admin/policy/"+order, body, &now); err != nil {
		return err
	}
	if now.Note != "" {
		fmt.Fprintln(c.ErrOrStderr(), "gearshift:", now.Note)
	}
	return writePolicies(c.OutOrStdout(), now)
}

// nameAlone explains a stored policy's name without a version in an order.
const nameAlone = "NAME alone is the version of it on trial or, if none is, its newest."

func newPolicyShadow() *cobra.Command {
	var o operator
	c := &cobra.Command{
		Use: "shadow REF", Short: "Have a policy decide in a running router, without routing by it",
		Long: `Have a policy decide in a running router in addition to the one in charge, without
routing by it. gearshift policy status shows how the two compare.

Policies: ` + policies.Forms + "\n" + nameAlone,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			return o.order(c, "shadow", policyOrder{Policy: args[0]})
		},
	}
	o.flags(c, localAdmin())
	return c
}

func newPolicyCanary() *cobra.Command {
	var o operator
	var share float64
	c := &cobra.Command{
		Use: "canary REF", Short: "Have a policy route a share of a running router's requests",
		Long: `Have a policy route a share of a running router's requests, which are chosen by their
IDs. gearshift policy status shows what both sides earn.

Policies: ` + policies.Forms + "\n" + nameAlone,
		Args: cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			if !(share > 0 && share <= 1) {
				return fmt.Errorf("--share %v: want a part of the requests, above 0 and at most 1", share)
			}
			return o.order(c, "canary", policyOrder{Policy: args[0], Share: share})
		},
	}
	c.Flags().Float64Var(&share, "share", 0.05, "`part` of the requests, above 0 and at most 1")
	o.flags(c, localAdmin())
	return c
}

func newPolicyStatus() *cobra.Command {
	return shown(&cobra.Command{
		Use: "status", Short: "Show which policies a running router has, and how they compare",
	}, "/admin/policy", func(p trial.Policies) any { return p }, writePolicies)
}

// shown makes c a command that prints what a running router's admin listener answers at the path:
// in words, or as JSON what of it is to be listed.
func shown[T any](c *cobra.Command, path string, listed func(T) any, words func(io.Writer, T) error) *cobra.Command {
	var o operator
	var f cli.Format
	c.Args = cli.None
	c.RunE = func(c *cobra.Command, _ []string) error {
		asJSON, err := f.JSON()
		if err != nil {
			return err
		}
		var now T
		if err := o.ask(c.Context(), http.MethodGet, path, nil, &now); err != nil {
			return err
		}
		if asJSON {
			return output.JSON(c.OutOrStdout(), listed(now))
		}
		return words(c.OutOrStdout(), now)
	}
	f.Flag(c, "text")
	o.flags(c, localAdmin())
	return c
}

// writePolicies prints the policies of a router, for people.
func writePolicies(w io.Writer, p trial.Policies) error {
	var b strings.Builder
	fmt.Fprintf(&b, "in charge: %s\n", trainedFor(p.InCharge, p.Objective))
	if p.Earlier != nil {
		fmt.Fprintf(&b, "before:    %s\n", cmp.Or(*p.Earlier, "the fallback"))
	}
	if t := p.Trial; t != nil {
		writeTrial(&b, t)
	}
	if l := p.Last; l != nil {
		fmt.Fprintf(&b, "last:      %s of %s by %s, %.0f s ago", l.Order, l.Policy, l.By, l.AgoS)
		if l.Why != "" {
			fmt.Fprintf(&b, ": %s", l.Why)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// trainedFor returns a policy's name with what it was trained for, unless that is mean utility.
func trainedFor(policy, objective string) string {
	if objective == "" {
		return policy
	}
	return policy + " (for " + objective + ")"
}

func writeTrial(b *strings.Builder, t *trial.Report) {
	fmt.Fprintf(b, "on trial:  %s, %s", trainedFor(t.Policy, t.Objective), t.State)
	if t.Share > 0 {
		fmt.Fprintf(b, " of %g %% of the requests", 100*t.Share)
	}
	fmt.Fprintf(b, ", for %.0f s\n", t.AgeS)
	fmt.Fprintf(b, "  agreed on %d of %d choices (%.1f %%)\n", t.Agreed, t.Compared, 100*t.Rate)
	for _, v := range t.Variants {
		fmt.Fprintf(b, "  %-20s in charge %6d, trial %6d\n", v.Variant, v.InCharge, v.Trial)
	}
	for reason, n := range t.Faults {
		fmt.Fprintf(b, "  fault: %s, %d times\n", reason, n)
	}
	if e := t.Expected; e != nil {
		fmt.Fprintf(b, "  utility by forecast: in charge %.4f, trial %.4f: %+.4f (%+.4f to %+.4f) over %d\n",
			e.InCharge, e.Trial, e.Difference, e.Low, e.High, e.Requests)
	}
	if m := t.Measured; m.Trial.Requests > 0 {
		fmt.Fprintf(b, "  utility measured:    in charge %.4f of %d, trial %.4f of %d: %+.4f (%+.4f to %+.4f), %s\n",
			m.InCharge.Utility, m.InCharge.Requests, m.Trial.Utility, m.Trial.Requests, m.Difference, m.Low, m.High, m.Verdict)
	}
	if n := t.Measured.Reported; n > 0 {
		fmt.Fprintf(b, "  not measured:        %d leases, whose outcome only their holders know\n", n)
	}
}
