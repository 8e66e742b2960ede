//go:build !linux

package draingrace

// refuseNew does nothing: there is no way to.
func refuseNew(uintptr) {}
