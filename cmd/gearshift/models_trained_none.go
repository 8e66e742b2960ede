//go:build serveonly

package main

import (
	"context"
	"fmt"
	"io"
)

// makeTrained only says that this build leaves the training stack out.
func makeTrained(_ context.Context, o makeOptions, _, _ io.Writer) error {
	return fmt.Errorf("--family %s: training is %s; make the model where a build has it, and bring its folder here", o.family, trainingStack)
}
