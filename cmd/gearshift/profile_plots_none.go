//go:build serveonly

package main

import (
	"errors"

	"gearshift/env/fit"
)

// writeResiduals draws nothing: this build leaves figures out.
func writeResiduals(*fit.Log, *fit.Fitted, string) error {
	return errors.New("--out draws figures, which are not in this build (serveonly)")
}
