package admission

import (
	"math"

	"golang.org/x/sys/unix"
)

// refuseNew has the system refuse what begins a connection to a listening socket: it binds the
// socket to a network interface that does not exist, which leaves the connections that it has
// already as they are. Some kernels have no socket filters, but all from Linux 5.7 on have this.
// Where it is not possible, a connection that begins as the listener closes is reset.
func refuseNew(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BINDTOIFINDEX, math.MaxInt32)
}
