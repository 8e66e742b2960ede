//go:build serveonly

package profiling

import (
	"errors"

	"gearshift/env/fit"
)

// WriteResiduals draws nothing: this build leaves figures out.
func WriteResiduals(*fit.Log, *fit.Fitted, string) error {
	return errors.New("--out draws figures, which are not in this build (serveonly)")
}

// WriteReport draws nothing: this build leaves figures out.
func (*Profile) WriteReport(string) error {
	return errors.New("--report draws figures, which are not in this build (serveonly)")
}
