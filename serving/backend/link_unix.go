//go:build unix

package backend

import "syscall"

// quiet says that nothing has come on a connection that waits for a request: neither
// bytes, which would be taken for the next answer, nor its end. What has come is lost.
func (l *link) quiet() bool {
	conn, ok := l.conn.(syscall.Conn)
	if !ok {
		return true // in memory
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	nothing := false
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, err := syscall.Read(int(fd), b[:])
		nothing = err == syscall.EAGAIN
		return true // and do not wait for more
	})
	return err == nil && nothing
}
