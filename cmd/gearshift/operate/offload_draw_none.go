//go:build serveonly

package operate

import "errors"

// draw draws nothing: this build leaves figures out.
func (*recording) draw(string) error {
	return errors.New("--out draws figures, which are not in this build (serveonly)")
}
