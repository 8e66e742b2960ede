package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/onnxruntime"
)

// version is the release that the tree belongs to.
const version = "0.1.0"

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version and what this build has", Args: cli.None,
		Run: func(c *cobra.Command, _ []string) {
			out := c.OutOrStdout()
			fmt.Fprintf(out, "gearshift %s%s, %s %s/%s\n", version, revision(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			fmt.Fprintln(out, "training:     ", trainingStack)
			fmt.Fprintln(out, "onnx runtime: ", onnxruntime.ONNXRuntime())
		},
	}
}

// revision is the commit that the build was made from, if it was recorded.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return " (" + s.Value[:12] + ")"
		}
	}
	return ""
}
