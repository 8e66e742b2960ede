//go:build unix

package admission

import (
	"net"
	"os"
	"syscall"
)

// complete is a connection that can be accepted without waiting; nil if there is none.
func (l *DrainListener) complete() net.Conn {
	raw, err := l.SyscallConn()
	if err != nil {
		return nil
	}
	accepted := -1
	if err := raw.Control(func(fd uintptr) { accepted = accept(int(fd)) }); err != nil || accepted < 0 {
		return nil
	}
	file := os.NewFile(uintptr(accepted), "connection")
	defer file.Close() // the connection has a copy
	c, err := net.FileConn(file)
	if err != nil {
		return nil
	}
	return c
}

func accept(fd int) int {
	for {
		syscall.ForkLock.RLock()
		accepted, _, err := syscall.Accept(fd)
		if err == nil {
			syscall.CloseOnExec(accepted)
		}
		syscall.ForkLock.RUnlock()
		switch err {
		case nil:
			return accepted
		case syscall.EINTR, syscall.ECONNABORTED:
		default:
			return -1
		}
	}
}
