package operate

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/serving/admission"
)

func NewLeaseCommand() *cobra.Command {
	return cli.Group("lease", "List and revoke the leases of callers that dispatch requests themselves", newLeaseList(), newLeaseRevoke())
}

func newLeaseList() *cobra.Command {
	return shown(&cobra.Command{
		Use: "ls", Short: "List the leases that a running router has given out",
		Example: "  gearshift lease ls\n  gearshift lease ls --format json --admin http://10.0.0.7:8081",
	}, "/admin/leases", func(now admission.Leases) any { return now.Leases }, writeLeases)
}

func writeLeases(w io.Writer, now admission.Leases) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "LEASE\tKEY\tTASK\tREPLICA\tPROMPT\tAGE\tEXPIRES IN")
	for _, l := range now.Leases {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%.0fs\t%.0fs\n", l.ID, cmp.Or(l.Key, "-"), l.Task, l.Replica, l.PromptTokens, l.AgeS, l.ExpiresS)
	}
	return t.Flush()
}

func newLeaseRevoke() *cobra.Command {
	var o operator
	var key string
	var anonymous, all bool
	c := &cobra.Command{
		Use: "revoke [LEASE]", Short: "End one lease, those of a key, those without a key, or all",
		Long: `End leases in a running router, and free their places. Their holders get 404 when they end
them; work that they have sent to an engine continues there.`,
		Example: "  gearshift lease revoke 0f3c…\n  gearshift lease revoke --key alice\n  gearshift lease revoke --anonymous",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := revocation(args, key, c.Flags().Changed("key"), anonymous, all)
			if err != nil {
				return err
			}
			var now admission.Leases
			if err := o.ask(c.Context(), http.MethodDelete, path, nil, &now); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "revoked %d, %d left\n", now.Revoked, len(now.Leases))
			return err
		},
	}
	c.Flags().StringVar(&key, "key", "", "`name` of the API key whose leases are revoked")
	c.Flags().BoolVar(&anonymous, "anonymous", false, "revoke those that were taken without a key")
	c.Flags().BoolVar(&all, "all", false, "revoke all")
	o.flags(c, localAdmin())
	return c
}

// revocation returns the path of the order, for exactly one of the choices.
func revocation(args []string, key string, byKey, anonymous, all bool) (string, error) {
	var paths []string
	if len(args) > 0 {
		paths = append(paths, "/admin/leases/"+url.PathEscape(args[0]))
	}
	if byKey {
		if key == "" {
			return "", fmt.Errorf("--key is empty; want the name of a key, or --anonymous for leases without one")
		}
		paths = append(paths, "/admin/leases?key="+url.QueryEscape(key))
	}
	if anonymous {
		paths = append(paths, "/admin/leases?key=")
	}
	if all {
		paths = append(paths, "/admin/leases?all=true")
	}
	if len(paths) != 1 {
		return "", fmt.Errorf("want one of LEASE, --key, --anonymous and --all, got %d", len(paths))
	}
	return paths[0], nil
}
