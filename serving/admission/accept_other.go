//go:build !unix

package admission

import "net"

// complete is nil: there is no way to ask without waiting.
func (l *DrainListener) complete() net.Conn { return nil }
