//go:build serveonly

package main

import "errors"

// writeCells draws nothing: this build leaves figures out.
func writeCells(*measuredProfile, string) error {
	return errors.New("--report draws figures, which are not in this build (serveonly)")
}
