//go:build !unix

package draingrace

import "net"

// complete is nil: there is no way to ask without waiting.
func (l *Listener) complete() net.Conn { return nil }
