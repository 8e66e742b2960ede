//go:build serveonly

package quality

import "errors"

// Picture returns an error: this build draws nothing.
func (r *Report) Picture() ([]byte, error) {
	return nil, errors.New("this build draws no figures; want one without the tag serveonly")
}
