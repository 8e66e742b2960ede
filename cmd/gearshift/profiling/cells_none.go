//go:build serveonly

package profiling

import "errors"

// WriteReport draws nothing: this build leaves figures out.
func (*Profile) WriteReport(string) error {
	return errors.New("--report draws figures, which are not in this build (serveonly)")
}
