//go:build !linux

package lastcall

// refuseNew does nothing: there is no way to.
func refuseNew(uintptr) {}
