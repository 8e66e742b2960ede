package operate

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/etcd"
)

func NewStoreCommand() *cobra.Command {
	var path string
	store := func() *checkpoints.Store { return &checkpoints.Store{Path: path} }
	c := cli.Group("store", "Check, copy and compact the store of policies and predictors",
		newStoreVerify(store), newStoreBackup(store), newStoreCopy(store), newStoreCompact(store))
	c.PersistentFlags().StringVar(&path, "store", cli.DefaultStore(), cli.StoreUsage)
	return c
}

func newStoreVerify(store func() *checkpoints.Store) *cobra.Command {
	return &cobra.Command{
		Use: "verify", Short: "Read all of the store and check it against its checksums",
		Long: `Read all of the store and check it against its checksums: the pages of a file, each
policy and predictor, the progress of each training run, and the references between them. The store is
not changed. Commands that write wait meanwhile; a server that only reads does not.

The exit code is 1 if something cannot be read. A warning reports damage that makes
nothing unreadable, such as a meta page that a power cut has torn.`,
		Example: "  gearshift store verify --store /var/lib/gearshift/gearshift.db",
		Args:    cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			s := store()
			h, err := s.Verify()
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "%s: %d versions of %d policies, %d training runs, %d tables, %d predictors, %d bytes, transaction %d\n", s.Path, h.Versions, h.Policies, h.Runs, h.Tables, h.Predictors, h.Size, h.Transaction)
			for _, text := range h.Warnings {
				fmt.Fprintln(out, "warning:", text)
			}
			for _, text := range h.Faults {
				fmt.Fprintln(out, "fault:", text)
			}
			if n := len(h.Faults); n > 0 {
				return fmt.Errorf("store %s has %d faults; restore a copy, or remove what is named: gearshift policy rm NAME@VERSION, or gearshift quality rm for a predictor", s.Path, n)
			}
			_, err = fmt.Fprintln(out, "it is intact")
			return err
		},
	}
}

func newStoreBackup(store func() *checkpoints.Store) *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "backup FILE", Short: "Copy the store, as it is at one moment, to a file",
		Long: `Copy the store, as it is at one moment, to a file, which appears whole and is a store
itself. A server may use the store meanwhile; commands that write wait.`,
		Example: "  gearshift store backup gearshift-$(date +%F).db",
		Args:    cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			s := store()
			size, err := s.Backup(args[0], force)
			if err != nil {
				return err
			}
			h, err := (&checkpoints.Store{Path: args[0]}).Verify()
			if err == nil && len(h.Faults) > 0 {
				err = errors.New(h.Faults[0])
			}
			if err != nil {
				return fmt.Errorf("the copy in %s contains what is damaged in %s: %w", args[0], s.Path, err)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "wrote %d bytes to %s: %d versions of %d policies, %d training runs, %d predictors\n", size, args[0], h.Versions, h.Policies, h.Runs, h.Predictors)
			return err
		},
	}
	c.Flags().BoolVar(&force, "force", false, "replace the file if there is one")
	return c
}

func newStoreCopy(store func() *checkpoints.Store) *cobra.Command {
	return &cobra.Command{
		Use: "copy " + addressArgument, Short: "Copy the store into etcd, where routers share it",
		Long: `Copy the store, as it is at one moment, into etcd, where there must be none yet at the
address: ` + etcd.Form + `. From then on, give all routers and commands the
address as --store. backup copies the other way.`,
		Example: "  gearshift store copy etcd://etcd-0:2379,etcd-1:2379/gearshift --store gearshift.db",
		Args:    cli.One,
		RunE: func(c *cobra.Command, args []string) error {
			s, to := store(), &checkpoints.Store{Path: args[0]}
			if err := s.Copy(to); err != nil {
				return err
			}
			h, err := to.Verify()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "copied to %s: %d versions of %d policies, %d training runs, %d predictors\n", to.Path, h.Versions, h.Policies, h.Runs, h.Predictors)
			return err
		},
	}
}

// addressArgument shows the address of a store in etcd in a command's usage.
const addressArgument = "etcd://HOST:PORT/PREFIX"

func newStoreCompact(store func() *checkpoints.Store) *cobra.Command {
	return &cobra.Command{
		Use: "compact", Short: "Rewrite the store without the space of removed entries",
		Long: `Rewrite the store without the space of removed entries. The old file stays until the
new one is whole, checked and on the disk. Other commands wait meanwhile. It is for stores in
files: etcd compacts its own history.`,
		Example: "  gearshift store compact",
		Args:    cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			s := store()
			before, after, err := s.Compact()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: %d bytes, were %d\n", s.Path, after, before)
			return err
		},
	}
}
