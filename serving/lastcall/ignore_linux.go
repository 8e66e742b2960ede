package lastcall

import "golang.org/x/sys/unix"

// The flags of a TCP header, and two of them.
const (
	flags = 13
	syn   = 0x02
	ack   = 0x10
)

// onlyBegun lets all packets pass but those that begin a connection.
var onlyBegun = []unix.SockFilter{
	{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: flags},
	{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: syn | ack},
	{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: syn, Jt: 0, Jf: 1},
	{Code: unix.BPF_RET | unix.BPF_K, K: 0},
	{Code: unix.BPF_RET | unix.BPF_K, K: 1<<32 - 1},
}

// ignoreNew has the system drop what begins a connection to a listening socket. The client tries
// again after a second, and is refused if no other server listens there by then. Where this is not
// possible, a connection that begins as the listener closes is reset.
func ignoreNew(fd uintptr) {
	_ = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
		&unix.SockFprog{Len: uint16(len(onlyBegun)), Filter: &onlyBegun[0]})
}
