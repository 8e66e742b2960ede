//go:build serveonly

package main

import (
	"context"
	"fmt"
	"io"
)

// makeDigits only says that this build leaves the training stack out.
func makeDigits(context.Context, makeOptions, io.Writer, io.Writer) error {
	return fmt.Errorf("--family digits: training is %s; make the model where a build has it, and bring its folder here", trainingStack)
}
