//go:build linux

// Command overhead measures what proxies add to requests on their way to an upstream
// that answers at once. scripts/bench-proxy.sh starts what it measures.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root := &cobra.Command{
		Use:           "overhead",
		Short:         "Measure what proxies add to requests",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.AddCommand(newBareCommand(), newMeasureCommand(), newTableCommand())
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}
