//go:build !unix

package backend

// quiet is not known here.
func (*link) quiet() bool { return true }
